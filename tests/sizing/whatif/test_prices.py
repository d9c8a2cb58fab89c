"""Cheaper options cost less, are available if their condition is accepted, and the request does not rule them out. A
suggested discount changes the ranking, and a slightly smaller one does not.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from app.sizing.columns import Column
from app.sizing.decisions.machines import candidates_from_listings, listing_prices, machine_kinds
from app.sizing.decisions.rejections import Rejections
from app.sizing.decisions.search import Search
from app.sizing.finalists import find_finalists
from app.sizing.hardware.parts import SEGMENTS, Commitment, Environment, PriceKind, PricingModel, Segment
from app.sizing.question import Constraints, Deployment, Economics, Objective, Pools, Question
from app.sizing.recommend import recommend_hardware
from app.sizing.result import AcquisitionOption, Alternative, Answer, Cheaper, Estimate, Part, Ranked
from app.sizing.snapshot import Catalog
from app.sizing.whatif import prices
from app.sizing.whatif.prices import (
    ACCEPTING,
    BROKERS,
    COMMITMENT,
    SPOT,
    UNQUOTED,
    acceptance_codes,
    compare_rent_and_buy,
    discountable_usd_per_hour,
    find_leading_discount,
    open_acceptance_codes,
    ranking_cost_usd,
)
from app.sizing.workload import InferenceWorkload, Lengths, Load, Slo, TrainingWorkload
from tests.examples import CHAT, PRETRAIN, col, row
from tests.sizing.answer.given import COST, estimated, ranked
from tests.sizing.small import ACCELERATORS, BIG, CARD, OFFERS, SMALL, offer, snapshot
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


def test_a_listing_that_needs_two_conditions_is_not_offered_for_one() -> None:
    """Spot capacity and commitments of brokers, and old prices of all of these."""
    ways = (PricingModel.ON_DEMAND, PricingModel.SPOT, PricingModel.RESERVED_1Y)
    made = [
        replace(
            offer("big-8", float(n), pricing_model=way, price_kind=kind, region=f"r-{n}"),
            as_of="2023-01-01" if old else "2026-01-01",
        )
        for n, (old, kind, way) in enumerate(product((False, True), (PriceKind.PROVIDER, PriceKind.BROKER), ways), 1)
    ]
    of = snapshot(offers=made)
    codes = acceptance_codes(Question(CHAT), of)
    found = {of.offers[o].usd_per_hour: int(c) for o, c in zip(of.listings.offer, codes, strict=True) if o >= 0}
    old = ACCEPTING.index(OLD)
    assert [found[float(n)] for n in range(1, 13)] == [-1, SPOT, COMMITMENT, BROKERS, -1, -1, old, -1, -1, -1, -1, -1]


def test_nothing_is_named_that_the_question_has_settled() -> None:
    def named(workload: InferenceWorkload | TrainingWorkload = CHAT, **limits: object) -> set[str]:
        return {ACCEPTING[c] for c in open_acceptance_codes(Question(workload, Constraints(**limits)))}  # type: ignore[arg-type]

    place = "machines that may stand outside the requested regions"
    assert named() == set(ACCEPTING) - {place}
    assert named(regions=("eu-1",)) == named(countries=("DE",)) == set(ACCEPTING)
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


WORKLOADS = [
    replace(
        CHAT,
        peak_per_s=peak,
        average_per_s=peak / 3,
        slo=Slo(ttft_s=10.0, tpot_s=0.5, e2e_s=None, percentile=95),
        input_tokens=Lengths(200, 500),
        output_tokens=Lengths(100, 200),
        max_context_tokens=2048,
    )
    for peak in (3.0, 30.0, 60.0, 80.0)
]


def asked(
    workload: InferenceWorkload | TrainingWorkload,
    discounts: tuple[tuple[str, float], ...] = (),
    limits: Constraints = Constraints(),  # noqa: B008  (frozen)
) -> Answer:
    return recommend_hardware(Question(workload, limits, economics=Economics(discounts=discounts)), SMALL)


@pytest.mark.parametrize("workload", [*WORKLOADS, PRETRAIN], ids=lambda w: getattr(w, "peak_per_s", "run"))
@pytest.mark.parametrize("limits", [Constraints(), Constraints(environments=(Environment.CLOUD,))], ids=["any", "rent"])
def test_every_suggested_discount_makes_the_runner_up_first(
    workload: InferenceWorkload | TrainingWorkload, limits: Constraints
) -> None:
    answer = asked(workload, limits=limits)
    suggested = [c for c in answer.sensitivity if c.request is not None]
    if len(answer.recommendations) < 2:
        assert not suggested
        return
    for change in suggested:
        assert change.request is not None
        ((slug, share),) = change.request["economics"]["discounts"].items()
        assert slug == answer.recommendations[1].accelerator.slug
        assert asked(workload, ((slug, share),), limits).recommendations[0].accelerator.slug == slug
        less = ((slug, max(share - 0.02, 1e-6)),)
        assert asked(workload, less, limits).recommendations[0].accelerator.slug != slug


def test_some_discounts_are_suggested() -> None:
    found = [c for w in WORKLOADS for c in asked(w).sensitivity if c.request is not None]
    assert found and all("off the price of" in c.change and c.effect == "would rank first" for c in found)


def test_a_whole_discount_takes_off_what_is_discountable() -> None:
    for found in asked(WORKLOADS[1]).recommendations:
        slug, cost = found.accelerator.slug, found.estimate.cost
        assert cost is not None and cost.usd_per_hour is not None
        half = asked(WORKLOADS[1], ((slug, 0.5),), Constraints(accelerators=(slug,))).recommendations[0].estimate.cost
        assert half is not None
        assert half.usd_per_hour == pytest.approx(cost.usd_per_hour - discountable_usd_per_hour(cost) / 2)
        assert half.price is not None and half.price.discount == 0.5


def test_only_money_is_turned_by_a_price() -> None:
    question = Question(WORKLOADS[1], objective=Objective.LATENCY)
    assert find_leading_discount(question, recommend_hardware(question, SMALL).recommendations) == ()
    assert find_leading_discount(Question(WORKLOADS[1]), ()) == ()


def test_machines_are_discountable_and_power_and_networks_are_not() -> None:
    rent = Part("machine", 4.0, usd_per_hour=2.0)
    bought = Part("machine", 2.0, unit_usd=1000.0)
    others = (Part("network_gbit_per_s", 800.0, unit_usd=5.0), Part("floor_kw", 8.0, usd_per_hour=0.2))
    horizon, upkeep = Part("horizon_hours", 1000.0), Part("upkeep_usd", 2000.0, usd_per_hour=1e-4)
    for parts, usd_per_hour in (
        ((rent, *others), 8.0),
        ((bought, horizon, *others), 2.0),
        ((bought, horizon, upkeep, *others), 2.0 + 0.2),
        ((bought,), 0.0),
        (others, 0.0),
        ((rent, bought, horizon), 10.0),
    ):
        assert discountable_usd_per_hour(replace(COST, parts=parts)) == pytest.approx(usd_per_hour)


def pair(first_usd: float, second_usd: float, discountable: float = 8.0) -> tuple[Ranked, Ranked]:
    """Two ranks whose second pays so much of its cost per hour for machines."""
    machines = (Part("machine", 1.0, usd_per_hour=discountable),)
    costs = replace(COST, usd_per_hour=first_usd), replace(COST, usd_per_hour=second_usd, parts=machines)
    return ranked(1, BIG, cost=costs[0]), ranked(2, CARD, cost=costs[1])


def test_a_discount_is_the_difference_over_what_it_reduces_in_whole_percent_above_it() -> None:
    question = Question(CHAT)

    def share(first_usd: float, second_usd: float, discountable: float = 8.0) -> float | None:
        found = find_leading_discount(question, pair(first_usd, second_usd, discountable))
        if not found:
            return None
        assert found[0].request is not None
        ((slug, off),) = found[0].request["economics"]["discounts"].items()
        assert slug == CARD.slug and f"{round(100 * off)} % off the price of {CARD.name}" == found[0].change
        return float(off)

    # 2 of 8 USD an hour are 25 %; the next whole percent leads.
    assert share(10.0, 12.0) == 0.26
    assert share(10.0, 11.0) == 0.13
    assert share(10.0, 12.0, discountable=10.0) == pytest.approx(0.21)
    assert share(10.0, 12.0, discountable=0.0) is None
    # No more than nine tenths are suggested, and nothing to what costs less.
    assert share(10.0, 17.0) == 0.88 and share(10.0, 17.5) is None and share(10.0, 9.9) is None
    for other in (
        (pair(10.0, 12.0)[0],),
        (pair(10.0, 12.0)[0], replace(pair(10.0, 12.0)[1], accelerator=BIG)),
    ):
        assert find_leading_discount(question, other) == ()
    first, second = pair(10.0, 12.0)
    side = Deployment(BIG.slug)
    for place in (first, second):
        split = replace(place.estimate, deployment=replace(place.estimate.deployment, pools=Pools(side, side)))
        both = tuple(replace(r, estimate=split) if r is place else r for r in (first, second))
        assert find_leading_discount(question, both) == ()
        unpriced = replace(place, estimate=replace(place.estimate, cost=None))
        assert find_leading_discount(question, tuple(unpriced if r is place else r for r in (first, second))) == ()
    assert find_leading_discount(replace(question, objective=Objective.ENERGY), (first, second)) == ()
    # A run is ranked by its total, of which machines have the same share as of an hour.
    runs = tuple(
        replace(r, estimate=replace(r.estimate, cost=replace(r.estimate.cost, usd_total=usd)))  # type: ignore[type-var]
        for r, usd in ((first, 1000.0), (second, 1200.0))
    )
    (change,) = find_leading_discount(question, runs)
    assert change.request == {"economics": {"discounts": {CARD.slug: 0.26}}}
    assert ranking_cost_usd(runs[1].estimate) == 1200.0 and ranking_cost_usd(second.estimate) == 12.0
    assert ranking_cost_usd(replace(second.estimate, cost=None)) is None


def way(usd_per_hour: float, purchase_usd: float | None = None, *others: Alternative) -> Estimate:
    return replace(
        estimated(cost=replace(COST, usd_per_hour=usd_per_hour, purchase_usd=purchase_usd)), alternatives=others
    )


def alternative(option: AcquisitionOption, usd_per_hour: float, purchase_usd: float | None = None) -> Alternative:
    return Alternative(
        option, "a", "b", usd_per_hour, purchase_usd, PriceKind.PROVIDER, "2026-01", ownable=True, break_even_month=None
    )


def effect_of(estimates: list[Estimate], scores: Column, options: Any, question: Question | None = None) -> list[str]:
    asked = Question(CHAT) if question is None else question
    search = Search.start(asked, SMALL, Rejections(SMALL.accelerators)).of(CHAT)
    return [change.effect for change in compare_rent_and_buy(search, options, estimates, scores)]


def plans(usd_per_hour: Column, purchase_usd: Column) -> Any:
    cost, fleet = row(purchase_usd=purchase_usd), row(accelerators=np.full(len(usd_per_hour), 8.0))
    types = np.zeros(len(usd_per_hour), np.int64)
    return row(cost=cost, daily_usd_per_hour=usd_per_hour, accelerator=types, fleet=fleet)


NO_PLANS = plans(col(), col())


def test_the_cheapest_to_own_is_compared_with_the_cheapest_to_rent() -> None:
    offered = alternative(AcquisitionOption.OWNED, 38.0, 300_000.0)
    spot = alternative(AcquisitionOption.SPOT, 1.0)
    estimates = [way(30.0), way(35.0, None, offered, spot), way(36.0, 200_000.0)]
    (effect,) = effect_of(estimates, col(30, 35, 36), NO_PLANS)
    assert effect.startswith("buying 8 × ") and "costs 200,000 USD upfront (36.00 USD/h over the horizon)" in effect
    assert effect.endswith("costs 30.00 USD/h")


def test_with_one_way_only_there_is_no_choice() -> None:
    assert effect_of([way(30.0), way(40.0)], col(30, 40), NO_PLANS) == []
    assert effect_of([way(30.0, 1e5)], col(30), plans(col(40), col(1e5))) == []


def test_a_way_that_no_ranked_option_has_is_only_estimated_and_never_cheaper_than_the_first() -> None:
    unsimulated = plans(col(20, 33, 31), col(100_000, 200_000, np.nan))
    (effect,) = effect_of([way(30.0)], col(30), unsimulated)
    assert "200,000 USD upfront (about 33.00 USD/h over the horizon)" in effect
    # A cheaper alternative of a later rank cannot undercut the ranking either.
    odd = alternative(AcquisitionOption.OWNED, 20.0, 1e5)
    assert effect_of([way(30.0), way(40.0, None, odd)], col(30, 40), NO_PLANS) == []


def test_money_decides_among_options_that_are_as_good() -> None:
    """The slow third is no way to have the lowest latency, however it is paid."""
    fast = Question(CHAT, objective=Objective.LATENCY)
    estimates = [way(30.0), way(40.0, 2e5), way(3.0)]
    (effect,) = effect_of(estimates, col(1.0, 1.02, 9.0), NO_PLANS, fast)
    assert "(40.00 USD/h over" in effect and effect.endswith("30.00 USD/h")


def test_only_pricing_models_of_the_request_are_compared() -> None:
    rented = Question(CHAT, Constraints(pricing_models=(PricingModel.ON_DEMAND,)))
    offered = alternative(AcquisitionOption.OWNED, 38.0, 300_000.0)
    assert effect_of([way(30.0, None, offered)], col(30), NO_PLANS, rented) == []


@pytest.mark.parametrize("workload", WORKLOADS)
def test_rent_or_buy_agrees_with_the_ranking(catalog: Catalog, workload: InferenceWorkload) -> None:
    """No way costs less than the first option, and no rejected accelerator is named."""
    answer = recommend_hardware(Question(workload, rejected_limit=1000), catalog)
    for change in answer.sensitivity:
        if change.change == prices.RENT_OR_BUY:
            cost = answer.recommendations[0].estimate.cost
            assert cost is not None and cost.usd_per_hour is not None
            paid = [float(usd.replace(",", "")) for usd in re.findall(r"([\d,.]+) USD/h", change.effect)]
            assert len(paid) == 2
            assert min(paid) == pytest.approx(cost.usd_per_hour, rel=0.01, abs=0.005)
            assert not [r.name for r in answer.rejected if f"× {r.name} costs" in change.effect]


def priced(*found: tuple[float, int, float, float]) -> prices.PricedDeployments:
    """Deployments by rent of the listing, acceptance code, accelerators and cost to compare."""
    rents = {SMALL.offers[offer].usd_per_hour: i for i, offer in enumerate(SMALL.listings.offer.tolist()) if offer >= 0}
    keep = np.ones(len(SMALL.listings), bool)
    question = Question(CHAT)
    each = listing_prices(SMALL, keep, question.assumptions, question.economics)
    rows = np.array([rents[rent] for rent, *_ in found])
    offered = candidates_from_listings(SMALL, each, rows, SMALL.listings.vcpus, question.assumptions)
    _, code, count, usd = (np.array(column) for column in zip(*found, strict=True))
    return prices.PricedDeployments(offered, code, count, usd * 10, np.full(len(found), np.nan), usd)


def test_of_each_condition_the_cheapest_that_beats_a_near_tie_is_shown() -> None:
    found = prices._cheaper_options(
        Question(CHAT),
        SMALL,
        priced(
            (16.0, SPOT, 8, 50.0),
            (16.0, SPOT, 4, 40.0),
            (16.0, SPOT, 2, 40.0),
            (16.0, SPOT, 1, 45.0),
            (24.0, COMMITMENT, 8, 96.0),
            (0.3, BROKERS, 3, 90.0),
        ),
        100.0,
    )
    assert [(c.accepting, c.total_accelerators) for c in found] == [(ACCEPTING[BROKERS], 3), (ACCEPTING[SPOT], 2)]
    brokers, spot = found
    (old,) = prices._cheaper_options(Question(CHAT), SMALL, priced((16.0, ACCEPTING.index(OLD), 8, 50.0)), 100.0)
    assert old.accepting == OLD and old.risk.startswith("the price may have changed")
    assert (spot.usd_per_hour, spot.usd_total, spot.provider) == (400.0, None, "sky")
    assert spot.saves_share == pytest.approx(0.6)
    assert brokers.saves_share == pytest.approx(0.1) and "marketplace" in brokers.risk
    assert spot.risk == "the provider can interrupt it at any time"
    ends = replace(priced((16.0, SPOT, 8, 50.0)), usd_total=np.array([70.0]))
    assert [c.usd_total for c in prices._cheaper_options(Question(CHAT), SMALL, ends, 100.0)] == [70.0]


def test_excluded_machines_are_the_cheapest_of_each_condition_below_a_price() -> None:
    def rents(most: float = np.inf, **limits: object) -> set[tuple[str, float]]:
        question = Question(CHAT, Constraints(**limits))  # type: ignore[arg-type]
        codes = acceptance_codes(question, SMALL)
        found = prices.excluded_machines(question, SMALL, codes, most)
        hired = np.isnan(found.purchase_usd)
        names = [ACCEPTING[code] for code in codes[found.listing[hired]].tolist()]
        return set(zip(names, found.usd_per_hour[hired].tolist(), strict=True))

    spot, bound, brokers = ("spot capacity", 16.0), ("a commitment", 24.0), (ACCEPTING[BROKERS], 0.3)
    assert rents() == {spot, bound, brokers}
    question = Question(CHAT)
    machines = prices.excluded_machines(question, SMALL, acceptance_codes(question, SMALL), np.inf)
    assert np.isnan(machines.vcpus).all(), "processors of the host tell machines apart only where they prepare inputs"
    assert rents(24.0) == {spot, brokers} and rents(16.0) == {brokers}
    assert rents(pricing_models=(PricingModel.ON_DEMAND,)) == {brokers}
    assert rents(providers=("sky",)) == {spot, bound}
    assert rents(accelerators=("acme-card",)) == {brokers}
    keys = prices._machine_keys(
        SMALL, priced((40.0, 0, 1, 1), (44.0, 0, 1, 1), (16.0, 0, 1, 1), (0.8, 0, 1, 1)).offered
    )
    assert keys[0] == keys[1] == keys[2] != keys[3]


def test_only_machines_that_may_cost_less_are_searched_and_simulated(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    searches = list[tuple[Any, ...]]()
    search_machines: Any = prices._search_machines

    def record_search(*given: Any) -> Any:
        searches.append(given)
        return search_machines(*given)

    monkeypatch.setattr(prices, "_search_machines", record_search)
    recommend_hardware(Question(CHAT), catalog)
    ((*others, to_beat),) = searches
    machines, accepting = others[3], others[4]
    assert len(machines) and (machines.usd_per_hour < to_beat[accepting[machines.listing]]).all()
    for name in ("search_plans", "simulate_candidates"):  # one replica of every plan costs too much
        monkeypatch.delattr(prices, name)
    assert not len(search_machines(*others, np.zeros(len(to_beat))))


def test_a_service_is_priced_again_where_no_plan_changes() -> None:
    big = replace(CHAT, peak_per_s=400.0, average_per_s=200.0)
    found = cheaper_options(big, accelerators=("acme-big",), providers=("sky",))
    first = recommend_hardware(Question(big, Constraints(accelerators=("acme-big",), providers=("sky",))), SMALL)
    machines = first.recommendations[0].estimate.deployment.total_accelerators
    assert {"spot capacity", "a commitment"} <= set(found) and machines
    for name, rent in (("spot capacity", 16.0), ("a commitment", 24.0)):
        assert found[name].total_accelerators == machines
        assert found[name].usd_per_hour == pytest.approx(rent * machines / 8)
    volume = replace(CHAT, load=Load.OFFLINE, volume_requests=1e6)
    ends = cheaper_options(volume, accelerators=("acme-big",), providers=("sky",))
    assert ends["spot capacity"].saves_share == pytest.approx(0.6, abs=0.01)
    assert (ends["spot capacity"].usd_total or 0) > ends["spot capacity"].usd_per_hour


def test_a_run_moves_to_spot_machines_that_cost_less_and_are_as_good() -> None:
    late = replace(PRETRAIN, deadline_s=PRETRAIN.deadline_s * 4)
    found = cheaper_options(late, accelerators=("acme-big",), providers=("sky",))
    spot = found["spot capacity"]
    first = recommend_hardware(Question(late, Constraints(accelerators=("acme-big",), providers=("sky",))), SMALL)
    cost = first.recommendations[0].estimate.cost
    assert cost is not None and cost.usd_total is not None and spot.usd_total is not None
    assert spot.usd_per_hour == pytest.approx((cost.usd_per_hour or 0) * 16 / 40)
    assert 0.4 * cost.usd_total <= spot.usd_total < 0.6 * cost.usd_total, "interruptions take time"
    assert set(found) == {"spot capacity"}
    assert spot.total_accelerators == first.recommendations[0].estimate.deployment.total_accelerators
    soon = replace(PRETRAIN, deadline_s=1.0)
    assert cheaper_options(soon) == {}


def test_machines_of_a_service_with_a_day_differ_by_what_is_paid_by_the_hour(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: list[bool] = []

    def kinds(*columns: Any, gives_back: bool) -> Any:
        given.append(gives_back)
        return machine_kinds(*columns, gives_back=gives_back)

    monkeypatch.setattr(prices, machine_kinds.__name__, kinds)
    for workload in (CHAT, replace(CHAT, hourly_shares=(0.5,) * 23 + (1.0,)), PRETRAIN):
        question = Question(workload)
        prices.excluded_machines(question, SMALL, acceptance_codes(question, SMALL), np.inf)
    assert given == [False, True, False]
