"""Activations and logits of a micro-batch, worked by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from app.sizing.assumptions import Assumptions
from app.sizing.training.activations import (
    in_flight_bytes,
    kept_bytes_per_token_layer,
    logits_chunk_bytes,
    loss_beyond_bytes,
    loss_bytes,
    micro_batch_activation_bytes,
    micro_batches_in_flight,
    recomputed_bytes,
    sample_activation_bytes,
    score_bytes_per_token_layer,
    whole_bytes_per_token_layer,
)
from tests.examples import col, row
from tests.sizing.training.counted import COUNTS, layout

NONE, SELECTIVE, FULL = 0, 1, 2


def test_scores_are_stored_without_flash_attention() -> None:
    assert score_bytes_per_token_layer(COUNTS, layout()).tolist() == [0]
    assert score_bytes_per_token_layer(COUNTS, layout(flash_attention=False)).tolist() == [5 * 10 * 1000]
    assert whole_bytes_per_token_layer(COUNTS, layout()).tolist() == [5000]
    assert whole_bytes_per_token_layer(COUNTS, layout(fused_modules=False)).tolist() == [7000]


@pytest.mark.parametrize(
    ("checkpointing", "fused", "recipe", "kept"),
    [
        (NONE, True, {}, 5000 + 300),
        (SELECTIVE, True, {}, 5000 - 1600),
        (FULL, True, {}, 2 * 100),
        # FP8 keeps inputs of 2h + attention + MLP a byte narrower
        (NONE, True, {"kept_bytes_saved_per_input": 1.0}, 5000 - (200 + 120 + 400) + 300),
        # eager adapters keep their inputs, 2h + f, in 32 bit
        (NONE, False, {"adapter_bytes_per_param": 4.0}, 5000 + 4 * (200 + 400) + 300),
        (NONE, True, {"adapter_bytes_per_param": 4.0}, 5000 + 300),
    ],
)
def test_what_is_kept_for_backward(checkpointing: int, fused: bool, recipe: dict[str, Any], kept: float) -> None:
    plans = layout(activation_checkpointing=checkpointing, fused_modules=fused)
    changed = replace(COUNTS.recipe, **recipe)
    assert kept_bytes_per_token_layer(COUNTS, changed, plans, col(5000), col(300)).tolist() == [kept]


def test_ranks_share_activations() -> None:
    found = micro_batch_activation_bytes(COUNTS, layout(), col(1000), col(5000))
    assert found[0] == pytest.approx(1000 * 5000 / 4 * 4)  # four ranks, four layers of twelve
    whole = layout(sequence_parallel=False, activation_checkpointing=FULL)
    assert micro_batch_activation_bytes(COUNTS, whole, col(1000), col(200)).tolist() == [1000 * 200 * 4]
    partly = layout(sequence_parallel=False, activation_checkpointing=SELECTIVE)
    assert micro_batch_activation_bytes(COUNTS, partly, col(1000), col(200)).tolist() == [1000 * 200]


def test_the_layer_that_is_recomputed_lies_beside() -> None:
    def of(checkpointing: int) -> float:
        plans = layout(activation_checkpointing=checkpointing)
        return float(recomputed_bytes(COUNTS, plans, col(1000), col(5000), col(300))[0])

    assert [of(NONE), of(SELECTIVE), of(FULL)] == [0, 1000 * 4 * 400 / 4, 1000 * 5300 / 4]


def test_logits_are_held_whole_or_by_the_chunk() -> None:
    assert loss_bytes(COUNTS, layout(), col(1000)).tolist() == [1000 * 5000 * 10 / 4]
    assert loss_bytes(COUNTS, layout(fused_modules=False), col(1000)).tolist() == [1000 * 5000 * 16 / 4]
    fused = layout(fused_cross_entropy=True)
    assert loss_bytes(COUNTS, fused, col(1000)).tolist() == [0]
    chunk = Assumptions(loss_chunk_tokens=512)
    assert logits_chunk_bytes(COUNTS, layout(), col(1000), chunk).tolist() == [0]
    assert logits_chunk_bytes(COUNTS, fused, col(1000), chunk).tolist() == [512 * 5000 * 10 / 4]
    assert logits_chunk_bytes(COUNTS, fused, col(100), chunk).tolist() == [100 * 5000 * 10 / 4]
    assert sample_activation_bytes(replace(COUNTS, sample_kept_bytes=7.0), layout()).tolist() == [14]


@pytest.mark.parametrize(
    ("micro_batches", "stages", "chunks", "in_flight"),
    [(64, 4, 1, 4 * 1.75), (64, 4, 2, 4 * 1.375), (2, 4, 1, 2), (64, 1, 1, 1), (5, 4, 1, 5)],
)
def test_stages_hold_several_micro_batches(
    micro_batches: float, stages: float, chunks: float, in_flight: float
) -> None:
    micro: Any = row(stages=col(stages), virtual_pipeline=col(chunks))
    assert micro_batches_in_flight(col(micro_batches), micro).tolist() == pytest.approx([in_flight])


def test_the_last_stage_forms_the_logits_beside_one_micro_batch() -> None:
    micro: Any = row(stages=col(4), activation_bytes=col(100), loss_bytes=col(500))
    assert in_flight_bytes(micro.activation_bytes, col(4)).tolist() == [400]
    assert loss_beyond_bytes(micro, col(400)).tolist() == [200]
    assert loss_beyond_bytes(micro, col(900)).tolist() == [0]
    alone: Any = row(stages=col(1), activation_bytes=col(100), loss_bytes=col(500))
    assert loss_beyond_bytes(alone, col(400)).tolist() == [500]
