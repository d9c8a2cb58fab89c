"""A share of a card's time is a slower card, and limits hold in it."""

from __future__ import annotations

from dataclasses import replace

from app.sizing.packing.shares import leaves_time_to_others, slow_down_workload
from app.sizing.workload import Load
from tests.examples import CHAT


def test_a_share_of_the_time_is_a_busier_load_with_tighter_limits() -> None:
    half = slow_down_workload(CHAT, 0.5)
    assert half.peak_per_s == 2 * CHAT.peak_per_s
    assert half.slo.ttft_s == 0.5
    assert half.slo.tpot_s == 0.025
    assert half.slo.e2e_s is None
    assert slow_down_workload(CHAT, 1.0) == CHAT


def test_only_what_comes_by_itself_leaves_time_to_others() -> None:
    assert leaves_time_to_others(CHAT)
    assert leaves_time_to_others(replace(CHAT, load=Load.CLOSED, in_flight=8.0))
    assert not leaves_time_to_others(replace(CHAT, load=Load.OFFLINE))
    assert not leaves_time_to_others(replace(CHAT, load=Load.CLOSED, in_flight=8.0, requests=100.0))
