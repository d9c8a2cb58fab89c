"""Replicas that follow a day: how many, by what, and where nothing is said."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from app.export.handoff.follow import LONGEST_WAIT_S, Following, following_notes, following_of
from tests.export.handoff.stored import DAY, pooled, served


def test_a_day_says_between_how_many_replicas_and_what_one_bears() -> None:
    found = following_of(served(day=DAY))
    assert found == Following(least=2, most=3, spares=1, peak_per_s=8.0, start_s=95.5)
    assert found.each_per_s == 4.0  # of two that are needed
    assert found.shared_per_s == 2.66  # of three
    assert found.wait_s == 96


@given(st.integers(2, 300), st.integers(0, 3), st.floats(1e-3, 1e5))
def test_at_the_peak_all_replicas_run(needed: int, spares: int, peak: float) -> None:
    found = Following(least=1, most=needed + spares, spares=spares, peak_per_s=peak, start_s=1e6)
    assert math.ceil(peak / found.each_per_s) + spares >= found.most
    assert math.ceil(peak / found.shared_per_s) >= found.most
    assert found.each_per_s >= 0.98 * peak / needed  # and none are asked for that no load needs
    assert found.wait_s == LONGEST_WAIT_S


def test_without_hours_nothing_follows() -> None:
    assert following_of(served()) is None
    assert following_notes(served()) == ()
    even = {**DAY, "autoscaled": {"least_replicas": 3}}
    assert following_of(served(day=even)) is None
    assert following_of(pooled()) is None


def test_notes_state_the_replicas_and_the_ramp() -> None:
    notes = " ".join(following_notes(served(day=DAY)))
    assert "Autoscaling runs 2 to 3 replicas, one per 4 requests/s." in notes
    assert "too long for this day's ramp" in notes
    assert "costs no more" in " ".join(following_notes(served(day={**DAY, "cheaper": "fixed"})))
