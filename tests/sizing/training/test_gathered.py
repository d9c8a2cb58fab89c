"""Weights gathered from other ranks and 16-bit copies of those in 32 bit, worked by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from app.sizing.training.gathered import (
    cast_bytes,
    end_params_per_rank,
    gathered_bytes,
    head_cast_bytes,
    layer_params_per_rank,
)
from app.sizing.training.layouts import FULL
from app.sizing.training.loss import CHUNKED, FUSED
from tests.examples import col, row

# Eight layers of 10 dense and 40 routed parameters, four of them with experts; an embedding of 6, a head of 4.
COUNTS: Any = row(
    embedding_params=6.0,
    head_params=4.0,
    total_params=250.0,
    routed_params=160.0,
    routing_layers=4.0,
    weight_layers=8.0,
    linear_params=240.0,
    head_matmul_params=4.0,
)


def test_a_layer_on_a_rank_has_its_share_of_experts() -> None:
    plans: Any = row(tensor_parallel=col(1, 2))
    assert layer_params_per_rank(COUNTS, plans, col(1, 8)).tolist() == [10 + 40, 5 + 5]


def test_stages_have_one_end_each() -> None:
    plans: Any = row(pipeline_parallel=col(1, 2, 1), tensor_parallel=col(1, 1, 2))
    assert end_params_per_rank(COUNTS, plans).tolist() == [10, 6, 5]


@pytest.mark.parametrize("units", [1.0, 2.0, 3.0])
def test_ends_and_units_in_use_are_gathered(units: float) -> None:
    params: Any = row(ends=4.0, gathered=2.0)
    found = gathered_bytes(np.array([True, False]), col(10, 10), col(50, 50), col(units, units), params)
    assert found.tolist() == [4 * 10 + units * 2 * 50, 0]


def test_autocast_keeps_copies_of_layers_that_are_whole_and_not_recomputed() -> None:
    plans: Any = row(
        activation_checkpointing=np.array([0, FULL, 0, 0]),
        zero_stage=col(0, 0, 3, 1),
        pipeline_parallel=col(1, 1, 1, 2),
        tensor_parallel=col(1, 1, 1, 3),
    )
    params: Any = row(casts=2.0)
    assert cast_bytes(COUNTS, plans, params).tolist() == [480, 0, 0, 80]


@pytest.mark.parametrize(
    ("frozen", "loss", "copies"), [(True, CHUNKED, 8), (True, FUSED, 1), (False, CHUNKED, 1), (False, FUSED, 1)]
)
def test_a_frozen_head_is_copied_for_each_chunk_of_a_loss(frozen: bool, loss: int, copies: int) -> None:
    plans, framework, params = row(tensor_parallel=col(2)), row(loss=col(loss), loss_chunks=col(8)), row(head_casts=2.0)
    said: Any = (COUNTS, plans, framework, params, row(frozen=frozen))
    assert head_cast_bytes(*said).tolist() == [copies * 4]
