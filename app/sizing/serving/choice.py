"""The best single service for one workload, and the open parts of a partly fixed deployment.

If the size is open, the choice follows the search. Otherwise the most capable configuration of the fixed hardware is
chosen.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import LEAST_PER_S, ROUNDING, Codes, Column, Mask, distinct_rows
from app.sizing.decisions.cost import MAX_ACCELERATORS, RESOURCE_LIMITS, deployment_cost
from app.sizing.decisions.machines import Candidates, unpriced_machine
from app.sizing.decisions.placement import plan_fleet
from app.sizing.decisions.ranking import (
    best_by_score,
    find_runners_up,
    ranking_key,
)
from app.sizing.decisions.rejections import NullRejections, Rejections
from app.sizing.decisions.search import Search, Workload
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.question import Constraints, Deployment, Question
from app.sizing.result import FilterStage, RunnerUp
from app.sizing.serving.curve_ends import Extent
from app.sizing.serving.finalists import (
    MAX_CAPACITY_RATIO,
    MAX_IN_FLIGHT_RATIO,
    SimulatedReplicas,
    ranked_rows,
    select_finalists,
    simulate_replicas,
)
from app.sizing.serving.interfaces import Memory, Settings, Speed
from app.sizing.serving.kinds import meets_unloaded_limits, serving_backend
from app.sizing.serving.load_curves import is_simulated
from app.sizing.serving.offload import plans_to_serve
from app.sizing.serving.options import (
    Options,
    default_max_sequences,
    layout_keys,
    measures,
    requested_settings,
    stable_key,
    throughput_per_s,
)
from app.sizing.serving.plans import Plans
from app.sizing.serving.search import (
    build_options,
    complete_settings,
    confidence_margins,
    enumerate_plans,
    evaluate_plans,
    replica_equivalence_key,
    required_replicas,
    search_plans,
    with_replica_count,
)
from app.sizing.snapshot import Catalog
from app.sizing.workload import InferenceWorkload, Load

# Layouts whose capacity by the formulas is within this factor of the best, and how many of them are simulated at most.
CLOSE_CAPACITY, MOST_CLOSE_LAYOUTS = 1.25, 3


def best_single_service(search: Search[InferenceWorkload]) -> Options | None:
    """The option that ranks first for this workload without other services; None if no option is feasible."""
    question = replace(search.question, workload=search.workload, limit=1, trace=False, companions=())
    single = replace(search, question=question).unrecorded()
    options = search_plans(single, plans_to_serve(single))
    if not len(options):
        return None
    finalists, _ = select_finalists(single, options)
    return finalists.chosen_options if len(finalists.rows) else None


@dataclass(frozen=True, slots=True)
class ChosenPlan:
    """One plan with its settings, a runner-up engine, and the simulation of the plan if it was simulated."""

    plan: Plans  # table with one row
    settings: Settings  # complete settings of the plan
    runner_up: RunnerUp | None = None  # runner-up: another engine with a similar score
    simulated: SimulatedReplicas | None = None  # simulation of the plan, if it was simulated


def fixed_deployment_plans(
    model: ModelArchitecture,
    catalog: Catalog,
    machines: Candidates,
    constraints: Constraints,
    rejections: Rejections,
    deployment: Deployment,
    assumed: Assumptions,
    *,
    phase: str,
    personal: bool,
    prompt_tokens: float = 0.0,
) -> Plans:
    """Plans of a fixed deployment, on machines for sale.

    If the layout is larger than any machine for sale, a host without a price takes their place.
    """

    def plans_on(hosts: Candidates, rejections: Rejections) -> Plans:
        on = model, catalog, hosts, constraints, rejections, assumed
        return enumerate_plans(*on, phase=phase, personal=personal, fixed=deployment, prompt_tokens=prompt_tokens)

    plans = plans_on(machines, rejections)
    if len(plans) or deployment.system or deployment.provider or deployment.pricing_model:
        return plans
    return plans_on(unpriced_machine(catalog, deployment, assumed), NullRejections(catalog.accelerators))


def choose_plan(search: Search[InferenceWorkload], plans: Plans, deployment: Deployment) -> ChosenPlan:
    """The plan that the search ranks first if the size is open; otherwise, or if the search finds none, the most
    capable.

    A complete deployment is returned unchanged.
    """
    requested = requested_settings(deployment, plans, search.workload.redundancy)
    if len(plans) == 1 and is_complete(search.workload, requested):
        return ChosenPlan(plans, requested)
    recommended = None if deployment.fixes_hardware else search_best_plan(search, plans, deployment)
    return most_capable_plan(search, plans, deployment) if recommended is None else recommended


def is_complete(workload: InferenceWorkload, asked: Settings) -> bool:
    """Whether the request fixes all engine settings and the number of replicas."""
    tokens = workload.single_pass or asked.max_batched_tokens is not None
    return tokens and not any(v is None for v in (asked.max_sequences, asked.memory_fraction, asked.replicas))


def search_best_plan(search: Search[InferenceWorkload], plans: Plans, deployment: Deployment) -> ChosenPlan | None:
    """The recommended plan among these; None if the search finds none."""
    search = search.unrecorded()
    options, runs = search_plans(search, plans, deployment), None
    if deployment.replicas is not None:
        options = with_fixed_replicas(search.question, search.workload, options, deployment)
    if not len(options):
        return None
    ranked, score = ranked_rows(search.question, search.workload, options)
    row = ranked[:1]
    if deployment.replicas is None:
        first_only = replace(search, question=replace(search.question, limit=1))
        finalists, _ = select_finalists(first_only, options, deployment)
        if len(finalists.rows):
            finalists = finalists.with_whole_curves(search.question, search.workload)
            options, row, runs = finalists.options, finalists.rows, finalists.runs
            score = finalists.all_scores(search.question, search.workload)
    latency_s = measures(search.workload, options).latency_s
    near = runner_up_engines(search, options.plans, score, latency_s, row)[0]
    return ChosenPlan(options.plans.take(row), options.settings.take(row), near, runs)


def with_fixed_replicas(
    question: Question, workload: InferenceWorkload, options: Options, deployment: Deployment
) -> Options:
    """Plans for which the fixed number of replicas is enough, with that number of replicas."""
    enough = options.take(options.fleet.replicas <= float(deployment.replicas or 1))
    asked = requested_settings(deployment, enough.plans, workload.redundancy)
    assert asked.replicas is not None
    return with_replica_count(question, workload, enough, asked.replicas, asked.spare_replicas)


def runner_up_engines(
    search: Search[Workload], plans: Plans, score: Column, latency_s: Column, rows: Codes
) -> tuple[RunnerUp | None, ...]:
    """Runner-up of each row: another engine whose best plan has a similar score and weights that are ready."""
    ready = np.where(plans.user_converts, np.inf, score)
    ready[rows] = score[rows]
    return find_runners_up(search, plans.accelerator, plans.engine, ready, latency_s, rows, plans.weight_format)


def most_capable_plan(search: Search[InferenceWorkload], plans: Plans, deployment: Deployment) -> ChosenPlan:
    """The plan with the highest throughput within the limits at the requested confidence.

    Layouts that the formulas find close are simulated. Ties go to the cheapest plan, then to the lowest latency
    without load, then to the smallest. The request rate is not used. Where no plan meets the limits, the plans with
    the smallest shortfall compete. Plans that differ in nothing but their price are not evaluated.
    """
    count = plans.accelerators_per_node.astype(np.int64)
    first, group_of_plan = distinct_rows(replica_equivalence_key(plans, search.catalog) * (count.max() + 1) + count)
    kinds, settings, rows = least_short_plans(search, plans.take(first), deployment)
    if len(kinds) == 1:
        alike = plans.take(group_of_plan == rows[0])
        return ChosenPlan(alike.take(cheapest_row(search, alike, settings)), settings, None)
    idle = (
        search.workload if search.workload.load is not Load.OPEN else replace(search.workload, peak_per_s=LEAST_PER_S)
    )
    evaluated = evaluate_plans(search.question, idle, kinds, settings).options
    score = 1.0 / np.maximum(throughput_per_s(search.workload, evaluated), LEAST_PER_S)
    judged = simulated_scores(search, evaluated, settings, score, deployment)
    row_of, most = np.full(len(first), -1), np.flatnonzero(best_by_score(kinds.accelerator, judged))
    row_of[rows[most]] = most
    tied = np.flatnonzero(row_of[group_of_plan] >= 0)
    plans, of_kind = plans.take(tied), row_of[group_of_plan][tied]
    options = build_options(
        search.question,
        search.workload,
        plans,
        settings.take(of_kind),
        slo_batch=evaluated.slo_batch[of_kind],
        capacity_per_s=evaluated.capacity_per_s[of_kind],
        stable_per_s=evaluated.stable_per_s[of_kind],
        rate_per_s=evaluated.rate_per_s[of_kind],
        e2e_p50_s=evaluated.e2e_p50_s[of_kind],
    )
    usd = np.nan_to_num(options.cost.usd_per_hour, nan=np.inf)
    best = np.lexsort((stable_key(options), ranking_key(options.e2e_p50_s), ranking_key(usd)))[:1]
    rival = runner_up_engines(search, kinds, score, evaluated.e2e_p50_s, of_kind[best])[0]
    return ChosenPlan(plans.take(best), settings.take(of_kind[best]), rival)


def cheapest_row(search: Search[InferenceWorkload], plans: Plans, settings: Settings) -> Codes:
    """Row of the cheapest of plans that run alike, the first of equals.

    Parameters:
        settings: settings of all plans, in one row.
    """
    settings = settings.take(np.zeros(len(plans), dtype=np.int64))
    assert settings.replicas is not None
    size = plans.accelerators_per_replica, plans.accelerators_per_node, settings.replicas
    placed = plan_fleet(search.workload.redundancy, *size, spares=settings.spare_replicas, machines=settings.nodes)
    assumed, economics = search.question.assumptions, search.question.economics
    bought = plans.offered, placed.nodes, plans.linked_nodes
    cost = deployment_cost(*bought, assumed, economics, host_bytes=plans.host_bytes)
    return np.argsort(ranking_key(np.nan_to_num(cost.usd_per_hour, nan=np.inf)), kind="stable")[:1]


def simulated_scores(
    search: Search[InferenceWorkload], options: Options, settings: Settings, score: Column, deployment: Deployment
) -> Column:
    """Scores of the best layouts as simulated, infinite for the others; the given scores where none comes close.

    Formulas misjudge the batches of pipelines by more than the best layouts differ.

    Parameters:
        score: seconds per request of the whole deployment by the formulas.
    """
    keys, order = layout_keys(options.plans), np.argsort(score, kind="stable")
    close = order[score[order] <= score.min(initial=np.inf) * CLOSE_CAPACITY]
    rows = close[np.sort(np.unique(keys[close], return_index=True)[1])[:MOST_CLOSE_LAYOUTS]]
    if search.workload.load is not Load.OPEN or len(rows) < 2:
        return score
    runs = simulate_replicas(search, options.plans.take(rows), settings.take(rows), deployment, extent=Extent.PLANNED)
    if runs is None:
        return score
    judged = np.full(len(score), np.inf)
    each = runs.planned_capacity(search.workload)[0] * options.fleet.replicas[rows]
    for row, capacity in zip(rows.tolist(), each.tolist(), strict=True):
        judged[(keys == keys[row]) & (score == score[row])] = 1 / max(capacity, LEAST_PER_S)
    return judged


def least_short_plans(
    search: Search[InferenceWorkload], plans: Plans, deployment: Deployment
) -> tuple[Plans, Settings, Codes]:
    """Plans with the smallest shortfall, their settings and their row indices.

    Memory counts first, then accelerators beyond the available number, then speed. The requested confidence applies;
    where nothing meets it, the median prediction does.
    """
    kind, assumed, requested = (
        serving_backend(search.workload),
        search.question.assumptions,
        requested_settings(deployment, plans, search.workload.redundancy),
    )
    margins = confidence_margins(search, plans)

    def measure_remaining() -> tuple[Memory, Speed, Mask]:
        memory = kind.estimate_memory(search.workload, plans, assumed, requested, margins)
        alone = kind.unloaded_latency(search.workload, plans, memory, assumed, margins)
        speed = kind.estimate_speed(search.workload, memory, alone, assumed)
        return memory, speed, meets_unloaded_limits(search.workload, memory, speed)

    memory, speed, held = measure_remaining()
    slow = np.where(held, 0.0, np.maximum(1.0, slowdown_ratio(search.workload, speed, requested)))
    rows: Codes = np.arange(len(plans))
    for short in (memory.memory_shortfall, exceeds_accelerators(search.workload, deployment, plans, requested), slow):
        rows = rows[short[rows] <= short[rows].min() * (1 + ROUNDING)]
    plans, requested, margins, held = plans.take(rows), requested.take(rows), margins.take(rows), held[rows]
    memory, speed = memory.take(rows), speed.take(rows)
    if not held.all():
        margins = margins.restrict_to(held)
        memory, speed, held = measure_remaining()
    return plans, complete_open_settings(search.question, search.workload, plans, requested, memory, speed, held), rows


def exceeds_accelerators(workload: InferenceWorkload, deployment: Deployment, plans: Plans, asked: Settings) -> Column:
    """1 where the machines hold more accelerators than the request allows, else 0."""
    if deployment.total_accelerators is None or asked.replicas is None:
        return np.zeros(len(plans))
    on = plans.accelerators_per_replica, plans.accelerators_per_node
    taken = plan_fleet(workload.redundancy, *on, asked.replicas, spares=asked.spare_replicas, machines=asked.nodes)
    return (taken.accelerators > deployment.total_accelerators).astype(np.float64)


def slowdown_ratio(workload: InferenceWorkload, speed: Speed, asked: Settings) -> Column:
    """Ratio of latency to limit, for the limit that is missed most."""
    with np.errstate(invalid="ignore"):
        missed = [
            limit.needed_s / limit.available_s
            for limit in serving_backend(workload).latency_limits(speed.unloaded, workload.slo)
        ]
    slo = workload.slo
    limited = any(limit is not None for limit in (slo.ttft_s, slo.tpot_s, slo.e2e_s))
    if limited and asked.replicas is not None and workload.load in (Load.CLOSED, Load.BATCH):
        each = np.ceil(workload.in_flight / asked.replicas)
        missed.append(each / np.maximum(1.0, speed.slo_batch))
    worst: Column = np.nan_to_num(np.max(missed, axis=0), nan=0.0)
    return worst


def complete_open_settings(
    question: Question,
    workload: InferenceWorkload,
    plans: Plans,
    asked: Settings,
    memory: Memory,
    speed: Speed,
    held: Mask,
) -> Settings:
    """Complete settings of plans.

    Where limits cannot be met, the batch is not restricted. The replicas then carry the load without limits, as far
    as that many accelerators exist.
    """
    most = asked.max_sequences
    if most is None:
        most = np.where(held, default_max_sequences(workload, plans, memory, speed), memory.sequences)
    stable = workload.target_utilization * speed.saturation_per_s
    capacity = np.where(held, speed.planned_capacity_per_s(workload), stable)
    batch = np.where(held, speed.slo_batch, memory.sequences * plans.data_parallel)
    replicas = required_replicas(question, workload, plans, capacity, batch, asked)
    if asked.replicas is None:
        each = np.maximum(plans.accelerators_per_replica, plans.accelerators_per_node)
        replicas = np.clip(replicas, 1.0, np.floor(MAX_ACCELERATORS / each))
    return replace(complete_settings(memory, speed, replicas, asked), max_sequences=most)


def or_plans_near_limits(search: Search[InferenceWorkload], plans: Plans, options: Options) -> Options:
    """The options; if there are none, those that exceed limits on accelerators, money or power by no more than formulas
    may overestimate: their simulation decides.
    """
    limits = search.question.constraints
    ratio = MAX_IN_FLIGHT_RATIO if search.workload.load is Load.CLOSED else MAX_CAPACITY_RATIO
    missed = search.rejections.by_accelerator.items()
    near = [i for i, r in missed if r.stage is FilterStage.LIMITS and r.shortfall_ratio <= ratio]
    if len(options) or not near or not is_simulated(search.workload):
        return options
    asked = {limit.field: getattr(limits, limit.field) for limit in RESOURCE_LIMITS}
    wider: dict[str, Any] = {name: most * ratio for name, most in asked.items() if most is not None}
    stock = tuple((kind, int(count * ratio)) for kind, count in limits.stock)
    question = replace(search.question, constraints=replace(limits, stock=stock, **wider))
    return search_plans(replace(search.unrecorded(), question=question), plans.take(np.isin(plans.accelerator, near)))
