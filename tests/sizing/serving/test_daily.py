"""A day decides by what it costs as it is paid: the cheapest day is first, a flat one is a service without hours."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.sizing.estimate import estimate_deployment
from app.sizing.hardware.parts import PricingModel
from app.sizing.question import Constraints, Objective, Question
from app.sizing.recommend import recommend_hardware
from app.sizing.result import Answer
from app.sizing.workload import HOURS, InferenceWorkload, Shares, Slo
from tests.examples import CHAT
from tests.sizing.small import SMALL, offer, snapshot

QUICK = settings(max_examples=10)
NIGHT: Shares = (0.02,) * 9 + (0.5,) + (1.0,) * 5 + (0.3,) * 4 + (0.02,) * 5
FLAT: Shares = (1.0,) * HOURS
BUSY = replace(CHAT, peak_per_s=300.0, average_per_s=150.0)
RENT = Constraints(accelerators=("acme-big",), pricing_models=(PricingModel.ON_DEMAND, PricingModel.RESERVED_1Y))
SHARES = st.lists(st.floats(0.01, 1), min_size=HOURS - 1, max_size=HOURS - 1).map(lambda some: (*some, 1.0))


def daily(shares: Shares, workload: InferenceWorkload = BUSY) -> InferenceWorkload:
    mean = workload.peak_per_s * sum(shares) / HOURS if shares else workload.average_per_s
    return replace(workload, hourly_shares=shares, average_per_s=mean)


def usd_per_day(answer: Answer) -> list[float]:
    costs = [r.estimate.cost for r in answer.recommendations]
    return [c.usd_per_day for c in costs if c is not None and c.usd_per_day is not None]


def test_hours_that_are_given_back_beat_a_commitment_and_a_flat_day_does_not() -> None:
    paid = [
        recommend_hardware(Question(daily(shares), RENT), SMALL).recommendations[0].estimate.deployment.pricing_model
        for shares in (NIGHT, FLAT, ())
    ]
    assert paid == [PricingModel.ON_DEMAND, PricingModel.RESERVED_1Y, PricingModel.RESERVED_1Y]


def test_small_machines_that_follow_the_load_beat_a_large_one_that_costs_less_at_the_peak() -> None:
    """One machine at 17.60 USD an hour carries the peak; 24 small ones at 2 cost more then and less over the day."""
    catalog = snapshot(offers=(offer("big-8", 17.6), offer("card-1", 2.0)))
    patient = replace(CHAT, peak_per_s=10.0, slo=Slo(20.0, 0.5, None, 95))
    question = Question(patient, Constraints(pricing_models=(PricingModel.ON_DEMAND,)))
    first = [
        recommend_hardware(replace(question, workload=workload), catalog)
        .recommendations[0]
        .estimate.deployment.accelerator
        for workload in (patient, daily(NIGHT, patient))
    ]
    assert first == ["acme-big", "acme-card"]


@QUICK
@given(SHARES, st.floats(0.5, 400), st.sampled_from([(), RENT.pricing_models, (PricingModel.OWNED,)]))
def test_the_cheapest_day_is_first_and_is_the_reported_day(
    shares: Shares, peak_per_s: float, pricing: tuple[PricingModel, ...]
) -> None:
    workload = daily(shares, replace(CHAT, peak_per_s=peak_per_s))
    question = Question(workload, Constraints(pricing_models=pricing))
    answer = recommend_hardware(question, SMALL)
    days = usd_per_day(answer)
    assert days == sorted(days)
    for ranked in answer.recommendations:
        cost = ranked.estimate.cost
        assert cost is not None
        assert cost.usd_per_hour is not None
        assert cost.usd_per_day is not None
        assert cost.usd_per_day <= 24 * cost.usd_per_hour * (1 + 1e-12)
        again = estimate_deployment(question, ranked.estimate.deployment, SMALL)
        assert again.cost is not None
        assert again.cost.usd_per_day == cost.usd_per_day
        assert again.day is not None
        assert again.day.autoscaled.usd_per_day == pytest.approx(cost.usd_per_day, rel=1e-12)


@QUICK
@given(SHARES, st.integers(0, HOURS - 1), st.floats(0, 1), st.floats(0.5, 400))
def test_more_in_any_hour_never_makes_the_best_day_cheaper(
    shares: Shares, hour: int, more: float, peak_per_s: float
) -> None:
    higher = tuple(min(1.0, share + more * (i == hour)) for i, share in enumerate(shares))
    busy = replace(CHAT, peak_per_s=peak_per_s)
    before, after = (
        usd_per_day(recommend_hardware(Question(daily(s, busy), limit=3), SMALL)) for s in (shares, higher)
    )
    if before:
        assert after[0] >= before[0] * (1 - 1e-9)


@QUICK
@given(st.floats(0.5, 400), st.sampled_from(list(Objective)))
def test_a_flat_day_ranks_as_a_service_without_hours(peak_per_s: float, objective: Objective) -> None:
    busy = replace(CHAT, peak_per_s=peak_per_s, average_per_s=peak_per_s)
    flat, plain = (
        recommend_hardware(Question(replace(busy, hourly_shares=shares), objective=objective), SMALL)
        for shares in (FLAT, ())
    )
    assert [r.estimate.deployment for r in flat.recommendations] == [
        r.estimate.deployment for r in plain.recommendations
    ]
    assert [r.score for r in flat.recommendations] == pytest.approx([r.score for r in plain.recommendations])
