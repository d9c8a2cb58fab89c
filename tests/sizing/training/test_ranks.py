"""What one rank holds and works on, worked by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from app.sizing.training.ranks import (
    accelerators,
    adapter_params_per_rank,
    data_group,
    dense_params_per_rank,
    expert_group,
    expert_shards,
    held_params,
    micro_batches,
    routed_params_per_rank,
    sequence_split,
    tokens_per_micro_batch,
    trained_dense_params_per_rank,
    virtual_pipeline,
)
from tests.examples import col
from tests.sizing.training.counted import COUNTS, layout


def test_degrees_multiply() -> None:
    assert accelerators(layout(), col(5)).tolist() == [4 * 3 * 2 * 5]
    assert data_group(layout(), col(5)).tolist() == [10]
    assert expert_shards(layout()).tolist() == [8]
    assert expert_shards(layout(expert_parallel=1)).tolist() == [4]  # the tensor group's
    assert expert_group(layout(), col(5), col(8)).tolist() == [5]
    assert expert_group(layout(), col(1), col(64)).tolist() == [1]
    assert sequence_split(layout()).tolist() == [4]
    assert sequence_split(layout(sequence_parallel=False)).tolist() == [1]


def test_a_step_is_divided_over_replicas_and_micro_batches() -> None:
    assert micro_batches(COUNTS, layout(), col(4)).tolist() == [64 / (4 * 2)]
    assert micro_batches(COUNTS, layout(), col(64)).tolist() == [1]
    assert tokens_per_micro_batch(COUNTS, layout()).tolist() == [2 * 1000 / 2]


@pytest.mark.parametrize(
    ("columns", "chunks"),
    [
        ({"pipeline_parallel": 3}, 4),  # twelve layers: four to a stage, a layer to a chunk
        ({"pipeline_parallel": 12}, 1),
        ({"pipeline_parallel": 5}, 2),
        ({"pipeline_parallel": 24}, 1),
        ({"pipeline_parallel": 1}, 1),
        ({"interleaved_pipeline": False}, 1),
        ({"asked_virtual_pipeline": 3}, 3),
        ({"asked_virtual_pipeline": 3, "pipeline_parallel": 1}, 1),
    ],
)
def test_chunks_of_a_stage(columns: dict[str, float], chunks: float) -> None:
    assert virtual_pipeline(COUNTS, layout(**columns)).tolist() == [chunks]


def test_parameters_of_a_rank() -> None:
    """10 M, of which 4 M in experts and 1.2 M at the ends; the first stage has 0.5 M, the last 0.7 M."""
    assert dense_params_per_rank(COUNTS, layout())[0] == pytest.approx(4.8e6 / 12 + 0.7e6 / 4)
    alone = dense_params_per_rank(COUNTS, layout(pipeline_parallel=1))[0]
    assert alone == pytest.approx(4.8e6 / 4 + 1.2e6 / 4)
    larger = replace(COUNTS, embedding_params=0.9e6, head_params=0.3e6)
    assert dense_params_per_rank(larger, layout())[0] == pytest.approx(4.8e6 / 12 + 0.9e6 / 4)
    assert routed_params_per_rank(COUNTS, layout(), col(8)).tolist() == [4e6 / 24]
    assert adapter_params_per_rank(COUNTS, layout())[0] == pytest.approx(0.2e6 / 12)


def test_shards_hold_their_share() -> None:
    found = held_params(col(8, 8), col(6, 6), np.array([True, False]), col(4, 4), col(3, 3))
    assert found.tolist() == [2 + 2, 14]


def test_a_network_that_only_assists_a_denoiser_is_not_trained() -> None:
    frozen = replace(COUNTS, frozen_params=24.0)
    assert trained_dense_params_per_rank(frozen, layout(), col(100)).tolist() == [100 - 24 / 12]
    assert trained_dense_params_per_rank(COUNTS, layout(), col(100)).tolist() == [100]
