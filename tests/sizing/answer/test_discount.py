"""A suggested discount changes the ranking, and a slightly smaller one does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.sizing.answer.discount import discountable_usd_per_hour, find_leading_discount, ranking_cost_usd
from app.sizing.hardware.parts import Environment
from app.sizing.question import Constraints, Deployment, Economics, Objective, Pools, Question
from app.sizing.recommend import recommend_hardware
from app.sizing.result import Answer, Part, Ranked
from app.sizing.workload import InferenceWorkload, Lengths, Slo, TrainingWorkload
from tests.examples import CHAT, PRETRAIN
from tests.sizing.answer.given import COST, ranked
from tests.sizing.small import BIG, CARD, SMALL

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
