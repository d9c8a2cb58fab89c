"""A share of a card's time is a slower card, and limits hold in it."""

from __future__ import annotations

from dataclasses import replace

from app.sizing.packing.shares import shares_time, slowed
from app.sizing.workload import Load
from tests.examples import CHAT


def test_a_share_of_the_time_is_a_busier_load_with_tighter_limits() -> None:
    half = slowed(CHAT, 0.5)
    assert half.peak_per_s == 2 * CHAT.peak_per_s
    assert half.slo.ttft_s == 0.5
    assert half.slo.tpot_s == 0.025
    assert half.slo.e2e_s is None
    assert slowed(CHAT, 1.0) == CHAT


def test_only_what_comes_by_itself_leaves_time_to_others() -> None:
    assert shares_time(CHAT)
    assert shares_time(replace(CHAT, load=Load.CLOSED, in_flight=8.0))
    assert not shares_time(replace(CHAT, load=Load.OFFLINE))
    assert not shares_time(replace(CHAT, load=Load.CLOSED, in_flight=8.0, requests=100.0))
