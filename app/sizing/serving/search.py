"""Sizes inference: candidates, memory, speed, replicas, cost, then the best plan of each type.

Token streams and single-pass work differ in how memory and speed are judged; everything around
that is the same, so `Judged` holds either. The numbers of a finalist come from judging its
complete deployment once more, which is also what /estimate does: the two cannot differ.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.errors import Conflict
from app.sizing.assumptions import Assumptions
from app.sizing.columns import Codes, Column, Columns
from app.sizing.decisions.cost import Cost, deployment_cost, within_limits
from app.sizing.decisions.machines import Candidates, unpriced
from app.sizing.decisions.placement import Fleet, fleet, replicas_needed, spare_replicas
from app.sizing.decisions.ranking import Measures
from app.sizing.decisions.rejections import Rejections
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.question import Constraints, Deployment, Drafting, Economics, Speculative
from app.sizing.serving.load import Operation, Speed, operate, serving_speed
from app.sizing.serving.memory import ServingMemory, serving_memory
from app.sizing.serving.plans import Plans, build_plans
from app.sizing.serving.prefill import prefill_terms, prefill_work
from app.sizing.serving.single_pass import (
    BatchMemory,
    BatchOperation,
    BatchSpeed,
    batch_memory,
    operate_single_pass,
    single_pass_speed,
    work_of,
)
from app.sizing.serving.step import speculating, step_terms, step_work
from app.sizing.snapshot import Market
from app.sizing.workload import InferenceWorkload, Load


@dataclass(frozen=True, slots=True)
class Settings:
    """What is fixed of the engine and the fleet, one value per row; None is chosen."""

    max_batch: Column | None = None
    max_batched_tokens: Column | None = None
    memory_fraction: Column | None = None
    replicas: Column | None = None
    spare_replicas: Column | None = None
    engine_version: str | None = None
    speculative: Speculative | None = None


@dataclass(frozen=True, slots=True)
class Judged(Columns):
    """Plans with everything that was found out about them."""

    plans: Plans
    memory: ServingMemory | BatchMemory
    speed: Speed | BatchSpeed
    operation: Operation | BatchOperation
    fleet: Fleet
    cost: Cost

    @property
    def accelerator(self) -> Codes:
        return self.plans.accelerator


def measure_memory(
    workload: InferenceWorkload, plans: Plans, market: Market, assumed: Assumptions, settings: Settings
) -> ServingMemory | BatchMemory:
    """Memory of every plan for this workload."""
    if workload.single_pass:
        return batch_memory(work_of(workload), plans, market, assumed, fraction=settings.memory_fraction)
    return serving_memory(
        workload.model,
        plans,
        market,
        assumed,
        final_tokens=workload.tokens_per_request,
        output_tokens=workload.output_tokens.mean,
        longest_tokens=workload.max_context_tokens,
        max_batch=settings.max_batch,
        max_batched_tokens=settings.max_batched_tokens,
        fraction=settings.memory_fraction,
        engine_version=settings.engine_version,
    )


def measure_speed(
    workload: InferenceWorkload, plans: Plans, memory: ServingMemory | BatchMemory, settings: Settings
) -> Speed | BatchSpeed:
    """Capacity of one replica of every plan."""
    if isinstance(memory, BatchMemory):
        return single_pass_speed(workload, plans, memory, work_of(workload), settings.max_batch)
    model, k = workload.model, plans.achieved
    prompt, slo = workload.input_tokens, workload.slo
    cached = workload.cached_prefix_fraction
    step = speculating(
        step_terms(step_work(model, plans, context_tokens=prompt.mean + workload.output_tokens.mean / 2), k),
        model,
        settings.speculative,
    )
    images = workload.encoder_flops_per_request
    prefill = prefill_terms(
        prefill_work(model, plans, prompt_tokens=prompt.mean, cached_tokens=prompt.mean * cached, encoder_flops=images),
        k,
    )
    tail = prompt.quantile(slo.percentile)
    late = prefill
    if tail > prompt.mean:
        late = prefill_terms(
            prefill_work(model, plans, prompt_tokens=tail, cached_tokens=tail * cached, encoder_flops=images), k
        )
    return serving_speed(workload, plans, memory, step, prefill, late)


def place(
    workload: InferenceWorkload,
    plans: Plans,
    memory: ServingMemory | BatchMemory,
    speed: Speed | BatchSpeed,
    assumed: Assumptions,
    economics: Economics,
    settings: Settings,
) -> Judged:
    """Replicas, machines, operating point and cost."""
    replicas = settings.replicas
    if replicas is None:
        replicas = replicas_needed(workload, speed.capacity_per_s, speed.slo_batch)
    spares = settings.spare_replicas
    if spares is None:
        spares = spare_replicas(workload.redundancy, replicas)
    placed = fleet(plans.accelerators_per_replica, plans.accelerators_per_node, replicas, spares)
    operation: Operation | BatchOperation
    if isinstance(speed, BatchSpeed):
        operation = operate_single_pass(workload, plans, speed, replicas)
    else:
        assert isinstance(memory, ServingMemory)
        operation = operate(workload, plans, memory, speed, replicas)
    cost = deployment_cost(plans.offered, placed.nodes, np.zeros(len(plans)), assumed, economics)
    return Judged(plans, memory, speed, operation, placed, cost)


def throughput_per_s(workload: InferenceWorkload, judged: Judged) -> Column:
    """Requests (or samples) per second that the whole deployment can do, spares idle.

    For open load this is its capacity within the SLO; otherwise what it does at the given load.
    """
    if workload.load is Load.OPEN:
        return judged.fleet.replicas * judged.speed.capacity_per_s
    return judged.fleet.replicas * judged.operation.rate_per_s


def served_per_s(workload: InferenceWorkload, judged: Judged) -> Column:
    """Requests per second over which cost and energy are spread: the real load, never the capacity."""
    if workload.load is Load.OPEN:
        return np.full(len(judged), workload.average_per_s)
    return throughput_per_s(workload, judged)


def units_per_request(workload: InferenceWorkload) -> float:
    """Tokens of a request, or 1 for samples."""
    return 1.0 if workload.model.sample is not None else max(1.0, workload.tokens_per_request)


def measures(workload: InferenceWorkload, judged: Judged) -> Measures:
    """What plans are ranked by. Offline work has no fixed volume, so its cost is per unit of work."""
    served = np.maximum(served_per_s(workload, judged) * units_per_request(workload), 1e-12)
    usd = judged.cost.usd_per_hour
    latency = judged.operation.e2e_p50_s
    work = throughput_per_s(workload, judged) / judged.fleet.accelerators
    if workload.load is Load.OFFLINE:
        usd = usd / served
    return Measures(usd, latency, work, judged.cost.power_w / served)


def search(
    workload: InferenceWorkload,
    plans: Plans,
    market: Market,
    constraints: Constraints,
    economics: Economics,
    assumed: Assumptions,
    rejections: Rejections,
) -> Judged:
    """Plans that fit, meet the SLO and stay within the limits; the rest fall out with their shortfall."""
    free = Settings()
    memory = measure_memory(workload, plans, market, assumed, free)
    fits = memory.fits
    rejections.lost(
        plans.accelerator,
        fits,
        code="out_of_memory",
        text="{name} needs {needed} GiB on each accelerator at its best layout; an engine may take {available}.",
        needed=memory.needed_bytes / 2**30,
        available=memory.usable_bytes / 2**30,
        unit="gib",
    )
    plans, memory = plans.take(fits), memory.take(fits)
    speed = measure_speed(workload, plans, memory, free)
    plans, memory, speed = _keep_fast(plans, memory, speed, rejections)
    judged = place(workload, plans, memory, speed, assumed, economics, free)
    return judged.take(
        within_limits(judged.accelerator, judged.fleet.accelerators, judged.cost, constraints, rejections)
    )


def _keep_fast(
    plans: Plans, memory: ServingMemory | BatchMemory, speed: Speed | BatchSpeed, rejections: Rejections
) -> tuple[Plans, ServingMemory | BatchMemory, Speed | BatchSpeed]:
    """Drop what misses the SLO with a single request on an idle replica."""
    if isinstance(speed, BatchSpeed):
        good = speed.fastest_e2e_s <= speed.e2e_limit_s
        rejections.lost(
            plans.accelerator,
            good,
            code="too_slow",
            text="{name} needs {needed} ms for a request and the batch before it; the limit is {available}.",
            needed=speed.fastest_e2e_s * 1e3,
            available=speed.e2e_limit_s * 1e3,
            unit="ms",
        )
        return plans.take(good), memory.take(good), speed.take(good)
    streams = speed.fastest_tpot_s <= speed.tpot_limit_s
    rejections.lost(
        plans.accelerator,
        streams,
        code="too_slow_per_token",
        text="{name} takes {needed} ms per output token even alone; the limit is {available}.",
        needed=speed.fastest_tpot_s * 1e3,
        available=speed.tpot_limit_s * 1e3,
        unit="ms",
    )
    plans, memory, speed = plans.take(streams), memory.take(streams), speed.take(streams)
    starts = (speed.fastest_ttft_s <= speed.ttft_limit_s) & (speed.capacity_per_s > 1e-9)
    rejections.lost(
        plans.accelerator,
        starts,
        code="too_slow_to_first_token",
        text="{name} takes {needed} ms to the first token of a long prompt even alone; the limit is {available}.",
        needed=speed.fastest_ttft_s * 1e3,
        available=speed.ttft_limit_s * 1e3,
        unit="ms",
    )
    return plans.take(starts), memory.take(starts), speed.take(starts)


def fixed_plans(
    model: ModelArchitecture,
    market: Market,
    machines: Candidates,
    constraints: Constraints,
    rejections: Rejections,
    deployment: Deployment,
    assumed: Assumptions,
    *,
    phase: str,
    personal: bool,
) -> Plans:
    """Plans of a fixed deployment: in machines on sale, or in a host of its own where its layout is larger than any of
    them.
    """
    plans = build_plans(
        model, market, machines, constraints, rejections, phase=phase, personal=personal, fixed=deployment
    )
    if len(plans) or deployment.system or deployment.provider or deployment.pricing_model:
        return plans
    host = unpriced(market, deployment, assumed)
    return build_plans(
        model,
        market,
        host,
        constraints,
        Rejections(market.accelerators),
        phase=phase,
        personal=personal,
        fixed=deployment,
    )


def batch_of(workload: InferenceWorkload, judged: Judged) -> Column:
    """Most sequences at once where the caller fixed none: what meets the limits at a request rate, else all that run."""
    return judged.speed.slo_batch if workload.load is Load.OPEN else judged.speed.max_batch


def check_speculation(d: Deployment, workload: InferenceWorkload) -> None:
    """Refuse drafting that the model or the workload has no use for."""
    if d.speculative is None:
        return
    if workload.single_pass:
        raise Conflict("speculative decoding goes with models that generate tokens.")
    if d.speculative.method is Drafting.MTP and not workload.model.mtp_params:
        raise Conflict(f"{workload.model.name} has no multi-token prediction layer; use draft_model, eagle or ngram.")


def replicas_asked(deployment: Deployment, plans: Plans) -> Column | None:
    """Replicas the caller fixed: by their number, or by the accelerators or machines they fill."""
    if deployment.replicas is not None:
        return np.full(len(plans), float(deployment.replicas))
    spare = deployment.spare_replicas or 0
    total: Column | None = None
    if deployment.total_accelerators is not None:
        total = np.full(len(plans), float(deployment.total_accelerators))
    elif deployment.nodes is not None:
        total = deployment.nodes * plans.accelerators_per_node
    return None if total is None else np.maximum(1.0, np.floor(total / plans.accelerators_per_replica) - spare)


def stable_key(judged: Judged) -> Column:
    """Orders plans that are equal in everything that matters: fewer devices, then catalogue order."""
    plans = judged.plans
    return judged.fleet.accelerators * 1e6 + plans.accelerators_per_replica * 1e3 + plans.stack_row
