"""The search: what it keeps is what judging every plan one by one keeps, with the same numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.sizing.decisions.cost import within_limits
from app.sizing.decisions.rejections import Rejections
from app.sizing.decisions.search import Search
from app.sizing.hardware.parts import Environment, SystemKind
from app.sizing.question import Constraints, Deployment, Question
from app.sizing.serving.interfaces import Settings
from app.sizing.serving.kinds import serving_backend
from app.sizing.serving.options import Options, PlanEvaluations, stable_key
from app.sizing.serving.search import evaluate_plans, replica_equivalence_key, search_plans
from app.sizing.workload import InferenceWorkload, Load, Redundancy, Slo
from tests.examples import LLAMA_70B
from tests.sizing.serving.given import MIXTURE, STEADY, planned, varied
from tests.sizing.small import CARD, OFFERS, SYSTEMS, offer, snapshot, system

ONE = np.array([0])
SEVERAL = snapshot(
    systems=[*SYSTEMS, replace(SYSTEMS[0], slug="big-8-slow", network_bytes_per_s=100e9)],
    offers=[*OFFERS, replace(offer("big-8", 90.0), instance_type="big-8-slow", system="big-8-slow")],
)


def found(
    workload: InferenceWorkload, of: Any = SEVERAL, **limits: Any
) -> tuple[Options, PlanEvaluations[Any, Any, Any], Rejections]:
    """(the plans that the search keeps, the same plans judged one by one, the rejections)."""
    known: dict[str, Any] = {"weight_formats": ("bf16",), "confidence": 0.5}
    constraints = Constraints(**known | limits)
    question = Question(workload, constraints)
    plans = planned(workload.model, of=of, constraints=constraints)
    rejections = Rejections(of.accelerators)
    kept = search_plans(Search.start(question, of, rejections).of(workload), plans)
    rows = []
    for i in range(len(plans)):
        alone = evaluate_plans(question, workload, plans.take(np.array([i])), Settings())
        options = alone.options
        met = all(
            bool(limit.met[0]) for limit in serving_backend(workload).latency_limits(alone.speed.unloaded, workload.slo)
        )
        cheap = within_limits(
            options.accelerator, options.fleet.accelerators, options.cost, constraints, Rejections(of.accelerators)
        )
        if bool(alone.memory.fits[0]) and met and bool(cheap[0]):
            rows.append(i)
    return (
        kept,
        evaluate_plans(question, workload, plans.take(np.array(rows, dtype=np.int64)), Settings()),
        rejections,
    )


WORKLOADS = [
    STEADY,
    varied(model=MIXTURE, peak_per_s=300.0, redundancy=Redundancy(spare=1)),
    varied(model=LLAMA_70B, slo=Slo(1.0, 0.05, None, 95)),
    varied(slo=Slo(0.011, 0.004, None, 95)),
    varied(load=Load.CLOSED, in_flight=3000.0, slo=Slo(None, 0.03, None, 95)),
    varied(load=Load.OFFLINE),
    varied(load=Load.OFFLINE, volume_requests=1e7, deadline_s=3600.0),
]


LIMITED: list[dict[str, Any]] = [{"max_usd_per_hour": 30.0, "max_accelerators": 16}, {"max_power_w": 1000.0}]


@pytest.mark.parametrize(
    ("workload", "limits"), [*((w, {}) for w in WORKLOADS), *((STEADY, limits) for limits in LIMITED)]
)
def test_the_search_keeps_what_one_by_one_keeps(workload: InferenceWorkload, limits: dict[str, Any]) -> None:
    kept, every, _ = found(workload, **limits)
    judged = every.options
    assert len(kept) == len(judged)
    assert kept.slo_batch == pytest.approx(judged.slo_batch)
    assert kept.capacity_per_s == pytest.approx(every.speed.planned_capacity_per_s(workload))
    for name in ("rate_per_s", "e2e_p50_s"):  # worked out where they decide
        known = np.isfinite(getattr(kept, name))
        assert getattr(kept, name)[known] == pytest.approx(getattr(judged, name)[known]), name
        assert known.any()
    assert kept.fleet.replicas.tolist() == judged.fleet.replicas.tolist()
    assert kept.fleet.accelerators.tolist() == judged.fleet.accelerators.tolist()
    assert kept.cost.usd_per_hour == pytest.approx(judged.cost.usd_per_hour)
    assert kept.cost.rated_w == pytest.approx(judged.cost.rated_w)
    for settings in ("max_sequences", "max_batched_tokens", "memory_fraction", "replicas", "spare_replicas"):
        assert np.array_equal(getattr(kept.settings, settings), getattr(judged.settings, settings))
    assert kept.plans.machines.rows.tolist() == judged.plans.machines.rows.tolist()
    assert kept.plans.stacks.rows.tolist() == judged.plans.stacks.rows.tolist()


def test_each_filter_says_what_was_missing() -> None:
    def codes(workload: InferenceWorkload, **limits: Any) -> dict[str, str]:
        return {r.accelerator: r.code for r in found(workload, **limits)[2].by_accelerator.values()}

    assert codes(STEADY) == {}
    assert codes(varied(model=LLAMA_70B))["acme-card"] == "out_of_memory"
    assert codes(varied(slo=Slo(None, 0.0001, None, 95)))["acme-big"] == "too_slow_per_token"
    assert codes(varied(slo=Slo(0.001, None, None, 95)))["acme-big"] == "too_slow_to_first_token"
    assert codes(STEADY, max_power_w=10.0)["acme-big"] == "over_power"
    texts = (
        (Slo(None, 0.0001, None, 95), "The limit is {available} ms."),
        (Slo(None, None, 0.02, 95), "The end-to-end limit leaves {available} ms."),
        (Slo(None, 0.0001, 0.02, 95), "The limits leave {available} ms."),
    )
    for slo, left in texts:
        (big,) = (r for r in found(varied(slo=slo))[2].by_accelerator.values() if r.accelerator == "acme-big")
        assert left in big.template
    late = found(varied(slo=Slo(0.001, None, None, 95)))[2].by_accelerator[0]
    assert (late.available, late.unit) == (1, "ms")
    assert late.needed is not None
    assert 1 < late.needed < 100
    big = found(varied(model=LLAMA_70B))[2].by_accelerator[1]
    assert big.unit == "gib"
    assert big.available == pytest.approx(0.92 * 24 * 0.994)
    assert 30 < (big.needed or 0) < 300


TOWER = system("tower", SystemKind.WORKSTATION, CARD, 2, list_price_usd=100.0)  # cheaper than any rent


@pytest.mark.parametrize(
    ("redundancy", "limits", "one", "towers"),
    [
        (Redundancy(), {}, False, False),
        (Redundancy(spare=1), {}, False, False),
        (Redundancy(), {"accelerators": ("acme-card", "acme-big")}, True, True),
        (Redundancy(), {"accelerators": ("acme-card", "acme-big"), "by_pattern": ("acme-card",)}, False, False),
        (Redundancy(), {"segments": ("workstation", "datacenter")}, True, True),
        (Redundancy(), {"environments": (Environment.ON_PREM,)}, True, True),
        (Redundancy(), {"max_purchase_usd": 1e9}, True, False),
    ],
)
def test_no_workstations_serve_many_unless_they_are_named_or_alone_or_few_are_to_be_bought(
    redundancy: Redundancy, limits: dict[str, Any], one: bool, towers: bool
) -> None:
    of = snapshot(systems=(SYSTEMS[0], TOWER), offers=OFFERS[:4])
    constraints = Constraints(weight_formats=("bf16",), confidence=0.5, **limits)
    rejections = Rejections(of.accelerators)

    def bought(workload: InferenceWorkload) -> Options:
        question = Question(workload, constraints)
        plans = planned(workload.model, of=of, constraints=constraints)
        return search_plans(Search.start(question, of, rejections).of(workload), plans)

    assert bought(varied(peak_per_s=0.1)).plans.node.workstation.any() == one
    assert bought(varied(load=Load.CLOSED, in_flight=1.0)).plans.node.workstation.any()
    rejections.by_accelerator.clear()
    workload = varied(peak_per_s=1000.0, redundancy=redundancy)
    assert bought(workload).plans.node.workstation.any() == towers
    assert towers == (1 not in rejections.by_accelerator)
    if not towers:
        assert rejections.by_accelerator[1].code == "workstation_fleet"


def test_types_that_cannot_even_start_in_time_say_how_long_they_need() -> None:
    kept, _, rejections = found(varied(load=Load.OFFLINE, volume_requests=10.0, deadline_s=40.0))
    assert not len(kept)
    late = rejections.closest_first()[0]
    assert (late.code, late.unit, late.available) == ("too_slow", "hours", 40 / 3600)
    assert (late.needed or 0.0) * 3600 > 45.0
    assert late.text.startswith("At 50 % confidence, Acme ")


def test_plans_whose_replicas_are_the_same_share_a_number() -> None:
    """Machines of another price or network make the same replica unless its stages talk between machines."""
    constraints = Constraints(accelerators=("acme-big",), kv_formats=("bf16", "fp8"))
    plans = planned(LLAMA_70B, of=SEVERAL, constraints=constraints)
    key = replica_equivalence_key(plans, SEVERAL)
    network = plans.node.network_bytes_per_s
    assert len(set(network.tolist())) == 2
    columns = (plans.stacks.rows, plans.kv, plans.tensor_parallel, plans.pipeline_parallel)
    same = np.all([c[:, None] == c[None, :] for c in columns], axis=0)
    assert np.array_equal(key[:, None] == key[None, :], same)
    fixed = Deployment("acme-big", tensor_parallel=8, pipeline_parallel=2, engine="vllm", weight_format="bf16")
    across = planned(LLAMA_70B, of=SEVERAL, fixed=fixed)
    key, network = replica_equivalence_key(across, SEVERAL), across.node.network_bytes_per_s
    assert np.array_equal(key[:, None] == key[None, :], network[:, None] == network[None, :])


def test_equal_plans_are_ordered_by_devices_then_by_the_catalogue() -> None:
    kept = found(STEADY)[0]
    key = stable_key(kept)
    by = list(zip(kept.fleet.accelerators, kept.plans.accelerators_per_replica, kept.plans.stacks.rows, strict=True))
    assert [by[i] for i in np.argsort(key, kind="stable")] == sorted(by)
