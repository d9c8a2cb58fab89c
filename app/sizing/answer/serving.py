"""Gathers numbers already computed into estimates, steps and sentences; decides nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from app.sizing.answer.certainty import Certainty, certainty_of
from app.sizing.answer.money import cost_summary, finite, price_reason
from app.sizing.answer.trace import serving_trace
from app.sizing.assumptions import Assumptions
from app.sizing.columns import Column, at
from app.sizing.decisions.sold import sold
from app.sizing.hardware.listings import PRICING
from app.sizing.question import Deployment, Question
from app.sizing.result import (
    DeviceMemory,
    Estimate,
    Interval,
    Percentiles,
    Performance,
    Reason,
)
from app.sizing.serving.load import QUANTILES, Operation, Speed
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
from app.sizing.snapshot import Market
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


def serving_deployment(workload: InferenceWorkload, judged: Judged, market: Market, row: int) -> Deployment:
    """The complete deployment of a row, as it is echoed and may be posted back."""
    plans, fleet, memory = judged.plans, judged.fleet, judged.memory
    listing = int(plans.machines.table.listing[plans.machines.rows[row]])
    system = int(market.listings.system[listing]) if listing >= 0 else -1
    offer = int(market.listings.offer[listing]) if listing >= 0 else -1
    batched = at(memory.max_batched_tokens, row) if isinstance(memory, ServingMemory) else None
    cached = bool(workload.model.attention) and isinstance(memory, ServingMemory)
    return Deployment(
        accelerator=market.accelerators[int(judged.accelerator[row])].slug,
        system=market.system_slugs[system] if system >= 0 else None,
        provider=market.providers[int(market.listings.provider[listing])] if listing >= 0 else None,
        region=market.regions[int(market.listings.region[listing])] if listing >= 0 else None,
        pricing_model=PRICING[int(market.listings.pricing[listing])] if listing >= 0 else None,
        instance_type=market.offers[offer].instance_type if offer >= 0 else None,
        accelerators_per_replica=int(at(plans.accelerators_per_replica, row)),
        replicas=int(at(fleet.replicas, row)),
        spare_replicas=int(at(fleet.spare_replicas, row)),
        nodes=int(at(fleet.nodes, row)),
        total_accelerators=int(at(fleet.accelerators, row)),
        tensor_parallel=int(at(plans.tensor_parallel, row)),
        pipeline_parallel=int(at(plans.pipeline_parallel, row)),
        expert_parallel=1,
        engine=market.engines[int(plans.engine[row])],
        weight_format=market.formats[int(plans.weight_format[row])],
        kv_format=KV_NAMES[int(plans.kv[row])] if cached else None,
        max_batch=int(at(judged.speed.slo_batch, row)),
        max_batched_tokens=None if batched is None else int(batched),
        memory_fraction=at(memory.memory_fraction, row),
    )


def serving_memory_of(workload: InferenceWorkload, judged: Judged, row: int) -> DeviceMemory:
    """Memory of a row. A single-pass batch keeps its activations; a stream its cache."""
    memory = judged.memory
    if isinstance(memory, BatchMemory):
        return DeviceMemory(
            weights_bytes=at(memory.weights_bytes, row),
            kv_cache_bytes=0.0,
            activation_bytes=at(memory.activation_bytes * judged.speed.slo_batch, row),
            overhead_bytes=at(memory.overhead_bytes, row),
            gradient_bytes=0.0,
            optimizer_bytes=0.0,
            capacity_bytes=at(memory.capacity_bytes, row),
            usable_bytes=at(memory.usable_bytes, row),
        )
    per_token = at(memory.cache_bytes_per_sequence, row) / max(1.0, workload.tokens_per_request)
    pool = at(memory.kv_pool_bytes, row)
    longest = at(memory.longest_sequence_bytes, row)
    return DeviceMemory(
        weights_bytes=at(memory.weights_bytes, row),
        kv_cache_bytes=pool,
        activation_bytes=at(memory.activation_bytes, row),
        overhead_bytes=at(memory.overhead_bytes, row),
        gradient_bytes=0.0,
        optimizer_bytes=0.0,
        capacity_bytes=at(memory.capacity_bytes, row),
        usable_bytes=at(memory.usable_bytes, row),
        kv_cache_tokens=math.floor(pool / per_token) if per_token > 0 else None,
        max_concurrent_sequences=math.floor(pool / longest) if longest > 0 else None,
    )


def _percentiles(operation: Operation | BatchOperation, quantity: str, row: int) -> Percentiles:
    return Percentiles(*(finite(at(getattr(operation, f"{quantity}_p{q:.0f}_s"), row)) for q in QUANTILES))


def cold_start_s(judged: Judged, row: int, assumed: Assumptions) -> float:
    """Seconds until a fresh replica answers: read the weights, start the engine."""
    read = at(judged.plans.weights_bytes, row) / (assumed.model_load_gb_per_s * 1e9)
    return read / at(judged.plans.nodes_per_replica, row) + assumed.engine_start_s


def serving_performance(
    workload: InferenceWorkload, judged: Judged, row: int, market: Market, sure: Certainty | None, *, cold_start: float
) -> Performance:
    """Speed of a row, whole deployment, spares idle."""
    operation, speed = judged.operation, judged.speed
    requests = at(throughput_per_s(workload, judged), row)
    open_loop = workload.load is Load.OPEN
    saturation = at(judged.fleet.replicas * speed.saturation_per_s, row)
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
            utilization_at_peak=at(operation.utilization, row),
            batch_at_peak=at(operation.batch, row),
            e2e=_percentiles(operation, "e2e", row),
            unstable_above_requests_per_s=saturation if open_loop else None,
            cold_start_s=cold_start,
        )
    assert isinstance(speed, Speed)
    assert sure is not None
    output = requests * workload.output_tokens.mean
    prompt = workload.input_tokens.mean * (1 - workload.cached_prefix_fraction)
    offline = workload.load is Load.OFFLINE
    tpot, ttft = finite(at(operation.tpot_p50_s, row)), None if offline else finite(at(operation.ttft_p50_s, row))
    return Performance(
        interval=sure.interval("output_tokens_per_s", output),
        intervals=tuple(
            sure.interval(name, value) for name, value in (("tpot_s", tpot), ("ttft_s", ttft)) if value is not None
        ),
        basis=sure.basis,
        output_tokens_per_s=output,
        total_tokens_per_s=requests * workload.tokens_per_request,
        prefill_tokens_per_s=at(judged.fleet.replicas, row) * prompt / at(speed.occupancy_s, row),
        requests_per_s_capacity=requests,
        utilization_at_peak=at(operation.utilization, row),
        batch_at_peak=at(operation.batch, row),
        ttft=None if offline else _percentiles(operation, "ttft", row),
        tpot=_percentiles(operation, "tpot", row),
        e2e=None if offline else _percentiles(operation, "e2e", row),
        unstable_above_requests_per_s=saturation if open_loop else None,
        cold_start_s=cold_start,
    )


def step_shares(workload: InferenceWorkload, judged: Judged) -> dict[str, Column]:
    """Seconds of one mixed step (or pass) at the operating batch, by what they are spent on."""
    operation, speed = judged.operation, judged.speed
    if isinstance(speed, BatchSpeed):
        return _pass_shares(speed, operation.batch)
    batch = np.maximum(operation.batch, 1.0)
    return _token_shares(
        speed, batch, prefill_s=(batch - 1) / max(1.0, workload.output_tokens.mean) * speed.occupancy_s
    )


def _pass_shares(speed: BatchSpeed, batch: Column) -> dict[str, Column]:
    t = speed.terms
    moved, flops = t.weights_s + batch * t.bytes_slope_s, batch * t.flops_slope_s
    return {
        "compute": np.where(flops >= moved, flops, 0.0),
        "memory_bandwidth": np.where(moved > flops, moved, 0.0),
        "host": t.launch_s + t.request_s / t.passes,
    }


def _token_shares(speed: Speed, batch: Column, *, prefill_s: Column) -> dict[str, Column]:
    t = speed.step
    micro = np.maximum(1.0, batch / t.pipeline_parallel)
    linear = linear_s(t, micro)
    read = t.dense_s + t.experts_s * touched_experts(micro, t.expert_share)
    multiply = micro * t.linear_slope_s
    return {
        "compute": prefill_s + np.where(multiply > read, linear, 0.0),
        "memory_bandwidth": np.where(read >= multiply, linear, 0.0)
        + (micro * t.attention_slope_s + t.attention_fixed_s),
        "interconnect": micro * t.collective_slope_s + t.collective_fixed_s,
        "host": batch * t.host_slope_s + t.host_fixed_s,
    }


def bottleneck_of(judged: Judged, shares: Mapping[str, float], row: int) -> str:
    """What binds: memory capacity where it caps the batch below what the SLO allows, else the largest share."""
    memory, speed = judged.memory, judged.speed
    if isinstance(memory, ServingMemory) and isinstance(speed, Speed):
        full = at(speed.slo_batch, row) >= at(memory.sequences, row) < at(memory.max_sequences, row)
        if full and at(judged.operation.batch, row) > 0.6 * at(memory.sequences, row):
            return "memory_capacity"
    return max(shares, key=lambda k: (shares[k], k))


def serving_reasons(
    workload: InferenceWorkload,
    judged: Judged,
    row: int,
    market: Market,
    deployment: Deployment,
    bottleneck: str,
    shares: Mapping[str, float],
) -> tuple[Reason, ...]:
    """Why this hardware, what limits it, how close each limit is."""
    memory, operation, slo = judged.memory, judged.operation, workload.slo
    name = market.accelerators[int(judged.accelerator[row])].name
    weights = at(memory.weights_bytes, row) / GIB
    usable = at(memory.usable_bytes, row) / GIB
    reasons: list[Reason] = []
    size = deployment.accelerators_per_replica or 1
    held = "on one accelerator" if size == 1 else f"on each of {size} accelerators"
    if isinstance(memory, ServingMemory) and at(memory.longest_sequence_bytes, row) > 0:
        fit = math.floor(at(memory.kv_pool_bytes, row) / at(memory.longest_sequence_bytes, row))
        text = (
            f"{workload.model.name} in {deployment.weight_format} takes {weights:.1f} GiB {held}; of {usable:.1f} GiB "
            f"usable, {at(memory.kv_pool_bytes, row) / GIB:.1f} GiB are left for the cache: {fit} sequences of "
            f"{workload.max_context_tokens:,.0f} tokens."
        )
        reasons.append(Reason("memory", text, "kv_cache_gib", at(memory.kv_pool_bytes, row) / GIB, "GiB"))
    else:
        text = (
            f"{workload.model.name} in {deployment.weight_format} takes {weights:.2f} GiB of {usable:.1f} GiB usable."
        )
        reasons.append(Reason("memory", text, "weights_gib", weights, "GiB"))
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
        limit("ttft_ms", "Time to first token", at(getattr(operation, f"ttft_p{nearest}_s"), row), slo.ttft_s)
        limit("tpot_ms", "Time per output token", at(getattr(operation, f"tpot_p{nearest}_s"), row), slo.tpot_s)
    limit("e2e_ms", "A whole request", at(getattr(operation, f"e2e_p{nearest}_s"), row), slo.e2e_s)
    if workload.load is Load.OPEN:
        used = at(operation.utilization, row)
        text = (
            f"{deployment.replicas} replica{'s carry' if deployment.replicas != 1 else ' carries'} {workload.peak_per_s:g} requests/s "
            f"at {used:.0%} of their capacity within the limits (planned for at most {workload.target_utilization:.0%})"
            + (f", {deployment.spare_replicas} spare." if deployment.spare_replicas else ".")
        )
        reasons.append(Reason("utilization", text, "utilization_at_peak", used, "1"))
    idle = (deployment.total_accelerators or 0) - size * ((deployment.replicas or 0) + (deployment.spare_replicas or 0))
    if idle > 0:
        text = f"{idle} of {deployment.total_accelerators} accelerators paid for stay idle: {name} comes in machines of {at(judged.plans.accelerators_per_node, row):g}."
        reasons.append(Reason("idle_accelerators", text, "idle_accelerators", float(idle), "accelerators"))
    return tuple(reasons)


def serving_estimate(
    question: Question,
    workload: InferenceWorkload,
    judged: Judged,
    row: int,
    market: Market,
    settings: Settings,
    shares: Mapping[str, float],
) -> Estimate:
    """The estimate of a row."""
    deployment = replace(
        serving_deployment(workload, judged, market, row),
        engine_version=settings.engine_version,
        speculative=settings.speculative,
    )
    memory = serving_memory_of(workload, judged, row)
    if not judged.memory.fits[row]:
        needed, usable = at(judged.memory.needed_bytes, row) / GIB, at(judged.memory.usable_bytes, row) / GIB
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
    sure = None if workload.single_pass else certainty_of(workload, judged, row, market)
    bottleneck = bottleneck_of(judged, shares, row)
    only = np.array([row])
    cost = cost_summary(
        sold(market, judged.plans.machines.take(only).looked_up())[0],
        judged.cost.take(only),
        units_per_s=at(served_per_s(workload, judged), row) * units_per_request(workload),
        usd_total=None,
        per_million="samples" if workload.model.sample else "tokens",
    )
    return Estimate(
        deployment=deployment,
        fits=True,
        memory=memory,
        performance=serving_performance(
            workload, judged, row, market, sure, cold_start=cold_start_s(judged, row, question.assumptions)
        ),
        bottleneck=bottleneck,
        cost=cost,
        explanation=(
            *serving_reasons(workload, judged, row, market, deployment, bottleneck, shares),
            *price_reason(cost, deployment),
        ),
        trace=serving_trace(workload, judged.take(only)) if question.trace else (),
        nearest=() if sure is None else sure.neighbours,
    )


def judge_deployments(
    question: Question, workload: InferenceWorkload, plans: Plans, market: Market, settings: Settings
) -> tuple[Estimate, ...]:
    """The estimate of every plan, each with its row of these engine settings."""
    assumed = question.assumptions
    memory = measure_memory(workload, plans, market, assumed, settings)
    speed = measure_speed(workload, plans, memory, settings)
    judged = place(workload, plans, memory, speed, assumed, question.economics, settings)
    shares = step_shares(workload, judged)
    return tuple(
        serving_estimate(
            question, workload, judged, row, market, settings, {name: at(s, row) for name, s in shares.items()}
        )
        for row in range(len(plans))
    )
