"""A whole day of a deployment: its parts agree, and the savings follow from its pricing model."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.sizing.assumptions import Assumptions
from app.sizing.day.scaling import load_per_minute
from app.sizing.day.start import start_time_s
from app.sizing.day.whole import Service, simulate_day
from app.sizing.hardware.parts import PricingModel
from app.sizing.question import Economics
from app.sizing.values.day import Day
from app.sizing.workload import HOURS, Redundancy
from tests.sizing.day.test_scaling import AT, DAY, JUMP, replay
from tests.sizing.day.test_start import RENTED

ASSUMED, ECONOMICS = Assumptions(), Economics()
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


def asked(service: Service = SERVICE, assumed: Assumptions = ASSUMED) -> Day:
    return simulate_day(service, assumed, ECONOMICS)


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
    starts = replace(AT, start_s=start_time_s(RENTED, 1.0, ASSUMED) + ASSUMED.autoscaler_reaction_s)
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
    assert zero.first_request_s == pytest.approx(start_time_s(RENTED, 1.0, ASSUMED) + 0.2)
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
    slow = replace(ASSUMED, weight_store_gb_per_s=0.5)
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
