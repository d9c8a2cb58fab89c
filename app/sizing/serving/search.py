"""Sizes inference: candidates, memory, speed, replicas and cost, then the best plan of each accelerator type.

Machines with equal inputs to a replica's formulas are evaluated once. The numbers of a finalist come from evaluating
its complete deployment again. /estimate does the same, so the two endpoints agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import (
    GIB,
    ROUNDING,
    SECONDS_PER_HOUR,
    Codes,
    Column,
    Indexed,
    Mask,
    concat_tables,
    distinct_rows,
    lazy_rows,
    materialize_as,
    normal_cdf,
    with_rows,
)
from app.sizing.decisions.cost import can_meet_deadline, deployment_cost, min_run_s, replicas_for_volume, run_s
from app.sizing.decisions.machines import Candidates, find_candidates, types_named
from app.sizing.decisions.placement import plan_fleet, replicas_needed, replicas_per_node
from app.sizing.decisions.ranking import best_by_score, objective_score
from app.sizing.decisions.rejections import Rejections, SupportFilter
from app.sizing.decisions.search import Search
from app.sizing.evidence import Setting
from app.sizing.formula import suspend_recording
from app.sizing.hardware.achieved import Achieved, format_class, with_time_factors, without_graphs
from app.sizing.hardware.engines import engine_named
from app.sizing.hardware.support.records import Work
from app.sizing.hardware.tables import FORMATS
from app.sizing.measured import Scale, Stack
from app.sizing.model.adapted import loaded_adapters
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.question import MEDIAN_CONFIDENCE, Constraints, Deployment, Extra, Objective, Question
from app.sizing.result import BORDERLINE_PROBABILITY, FilterStage
from app.sizing.serving.interfaces import LatencyLimit, Memory, Settings, Speed
from app.sizing.serving.kinds import meets_unloaded_limits, serving_backend
from app.sizing.serving.margins import (
    Margins,
    margins_at,
    plan_neighbourhoods,
    stack_neighbourhoods,
    with_measured_effect,
)
from app.sizing.serving.options import (
    Options,
    PlanEvaluations,
    daily_means,
    measures,
    requested_settings,
    startup_s,
    within_constraints,
    without_workstation_fleets,
)
from app.sizing.serving.plans import (
    MeasuredStackColumns,
    Plans,
    build_plans,
    filter_by_adapter_support,
    filter_by_draft_support,
    host_prefixes,
    requested_engines,
    requested_formats,
    select_stacks,
)
from app.sizing.serving.step import dense_bytes, dense_s, device_rates, weight_byte_s
from app.sizing.snapshot import Catalog
from app.sizing.uncertainty import NORMAL
from app.sizing.workload import InferenceWorkload, Load
from app.work import add_work, stage

WORK_PER_SEARCH, WORK_PER_PLAN = 8.0, 1 / 400  # milliseconds of CPU time, about
# Note in the rejection of types that fit only with weights in host memory.
HOST_WEIGHTS_NOTE = "Part of the weights is in host memory, because they do not all fit on the accelerators."


def enumerate_plans(
    model: ModelArchitecture,
    catalog: Catalog,
    machines: Candidates,
    constraints: Constraints,
    rejections: Rejections,
    assumed: Assumptions,
    *,
    phase: str,
    personal: bool,
    fixed: Deployment | None = None,
    prompt_tokens: float = 0.0,
) -> Plans:
    """All plans of a model on the given machines, with more pipeline stages for prompts long enough to fill them."""
    formats = requested_formats(model, constraints, fixed, personal=personal)
    engines, work = requested_engines(constraints, fixed), Work(phase, task=model.task)
    stacks = select_stacks(catalog, work, formats, engines, fixed)
    if model.sample is None:
        stacks = catalog.with_weights_of(model.name, model.native_format, stacks)
    if loaded_adapters(model) is not None:
        stacks = replace(stacks, published_recipes=stacks.published_recipes * catalog.starts_adapters[stacks.engine])
    if assumed.eager_launch >= 1:
        stacks = replace(stacks, achieved=without_graphs(stacks.achieved))
    without = SupportFilter(catalog, engines, formats, work)
    on = model, machines, stacks, catalog.columns, constraints, rejections, assumed, without
    plans = filter_by_draft_support(build_plans(*on, fixed=fixed, prompt_tokens=prompt_tokens), catalog, rejections)
    if constraints.host_prefix_cache:
        plans = replace(plans, host_prefixes=host_prefixes(plans, assumed))
    return filter_by_adapter_support(model, plans, catalog, rejections)


def enumerate_allowed_plans(search: Search[InferenceWorkload]) -> Plans:
    """All plans that a request allows, on the machines whose prices it accepts."""
    constraints, assumed, zones = (
        search.question.constraints,
        search.question.assumptions,
        search.workload.redundancy.zones,
    )
    sought, host = (
        (search.catalog, constraints, search.question.economics, assumed, search.rejections),
        search.workload.single_pass,
    )
    many, ends, today = search.workload.serves_many, search.workload.is_finite, search.question.today
    gives_back = bool(search.workload.hourly_shares)
    machines = find_candidates(
        *sought, ends=ends, zones=zones, serves_many=many, reads_host=host, gives_back=gives_back, today=today
    )
    phase, personal = serving_backend(search.workload).phase, search.workload.is_personal
    plans = enumerate_plans(
        search.workload.model,
        search.catalog,
        machines,
        constraints,
        search.rejections,
        assumed,
        phase=phase,
        personal=personal,
        prompt_tokens=search.workload.uncached_prompt_tokens,
    )
    return with_own_measurements(search.workload, search.catalog, plans)


def with_own_measurements(
    workload: InferenceWorkload, catalog: Catalog, plans: Plans, version: str | None = None
) -> Plans:
    """The plans with the effect of the user's own measurements; unchanged if there are none.

    Parameters:
        version: engine version of all plans; None is the newest one.
    """
    measured = catalog.measured
    if measured is None or not len(plans) or workload.single_pass:
        return plans
    size, types = plans.accelerators_per_replica, len(catalog.accelerators)
    pair = plans.stacks.rows * types + plans.accelerator
    first, rows = distinct_rows(pair * 2**24 + size.astype(np.int64))
    pairs, which = distinct_rows(pair[first])
    one = plans.take(first[pairs])
    native = zip(one.weight_format.tolist(), one.is_native_format.tolist(), strict=True)
    rates = (format_class(FORMATS[stored], is_native) for stored, is_native in native)
    engines = [engine_named(name).base_engine() for name in catalog.engines]
    named = zip(one.engine.tolist(), one.accelerator.tolist(), rates, strict=True)
    stacks = [
        Stack(engines[engine], catalog.accelerators[a].family, rate, catalog.accelerators[a].slug, workload.load.value)
        for engine, a, rate in named
    ]
    effect = measured.effect(stacks, workload_scale(workload), which, size[first], version)
    achieved = materialize_as(Achieved, lazy_rows(plans.stacks.table.achieved, plans.stacks.rows[first]))
    followed = with_time_factors(achieved, effect.step_time, effect.prefill_time)
    return replace(plans, measured=Indexed(MeasuredStackColumns(plans.stacks.rows[first], effect, followed), rows))


def workload_scale(workload: InferenceWorkload) -> Scale:
    """Scale of a workload. The load is that of the whole workload: requests in flight, or per second."""
    load = workload.peak_per_s if workload.load is Load.OPEN else workload.in_flight
    return Scale(float(workload.model.total_params), load, workload.input_tokens.mean, workload.output_tokens.mean)


def replica_setting(workload: InferenceWorkload, plans: Plans, row: int, catalog: Catalog) -> Setting:
    """Setting of one replica of a plan, as the user's own measurements describe it."""
    accelerator = catalog.accelerators[int(plans.accelerator[row])]
    stored = FORMATS[int(plans.weight_format[row])]
    return Setting(
        engine=engine_named(catalog.engines[int(plans.engine[row])]).base_engine(),
        family=accelerator.family,
        format_class=format_class(stored, bool(plans.is_native_format[row])),
        accelerator=accelerator.slug,
        load=workload.load.value,
        devices=float(plans.accelerators_per_replica[row]),
        **workload_scale(workload)._asdict(),
    )


def measure_plans(question: Question, workload: InferenceWorkload, plans: Plans, settings: Settings) -> tuple[Any, Any]:
    """Median prediction of memory and speed of every plan."""
    kind, assumed = serving_backend(workload), question.assumptions
    memory = kind.estimate_memory(workload, plans, assumed, settings)
    speed = kind.estimate_speed(workload, memory, kind.unloaded_latency(workload, plans, memory, assumed), assumed)
    return memory, apply_service_limits(workload, memory, speed)


def apply_service_limits(workload: InferenceWorkload, memory: Memory, speed: Any) -> Any:
    """Speed with zero capacity where an open-loop service misses a limit even without other load."""
    return zero_capacity_beyond_limits(workload, memory, speed) if workload.load is Load.OPEN else speed


def zero_capacity_beyond_limits(workload: InferenceWorkload, memory: Memory, speed: Any) -> Any:
    """Speed with zero capacity where an unloaded request misses a limit, both with and without prefix-cache hits."""
    return replace(
        speed, capacity_per_s=np.where(meets_unloaded_limits(workload, memory, speed), speed.capacity_per_s, 0.0)
    )


def evaluate_plans(
    question: Question, workload: InferenceWorkload, plans: Plans, settings: Settings
) -> PlanEvaluations[Any, Any, Any]:
    """Evaluate memory, speed, replicas, operating point, machines and cost of every plan."""
    memory, speed = measure_plans(question, workload, plans, settings)
    return evaluate_measured_plans(question, workload, plans, settings, memory, speed)


def evaluate_measured_plans(
    question: Question, workload: InferenceWorkload, plans: Plans, settings: Settings, memory: Memory, speed: Speed
) -> PlanEvaluations[Any, Any, Any]:
    """Evaluate plans whose memory and speed are already known."""
    with suspend_recording():
        planned = speed.planned_capacity_per_s(workload)
    replicas = required_replicas(question, workload, plans, planned, speed.slo_batch, settings)
    operation = serving_backend(workload).operating_point(workload, memory, speed, replicas)
    options = build_options(
        question,
        workload,
        plans,
        complete_settings(memory, speed, replicas, settings),
        slo_batch=speed.slo_batch,
        capacity_per_s=speed.capacity_per_s,
        stable_per_s=speed.saturation_per_s / speed.margins.rate,
        rate_per_s=operation.rate_per_s,
        e2e_p50_s=operation.e2e_p50_s,
    )
    return PlanEvaluations(options, memory, speed, operation)


def complete_settings(memory: Memory, speed: Speed, replicas: Column | None, requested: Settings) -> Settings:
    """Complete engine settings of evaluated plans, with the machines that the request fixes."""
    return Settings(
        max_sequences=speed.sequence_limit if requested.max_sequences is None else requested.max_sequences,
        max_batched_tokens=getattr(memory, "max_batched_tokens", None),
        memory_fraction=memory.memory_fraction,
        skip_mm_profiling=requested.skip_mm_profiling,
        replicas=replicas,
        spare_replicas=requested.spare_replicas,
        nodes=requested.nodes,
    )


def required_replicas(
    question: Question,
    workload: InferenceWorkload,
    plans: Plans,
    capacity_per_s: Column,
    slo_batch: Column,
    settings: Settings,
) -> Column:
    """Replicas that carry the load, or the fixed number of replicas."""
    if settings.replicas is not None:
        return settings.replicas
    if workload.load is Load.OFFLINE:
        each = replicas_per_node(plans.accelerators_per_replica, plans.accelerators_per_node)
        return replicas_for_volume(workload, capacity_per_s, slo_batch, startup_s(question, plans), each)
    return replicas_needed(workload, capacity_per_s, slo_batch)


def build_options(
    question: Question,
    workload: InferenceWorkload,
    plans: Plans,
    settings: Settings,
    *,
    slo_batch: Column,
    capacity_per_s: Column,
    stable_per_s: Column,
    rate_per_s: Column,
    e2e_p50_s: Column,
) -> Options:
    """Build options: plans with their spares, machines and cost."""
    assert settings.replicas is not None
    placed = plan_fleet(
        workload.redundancy,
        plans.accelerators_per_replica,
        plans.accelerators_per_node,
        settings.replicas,
        spares=settings.spare_replicas,
        machines=settings.nodes,
    )
    settings = replace(settings, spare_replicas=placed.spare_replicas, nodes=placed.nodes)
    bought, host = (plans.offered, placed.nodes, plans.linked_nodes), plans.host_bytes
    cost = deployment_cost(*bought, question.assumptions, question.economics, host_bytes=host)
    daily = daily_means(question, workload, plans, placed, cost, capacity_per_s)
    start = startup_s(question, plans)
    if workload.volume_requests is not None:
        with suspend_recording():
            lasts = run_s(workload.volume_requests, placed.replicas, capacity_per_s, slo_batch, start)
        cost = cost.for_hours(lasts / SECONDS_PER_HOUR)
    return Options(
        plans, settings, slo_batch, capacity_per_s, rate_per_s, start, e2e_p50_s, placed, cost, daily, stable_per_s
    )


def with_replica_count(
    question: Question, workload: InferenceWorkload, options: Options, replicas: Column, spares: Column | None = None
) -> Options:
    """Options of the same plans with other replica counts, and the resulting spares, machines and cost."""
    return build_options(
        question,
        workload,
        options.plans,
        replace(options.settings, replicas=replicas, spare_replicas=spares, nodes=None),
        slo_batch=options.slo_batch,
        capacity_per_s=options.capacity_per_s,
        stable_per_s=options.stable_per_s,
        rate_per_s=options.rate_per_s,
        e2e_p50_s=options.e2e_p50_s,
    )


def may_be_feasible(search: Search[InferenceWorkload], plans: Plans) -> Mask:
    """Mask of plans that bounds do not rule out before their evaluation.

    A plan is ruled out if its accelerators do not hold the weights, if reading the weights once takes longer than the
    TPOT limit, or if one replica and its spares exceed the limits on accelerators, cost and power.
    """
    workload, question = search.workload, search.question
    size = plans.accelerators_per_replica, plans.accelerators_per_node
    holds = plans.weights_bytes <= plans.memory_bytes * plans.accelerators_per_replica
    with suspend_recording():
        nodes = plan_fleet(workload.redundancy, *size, np.ones(len(plans))).nodes * (1 - ROUNDING)
        able: Mask = holds & machines_within_constraints(question.constraints, plans, nodes)
        limit_s, sure = workload.slo.tpot_s, question.constraints.confidence >= MEDIAN_CONFIDENCE
        if limit_s is not None and sure and not workload.classes and not workload.single_pass:
            byte_s = weight_byte_s(device_rates(plans), plans.achieved_rates)
            tokens = 1.0 if plans.speculative is None else plans.speculative.tokens_per_step
            able &= dense_s(dense_bytes(plans.streamed_bytes, plans.tensor_parallel), byte_s) <= limit_s * tokens
    return able


def machines_within_constraints(limits: Constraints, plans: Plans, nodes: Column) -> Mask:
    """Whether a number of machines of every plan stays within the limits on accelerators, cost and power."""
    offered, within = plans.machines, np.ones(len(plans), dtype=bool)
    for most, each in (
        (limits.max_accelerators, plans.accelerators_per_node),
        (limits.max_usd_per_hour, offered.table.usd_per_hour[offered.rows]),
        (limits.max_purchase_usd, np.nan_to_num(offered.table.purchase_usd[offered.rows])),
        (limits.max_power_w, offered.table.rated_w[offered.rows]),
    ):
        if most is not None:
            within &= ~(nodes * each > most)
    return within


@stage("search")
def search_plans(
    search: Search[InferenceWorkload],
    plans: Plans,
    fixed: Deployment | None = None,
    *,
    breaks_ties: bool = True,
    borderline: list[Options] | None = None,
) -> Options:
    """Search the plans that fit, meet the SLO and stay within the limits at the requested confidence.

    The other types are rejected with their shortfall.

    Parameters:
        fixed: holds the engine settings and spares that the request fixes.
        breaks_ties: whether latencies are computed for the plans that score best on their type; otherwise only where
            the objective ranks by latency.
        borderline: receives the options that may fit in memory, sized for the median of the cases in which they do. If
            it is omitted, the answer does not show them, only the first option is wanted, or companions need memory of
            the same cards, they are not searched.
    """
    first, group_of_plan = distinct_rows(replica_equivalence_key(plans, search.catalog))
    distinct_plans = plans.take(first)
    add_work(WORK_PER_SEARCH + len(plans) * WORK_PER_PLAN)
    margins = confidence_margins(search, distinct_plans)
    asked = Settings() if fixed is None else requested_settings(fixed, distinct_plans, search.workload.redundancy)
    is_shown = any(search.question.includes(extra) for extra in (Extra.SENSITIVITY, Extra.CHEAPER_IF))
    may_fit = borderline is not None and is_shown and not (search.question.first_only or search.question.companions)
    able, memory, speed, near = feasible_plans(search, distinct_plans, margins, asked, may_fit=may_fit)
    row_of, serving = np.full(len(first), -1), np.flatnonzero(speed.has_capacity)
    row_of[able[serving]] = serving
    kept = row_of[group_of_plan] >= 0
    rows = row_of[group_of_plan][kept]
    plans, settings = plans.take(kept), complete_settings(memory, speed, None, asked.take(able)).take(rows)
    planned = speed.planned_capacity_per_s(search.workload)
    batch, capacity, unknown = speed.slo_batch[rows], planned[rows], np.full(len(rows), np.inf)
    options = build_options(
        search.question,
        search.workload,
        plans,
        replace(
            settings, replicas=required_replicas(search.question, search.workload, plans, capacity, batch, Settings())
        ),
        slo_batch=batch,
        capacity_per_s=capacity,
        stable_per_s=(speed.saturation_per_s / speed.margins.rate)[rows],
        rate_per_s=unknown,
        e2e_p50_s=unknown,
    )
    if borderline is not None and near.any():
        options_near, usual = options.take(near[rows]), ~near[rows]
        borderline.append(options_near.take(rows_within_limits(search.unrecorded(), options_near, fixed)))
        options, rows = options.take(usual), rows[usual]
    within = rows_within_limits(search, options, fixed)
    options, rows = options.take(within), rows[within]
    if not len(options):
        return options
    decisive = np.ones(len(options), bool)
    if search.workload.load is Load.OPEN and search.question.objective not in (Objective.LATENCY, Objective.BALANCED):
        if not breaks_ties:
            return options
        score = objective_score(search.question.objective, measures(search.workload, options))
        decisive = best_by_score(
            options.accelerator, score, types=search.question.limit if search.workload.single_pass else None
        )
    return with_operating_points(search.workload, options, rows, decisive, memory, speed)


def rows_within_limits(search: Search[InferenceWorkload], options: Options, fixed: Deployment | None) -> Codes:
    """Rows of options that meet the deadline and stay within the limits; the types of the others are rejected."""
    rows = np.flatnonzero(reject_late_plans(search, options))
    rows = rows[within_constraints(search.question, options.take(rows), search.rejections)]
    if fixed is None:
        named = types_named(search.catalog, search.question.constraints.named_accelerators)
        asked = search.question, search.workload, options.take(rows), named, search.rejections
        rows = rows[without_workstation_fleets(*asked)]
    return rows


def confidence_margins(search: Search[InferenceWorkload], plans: Plans) -> Margins:
    """Margins of every plan at the requested confidence, taken from the evidence for its stack."""
    around = stack_neighbourhoods(
        search.workload, plans.stacks.table, search.catalog.stack_evidence, search.question.assumptions
    )
    rows = plans.stacks.rows
    if plans.measured is not None:
        around, rows = with_measured_effect(around, plans.measured.table), plans.measured.rows
    standing, spreads = NORMAL.inv_cdf(search.question.constraints.confidence), search.catalog.spreads
    margins = margins_at(standing, search.workload, around, spreads, search.question.assumptions).take(rows)
    if plans.on_host is None:
        return margins
    away = np.flatnonzero(plans.offloads_weights)
    offload_margins_around = plan_neighbourhoods(
        search.workload, plans.take(away), search.catalog.stack_evidence, search.question.assumptions
    )
    return with_rows(
        margins,
        away,
        margins_at(standing, search.workload, offload_margins_around, spreads, search.question.assumptions),
    )


def feasible_plans(
    search: Search[InferenceWorkload], plans: Plans, margins: Margins, asked: Settings, *, may_fit: bool = False
) -> tuple[Codes, Memory, Speed, Mask]:
    """Rows of plans that fit and meet the latency limits without load, their memory and speed, and which of them are
    borderline.

    All margins apply. Not every returned row has capacity under load.

    Parameters:
        may_fit: whether borderline plans count, with the memory of the median of the cases in which they fit.
    """
    kind, assumed, confidence = (
        serving_backend(search.workload),
        search.question.assumptions,
        search.question.constraints.confidence,
    )
    memory = kind.estimate_memory(search.workload, plans, assumed, asked, margins)
    fits = memory.fits
    rejected_rows = search.rejections.rows_of_eliminated_types(plans.accelerator, fits, np.ones(len(plans), bool))
    left = memory_left(memory, margins)[rejected_rows]

    reject_plans(
        search.rejections,
        confidence,
        plans.accelerator[rejected_rows],
        left >= 0,
        code="out_of_memory",
        text="{name} needs {needed} GiB on {each} in the best layout on offer. The engine may use {available} GiB.",
        needed=memory.needed_bytes[rejected_rows] / GIB,
        available=memory.usable_bytes[rejected_rows] / GIB,
        unit="gib",
        count=plans.accelerators_per_replica[rejected_rows],
        reached=FilterStage.MEMORY,
        fit_probability=(lambda rows: fit_probability(left[rows], confidence)) if confidence > 0.5 else None,
    )
    near = np.zeros(0, np.int64)
    if may_fit and confidence > MEDIAN_CONFIDENCE:
        near, nearer = borderline_rows(plans, memory, margins, confidence)
    rows, memory, margins = np.flatnonzero(fits), memory.take(fits), margins.take(fits)
    if len(near):
        rows, margins = np.append(rows, near), concat_tables([margins, nearer])
        memory = concat_tables(
            [memory, kind.estimate_memory(search.workload, plans.take(near), assumed, asked.take(near), nearer)]
        )
    plans, is_near = plans.take(rows), np.arange(len(rows)) >= len(rows) - len(near)
    alone = kind.unloaded_latency(search.workload, plans, memory, assumed, margins)
    limits = kind.latency_limits(alone, search.workload.slo)
    quick: Mask = np.logical_and.reduce([limit.met for limit in limits])
    rows, memory = rows[quick], memory.take(quick)
    speed = zero_capacity_beyond_limits(
        search.workload, memory, kind.estimate_speed(search.workload, memory, alone.take(quick), assumed)
    )
    still = ~quick
    still[quick] = speed.has_capacity
    reject_slow_plans(search.rejections, confidence, plans, limits, still, ~is_near)
    return rows, memory, speed, is_near[quick]


def borderline_rows(plans: Plans, memory: Memory, margins: Margins, confidence: float) -> tuple[Codes, Margins]:
    """Rows of borderline plans, and their margins with the memory of the median of the cases in which they fit.

    Weights in host memory are not considered: they are moved there until the plan fits.
    """
    likely = fit_probability(memory_left(memory, margins), confidence)
    rows = np.flatnonzero(~memory.fits & ~plans.offloads_weights & (likely >= BORDERLINE_PROBABILITY))
    # A plan fits with probability p: the median of the cases in which it does is the quantile p / 2.
    levels = np.array([NORMAL.inv_cdf(p / 2) for p in likely[rows].tolist()]) / NORMAL.inv_cdf(confidence)
    margins = margins.take(rows)
    return rows, replace(margins, memory_share=margins.memory_share * levels)


def memory_left(memory: Memory, margins: Margins) -> Column:
    """Memory that the median prediction leaves, relative to the margin of the requested confidence; below 1 a plan does
    not fit at that confidence, below 0 its median prediction does not fit.
    """
    reserve = np.maximum(margins.memory_share * memory.capacity_bytes, 1.0)  # bytes between median and confidence
    return (memory.usable_bytes - memory.needed_bytes) / reserve + 1


def fit_probability(left: Column, confidence: float) -> Column:
    """Probability that plans fit in memory, from what `memory_left` returns at a confidence above 0.5."""
    return normal_cdf(np.clip(NORMAL.inv_cdf(confidence) * left, -6.0, 6.0))


def reject_slow_plans(
    rejections: Rejections, confidence: float, plans: Plans, limits: Sequence[LatencyLimit], serve: Mask, left: Mask
) -> None:
    """Reject the types whose plans all miss a latency limit without load.

    `serve` marks plans with any capacity; it applies to the last limit. `left` marks the plans that count.
    """
    for limit in limits:
        met = left & limit.met & serve if limit is limits[-1] else left & limit.met
        rejected_rows = rejections.rows_of_eliminated_types(plans.accelerator, met, left)
        with_host = plans.offloads_weights[rejected_rows]
        for rows, text in (
            (rejected_rows[~with_host], limit.text),
            (rejected_rows[with_host], f"{limit.text} {HOST_WEIGHTS_NOTE}"),
        ):
            reject_plans(
                rejections,
                confidence,
                plans.accelerator[rows],
                limit.expected[rows],
                code=limit.code,
                text=text,
                needed=limit.needed_s[rows] * 1e3,
                available=limit.available_s[rows] * 1e3,
                unit="ms",
                count=plans.accelerators_per_replica[rows],
                reached=FilterStage.SPEED,
            )
        left = met


def reject_late_plans(search: Search[InferenceWorkload], options: Options) -> Mask:
    """Mask of plans that can meet the deadline with some number of replicas; types without one are rejected."""
    capacity, batch, start = options.capacity_per_s, options.slo_batch, options.cold_start_s
    in_time = can_meet_deadline(search.workload, capacity, batch, start)
    if search.workload.deadline_s is not None:
        confidence = search.question.constraints.confidence
        search.rejections.reject_with_shortfall(
            options.accelerator,
            in_time,
            code="too_slow",
            text=f"At {confidence * 100:g} % confidence, {{name}} needs {{needed}} hours to start "
            "and process one batch, with any number of accelerators. The deadline is {available} hours.",
            needed=min_run_s(capacity, batch, start) / SECONDS_PER_HOUR,
            available=np.full(len(options), search.workload.deadline_s / SECONDS_PER_HOUR),
            unit="hours",
            count=options.plans.accelerators_per_replica,
            reached=FilterStage.SPEED,
        )
    return in_time


def reject_plans(
    rejections: Rejections, confidence: float, accelerator: Codes, expected: Mask, *, text: str, **why: Any
) -> None:
    """Reject types without a remaining row; the text says if the median prediction would have passed."""
    if confidence > 0.5:
        text = f"At {confidence * 100:g} % confidence, {text}"
    rejections.reject_with_shortfall(accelerator, expected, text=text, **why)
    text = f"{text} The median prediction meets the limit."
    rejections.reject_with_shortfall(accelerator, np.zeros(len(expected), bool), among=expected, text=text, **why)


def with_operating_points(
    workload: InferenceWorkload, options: Options, rows: Codes, decisive: Mask, memory: Memory, speed: Speed
) -> Options:
    """Options with their operating point at the margins, where it can decide the ranking.

    Option i was measured in row `rows[i]`.
    """
    used, place = np.unique(rows[decisive], return_inverse=True)
    replicas = np.empty(len(speed))
    replicas[rows] = options.fleet.replicas
    operation = serving_backend(workload).operating_point(workload, memory.take(used), speed.take(used), replicas[used])
    rate, latency = np.full((2, len(options)), np.inf)
    margins = speed.margins.take(used)
    rate[decisive] = (operation.rate_per_s / margins.rate)[place]
    latency[decisive] = serving_backend(workload).latency_s(operation, margins)[place]
    return replace(options, rate_per_s=rate, e2e_p50_s=latency)


def replica_equivalence_key(plans: Plans, catalog: Catalog) -> Codes:
    """Key that is equal for plans with equal replicas; their machines may differ in price, power and size."""
    machines = plans.machines.table
    inside, between = catalog.alike
    machine = machines.machine[plans.machines.rows]
    across = (plans.nodes_per_replica > 1) & (plans.accelerators_per_replica > plans.scale_up_domain)
    hosts, host = plans.hosts
    kind = np.where(across, between[machine], inside[machine]) * hosts + host
    key = kind * len(plans.stacks.table) + plans.stacks.rows
    layout = (plans.tensor_parallel * 1024 + plans.pipeline_parallel) * 1024 + plans.data_parallel
    layout = layout * 16 + np.log2(plans.context_parallel)  # a power of two, or the same in all plans
    return (key * 16 + plans.kv) * 2**34 + layout.astype(np.int64)
