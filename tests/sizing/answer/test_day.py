"""The daily profile of recommendations and estimates; workloads without hourly shares have none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.sizing.assumptions import Assumptions
from app.sizing.estimate import estimate_deployment
from app.sizing.question import Question
from app.sizing.recommend import recommend_hardware
from app.sizing.snapshot import Catalog
from app.sizing.workload import Redundancy, smooth_day
from tests.examples import CHAT

DAILY = replace(CHAT, peak_per_s=60.0, average_per_s=20.0, hourly_shares=smooth_day(3.0, Assumptions()))


def test_the_first_recommendation_has_a_day_and_posted_back_it_is_the_same(catalog: Catalog) -> None:
    question = Question(DAILY)
    first, *others = recommend_hardware(question, catalog).recommendations
    day = first.estimate.day
    assert day is not None
    assert all(other.estimate.day is None for other in others)
    assert estimate_deployment(question, first.estimate.deployment, catalog).day == day
    placed = (first.estimate.deployment.replicas or 0) + (first.estimate.deployment.spare_replicas or 0)
    assert max(hour.replicas for hour in day.hours) == placed
    assert day.fixed.replica_hours == placed * 24
    assert first.estimate.cost is not None
    assert first.estimate.cost.usd_per_hour is not None
    assert day.fixed.usd_per_day == pytest.approx(first.estimate.cost.usd_per_hour * 24)


def test_without_hours_there_is_no_day_and_with_them_the_cheapest_day_is_first(catalog: Catalog) -> None:
    plain, daily = (recommend_hardware(Question(w), catalog) for w in (replace(DAILY, hourly_shares=()), DAILY))
    assert plain.recommendations[0].estimate.day is None
    costs = [r.estimate.cost for r in daily.recommendations]
    days = [cost.usd_per_day for cost in costs if cost is not None and cost.usd_per_day is not None]
    assert len(days) == len(daily.recommendations)
    assert days == sorted(days)
    assert daily.recommendations[0].estimate.day is not None
    assert daily.recommendations[0].estimate.day.autoscaled.usd_per_day == pytest.approx(days[0])


def test_failures_are_shown_for_the_deployed_fleet(catalog: Catalog) -> None:
    """Without redundancy a lost zone leaves half of two; waits are those of the simulated load curve."""
    workload = replace(DAILY, redundancy=Redundancy(zones=2))
    (first, *_) = recommend_hardware(Question(workload), catalog).recommendations
    day = first.estimate.day
    assert day is not None
    assert [failure.what for failure in day.failures] == ["replica", "machine", "zone"]
    lost = [failure.lost_replicas for failure in day.failures]
    assert lost == sorted(lost)
    assert lost[2] >= (first.estimate.deployment.replicas or 0) // 2
    assert all(failure.minutes[0].ttft_p95_s is not None for failure in day.failures)
    whole = first.estimate.performance
    assert whole is not None
    assert whole.ttft is not None
    assert day.failures[0].minutes[-1].ttft_p95_s == pytest.approx(whole.ttft.p95_s, rel=0.1)
