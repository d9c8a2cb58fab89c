"""The best layout of given hardware is the same for every request and for every load."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.errors import Conflict
from app.sizing.estimate import estimate_deployment
from app.sizing.hardware.parts import COUNTED
from app.sizing.hardware.support.records import SERVING, Work
from app.sizing.question import Constraints, Deployment, Objective, Question
from app.sizing.recommend import recommend_hardware
from app.sizing.result import Estimate
from app.sizing.serving.plans import select_stacks
from app.sizing.snapshot import Catalog
from app.sizing.workload import InferenceWorkload, Lengths, Load, Redundancy, Slo
from tests.examples import CHAT, LLAMA_8B, LLAMA_70B, registered
from tests.sizing.test_competition import CROWDED

WHOLE_MARKET = settings(max_examples=6)

GIANT, MIXTURE = registered("meta-llama/Llama-3.1-405B-Instruct"), registered("Qwen/Qwen3-30B-A3B")
SERVICES = st.builds(
    lambda model, load, peak, count, prompt, output, tpot, redundancy: replace(
        CHAT,
        model=model,
        load=load,
        in_flight=float(count),
        peak_per_s=peak,
        average_per_s=peak / 2,
        input_tokens=Lengths(prompt, 2 * prompt),
        output_tokens=Lengths(output),
        slo=Slo(None, None, None, 95.0) if load is Load.OFFLINE else Slo(2.0, tpot, None, 95.0),
        max_context_tokens=2 * prompt + output,
        redundancy=redundancy,
    ),
    st.sampled_from([LLAMA_8B, LLAMA_70B, MIXTURE, GIANT]),
    st.sampled_from([Load.OPEN, Load.OPEN, Load.OPEN, Load.CLOSED, Load.BATCH, Load.OFFLINE]),
    st.floats(0.01, 1000),
    st.sampled_from([1, 8, 300]),
    st.floats(8, 8000),
    st.floats(1, 1000),
    st.sampled_from([0.0001, 0.01, 0.03, 0.1, 1.0]),
    st.sampled_from([Redundancy(), Redundancy(), Redundancy(spare=1), Redundancy(double=True)]),
)
CONFIDENCES = st.sampled_from([0.5, 0.8, 0.95])
TOTALS = st.sampled_from([1, 2, 3, 4, 6, 8, 12, 16, 64])
TYPES = ("nvidia-h100-sxm5-80gb", "nvidia-h200-sxm-141gb", "nvidia-l40s", "amd-mi300x", "nvidia-rtx-4090")


def capacity(found: Estimate) -> float:
    """Requests per second within the limits; none where it does not fit."""
    return 0.0 if found.performance is None else found.performance.requests_per_s_capacity or 0.0


def asked(workload: InferenceWorkload, confidence: float = 0.5, **other: Any) -> Question:
    return Question(workload, Constraints(confidence=confidence), **other)


def capacity_is_of_the_hardware(question: Question, hardware: Deployment, peak: float, catalog: Catalog) -> None:
    workload = question.workload
    assert isinstance(workload, InferenceWorkload)
    one = estimate_deployment(question, hardware, catalog)
    busier = replace(question, workload=replace(workload, peak_per_s=peak, average_per_s=peak / 2))
    other = estimate_deployment(busier, hardware, catalog)
    assert capacity(one) == pytest.approx(capacity(other), rel=1e-9)
    for found, load in ((one, workload.peak_per_s), (other, peak)):
        if found.performance is not None:
            assert found.performance.overloaded is (load > capacity(found) * (1 + 1e-9))


OPEN = SERVICES.map(lambda workload: replace(workload, load=Load.OPEN))


@pytest.mark.slow
@given(OPEN, CONFIDENCES, st.sampled_from(["acme-big", "acme-card", "bolt-desk"]), TOTALS, st.floats(0.01, 1e5))
def test_capacity_of_hardware_does_not_depend_on_the_load_asked(
    workload: InferenceWorkload, confidence: float, slug: str, total: int, peak: float
) -> None:
    capacity_is_of_the_hardware(asked(workload, confidence), Deployment(slug, total_accelerators=total), peak, CROWDED)


@pytest.mark.slow
@WHOLE_MARKET
@given(OPEN, CONFIDENCES, st.sampled_from(TYPES), TOTALS, st.floats(0.01, 1e5))
def test_capacity_of_hardware_on_sale_does_not_depend_on_the_load_asked(
    catalog: Catalog, workload: InferenceWorkload, confidence: float, slug: str, total: int, peak: float
) -> None:
    capacity_is_of_the_hardware(asked(workload, confidence), Deployment(slug, total_accelerators=total), peak, catalog)


def by_hand(hardware: Deployment, catalog: Catalog) -> Iterator[Deployment]:
    """Layouts, engines and machines that somebody may write down for the same accelerators."""
    total = hardware.total_accelerators or 0
    for tensor in (1, 2, 3, 4, 8, 16):
        for pipeline in (1, 2, 3, 4, 5, 8):
            if tensor * pipeline <= total:
                yield replace(hardware, tensor_parallel=tensor, pipeline_parallel=pipeline)
    for engine in catalog.engines:
        yield replace(hardware, engine=engine)
    for system in catalog.systems.values():
        if system.accelerator == hardware.accelerator:
            yield replace(hardware, system=system.slug)


def competing(question: Question, hardware: Deployment, catalog: Catalog) -> set[str]:
    """Engines that are judged on an accelerator if the request names none."""
    work = Work(SERVING, task=question.workload.model.task)
    stacks = select_stacks(catalog, work, frozenset(catalog.formats), (), None)
    return {catalog.engines[e] for e in stacks.engine[stacks.on[:, catalog.accelerator_index[hardware.accelerator]]]}


def firm(found: Estimate) -> bool:
    price = None if found.cost is None else found.cost.price
    return price is not None and price.terms.kind in COUNTED


def never_worse_than_by_hand(question: Question, hardware: Deployment, written: Deployment, catalog: Catalog) -> None:
    """Where a layout by hand takes no more accelerators, states its network and meets the limits as well."""
    try:
        hand = estimate_deployment(question, written, catalog)
    except Conflict:  # a system that is not for sale
        return
    free = estimate_deployment(question, hardware, catalog)
    assumed = any(r.code == "network_assumed" for r in hand.explanation)
    most = max(hardware.total_accelerators or 0, free.deployment.total_accelerators or 0)
    if hand.support != free.support or hand.deployment.engine not in competing(question, hardware, catalog):
        return  # support by rules only, and wrapped engines, are judged if the request names them
    if firm(free) and not firm(hand):
        return  # a price that is not firm counts if the request names its machine
    if (hand.deployment.total_accelerators or 0) <= most and not assumed and hand.deployment.system is not None:
        assert free.fits or not hand.fits
        if meets(hand, question):
            assert capacity(free) >= capacity(hand) * (1 - 1e-9)


def meets(found: Estimate, question: Question) -> bool:
    """With the confidence asked."""
    sure = found.assurance
    return sure is not None and (sure.meets_slo is None or sure.meets_slo >= question.constraints.confidence)


@pytest.mark.slow
@given(SERVICES, CONFIDENCES, st.sampled_from(["acme-big", "acme-card", "bolt-desk"]), TOTALS, st.data())
def test_what_is_left_open_is_never_worse_than_by_hand(
    workload: InferenceWorkload, confidence: float, slug: str, total: int, data: Any
) -> None:
    hardware = Deployment(slug, total_accelerators=total)
    for _ in range(3):
        written = data.draw(st.sampled_from(list(by_hand(hardware, CROWDED))))
        never_worse_than_by_hand(asked(workload, confidence), hardware, written, CROWDED)


@WHOLE_MARKET
@given(SERVICES, CONFIDENCES, st.sampled_from(TYPES), TOTALS, st.data())
def test_on_sale_what_is_left_open_is_never_worse_than_by_hand(
    catalog: Catalog, workload: InferenceWorkload, confidence: float, slug: str, total: int, data: Any
) -> None:
    hardware = Deployment(slug, total_accelerators=total)
    written = data.draw(st.sampled_from(list(by_hand(hardware, catalog))))
    never_worse_than_by_hand(asked(workload, confidence), hardware, written, catalog)


def is_the_recommendation(question: Question, slug: str, catalog: Catalog) -> Estimate | None:
    """An estimate of an open size equals the recommendation for the accelerator; posted back it stays the same."""
    only = replace(question.constraints, accelerators=(slug,))
    ranked = recommend_hardware(replace(question, constraints=only), catalog).recommendations
    free = estimate_deployment(question, Deployment(slug), catalog)
    again = estimate_deployment(question, free.deployment, catalog)
    for found in (again, *(r.estimate for r in ranked)):
        assert (found.deployment, found.memory, found.performance, found.cost) == (
            free.deployment,
            free.memory,
            free.performance,
            free.cost,
        )
    return ranked[0].estimate if ranked else None


def spent(found: Estimate) -> float:
    assert found.cost is not None
    return found.cost.usd_per_hour or 0.0


def never_beaten(question: Question, slug: str, catalog: Catalog) -> None:
    """Nor is a recommendation dearer than what an estimate makes of as many accelerators for the same load."""
    best = is_the_recommendation(question, slug, catalog)
    if best is None or best.deployment.total_accelerators is None:
        return
    other = estimate_deployment(
        question, Deployment(slug, total_accelerators=best.deployment.total_accelerators), catalog
    )
    workload = question.workload
    assert isinstance(workload, InferenceWorkload)
    if other.fits and workload.load is not Load.OFFLINE and meets(other, question):
        same = other.deployment.spare_replicas == best.deployment.spare_replicas
        assert not same or spent(best) <= spent(other) * (1 + 1e-9)


@pytest.mark.slow
@given(SERVICES, CONFIDENCES, st.sampled_from(Objective), st.sampled_from(["acme-big", "acme-card", "bolt-desk"]))
def test_an_estimate_that_leaves_the_size_open_is_what_is_recommended(
    workload: InferenceWorkload, confidence: float, objective: Objective, slug: str
) -> None:
    is_the_recommendation(asked(workload, confidence, objective=objective), slug, CROWDED)
    never_beaten(asked(workload, confidence), slug, CROWDED)


@pytest.mark.slow
@WHOLE_MARKET
@given(SERVICES, CONFIDENCES, st.sampled_from(TYPES))
def test_on_sale_no_estimate_beats_the_recommendation_on_its_own_hardware(
    catalog: Catalog, workload: InferenceWorkload, confidence: float, slug: str
) -> None:
    never_beaten(asked(workload, confidence), slug, catalog)
