"""Losses at the peak, against a replay of the queue second by second."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.sizing.assumptions import Assumptions
from app.sizing.day.failures import MAX_MINUTES, PeakFleet, backlog_requests, simulate_failures, wait_s
from app.sizing.day.start import restart_s, start_time_s
from app.sizing.decisions.placement import plan_fleet
from app.sizing.values.day import Failure
from app.sizing.workload import Redundancy
from tests.sizing.day.test_start import RENTED

ASSUMED = Assumptions()
CURVE = ((0.5, 0.2), (10.0, 0.3), (14.0, 0.6), (15.0, 2.0), (30.0, 500.0))
FULL = PeakFleet(
    peak_per_s=100.0,
    replicas=8.0,
    placed_replicas=8.0,
    hosts=4.0,
    zones=2.0,
    max_per_s=15.0,
    replaced=True,
    ttft_curve=CURVE,
)
RATES = st.floats(1, 200)


def found(at: PeakFleet = FULL) -> dict[str, Failure]:
    return {failure.what: failure for failure in simulate_failures(at, RENTED, ASSUMED)}


def simulated_s(rate_per_s: float) -> float:
    """TTFT at p95 of a replica at a rate."""
    return float(np.interp(rate_per_s, [rate for rate, _ in CURVE], [late for _, late in CURVE]))


def replayed(peak: float, left: float, whole: float, back_s: int, seconds: int) -> list[float]:
    """What waits after every second: served first come, first served."""
    waiting, waits = 0.0, [0.0]
    for second in range(seconds):
        waiting = max(0.0, waiting + peak - (left if second < back_s else whole))
        waits.append(waiting)
    return waits


@given(RATES, RATES, RATES, st.integers(1, 900))
def test_a_backlog_is_that_of_a_replay(peak: float, left: float, more: float, back_s: int) -> None:
    whole = left + more
    queued = backlog_requests(np.arange(1201.0), peak, left, whole, float(back_s))
    assert queued == pytest.approx(replayed(peak, left, whole, back_s, 1200), rel=1e-6, abs=1e-6)


@given(st.integers(0, 5000), st.integers(1, 50), st.integers(1, 50), st.integers(0, 300))
def test_who_comes_waits_until_all_before_are_served(ahead: int, left: int, more: int, back_s: int) -> None:
    waited = float(wait_s(np.array([float(ahead)]), np.array([float(back_s)]), float(left), float(left + more))[0])
    served, second = 0.0, 0
    while served < ahead:
        served += left if second < back_s else left + more
        second += 1
    assert second - 1 - 1e-9 <= waited <= second + 1e-9


def test_losses_by_hand() -> None:
    """Four machines of two replicas in two zones: 120 requests/s, 105 without a replica, 90 and 60 without more."""
    losses = found()
    assert [f.lost_replicas for f in losses.values()] == [1, 2, 4]
    replica, machine, zone = losses.values()
    assert replica.back_after_minutes == pytest.approx((30 + restart_s(RENTED, ASSUMED)) / 60)
    assert max(m.backlog_requests for m in replica.minutes) == 0
    gone_s = 30 + start_time_s(RENTED, 2.0, ASSUMED)
    assert machine.back_after_minutes == pytest.approx((gone_s + 10 * gone_s / 20) / 60)
    assert machine.minutes[1].backlog_requests == pytest.approx(600)
    assert [m.capacity_share for m in zone.minutes[:2]] == [0.5, 0.5]
    assert zone.minutes[1].backlog_requests == pytest.approx(2400)


def test_ttft_is_that_of_the_load_each_replica_has_and_of_the_queue_before_it() -> None:
    replica, machine, _ = found().values()
    assert replica.minutes[0].ttft_p95_s == pytest.approx(simulated_s(100 / 7))
    assert replica.minutes[-1].ttft_p95_s == pytest.approx(simulated_s(100 / 8))
    assert machine.minutes[1].ttft_p95_s == pytest.approx(2.0 + 600 / 90)
    assert all(m.ttft_p95_s is None for f in found(replace(FULL, ttft_curve=())).values() for m in f.minutes)


def test_minutes_that_are_left_out_are_as_the_one_before() -> None:
    replica, machine, _ = found().values()
    assert [m.minute for m in replica.minutes] == [0, 3]
    assert [m.minute for m in machine.minutes] == list(range(len(machine.minutes)))


def test_owned_machines_do_not_come_back_by_themselves() -> None:
    replica, machine, zone = found(replace(FULL, replaced=False)).values()
    assert replica.back_after_minutes is not None
    assert (machine.back_after_minutes, zone.back_after_minutes) == (None, None)
    assert machine.minutes[-1].minute == MAX_MINUTES
    assert machine.minutes[-1].capacity_share == 0.75


def test_a_service_on_one_machine_waits_until_it_is_back_and_has_no_zone_to_lose() -> None:
    alone = replace(FULL, peak_per_s=5.0, replicas=1.0, placed_replicas=1.0, hosts=1.0, zones=1.0)
    losses = found(alone)
    assert list(losses) == ["replica", "machine"]
    first = losses["machine"].minutes[0]
    gone_s = 30 + start_time_s(RENTED, 1.0, ASSUMED)
    assert first.capacity_share == 0
    assert first.ttft_p95_s == pytest.approx(gone_s + simulated_s(5.0), rel=0.01)
    never = found(replace(alone, replaced=False))["machine"]
    assert never.minutes[0].ttft_p95_s is None


@given(
    st.sampled_from([Redundancy(spare=1), Redundancy(spare=2), Redundancy(double=True), Redundancy(spare=1, zones=3)]),
    st.integers(1, 40),
    st.sampled_from([1.0, 2.0, 4.0, 8.0, 16.0]),
    st.floats(0.1, 1.0),
)
def test_what_redundancy_promises_to_survive_leaves_no_queue(
    redundancy: Redundancy, replicas: int, each: float, used: float
) -> None:
    needed = np.array([float(replicas)])
    placed = plan_fleet(redundancy, np.array([each]), np.array([8.0]), needed)
    at = replace(
        FULL,
        peak_per_s=used * replicas * 15.0,
        replicas=float(replicas),
        placed_replicas=float((placed.replicas + placed.spare_replicas)[0]),
        hosts=float(placed.nodes[0]) / max(1.0, each / 8),
        zones=float(redundancy.zones),
    )
    for failure in simulate_failures(at, RENTED, ASSUMED):
        assert max(m.backlog_requests for m in failure.minutes) <= 1e-6
        assert at.placed_replicas - failure.lost_replicas >= replicas


@given(st.floats(1, 119), st.floats(1, 3))
def test_more_load_or_a_longer_start_never_makes_a_loss_milder(peak: float, longer: float) -> None:
    for at, assumed in (
        (replace(FULL, peak_per_s=min(119.0, peak * longer)), ASSUMED),
        (replace(FULL, peak_per_s=peak), replace(ASSUMED, machine_start_s=120 * longer, engine_start_s=45 * longer)),
    ):
        mild = simulate_failures(replace(FULL, peak_per_s=peak), RENTED, ASSUMED)
        worse = simulate_failures(at, RENTED, assumed)
        for one, other in zip(mild, worse, strict=True):
            assert (other.back_after_minutes or 0.0) >= (one.back_after_minutes or 0.0) - 1e-9
            most = [max(m.backlog_requests for m in f.minutes) for f in (one, other)]
            assert most[1] >= most[0] - 1e-6
