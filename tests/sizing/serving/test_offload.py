"""Which plans keep weights in their host's memory, how much, and what holds of it whatever the share."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import Conflict
from app.sizing.assumptions import Assumptions
from app.sizing.columns import GIB
from app.sizing.decisions.rejections import Rejections
from app.sizing.decisions.search import Search
from app.sizing.estimate import estimate_deployment
from app.sizing.finalists import find_finalists
from app.sizing.hardware.parts import PriceKind, SystemKind
from app.sizing.hardware.support.records import EngineSupport
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.model.formats import WEIGHT_FORMATS
from app.sizing.question import Constraints, Deployment, Question
from app.sizing.result import Estimate
from app.sizing.serving.offload import (
    EXPERTS,
    EXPERTS_FIRST,
    LAYERS,
    OFFLOAD_TARGETS,
    can_offload,
    host_resources,
    offload_targets,
)
from app.sizing.serving.plans import Plans
from app.sizing.serving.search import machines_within_constraints
from app.sizing.snapshot import Catalog
from app.sizing.workload import InferenceWorkload, Lengths, Load, Slo
from tests.examples import CHAT, LLAMA_70B, registered, row
from tests.sizing.serving.given import on_big, planned
from tests.sizing.small import BIG, CARD, DESK, RARE, SMALL, SUPPORT, snapshot, system

Q4 = "gguf-q4_k_m"
MIXTRAL = registered("mistralai/Mixtral-8x7B-Instruct-v0.1")
SMALL_CARD = replace(DESK, memory_bytes=24 * GIB)
LLAMA_CPP = EngineSupport("llama.cpp", "amd_rdna", "inference", {Q4: False}, ("fp16",), "a test")
ALSO = (
    LLAMA_CPP,
    replace(LLAMA_CPP, engine="ollama"),
    replace(LLAMA_CPP, engine="ktransformers"),
    *(s for s in SUPPORT if s.engine != "llama.cpp"),
)
DESKTOP = system("desk-1", SystemKind.WORKSTATION, SMALL_CARD, 1, ram_bytes=128 * GIB, list_price_usd=5_000)
AT_HOME = snapshot(accelerators=(BIG, CARD, SMALL_CARD, RARE), systems=(DESKTOP,), offers=(), support=ALSO)
ALL_KINDS = tuple(PriceKind)


def personal(model: ModelArchitecture = LLAMA_70B, in_flight: float = 1.0, **changed: Any) -> InferenceWorkload:
    """A few requests at a time, without limits."""
    asked: dict[str, Any] = {
        "model": model,
        "load": Load.CLOSED,
        "in_flight": in_flight,
        "most_personal_in_flight": 4.0,
        "input_tokens": Lengths(500.0),
        "output_tokens": Lengths(200.0),
        "slo": Slo(None, None, None, 95),
        "max_context_tokens": 2048.0,
    }
    return replace(CHAT, **asked | changed)


def judged(
    share: float | None = None, engine: str | None = "llama.cpp", *, work: InferenceWorkload | None = None, **asked: Any
) -> Estimate:
    """One small card with its desktop."""
    fixed: dict[str, Any] = {
        "accelerators_per_replica": 1,
        "replicas": 1,
        "weight_format": Q4,
        "weights_on_host": share,
    } | asked
    question = Question(work or personal(), Constraints(confidence=0.5), trace=True)
    return estimate_deployment(question, Deployment("bolt-desk", engine=engine, **fixed), AT_HOME)


def tpot_s(found: Estimate) -> float:
    assert found.performance is not None
    assert found.performance.tpot is not None
    assert found.performance.tpot.p50_s is not None
    return found.performance.tpot.p50_s


def test_a_model_too_large_for_its_card_runs_with_its_host_and_says_so() -> None:
    found = judged()
    assert found.fits
    assert found.deployment.weights_on_host is not None
    assert 0.3 < found.deployment.weights_on_host < 0.6  # 40 GiB on a card of 24
    assert found.bottleneck == "host"
    assert found.performance is not None
    assert found.performance.basis == "roofline"
    (said,) = [reason.text for reason in found.explanation if reason.code == "weights_on_host"]
    assert "layers with their KV cache" in said
    names = {step.name.partition(" ")[0] for step in found.trace}
    assert names >= {"host_pass_s", "with_host_part_s", "host_prompt_s", "host_sequences"}


def test_the_share_is_the_least_of_whole_layers_that_fits() -> None:
    found = judged()
    share = found.deployment.weights_on_host
    assert share is not None
    assert share * LLAMA_70B.num_layers == pytest.approx(round(share * LLAMA_70B.num_layers))
    assert judged(share).fits
    assert not judged(share - 1.01 / LLAMA_70B.num_layers).fits


def test_a_deployment_posted_back_is_the_same() -> None:
    found = judged()
    question = Question(personal(), Constraints(confidence=0.5), trace=True)
    again = estimate_deployment(question, found.deployment, AT_HOME)
    assert again.performance == found.performance
    assert again.memory == found.memory
    assert again.cost == found.cost


def test_weights_stay_on_the_accelerator_if_they_fit_or_offload_is_off() -> None:
    assert judged(work=personal(MIXTRAL), weight_format=Q4).deployment.weights_on_host  # 26 GiB do not fit 24
    small = judged(work=personal(registered("meta-llama/Llama-3.1-8B-Instruct")))
    assert small.deployment.weights_on_host is None
    none = judged(0.0, work=personal(registered("meta-llama/Llama-3.1-8B-Instruct")))
    assert [getattr(none, f.name) for f in fields(Estimate) if f.name != "assumptions"] == [
        getattr(small, f.name) for f in fields(Estimate) if f.name != "assumptions"
    ]
    assert not judged(0.0).fits
    assert judged(1.0, work=personal(registered("meta-llama/Llama-3.1-8B-Instruct"))).performance  # nothing left to do
    busy = judged(engine=None, work=personal(in_flight=64.0))
    assert not busy.fits
    assert judged(work=personal(in_flight=64.0)).fits  # an engine that is named counts


@given(st.floats(0.45, 1.0), st.floats(0.45, 1.0), st.sampled_from(["llama.cpp", "ollama"]), st.booleans())
def test_more_on_the_host_is_never_faster(one: float, other: float, engine: str, mixture: bool) -> None:
    work = personal(MIXTRAL if mixture else LLAMA_70B)
    less, more = sorted((one, other))
    before, after = judged(less, engine, work=work), judged(more, engine, work=work)
    assert before.fits
    assert tpot_s(after) >= tpot_s(before) * (1 - 1e-9)


@given(st.floats(0.45, 1.0), st.sampled_from([1.0, 3.0]), st.booleans())
def test_no_step_is_faster_than_the_memory_of_the_host(share: float, in_flight: float, mixture: bool) -> None:
    model = MIXTRAL if mixture else LLAMA_70B
    found = judged(share, work=personal(model, in_flight))
    stored = WEIGHT_FORMATS[Q4]
    experts = model.routed_expert_bytes(stored)
    there = share * model.weights_bytes(stored)
    touched = model.experts_per_token / model.num_experts if mixture else 0.0
    idle = model.idle_bytes(stored)
    least = touched * min(experts, there) + max(0.0, there - experts - idle)
    rate = Assumptions().desktop_host_gb_per_s * 1e9
    assert tpot_s(found) > least / rate
    assert found.performance is not None
    fastest = in_flight / (least / rate)
    assert found.performance.interval.high <= fastest * 200 / 199 * (1 + 1e-9)


@given(st.floats(0.0, 1.0), st.sampled_from(["llama.cpp", "ollama"]), st.booleans())
def test_parts_add_up_to_the_weights(share: float, engine: str, mixture: bool) -> None:
    model = MIXTRAL if mixture else LLAMA_70B
    found = judged(share, engine, work=personal(model))
    assert found.memory is not None
    there = found.memory.host_weights_bytes or 0.0
    kept = found.memory.weights_bytes / Assumptions().weights_load_overhead
    assert kept + there == pytest.approx(model.weights_bytes(WEIGHT_FORMATS[Q4]), rel=1e-9)
    assert there == pytest.approx(share * model.weights_bytes(WEIGHT_FORMATS[Q4]), rel=1e-9)


def test_routed_experts_cost_less_speed_than_layers() -> None:
    experts, layers = (tpot_s(judged(0.5, engine, work=personal(MIXTRAL))) for engine in ("llama.cpp", "ollama"))
    assert experts < layers


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(Conflict, match="offloads only routed experts"):
        judged(1.0, "ktransformers", work=personal(MIXTRAL))
    with pytest.raises(Conflict, match="weights_on_host: none of these engines"):
        estimate_deployment(
            Question(personal()), Deployment("acme-card", engine="vllm", weights_on_host=0.5), snapshot()
        )
    with pytest.raises(Conflict, match="at most"):
        judged(0.5, "ktransformers")  # a dense model has no experts
    picture = replace(CHAT, model=registered("google/vit-base-patch16-224"))
    with pytest.raises(Conflict, match="generate tokens"):
        estimate_deployment(Question(picture), Deployment("acme-big", weights_on_host=0.5), snapshot())


def test_a_host_with_too_little_memory_is_reported() -> None:
    poor = replace(DESKTOP, ram_bytes=16 * GIB)
    at_home = snapshot(accelerators=(BIG, CARD, SMALL_CARD, RARE), systems=(poor,), offers=(), support=ALSO)
    asked = Deployment("bolt-desk", system="desk-1", engine="llama.cpp", weight_format=Q4)
    found = estimate_deployment(Question(personal(), Constraints(confidence=0.5)), asked, at_home)
    assert not found.fits
    assert "of host memory are needed" in found.explanation[0].text


def ranked(work: InferenceWorkload, catalog: Catalog = AT_HOME, **limits: Any) -> list[Estimate]:
    """What an open question finds."""
    constraints = Constraints(confidence=0.5, price_kinds=ALL_KINDS, **limits)
    return list(
        find_finalists(Search.start(Question(work, constraints), catalog, Rejections(catalog.accelerators))).estimates
    )


def test_it_competes_only_for_a_handful_and_where_nothing_else_fits() -> None:
    (found,) = [e for e in ranked(personal()) if e.deployment.accelerator == "bolt-desk"]
    assert found.deployment.weights_on_host
    assert all(e.deployment.weights_on_host is None for e in ranked(personal(in_flight=64.0)))
    assert all(e.deployment.weights_on_host is None for e in ranked(replace(CHAT, model=LLAMA_70B)))
    two = replace(DESKTOP, slug="desk-2", accelerator_count=2.0, list_price_usd=9_000)
    both = snapshot(accelerators=(BIG, CARD, SMALL_CARD, RARE), systems=(DESKTOP, two), offers=(), support=ALSO)
    (found,) = [e for e in ranked(personal(), both) if e.deployment.accelerator == "bolt-desk"]
    assert found.deployment.weights_on_host is None
    assert found.deployment.total_accelerators == 2
    (found,) = [e for e in ranked(personal(), both, max_purchase_usd=6_000.0) if e.deployment.system == "desk-1"]
    assert found.deployment.weights_on_host  # two are beyond what may be spent


def test_a_plan_that_the_host_makes_too_slow_is_reported() -> None:
    rejections = Rejections(AT_HOME.accelerators)
    hasty = personal(slo=Slo(None, 0.1, None, 95))
    found = find_finalists(
        Search.start(Question(hasty, Constraints(confidence=0.5, price_kinds=ALL_KINDS)), AT_HOME, rejections)
    )
    assert not [e for e in found.estimates if e.deployment.accelerator == "bolt-desk"]
    (miss,) = [r for r in rejections.closest_first() if r.accelerator == "bolt-desk"]
    assert miss.code == "too_slow_per_token"
    assert miss.text.endswith("Part of the weights is in host memory, because they do not all fit on the accelerators.")


def test_engines_say_what_they_compute_with_the_host() -> None:
    fixed = Deployment("bolt-desk", weight_format=Q4)
    plans = planned(LLAMA_70B, of=AT_HOME, fixed=fixed)
    by_engine = {
        AT_HOME.engines[e]: place for e, place in zip(plans.engine, offload_targets(plans, AT_HOME), strict=True)
    }
    assert by_engine == {"llama.cpp": EXPERTS_FIRST, "ollama": LAYERS}
    named = planned(LLAMA_70B, of=AT_HOME, fixed=replace(fixed, engine="ktransformers"))
    assert set(offload_targets(named, AT_HOME).tolist()) == {EXPERTS}
    assert OFFLOAD_TARGETS[0] == ()


def test_what_may_be_had_is_within_every_limit_of_size() -> None:
    plans = planned(LLAMA_70B, of=AT_HOME, fixed=Deployment("bolt-desk", weight_format=Q4))
    within = [
        machines_within_constraints(Constraints(**limit), plans, plans.nodes_per_replica).all()
        for limit in ({}, {"max_purchase_usd": 4_999.0}, {"max_accelerators": 1}, {"max_power_w": 1.0})
    ]
    assert within == [True, False, True, False]
    assert np.isfinite(plans.weights_bytes).all()


def host(name: str, **fixed: Any) -> tuple[Plans, tuple[float, ...]]:
    plans = planned(LLAMA_70B, of=AT_HOME, fixed=Deployment(name, weight_format=Q4, engine="llama.cpp", **fixed))
    plans = plans.take(np.array([0]))
    return plans, tuple(float(c[0]) for c in host_resources(plans, AT_HOME, Assumptions()))


def test_a_desktop_gives_its_one_card_all_of_its_host() -> None:
    assumed = Assumptions()
    plans, (memory, bandwidth, flops, link) = host("bolt-desk")
    assert plans.machines.table.listing[plans.machines.rows[0]] == 0  # sold with 128 GiB, and not built
    assert memory == pytest.approx(128 * GIB * assumed.host_memory_share)
    assert bandwidth == assumed.desktop_host_gb_per_s * 1e9
    assert flops == assumed.desktop_host_tflops * 1e12
    assert link == pytest.approx(32e9 * assumed.host_link_fraction)


def test_a_rented_accelerator_has_its_part_of_a_servers_host() -> None:
    """Of eight, one has an eighth of the machine that is rented, and two have two."""
    assumed = Assumptions()
    for tensor in (1, 2):
        plans = on_big(tensor_parallel=tensor)
        assert not plans.node.on_prem[0] and plans.accelerators_per_node[0] == 8
        memory, bandwidth, flops, _ = (float(c[0]) for c in host_resources(plans, SMALL, assumed))
        part = min(1.0, assumed.rented_host_share * 8) * tensor / 8
        assert bandwidth == pytest.approx(assumed.server_host_gb_per_s * 1e9 * part)
        assert flops == pytest.approx(assumed.server_host_tflops * 1e12 * part)
        assert memory > 0


@pytest.mark.parametrize(
    ("changed", "able"),
    [
        ({}, True),
        ({"data_parallel": 2.0}, False),
        ({"context_parallel": 2.0}, True),
        ({"accelerators_per_replica": 8.0}, True),
        ({"accelerators_per_replica": 16.0}, False),  # two machines
        ({"unified": True}, False),
        ({"processor": True}, False),
        ({"whole_machine": True}, False),
    ],
)
def test_weights_leave_an_accelerator_with_a_memory_and_a_host_of_its_own(changed: dict[str, Any], able: bool) -> None:
    known = {"accelerators_per_replica": 1.0, "accelerators_per_node": 8.0, "data_parallel": 1.0}
    known |= {"context_parallel": 1.0, "unified": False, "processor": False, "whole_machine": False} | changed
    columns = {name: np.array([value]) for name, value in known.items()}
    types = row(table=row(**{name: columns[name] for name in ("unified", "processor", "whole_machine")}))
    plans: Any = row(types=types, accelerator=np.array([0]), **columns)
    assert can_offload(plans).tolist() == [able]
