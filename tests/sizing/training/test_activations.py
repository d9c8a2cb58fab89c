"""Activations of a micro-batch on one accelerator, worked by hand."""

from __future__ import annotations

from typing import Any

from app.sizing.training.activations import (
    in_flight_bytes,
    kept_layer_bytes,
    loss_beyond_bytes,
    micro_batch_activation_bytes,
    sent_split,
    stream_bytes,
    working_layer_bytes,
)
from tests.examples import col, row
from tests.sizing.training.counted import COUNTS, layout

LAYER: Any = row(
    kept_hidden=col(1000),
    kept_split=col(400),
    kept_routed=col(40),
    kept_sent=col(20),
    working_hidden=col(100),
    working_split=col(80),
    working_routed=col(4),
    working_sent=col(8),
    exchanged=col(6),
)


def test_ranks_share_what_lies_between_their_matrices_and_split_the_rest() -> None:
    alone = layout(expert_parallel=1)
    assert kept_layer_bytes(alone, LAYER, col(10), col(4), col(4)).tolist() == [10 * (250 + 110 + 5)]
    assert kept_layer_bytes(alone, LAYER, col(10), col(1), col(1)).tolist() == [10 * (1000 + 110 + 20)]
    assert working_layer_bytes(alone, LAYER, col(10), col(4), col(4)).tolist() == [10 * (25 + 21 + 2)]
    assert micro_batch_activation_bytes(col(50), col(4)).tolist() == [50 * 4]


def test_what_experts_exchanged_is_kept_instead_of_recomputed() -> None:
    spread = layout(expert_parallel=2)
    assert kept_layer_bytes(spread, LAYER, col(10), col(1), col(1)).tolist() == [10 * (1000 + 110 + 26)]
    assert working_layer_bytes(spread, LAYER, col(10), col(1), col(1)).tolist() == [10 * (100 + 21 + 2)]


def test_a_stream_is_split_like_the_sequence() -> None:
    assert stream_bytes(COUNTS, col(10), col(4)).tolist() == [2 * 10 * 100 / 4]


def test_the_last_stage_holds_the_logits_and_one_micro_batch() -> None:
    micro: Any = row(stages=col(4), activation_bytes=col(100))
    assert in_flight_bytes(micro.activation_bytes, col(4)).tolist() == [400]
    assert loss_beyond_bytes(micro, col(500), col(100), col(400)).tolist() == [200]
    assert loss_beyond_bytes(micro, col(500), col(100), col(900)).tolist() == [0]
    alone: Any = row(stages=col(1), activation_bytes=col(100))
    assert loss_beyond_bytes(alone, col(500), col(400), col(400)).tolist() == [500]


def test_tokens_at_their_experts_are_whole_where_experts_are_split_over_the_tensor_group() -> None:
    assert sent_split(layout(), col(4)).tolist() == [4]
    assert sent_split(layout(expert_parallel=1), col(4)).tolist() == [1]
