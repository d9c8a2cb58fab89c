"""Replicas that follow a day: how many, by what, and where nothing is said."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from app.export.handoff.follow import MAX_SCALE_DOWN_DELAY_S, ReplicaRange, replica_range, scaling_notes
from tests.export.handoff.stored import DAY, pooled, served


def test_a_day_says_between_how_many_replicas_and_what_one_bears() -> None:
    found = replica_range(served(day=DAY))
    assert found == ReplicaRange(min_replicas=2, max_replicas=3, spares=1, peak_per_s=8.0, start_s=95.5)
    assert found.rate_without_spares == 4.0  # of two that are needed
    assert found.rate_with_spares == 2.66  # of three
    assert found.scale_down_delay_s == 96


@given(st.integers(2, 300), st.integers(0, 3), st.floats(1e-3, 1e5))
def test_at_the_peak_all_replicas_run(needed: int, spares: int, peak: float) -> None:
    found = ReplicaRange(min_replicas=1, max_replicas=needed + spares, spares=spares, peak_per_s=peak, start_s=1e6)
    assert math.ceil(peak / found.rate_without_spares) + spares >= found.max_replicas
    assert math.ceil(peak / found.rate_with_spares) >= found.max_replicas
    assert found.rate_without_spares >= 0.98 * peak / needed  # and none are asked for that no load needs
    assert found.scale_down_delay_s == MAX_SCALE_DOWN_DELAY_S


def test_without_hours_nothing_follows() -> None:
    assert replica_range(served()) is None
    assert scaling_notes(served()) == ()
    even = {**DAY, "autoscaled": {"least_replicas": 3}}
    assert replica_range(served(day=even)) is None
    assert replica_range(pooled()) is None


def test_notes_state_the_replicas_and_the_ramp() -> None:
    notes = " ".join(scaling_notes(served(day=DAY)))
    assert "Autoscaling runs 2 to 3 replicas, one per 4 requests/s." in notes
    assert "too long for this day's ramp" in notes
    assert "costs no more" in " ".join(scaling_notes(served(day={**DAY, "cheaper": "fixed"})))
