"""How long nothing runs, against a simulation of single requests."""

from __future__ import annotations

import random

import pytest

from app.sizing.columns import column
from app.sizing.day.zero import idle_share


def simulated_idle_share(load_per_s: float, stops_after_s: float, start_s: float) -> float:
    """Share of the time without a replica, request by request."""
    draw, now, idle, up_until = random.Random(3), 0.0, 0.0, 0.0
    for _ in range(200_000):
        now += draw.expovariate(load_per_s)
        if now > up_until:
            idle += now - up_until
            up_until = now + start_s + stops_after_s
        else:
            up_until = max(up_until, now + stops_after_s)
    return idle / now


@pytest.mark.parametrize("gap_s", [60.0, 300.0, 1200.0, 7200.0])
@pytest.mark.parametrize("start_s", [30.0, 240.0])
def test_the_share_is_that_of_a_simulation(gap_s: float, start_s: float) -> None:
    share = float(idle_share(column(1 / gap_s), 300.0, start_s))
    assert share == pytest.approx(simulated_idle_share(1 / gap_s, 300.0, start_s), rel=0.1, abs=0.01)


def test_without_load_nothing_ever_runs_and_under_a_full_one_something_always_does() -> None:
    assert idle_share(column([0.0, 1e6]), 300.0, 60.0).tolist() == [1.0, 0.0]


def test_less_load_is_never_less_idle() -> None:
    shares = idle_share(column([0.0, 1e-4, 1e-3, 1e-2, 0.1, 1.0]), 300.0, 60.0).tolist()
    assert shares == sorted(shares, reverse=True)
