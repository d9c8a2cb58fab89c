"""Builds estimates of serving deployments from computed tables: values, explanations, costs and the day."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from app.sizing.answer.confidence import Certainty, build_certainty, serving_setting
from app.sizing.answer.money import cost_summary, price_reason, priced_unit
from app.sizing.answer.parts_words import adapter_reasons, host_weight_reasons, out_of_host_memory
from app.sizing.answer.passes import PassAnswerWriter, host_reasons
from app.sizing.answer.replica_placement import placement_reasons
from app.sizing.answer.streams import TokenAnswerWriter, simulation_reasons, with_simulation
from app.sizing.answer.volume import estimate_volume_outcome, with_volume_outcome
from app.sizing.answer.warnings import with_support
from app.sizing.assumptions import Assumptions
from app.sizing.columns import GIB, TINY, Column, at
from app.sizing.day import Service, StartProfile, simulate_day
from app.sizing.decisions.acquisition import (
    DeployedMachines,
    SoldMachine,
    describe_sold_machines,
    find_alternatives,
    itemize_costs,
)
from app.sizing.decisions.cost import Cost, tco_usd, usd_per_million
from app.sizing.decisions.ownership import horizon_hours
from app.sizing.decisions.search import Search
from app.sizing.evidence import Familiarity, Setting
from app.sizing.formula import record_trace, suspend_recording
from app.sizing.question import MEDIAN_CONFIDENCE, Deployment, Economics, Question
from app.sizing.result import CostSummary, Estimate, Interval, Part, Performance, Reason
from app.sizing.serving.assurance import build_margin_levels, measure_at_margins
from app.sizing.serving.bill import bill_reasons, bills_of_certainty
from app.sizing.serving.finalists import (
    SimulatedReplicas,
    assurance_from_simulation,
    planned_replica_capacity,
    with_expected_performance,
    with_simulated_performance,
)
from app.sizing.serving.interfaces import HardwareBound, Settings
from app.sizing.serving.kinds import AUTOREGRESSIVE, SINGLE_FORWARD, serving_backend
from app.sizing.serving.margins import plan_neighbourhoods
from app.sizing.serving.offload import note_host_assumptions
from app.sizing.serving.options import (
    Options,
    PlanEvaluations,
    daily_means,
    duration_s,
    served_per_s,
    startup_terms,
    throughput_per_s,
    units_per_request,
)
from app.sizing.serving.plans import Plans
from app.sizing.serving.search import (
    apply_service_limits,
    evaluate_measured_plans,
    replica_setting,
    required_replicas,
)
from app.sizing.snapshot import Catalog
from app.sizing.uncertainty import SERVING, Neighborhood
from app.sizing.words import format_count, format_name, format_number, percent
from app.sizing.workload import InferenceWorkload, Load


def with_daily_means(
    question: Question, workload: InferenceWorkload, judged: PlanEvaluations[Any, Any, Any], sure_capacity_per_s: Column
) -> PlanEvaluations[Any, Any, Any]:
    """Deployments with their means over a day at this capacity of a replica, at the requested confidence."""
    daily = daily_means(question, workload, judged.plans, judged.fleet, judged.cost, sure_capacity_per_s)
    return replace(judged, options=replace(judged.options, daily=daily))


def mean_cost(options: Options, economics: Economics) -> Cost:
    """Cost of deployments as means over a day."""
    daily, hours = options.daily, horizon_hours(economics)
    paid_usd = tco_usd(daily.usd_per_hour, hours)
    return replace(options.cost, usd_per_hour=daily.usd_per_hour, power_w=daily.power_w, tco_usd=paid_usd)


def with_day(
    question: Question,
    workload: InferenceWorkload,
    estimate: Estimate,
    judged: PlanEvaluations[Any, Any, Any],
    sure_capacity_per_s: Column,
    row: int,
) -> Estimate:
    """An estimate with its day, where the workload states hourly shares and the plan fits.

    Parameters:
        sure_capacity_per_s: requests per second that one replica is planned to carry.
    """
    if not workload.hourly_shares or estimate.performance is None or estimate.cost is None:
        return estimate
    deployment, plans, fleet = estimate.deployment, judged.plans, judged.fleet
    service = Service(
        peak_per_s=workload.peak_per_s,
        shares=workload.hourly_shares,
        replicas=at(fleet.replicas, row),
        spare_replicas=at(fleet.spare_replicas, row),
        nodes=at(fleet.nodes, row),
        redundancy=workload.redundancy,
        accelerators_per_replica=at(plans.accelerators_per_replica, row),
        accelerators_per_node=at(plans.accelerators_per_node, row),
        capacity_per_s=at(sure_capacity_per_s, row),
        target_utilization=question.assumptions.target_utilization,
        max_per_s=saturation_per_s(estimate.performance, at(fleet.replicas, row)),
        unloaded_ttft_s=median_response_s(estimate.performance),
        ttft_curve=ttft_curve(estimate.performance, at(fleet.replicas, row)),
        usd_per_hour=estimate.cost.full_usd_per_hour,
        power_w=estimate.cost.power_w,
        pricing=deployment.pricing_model,
        starting=replica_start(workload, judged, row, question.assumptions),
    )
    return replace(estimate, day=simulate_day(service, question.assumptions, question.economics))


def median_response_s(performance: Performance) -> float:
    """Seconds until a request is answered, or its first token arrives: the median at the load."""
    shown = performance.ttft or performance.e2e
    return 0.0 if shown is None or shown.p50_s is None or not math.isfinite(shown.p50_s) else shown.p50_s


def saturation_per_s(performance: Performance, replicas: float) -> float:
    """Requests per second of one replica above which its queue grows."""
    whole = performance.unstable_above_requests_per_s or performance.requests_per_s_capacity
    return (whole or performance.samples_per_s or 0.0) / replicas


def ttft_curve(performance: Performance, replicas: float) -> tuple[tuple[float, float], ...]:
    """Pairs of (requests per second of one replica, p95 TTFT in seconds); empty where nothing was simulated."""
    curve = performance.load_curve
    return () if curve is None else tuple((point.requests_per_s / replicas, point.ttft_p95_s) for point in curve.points)


def replica_start(
    workload: InferenceWorkload, judged: PlanEvaluations[Any, Any, Any], row: int, assumed: Assumptions
) -> StartProfile:
    """What the start of a replica in a row loads, and the links it uses."""
    starts = startup_terms(workload, judged.plans.take(np.array([row])), assumed)
    return StartProfile(**{f.name: getattr(starts, f.name)[0].item() for f in fields(StartProfile)})


BOTTLENECKS = {
    "compute": "compute",
    "memory_bandwidth": "memory bandwidth",
    "memory_capacity": "memory capacity, because the KV cache has no room for more sequences at full load",
    "interconnect": "interconnect between accelerators",
    "latency": "fixed latency per step",
    "host": "host CPU, for request preparation, kernel launches and scheduling",
}
WEIGHTS_ON_HOST = "the host, which reads and multiplies the weights in its own memory"
SMALLEST_SHOWN_SHARE = 0.01  # smaller shares are shown as "less than 1 %"
# The writer of answers for each serving mode.
ANSWER_WRITERS: Mapping[str, TokenAnswerWriter | PassAnswerWriter] = {
    AUTOREGRESSIVE.phase: TokenAnswerWriter(),
    SINGLE_FORWARD.phase: PassAnswerWriter(),
}


@dataclass(frozen=True, slots=True)
class ServingContext:
    """Context shared by all rows of a table of deployments: catalog, published results, ideal performance and bills."""

    catalog: Catalog
    neighbourhood: Neighborhood  # the published results nearest to each row
    ideal: HardwareBound  # ideal performance of the hardware, without any software overhead
    shares: Mapping[str, Column]  # seconds of one step, by bottleneck
    prefill_s: Column  # seconds of prefill in one step
    bills: tuple[tuple[Part, ...], ...]  # the itemized bill of each row
    simulated_replicas: SimulatedReplicas | None  # the simulated replicas, if the rows were simulated


def answer_writer(workload: InferenceWorkload) -> TokenAnswerWriter | PassAnswerWriter:
    """Writer of answers for the serving mode of a workload."""
    return ANSWER_WRITERS[serving_backend(workload).phase]


def build_deployment(
    workload: InferenceWorkload,
    judged: PlanEvaluations[Any, Any, Any],
    row: int,
    at_sale: SoldMachine,
    catalog: Catalog,
) -> Deployment:
    """Complete deployment of a row, as the answer echoes it. A client can post it back unchanged."""
    plans, fleet, most = judged.plans, judged.fleet, judged.options.settings.max_sequences
    assert most is not None
    data, context = int(at(plans.data_parallel, row)), int(at(plans.context_parallel, row))
    return Deployment(
        accelerator=at_sale.accelerator.slug,
        system=None if at_sale.system is None else at_sale.system.slug,
        provider=at_sale.provider,
        region=at_sale.region,
        pricing_model=at_sale.pricing_model,
        instance_type=at_sale.instance_type,
        accelerators_per_replica=int(at(plans.accelerators_per_replica, row)),
        replicas=int(at(fleet.replicas, row)),
        spare_replicas=int(at(fleet.spare_replicas, row)),
        nodes=int(at(fleet.nodes, row)),
        total_accelerators=int(at(fleet.accelerators, row)),
        tensor_parallel=int(at(plans.tensor_parallel, row)),
        pipeline_parallel=int(at(plans.pipeline_parallel, row)),
        data_parallel=data if data > 1 else None,
        context_parallel=context if context > 1 else None,
        expert_parallel=int(at(plans.stage_accelerators, row)) if data > 1 else 1,
        engine=catalog.engines[int(plans.engine[row])],
        weight_format=catalog.formats[int(plans.weight_format[row])],
        max_batch=int(at(most, row)),
        memory_fraction=at(judged.memory.memory_fraction, row),
        speculative=plans.speculative,
        **answer_writer(workload).engine_settings(workload, judged, row),
    )


def certainty_for_row(
    workload: InferenceWorkload,
    judged: PlanEvaluations[Any, Any, Any],
    row: int,
    setting: Setting,
    context: ServingContext,
    assumed: Assumptions,
) -> Certainty:
    """Evidence for the prediction of a row, and how far the prediction may be off.

    Single-forward models have no published results to compare with, and those of other models do not apply to weights
    in host memory.
    """
    pools, catalog = {SERVING: context.neighbourhood.take(np.array([row]))}, context.catalog
    if judged.plans.offloads_weights[row] or serving_backend(workload) is SINGLE_FORWARD:
        return Certainty(catalog.spreads, pools, setting, Familiarity.FAR, (), assumed)
    own = replica_setting(workload, judged.plans, row, catalog)
    return build_certainty(setting, catalog, assumed, neighbourhood=pools, own=own)


def cost_intervals(workload: InferenceWorkload, cost: CostSummary, performance: Performance) -> tuple[Interval, ...]:
    """Range of the cost per million units; empty where the cost does not depend on the throughput."""
    if workload.load is Load.OPEN or workload.is_finite or cost.usd_per_million is None:
        return ()
    rate = performance.interval
    usd_per_s = cost.usd_per_million * (performance.output_tokens_per_s or performance.samples_per_s or 0.0)
    return (Interval(f"usd_per_million_{cost.per_million}", usd_per_s / rate.high, usd_per_s / rate.low),)


def step_share(shares: Mapping[str, float], spent_on: str) -> float:
    """Share of a step's time that one bottleneck takes."""
    return shares.get(spent_on, 0.0) / max(sum(shares.values()), TINY)


def bottleneck_reason(
    bottleneck: str, shares: Mapping[str, float], *, weights_on_host: bool = False, prefill_s: float = 0.0
) -> Reason:
    """Sentence with the bottleneck and its share of a step.

    Parameters:
        shares: seconds of one step, by bottleneck.
        weights_on_host: whether host memory holds part of the weights.
        prefill_s: seconds of prefill in a step.
    """
    share = step_share(shares, bottleneck)
    what = WEIGHTS_ON_HOST if weights_on_host and bottleneck == "host" else BOTTLENECKS[bottleneck]
    if bottleneck == "compute" and prefill_s > shares["compute"] / 2:
        what = "prefill of prompts (compute)"
    of_step = "" if bottleneck == "memory_capacity" else f" ({percent(share)} of each step)"
    return Reason("bottleneck", f"Bottleneck: {what}{of_step}.", "share_of_step", share, "1")


def limit_reasons(workload: InferenceWorkload, judged: PlanEvaluations[Any, Any, Any], row: int) -> list[Reason]:
    """Sentences that compare each latency with its limit.

    They use the reported percentile at or next above the one that the limit is set at (p50, p95 or p99).
    """
    slo, reasons = workload.slo, []
    shown = 95 if 50 < slo.percentile <= 95 else 99 if slo.percentile > 95 else 50
    for name, label in answer_writer(workload).latencies:
        bound = getattr(slo, f"{name}_s")
        value = at(getattr(judged.operation, f"{name}_p{shown}_s"), row)
        if bound is not None and math.isfinite(value):
            limit = (
                f"{bound * 1e3:,.0f} ms" if slo.percentile == shown else f"{bound * 1e3:,.0f} ms at p{slo.percentile:g}"
            )
            text = f"p{shown} {label} is {value * 1e3:,.0f} ms (limit {limit})."
            reasons.append(Reason(f"{name}_ms", text, f"{name}_ms", value * 1e3, "ms"))
    return reasons


def load_reasons(
    workload: InferenceWorkload, judged: PlanEvaluations[Any, Any, Any], row: int, d: Deployment, confidence: float
) -> Iterator[Reason]:
    """Sentence about the utilization of the replicas or, in overload, about the part of the load that they serve."""
    replicas, overloaded = format_count(d.replicas or 0, "replica"), bool(judged.operation.overloaded[row])
    unit = "samples" if workload.model.sample else "requests"
    if overloaded and workload.load is Load.OPEN:
        capacity = at(throughput_per_s(workload, judged.options), row)
        peak = format_number(workload.peak_per_s)
        able = format_number(capacity) if capacity > 0 else "none"
        text = f"{replicas} can serve {able} of the {peak} {unit}/s within the limits."
        yield Reason("overloaded", text, "requests_per_s_capacity", capacity, f"{unit}/s")
    elif overloaded:
        most = (d.replicas or 0) * at(judged.speed.slo_batch, row)
        concurrent = format_count(workload.in_flight, f"concurrent {unit.removesuffix('s')}")
        text = f"{replicas} can serve {format_number(most)} of the {concurrent} within the limits."
        yield Reason("overloaded", text, "requests_at_once", most, unit)
    elif workload.load is Load.OPEN:
        used = at(judged.operation.utilization, row)
        share = percent(used) if used >= SMALLEST_SHOWN_SHARE else f"less than {percent(SMALLEST_SHOWN_SHARE)}"
        busy = "the replica is" if d.replicas == 1 else f"the {replicas} are"
        spare = f"; {d.spare_replicas:,} spare" if d.spare_replicas else ""
        text = (
            f"At peak {busy} {share} busy{spare}. With {confidence * 100:g} % confidence, the limits hold and the load "
            f"is at most {percent(workload.target_utilization)} of the saturation rate, above which queues never empty."
        )
        yield Reason("utilization", text, "utilization_at_peak", used, "1")


def network_reasons(judged: PlanEvaluations[Any, Any, Any], row: int) -> Iterator[Reason]:
    """Sentence about the assumed network of a replica on several machines, where the listing states none."""
    plans = judged.plans
    spanned = at(plans.nodes_per_replica, row)
    apart = spanned > 1 and plans.accelerators_per_replica[row] > plans.scale_up_domain[row]
    if apart and np.isnan(plans.node.network_bytes_per_s[row]):
        text = (
            f"Each replica spans {format_count(spanned, 'machine')}. The listing does not state the network between "
            "them, so a typical one is assumed. Measure yours."
        )
        yield Reason("network_assumed", text, "machines_per_replica", spanned, "machines")


def fleet_reasons(
    workload: InferenceWorkload,
    judged: PlanEvaluations[Any, Any, Any],
    row: int,
    d: Deployment,
    name: str,
    confidence: float,
) -> list[Reason]:
    """Sentences about a fleet: adapters, utilization, network, placement and idle accelerators."""
    reasons = [
        *adapter_reasons(workload.model),
        *load_reasons(workload, judged, row, d, confidence),
        *network_reasons(judged, row),
    ]
    reasons += placement_reasons(workload, d)
    size = d.accelerators_per_replica or 1
    idle = (d.total_accelerators or 0) - size * ((d.replicas or 0) + (d.spare_replicas or 0))
    if idle > 0:
        count, stay = format_count(d.total_accelerators or 0, "accelerator"), "stays" if idle == 1 else "stay"
        paid = f"your {count}" if d.uses_inventory else f"the {count} you pay for"
        text = (
            f"{idle:,} of {paid} {stay} idle, "
            f"because each machine has {at(judged.plans.accelerators_per_node, row):g} × {name}."
        )
        reasons.append(Reason("idle_accelerators", text, "idle_accelerators", float(idle), "accelerators"))
    return reasons


def out_of_memory_reason(judged: PlanEvaluations[Any, Any, Any], row: int) -> Reason:
    """Sentence that says how much memory a plan lacks."""
    needed, usable = at(judged.memory.needed_bytes, row) / GIB, at(judged.memory.usable_bytes, row) / GIB
    text = f"The model does not fit: each accelerator needs {needed:.1f} GiB but has {usable:.1f} GiB usable."
    return Reason("out_of_memory", text, "needed_gib", needed, "GiB")


def cost_of_row(
    workload: InferenceWorkload,
    options: Options,
    row: int,
    at_sale: SoldMachine,
    economics: Economics,
    bill: tuple[Part, ...] = (),
) -> CostSummary:
    """Cost, energy and bill of a row."""
    only, lasts = np.array([row]), None
    if workload.volume_requests is not None:
        with suspend_recording():
            lasts = at(duration_s(workload.volume_requests, options), row)
    return cost_summary(
        at_sale,
        options.cost.take(only),
        economics=economics,
        run_s=lasts,
        mean=mean_cost(options, economics).take(only) if workload.hourly_shares else None,
        units_per_s=at(served_per_s(workload, options), row) * units_per_request(workload),
        usd_total=None,
        per_million="samples" if workload.model.sample else "tokens",
        million_of=priced_unit(workload),
        bill=bill,
    )


def price_deployments(
    search: Search[InferenceWorkload], options: Options, runs: SimulatedReplicas
) -> tuple[Estimate, ...]:
    """Estimates of simulated options that hold only their cost, and the machines that it pays for."""
    question, bought = search.question, options.plans.offered
    with suspend_recording():
        options = with_expected_performance(search.workload, options, runs)
        at_sale = describe_sold_machines(search.catalog, bought, question.today, question.economics.discounts)
        return tuple(
            Estimate(
                Deployment(
                    accelerator=sold.accelerator.slug,
                    system=None if sold.system is None else sold.system.slug,
                    provider=sold.provider,
                    nodes=int(at(options.fleet.nodes, row)),
                    total_accelerators=int(at(options.fleet.accelerators, row)),
                ),
                True,
                None,
                None,
                None,
                cost_of_row(search.workload, options, row, sold, question.economics),
                (),
            )
            for row, sold in enumerate(at_sale)
        )


def build_serving_estimate(
    question: Question,
    workload: InferenceWorkload,
    judged: PlanEvaluations[Any, Any, Any],
    row: int,
    at_sale: SoldMachine,
    context: ServingContext,
) -> Estimate:
    """Estimate of a row: deployment, memory, performance, bottleneck, cost and explanation.

    A plan that does not fit has no performance and no cost, only the reason.
    """
    words = answer_writer(workload)
    catalog, shares = context.catalog, {name: at(share, row) for name, share in context.shares.items()}
    deployment, memory = (
        build_deployment(workload, judged, row, at_sale, catalog),
        words.device_memory(workload, judged, row),
    )
    if not judged.memory.fits[row]:
        reasons = (out_of_host_memory(judged, row) or out_of_memory_reason(judged, row),)
        return Estimate(deployment, False, memory, None, "memory_capacity", None, reasons)
    full = words.is_full(judged, row, question.assumptions)
    bottleneck = "memory_capacity" if full else max(shares, key=lambda k: (shares[k], k))
    cost = cost_of_row(workload, judged.options, row, at_sale, question.economics, context.bills[row])
    setting = serving_setting(workload, judged, row, at_sale.accelerator, deployment.engine or "")
    away = bool(judged.plans.offloads_weights[row])
    certainty = certainty_for_row(workload, judged, row, setting, context, question.assumptions)
    start = at(judged.options.cold_start_s, row)
    performance = words.serving_performance(workload, judged, row, certainty, context.ideal, cold_start_s=start)
    limits = limit_reasons(workload, judged, row)
    if context.simulated_replicas is not None:
        performance = with_simulation(workload, performance, judged, context.simulated_replicas, row)
        limits = list(simulation_reasons(workload, judged, context.simulated_replicas, row))
    intervals = (*performance.intervals, *cost_intervals(workload, cost, performance))
    size, name = deployment.accelerators_per_replica or 1, at_sale.accelerator.name
    noun = at_sale.accelerator.counted_as
    location = f"on one {noun}" if size == 1 else f"on each of {size} {noun}s"
    stored = f"{workload.model.name} in {format_name(deployment.weight_format or '')}"
    return Estimate(
        deployment=deployment,
        fits=True,
        memory=memory,
        performance=replace(performance, intervals=intervals),
        bottleneck=bottleneck,
        cost=cost,
        explanation=(
            words.memory_reason(workload, judged, row, location, stored),
            bottleneck_reason(bottleneck, shares, weights_on_host=away, prefill_s=at(context.prefill_s, row)),
            *host_weight_reasons(workload, judged, row, step_share(shares, "host")),
            *(host_reasons(judged, row) if workload.single_pass else ()),
            *limits,
            *fleet_reasons(workload, judged, row, deployment, name, question.constraints.confidence),
            *price_reason(cost, deployment),
            *certainty.measured_reasons(),
        ),
        nearest=certainty.nearest,
        setting=replica_setting(workload, judged.plans, row, catalog),
    )


def machine_demand(judged: PlanEvaluations[Any, Any, Any]) -> DeployedMachines:
    """Machines that each deployment needs, for the comparison of ways to acquire them."""
    plans, nothing, daily = judged.plans, np.zeros(len(judged.plans)), judged.options.daily
    spanning, mean = plans.nodes_per_replica > 1, replace(judged.cost, usd_per_hour=daily.usd_per_hour)
    return DeployedMachines(
        plans.offered, mean, judged.fleet.nodes, plans.linked_nodes, spanning, nothing, daily.idle_share
    )


def build_serving_context(
    search: Search[InferenceWorkload],
    judged: PlanEvaluations[Any, Any, Any],
    neighbourhood: Neighborhood,
    simulated_replicas: SimulatedReplicas | None,
) -> ServingContext:
    """Context shared by the estimates of a table of judged deployments."""
    plans, measured = judged.plans, (judged.memory, judged.speed, judged.operation)
    best = serving_backend(search.workload).hardware_bound(
        search.workload, plans, *measured, search.question.assumptions
    )
    bought = plans.offered, judged.fleet.nodes, plans.linked_nodes
    assumed, economics, idle = search.question.assumptions, search.question.economics, judged.options.daily.idle_share
    billed = itemize_costs(*bought, assumed, economics, host_bytes=plans.host_bytes, idle_share=idle)
    return ServingContext(
        search.catalog,
        neighbourhood,
        best,
        answer_writer(search.workload).step_seconds(search.workload, judged),
        answer_writer(search.workload).prefill_seconds(search.workload, judged),
        billed,
        simulated_replicas,
    )


def estimate_deployments(
    search: Search[InferenceWorkload],
    plans: Plans,
    settings: Settings,
    *,
    simulated_replicas: SimulatedReplicas | None = None,
) -> tuple[Estimate, ...]:
    """Estimates of all plans, each with its row of engine settings.

    A plan with weights in host memory is bound to that host: it has no alternatives.

    Parameters:
        settings: fixed engine and fleet settings, one row per plan.
        simulated_replicas: results of the scheduler simulation of each plan; only whole load curves are shown.
    """
    question, workload = search.question, search.workload
    note_host_assumptions(plans, question.assumptions)
    neighbourhood = plan_neighbourhoods(workload, plans, search.catalog.stack_evidence, question.assumptions)
    by = build_margin_levels(question, workload, neighbourhood, search.catalog.spreads)
    simulated_replicas = simulated_replicas and simulated_replicas.with_assured_curves(question, workload, by)
    with record_trace(wanted=question.trace) as trace:
        memory, speed = measure_at_margins(question, workload, plans, settings, by)
        expected = memory.take(by.median_rows), speed.take(by.median_rows)
        judged = evaluate_measured_plans(
            question, workload, plans, settings, expected[0], apply_service_limits(workload, *expected)
        )
        prefixes = answer_writer(workload).prefix_caches(workload, judged, question.assumptions)
        if simulated_replicas is not None:
            judged = with_simulated_performance(workload, judged, simulated_replicas)
        asked = question.constraints.confidence
        planned = planned_replica_capacity(workload, speed, by, asked, simulated_replicas)
        required_replicas(question, workload, plans, *planned, Settings())
        judged = with_daily_means(question, workload, judged, planned[0])
        usd_per_million(
            judged.options.daily_usd_per_hour, served_per_s(workload, judged.options) * units_per_request(workload)
        )
        ends = estimate_volume_outcome(question, workload, judged, neighbourhood, search.catalog.spreads)
    assurances = assurance_from_simulation(search, judged, by, memory, speed, simulated_replicas)
    likely, sure = (by.speed_at(level, speed) for level in (MEDIAN_CONFIDENCE, asked))
    bills = bills_of_certainty(workload, judged, likely, sure, simulated_replicas)
    context = build_serving_context(search, judged, neighbourhood, simulated_replicas)
    at_sale = describe_sold_machines(search.catalog, judged.plans.offered, question.today, question.economics.discounts)
    estimates = [
        build_serving_estimate(question, workload, judged, row, at_sale[row], context) for row in range(len(plans))
    ]
    if ends is not None:
        estimates = [with_volume_outcome(question, workload, each, ends, row) for row, each in enumerate(estimates)]
    if estimates:
        estimates[0] = with_day(question, workload, estimates[0], judged, planned[0], 0)
    others = find_alternatives(search, machine_demand(judged))
    estimates = with_support_levels(search, plans, estimates)
    return tuple(
        replace(
            each,
            trace=trace.row_steps(row) if question.trace and judged.memory.fits[row] else (),
            assurance=replace(assurances[row], bill=bills[row]),
            explanation=(*each.explanation, *bill_reasons(bills[row], each.deployment.nodes)),
            prefixes=prefixes[row],
            alternatives=others[row] if each.fits and not plans.offloads_weights[row] else (),
        )
        for row, each in enumerate(estimates)
    )


def with_support_levels(
    search: Search[InferenceWorkload], plans: Plans, estimates: Sequence[Estimate]
) -> list[Estimate]:
    """The estimates with the level of software support of their plans."""
    context = (search.workload, search.catalog, search.question.assumptions)
    leveled = zip(estimates, plans.support_is_expected.tolist(), strict=True)
    return [with_support(each, *context, expected=expected) for each, expected in leveled]
