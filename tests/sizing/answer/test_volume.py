"""The answer text for work that ends, checked against the arithmetic behind it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.sizing.answer.volume import (
    VolumeOutcome,
    describe_volume,
    volume_duration_reason,
    volume_intervals,
    with_volume_outcome,
)
from app.sizing.decisions.search import Search
from app.sizing.estimate import estimate_deployment
from app.sizing.model.sample import SampleWork
from app.sizing.question import Constraints, Deployment, Objective, Question
from app.sizing.recommend import recommend_hardware
from app.sizing.result import Estimate, Interval, Performance
from app.sizing.serving.interfaces import Settings
from app.sizing.serving.options import duration_s
from app.sizing.serving.search import (
    enumerate_allowed_plans,
    required_replicas,
    search_plans,
    with_replica_count,
)
from app.sizing.whatif.cases import find_best_plan
from app.sizing.words import format_number
from app.sizing.workload import InferenceWorkload, Load
from tests.examples import CHAT, col
from tests.sizing.answer.given import COST, SPEED, estimated
from tests.sizing.small import SMALL

VOLUME = replace(CHAT, load=Load.OFFLINE, volume_requests=1e6, deadline_s=36_000.0)
BIG = Deployment("acme-big", system="big-8", engine="vllm", weight_format="bf16", tensor_parallel=1)


def found(workload: InferenceWorkload = VOLUME, confidence: float = 0.8, **fixed: Any) -> Estimate:
    question = Question(workload, Constraints(confidence=confidence))
    return estimate_deployment(question, replace(BIG, **fixed), SMALL)


def figures(e: Estimate) -> tuple[float, float, float]:
    """(hours, USD of the run, USD per hour)."""
    assert e.performance is not None and e.performance.days is not None and e.cost is not None
    assert e.cost.usd_total is not None and e.cost.usd_per_hour is not None
    return e.performance.days * 24, e.cost.usd_total, e.cost.usd_per_hour


def test_a_fixed_fleet_takes_its_start_and_the_volume_at_its_rate() -> None:
    e = found(replicas=8)
    hours, total, hourly = figures(e)
    assert e.performance is not None and e.cost is not None and e.assurance is not None
    rate, start = e.performance.requests_per_s_capacity or 0.0, e.performance.cold_start_s or 0.0
    assert hours == pytest.approx((start + 1e6 / rate) / 3600)
    assert total == pytest.approx(hourly * hours)
    assert e.cost.usd_per_million == pytest.approx(total / (1e6 * VOLUME.tokens_per_request) * 1e6)
    assert e.assurance.meets_slo is None
    by = {i.quantity: i for i in e.performance.intervals}
    slow = start / 3600 + (hours - start / 3600) * (e.performance.output_tokens_per_s or 0) / e.performance.interval.low
    assert by["days"].high * 24 == pytest.approx(slow)
    assert by["usd_total"].high == pytest.approx(hourly * slow)
    assert by["usd_per_million_tokens"].high == pytest.approx((e.cost.usd_per_million or 0.0) * slow / hours)
    assert (by["days"].low, by["usd_total"].low) < (hours / 24, total)


def test_what_is_too_few_is_late_with_the_probability_of_it() -> None:
    assert found(replicas=1).fits
    alone: dict[str, Any] = {
        "tensor_parallel": 1,
        "pipeline_parallel": 1,
    }  # an open layout would be chosen for speed
    sure = [e.assurance for e in (found(replicas=n, **alone) for n in (1, 8, 64))]
    in_time = [0.0 if a is None else a.meets_deadline or 0.0 for a in sure]
    assert in_time[0] < 0.2 < in_time[1] <= in_time[2]
    assert found(replace(VOLUME, deadline_s=1.0)).fits
    assert found(replace(VOLUME, deadline_s=None)).assurance.meets_deadline is None  # type: ignore[union-attr]


def test_levels_pay_for_the_duration_that_holds_with_them() -> None:
    question = Question(VOLUME, Constraints(accelerators=("acme-big",)))
    first = recommend_hardware(question, SMALL).recommendations[0].estimate
    assert first.assurance is not None
    totals = [level.usd_total for level in first.assurance.by_level]
    assert all(level.usd_per_hour is None for level in first.assurance.by_level)
    assert totals == sorted(totals, key=lambda usd: usd or 0.0)
    assert totals[1] >= figures(first)[1]  # type: ignore[operator]
    words = next(reason.text for reason in first.explanation if reason.code == "deadline")
    assert words.startswith("Expected time for 1,000,000 requests: ")
    surely = (totals[1] or 0.0) / figures(first)[2]
    assert f"{format_number(figures(first)[0])} of 10 hours ({format_number(surely)} hours at 80 % confidence)" in words


def test_words_of_a_duration() -> None:
    lasting = VolumeOutcome(col(7200.0), col(10_800.0), col(60.0), col(80.0))
    question = Question(replace(VOLUME, deadline_s=14_400.0))
    workload = question.workload
    assert isinstance(workload, InferenceWorkload)
    assert volume_duration_reason(question, workload, lasting, 0).text == (
        "Expected time for 1,000,000 requests: 2 of 4 hours (3 hours at 80 % confidence), including 60 seconds of "
        "startup."
    )
    free = volume_duration_reason(question, replace(workload, deadline_s=None), lasting, 0)
    assert (free.code, free.value) == ("duration", 7200 / 86_400)
    assert "requests: 2 hours (" in free.text
    months = volume_duration_reason(question, replace(workload, deadline_s=60 * 86_400.0), lasting, 0)
    assert "of 60 days (" in months.text
    samples = replace(workload, model=replace(workload.model, sample=SampleWork(flops=1e9)), volume_requests=1.0)
    assert describe_volume(samples) == "1 sample"


def test_intervals_stretch_the_work_and_not_the_start() -> None:
    lasting = VolumeOutcome(col(1060.0), col(2000.0), col(60.0), col(np.nan))
    speed = Performance(Interval("output_tokens_per_s", 50.0, 200.0), "roofline", output_tokens_per_s=100.0, days=1.0)
    (days,) = volume_intervals(lasting, 0, speed, replace(COST, usd_per_million=None))
    assert days.quantity == "days"
    assert (days.low, days.high) == pytest.approx((560 / 1060, 2060 / 1060))


def test_an_estimate_without_speed_or_price_is_left_as_it_is() -> None:
    outcome = VolumeOutcome(col(86_400.0), col(172_800.0), col(60.0), col(100.0))
    question = Question(VOLUME)
    for bare in (estimated(cost=None), estimated(performance=None)):
        assert with_volume_outcome(question, VOLUME, bare, outcome, 0) is bare
    rate = replace(SPEED, output_tokens_per_s=100.0)
    found = with_volume_outcome(question, VOLUME, estimated(performance=rate), outcome, 0)
    assert found.performance is not None and found.cost is not None
    assert (found.performance.days, found.performance.surely_days, found.cost.usd_total) == (1.0, 2.0, 100.0)
    unpriced = replace(outcome, usd=col(np.nan))
    free = with_volume_outcome(question, VOLUME, estimated(performance=rate), unpriced, 0)
    assert free.cost is not None and free.cost.usd_total is None


@pytest.mark.parametrize("objective", [Objective.COST, Objective.LATENCY])
def test_the_best_plan_for_a_volume_is_the_best_of_all_one_by_one(objective: Objective) -> None:
    """Replicas of each plan from its own rate and batch; plans that are late or too large are left out."""
    work = replace(VOLUME, volume_requests=4e6)
    question = Question(work, Constraints(confidence=0.5, max_accelerators=8), objective)
    search = Search.start(Question(work, Constraints(confidence=0.5)), SMALL).of(work)
    options = search_plans(search, enumerate_allowed_plans(search))
    seconds_per_batch = np.linspace(100.0, 20_000.0, len(options))  # batches that take up to hours
    options = replace(options, slo_batch=options.capacity_per_s * seconds_per_batch)
    every: list[tuple[float, float, float]] = []
    for number in range(len(options)):
        alone = options.take(np.array([number]))
        replicas = required_replicas(question, work, alone.plans, alone.capacity_per_s, alone.slo_batch, Settings())
        sized = with_replica_count(question, work, alone, replicas)
        seconds, count = float(duration_s(4e6, sized)[0]), float(sized.fleet.accelerators[0])
        usd = float(sized.cost.usd_per_hour[0]) * seconds / 3600
        late = seconds > 36_000.0 * (1 + 1e-9) or count > 8
        every.append((math.inf, math.inf, count) if late else (usd, seconds, count))
    assert 1 < sum(np.isfinite(each[0]) for each in every) < len(options)
    first = 0 if objective is Objective.COST else 1
    best, second, *_ = sorted(every, key=lambda each: each[first])
    assert find_best_plan(question, work, options) == pytest.approx(best)
    # a batch that takes longer than the deadline is no plan
    chosen = every.index(best)
    endless = replace(options, slo_batch=np.where(np.arange(len(options)) == chosen, 1e12, options.slo_batch))
    assert find_best_plan(question, work, endless) == pytest.approx(second)
    assert find_best_plan(question, replace(work, deadline_s=1.0), options) is None
