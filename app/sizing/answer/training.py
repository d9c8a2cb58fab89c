"""Builds estimates of training runs from computed tables: values, memory, recipe, explanations and costs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import isnan

import numpy as np

from app.sizing.answer.confidence import (
    Certainty,
    build_certainty,
    deadline_reason,
    duration_intervals,
    fits_reason,
    memory_interval,
    run_assurance,
    speed_interval,
    training_setting,
)
from app.sizing.answer.money import cost_summary, finite_or_none, price_reason
from app.sizing.answer.warnings import with_support
from app.sizing.columns import GIB, Columns, Mask, at, column_names, materialize_as
from app.sizing.decisions.acquisition import SoldMachine, describe_sold_machines, find_alternatives
from app.sizing.decisions.search import Search
from app.sizing.hardware.engines import engine_named
from app.sizing.hardware.parts import LINKS, Link
from app.sizing.hardware.recipes import ADAPTER_FIELDS, RECIPES, VOCABULARIES, RecipeSettings, word_at
from app.sizing.hardware.recipes.columns import SETTABLE_FIELDS, WHOLE
from app.sizing.hardware.recipes.record import LOSSES
from app.sizing.measured import MeasuredEffect
from app.sizing.question import Deployment, Economics
from app.sizing.result import BORDERLINE_PROBABILITY, ClusterNeeds, DeviceMemory, Estimate, Performance, Reason
from app.sizing.training.finalists import WITHOUT_OFFLOAD, Alternative, Finalists
from app.sizing.training.layouts import ACTIVATION_CHECKPOINTING
from app.sizing.training.memory import activation_parts_at, total_bytes_at_moments
from app.sizing.training.plans import TrainingPlans
from app.sizing.training.run import Run, deployed_machines
from app.sizing.words import (
    format_count,
    format_number,
    format_storage_rate,
    join_words,
    percent,
    product_name,
)
from app.sizing.workload import Method, TrainingWorkload


def resolve_recipe(workload: TrainingWorkload, plans: TrainingPlans, row: int) -> RecipeSettings | None:
    """All settings of the recipe of one plan; None for models that work on samples.

    Settings of adapters apply only to runs that train adapters.
    """
    if workload.in_samples:
        return None
    recipes = plans.stack.recipe
    own = RECIPES[int(recipes.record[row])]
    said = {
        name: word_at(recipes, name, row) if name in VOCABULARIES else bool(getattr(recipes, name)[row])
        for name in SETTABLE_FIELDS
        if name not in ADAPTER_FIELDS or workload.method is not Method.FULL
    }
    selective = said.pop("selective")
    if workload.method is Method.LORA:
        said.pop("kbit_widening")
    if plans.optimizer_offload[row]:
        said["optimizer_implementation"] = "offloaded"
    kept = ACTIVATION_CHECKPOINTING[int(plans.activation_checkpointing[row])]
    said["recomputation"] = kept if kept in WHOLE else selective
    return RecipeSettings(**said, name=own.name, source=own.source or None)  # type: ignore[arg-type]


def recipe_reason(recipe: RecipeSettings | None) -> tuple[Reason, ...]:
    """Name of the recipe that the memory follows, and its most important settings."""
    if recipe is None or recipe.loss is None:
        return ()
    loss = LOSSES[recipe.loss]
    title = _recipe_title(recipe.name or "")
    text = f"Memory follows the recipe of {title}: {recipe.kernels} kernels; {loss.description}."
    return (Reason("recipe", text, "loss_bytes_per_logit", loss.bytes_per_logit, "B"),)


def _recipe_title(name: str) -> str:
    """Name of a recipe as a sentence shows it: "TorchTitan 0.3", "Megatron-LM core 0.19"."""
    framework, _, version = name.partition(" ")
    return f"{product_name(framework)} {version}".rstrip()


# What can be offloaded to host memory, by the column of the plan that says so.
OFFLOADED_PARTS = {
    "parameter_offload": "weights",
    "optimizer_offload": "optimizer states",
    "activation_offload": "activations",
}

# The moments of a step in MOMENTS, as a sentence names them.
PEAK_MOMENT_TEXTS = (
    "at the loss, when the forward pass ends",
    "when the backward pass starts",
    "when the backward pass ends and all gradients exist",
    "in the optimizer step",
)


def memory_reason(workload: TrainingWorkload, plans: TrainingPlans, run: Run, row: int) -> Reason:
    """Sentence about the memory of an accelerator and the choices behind it."""
    total, usable = at(run.memory.total_bytes, row) / GIB, at(run.memory.usable_bytes, row) / GIB
    choices = []
    stage = at(plans.zero_stage, row) if at(run.data_parallel, row) * at(plans.context_parallel, row) > 1 else 0
    if stage >= 3:
        choices.append("weights, gradients and optimizer states sharded (ZeRO-3)")
    elif stage >= 1:
        choices.append("optimizer states sharded (distributed optimizer)")
    kept = ACTIVATION_CHECKPOINTING[int(plans.activation_checkpointing[row])]
    if kept != "none":
        choices.append(f"{kept} activation checkpointing")
    if moved := [words for column, words in OFFLOADED_PARTS.items() if getattr(plans, column)[row]]:
        host = at(run.memory.host_bytes, row) / GIB
        unknown = " (check the host: its memory is not listed)" if isnan(at(plans.offered.ram_bytes, row)) else ""
        choices.append(f"{join_words(moved)} offloaded to {host:,.0f} GiB of host memory{unknown}")
    if workload.method is Method.QLORA:
        choices.append("4-bit base weights")
    how = f", with {join_words(choices)}" if choices else ", without ZeRO sharding or activation checkpointing"
    when = PEAK_MOMENT_TEXTS[int(run.memory.moment[row])]
    return Reason(
        "memory",
        f"Each accelerator uses {total:.1f} GiB of {usable:.1f} GiB usable memory{how}. Memory peaks {when}.",
        "memory_gib",
        total,
        "GiB",
    )


def memory_parts(finalists: Finalists, row: int) -> DeviceMemory:
    """Memory of a row by part, at every moment of a step, and its activations at the peak."""
    memory, held = finalists.run.memory, finalists.memory_by_kind
    moments, parts = (
        total_bytes_at_moments(held, finalists.plans.stack.memory_factors),
        activation_parts_at(held, memory.moment),
    )
    return DeviceMemory(
        weights_bytes=at(memory.weights_bytes, row),
        kv_cache_bytes=0.0,
        activation_bytes=at(memory.activation_bytes, row),
        overhead_bytes=at(memory.overhead_bytes, row),
        gradient_bytes=at(memory.gradient_bytes, row),
        optimizer_bytes=at(memory.optimizer_bytes, row),
        capacity_bytes=at(memory.capacity_bytes, row),
        usable_bytes=at(memory.usable_bytes, row),
        host_bytes=at(memory.host_bytes, row) or None,
        moments_bytes=_row_bytes(moments, row),
        activation_parts_bytes=_row_bytes(parts, row),
    )


def _row_bytes(table: Columns, row: int) -> dict[str, float]:
    """A row of a table of bytes as a dictionary, by column name without the suffix "_bytes"."""
    return {name.removesuffix("_bytes"): at(getattr(table, name), row) for name in column_names(type(table))}


def build_training_deployment(
    workload: TrainingWorkload, finalists: Finalists, row: int, offer: SoldMachine, framework: str
) -> Deployment:
    """Complete deployment of a row, as the answer echoes it."""
    plans, run = finalists.plans, finalists.run
    usual, pipeline = engine_named(framework).framework, at(plans.pipeline_parallel, row)
    return Deployment(
        accelerator=offer.accelerator.slug,
        system=offer.system.slug if offer.system is not None else None,
        provider=offer.provider,
        region=offer.region,
        pricing_model=offer.pricing_model,
        instance_type=offer.instance_type,
        accelerators_per_replica=int(at(run.accelerators, row)),
        replicas=1,
        spare_replicas=0,
        nodes=int(at(run.nodes, row)),
        total_accelerators=int(at(run.nodes * plans.accelerators_per_node, row)),
        tensor_parallel=int(at(plans.tensor_parallel, row)),
        pipeline_parallel=int(pipeline),
        expert_parallel=int(at(plans.expert_parallel, row)),
        data_parallel=int(at(run.data_parallel, row)),
        context_parallel=int(at(plans.context_parallel, row)),
        zero_stage=int(at(plans.zero_stage, row)),
        micro_batch_sequences=int(at(plans.micro_batch_sequences, row)),
        activation_checkpointing=ACTIVATION_CHECKPOINTING[int(plans.activation_checkpointing[row])],
        optimizer_offload=bool(plans.optimizer_offload[row]),
        parameter_offload=bool(plans.parameter_offload[row]) or None,
        activation_offload=bool(plans.activation_offload[row]) or None,
        framework=framework,
        virtual_pipeline=int(at(finalists.virtual_pipeline, row)) if pipeline > 1 else None,
        sequence_parallel=non_default_choice(plans.sequence_parallel, row, usual.splits),
        flash_attention=non_default_choice(plans.flash_attention, row, True),
        recipe=resolve_recipe(workload, plans, row),
    )


def non_default_choice(chosen: Mask, row: int, usual: bool) -> bool | None:
    """The choice of a row where it differs from the framework's default; None where it equals the default."""
    return None if bool(chosen[row]) is usual else bool(chosen[row])


LARGEST_SHOWN_SLOWDOWN = 1.0
LEAST_SHOWN_PROBABILITY = 0.01  # smaller probabilities are not shown

# The part of a step that belongs to each bottleneck, and its name in sentences.
STEP_PART_BY_BOTTLENECK = {
    "compute": ("compute", "compute"),
    "interconnect": ("exposed_communication", "communication that does not overlap with compute"),
    "latency": ("pipeline_bubble", "the pipeline bubble"),
    "memory_bandwidth": ("optimizer", "the optimizer step"),
    "host": ("input", "fixed time on the host"),
}


def largest_bottleneck(run: Run, row: int) -> str:
    """Bottleneck of a row: the key of the largest part of its step."""
    return max(
        STEP_PART_BY_BOTTLENECK, key=lambda k: (at(getattr(run.step, f"{STEP_PART_BY_BOTTLENECK[k][0]}_s"), row), k)
    )


def parallelism_text(plans: TrainingPlans, run: Run, row: int) -> str:
    """Degrees of parallelism of a row as text; context and expert parallelism only where they are above 1."""
    degrees = [("tensor", plans.tensor_parallel), ("pipeline", plans.pipeline_parallel)]
    degrees += [
        (n, c) for n, c in (("context", plans.context_parallel), ("expert", plans.expert_parallel)) if at(c, row) > 1
    ]
    return ", ".join(f"{name} parallel {at(c, row):,.0f}" for name, c in (*degrees, ("data", run.data_parallel)))


def interconnect_text(plans: TrainingPlans, run: Run, row: int) -> str:
    """Links that a layout assumes, as text with their rates."""
    m = plans.node
    link = LINKS[int(m.link[row])]
    inside = {Link.SCALE_UP: "scale-up links", Link.PCIE: "PCIe", Link.NONE: "one accelerator per machine"}[link]
    words = (
        inside
        if link is Link.NONE
        else f"{inside} at {at(m.link_bytes_per_s, row) / 1e9:,.0f} GB/s per direction within a machine"
    )
    if at(run.nodes, row) > 1:
        network = at(plans.machine.network_bytes_per_s * m.accelerators_per_node, row)
        words += f" and {network * 8 / 1e9:,.0f} Gbit/s per machine between machines"
    return words


def training_performance(
    workload: TrainingWorkload, finalists: Finalists, row: int, certainty: Certainty
) -> Performance:
    """Speed, duration and cluster requirements of a row."""
    run, outcome, samples = finalists.run, finalists.outcome, workload.in_samples
    units, accelerators = at(outcome.units_per_s, row), at(run.accelerators, row)
    speed = speed_interval(finalists, row, certainty, samples=samples)
    return Performance(
        interval=speed,
        intervals=(*duration_intervals(finalists, row, speed), memory_interval(finalists, row)),
        basis=certainty.evidence_basis,
        sources=certainty.source_count,
        samples_per_s=units if samples else None,
        tokens_per_s=None if samples else units,
        tokens_per_s_per_accelerator=None if samples else units / accelerators,
        step_time_s=at(run.step.step_s, row),
        mfu=at(outcome.mfu, row),
        step_breakdown_s={
            part: at(getattr(run.step, f"{part}_s"), row) for part, _ in STEP_PART_BY_BOTTLENECK.values()
        },
        scaling_efficiency=at(outcome.scaling_efficiency, row),
        days=at(outcome.days, row),
        accelerator_hours=at(outcome.accelerator_hours, row),
        checkpoint_bytes=outcome.checkpoint_bytes,
        required_storage_bytes_per_s=at(outcome.storage_bytes_per_s, row),
        required_ingest_bytes_per_s=at(outcome.ingest_bytes_per_s, row),
        expected_interruptions=at(run.interruptions, row),
        checkpoint_interval_s=at(run.losses.checkpoint_interval_s, row),
        checkpoint_stall_s=at(run.losses.checkpoint_stall_s, row),
        cluster=cluster_needs(finalists, row),
    )


def cluster_needs(finalists: Finalists, row: int) -> ClusterNeeds:
    """Network, checkpoint storage, host memory, power and cooling that a row needs."""
    plans, outcome, node = finalists.plans, finalists.outcome, finalists.plans.node
    beyond = at(finalists.run.accelerators, row) > at(plans.machine.scale_up_accelerators, row)
    return ClusterNeeds(
        network_bytes_per_s_per_node=finite_or_none(
            at(plans.machine.network_bytes_per_s * node.accelerators_per_node, row)
        )
        if beyond
        else None,
        checkpoint_capacity_bytes=outcome.checkpoint_capacity_bytes,
        host_memory_bytes_per_node=at(outcome.host_memory_bytes_per_node, row),
        power_w=at(finalists.cost.power_w, row),
        cooling_w=at(outcome.cooling_w, row),
    )


def training_reasons(
    workload: TrainingWorkload, finalists: Finalists, row: int, performance: Performance, bottleneck: str
) -> Iterator[Reason]:
    """Sentences that explain a run: memory, recipe, layout, batch, alternatives, bottleneck, deadline and storage."""
    plans, run = finalists.plans, finalists.run
    accelerators, step_s = at(run.accelerators, row), at(run.step.step_s, row)
    yield memory_reason(workload, plans, run, row)
    yield from offload_reason(finalists, row)
    yield from recipe_reason(resolve_recipe(workload, plans, row))
    layout = "Layout: one accelerator, no parallelism."
    if accelerators > 1:
        layout = (
            f"Layout on {format_count(accelerators, 'accelerator')}: {parallelism_text(plans, run, row)}. "
            f"It assumes {interconnect_text(plans, run, row)}."
        )
    yield Reason(
        "layout",
        layout,
        "accelerators",
        accelerators,
        "accelerators",
    )
    yield from batch_reason(workload, run, row)
    asked = plans.stack.margins.asked
    near = useful_alternatives(finalists.comparisons.alternatives[row])
    others = "; ".join(alternative_text(other, asked) for other in near)
    if others:
        text = f"Alternatives on the same number of accelerators: {others}."
        yield Reason("alternatives", text, "step_time_s", step_s, "s")
    part, words = STEP_PART_BY_BOTTLENECK[bottleneck]
    share = at(getattr(run.step, f"{part}_s"), row) / step_s
    yield Reason(
        "bottleneck",
        f"Bottleneck: {words} ({percent(share)} of each step). Model FLOPs utilization (MFU) is "
        f"{percent(performance.mfu or 0.0)}.",
        "mfu",
        performance.mfu or 0.0,
        "1",
    )
    yield deadline_reason(workload, finalists, row)
    yield storage_reason(performance)


def batch_reason(workload: TrainingWorkload, run: Run, row: int) -> Iterator[Reason]:
    """Sentence about the global batch, where the requested one does not divide evenly over the replicas."""
    batch, unit = at(run.batch, row), "samples" if workload.in_samples else "sequences"
    if batch != workload.global_batch:
        yield Reason(
            "batch",
            f"Each step uses {format_count(batch, unit.removesuffix('s'))} instead of the requested "
            f"{workload.global_batch:,}. It is the nearest batch that divides evenly over "
            f"{format_count(at(run.data_parallel, row), 'replica')}.",
            f"global_batch_{unit}",
            batch,
            unit,
        )


def useful_alternatives(found: Iterable[Alternative]) -> list[Alternative]:
    """The alternatives that take at most twice as long as the chosen layout."""
    return [other for other in found if other.slowdown <= LARGEST_SHOWN_SLOWDOWN]


def alternative_text(other: Alternative, confidence: float) -> str:
    """A neighboring layout as text, and its disadvantage: slower, or not sure enough to fit into memory."""
    share, needed = percent(abs(other.slowdown)), f"{other.total_bytes / GIB:,.0f} GiB needed"
    speed = "equally fast" if share == percent(0.0) else f"{share} {'slower' if other.slowdown >= 0 else 'faster'}"
    if other.fits and other.probability >= confidence:
        return f"{other.description} ({speed})"
    if other.probability >= BORDERLINE_PROBABILITY:
        return f"{other.description} (would fit with {percent(other.probability)} probability: {needed}, {speed})"
    return f"{other.description} (does not fit: {needed})"


def offload_reason(finalists: Finalists, row: int) -> Iterator[Reason]:
    """What a run keeps in host memory, and how likely it would fit without, where it offloads more than its framework
    always does.
    """
    plans, near = finalists.plans, finalists.comparisons.alternatives[row]
    if not (plans.optimizer_offload[row] or plans.last_resort[row]):
        return
    moved = join_words([words for column, words in OFFLOADED_PARTS.items() if getattr(plans, column)[row]])
    text, probability = f"{moved[0].upper()}{moved[1:]} are in host memory.", 0.0
    for other in near:
        if other.description == WITHOUT_OFFLOAD:
            needed, usable = other.total_bytes / GIB, at(finalists.run.memory.usable_bytes, row) / GIB
            probability = other.probability
            likely = (
                f" and is {percent(probability)} likely to hold it" if probability >= LEAST_SHOWN_PROBABILITY else ""
            )
            text += f" Without offload, each accelerator needs {needed:,.1f} of {usable:,.1f} GiB{likely}."
    yield Reason("offload", text, "fits_without_offload", probability, "1")


def storage_reason(performance: Performance) -> Reason:
    """Sentence about checkpoints: size, interval, stall and the write rate that storage must sustain."""
    size_gb, interval_s = (performance.checkpoint_bytes or 0) / 1e9, performance.checkpoint_interval_s or 0.0
    rate = (performance.required_storage_bytes_per_s or 0.0) / 1e9
    window = size_gb / (rate * interval_s) if rate * interval_s > 0 else 0.0  # share of the interval for the write
    rate_words = format_storage_rate(rate)
    return Reason(
        "storage",
        f"A checkpoint of {format_number(size_gb)} GB every {format_number(interval_s / 60)} min stalls the run for "
        f"{format_number(performance.checkpoint_stall_s or 0)} s. "
        f"Storage must sustain {rate_words} to write it within {percent(window)} of that interval.",
        "required_storage_gb_per_s",
        rate,
        "GB/s",
    )


def build_training_estimates(search: Search[TrainingWorkload], finalists: Finalists) -> tuple[Estimate, ...]:
    """Estimates of all finalists."""
    offers = describe_sold_machines(
        search.catalog, finalists.plans.offered, search.question.today, search.question.economics.discounts
    )
    assumed, economics = search.question.assumptions, search.question.economics
    frameworks = [search.catalog.engines[code] for code in finalists.plans.framework.tolist()]
    accelerators = finalists.run.accelerators.tolist()
    settings = [
        training_setting(search.workload, offer.accelerator, framework, count)
        for offer, framework, count in zip(offers, frameworks, accelerators, strict=True)
    ]
    certainties = [
        with_measured_spread(
            build_certainty(setting, search.catalog, assumed, training=True, own=replace(setting, devices=np.nan)),
            finalists.plans.stack.measured,
            row,
        )
        for row, setting in enumerate(settings)
    ]
    estimates = [
        build_training_estimate(
            search.workload, finalists, row, offer, certainties[row], framework=frameworks[row], economics=economics
        )
        for row, offer in enumerate(offers)
    ]
    expected = finalists.plans.stack.expected.tolist()
    supported = [
        with_support(each, search.workload, search.catalog, assumed, expected=e)
        for each, e in zip(estimates, expected, strict=True)
    ]
    others = find_alternatives(search, deployed_machines(finalists.plans, finalists.run, finalists.cost))
    return tuple(replace(e, alternatives=ways if e.fits else ()) for e, ways in zip(supported, others, strict=True))


def with_measured_spread(certainty: Certainty, measured: MeasuredEffect | None, row: int) -> Certainty:
    """The certainty with the spreads of a row that the user's own measurements leave."""
    if measured is None:
        return certainty
    effect = materialize_as(MeasuredEffect, measured).take(np.array([row]))
    near = {pool: replace(found, measured=effect) for pool, found in certainty.neighbourhood.items()}
    return replace(certainty, neighbourhood=near)


def build_training_estimate(
    workload: TrainingWorkload,
    finalists: Finalists,
    row: int,
    offer: SoldMachine,
    certainty: Certainty,
    *,
    framework: str,
    economics: Economics,
) -> Estimate:
    """Estimate of a row: deployment, memory, performance, bottleneck, cost and explanation."""
    run, cost = finalists.run, finalists.cost.take(np.array([row]))
    memory = memory_parts(finalists, row)
    deployment = build_training_deployment(workload, finalists, row, offer, framework)
    performance = training_performance(workload, finalists, row, certainty)
    assurance = run_assurance(finalists, row)
    if not finalists.fits[row]:
        hosted = at(run.memory.host_bytes, row)
        return replace(
            build_misfit_estimate(deployment, memory, performance, certainty, assurance.fits, host_bytes=hosted),
            assurance=assurance,
        )
    bottleneck = largest_bottleneck(run, row)
    summary = cost_summary(
        offer,
        cost,
        economics=economics,
        run_s=at(run.wall_s, row),
        units_per_s=at(finalists.outcome.units_per_s, row),
        usd_total=finite_or_none(at(finalists.outcome.usd_total, row)),
        per_million="samples" if workload.in_samples else "tokens",
        bill=finalists.bills[row],
    )
    return Estimate(
        deployment=deployment,
        fits=True,
        memory=memory,
        performance=performance,
        bottleneck=bottleneck,
        cost=summary,
        explanation=(
            *training_reasons(workload, finalists, row, performance, bottleneck),
            *fits_reason(assurance.fits),
            *price_reason(summary, deployment),
            *certainty.measured_reasons(),
        ),
        trace=finalists.trace.row_steps(row),
        nearest=certainty.nearest,
        setting=certainty.setting,
        assurance=assurance,
    )


def build_misfit_estimate(
    deployment: Deployment,
    memory: DeviceMemory,
    performance: Performance,
    certainty: Certainty,
    probability: float,
    *,
    host_bytes: float,
) -> Estimate:
    """Estimate of a run that does not fit: how much memory it lacks and, if it may still fit, its speed."""
    needed, usable = memory.total_bytes / GIB, memory.usable_bytes / GIB
    verdict = "is not expected to fit" if probability >= BORDERLINE_PROBABILITY else "does not fit"
    text = f"The run {verdict}: each accelerator needs {needed:.1f} GiB but has {usable:.1f} GiB usable."
    if memory.total_bytes <= memory.usable_bytes:
        text = (
            f"The run does not fit: the host needs {host_bytes / GIB:,.0f} GiB of its own memory for offloaded states."
        )
    near = probability >= BORDERLINE_PROBABILITY
    if near:
        text += f" This is borderline: the run is {percent(probability)} likely to fit. The speed assumes that it does."
    return Estimate(
        deployment,
        False,
        memory,
        performance if near else None,
        "memory_capacity",
        None,
        (Reason("out_of_memory", text, "needed_gib", needed, "GiB"),),
        nearest=certainty.nearest if near else (),
    )
