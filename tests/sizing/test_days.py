"""Relations within a day, and between days, of whatever service is asked of the real catalogue."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.sizing.day_results import Day
from app.sizing.estimate import estimate_deployment
from app.sizing.question import Constraints, Question
from app.sizing.recommend import recommend_hardware
from app.sizing.snapshot import Catalog
from app.sizing.workload import HOURS, InferenceWorkload, Load, Redundancy
from tests.sizing.test_relations import SERVICES

SLOW = settings(max_examples=12)
HOURLY = st.lists(st.sampled_from([0.0, 0.1, 0.3, 0.6, 1.0]), min_size=HOURS - 1, max_size=HOURS - 1).map(
    lambda others: (1.0, *others)
)
SURVIVED = st.sampled_from([Redundancy(), Redundancy(spare=1), Redundancy(spare=1, zones=3)])


def first_day(workload: InferenceWorkload, catalog: Catalog, constraints: Constraints) -> Day | None:
    """The day of the first recommendation, which posted back is the same; None where nothing does."""
    question = Question(workload, constraints=constraints)
    ranked = recommend_hardware(question, catalog).recommendations
    if not ranked:
        return None
    found = ranked[0].estimate
    assert found.day is not None
    assert estimate_deployment(question, found.deployment, catalog).day == found.day
    return found.day


@pytest.mark.slow
@SLOW
@given(SERVICES, HOURLY, SURVIVED, st.sampled_from([Constraints(), Constraints(accelerators=("nvidia-l4-24gb",))]))
def test_a_day_agrees_with_itself(
    catalog: Catalog, workload: InferenceWorkload, shares: tuple[float, ...], survived: Redundancy, within: Constraints
) -> None:
    daily = replace(workload, load=Load.OPEN, volume_requests=None, deadline_s=None, redundancy=survived)
    day = first_day(replace(daily, hourly_shares=shares, average_per_s=daily.peak_per_s / 2), catalog, within)
    if day is None:
        return
    fixed, follows, zero, start = day.fixed, day.autoscaled, day.scale_to_zero, day.cold_start
    assert zero.replica_hours <= follows.replica_hours + 1e-9 <= fixed.replica_hours + 1e-6
    assert sum(hour.replicas for hour in day.hours) >= follows.replica_hours - 1e-6
    assert max(hour.replicas for hour in day.hours) * HOURS == fixed.replica_hours
    assert min(hour.replicas for hour in day.hours) >= follows.least_replicas
    if fixed.usd_per_day is not None and follows.usd_per_day is not None and zero.usd_per_day is not None:
        assert zero.usd_per_day <= follows.usd_per_day + 1e-9 <= fixed.usd_per_day + 1e-6
        assert (day.cheaper == "autoscaled") == (follows.usd_per_day < fixed.usd_per_day - 1e-9)
    assert 0 <= follows.saving_share < 1
    assert 0 <= zero.idle_hours <= HOURS
    assert sum(start.parts_s.values()) == pytest.approx(start.seconds)
    assert start.ten_at_once_s >= start.seconds
    assert day.scale_out.fast_enough == (follows.warm_replicas == 0)
    for failure in day.failures:
        minutes = [minute.minute for minute in failure.minutes]
        assert minutes == sorted(set(minutes))
        assert minutes[0] == 0
        assert all(0 <= m.capacity_share <= 1 and m.backlog_requests >= 0 for m in failure.minutes)
        if survived.spare:
            assert all(m.backlog_requests == 0 for m in failure.minutes)


@pytest.mark.slow
@SLOW
@given(SERVICES, HOURLY, st.integers(1, HOURS - 1))
def test_a_busier_hour_never_takes_fewer_hours_of_replicas(
    catalog: Catalog, workload: InferenceWorkload, shares: tuple[float, ...], hour: int
) -> None:
    """Of one deployment: which is the first goes by the money of the day, and another may be."""
    daily = replace(workload, load=Load.OPEN, volume_requests=None, deadline_s=None)
    busier = tuple(1.0 if i == hour else share for i, share in enumerate(shares))
    quiet, busy = (Question(replace(daily, hourly_shares=s)) for s in (shares, busier))
    ranked = recommend_hardware(quiet, catalog).recommendations
    if not ranked:
        return
    low, high = (
        estimate_deployment(question, ranked[0].estimate.deployment, catalog).day for question in (quiet, busy)
    )
    assert low is not None and high is not None
    assert high.autoscaled.replica_hours >= low.autoscaled.replica_hours - 1e-9
