"""Options of a search: plans with their fleet and cost, the measures that rank them, and what a request fixes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from app.errors import Conflict
from app.sizing.assumptions import Assumptions
from app.sizing.columns import SECONDS_PER_HOUR, TINY, Codes, Column, Columns, Mask, Table, column_names
from app.sizing.day import (
    Autoscaler,
    StartProfile,
    idle_shares,
    image_bytes,
    load_per_minute,
    start_times_s,
    supply_per_s,
)
from app.sizing.decisions.cost import (
    Cost,
    cold_start_s,
    paid_power_w,
    paid_usd_per_hour,
    run_s,
    usd_total,
    within_limits,
)
from app.sizing.decisions.placement import (
    Fleet,
    dependable_replicas,
    hosts_needed,
    max_usual_workstations,
    replicas_per_node,
)
from app.sizing.decisions.prices import service_pricing
from app.sizing.decisions.ranking import Measures
from app.sizing.decisions.rejections import Rejections
from app.sizing.formula import suspend_recording
from app.sizing.hardware.engines import ENGINES, engine_named
from app.sizing.hardware.parts import Environment, PricingModel, known_network_bytes_per_s
from app.sizing.hardware.tables import step_sizes
from app.sizing.question import Deployment, DraftMethod, Question, Speculative
from app.sizing.result import FilterStage
from app.sizing.serving.interfaces import Memory, OperatingPoint, Settings, Speed
from app.sizing.serving.layouts import context_splits
from app.sizing.serving.memory import ServingMemory, device_weights_bytes
from app.sizing.serving.plans import Plans
from app.sizing.words import product_name
from app.sizing.workload import InferenceWorkload, Load, Redundancy


def default_max_sequences(workload: InferenceWorkload, plans: Plans, memory: Memory, speed: Speed) -> Column:
    """Default limit of concurrent sequences (`max_num_seqs`) where the request fixes none.

    For open-loop and offline work it is the batch that meets the limits. Otherwise it is every sequence that fits in
    memory, and at least the engine's own limit: a server that is started without the option reserves memory for it.
    """
    if workload.load in (Load.OPEN, Load.OFFLINE):
        return np.maximum(1.0, speed.sequence_limit)
    most = np.maximum(1.0, memory.sequences)
    if not isinstance(memory, ServingMemory):
        return most
    rules = plans.scheduling_rules
    _, own = step_sizes(rules, memory.capacity_bytes, offline=False)
    return np.where(rules.slots, most, np.maximum(most, np.minimum(own, memory.max_sequences)))


def requested_settings(deployment: Deployment, plans: Plans, redundancy: Redundancy) -> Settings:
    """Engine and fleet settings that the request fixes."""

    def fixed_column(value: float | None) -> Column | None:
        return None if value is None else np.full(len(plans), float(value))

    return Settings(
        max_sequences=fixed_column(deployment.max_batch),
        max_batched_tokens=fixed_column(deployment.max_batched_tokens),
        memory_fraction=fixed_column(deployment.memory_fraction),
        skip_mm_profiling=fixed_column(1.0 if deployment.skip_mm_profiling else None),
        replicas=requested_replicas(deployment, plans, redundancy),
        spare_replicas=fixed_column(deployment.spare_replicas),
        nodes=requested_nodes(deployment, plans),
    )


def check_speculation(speculative: Speculative | None, workload: InferenceWorkload) -> None:
    """Raise Conflict if the model or workload cannot use the requested speculative decoding."""
    if speculative is None:
        return
    if workload.single_pass:
        raise Conflict("Speculative decoding requires a model that generates tokens. Omit speculative.")
    if speculative.method is DraftMethod.MTP and not workload.model.mtp_params:
        raise Conflict(f"{workload.model.name} has no multi-token prediction layer. Use draft_model, eagle or ngram.")


def check_experts(d: Deployment, workload: InferenceWorkload) -> None:
    """Raise Conflict for data-parallel ranks in one replica that the model or the engine does not allow."""
    if (d.data_parallel or 1) == 1:
        return
    if not workload.model.is_moe:
        raise Conflict(
            f"{workload.model.name} has no routed experts for data-parallel ranks to share. "
            "Use replicas instead of data_parallel."
        )
    engine = engine_named(d.engine or "")
    if engine.wide_experts and not engine.wide_experts.splits_attention and (d.tensor_parallel or 1) > 1:
        raise Conflict(
            f"With data_parallel above 1, {product_name(engine.name)} computes the attention of each rank on one "
            "accelerator. Set tensor_parallel to 1, or omit it."
        )


def check_context(d: Deployment, workload: InferenceWorkload) -> None:
    """Raise Conflict for a `context_parallel` degree that the model, engine or tensor-parallel degree does not
    allow.
    """
    context = d.context_parallel or 1
    if context == 1:
        return
    splits = context_splits(workload.model)
    if workload.single_pass or not splits.kv_heads:
        raise Conflict(
            f"{workload.model.name} has no KV cache that context_parallel can split by tokens. "
            "No engine splits sliding windows or recurrent states."
        )
    able = [
        name
        for name, engine in ENGINES.items()
        if engine.context_parallel and splits.supports_engine(engine.context_parallel)
    ]
    if d.engine is not None and d.engine not in able:
        raise Conflict(
            f"{product_name(d.engine)} does not support context parallelism in decode for {workload.model.name}. "
            f"Set engine to one of: {', '.join(able)}."
        )
    tensor = d.tensor_parallel
    if tensor is not None and not splits.allows_split(tensor, context):
        raise Conflict(
            f"context_parallel must divide tensor_parallel {tensor} and be at most {splits.max_ranks(tensor)}. "
            f"It only splits copies of the {splits.kv_heads} key/value heads."
        )


def hardware_holds_replicas(deployment: Deployment, plans: Plans) -> Mask:
    """Mask of plans whose fixed machines or accelerators hold the fixed replicas and spares."""
    wanted = (deployment.replicas or 1) + (deployment.spare_replicas or 0)
    holds: Mask = np.ones(len(plans), dtype=bool)
    if deployment.nodes is not None:
        holds &= max_replicas_on(plans, np.full(len(plans), float(deployment.nodes))) >= wanted
    if deployment.total_accelerators is not None:
        holds &= wanted * plans.accelerators_per_replica <= deployment.total_accelerators
    return holds


def max_replicas_on(plans: Plans, machines: Column) -> Column:
    """Largest number of replicas on a number of machines."""
    return np.floor(machines / plans.nodes_per_replica) * replicas_per_host(plans)


def replicas_per_host(plans: Plans) -> Column:
    """Replicas per machine, or per group of machines that one replica spans."""
    return replicas_per_node(plans.accelerators_per_replica, plans.accelerators_per_node)


def replicas_filling_hardware(deployment: Deployment, plans: Plans) -> Column | None:
    """Replicas including spares that fill the fixed accelerators or machines; None where neither is fixed."""
    if deployment.total_accelerators is not None:
        total = np.full(len(plans), float(deployment.total_accelerators))
    elif deployment.nodes is not None:
        total = deployment.nodes * plans.accelerators_per_node
    else:
        return None
    size, each = plans.accelerators_per_replica, plans.accelerators_per_node
    machines = np.floor(total / each)
    inside = machines * replicas_per_host(plans) + np.floor((total - machines * each) / size)
    return np.maximum(1.0, np.where(size > each, np.floor(total / size), inside))


def requested_nodes(deployment: Deployment, plans: Plans) -> Column | None:
    """Machines that the request fixes, directly or by the number of accelerators; None where neither is fixed."""
    if deployment.nodes is not None:
        return np.full(len(plans), float(deployment.nodes))
    if deployment.total_accelerators is None:
        return None
    if deployment.replicas is not None:
        return np.floor(deployment.total_accelerators / plans.accelerators_per_node)
    placed = replicas_filling_hardware(deployment, plans)
    assert placed is not None
    return hosts_needed(placed, replicas_per_host(plans)) * plans.nodes_per_replica


def requested_replicas(deployment: Deployment, plans: Plans, redundancy: Redundancy) -> Column | None:
    """Replicas that the request fixes, directly or by hardware to fill; None where neither is fixed.

    On fixed hardware, the result leaves enough spare replicas for the failures that the redundancy must survive.
    """
    if deployment.replicas is not None:
        return np.full(len(plans), float(deployment.replicas))
    placed = replicas_filling_hardware(deployment, plans)
    if placed is None:
        return None
    if deployment.spare_replicas is not None:
        return np.maximum(1.0, placed - deployment.spare_replicas)
    machines = requested_nodes(deployment, plans)
    assert machines is not None
    return dependable_replicas(redundancy, placed, np.floor(machines / plans.nodes_per_replica))


def startup_terms(workload: InferenceWorkload, plans: Plans, assumed: Assumptions) -> StartProfile:
    """What each plan's replica transfers at startup, and the links that it uses."""
    each, count, stacks = plans.accelerators_per_replica, plans.accelerators_per_node, plans.stacks
    small = stacks.table.small_engine | stacks.table.ggml
    slot = plans.types.table.slot_bytes_per_s[plans.accelerator]
    own: Mask = plans.has_unified_memory | plans.is_processor | ~(slot > 0)
    with suspend_recording():
        return StartProfile(
            machine_kept=~plans.offered.by_the_hour,
            image_bytes=image_bytes(small, stacks.table.large_image, assumed)[stacks.rows],
            stored_bytes=plans.stored_bytes,
            device_bytes=device_weights_bytes(workload.model, plans, assumed),
            nodes_per_replica=plans.nodes_per_replica,
            replicas_per_node=replicas_per_node(each, count),
            network_bytes_per_s=known_network_bytes_per_s(plans.node.network_bytes_per_s, assumed) * count,
            slot_bytes_per_s=np.where(own, np.inf, slot),
        )


@dataclass(frozen=True, slots=True)
class DailyMeans(Columns):
    """Means over a day of fleets that follow the load; those at the peak if the workload has no hourly profile."""

    idle_share: Column  # share of the machine-hours that the load does not need, from 0 to 1
    usd_per_hour: Column  # USD/h
    power_w: Column  # W


def daily_means(
    question: Question, workload: InferenceWorkload, plans: Plans, fleet: Fleet, cost: Cost, capacity_per_s: Column
) -> DailyMeans:
    """Mean cost and power of each fleet over a day.

    Parameters:
        cost: cost of each fleet at the peak.
        capacity_per_s: requests per second of one replica within the limits.
    """
    if not workload.hourly_shares or not len(plans):
        return DailyMeans(np.zeros(len(plans)), cost.usd_per_hour, cost.power_w)
    assumed = question.assumptions
    with suspend_recording():
        starting = startup_terms(workload, plans, assumed)
        at = Autoscaler(
            capacity_per_s=capacity_per_s,
            target_utilization=assumed.target_utilization,
            most_replicas=fleet.replicas,
            start_s=start_times_s(starting, 1.0, assumed) + assumed.autoscaler_reaction_s,
            supply_per_s=supply_per_s(starting, assumed),
            keep_s=assumed.scale_in_delay_s,
        )
        load = load_per_minute(workload.peak_per_s, workload.hourly_shares)
        on = plans.accelerators_per_replica, plans.accelerators_per_node
        idle = idle_shares(load, at, workload.redundancy, fleet, *on)
        returned, owned = plans.offered.by_the_hour, ~np.isnan(cost.purchase_usd)
        return DailyMeans(
            idle,
            paid_usd_per_hour(cost.usd_per_hour, cost.power_w, idle, returned, owned, assumed, question.economics),
            paid_power_w(cost.power_w, idle, returned, assumed),
        )


def daily_usd_per_hour_by_level(
    question: Question, workload: InferenceWorkload, plans: Plans, fleet: Fleet, cost: Cost, capacity_per_s: Column
) -> Column:
    """Mean cost over a day in USD/h, where the fleets, costs and capacities have one row of plans per level."""
    if not workload.hourly_shares:
        return cost.usd_per_hour
    rows = [
        daily_means(question, workload, plans, level_of(fleet, i), level_of(cost, i), capacity_per_s[i])
        for i in range(len(capacity_per_s))
    ]
    return np.stack([row.usd_per_hour for row in rows])


def level_of(table: Table, level: int) -> Table:
    """One level of a table whose columns have one row of plans per level."""
    return type(table)(**{name: getattr(table, name)[level] for name in column_names(type(table))})


@dataclass(frozen=True, slots=True)
class Options(Columns):
    """Plans with the resulting deployment and the figures that rank them."""

    plans: Plans
    settings: Settings  # complete settings for which the other columns hold
    slo_batch: Column  # largest batch of a replica within the limits
    capacity_per_s: Column  # requests per second of one replica within the limits; in a search, with the reserve
    rate_per_s: Column  # requests per second of one replica at the load
    cold_start_s: Column  # cold start of a replica, in seconds
    e2e_p50_s: Column  # median end-to-end latency at the load, in seconds
    fleet: Fleet
    cost: Cost
    daily: DailyMeans
    stable_per_s: Column  # requests per second from which the queue of a replica never empties, at the confidence

    @property
    def accelerator(self) -> Codes:
        return self.plans.accelerator

    @property
    def daily_usd_per_hour(self) -> Column:
        """Mean cost over a day in USD/h; the plain cost if there is no hourly profile."""
        return self.daily.usd_per_hour


M = TypeVar("M", bound=Memory)
S = TypeVar("S", bound=Speed)
R = TypeVar("R", bound=OperatingPoint)


@dataclass(frozen=True, slots=True)
class PlanEvaluations(Columns, Generic[M, S, R]):
    """Plans with their complete evaluation: options, memory, speed and operating point."""

    options: Options
    memory: M
    speed: S
    operation: R

    @property
    def plans(self) -> Plans:
        return self.options.plans

    @property
    def fleet(self) -> Fleet:
        return self.options.fleet

    @property
    def cost(self) -> Cost:
        return self.options.cost

    @property
    def accelerator(self) -> Codes:
        return self.plans.accelerator


def startup_s(question: Question, plans: Plans) -> Column:
    """Cold start of a replica of every plan, in seconds."""
    return cold_start_s(plans.stored_bytes, plans.nodes_per_replica, question.assumptions)


def within_constraints(question: Question, options: Options, rejections: Rejections) -> Mask:
    """Mask of plans within the limits on accelerators, cost and power."""
    return within_limits(
        options.accelerator, options.fleet.accelerators, options.cost, question.constraints, rejections
    )


WORKSTATION_FLEET = "workstation_fleet"
INCLUDE_TEXT = "To include them, name it in `accelerators` or its segment in `segments`."
WORKSTATIONS_TEXT = (
    f"{{name}} needs {{needed}} workstations; a site usually runs at most {{available}} for one service. {INCLUDE_TEXT}"
)
DESK_TEXT = (
    "{name} would be bought in workstations (needed: {needed}). A service of many users usually runs on servers or in "
    f"the cloud, which also meet the limits. {INCLUDE_TEXT}"
)


def without_workstation_fleets(
    question: Question, workload: InferenceWorkload, options: Options, named: Mask, rejections: Rejections
) -> Mask:
    """Mask of plans that buy no more workstations than a site usually runs; all plans if none would remain.

    A service of many users usually runs on none, unless the request allows only purchases or limits what they cost.
    Types that the request names, and all types if it names segments or an inventory, keep their workstations.

    Parameters:
        named: accelerator types that the request names.
    """
    limits = question.constraints
    most, text = max_usual_workstations(workload.redundancy, question.assumptions), WORKSTATIONS_TEXT
    rents = not limits.environments or Environment.CLOUD in limits.environments
    rents &= limits.max_purchase_usd is None and set(service_pricing(limits)) != {PricingModel.OWNED}
    if workload.serves_many and rents:
        most, text = 0.0, DESK_TEXT
    bought = options.plans.node.workstation & ~np.isnan(options.cost.purchase_usd)
    fleet = bought & ~named[options.accelerator] & (options.fleet.nodes > most)
    if limits.segments or limits.stock or limits.workstation_fleets or fleet.all():
        return np.ones(len(options), dtype=bool)
    rejections.reject_with_shortfall(
        options.accelerator,
        ~fleet,
        code=WORKSTATION_FLEET,
        text=text,
        needed=options.fleet.nodes,
        available=np.full(len(options), most),
        unit="machines",
        count=options.fleet.accelerators,
        reached=FilterStage.LIMITS,
    )
    return ~fleet


def throughput_per_s(workload: InferenceWorkload, options: Options) -> Column:
    """Requests (or samples) per second of the whole deployment, without spares.

    Open-loop and offline work use the capacity within the SLO; other work uses the rate at the given load.
    """
    if workload.load in (Load.OPEN, Load.OFFLINE):
        return options.fleet.replicas * options.capacity_per_s
    return options.fleet.replicas * options.rate_per_s


def served_per_s(workload: InferenceWorkload, options: Options) -> Column:
    """Requests per second over which cost and energy are spread: the actual load, never the unused capacity.

    If the load exceeds the capacity, the result is the capacity.
    """
    if workload.load is Load.OPEN:
        return np.minimum(workload.average_per_s, throughput_per_s(workload, options))
    if workload.volume_requests is not None:
        return workload.volume_requests / duration_s(workload.volume_requests, options)
    return throughput_per_s(workload, options)


def duration_s(volume_requests: float, options: Options) -> Column:
    """Seconds from starting the machines to finishing the volume of requests."""
    replicas, start = options.fleet.replicas, options.cold_start_s
    return run_s(volume_requests, replicas, options.capacity_per_s, options.slo_batch, start)


def units_per_request(workload: InferenceWorkload) -> float:
    """Tokens of a request, or 1 for samples."""
    return 1.0 if workload.model.sample is not None else max(1.0, workload.tokens_per_request)


def measures(workload: InferenceWorkload, options: Options) -> Measures:
    """Figures that rank plans.

    A service is ranked by its mean cost over a day. Work with a volume is ranked by total cost and duration. Offline
    work without a volume is ranked by cost per unit.
    """
    served = np.maximum(served_per_s(workload, options) * units_per_request(workload), TINY)
    usd = options.daily_usd_per_hour
    latency, work = options.e2e_p50_s, throughput_per_s(workload, options) / options.fleet.accelerators
    if workload.volume_requests is not None:
        latency = duration_s(workload.volume_requests, options)
        usd = usd_total(usd, latency)
    elif workload.load is Load.OFFLINE:
        usd = usd / served
    energy = options.daily.power_w / served
    return Measures(usd, latency, work, energy, carbon_kg_per_unit(options, energy))


JOULES_PER_KWH = 1e3 * SECONDS_PER_HOUR


def carbon_kg_per_unit(options: Options, joules_per_unit: Column) -> Column:
    """Greenhouse gases per token or sample without the building's overhead, which is the same for every option, kg."""
    return joules_per_unit / JOULES_PER_KWH * options.plans.offered.grid_g_per_kwh / 1e3


DEGREES_BASE = 2**32  # remainder of a layout's key by it: key of its accelerators and degrees alone


def layout_keys(plans: Plans) -> Codes:
    """Key that is equal for equal engine, formats, accelerators per replica, and tensor and pipeline degrees."""
    stack = (plans.engine * 4096 + plans.weight_format) * 16 + plans.kv
    sizes = plans.accelerators_per_replica * 2**20 + plans.tensor_parallel * 1024 + plans.pipeline_parallel
    key: Codes = stack * DEGREES_BASE + sizes.astype(np.int64)
    return key


def stable_key(options: Options) -> Column:
    """Tie-break order of equal plans: fewer accelerators first, then smaller replicas, then replicas on fewer machines,
    then catalog order.
    """
    plans = options.plans
    spread = plans.accelerators_per_replica * 1e3 + plans.nodes_per_replica
    return (options.fleet.accelerators * 1e6 + spread) * 1e4 + plans.stacks.rows
