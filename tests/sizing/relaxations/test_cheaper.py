"""Cheaper options cost less, are available if their condition is accepted, and the request does not rule them out."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given

from app.sizing.decisions.search import Search
from app.sizing.hardware.parts import SEGMENTS, Commitment, PriceKind, PricingModel, Segment
from app.sizing.question import Constraints, Objective, Question
from app.sizing.recommend import find_finalists, recommend_hardware
from app.sizing.relaxations.cheaper import (
    ACCEPTING,
    BROKERS,
    COMMITMENT,
    SPOT,
    UNQUOTED,
    acceptance_codes,
    open_acceptance_codes,
)
from app.sizing.result import Cheaper
from app.sizing.snapshot import Catalog
from app.sizing.workload import InferenceWorkload, Load, TrainingWorkload
from tests.examples import CHAT, PRETRAIN
from tests.sizing.small import ACCELERATORS, BIG, OFFERS, SMALL, offer, snapshot
from tests.sizing.test_relations import RUNS, SERVICES, SLOW

PARTS, OLD = "consumer and edge hardware", "prices last seen more than a year ago"
ALL_KINDS, ALL_WAYS = tuple(PriceKind), tuple(PricingModel)


def cheaper_options(
    workload: InferenceWorkload | TrainingWorkload = CHAT, of: Catalog = SMALL, **limits: object
) -> dict[str, Cheaper]:
    """What would cost less, by what has to be accepted."""
    answer = recommend_hardware(Question(workload, Constraints(**limits)), of)  # type: ignore[arg-type]
    return {c.accepting: c for c in answer.cheaper_if}


def test_listings_are_classified_by_the_condition_to_accept() -> None:
    codes = acceptance_codes(Question(CHAT), SMALL)
    by_offer = {SMALL.offers[o].usd_per_hour: c for o, c in zip(SMALL.listings.offer, codes, strict=True) if o >= 0}
    assert by_offer == {40.0: -1, 44.0: -1, 16.0: SPOT, 24.0: COMMITMENT, 0.8: -1, 0.9: -1, 0.3: BROKERS}
    owned = codes[SMALL.listings.is_owned]
    assert UNQUOTED in owned and -1 in owned


def test_nothing_is_named_that_the_question_has_settled() -> None:
    def named(workload: InferenceWorkload | TrainingWorkload = CHAT, **limits: object) -> set[str]:
        return {ACCEPTING[c] for c in open_acceptance_codes(Question(workload, Constraints(**limits)))}  # type: ignore[arg-type]

    assert named() == set(ACCEPTING)
    assert named(price_kinds=(PriceKind.PROVIDER,)) == {"a commitment", "spot capacity", PARTS}
    assert named(pricing_models=(PricingModel.ON_DEMAND,)) == {
        "unquoted hardware",
        "brokers, serverless platforms and small hosts",
        PARTS,
        OLD,
    }
    assert PARTS not in named(segments=("datacenter",))
    assert named(PRETRAIN) == {"brokers, serverless platforms and small hosts", "spot capacity", PARTS, OLD}
    assert "unquoted hardware" in named(PRETRAIN, max_purchase_usd=1e9)
    ends = replace(CHAT, load=Load.OFFLINE, volume_requests=1e6)
    assert named(ends) == {"brokers, serverless platforms and small hosts", "spot capacity", PARTS, OLD}
    assert OLD not in named(max_price_age_days=3000)


def test_spot_capacity_is_suggested_with_its_savings_and_risk() -> None:
    big = replace(CHAT, peak_per_s=400.0, average_per_s=200.0)
    answer = recommend_hardware(Question(big, Constraints(accelerators=("acme-big",), providers=("sky",))), SMALL)
    first = answer.recommendations[0].estimate
    found = {c.accepting: c for c in answer.cheaper_if}["spot capacity"]
    assert first.cost is not None and first.cost.usd_per_hour is not None
    assert found.usd_per_hour == pytest.approx(first.cost.usd_per_hour * 16 / 40)
    assert found.saves_share == pytest.approx(0.6)
    assert found.risk == "the provider can interrupt it at any time"


def test_consumer_hardware_is_suggested_but_not_recommended() -> None:
    toy = replace(BIG, slug="toy", name="Toy", segment=Segment.CONSUMER)
    cheap = replace(offer("big-8", 0.8), system=None, instance_type="toy-8", accelerator="toy")
    of = snapshot(accelerators=[*ACCELERATORS, toy], offers=[*OFFERS, cheap])
    answer = recommend_hardware(Question(CHAT), of)
    assert "toy" not in {ranked.estimate.deployment.accelerator for ranked in answer.recommendations}
    found = {c.accepting: c for c in answer.cheaper_if}[PARTS]
    assert found.accelerator == "toy"
    assert found.usd_per_hour == pytest.approx(0.1 * found.total_accelerators)
    assert "ECC" in found.risk
    asked = recommend_hardware(Question(CHAT, Constraints(segments=("consumer",))), of)
    assert asked.recommendations[0].estimate.deployment.accelerator == "toy"


def of_all(question: Question, catalog: Catalog) -> float:
    """The lowest cost of the same request if every condition is accepted."""
    bound = replace(question.constraints, pricing_models=ALL_WAYS, commitment=Commitment.THREE_YEARS)
    limits = replace(bound, price_kinds=ALL_KINDS, segments=SEGMENTS)
    asked = replace(question, limit=1, objective=Objective.COST, constraints=limits)
    return next(iter(find_finalists(Search.start(asked, catalog)).scores), math.inf)


def saves_and_is_there(question: Question, catalog: Catalog) -> None:
    """Every figure is between the lowest cost with all conditions accepted and the cost of the recommendation."""
    found = find_finalists(Search.start(replace(question, limit=1), catalog))
    if not found.scores:
        assert found.cheaper_if == ()
        return
    least = of_all(question, catalog)
    for c in found.cheaper_if:
        assert 0 < c.saves_share < 1
        # formulas estimate a saving; of two replicas the simulation may need one more or less
        assert found.scores[0] * (1 - c.saves_share) >= least / 2
    assert len({c.accepting for c in found.cheaper_if}) == len(found.cheaper_if)


@SLOW
@given(SERVICES)
def test_what_saves_on_a_service_is_there_to_be_had(catalog: Catalog, workload: InferenceWorkload) -> None:
    saves_and_is_there(Question(workload), catalog)


@SLOW
@given(RUNS)
def test_what_saves_on_a_run_is_there_to_be_had(catalog: Catalog, workload: TrainingWorkload) -> None:
    saves_and_is_there(Question(workload), catalog)
