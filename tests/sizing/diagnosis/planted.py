"""Services and runs on the real catalogue with a cause planted in each, and healthy ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from app.sizing.diagnosis.diagnose import Diagnosis, diagnose
from app.sizing.question import Deployment, DraftMethod, Question, Speculative
from app.sizing.result import Estimate
from app.sizing.serving.simulation import Replica
from app.sizing.snapshot import Catalog
from app.sizing.workload import InferenceWorkload, Lengths, Router, Slo, TrainingWorkload
from tests.examples import CHAT, PRETRAIN, registered
from tests.sizing.diagnosis import simulated_run as runs
from tests.sizing.diagnosis import simulated_service as services

SLO = Slo(ttft_s=2.0, tpot_s=0.1, e2e_s=None, percentile=95)
LLAMA_8B, LLAMA_70B = "meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-70B-Instruct"
# model, accelerator, how many, requests a second, tokens in and out
SERVICES: dict[str, tuple[str, str, int, float, int, int]] = {
    "l4": (LLAMA_8B, "nvidia-l4", 8, 12, 1024, 256),
    "h100": (LLAMA_70B, "nvidia-h100-sxm5-80gb", 8, 20, 1024, 256),
    "l40s": ("Qwen/Qwen2.5-32B-Instruct", "nvidia-l40s", 8, 8, 1024, 256),
    "a100": ("Qwen/Qwen2.5-7B-Instruct", "nvidia-a100-sxm4-80gb", 2, 14, 1024, 256),
    "4090": (LLAMA_8B, "nvidia-rtx-4090", 4, 14, 1024, 256),
    "long": (LLAMA_8B, "nvidia-l40s", 4, 2.0, 8000, 300),
}
RUNS: dict[str, tuple[str, str, int]] = {
    "8b": (LLAMA_8B, "nvidia-h100-sxm5-80gb", 64),
    "7b": ("meta-llama/Llama-2-7b-hf", "nvidia-a100-sxm4-80gb", 32),
    "70b": (LLAMA_70B, "nvidia-h100-sxm5-80gb", 256),
    "14b": ("Qwen/Qwen2.5-14B-Instruct", "nvidia-b200-sxm-180gb", 16),
}


@dataclass(frozen=True)
class Planted:
    """A cause in a system; `codes`: findings that name it. `asked`: settings that the operator wrote down."""

    where: str
    codes: tuple[str, ...]
    system: Callable[[Estimate], Any]
    asked: dict[str, Any] = field(default_factory=dict)
    workload: dict[str, Any] = field(default_factory=dict)
    by_load: bool = False
    batch: int | None = None  # that the operator does not know

    @property
    def name(self) -> str:
        return f"{self.codes[0] if self.codes else 'healthy'}-{self.where}"


@cache
def served(where: str) -> tuple[InferenceWorkload, Deployment]:
    model, accelerator, count, rate, tokens_in, tokens_out = SERVICES[where]
    workload = replace(
        CHAT,
        model=registered(model),
        peak_per_s=rate,
        average_per_s=rate / 2,
        input_tokens=Lengths(tokens_in, 2.5 * tokens_in),
        output_tokens=Lengths(tokens_out, 2.5 * tokens_out),
        max_context_tokens=max(8192, 4 * tokens_in),
        router=Router.RANDOM,  # replicas of the simulated services do not share a queue
        slo=SLO if tokens_in < 4000 else replace(SLO, ttft_s=6.0),
    )
    # The simulated services compute all layers in one stage.
    return workload, Deployment(accelerator, total_accelerators=count, pipeline_parallel=1)


def of_service(case: Planted, catalog: Catalog, seed: int, noise: float = 0.03) -> Diagnosis:
    workload, deployment = served(case.where)
    workload = replace(workload, **case.workload)
    asked = replace(deployment, **case.asked)
    found, replica = machine(workload, asked, catalog)
    system = on_links(case.system(found), workload, found, catalog)
    if case.by_load:
        observed = services.observe_by_load(workload, found, replica, system, seed, case.batch)
    else:
        observed = services.observe(workload, found, replica, system, seed, noise)
    return diagnose(Question(workload), asked, catalog, observed)


MACHINES: dict[Any, tuple[Estimate, Replica]] = {}


def machine(workload: InferenceWorkload, asked: Deployment, catalog: Catalog) -> tuple[Estimate, Replica]:
    """A machine, found once for all its cases."""
    key = (id(catalog), repr((workload.peak_per_s, workload.model.name, workload.cached_prefix_fraction, asked)))
    if key not in MACHINES:
        MACHINES[key] = services.machine_of(Question(workload), asked, catalog)
    return MACHINES[key]


def on_links(
    system: services.System, workload: InferenceWorkload, found: Estimate, catalog: Catalog
) -> services.System:
    """The system with what its replicas send over their slots: two sums over all ranks in every layer."""
    d, model = found.deployment, workload.model
    accelerator = catalog.accelerators[catalog.accelerator_index[d.accelerator]]
    ranks = d.tensor_parallel or 1
    sent = 2 * model.num_layers * model.hidden_size * 2 * 2 * (ranks - 1) / ranks
    return replace(
        system, link_token_bytes=sent, slot_bytes_per_s=0.8 * accelerator.slot_bytes_per_s, hits=hits(system, workload)
    )


def hits(system: services.System, workload: InferenceWorkload) -> float:
    """Hits as planned, but where others are planted: below nothing stands for none."""
    return max(0.0, system.hits) if system.hits else workload.cached_prefix_fraction


@cache
def trained(where: str) -> tuple[TrainingWorkload, Deployment]:
    model, accelerator, count = RUNS[where]
    return replace(PRETRAIN, model=registered(model)), Deployment(accelerator, total_accelerators=count)


def of_run(case: Planted, catalog: Catalog, seed: int, noise: float = 0.03) -> Diagnosis:
    workload, deployment = trained(case.where)
    asked = replace(deployment, **case.asked)
    question = Question(replace(workload, **case.workload))
    found = runs.run_of(question, asked, catalog)
    observed = runs.observe(question, found, catalog, case.system(found), seed, noise)
    return diagnose(question, asked, catalog, observed)


def service(where: str, *codes: str, asked: Any = None, workload: Any = None, **changed: Any) -> Planted:
    more = {name: changed.pop(name) for name in ("by_load", "batch") if name in changed}
    return Planted(where, codes, lambda _: services.System(**changed), asked or {}, workload or {}, **more)


def run(where: str, *codes: str, asked: Any = None, **changed: Any) -> Planted:
    """A run with changed system fields; callables compute a field from the expected estimate."""

    def system(found: Estimate) -> runs.System:
        return runs.System(**{k: v(found) if callable(v) else v for k, v in changed.items()})

    return Planted(where, codes, system, asked or {})


def sent(found: Estimate) -> float:
    """Communication of a step that hides under computing where the network is what it should be."""
    assert found.performance is not None and found.performance.step_breakdown_s is not None
    return 0.6 * found.performance.step_breakdown_s["compute"]


def written(found: Estimate) -> float:
    assert found.performance is not None
    return found.performance.checkpoint_bytes or 0.0


PREFIX = {"cached_prefix_fraction": 0.7, "turn_gap_s": 30.0}
DRAFTS = {"speculative": Speculative(DraftMethod.NGRAM, 3, 0.8)}
FULL = ("cache_full", "preemptions")
PLANTED = (
    service("l4", "starved", host_step_s=0.05),
    service("h100", "starved", host_step_s=0.03),
    service("4090", "starved", host_step_s=0.02),
    service("a100", "starved", host_step_s=0.06),
    service("l4", "narrow_link", link_width=0.25),
    service("l40s", "narrow_link", link_width=0.125),
    service("l4", "hot", clock=0.5, seen={"temperature_c": 88.0}),
    service("a100", "hot", clock=0.6, seen={"temperature_c": 91.0}),
    service("h100", "power_capped", clock=0.5, seen={"power_w": 400.0, "power_limit_w": 400.0}),
    service("a100", "low_clocks", clock=0.45),
    service("l4", "slow_decode", kernels=2.2),
    service("h100", "slow_decode", kernels=2.5),
    service("4090", "slow_decode", kernels=3.0),
    service("l4", "batch_limit", asked={"max_batch": 8}),
    service("a100", "batch_limit", asked={"max_batch": 16}),
    service("l4", *FULL, cache=0.12),
    service("h100", *FULL, cache=0.1),
    service("4090", *FULL, cache=0.12),
    service("long", "prefix_misses", workload=PREFIX, hits=-1.0),
    service("a100", "prefix_misses", workload=PREFIX, hits=0.05),
    service("l4", "longer_prompts", prompts=2.0),
    service("h100", "longer_answers", answers=2.0),
    service("l4", "overloaded", "saturated", load=1.6),
    service("4090", "overloaded", "saturated", load=2.2),
    service("h100", "idle_fleet", load=0.15),
    service("l4", "idle_fleet", load=0.2),
    service("4090", "bursts", "queueing", bursts=25.0),
    service("h100", "bursts", "queueing", bursts=40.0),
    service("l40s", "queueing", "late_first_token", request_s=5.0),
    service("l4", "uneven_replicas", busiest=2.2),
    service("l40s", "uneven_replicas", busiest=1.8),
    service("h100", "errors", fails=0.08),
    service("a100", "slow_start", seen={"cold_start_s": 1200.0, "restarts_per_day": 6.0}),
    service("4090", "service_restarts", seen={"restarts_per_day": 40.0}),
    service("l40s", "wrong_layout", asked={"tensor_parallel": 8}),
    service("l4", "early_knee", by_load=True, batch=12),
    service("h100", "early_knee", by_load=True, cache=0.08),
    service("l40s", "slow_at_light_load", by_load=True, host_step_s=0.08),
    service("4090", "slow_at_light_load", by_load=True, kernels=3.0),
    run("8b", "input_bound", read_share=1.4),
    run("70b", "input_bound", read_share=2.0),
    run("8b", "exposed_communication", network=0.4, sent_s=sent),
    run("7b", "exposed_communication", network=0.25, sent_s=sent),
    run("8b", "slow_rank", straggler=1.25),
    run("14b", "slow_rank", straggler=1.6),
    run("70b", "synchronisation", uneven=0.12),
    run("7b", "slow_kernels", kernels=1.6),
    run("14b", "slow_kernels", kernels=2.2),
    run("8b", "hot", clock=0.7, seen={"temperature_c": 89.0}),
    run("70b", "power_capped", clock=0.6, seen={"power_w": 450.0, "power_limit_w": 450.0}),
    run("7b", "outside_kernels", launch_share=0.3),
    run("14b", "outside_kernels", launch_share=0.8),
    run("8b", "slow_checkpoints", checkpoint_bytes=written, storage_bytes_per_s=4e8),
    run("70b", "slow_checkpoints", checkpoint_bytes=written, storage_bytes_per_s=2e9),
    run("8b", "frequent_checkpoints", interval_s=8.0),
    run("7b", "run_restarts", restarts_per_day=10.0),
    run("14b", "evaluation", evaluation=0.25),
    run("8b", "slow_warm_up", warmup_s=3600.0, restarts_per_day=4.0, seen={"checkpoint_interval_s": 600.0}),
    run("8b", "poor_scaling", network=0.25, sent_s=sent, scales=(8, 64), reported=("tokens_per_s",)),
    run("7b", "allocator_retries", flushes=3.0, flush_s=3.0),
    run("7b", "wrong_layout", asked={"tensor_parallel": 8, "pipeline_parallel": 4}),
    run("8b", "needless_recomputation", asked={"activation_checkpointing": "full"}),
)
HEALTHY = (
    *(service(where) for where in SERVICES),
    *(service(where, load=0.8) for where in ("l40s", "a100", "long")),
    service("a100", workload=PREFIX),
    *(service(where, by_load=True) for where in ("l4", "h100")),
    *(run(where) for where in RUNS),
    run("8b", scales=(8, 64)),
    run("7b", scales=(8, 32)),
    run("14b", read_share=0.8),
    run("70b", reported=("tokens_per_s", "mfu")),
)
