"""Gathers numbers already computed into estimates, steps and sentences; decides nothing."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from app.sizing.answer.certainty import Certainty, certainty_of
from app.sizing.answer.money import cost_summary, finite, price_reason
from app.sizing.answer.trace import serving_trace
from app.sizing.columns import Column, one
from app.sizing.question import Deployment, Question
from app.sizing.result import (
    DeviceMemory,
    Estimate,
    Interval,
    Percentiles,
    Performance,
    Reason,
)
from app.sizing.serving.load import Operation, Speed
from app.sizing.serving.memory import ServingMemory
from app.sizing.serving.plans import KV_NAMES, Plans
from app.sizing.serving.search import (
    Judged,
    Settings,
    measure_memory,
    measure_speed,
    place,
    served_per_s,
    throughput_per_s,
    units_per_request,
)
from app.sizing.serving.single_pass import BatchMemory, BatchOperation, BatchSpeed
from app.sizing.serving.step import linear_s, touched_experts
from app.sizing.snapshot import PRICING, Market
from app.sizing.units import GIB
from app.sizing.workload import InferenceWorkload, Load

BOTTLENECKS = {
    "compute": "arithmetic: the matrix rate is what more of would help",
    "memory_bandwidth": "memory bandwidth: reading weights and cache takes the most time",
    "memory_capacity": "memory capacity: no more sequences fit, so the device waits for memory",
    "interconnect": "the links between accelerators",
    "latency": "fixed time per step rather than any rate",
    "host": "the host: launching and scheduling take longer than the device's work",
}


def serving_deployment(workload: InferenceWorkload, judged: Judged, market: Market) -> Deployment:
    """The complete deployment of a one-row table, as it is echoed and may be posted back."""
    plans = judged.plans
    listing = int(plans.offered.listing[0])
    system = int(market.listings.system[listing]) if listing >= 0 else -1
    offer = int(market.listings.offer[listing]) if listing >= 0 else -1
    memory = judged.memory
    batched = one(memory.max_batched_tokens) if isinstance(memory, ServingMemory) else None
    cached = bool(workload.model.attention) and isinstance(memory, ServingMemory)
    return Deployment(
        accelerator=market.accelerators[int(plans.accelerator[0])].slug,
        system=market.system_slugs[system] if system >= 0 else None,
        provider=market.providers[int(market.listings.provider[listing])] if listing >= 0 else None,
        region=market.regions[int(market.listings.region[listing])] if listing >= 0 else None,
        pricing_model=PRICING[int(market.listings.pricing[listing])] if listing >= 0 else None,
        instance_type=market.offers[offer].instance_type if offer >= 0 else None,
        accelerators_per_replica=int(one(plans.accelerators_per_replica)),
        replicas=int(one(judged.fleet.replicas)),
        spare_replicas=int(one(judged.fleet.spare_replicas)),
        nodes=int(one(judged.fleet.nodes)),
        total_accelerators=int(one(judged.fleet.accelerators)),
        tensor_parallel=int(one(plans.tensor_parallel)),
        pipeline_parallel=int(one(plans.pipeline_parallel)),
        expert_parallel=1,
        engine=market.engines[int(plans.stack.engine[0])],
        weight_format=market.formats[int(plans.stack.weight_format[0])],
        kv_format=KV_NAMES[int(plans.kv[0])] if cached else None,
        max_batch=int(one(judged.speed.slo_batch)),
        max_batched_tokens=None if batched is None else int(batched),
        memory_fraction=one(memory.memory_fraction),
    )


def serving_memory_of(memory: ServingMemory | BatchMemory, workload: InferenceWorkload, judged: Judged) -> DeviceMemory:
    """Memory of a one-row table. A single-pass batch keeps its activations; a stream its cache."""
    if isinstance(memory, BatchMemory):
        return DeviceMemory(
            weights_bytes=one(memory.weights_bytes),
            kv_cache_bytes=0.0,
            activation_bytes=one(memory.activation_bytes * judged.speed.slo_batch),
            overhead_bytes=one(memory.overhead_bytes),
            gradient_bytes=0.0,
            optimizer_bytes=0.0,
            capacity_bytes=one(memory.capacity_bytes),
            usable_bytes=one(memory.usable_bytes),
        )
    per_token = one(memory.cache_bytes_per_sequence) / max(1.0, workload.tokens_per_request)
    pool = one(memory.kv_pool_bytes)
    longest = one(memory.longest_sequence_bytes)
    return DeviceMemory(
        weights_bytes=one(memory.weights_bytes),
        kv_cache_bytes=pool,
        activation_bytes=one(memory.activation_bytes),
        overhead_bytes=one(memory.overhead_bytes),
        gradient_bytes=0.0,
        optimizer_bytes=0.0,
        capacity_bytes=one(memory.capacity_bytes),
        usable_bytes=one(memory.usable_bytes),
        kv_cache_tokens=math.floor(pool / per_token) if per_token > 0 else None,
        max_concurrent_sequences=math.floor(pool / longest) if longest > 0 else None,
    )


def _percentiles(p50: Column, p95: Column, p99: Column) -> Percentiles:
    return Percentiles(finite(one(p50)), finite(one(p95)), finite(one(p99)))


def cold_start_s(judged: Judged, load_bytes_per_s: float, start_s: float) -> float:
    """Seconds until a fresh replica answers: read the weights, start the engine."""
    return one(judged.plans.weights_bytes) / load_bytes_per_s / one(judged.plans.nodes_per_replica) + start_s


def serving_performance(
    workload: InferenceWorkload, judged: Judged, market: Market, sure: Certainty | None, *, cold_start: float
) -> Performance:
    """Speed of a one-row table, whole deployment, spares idle."""
    operation, speed = judged.operation, judged.speed
    requests = one(throughput_per_s(workload, judged))
    open_loop = workload.load is Load.OPEN
    saturation = one(judged.fleet.replicas * speed.saturation_per_s)
    if isinstance(operation, BatchOperation):
        return Performance(
            interval=Interval(
                "samples_per_s",
                requests * market.coefficients.value("sample_interval_low"),
                requests * market.coefficients.value("sample_interval_high"),
            ),
            basis="roofline",
            samples_per_s=requests,
            requests_per_s_capacity=requests,
            total_tokens_per_s=None if workload.model.sample else requests * workload.tokens_per_request,
            utilization_at_peak=one(operation.utilization),
            batch_at_peak=one(operation.batch),
            e2e=_percentiles(operation.e2e_p50_s, operation.e2e_p95_s, operation.e2e_p99_s),
            unstable_above_requests_per_s=saturation if open_loop else None,
            cold_start_s=cold_start,
        )
    assert isinstance(speed, Speed)
    assert sure is not None
    output = requests * workload.output_tokens.mean
    prompt = workload.input_tokens.mean * (1 - workload.cached_prefix_fraction)
    offline = workload.load is Load.OFFLINE
    tpot, ttft = finite(one(operation.tpot_p50_s)), None if offline else finite(one(operation.ttft_p50_s))
    return Performance(
        interval=sure.interval("output_tokens_per_s", output),
        intervals=tuple(
            sure.interval(name, value) for name, value in (("tpot_s", tpot), ("ttft_s", ttft)) if value is not None
        ),
        basis=sure.basis,
        output_tokens_per_s=output,
        total_tokens_per_s=requests * workload.tokens_per_request,
        prefill_tokens_per_s=one(judged.fleet.replicas) * prompt / one(speed.occupancy_s),
        requests_per_s_capacity=requests,
        utilization_at_peak=one(operation.utilization),
        batch_at_peak=one(operation.batch),
        ttft=None if offline else _percentiles(operation.ttft_p50_s, operation.ttft_p95_s, operation.ttft_p99_s),
        tpot=_percentiles(operation.tpot_p50_s, operation.tpot_p95_s, operation.tpot_p99_s),
        e2e=None if offline else _percentiles(operation.e2e_p50_s, operation.e2e_p95_s, operation.e2e_p99_s),
        unstable_above_requests_per_s=saturation if open_loop else None,
        cold_start_s=cold_start,
    )


def step_shares(workload: InferenceWorkload, judged: Judged) -> dict[str, float]:
    """Seconds of one mixed step (or pass) at the operating batch, by what they are spent on."""
    operation, speed = judged.operation, judged.speed
    if isinstance(speed, BatchSpeed):
        return _pass_shares(speed, operation.batch)
    batch = np.maximum(operation.batch, 1.0)
    return _token_shares(
        speed, batch, prefill_s=one((batch - 1) / max(1.0, workload.output_tokens.mean) * speed.occupancy_s)
    )


def _pass_shares(speed: BatchSpeed, batch: Column) -> dict[str, float]:
    t = speed.terms
    moved, flops = one(t.weights_s + batch * t.bytes_slope_s), one(batch * t.flops_slope_s)
    return {
        "compute": flops if flops >= moved else 0.0,
        "memory_bandwidth": moved if moved > flops else 0.0,
        "host": one(t.launch_s) + one(t.request_s) / t.passes,
    }


def _token_shares(speed: Speed, batch: Column, *, prefill_s: float) -> dict[str, float]:
    t = speed.step
    micro = np.maximum(1.0, batch / t.pipeline_parallel)
    linear = one(linear_s(t, micro))
    read = one(t.dense_s + t.experts_s * touched_experts(micro, t.expert_share))
    multiply = one(micro * t.linear_slope_s)
    return {
        "compute": prefill_s + (linear if multiply > read else 0.0),
        "memory_bandwidth": (linear if read >= multiply else 0.0)
        + one(micro * t.attention_slope_s + t.attention_fixed_s),
        "interconnect": one(micro * t.collective_slope_s + t.collective_fixed_s),
        "host": one(batch * t.host_slope_s + t.host_fixed_s),
    }


def bottleneck_of(workload: InferenceWorkload, judged: Judged) -> str:
    """What binds: memory capacity where it caps the batch below what the SLO allows, else the largest share."""
    memory, speed = judged.memory, judged.speed
    if isinstance(memory, ServingMemory) and isinstance(speed, Speed):
        full = one(speed.slo_batch) >= one(memory.sequences) < one(memory.max_sequences)
        if full and one(judged.operation.batch) > 0.6 * one(memory.sequences):
            return "memory_capacity"
    shares = step_shares(workload, judged)
    return max(shares, key=lambda k: (shares[k], k))


def serving_reasons(
    workload: InferenceWorkload, judged: Judged, market: Market, deployment: Deployment, bottleneck: str
) -> tuple[Reason, ...]:
    """Why this hardware, what limits it, how close each limit is."""
    memory, operation, slo = judged.memory, judged.operation, workload.slo
    name = market.accelerators[int(judged.accelerator[0])].name
    weights = one(memory.weights_bytes) / GIB
    usable = one(memory.usable_bytes) / GIB
    reasons: list[Reason] = []
    size = deployment.accelerators_per_replica or 1
    held = "on one accelerator" if size == 1 else f"on each of {size} accelerators"
    if isinstance(memory, ServingMemory) and one(memory.longest_sequence_bytes) > 0:
        fit = math.floor(one(memory.kv_pool_bytes) / one(memory.longest_sequence_bytes))
        text = (
            f"{workload.model.name} in {deployment.weight_format} takes {weights:.1f} GiB {held}; of {usable:.1f} GiB "
            f"usable, {one(memory.kv_pool_bytes) / GIB:.1f} GiB are left for the cache: {fit} sequences of "
            f"{workload.max_context_tokens:,.0f} tokens."
        )
        reasons.append(Reason("memory", text, "kv_cache_gib", one(memory.kv_pool_bytes) / GIB, "GiB"))
    else:
        text = (
            f"{workload.model.name} in {deployment.weight_format} takes {weights:.2f} GiB of {usable:.1f} GiB usable."
        )
        reasons.append(Reason("memory", text, "weights_gib", weights, "GiB"))
    shares = step_shares(workload, judged)
    share = shares.get(bottleneck, 0.0) / max(sum(shares.values()), 1e-12)
    reasons.append(
        Reason(
            "bottleneck",
            f"What limits it is {BOTTLENECKS[bottleneck]} ({share:.0%} of a step)."
            if bottleneck != "memory_capacity"
            else f"What limits it is {BOTTLENECKS[bottleneck]}.",
            "share_of_step",
            share,
            "1",
        )
    )
    percentile = f"p{slo.percentile:g}"
    nearest = 95 if slo.percentile <= 95 and slo.percentile > 50 else 99 if slo.percentile > 95 else 50

    def limit(code: str, label: str, value: float, bound: float | None) -> None:
        if bound is None or not math.isfinite(value):
            return
        reasons.append(
            Reason(
                code,
                f"{label} at p{nearest} is {value * 1e3:,.0f} ms of {bound * 1e3:,.0f} allowed "
                f"at {percentile}: {value / bound:.0%} of the limit.",
                code,
                value * 1e3,
                "ms",
            )
        )

    if isinstance(operation, Operation):
        limit("ttft_ms", "Time to first token", one(getattr(operation, f"ttft_p{nearest}_s")), slo.ttft_s)
        limit("tpot_ms", "Time per output token", one(getattr(operation, f"tpot_p{nearest}_s")), slo.tpot_s)
    limit("e2e_ms", "A whole request", one(getattr(operation, f"e2e_p{nearest}_s")), slo.e2e_s)
    if workload.load is Load.OPEN:
        used = one(operation.utilization)
        text = (
            f"{deployment.replicas} replica{'s carry' if deployment.replicas != 1 else ' carries'} {workload.peak_per_s:g} requests/s "
            f"at {used:.0%} of their capacity within the limits (planned for at most {workload.target_utilization:.0%})"
            + (f", {deployment.spare_replicas} spare." if deployment.spare_replicas else ".")
        )
        reasons.append(Reason("utilization", text, "utilization_at_peak", used, "1"))
    idle = (deployment.total_accelerators or 0) - size * ((deployment.replicas or 0) + (deployment.spare_replicas or 0))
    if idle > 0:
        text = f"{idle} of {deployment.total_accelerators} accelerators paid for stay idle: {name} comes in machines of {one(judged.plans.node.accelerators_per_node):g}."
        reasons.append(Reason("idle_accelerators", text, "idle_accelerators", float(idle), "accelerators"))
    return tuple(reasons)


def serving_estimate(
    workload: InferenceWorkload,
    judged: Judged,
    market: Market,
    settings: Settings,
    *,
    load_bytes_per_s: float,
    start_s: float,
    trace: bool,
) -> Estimate:
    """The estimate of a one-row table."""
    deployment = replace(
        serving_deployment(workload, judged, market),
        engine_version=settings.engine_version,
        speculative=settings.speculative,
    )
    fits = bool(judged.memory.fits[0])
    memory = serving_memory_of(judged.memory, workload, judged)
    if not fits:
        needed, usable = one(judged.memory.needed_bytes) / GIB, one(judged.memory.usable_bytes) / GIB
        text = f"It does not fit: each accelerator would need {needed:.1f} GiB of {usable:.1f} usable."
        return Estimate(
            deployment,
            False,
            memory,
            None,
            "memory_capacity",
            None,
            (Reason("out_of_memory", text, "needed_gib", needed, "GiB"),),
        )
    sure = None if workload.single_pass else certainty_of(workload, judged, market)
    bottleneck = bottleneck_of(workload, judged)
    served = one(served_per_s(workload, judged)) * units_per_request(workload)
    cost = cost_summary(
        market,
        judged.plans.offered,
        judged.cost,
        units_per_s=served,
        usd_total=None,
        per_million="samples" if workload.model.sample else "tokens",
    )
    return Estimate(
        deployment=deployment,
        fits=True,
        memory=memory,
        performance=serving_performance(
            workload, judged, market, sure, cold_start=cold_start_s(judged, load_bytes_per_s, start_s)
        ),
        bottleneck=bottleneck,
        cost=cost,
        explanation=(
            *serving_reasons(workload, judged, market, deployment, bottleneck),
            *price_reason(cost, deployment),
        ),
        trace=serving_trace(workload, judged) if trace else (),
        nearest=() if sure is None else sure.neighbours,
    )


def judge_deployment(
    question: Question, workload: InferenceWorkload, plans: Plans, market: Market, settings: Settings
) -> Estimate:
    """The estimate of the one plan in `plans` with these engine settings."""
    assumed = question.assumptions
    memory = measure_memory(workload, plans, market, assumed, settings)
    speed = measure_speed(workload, plans, memory, settings)
    judged = place(workload, plans, memory, speed, assumed, question.economics, settings)
    return serving_estimate(
        workload,
        judged,
        market,
        settings,
        load_bytes_per_s=assumed.model_load_gb_per_s * 1e9,
        start_s=assumed.engine_start_s,
        trace=question.trace,
    )
