"""Replicas that follow a load, against an exact replay of a day second by second, and relations that hold of any."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.sizing.columns import Column
from app.sizing.day.scaling import (
    Autoscaler,
    load_per_minute,
    min_replicas_for_load,
    simulate_autoscaling,
    steepest_rise_per_s,
    window_max,
)
from app.sizing.workload import HOURS

DAY = (0.1, 0.05, 0.05, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.0, 1.0, 0.9, 0.9, 1.0, 0.9, 0.8, 0.7, 0.6) + (0.4,) * 5
JUMP = (0.0,) * 9 + (1.0,) * 8 + (0.1,) * 7
AT = Autoscaler(
    capacity_per_s=2.0,
    target_utilization=0.7,
    most_replicas=72.0,
    start_s=300.0,
    supply_per_s=float("inf"),
    keep_s=300.0,
)
PEAK_PER_S, DAY_S = 100.0, 86_400
SHARES = st.lists(st.floats(0, 1), min_size=HOURS, max_size=HOURS).map(tuple)
FLEETS = st.builds(
    Autoscaler,
    capacity_per_s=st.floats(0.3, 20),
    target_utilization=st.floats(0.3, 1.0),
    most_replicas=st.just(1e6),
    start_s=st.floats(0, 3600),
    supply_per_s=st.one_of(st.just(float("inf")), st.floats(0.001, 1.0)),
    keep_s=st.floats(0, 3600),
)


@dataclass
class Replayed:
    """What a day came to, second by second."""

    replica_hours: float
    machine_hours: float  # two replicas to a machine
    longest_queue: float
    lost_s: float  # in which more came than replicas that were ready could take


def replay(shares: tuple[float, ...], at: Autoscaler, *, seed: int | None = None) -> Replayed:
    """Orders, starts, stops and a queue, of a controller that looks every second at the load and at the clock: it
    knows the ramp that is due within a start. With a seed requests come at random.
    """
    minutes = load_per_minute(PEAK_PER_S, shares)
    draw = None if seed is None else np.random.default_rng(seed)
    seconds = np.interp(np.arange(DAY_S) / 60, np.arange(1441), np.append(minutes, minutes[0]))
    needed = np.minimum(np.ceil(seconds / (at.capacity_per_s * at.target_utilization) - 1e-9).clip(1), at.most_replicas)
    due = np.ceil(sliding_max(seconds, int(at.start_s)) / at.capacity_per_s - 1e-9)
    evening = (DAY_S - int(at.keep_s)) % DAY_S
    ready_at: list[float] = [-1.0] * int(max(needed[evening], due[evening]))  # of each replica, in order
    wanted_until: list[int] = [0] * len(ready_at)
    paid = machines = queue = longest = 0.0
    lost = 0
    for now in range(DAY_S - int(at.keep_s), 2 * DAY_S):  # from the evening before: what it kept is there
        second, counts = now % DAY_S, now >= DAY_S
        wanted = int(min(max(needed[second], due[second]), at.most_replicas))
        while len(ready_at) < wanted:
            ready_at.append(now + float(at.start_s))
            wanted_until.append(now)
        for i in range(int(needed[second])):
            wanted_until[i] = now
        while len(ready_at) > wanted and wanted_until[-1] + at.keep_s < now:
            ready_at.pop()
            wanted_until.pop()
        able = at.capacity_per_s * sum(ready <= now for ready in ready_at)
        came = seconds[second] if draw is None else draw.poisson(seconds[second])
        lost += counts and seconds[second] > able * (1 + 1e-9)
        queue = max(0.0, queue + came - able)
        longest = max(longest, queue)
        paid += counts * len(ready_at)
        machines += counts * -(-len(ready_at) // 2)
    return Replayed(paid / 3600, machines / 3600, longest, lost)


def sliding_max(values: Column, ahead: int) -> Column:
    """The maximum over a window of entries from each entry on; the day repeats."""
    around = np.concatenate([values, values[: ahead + 1]])
    found: Column = np.lib.stride_tricks.sliding_window_view(around, ahead + 1).max(axis=1)[: len(values)]
    return found


@pytest.mark.parametrize("shares", [DAY, JUMP])
@pytest.mark.parametrize(("start_s", "keep_s"), [(60.0, 300.0), (300.0, 300.0), (1500.0, 300.0), (300.0, 5400.0)])
def test_replica_hours_are_those_of_an_exact_replay_whose_limits_hold_all_day(
    shares: tuple[float, ...], start_s: float, keep_s: float
) -> None:
    at = replace(AT, start_s=start_s, keep_s=keep_s)
    hours = simulate_autoscaling(load_per_minute(PEAK_PER_S, shares), at).ordered.mean() * 24
    found = replay(shares, at)
    assert hours == pytest.approx(found.replica_hours, rel=0.002)
    assert found.lost_s == 0
    assert found.longest_queue < 1e-9


def test_requests_that_come_at_random_hardly_queue_on_what_is_ordered() -> None:
    found = replay(DAY, AT, seed=11)
    assert found.longest_queue < PEAK_PER_S  # a second's worth


def test_without_starting_ahead_a_jump_is_not_carried() -> None:
    """The replay that orders only on demand misses the load; the estimate reports it as not fast enough."""
    at = replace(AT, start_s=1500.0)
    load = load_per_minute(PEAK_PER_S, JUMP)
    assert simulate_autoscaling(load, at).max_warm_replicas > 0
    assert simulate_autoscaling(load, replace(at, start_s=30.0)).max_warm_replicas == 0
    asked = np.minimum(np.ceil(load / 1.4), 72.0)
    ready = np.roll(asked, 25)
    assert (np.minimum(asked, ready) * 2.0 < load - 1e-9).any()


def test_a_store_that_feeds_few_at_a_time_has_them_start_earlier() -> None:
    load = load_per_minute(PEAK_PER_S, JUMP)
    free, fed = (simulate_autoscaling(load, replace(AT, supply_per_s=s)) for s in (float("inf"), 0.01))
    assert (fed.ordered >= free.ordered).all()
    assert fed.ordered.sum() > free.ordered.sum()
    risen = np.diff(fed.ordered[: 13 * 60])
    assert fed.max_warm_replicas > free.max_warm_replicas
    assert risen.max() <= 2


def test_windows_go_round_the_clock_and_cover_the_load_of_hours_by_hand() -> None:
    assert window_max(np.array([3.0, 1.0, 2.0]), 0, 1).tolist() == [3.0, 2.0, 3.0]
    assert window_max(np.array([3.0, 1.0]), 9, 9).tolist() == [3.0, 3.0]
    load = load_per_minute(60.0, (1.0,) + (0.0,) * 23)
    assert (load[30], load[90], load[60], load[-30]) == (60.0, 0.0, 30.0, 0.0)
    assert steepest_rise_per_s(load) == pytest.approx(1.0)
    assert min_replicas_for_load(np.array([0.0, 4.0, 4.1]), 2.0).tolist() == [0.0, 2.0, 3.0]


@given(SHARES, st.integers(0, HOURS - 1), st.floats(0, 1), FLEETS)
def test_more_load_in_any_hour_never_takes_fewer_replicas_in_any_minute(
    shares: tuple[float, ...], hour: int, more: float, at: Autoscaler
) -> None:
    higher = tuple(share + more * (i == hour) for i, share in enumerate(shares))
    low, high = (simulate_autoscaling(load_per_minute(50.0, s), at).ordered for s in (shares, higher))
    assert (high >= low).all()


@given(SHARES, st.floats(1, 5), FLEETS)
def test_a_longer_start_never_takes_fewer_warm_replicas_or_hours(
    shares: tuple[float, ...], longer: float, at: Autoscaler
) -> None:
    load = load_per_minute(50.0, shares)
    short, long = (simulate_autoscaling(load, replace(at, start_s=at.start_s * times)) for times in (1.0, longer))
    assert long.max_warm_replicas >= short.max_warm_replicas
    assert (long.ordered >= short.ordered).all()


@given(SHARES, FLEETS, st.integers(1, 60))
def test_what_runs_always_holds_the_load_and_is_never_more_than_the_fleet(
    shares: tuple[float, ...], at: Autoscaler, most: int
) -> None:
    load = load_per_minute(50.0, shares)
    running = simulate_autoscaling(load, at).ordered
    assert (running * at.capacity_per_s >= load * (1 - 1e-9)).all()
    assert simulate_autoscaling(load, replace(at, most_replicas=float(most))).ordered.max() <= most
