"""Micro-batches in flight, as the schedules of Megatron-LM hold them."""

from __future__ import annotations

import pytest

from app.sizing.training.pipeline import micro_batches_in_flight, stage_layers, stage_share
from tests.examples import col


def simulated(stages: int, chunks: int, place: int, micro_batches: int) -> float:
    """The most chunks that a stage holds while a schedule of one forward, one backward runs, in micro-batches."""
    behind = stages - 1 - place
    forward = 2 * behind + (chunks - 1) * stages if chunks > 1 else behind
    total, held, most = micro_batches * chunks, 0, 0
    warm = min(forward, total)
    for step in range(total + warm):
        held += step < total
        most = max(most, held)
        held -= step >= warm
    return most / chunks


@pytest.mark.parametrize("stages", [1, 2, 4, 8])
@pytest.mark.parametrize("chunks", [1, 2, 4])
@pytest.mark.parametrize("micro_batches", [8, 64])
def test_stages_hold_what_the_schedule_has_in_flight(stages: int, chunks: int, micro_batches: int) -> None:
    if stages == 1 and chunks > 1:
        return
    for place in range(stages):
        found = micro_batches_in_flight(col(micro_batches), col(stages), col(chunks), col(place))
        assert found.tolist() == [simulated(stages, chunks, place, micro_batches)]


def test_the_first_stage_holds_the_most_and_never_more_than_a_step_has() -> None:
    held = [micro_batches_in_flight(col(6), col(8), col(1), col(place))[0] for place in range(8)]
    assert held == [6, 6, 6, 5, 4, 3, 2, 1]


@pytest.mark.parametrize(("stages", "layers"), [(1, 32), (3, 11), (16, 2), (32, 1)])
def test_a_stage_has_whole_layers(stages: int, layers: int) -> None:
    assert stage_layers(32.0, col(stages)).tolist() == [layers]
    assert stage_share(32.0, col(stages)).tolist() == [layers / 32]
