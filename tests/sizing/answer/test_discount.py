"""A suggested discount changes the ranking, and a slightly smaller one does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.sizing.answer.discount import discountable_usd_per_hour, find_leading_discount
from app.sizing.hardware.parts import Environment
from app.sizing.question import Constraints, Economics, Objective, Question
from app.sizing.recommend import recommend_hardware
from app.sizing.result import Answer
from app.sizing.workload import InferenceWorkload, Lengths, Slo, TrainingWorkload
from tests.examples import CHAT, PRETRAIN
from tests.sizing.small import SMALL

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
    for ranked in asked(WORKLOADS[1]).recommendations:
        slug, cost = ranked.accelerator.slug, ranked.estimate.cost
        assert cost is not None and cost.usd_per_hour is not None
        half = asked(WORKLOADS[1], ((slug, 0.5),), Constraints(accelerators=(slug,))).recommendations[0].estimate.cost
        assert half is not None
        assert half.usd_per_hour == pytest.approx(cost.usd_per_hour - discountable_usd_per_hour(cost) / 2)
        assert half.price is not None and half.price.discount == 0.5


def test_only_money_is_turned_by_a_price() -> None:
    question = Question(WORKLOADS[1], objective=Objective.LATENCY)
    assert find_leading_discount(question, recommend_hardware(question, SMALL).recommendations) == ()
    assert find_leading_discount(Question(WORKLOADS[1]), ()) == ()
