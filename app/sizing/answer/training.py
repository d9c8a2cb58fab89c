"""Estimates of training runs: numbers already computed, gathered into values and sentences."""

from __future__ import annotations

import math

from app.sizing.answer.certainty import Certainty, training_certainty
from app.sizing.answer.money import cost_summary, finite, price_reason
from app.sizing.answer.trace import training_trace
from app.sizing.assumptions import Assumptions
from app.sizing.columns import Mask, one
from app.sizing.decisions.cost import Cost
from app.sizing.decisions.sold import sold
from app.sizing.hardware.engines import engine_named
from app.sizing.hardware.links import LINKS
from app.sizing.hardware.listings import PRICING
from app.sizing.hardware.parts import Link
from app.sizing.question import Deployment, Economics
from app.sizing.result import ClusterNeeds, DeviceMemory, Estimate, Performance, Reason
from app.sizing.snapshot import Market
from app.sizing.training.alternatives import alternatives
from app.sizing.training.plans import CHECKPOINTING, TrainingPlans
from app.sizing.training.ranks import interleave
from app.sizing.training.run import Run, checkpoint_bytes, scaling_efficiency, units_per_s
from app.sizing.training.work import flops_per_unit
from app.sizing.units import GIB
from app.sizing.workload import Method, TrainingWorkload

BYTES_PER_SAMPLE = 110e3  # of a dataset whose size is not given: a photograph as it is stored
WRITE_WINDOW = 0.25  # share of the checkpoint interval in which a checkpoint must be written


def training_deployment(workload: TrainingWorkload, plans: TrainingPlans, run: Run, market: Market) -> Deployment:
    """The complete deployment of a one-row table."""
    listing = int(plans.offered.listing[0])
    system = int(market.listings.system[listing]) if listing >= 0 else -1
    offer = int(market.listings.offer[listing]) if listing >= 0 else -1
    usual = engine_named(market.engines[int(plans.framework[0])]).framework
    return Deployment(
        accelerator=market.accelerators[int(plans.accelerator[0])].slug,
        system=market.system_slugs[system] if system >= 0 else None,
        provider=market.providers[int(market.listings.provider[listing])] if listing >= 0 else None,
        region=market.regions[int(market.listings.region[listing])] if listing >= 0 else None,
        pricing_model=PRICING[int(market.listings.pricing[listing])] if listing >= 0 else None,
        instance_type=market.offers[offer].instance_type if offer >= 0 else None,
        accelerators_per_replica=int(one(run.devices)),
        replicas=1,
        spare_replicas=0,
        nodes=int(one(run.nodes)),
        total_accelerators=int(one(run.nodes * plans.node.accelerators_per_node)),
        tensor_parallel=int(one(plans.tensor_parallel)),
        pipeline_parallel=int(one(plans.pipeline_parallel)),
        expert_parallel=int(one(plans.expert_parallel)),
        data_parallel=int(one(run.data_parallel)),
        context_parallel=int(one(plans.context_parallel)),
        zero_stage=int(one(plans.zero_stage)),
        micro_batch_sequences=int(one(plans.micro_batch)),
        activation_checkpointing=CHECKPOINTING[int(plans.checkpointing[0])],
        optimizer_offload=bool(plans.offload[0]),
        framework=market.engines[int(plans.framework[0])],
        virtual_pipeline=int(one(interleave(workload, plans))) if one(plans.pipeline_parallel) > 1 else None,
        sequence_parallel=unlike(plans.sequence_parallel, usual.splits),
        flash_attention=unlike(plans.fused_attention, True),
        fused_cross_entropy=unlike(plans.fused_loss, usual.fused_loss),
        fp32_gradients=unlike(plans.wide_gradients, usual.wide_gradients),
    )


def unlike(chosen: Mask, usual: bool) -> bool | None:
    """A choice that is not the framework's own; None where it is, so that it need not be repeated."""
    return None if bool(chosen[0]) is usual else bool(chosen[0])


# The part of a step that each bottleneck stands for, and what is said of it.
BOUND_BY = {
    "compute": ("compute", "arithmetic"),
    "interconnect": ("exposed_communication", "communication that computation does not hide"),
    "latency": ("pipeline_bubble", "the pipeline's bubble"),
    "memory_bandwidth": ("optimizer", "the optimizer"),
    "host": ("input", "fixed time of the host"),
}


def bottleneck_of(run: Run, fits: bool) -> str:
    if not fits:
        return "memory_capacity"
    return max(BOUND_BY, key=lambda k: (one(getattr(run.step, f"{BOUND_BY[k][0]}_s")), k))


def degrees_in_words(plans: TrainingPlans, run: Run) -> str:
    """The degrees of parallelism of a one-row table; context and expert parallelism where they are used."""
    degrees = [("tensor", plans.tensor_parallel), ("pipeline", plans.pipeline_parallel)]
    degrees += [
        (n, c) for n, c in (("context", plans.context_parallel), ("expert", plans.expert_parallel)) if one(c) > 1
    ]
    return ", ".join(f"{name} parallel {one(column):,.0f}" for name, column in (*degrees, ("data", run.data_parallel)))


def interconnect_words(plans: TrainingPlans, run: Run) -> str:
    """The links a layout assumes, in words and numbers."""
    m = plans.node
    link = LINKS[int(m.link[0])]
    inside = {Link.SCALE_UP: "scale-up links", Link.PCIE: "PCIe", Link.NONE: "no link (one accelerator a machine)"}[
        link
    ]
    words = (
        inside
        if link is Link.NONE
        else f"{inside} at {one(m.link_bytes_per_s) / 1e9:,.0f} GB/s each way within a machine"
    )
    if one(run.nodes) > 1:
        network = one(m.network_bytes_per_s * m.accelerators_per_node)
        words += f" and {network * 8 / 1e9:,.0f} Gbit/s per machine between machines"
    return words


def training_performance(
    workload: TrainingWorkload,
    plans: TrainingPlans,
    run: Run,
    cost: Cost,
    certainty: Certainty,
    economics: Economics,
    assumed: Assumptions,
) -> Performance:
    """Speed, duration and what the cluster must bring, of a one-row table."""
    units = one(units_per_s(workload, run))
    devices = one(run.devices)
    size = checkpoint_bytes(workload)
    quantity = "samples_per_s" if workload.in_samples else "tokens_per_s"
    step = run.step
    ingest = (
        workload.dataset_bytes / (workload.units / units)
        if workload.dataset_bytes is not None
        else units * (assumed.dataset_bytes_per_token if not workload.in_samples else BYTES_PER_SAMPLE)
    )
    return Performance(
        interval=certainty.interval(quantity, units, "training_samples" if workload.in_samples else "training"),
        intervals=()
        if workload.in_samples
        else (certainty.interval("memory_total", one(run.memory.total_bytes), "training_memory"),),
        basis=certainty.basis,
        samples_per_s=units if workload.in_samples else None,
        tokens_per_s=None if workload.in_samples else units,
        tokens_per_s_per_accelerator=None if workload.in_samples else units / devices,
        step_time_s=one(step.step_s),
        mfu=units * flops_per_unit(workload) / (devices * one(plans.peak_flops_per_s)),
        step_breakdown_s={part: one(getattr(step, f"{part}_s")) for part, _ in BOUND_BY.values()},
        scaling_efficiency=one(scaling_efficiency(workload, plans, run)),
        days=one(run.wall_s) / 86400,
        accelerator_hours=one(run.wall_s) / 3600 * devices,
        checkpoint_bytes=size,
        required_storage_bytes_per_s=size / (WRITE_WINDOW * one(run.losses.checkpoint_interval_s)),
        required_ingest_bytes_per_s=ingest,
        expected_interruptions=one(run.interruptions),
        checkpoint_interval_s=one(run.losses.checkpoint_interval_s),
        checkpoint_stall_s=one(run.losses.checkpoint_stall_s),
        cluster=cluster_needs(workload, plans, run, cost, economics, assumed),
    )


def cluster_needs(
    workload: TrainingWorkload, plans: TrainingPlans, run: Run, cost: Cost, economics: Economics, assumed: Assumptions
) -> ClusterNeeds:
    """Network, room for checkpoints, host memory, power and cooling of a one-row table.

    A host holds what is offloaded, its share of a checkpoint on the way to storage, and a process per accelerator.
    """
    m, size = plans.node, checkpoint_bytes(workload)
    here = min(one(m.accelerators_per_node), one(run.devices))
    host = one(run.memory.host_bytes) + here * assumed.host_memory_per_accelerator_gib * GIB
    staged = 0.0 if workload.synchronous_checkpoints else size / one(run.nodes)
    beyond = one(run.devices) > max(one(m.accelerators_per_node), one(m.scale_up_domain))
    network = one(m.network_bytes_per_s * m.accelerators_per_node) if beyond else None
    power = one(cost.power_w)
    return ClusterNeeds(
        network_bytes_per_s_per_node=None if network is None or math.isnan(network) else network,
        checkpoint_capacity_bytes=size * assumed.retained_checkpoints,
        host_memory_bytes_per_node=host + staged,
        power_w=power,
        cooling_w=power * max(0.0, economics.pue - 1.0),
    )


def training_reasons(
    workload: TrainingWorkload,
    plans: TrainingPlans,
    run: Run,
    performance: Performance,
    bottleneck: str,
    market: Market,
    assumed: Assumptions,
) -> tuple[Reason, ...]:
    """Why this layout, what it assumes of links and memory, and how close the deadline is."""
    memory, step = run.memory, run.step
    total, usable = one(memory.total_bytes) / GIB, one(memory.usable_bytes) / GIB
    choices = []
    if one(plans.zero_stage) >= 3:
        choices.append("weights, gradients and optimizer states sharded (ZeRO-3)")
    elif one(plans.zero_stage) >= 1:
        choices.append("optimizer states sharded (distributed optimizer)")
    kept = CHECKPOINTING[int(plans.checkpointing[0])]
    if kept != "none":
        choices.append(f"{kept} activation checkpointing")
    if bool(plans.offload[0]):
        choices.append(f"optimizer states offloaded to {one(memory.host_bytes) / GIB:.0f} GiB of host memory")
    if workload.method is Method.QLORA:
        choices.append("base weights in NF4")
    reasons = [
        Reason(
            "memory",
            f"Each accelerator holds {total:.1f} of {usable:.1f} GiB usable"
            + (f", with {', '.join(choices)}" if choices else ", with nothing sharded or recomputed")
            + ("; most in the optimizer's step." if memory.peaks_in_update[0] else "."),
            "memory_gib",
            total,
            "GiB",
        ),
        Reason(
            "layout",
            f"{one(run.devices):,.0f} accelerators: {degrees_in_words(plans, run)}; it assumes {interconnect_words(plans, run)}.",
            "accelerators",
            one(run.devices),
            "accelerators",
        ),
    ]
    others = alternatives(workload, plans, run, market, assumed)
    if others:
        reasons.append(
            Reason("alternatives", f"As many accelerators, but {others}.", "step_time_s", one(step.step_s), "s")
        )
    part, words = BOUND_BY[bottleneck]
    share = one(getattr(step, f"{part}_s")) / one(step.step_s)
    reasons.append(
        Reason(
            "bottleneck",
            f"{share:.0%} of a step is {words}; {performance.mfu:.0%} of the peak is useful work.",
            "mfu",
            performance.mfu or 0.0,
            "1",
        )
    )
    days, limit = one(run.wall_s) / 86400, workload.deadline_s / 86400
    unit = ("days", 1.0) if limit >= 2 else ("hours", 24.0)
    reasons.append(
        Reason(
            "deadline",
            f"The run takes {days * unit[1]:.3g} {unit[0]} of {limit * unit[1]:.3g} allowed ({days / limit:.0%}), "
            f"with {workload.experiment_overhead:.0%} for experiments and {one(run.interruptions):.3g} interruptions expected.",
            "days",
            days,
            "days",
        )
    )
    reasons.append(
        Reason(
            "storage",
            f"A checkpoint ({(performance.checkpoint_bytes or 0) / 1e9:,.1f} GB) every {one(run.losses.checkpoint_interval_s) / 60:.3g} min "
            f"stalls {one(run.losses.checkpoint_stall_s):.3g} s; storage must take "
            f"{(performance.required_storage_bytes_per_s or 0) / 1e9:.3g} GB/s, a quarter of that long.",
            "required_storage_gb_per_s",
            (performance.required_storage_bytes_per_s or 0) / 1e9,
            "GB/s",
        )
    )
    return tuple(reasons)


def training_estimate(
    workload: TrainingWorkload,
    plans: TrainingPlans,
    run: Run,
    cost: Cost,
    market: Market,
    assumed: Assumptions,
    economics: Economics,
    *,
    fits: bool,
    trace: bool,
) -> Estimate:
    """The estimate of a one-row table."""
    memory = run.memory
    parts = DeviceMemory(
        weights_bytes=one(memory.weights_bytes),
        kv_cache_bytes=0.0,
        activation_bytes=one(memory.activation_bytes),
        overhead_bytes=one(memory.overhead_bytes),
        gradient_bytes=one(memory.gradient_bytes),
        optimizer_bytes=one(memory.optimizer_bytes),
        capacity_bytes=one(memory.capacity_bytes),
        usable_bytes=one(memory.usable_bytes),
    )
    deployment = training_deployment(workload, plans, run, market)
    certainty = training_certainty(workload, plans, run, market)
    performance = training_performance(workload, plans, run, cost, certainty, economics, assumed)
    if not fits:
        needed, usable = parts.total_bytes / GIB, parts.usable_bytes / GIB
        text = f"It does not fit: each accelerator would need {needed:.1f} GiB of {usable:.1f} usable."
        if parts.total_bytes <= parts.usable_bytes:
            text = f"It does not fit: the host would need {one(memory.host_bytes) / GIB:.0f} GiB for offloaded states."
        least = next((i.low / GIB for i in performance.intervals), needed)
        near = least <= usable
        if near:
            text += f" Of published runs like it, one in ten took less than {least:.1f} GiB: the speed is shown in case it fits."
        return Estimate(
            deployment,
            False,
            parts,
            performance if near else None,
            "memory_capacity",
            None,
            (Reason("out_of_memory", text, "needed_gib", needed, "GiB"),),
            nearest=certainty.neighbours if near else (),
        )
    bottleneck = bottleneck_of(run, fits)
    hourly = one(cost.usd_per_hour)
    total = finite(hourly * one(run.wall_s) / 3600)
    summary = cost_summary(
        sold(market, plans.offered)[0],
        cost,
        units_per_s=one(units_per_s(workload, run)),
        usd_total=total,
        per_million="samples" if workload.in_samples else "tokens",
    )
    return Estimate(
        deployment=deployment,
        fits=True,
        memory=parts,
        performance=performance,
        bottleneck=bottleneck,
        cost=summary,
        explanation=(
            *training_reasons(workload, plans, run, performance, bottleneck, market, assumed),
            *price_reason(summary, deployment),
        ),
        trace=training_trace(workload, plans, run, performance, cost, assumed) if trace else (),
        nearest=certainty.neighbours,
    )
