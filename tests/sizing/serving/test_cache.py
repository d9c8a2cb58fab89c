"""What caches take of a device, worked by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from app.sizing.model.architecture import ModelKind
from app.sizing.serving.cache import (
    Prefixes,
    cache_bytes,
    idle_session_prefixes,
    length_biased_output_tokens,
    mean_cache_bytes,
    sequence_cache_bytes,
)
from app.sizing.workload import InferenceWorkload, Lengths, Load
from tests.examples import col
from tests.sizing.serving.given import DENSE, on_big, varied

TOKEN = 4 * 2 * 4 * 128 * 2  # bytes of cache: keys and values of four heads in four layers
CHAT_TURN = varied(input_tokens=Lengths(1000.0), cached_prefix_fraction=0.75, turn_gap_s=60.0)


def kept(workload: InferenceWorkload, **layout: Any) -> Prefixes:
    found = idle_session_prefixes(workload, on_big(workload.model, **layout))
    assert found is not None
    return found


def test_a_sequence_at_its_end_in_the_mean_and_at_its_longest() -> None:
    final, held, longest = sequence_cache_bytes(DENSE, on_big(), 1000.0, 400.0, 0.0, 4000.0)
    assert (final[0], held[0], longest[0]) == (1000 * TOKEN, 800 * TOKEN, 4000 * TOKEN)
    # of outputs that vary by a half what runs is the longer ones: 600 + 400 * 1.25 / 2
    assert sequence_cache_bytes(DENSE, on_big(), 1000.0, 400.0, 0.25, 4000.0)[1][0] == 850 * TOKEN


def test_an_engine_that_reserves_the_output_holds_it() -> None:
    assert length_biased_output_tokens(400.0, 0.25) == 500
    assert mean_cache_bytes(col(800), col(1000), col(0.0, 0.5, 1.0)).tolist() == [800, 900, 1000]


def test_an_idle_session_keeps_what_the_next_turn_begins_with() -> None:
    found = kept(CHAT_TURN)
    assert (found.own_bytes[0], found.shared_bytes[0], found.turn_gap_s) == (750 * TOKEN, 0, 60)
    assert kept(CHAT_TURN, tensor_parallel=2).own_bytes[0] == 750 * TOKEN / 2


def test_what_all_share_is_nobodys_own() -> None:
    found = kept(replace(CHAT_TURN, shared_prefix_fraction=0.5))
    assert (found.own_bytes[0], found.shared_bytes[0]) == (250 * TOKEN, 500 * TOKEN)
    whole = kept(replace(CHAT_TURN, shared_prefix_fraction=0.75))
    assert (whole.own_bytes[0], whole.shared_bytes[0]) == (0, 750 * TOKEN)


def test_windows_bound_a_prefix_and_a_state_is_kept_once_for_each_session() -> None:
    windows = replace(DENSE, attention=tuple(replace(g, window_tokens=100.0) for g in DENSE.attention))
    assert kept(replace(CHAT_TURN, model=windows)).own_bytes[0] == 100 * TOKEN
    states = replace(DENSE, state_bytes_per_sequence=8e6)
    shared = kept(replace(CHAT_TURN, model=states, shared_prefix_fraction=0.5))
    assert shared.own_bytes[0] == pytest.approx(250 * TOKEN + 8e6)
    assert shared.shared_bytes[0] == pytest.approx(500 * TOKEN + 8e6)
    # of a session that adds nothing of its own, not even a state
    assert kept(replace(CHAT_TURN, model=states, shared_prefix_fraction=0.75)).own_bytes[0] == 0
    assert cache_bytes(states, 0.0, on_big(states))[0] == 8e6


@pytest.mark.parametrize(
    "changed",
    [
        {"cached_prefix_fraction": 0.0},
        {"turn_gap_s": 0.0},
        {"load": Load.OFFLINE},
        {"load": Load.BATCH},
        {"model": replace(DENSE, kind=ModelKind.ENCODER)},
    ],
)
def test_nothing_waits_where_there_is_no_next_turn(changed: dict[str, Any]) -> None:
    assert idle_session_prefixes(replace(CHAT_TURN, **changed), on_big()) is None


def test_a_closed_loop_has_turns_too() -> None:
    assert kept(replace(CHAT_TURN, load=Load.CLOSED, in_flight=4.0)).own_bytes[0] == 750 * TOKEN
