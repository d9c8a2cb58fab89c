"""The best service by itself is the one that ranks first. The choices for the open settings of a deployment."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from app.sizing.decisions.search import Search
from app.sizing.estimate import estimate_deployment
from app.sizing.question import Constraints, Deployment, Question
from app.sizing.recommend import recommend_hardware
from app.sizing.serving import choice
from app.sizing.serving.choice import best_single_service, cheapest_row, exceeds_accelerators, is_complete
from app.sizing.serving.interfaces import Settings
from app.sizing.serving.options import requested_settings
from app.sizing.serving.search import evaluate_plans
from app.sizing.snapshot import Catalog
from app.sizing.workload import Load, Redundancy, Slo
from tests.examples import CHAT, LLAMA_8B, LLAMA_70B, col, row
from tests.sizing.serving.given import STEADY, planned
from tests.sizing.small import SMALL

SMALL_CHAT = replace(CHAT, model=LLAMA_8B, peak_per_s=40.0, average_per_s=20.0)


def test_it_is_what_a_recommendation_ranks_first() -> None:
    question = Question(SMALL_CHAT)
    best = best_single_service(Search.start(question, SMALL).of(SMALL_CHAT))
    assert best is not None
    assert len(best) == 1
    first = recommend_hardware(question, SMALL).recommendations[0].estimate
    assert SMALL.accelerators[int(best.accelerator[0])].slug == first.deployment.accelerator
    assert first.cost is not None
    assert float(best.cost.usd_per_hour[0]) == first.cost.usd_per_hour


def test_nothing_is_found_where_nothing_does() -> None:
    assert (
        best_single_service(
            Search.start(Question(SMALL_CHAT, Constraints(max_usd_per_hour=0.01)), SMALL).of(SMALL_CHAT)
        )
        is None
    )


BUSY = replace(CHAT, model=LLAMA_70B, peak_per_s=1e4)


def test_machines_larger_than_the_request_are_marked() -> None:
    """Two replicas of two in a machine of eight are beyond four accelerators, and within eight."""
    for total, found in ((4, {1.0}), (8, {0.0})):
        deployment = Deployment("acme-big", system="big-8", tensor_parallel=2, total_accelerators=total)
        plans = planned(fixed=deployment)
        assert (
            set(
                exceeds_accelerators(
                    STEADY, deployment, plans, requested_settings(deployment, plans, Redundancy())
                ).tolist()
            )
            == found
        )
    free = Deployment("acme-big", tensor_parallel=2)
    plans = planned(fixed=free)
    assert not exceeds_accelerators(STEADY, free, plans, requested_settings(free, plans, Redundancy())).any()


def test_a_machine_larger_than_asked_for_is_taken_where_there_is_no_other_and_says_what_idles() -> None:
    found = estimate_deployment(Question(CHAT), Deployment("acme-big", total_accelerators=2), SMALL)
    assert found.fits
    assert found.deployment.total_accelerators == 8
    (idle,) = (r for r in found.explanation if r.code == "idle_accelerators")
    assert idle.value == 6


@pytest.mark.parametrize(
    "slo", [Slo(1e-6, None, None, 95), Slo(None, 1e-6, None, 95), Slo(None, None, 1e-6, 95), Slo(1e-6, 1e-6, None, 99)]
)
@pytest.mark.parametrize("load", [Load.OPEN, Load.CLOSED, Load.BATCH])
def test_limits_that_cannot_be_met_still_get_a_deployment_that_can_be_posted_back(load: Load, slo: Slo) -> None:
    workload = replace(BUSY, slo=slo, load=load, in_flight=5000.0)
    for asked in (Deployment("acme-big"), Deployment("acme-big", total_accelerators=8)):
        found = estimate_deployment(Question(workload, trace=True), asked, SMALL)
        d, p = found.deployment, found.performance
        assert found.fits
        assert p is not None
        assert (d.max_batch or 0) > 1
        assert (d.total_accelerators or 0) <= 10_000_000
        if load is Load.OPEN:
            assert (p.requests_per_s_capacity, p.utilization_at_peak, p.overloaded) == (0.0, None, True)
        again = estimate_deployment(Question(workload, trace=True), d, SMALL)
        assert (again.deployment, again.performance, again.cost) == (d, p, found.cost)


def test_another_engine_that_comes_near_is_named_where_the_engine_is_open(catalog: Catalog) -> None:
    question = Question(replace(CHAT, model=LLAMA_70B))

    def near(**fixed: Any) -> list[str]:
        found = estimate_deployment(question, Deployment("nvidia-b200-sxm-180gb", **fixed), catalog)
        return [r.text for r in found.explanation if r.code == "near_tie"]

    only = Constraints(accelerators=("nvidia-b200-sxm-180gb",))
    (ranked,) = recommend_hardware(replace(question, constraints=only), catalog).recommendations
    assert near() == [r.text for r in ranked.estimate.explanation if r.code == "near_tie"] != []
    assert near(engine="vllm") == []
    assert all("do about as much" in text for text in near(total_accelerators=8))


def test_so_many_replicas_are_no_amount_of_hardware() -> None:
    assert not Deployment("x", replicas=2).fixes_hardware
    assert Deployment("x", replicas=2, accelerators_per_replica=2).fixes_hardware
    assert Deployment("x", replicas=2, tensor_parallel=2, pipeline_parallel=1).fixes_hardware
    assert Deployment("x", nodes=1).fixes_hardware


def test_what_is_written_out_in_full_leaves_nothing_to_choose() -> None:
    whole = Settings(col(64), max_batched_tokens=col(2048), memory_fraction=col(0.9), replicas=col(2))
    assert is_complete(STEADY, whole)
    for name in ("max_sequences", "max_batched_tokens", "memory_fraction", "replicas"):
        assert not is_complete(STEADY, replace(whole, **{name: None}))
    in_passes: Any = row(single_pass=True)  # which have no budget of tokens
    assert is_complete(in_passes, replace(whole, max_batched_tokens=None))


def test_plans_that_differ_in_their_price_alone_are_not_evaluated(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cheapest one is taken, and judged as the whole deployment only."""
    calls: list[str] = []

    def counting(function: Any) -> Any:
        def call(*given: Any) -> Any:
            calls.append(function.__name__)
            return function(*given)

        return call

    for function in (evaluate_plans, cheapest_row):
        monkeypatch.setattr(choice, function.__name__, counting(function))
    layout: dict[str, Any] = {"tensor_parallel": 4, "accelerators_per_replica": 4, "replicas": 1, "spare_replicas": 0}
    deployment = Deployment("acme-big", engine="vllm", weight_format="bf16", kv_format="bf16", **layout)
    assert estimate_deployment(Question(CHAT), deployment, SMALL).fits
    assert calls == ["cheapest_row"]
