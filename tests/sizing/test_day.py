"""Losses at the peak, against a replay of the queue second by second. Idle machines of many fleets over a day,
computed at once: each as if alone, and never more than it has. The daily savings of each pricing model,
computed by hand. The day of two pools is that of both: hours and money add up, and the slower pool says how
starts go. Replicas that follow a load, against an exact replay of a day second by second, and relations that
hold of any. What a fresh replica waits for, against a simulation of machines that share a registry and a store.
A whole day of a deployment: its parts agree, and the savings follow from its pricing model. How long nothing
runs, against a simulation of single requests.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Column, column, one
from app.sizing.day import (
    BULK_START_REPLICAS,
    MAX_FLEETS_EVERY_MINUTE,
    MAX_MINUTES,
    MINUTES_PER_DAY,
    Autoscaler,
    PeakFleet,
    Service,
    StartProfile,
    backlog_requests,
    fleet_at_peak,
    fleet_per_minute,
    idle_share,
    idle_shares,
    image_bytes,
    load_per_minute,
    merge_days,
    merge_scale_to_zero,
    min_replicas_for_load,
    recovery_s,
    replicas_ahead_of_load,
    restart_s,
    savings_note,
    simulate_autoscaling,
    simulate_day,
    simulate_failures,
    slower_scale_out,
    start_phases_s,
    start_time_s,
    start_times_s,
    steepest_rise_per_s,
    supply_per_s,
    transfer_limit_per_s,
    wait_s,
    window_max,
)
from app.sizing.day_results import Day, Failure, ScaleOut, ZeroDay
from app.sizing.decisions.cost import paid_usd_per_hour
from app.sizing.decisions.placement import Fleet, plan_fleet
from app.sizing.hardware.parts import BY_THE_HOUR, PricingModel
from app.sizing.question import Economics
from app.sizing.workload import HOURS, Redundancy
from tests.examples import present

ECONOMICS = Economics(electricity_usd_per_kwh=0.1, pue=1.25)


@pytest.mark.parametrize(
    ("pricing", "usd"),
    [
        (PricingModel.ON_DEMAND, 480.0),
        (PricingModel.SPOT, 480.0),
        (PricingModel.OWNED, 10 * 0.5 * 0.6 * 24 * 1.25 * 0.1),
        (PricingModel.RESERVED_1Y, 0.0),
        (PricingModel.COMMITTED_3Y, 0.0),
        (PricingModel.CAPACITY_BLOCK, 0.0),
        (None, 0.0),
    ],
)
def test_hours_are_saved_on_demand_energy_of_what_is_owned_and_nothing_of_what_is_reserved(
    pricing: PricingModel | None, usd: float
) -> None:
    terms = np.array([pricing in BY_THE_HOUR]), np.array([pricing is PricingModel.OWNED])
    figures = np.array([40.0]), np.array([10_000.0]), np.array([0.5])
    paid = paid_usd_per_hour(*figures, *terms, Assumptions(), ECONOMICS)
    assert 24 * (40.0 - one(paid)) == pytest.approx(usd)


def test_every_way_to_pay_says_what_it_saves() -> None:
    notes = {pricing: savings_note(pricing) for pricing in (*PricingModel, None)}
    assert "only energy" in notes[PricingModel.OWNED]
    assert "nothing is saved" in notes[PricingModel.RESERVED_3Y]
    assert len(set(notes.values())) == 4


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


LOAD = load_per_minute(PEAK_PER_S, DAY)


def fleets(count: int) -> tuple[Autoscaler, Fleet]:
    """Replicas that do one request a second more each, two to a machine."""
    row = np.arange(count, dtype=np.float64)
    capacity: Column = 2.0 + row % 7
    replicas = np.ceil(PEAK_PER_S / capacity / AT.target_utilization)
    nodes = np.ceil(replicas / 2)
    start: Column = 120.0 + 60.0 * (row % 5)
    at = replace(AT, capacity_per_s=capacity, most_replicas=replicas, start_s=start)
    return at, Fleet(replicas, np.zeros(count), nodes, 8 * nodes)


def test_what_idles_is_what_an_exact_replay_does_without() -> None:
    at, peak = fleets(3)
    idle = idle_shares(LOAD, at, Redundancy(), peak, column([4.0] * 3), column([8.0] * 3))
    for row, share in enumerate(idle.tolist()):
        names = ("capacity_per_s", "most_replicas", "start_s")
        alone = replace(AT, **{name: getattr(at, name)[row].item() for name in names})
        machine_hours = replay(DAY, alone).machine_hours
        assert 24 * float(peak.nodes[row]) * (1 - share) == pytest.approx(machine_hours, rel=0.002)


def test_many_fleets_use_fewer_minutes_with_idle_shares_within_one_percent() -> None:
    at, peak = fleets(MAX_FLEETS_EVERY_MINUTE + 1)
    on = np.full(MAX_FLEETS_EVERY_MINUTE + 1, 4.0), np.full(MAX_FLEETS_EVERY_MINUTE + 1, 8.0)
    many = idle_shares(LOAD, at, Redundancy(spare=1), peak, *on)
    at, peak = fleets(35)
    few = idle_shares(LOAD, at, Redundancy(spare=1), peak, *(c[:35] for c in on))
    assert many[:35] == pytest.approx(few, abs=0.01)


def test_a_full_load_stands_on_the_machines_of_the_peak() -> None:
    peak = Fleet(column([8.0]), column([2.0]), column([5.0]), column([40.0]))
    placed, nodes = fleet_per_minute(Redundancy(), peak, column([4.0]), column([8.0]), np.array([1.0, 7.0, 8.0]))
    assert placed.tolist() == [1.0, 7.0, 10.0]
    assert nodes.tolist() == [1.0, 4.0, 5.0]


RENTED = StartProfile(
    machine_kept=False,
    image_bytes=12e9,
    stored_bytes=140e9,
    device_bytes=35e9,
    nodes_per_replica=1.0,
    replicas_per_node=2.0,
    network_bytes_per_s=12.5e9,
    slot_bytes_per_s=50e9,
)
ASSUMED = Assumptions()


def simulated_starts_s(starting: StartProfile, replicas: int, spread: float, seed: int = 7) -> list[float]:
    """Ready times of the machines, second by second; all machines that download share the bandwidth evenly."""
    draw, step = random.Random(seed), 0.25
    machines = math.ceil(replicas / starting.replicas_per_node) * int(starting.nodes_per_replica)
    boots = [ASSUMED.machine_start_s * draw.uniform(1 - spread, 1 + spread) for _ in range(machines)]
    image, weights = (
        [float(starting.image_bytes)] * machines,
        [float(starting.stored_bytes / starting.nodes_per_replica)] * machines,
    )
    copied = float(starting.device_bytes / (starting.slot_bytes_per_s * ASSUMED.host_link_fraction))
    after = copied + ASSUMED.engine_start_s
    ready = [0.0] * machines
    now = 0.0
    while not all(ready):
        up = [m for m in range(machines) if boots[m] <= now]
        pulling = [m for m in up if image[m] > 0]
        reading = [m for m in up if image[m] <= 0 < weights[m]]
        for left, who, own, shared in (
            (image, pulling, ASSUMED.image_pull_gb_per_s, ASSUMED.registry_gb_per_s),
            (weights, reading, ASSUMED.model_load_gb_per_s, ASSUMED.weight_store_gb_per_s),
        ):
            for m in who:
                left[m] -= step * min(own * 1e9, float(starting.network_bytes_per_s), shared * 1e9 / len(who))
        now += step
        for m in reading:
            if weights[m] <= 0:
                ready[m] = now + after * draw.uniform(1 - spread, 1 + spread)
    return ready


@pytest.mark.parametrize("replicas", [1, 10, 40, 200])
@pytest.mark.parametrize("spread", [0.0, 0.1])
def test_a_start_from_nothing_is_within_a_tenth_of_a_simulated_one(replicas: int, spread: float) -> None:
    """Until the last of them answers."""
    ready = simulated_starts_s(RENTED, replicas, spread)
    assert start_time_s(RENTED, float(replicas), ASSUMED) == pytest.approx(max(ready), rel=0.1)


def test_parts_by_hand() -> None:
    """Ten replicas are five machines: 12.5 GB/s over five of them are 2.5, more than a machine reads."""
    parts = start_phases_s(RENTED, 10.0, ASSUMED)
    assert parts == pytest.approx(
        {"machine": 120.0, "image": 60.0, "weights_read": 70.0, "weights_to_device": 1.0, "engine_start": 45.0}
    )
    assert start_time_s(RENTED, 10.0, ASSUMED) == pytest.approx(296.0)
    assert start_phases_s(RENTED, 20.0, ASSUMED)["weights_read"] == pytest.approx(140 / 1.25)
    assert restart_s(RENTED, ASSUMED) == pytest.approx(116.0)


def test_machines_that_stand_have_image_and_weights_on_their_disk() -> None:
    owned = replace(RENTED, machine_kept=True)
    assert start_phases_s(owned, 1000.0, ASSUMED) == start_phases_s(owned, 1.0, ASSUMED)
    assert start_phases_s(owned, 1.0, ASSUMED)["machine"] == start_phases_s(owned, 1.0, ASSUMED)["image"] == 0.0
    assert math.isinf(supply_per_s(owned, ASSUMED))


def test_a_replica_over_several_machines_reads_its_share_on_each() -> None:
    wide = replace(RENTED, nodes_per_replica=2.0, replicas_per_node=1.0)
    assert start_phases_s(wide, 1.0, ASSUMED)["weights_read"] == pytest.approx(35.0)
    assert supply_per_s(wide, ASSUMED) == pytest.approx(12.5 / 140)


def test_what_starts_at_once_shares_the_network_the_registry_and_the_store() -> None:
    slow = replace(RENTED, network_bytes_per_s=0.1e9)
    assert start_phases_s(slow, 1.0, ASSUMED)["image"] == pytest.approx(120.0)
    starts = [start_time_s(RENTED, float(count), ASSUMED) for count in (1, 2, 4, 8, 16, 32, 64)]
    assert starts == sorted(starts)
    assert supply_per_s(RENTED, ASSUMED) == pytest.approx(2 * 12.5 / 140)


def test_an_image_is_as_large_as_its_engine_s() -> None:
    small, large = np.array([False, False, True]), np.array([False, True, False])
    assert image_bytes(small, large, ASSUMED).tolist() == pytest.approx([12e9, 16.2e9, 2.5e9])


def test_many_deployments_start_as_each_of_them_does() -> None:
    each = [RENTED, replace(RENTED, machine_kept=True), replace(RENTED, stored_bytes=20e9, nodes_per_replica=2.0)]
    rows = StartProfile(**{f.name: np.array([getattr(s, f.name) for s in each]) for f in fields(StartProfile)})
    assert start_times_s(rows, 10.0, ASSUMED).tolist() == [start_time_s(s, 10.0, ASSUMED) for s in each]
    assert supply_per_s(rows, ASSUMED).tolist() == [float(supply_per_s(s, ASSUMED)) for s in each]


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
        for mildly, other in zip(mild, worse, strict=True):
            assert (other.back_after_minutes or 0.0) >= (mildly.back_after_minutes or 0.0) - 1e-9
            most = [max(m.backlog_requests for m in f.minutes) for f in (mildly, other)]
            assert most[1] >= most[0] - 1e-6


WHOLE_ASSUMED, WHOLE_ECONOMICS = Assumptions(), Economics()
SERVICE = Service(
    peak_per_s=100.0,
    shares=DAY,
    replicas=72.0,
    spare_replicas=0.0,
    nodes=36.0,
    redundancy=Redundancy(),
    accelerators_per_replica=4.0,
    accelerators_per_node=8.0,
    capacity_per_s=2.0,
    target_utilization=0.7,
    max_per_s=2.5,
    unloaded_ttft_s=0.2,
    ttft_curve=((0.5, 0.2), (1.4, 0.3), (2.0, 0.6), (2.4, 2.0)),
    usd_per_hour=720.0,
    power_w=360_000.0,
    pricing=PricingModel.ON_DEMAND,
    starting=RENTED,
)


def asked(service: Service = SERVICE, assumed: Assumptions = WHOLE_ASSUMED) -> Day:
    return simulate_day(service, assumed, WHOLE_ECONOMICS)


def test_a_fixed_fleet_pays_its_peak_all_day_and_a_following_one_its_machines_in_use() -> None:
    day = asked()
    assert (day.fixed.replica_hours, day.fixed.usd_per_day) == (72 * 24, 720.0 * 24)
    assert max(h.replicas for h in day.hours) == 72
    assert day.autoscaled.usd_per_day is not None
    assert day.autoscaled.saving_share == pytest.approx(1 - day.autoscaled.usd_per_day / (720 * 24))
    assert day.cheaper == "autoscaled"


@pytest.mark.parametrize("shares", [DAY, JUMP])
def test_the_money_of_a_day_is_that_of_an_exact_replay_of_its_queue(shares: tuple[float, ...]) -> None:
    """Two replicas share a machine of 20 USD an hour, and the replay keeps every request within the limits."""
    day = asked(replace(SERVICE, shares=shares))
    starts = replace(AT, start_s=start_time_s(RENTED, 1.0, WHOLE_ASSUMED) + WHOLE_ASSUMED.autoscaler_reaction_s)
    replayed = replay(shares, starts)
    assert day.autoscaled.replica_hours == pytest.approx(replayed.replica_hours, rel=0.002)
    assert day.autoscaled.usd_per_day == pytest.approx(replayed.machine_hours * 20, rel=0.002)
    assert replayed.lost_s == 0


def test_a_flat_day_saves_nothing() -> None:
    day = asked(replace(SERVICE, shares=(1.0,) * HOURS))
    assert day.autoscaled.replica_hours == day.fixed.replica_hours
    assert (day.autoscaled.saving_share, day.cheaper) == (0.0, "fixed")
    assert (day.scale_out.steepest_per_s_per_minute, day.autoscaled.warm_replicas) == (0.0, 0)


def test_reserved_machines_save_nothing_and_owned_ones_energy() -> None:
    reserved, owned = (asked(replace(SERVICE, pricing=p)) for p in (PricingModel.RESERVED_1Y, PricingModel.OWNED))
    assert (reserved.autoscaled.usd_per_day, reserved.cheaper) == (reserved.fixed.usd_per_day, "fixed")
    assert 0 < owned.autoscaled.saving_share < 0.05
    assert owned.autoscaled.replica_hours < owned.fixed.replica_hours


def test_without_a_price_hours_are_compared() -> None:
    day = asked(replace(SERVICE, usd_per_hour=None, pricing=None))
    assert (day.fixed.usd_per_day, day.autoscaled.usd_per_day, day.scale_to_zero.usd_per_day) == (None, None, None)
    assert day.autoscaled.saving_share == pytest.approx(1 - day.autoscaled.replica_hours / day.fixed.replica_hours)


def test_what_is_promised_at_the_peak_is_kept_all_day() -> None:
    safe = replace(
        SERVICE,
        redundancy=Redundancy(spare=1, zones=2),
        spare_replicas=72.0,
        nodes=72.0,
    )
    day = asked(safe)
    assert day.fixed.replica_hours == 144 * 24
    assert day.autoscaled.least_replicas >= 4
    assert day.hours[10].replicas == 144


def test_a_night_without_requests_stops_everything_and_its_first_request_waits_for_a_start() -> None:
    day = asked(replace(SERVICE, shares=JUMP))
    zero = day.scale_to_zero
    assert 7 < zero.idle_hours < 9
    assert zero.first_request_s == pytest.approx(start_time_s(RENTED, 1.0, WHOLE_ASSUMED) + 0.2)
    assert zero.replica_hours < day.autoscaled.replica_hours
    assert asked().scale_to_zero.idle_hours == pytest.approx(0.0, abs=1e-9)


def test_what_is_said_of_the_ramp_is_what_is_done_about_it() -> None:
    gentle, jump = asked(), asked(replace(SERVICE, shares=JUMP))
    assert gentle.scale_out.steepest_per_s_per_minute == pytest.approx(20 / 60)
    assert gentle.scale_out.replicas_per_minute == pytest.approx(20 / 60 / 1.4)
    assert gentle.scale_out.fast_enough
    assert not jump.scale_out.fast_enough
    assert f"up to {jump.autoscaled.warm_replicas} replicas start ahead" in jump.scale_out.why


def test_a_store_that_feeds_too_few_is_named() -> None:
    slow = replace(WHOLE_ASSUMED, weight_store_gb_per_s=0.5)
    assert "The image registry and the weight store supply" in asked(replace(SERVICE, shares=JUMP), slow).scale_out.why


def test_the_same_day_is_the_same_answer() -> None:
    assert asked() == asked()


@given(
    st.lists(st.floats(0, 1), min_size=HOURS, max_size=HOURS).map(tuple),
    st.integers(0, HOURS - 1),
    st.floats(0, 1),
    st.sampled_from([Redundancy(), Redundancy(spare=1), Redundancy(double=True), Redundancy(spare=1, zones=3)]),
    st.sampled_from([1.0, 2.0, 8.0, 16.0]),
)
def test_higher_factors_never_take_fewer_hours_or_less_money(
    shares: tuple[float, ...], hour: int, more: float, redundancy: Redundancy, each: float
) -> None:
    service = replace(
        SERVICE,
        redundancy=redundancy,
        replicas=1000.0,
        spare_replicas=1000.0,
        nodes=5000.0,
        accelerators_per_replica=each,
        starting=replace(RENTED, nodes_per_replica=max(1.0, each / 8), replicas_per_node=max(1.0, 8 / each)),
    )
    higher = tuple(share + more * (i == hour) for i, share in enumerate(shares))
    low, high = (asked(replace(service, shares=s)).autoscaled for s in (shares, higher))
    assert high.replica_hours >= low.replica_hours - 1e-6
    assert (high.usd_per_day or 0.0) >= (low.usd_per_day or 0.0) - 1e-6
    assert load_per_minute(1.0, higher).mean() >= load_per_minute(1.0, shares).mean()


SMALL = replace(
    SERVICE,
    replicas=18.0,
    nodes=9.0,
    capacity_per_s=8.0,
    usd_per_hour=180.0,
    starting=replace(RENTED, stored_bytes=700e9),
)


def test_hours_and_money_add_up() -> None:
    first, second = asked(), asked(SMALL)
    day = present(merge_days(first, second))
    assert day.fixed.usd_per_day == pytest.approx(900 * 24)
    assert day.autoscaled.replica_hours == first.autoscaled.replica_hours + second.autoscaled.replica_hours
    assert [h.replicas for h in day.hours] == [
        a.replicas + b.replicas for a, b in zip(first.hours, second.hours, strict=True)
    ]
    assert 0 < day.autoscaled.saving_share < 1
    assert day.cheaper == "autoscaled"
    assert [f.what for f in day.failures] == ["prefill replica", "prefill machine", "decode replica", "decode machine"]


def test_the_slower_pool_says_whether_ramps_are_carried() -> None:
    jump = present(merge_days(asked(replace(SERVICE, shares=JUMP)), asked(SMALL)))
    assert jump.scale_out.why.startswith("The prefill pool: ")
    assert not jump.scale_out.fast_enough


def test_without_a_price_of_one_there_is_none_of_both_and_each_says_how_it_is_paid() -> None:
    unpriced = replace(SMALL, usd_per_hour=None, pricing=None)
    day = present(merge_days(asked(), asked(unpriced)))
    assert (day.fixed.usd_per_day, day.autoscaled.usd_per_day) == (None, None)
    owned = present(merge_days(asked(), asked(replace(SMALL, pricing=PricingModel.OWNED))))
    assert owned.autoscaled.note.startswith("Prefill: ")
    assert merge_days(asked(), None) is None


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


def test_a_backlog_is_worked_off_in_turn() -> None:
    ahead = np.array([0.0, 300.0, 599.0, 601.0, 900.0])
    assert wait_s(ahead, np.full(5, 60.0), 10.0, 30.0).tolist() == pytest.approx(
        [0.0, 30.0, 59.9, 60 + 1 / 30, 60 + 300 / 30]
    )
    # Where nothing is left, everybody waits until it is back.
    assert wait_s(np.array([0.0, 60.0]), np.full(2, 60.0), 0.0, 30.0).tolist() == [60.0, 62.0]


def test_recovery_is_the_restart_and_then_the_backlog_at_the_spare_capacity() -> None:
    # 100 requests/s; eight replicas carry 120 and work 20 off.
    assert recovery_s(FULL, 90.0, 300.0) == pytest.approx(300 + 10 * 300 / 20)
    assert recovery_s(FULL, 99.0, 300.0) == pytest.approx(300 + 1 * 300 / 20)
    assert recovery_s(FULL, 100.0, 300.0) == recovery_s(FULL, 110.0, 300.0) == 300.0
    assert math.isinf(recovery_s(FULL, 90.0, math.inf)) and math.isinf(recovery_s(FULL, 110.0, math.inf))
    full = replace(FULL, peak_per_s=120.0)
    assert math.isinf(recovery_s(full, 90.0, 300.0)) and recovery_s(full, 120.0, 300.0) == 300.0


def test_no_more_is_lost_than_there_is_and_a_long_recovery_is_shown_for_an_hour() -> None:
    two = replace(FULL, peak_per_s=20.0, replicas=2.0, placed_replicas=2.0, hosts=1.0, zones=1.0)
    assert {what: f.lost_replicas for what, f in found(two).items()} == {"replica": 1, "machine": 2}
    # With as much as it can carry, a queue never empties.
    stuck = found(replace(FULL, peak_per_s=120.0))["machine"]
    assert stuck.back_after_minutes is None and stuck.minutes[-1].backlog_requests > 0
    machine = found()["machine"]
    assert machine.back_after_minutes is not None
    assert machine.minutes[-1].minute == math.ceil(machine.back_after_minutes)
    # Before it, requests wait for the restart as well; after it, only for those before them.
    back_s = 30 + start_time_s(RENTED, 2.0, ASSUMED)
    for minute in machine.minutes:
        left_s = back_s - 60 * minute.minute
        queued = minute.backlog_requests
        by_hand = queued / 90 if queued <= 90 * max(left_s, 0) else max(left_s, 0) * (1 - 90 / 120) + queued / 120
        serving = 6 if left_s > 0 else 8
        assert minute.capacity_share == serving / 8
        assert minute.ttft_p95_s == pytest.approx(by_hand + simulated_s(min(100 / serving, 15.0)))


def test_replicas_are_ordered_as_early_as_the_supply_asks() -> None:
    # One replica a minute: the ten that minute 30 needs begin nine minutes before.
    load = np.zeros(1440)
    load[30:] = 10.0
    fed = Autoscaler(1.0, 1.0, 10.0, start_s=0.0, supply_per_s=1 / 60, keep_s=0.0)
    early = replicas_ahead_of_load(load, fed, 1)
    assert early[20:31].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0]
    assert replicas_ahead_of_load(load, replace(fed, supply_per_s=5 / 60), 1)[27:31].tolist() == [0.0, 0.0, 5.0, 10.0]
    assert replicas_ahead_of_load(load, replace(fed, supply_per_s=math.inf), 1)[29] == 0.0
    # With a start of two minutes, two minutes before; every ten minutes, a step of ten.
    assert replicas_ahead_of_load(load, replace(fed, start_s=120.0), 1)[28] == 10.0
    assert replicas_ahead_of_load(load, fed, 10)[:4].tolist() == [0.0, 0.0, 0.0, 10.0]
    assert replicas_ahead_of_load(load, replace(fed, supply_per_s=0.5 / 60), 10)[:4].tolist() == [0.0, 0.0, 5.0, 10.0]


def test_two_pools_stop_together_and_the_slower_one_is_named() -> None:
    first, second = ZeroDay(10.0, 5.0, idle_hours=4.0, first_request_s=60.0), ZeroDay(20.0, 7.0, 6.0, 90.0)
    for pair in ((first, second), (second, first)):
        both = merge_scale_to_zero(*pair)
        assert (both.replica_hours, both.usd_per_day, both.idle_hours, both.first_request_s) == (30.0, 12.0, 4.0, 90.0)
    slow, fast = ScaleOut(False, 1.0, 0.5, "slow."), ScaleOut(True, 1.0, 2.0, "fast.")
    assert slower_scale_out(slow, fast).why == "The prefill pool: slow."
    assert slower_scale_out(fast, slow).why == "The decode pool: slow."
    assert slower_scale_out(fast, replace(fast, replicas_per_minute=1.0)).why == "The prefill pool: fast."
    one, other = asked(), asked(SMALL)
    merged = present(merge_days(one, other))
    assert merged.autoscaled.usd_per_day is not None
    for field in ("least_replicas", "warm_replicas", "replica_hours", "usd_per_day"):
        parts = [getattr(day.autoscaled, field) for day in (one, other)]
        assert getattr(merged.autoscaled, field) == pytest.approx(sum(parts))
    assert merged.autoscaled.saving_share == pytest.approx(1 - merged.autoscaled.usd_per_day / (900 * 24))
    assert merged.autoscaled.note == one.autoscaled.note


def test_machines_in_use_are_paid_and_idle_ones_are_not() -> None:
    day = asked(replace(SERVICE, shares=JUMP))
    # Of 20 USD an hour and machine: two replicas share one, and no machine runs while nothing does.
    zero, following = day.scale_to_zero, day.autoscaled
    assert zero.usd_per_day is not None and following.usd_per_day is not None
    assert zero.usd_per_day == pytest.approx(zero.replica_hours / 2 * 20, rel=0.01)
    assert following.usd_per_day == pytest.approx(following.replica_hours / 2 * 20, rel=0.02)
    assert zero.usd_per_day < following.usd_per_day < 720 * 24
    owned = asked(replace(SERVICE, pricing=PricingModel.OWNED))
    assert {f.what: f.back_after_minutes is None for f in owned.failures} == {"replica": False, "machine": True}
    free = asked(replace(SERVICE, usd_per_hour=None))
    assert free.scale_to_zero.usd_per_day is None and "No price" in free.autoscaled.note
    two_nodes = replace(RENTED, nodes_per_replica=2.0, replicas_per_node=1.0)
    wide = asked(replace(SERVICE, nodes=144.0, accelerators_per_replica=16.0, starting=two_nodes))
    assert {f.what: f.lost_replicas for f in wide.failures} == {"replica": 1, "machine": 1}


def test_both_pools_start_as_the_slower_one_whichever_it_is() -> None:
    quick, slow = asked(), asked(SMALL)
    assert slow.cold_start.seconds > quick.cold_start.seconds
    for pair in ((quick, slow), (slow, quick)):
        merged = present(merge_days(*pair))
        assert merged.cold_start == slow.cold_start
        assert merged.scale_to_zero.first_request_s == slow.scale_to_zero.first_request_s
        assert [h.requests_per_s for h in merged.hours] == [h.requests_per_s for h in pair[0].hours]


def test_warm_replicas_of_both_pools_are_added() -> None:
    jump = asked(replace(SERVICE, shares=JUMP, starting=replace(RENTED, stored_bytes=700e9)))
    small = asked(replace(SMALL, shares=JUMP))
    assert jump.autoscaled.warm_replicas > 0 and small.autoscaled.warm_replicas > 0
    merged = present(merge_days(jump, small))
    assert merged.autoscaled.warm_replicas == jump.autoscaled.warm_replicas + small.autoscaled.warm_replicas
    assert merged.autoscaled.least_replicas == jump.autoscaled.least_replicas + small.autoscaled.least_replicas


def test_replicas_are_kept_after_the_load_and_not_before_it() -> None:
    """A load of ten in minutes 100 to 109: ten replicas of one each from then on, and for five minutes after."""
    load = np.zeros(MINUTES_PER_DAY)
    load[100:110] = 10.0
    at = Autoscaler(1.0, 1.0, 10.0, start_s=0.0, supply_per_s=math.inf, keep_s=300.0)
    kept = simulate_autoscaling(load, at).needed
    assert np.flatnonzero(kept == 10).tolist() == list(range(100, 115))
    started = simulate_autoscaling(load, replace(at, start_s=120.0)).ordered
    assert np.flatnonzero(started == 10).tolist() == list(range(98, 115))
    some = simulate_autoscaling(load, at, 5)
    assert some.needed.tolist() == kept[::5].tolist() and len(some.ordered) == MINUTES_PER_DAY / 5


def test_supply_is_the_slower_of_the_registry_and_the_store_for_all_replicas_of_a_machine() -> None:
    registry_s = 5e9 / 12e9  # images of 12 GB
    for stored, nodes, held in ((140e9, 1.0, 1.0), (1e9, 1.0, 1.0), (140e9, 1.0, 4.0), (1e9, 4.0, 1.0)):
        found = float(transfer_limit_per_s(12e9, stored, nodes, held, column([12.5e9]), ASSUMED)[0])
        assert ASSUMED.registry_gb_per_s == 5
        assert found == pytest.approx(held * min(12.5e9 / stored, registry_s / nodes))


def test_a_little_spare_capacity_works_a_backlog_off_slowly() -> None:
    # Eight replicas carry 120: of 119.5 requests/s, 29.5 a second gather and half a request a second is worked off.
    busy = replace(FULL, peak_per_s=119.5)
    assert recovery_s(busy, 90.0, 300.0) == pytest.approx(300 + 29.5 * 300 / 0.5)


def test_a_day_is_that_of_its_service() -> None:
    day = asked()
    once = start_time_s(RENTED, 1.0, WHOLE_ASSUMED)
    assert day.cold_start.seconds == once == pytest.approx(sum(day.cold_start.parts_s.values()))
    heavy = replace(RENTED, stored_bytes=7e12, replicas_per_node=1.0)  # ten machines share the store
    cold = asked(replace(SERVICE, starting=heavy)).cold_start
    assert cold.ten_at_once_s == start_time_s(heavy, BULK_START_REPLICAS, WHOLE_ASSUMED) > cold.seconds
    assert cold.seconds == start_time_s(heavy, 1.0, WHOLE_ASSUMED)
    large = replace(RENTED, stored_bytes=7e12, nodes_per_replica=8.0, replicas_per_node=1.0)  # eight share the store
    spread = asked(replace(SERVICE, nodes=576.0, accelerators_per_replica=64.0, starting=large)).cold_start
    assert spread.seconds == start_time_s(large, 1.0, WHOLE_ASSUMED) < start_time_s(large, 2.0, WHOLE_ASSUMED)
    reaction_s = WHOLE_ASSUMED.autoscaler_reaction_s
    starts = replace(AT, start_s=once + reaction_s, supply_per_s=float(supply_per_s(RENTED, WHOLE_ASSUMED)))
    jump = asked(replace(SERVICE, shares=JUMP))
    alone = simulate_autoscaling(load_per_minute(100.0, JUMP), starts)
    assert jump.autoscaled.warm_replicas == alone.max_warm_replicas
    assert jump.autoscaled.replica_hours == pytest.approx(alone.ordered.mean() * 24)
    assert day.scale_to_zero.first_request_s == pytest.approx(once + 0.2)
    # a fleet that starts as quickly at any number is the same as one that starts alone
    rates = [s * 100.0 for s in DAY]
    assert [h.requests_per_s for h in day.hours] == pytest.approx(rates)
    at = fleet_at_peak(replace(SERVICE, spare_replicas=3.0, redundancy=Redundancy(zones=3)))
    assert (at.peak_per_s, at.replicas, at.placed_replicas, at.max_per_s) == (100, 72, 75, 2.5)
    assert (at.hosts, at.zones, at.replaced, at.ttft_curve) == (36, 3, True, SERVICE.ttft_curve)
    wide = fleet_at_peak(replace(SERVICE, starting=replace(RENTED, nodes_per_replica=2.0)))
    assert wide.hosts == 18
    for pricing, replaced in ((PricingModel.OWNED, False), (None, False), (PricingModel.RESERVED_1Y, True)):
        assert fleet_at_peak(replace(SERVICE, pricing=pricing)).replaced == replaced
    # the first loss is as that of the peak fleet
    assert day.failures == simulate_failures(fleet_at_peak(SERVICE), RENTED, WHOLE_ASSUMED)
