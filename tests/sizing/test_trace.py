"""Every line of every trace can be recomputed from what it shows, and the last ones are the answer's numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.catalog.snapshot import CatalogStore
from app.sizing.estimate import estimate_deployment
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.question import Deployment, DraftMethod, Objective, Question, Speculative
from app.sizing.recommend import recommend_hardware
from app.sizing.result import Estimate, Percentiles
from app.sizing.snapshot import Catalog
from app.sizing.workload import (
    FailureDomain,
    InferenceWorkload,
    Lengths,
    Load,
    Method,
    Redundancy,
    Slo,
    TrainingWorkload,
)
from tests.examples import CHAT, LLAMA_8B, LLAMA_70B, PRETRAIN
from tests.sizing.tracing import check, evaluate, label_of

STREAMING = ("deepseek-ai/DeepSeek-V3", "openai/gpt-oss-120b", "mistralai/Mistral-7B-Instruct-v0.3")
SURVIVED = (
    Redundancy(),
    Redundancy(spare=1),
    Redundancy(spare=1, zones=3),
    Redundancy(double=True, zones=2, domain=FailureDomain.ZONE),
    Redundancy(spare=2, domain=FailureDomain.ACCELERATOR),
)
PASSING = ("resnet50", "openai/whisper-large-v3", "stabilityai/stable-diffusion-xl-base-1.0", "BAAI/bge-large-en-v1.5")
ACCELERATORS = ("nvidia-h100-sxm5-80gb", "nvidia-l40s", "amd-mi300x", "apple-m2-ultra-60c", "nvidia-a100-sxm4-80gb")
ENGINES = ("vllm", "sglang", "tensorrt-llm")
DRAFTED = Speculative(DraftMethod.EAGLE, 3, 0.7)


def model_named(catalog_store: CatalogStore, name: str) -> ModelArchitecture:
    return {"8b": LLAMA_8B, "70b": LLAMA_70B}.get(name) or catalog_store.find_model(name)


def workloads(*names: str) -> st.SearchStrategy[tuple[str, InferenceWorkload]]:
    """A model's name, and a workload for it."""

    @st.composite
    def drawn(draw: st.DrawFn) -> tuple[str, InferenceWorkload]:
        mean = draw(st.floats(16, 4000))
        out = draw(st.floats(2, 800))
        average = draw(st.floats(0.01, 20))
        single = names == PASSING
        limit = draw(st.floats(0.2, 5))
        slo = (
            Slo(None, None, limit, 95) if single else Slo(draw(st.floats(0.3, 5)), draw(st.floats(0.02, 0.3)), None, 95)
        )
        load = draw(st.sampled_from(Load))
        volume = draw(st.none() | st.floats(1e3, 1e8)) if load is Load.OFFLINE else None
        return draw(st.sampled_from(names)), replace(
            CHAT,
            load=load,
            peak_per_s=average * draw(st.floats(1, 4)),
            average_per_s=average,
            in_flight=float(draw(st.integers(1, 200))) if load in (Load.CLOSED, Load.BATCH) else 0.0,
            burstiness=draw(st.floats(0.5, 3)),
            input_tokens=Lengths(mean, draw(st.sampled_from((None, 2.5 * mean)))),
            output_tokens=Lengths(out, draw(st.sampled_from((None, 2 * out)))),
            cached_prefix_fraction=draw(st.sampled_from((0.0, 0.5))),
            slo=slo,
            redundancy=draw(st.sampled_from(SURVIVED)),
            volume_requests=volume,
            deadline_s=None if volume is None else draw(st.none() | st.floats(1e3, 1e6)),
        )

    return drawn()


def ends(found: Estimate, lines: Mapping[str, float]) -> dict[str, tuple[float | None, float | None]]:
    """The numbers of an answer, each with the trace line that yields it."""
    performance, deployment = found.performance, found.deployment
    assert performance is not None
    assert found.cost is not None
    assert found.memory is not None

    def at(percentiles: Percentiles | None, line: str) -> dict[str, tuple[float | None, float | None]]:
        if percentiles is None:
            return {}
        shown = {
            "mean": percentiles.mean_s,
            "p50": percentiles.p50_s,
            "p95": percentiles.p95_s,
            "p99": percentiles.p99_s,
        }
        labels = {p: "p50" if line == "sample_e2e_s" and p == "mean" else p for p in shown}  # its mean is its median
        closed_form = {p: lines.get(f"{line} ({labels[p]})", lines.get(line)) for p in shown}
        simulated = {p: lines.get(f"between_loads_s (simulated, {line.removesuffix('_s')} {p})") for p in shown}
        found_at = {p: closed_form[p] if simulated[p] is None else simulated[p] for p in shown}
        return {f"{line} ({p})": (v, found_at[p]) for p, v in shown.items()}

    whole = "sample_e2e_s" if performance.ttft is None and performance.tpot is None else "e2e_s"
    return {
        **at(performance.ttft, "ttft_s"),
        **at(performance.tpot, "tpot_s" if "tpot_s (mean)" in lines or performance.simulation else "decode_step_s"),
        **at(performance.e2e, whole),
        "usable_bytes": (found.memory.usable_bytes, lines.get("usable_bytes", lines.get("usable_sample_bytes"))),
        "usd_per_million": (found.cost.usd_per_million, lines.get("usd_per_million")),
        "usd_total": (found.cost.usd_total, lines.get("usd_total")),
        "run_s": (performance.days and performance.days * 86_400, lines.get("run_s")),
        "usd_per_hour": (found.cost.usd_per_hour, lines.get("usd_per_hour")),
        "nodes": (deployment.nodes, lines.get("nodes")),
    }


def check_estimate(found: Estimate) -> None:
    """Lines of one estimate, and its numbers."""
    if not found.fits:
        return
    lines = check(found.trace)
    if found.deployment.pools is not None:  # the lines of each pool, under its name
        assert {label_of(name)[1].split(", ")[0] for name in lines} == {"prefill pool", "decode pool"}
        return
    assert found.memory is not None
    if "kv_pool_bytes" in lines:
        assert lines["kv_pool_bytes"] == found.memory.kv_cache_bytes
    for name, (answered, traced) in ends(found, lines).items():
        if answered is None or not math.isfinite(answered):
            continue
        assert traced is not None, f"no line yields {name}"
        assert traced == pytest.approx(answered, rel=1e-9), name


@pytest.mark.slow
@given(asked=st.one_of(workloads("8b", "70b", *STREAMING), workloads(*PASSING)), objective=st.sampled_from(Objective))
def test_every_line_of_a_recommendation(
    catalog: Catalog,
    catalog_store: CatalogStore,
    asked: tuple[str, InferenceWorkload],
    objective: Objective,
) -> None:
    name, workload = asked
    question = Question(replace(workload, model=model_named(catalog_store, name)), objective=objective, trace=True)
    for ranked in recommend_hardware(question, catalog).recommendations:
        check_estimate(ranked.estimate)


@given(
    asked=workloads("8b", "70b"),
    accelerator=st.sampled_from(ACCELERATORS),
    engine=st.sampled_from((None, *ENGINES)),
    speculative=st.sampled_from((None, DRAFTED)),
    replicas=st.sampled_from((None, 1)),
)
def test_every_line_of_a_fixed_deployment(
    catalog: Catalog,
    catalog_store: CatalogStore,
    asked: tuple[str, InferenceWorkload],
    accelerator: str,
    engine: str | None,
    speculative: Speculative | None,
    replicas: int | None,
) -> None:
    name, workload = asked
    deployment = Deployment(accelerator, engine=engine, speculative=speculative, replicas=replicas)
    question = Question(replace(workload, model=model_named(catalog_store, name)), trace=True)
    check_estimate(estimate_deployment(question, deployment, catalog))


def test_a_trace_goes_from_weights_to_money(catalog: Catalog) -> None:
    best = recommend_hardware(Question(replace(CHAT, model=LLAMA_70B), trace=True), catalog).recommendations[0].estimate
    wanted = {
        *("weights_bytes_per_accelerator", "activation_bytes", "overhead_bytes", "usable_bytes", "kv_pool_bytes"),
        *("cache_bytes_per_sequence", "max_running_sequences", "linear_slope_s", "dense_s", "attention_slope_s"),
        "forward_s",
        *("host_fixed_s", "decode_step_s", "occupancy_s", "tpot_s (p99)", "ttft_s (p99)"),
        *("capacity_per_s", "loop_rate_per_s (all sequences running)", "replicas_for_rate", "nodes", "usd_per_million"),
    }
    assert wanted <= {s.name for s in best.trace}


def test_a_wrong_line_would_be_noticed() -> None:
    assert evaluate("max(a, 2) if b > 1 and not c else inf", {"a": 1.0, "b": 2.0, "c": 0.0}) == 2
    with pytest.raises(KeyError):
        evaluate("a + unknown", {"a": 1.0})
    with pytest.raises(AssertionError):
        evaluate("a.real", {"a": 1.0})


def test_steps_of_training_and_fine_tuning(catalog: Catalog) -> None:
    def steps(workload: TrainingWorkload) -> set[str]:
        found = recommend_hardware(Question(workload, trace=True), catalog).recommendations
        for ranked in found:
            check(ranked.estimate.trace)
        return {s.name for ranked in found for s in ranked.estimate.trace}

    assert {"step_time_s", "mfu", "wall_s", "usd_total"} <= steps(PRETRAIN)
    tuning = replace(PRETRAIN, phase="fine_tuning", method=Method.QLORA, units=1e7, global_batch=16)
    assert "wall_s" in steps(tuning)
