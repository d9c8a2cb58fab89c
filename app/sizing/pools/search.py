"""Finds the best split of a service: sizes plans of each pool with the service search, then pairs compatible plans.

The general service search models decoding in the same replica; a prefill pool has none.

The cost of a pair is the sum of its pools, so the best plans of each pool suffice to find the best pair. A pair is
simulated only where formulas rank it above the best single-pool plan. It is reported only if the simulation confirms
that.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from app.sizing.answer.serving import estimate_deployments
from app.sizing.columns import LEAST_PER_S, ROUNDING, TINY, Codes, Column, Mask, at
from app.sizing.decisions.cost import Cost, accelerators_in_stock, within_limits
from app.sizing.decisions.placement import plan_fleet
from app.sizing.decisions.ranking import Measures, objective_score
from app.sizing.decisions.rejections import NullRejections
from app.sizing.decisions.search import Search, Workload
from app.sizing.formula import formula, suspend_recording
from app.sizing.hardware.pool_servers import POOL_SERVERS
from app.sizing.pools.estimate import DISAGGREGATING_ENGINES, MIXED_SCHEDULER, max_concurrent_prompts
from app.sizing.pools.joined import PoolEstimates, combine_estimates
from app.sizing.pools.parts import (
    decode_reserve_s,
    decode_workload,
    estimate_transfer,
    prefill_workload,
    reported_percentile,
    split_ttft_s,
    with_client_ttft,
)
from app.sizing.question import Deployment, Objective, Question
from app.sizing.result import Estimate, Transfer
from app.sizing.serving.curve_ends import Extent
from app.sizing.serving.finalists import (
    SimulatedReplicas,
    has_capacity,
    load_per_replica,
    simulate_replicas,
    size_fleet,
)
from app.sizing.serving.interfaces import LEAST_CAPACITY_PER_S, Settings
from app.sizing.serving.layouts import context_splits
from app.sizing.serving.load_curves import waits_at
from app.sizing.serving.options import Options, carbon_kg_per_unit, within_constraints
from app.sizing.serving.plans import KV_NAMES, Plans
from app.sizing.serving.search import confidence_margins, required_replicas, search_plans, with_replica_count
from app.sizing.snapshot import Catalog
from app.sizing.workload import InferenceWorkload, Load, Slo

HALVINGS = 24


@formula(unit="1", source="G/G/1 queue in heavy traffic (Kingman 1962; Kleinrock 1975)")
def late_share(
    load: Column, wait_s: Column, service_s: Column, variation: float, pooled: Column | float = 1.0
) -> Column:
    """Share of requests that wait longer than `wait_s` for the first free server behind one router.

    The wait is exponential given that all servers are busy.

    Parameters:
        load: utilization of the server, from 0 to 1.
        wait_s: wait that is compared, in seconds.
        service_s: mean service time, in seconds.
        variation: squared coefficients of variation of arrivals and service, added.
        pooled: servers behind one router.
    Limits: one server; exact for exponential service, for which `variation` is 2. For several servers, the share that
        waits is that of Sakasegawa (1977).
    Check: at half load, waits of more than twice the mean service time.
        >>> round(float(late_share(0.5, 2.0, 1.0, 2.0)), 3)
        0.184
    """
    busy = load ** (np.sqrt(2 * (pooled + 1)) - 1)
    tail: Column = np.exp(-2 * (1 - load) * pooled * np.maximum(wait_s, 0.0) / np.maximum(service_s * variation, TINY))
    late: Column = busy * tail
    return late


def max_load(
    wait_s: Column, service_s: Column, variation: float, share: float, workload: InferenceWorkload | None = None
) -> Column:
    """Largest utilization at which at most `share` of requests wait longer than `wait_s`; 0 where no wait is
    allowed.

    Parameters:
        workload: its peak and router tell how many replicas share a queue; omitted: one.
    """
    low, high = np.zeros(len(wait_s)), np.ones(len(wait_s))
    with suspend_recording():
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            pooled = 1.0 if workload is None else workload.pool_size(middle / service_s)
            within_share = late_share(middle, wait_s, service_s, variation, pooled) <= share
            low, high = np.where(within_share, middle, low), np.where(within_share, high, middle)
    return np.where(wait_s > 0, low, 0.0)


def prefill_options(search: Search[InferenceWorkload], plans: Plans) -> Options:
    """Options of a prefill pool, with enough replicas to keep its queue within the TTFT limit."""
    slo, prompt = search.workload.slo, search.workload.input_tokens
    unlimited = replace(search.workload, slo=Slo(None, None, None, slo.percentile))
    if slo.ttft_s is None:
        return search_plans(search.of(unlimited), plans)
    options = search_plans(search.of(replace(unlimited, target_utilization=1.0)), plans)
    if not len(options):
        return options
    margins = confidence_margins(search, options.plans)
    tokenise_s = options.plans.achieved_rates.tokenise_token_s * prompt.mean  # the server tokenizes prompts one by one
    service_s = np.maximum(1 / np.maximum(options.capacity_per_s * margins.rate, LEAST_PER_S), tokenise_s)
    long_s = service_s * max(1.0, search.workload.long_prompt(slo.percentile) / prompt.mean)
    variation = search.workload.burstiness**2 + prompt.squared_variation
    wait_s, late = slo.ttft_s / margins.ttft - long_s, 1 - slo.percentile / 100
    load = max_load(wait_s, service_s, variation, late, search.workload)
    capacity = np.minimum(load, search.workload.target_utilization) / (service_s * margins.rate)
    able = np.flatnonzero(capacity > LEAST_CAPACITY_PER_S)
    options, capacity = options.take(able), capacity[able]
    if not len(options):
        return options
    replicas = required_replicas(
        search.question, search.workload, options.plans, capacity, options.slo_batch, Settings()
    )
    again = with_replica_count(search.question, search.workload, replace(options, capacity_per_s=capacity), replicas)
    return again.take(within_constraints(search.question, again, search.rejections))


DECODE_DEPLOYMENT = Deployment("", scheduler=MIXED_SCHEDULER)
# Bounds of the search, not of hardware. On the catalog, six services with 8B and 70B models were tested. One simulated
# pair instead of two cost 6 % more in one of them. Four pairs, pairs up to 1.3 times the best score, or ten types found
# nothing better.
MAX_SIMULATED_PAIRS = 3  # maximum number of simulated pairs from the first better one: others follow if they are close
MAX_FAILED_POOLS = 2  # pools of one accelerator type that cannot serve or cost too much, after which it is left out
MAX_PAIR_SIMULATIONS = 6  # maximum number of simulated pairs, with those that cannot serve or cost too much
MAX_CLOSE_RATIO = 1.1  # maximum ratio to the best score for simulating a pair of other accelerator types
MAX_POOL_TYPES = 6  # accelerator types considered for pools: the best ones of single-pool serving


@dataclass(frozen=True, slots=True)
class PoolPairs:
    """Pairs of a prefill plan and a decode plan, one per row."""

    reads: Options  # prefill pools
    writes: Options  # decode pools
    plan_rows: tuple[Codes, Codes]  # row of each pool among the leading plans

    def take(self, rows: Codes) -> PoolPairs:
        """Some of the pairs, in the given order."""
        reads, writes = self.plan_rows
        return PoolPairs(self.reads.take(rows), self.writes.take(rows), (reads[rows], writes[rows]))

    def ranking_measures(self, question: Question, workload: InferenceWorkload, transfer_s: float = 0.0) -> Measures:
        """Figures that rank pairs."""
        reads, writes = pools = self.reads, self.writes
        capacity = np.minimum(*(pool.fleet.replicas * pool.capacity_per_s for pool in pools))
        served = np.minimum(workload.average_per_s, capacity) * max(1.0, workload.tokens_per_request)
        read_s = split_ttft_s(reads.e2e_p50_s, question.assumptions.split_first_token_factor)
        return Measures(
            reads.daily_usd_per_hour + writes.daily_usd_per_hour,
            read_s + transfer_s + writes.e2e_p50_s,
            capacity / (reads.fleet.accelerators + writes.fleet.accelerators),
            (reads.daily.power_w + writes.daily.power_w) / np.maximum(served, LEAST_PER_S),
            np.add(*(carbon_kg_per_unit(pool, pool.daily.power_w / np.maximum(served, LEAST_PER_S)) for pool in pools)),
        )

    def within_constraints(self, search: Search[Workload]) -> Mask:
        """Mask of pairs within the limits on accelerators, cost and power."""
        reads, writes = self.reads, self.writes
        names = ("usd_per_hour", "purchase_usd", "power_w", "rated_w", "tco_usd", "carbon_kg")
        cost = Cost(*(getattr(reads.cost, name) + getattr(writes.cost, name) for name in names))
        total = reads.fleet.accelerators + writes.fleet.accelerators
        limits, rejections = search.question.constraints, NullRejections(search.catalog.accelerators)
        within = within_limits(writes.accelerator, total, cost, replace(limits, stock=()), rejections)
        for pool in (reads, writes) if limits.stock else ():
            taken = np.where(reads.accelerator == writes.accelerator, total, pool.fleet.accelerators)
            within &= taken <= accelerators_in_stock(limits, pool.accelerator)
        return within


@dataclass(frozen=True, slots=True)
class SimulatedPool:
    """One simulated pool, sized by its simulation; the workload is the pool's part."""

    workload: InferenceWorkload  # the pool's part of the workload
    options: Options  # one row, sized by the simulation
    simulated: SimulatedReplicas  # simulation of the pool

    def first_token_s(self, percentile: float) -> float:
        """TTFT at the percentile of the limits, in seconds; 0 where the queue grows without bound."""
        with suspend_recording():
            waits = waits_at(self.simulated.curves, load_per_replica(self.workload, self.options.fleet.replicas))
        wait_s = at(waits[f"ttft_{reported_percentile(percentile)}_s"], 0)
        return wait_s if np.isfinite(wait_s) else 0.0

    def build_estimate(self, search: Search[Workload], asked: Deployment | None = None) -> Estimate:
        """Estimate of the pool for an answer; `asked` is the deployment that the request fixes."""
        plans, settings = self.options.plans, self.options.settings
        whole = self.simulated.with_whole_curves(search.question, self.workload)
        (estimate,) = estimate_deployments(search.of(self.workload), plans, settings, simulated_replicas=whole)
        scheduler = estimate.deployment.scheduler
        if asked is not None and scheduler is not None:
            scheduler = scheduler.with_settings(asked.scheduler)
        return replace(estimate, deployment=replace(estimate.deployment, scheduler=scheduler))


@dataclass(frozen=True, slots=True)
class SimulatedPair:
    """Two simulated pools, the transfer between them, and the score that ranks them."""

    reads: SimulatedPool  # prefill pool
    writes: SimulatedPool  # decode pool
    transfer: Transfer  # KV cache transfer between the pools
    score: float  # ranking score; lower is better


def may_split(question: Question, workload: InferenceWorkload) -> bool:
    """Whether to search for a split.

    The workload must be open-loop token generation with attention and more than one output token. Companions and
    traffic classes exclude a split.
    """
    streams = workload.load is Load.OPEN and not workload.single_pass and bool(workload.model.attention)
    streams = streams and not question.companions and not workload.classes
    return streams and workload.output_tokens.mean > 1


def disaggregating_plans(plans: Plans, catalog: Catalog, types: Codes) -> Plans:
    """Plans of these types on engines with disaggregated serving and on machines with a known network bandwidth.

    Plans with weights in host memory are left out. An empty `types` allows all types. An unknown bandwidth for the
    KV cache transfer is not guessed.
    """
    engines = [code for code, name in enumerate(catalog.engines) if name in DISAGGREGATING_ENGINES]
    rows = np.isin(plans.engine, engines) & ~plans.offloads_weights & np.isfinite(plans.node.network_bytes_per_s)
    if len(types):
        rows &= np.isin(plans.accelerator, types)
    return plans.take(rows)


def requires_one_stage(plans: Plans, catalog: Catalog) -> Mask:
    """Mask of plans on engines that move no KV cache into decode replicas with pipeline stages."""
    named = [code for code, name in enumerate(catalog.engines) if name in POOL_SERVERS and POOL_SERVERS[name].pipelined]
    return np.isin(plans.engine, named)


def least_machines(workload: InferenceWorkload, plans: Plans) -> Column:
    """Lower bound of the machines of a pool of every plan, which are always paid for: those of one replica and its
    spares; 0 where the hours of a day release machines.
    """
    if workload.hourly_shares or not len(plans):
        return np.zeros(len(plans))
    on = plans.accelerators_per_replica, plans.accelerators_per_node
    nodes: Column = plan_fleet(workload.redundancy, *on, np.ones(len(plans))).nodes * (1 - ROUNDING)
    return nodes


def least_usd_per_hour(workload: InferenceWorkload, plans: Plans) -> Column:
    """Lower bound of the hourly cost of a pool of every plan; 0 where the price is unknown."""
    return np.nan_to_num(least_machines(workload, plans) * plans.offered.usd_per_hour, nan=0.0)


def least_pair_score(search: Search[InferenceWorkload], reads: Plans, writes: Options) -> float:
    """Lower bound of the score, by formulas, of every pair of these pools: a prefill pool has one replica and takes no
    time.
    """
    workload, capacity = search.workload, writes.fleet.replicas * writes.capacity_per_s
    served = np.maximum(
        np.minimum(workload.average_per_s, capacity) * max(1.0, workload.tokens_per_request), LEAST_PER_S
    )
    keys = np.concatenate([pairing_keys(plans, search.catalog) for plans in (reads, writes.plans)])
    groups, group = np.unique(keys, return_inverse=True)
    reads_usd, reads_w = np.full((2, len(groups)), np.inf)
    np.minimum.at(reads_usd, group[: len(reads)], least_usd_per_hour(workload, reads))
    draw_w = np.nan_to_num(least_machines(workload, reads) * reads.offered.draw_w, nan=0.0)
    np.minimum.at(reads_w, group[: len(reads)], draw_w)
    of_writes = group[len(reads) :]
    least = Measures(
        writes.daily_usd_per_hour + reads_usd[of_writes],
        writes.e2e_p50_s,
        capacity / writes.fleet.accelerators,
        (writes.daily.power_w + reads_w[of_writes]) / served,
        carbon_kg_per_unit(writes, writes.daily.power_w / served),
    )
    return float(objective_score(search.question.objective, least).min())


def rank_pairs(
    search: Search[InferenceWorkload], plans: Plans, types: Codes, below: float = np.inf
) -> PoolPairs | None:
    """Pairs of pools, best first by formulas; None where no two pools can serve.

    Where the cost ranks, plans that cannot be part of a pair with a score below `below` are left out.
    """
    able = disaggregating_plans(plans, search.catalog, types[:MAX_POOL_TYPES])
    if not len(able):
        return None
    prompts = prefill_workload(
        search.workload, decode_reserve_s(search.workload), search.question.assumptions.split_first_token_factor
    )
    whole = able.take(able.context_parallel == 1)
    most_usd = below if search.question.objective is Objective.COST else np.inf
    reads_usd = least_usd_per_hour(search.workload, whole)
    able = able.take(least_usd_per_hour(search.workload, able) + reads_usd.min(initial=np.inf) < most_usd)
    if not len(able):
        return None
    latent = context_splits(search.workload.model).latent  # only MLA latents may be transferred split
    split = able if latent else able.take(able.context_parallel == 1)
    writes_able = split.take(~requires_one_stage(split, search.catalog) | (split.pipeline_parallel == 1))
    writes = search_plans(search.unrecorded().of(decode_workload(search.workload, 0.0)), writes_able, breaks_ties=False)
    if not len(writes) or least_pair_score(search, whole, writes) >= below:
        return None
    whole = whole.take(reads_usd + np.nan_to_num(writes.daily_usd_per_hour).min() < most_usd)
    reads = prefill_options(search.unrecorded().of(prompts), whole)
    if not len(reads):
        return None
    needed = reads.plans.accelerators_per_replica / np.maximum(reads.capacity_per_s, LEAST_PER_S)
    reads, writes = leading_plans(reads, search.catalog, needed), leading_plans(writes, search.catalog)
    first, second = np.nonzero(
        pairing_keys(reads.plans, search.catalog)[:, None] == pairing_keys(writes.plans, search.catalog)
    )
    if not len(first):
        return None
    pairs = PoolPairs(reads.take(first), writes.take(second), (first, second))
    score = np.where(
        pairs.within_constraints(search),
        objective_score(search.question.objective, pairs.ranking_measures(search.question, search.workload)),
        np.inf,
    )
    order = np.argsort(score, kind="stable")
    return pairs.take(order[np.isfinite(score[order])])


def better_split(
    search: Search[InferenceWorkload],
    plans: Plans,
    types: Codes,
    *,
    simulated_score: float = np.inf,
    expected_score: float = np.inf,
) -> tuple[Estimate, SimulatedPair] | None:
    """Best split that beats the best single-pool plan by more than a near tie: its estimate and its simulation.

    Parameters:
        types: accelerator types of the pools; any type if empty.
        simulated_score: simulated score of the best single-pool plan.
        expected_score: score of that plan by formulas. Simulations usually shift both in the same way; where they find
            the single-pool plan worse, pairs compete with what they find.
    """
    near_tie = search.question.assumptions.near_tie_share
    best, to_beat = None, simulated_score * (1 - near_tie)  # of near ties one pool is simpler
    below = expected_score if simulated_score == np.inf else max(expected_score, to_beat)
    pairs = rank_pairs(search, plans, types, below) if may_split(search.question, search.workload) else None
    if pairs is None:
        return None
    score = objective_score(search.question.objective, pairs.ranking_measures(search.question, search.workload))
    open_pairs = score < below
    types_of = pairs.reads.accelerator * (int(plans.accelerator.max()) + 1) + pairs.writes.accelerator
    caches_of = pairs.writes.plans.engine * len(KV_NAMES) + pairs.writes.plans.kv
    failures, serving = Counter[tuple[int, int]](), 0
    for _ in range(MAX_PAIR_SIMULATIONS):
        row = next_row(search.question, search.workload, pairs, open_pairs)
        if row is None or serving == MAX_SIMULATED_PAIRS:
            break
        simulated, fails = simulate_pair(search, pairs.take(row))
        if simulated is not None and best is None and simulated.score >= to_beat:
            fails = pool_that_grew(pairs.take(row), simulated)
            simulated = None
        if simulated is None:
            failed_rows, kinds = pairs.plan_rows[fails], (pairs.reads, pairs.writes)[fails].accelerator
            kind = int(kinds[row[0]])
            failures[fails, kind] += 1
            open_pairs &= failed_rows != failed_rows[row[0]]
            open_pairs &= (kinds != kind) | (failures[fails, kind] < MAX_FAILED_POOLS)
            continue
        serving, most_close = serving + 1, MAX_CLOSE_RATIO * score[row[0]]
        if simulated.score < to_beat:
            best, to_beat = simulated, simulated.score
        alike = types_of == types_of[row[0]]  # other engines or caches on these types may win by formulas alone
        open_pairs &= np.where(alike, (caches_of != caches_of[row[0]]) & (score < to_beat), score <= most_close)
    return None if best is None else (pair_estimate(search, best), best)


def pool_that_grew(expected: PoolPairs, pair: SimulatedPair) -> int:
    """Index of the pool that costs most more than formulas expected: of prefill, 0, or of decode, 1."""
    pools = ((expected.reads, pair.reads.options), (expected.writes, pair.writes.options))
    growth = [at(found.daily_usd_per_hour - by_formulas.daily_usd_per_hour, 0) for by_formulas, found in pools]
    return int(growth[1] > growth[0])


def next_row(question: Question, workload: InferenceWorkload, pairs: PoolPairs, open_pairs: Mask) -> Codes | None:
    """The best open pair whose transfer carries the load; closes the pairs before it."""
    while open_pairs.any():
        row = np.array([int(np.argmax(open_pairs))])
        if transfer_carries_load(workload, pair_transfer(workload, pairs.take(row), question)):
            return row
        open_pairs[row] = False
    return None


def transfer_carries_load(workload: InferenceWorkload, transfer: Transfer) -> bool:
    """Whether the transfer carries all KV caches at peak load, at the target utilization."""
    return transfer.requests_per_s_capacity * workload.target_utilization >= workload.peak_per_s


def simulate_pair(search: Search[InferenceWorkload], pair: PoolPairs) -> tuple[SimulatedPair | None, int]:
    """Simulated pair, sized by the simulation; or None and the index of the pool that cannot serve."""
    transfer = pair_transfer(search.workload, pair, search.question)
    most = np.array(
        [float(max_concurrent_prompts(deployment_of_plan(pair.reads.plans, search.catalog), search.catalog))]
    )
    reads = replace(pair.reads, settings=replace(pair.reads.settings, max_sequences=most))
    later = search.question.assumptions.split_first_token_factor
    prompts = prefill_workload(search.workload, decode_reserve_s(search.workload) + transfer.seconds, later)
    first = simulate_pool(search.of(prompts), reads)
    if first is None:
        return None, 0
    before_s = later * first.first_token_s(search.workload.slo.percentile) + transfer.seconds
    second = simulate_pool(search.of(decode_workload(search.workload, before_s)), pair.writes, DECODE_DEPLOYMENT)
    if second is None:
        return None, 1
    both = PoolPairs(first.options, second.options, pair.plan_rows)
    sized_transfer = pair_transfer(search.workload, both, search.question)
    if (
        not both.within_constraints(search)[0]
        or sized_transfer.link != transfer.link
        or not transfer_carries_load(search.workload, sized_transfer)
    ):
        return None, 1
    score = objective_score(
        search.question.objective, both.ranking_measures(search.question, search.workload, sized_transfer.seconds)
    )
    return SimulatedPair(first, second, sized_transfer, at(score, 0)), 1


def pair_estimate(search: Search[InferenceWorkload], pair: SimulatedPair) -> Estimate:
    """Combined estimate of a simulated pair."""
    reads = with_client_ttft(pair.reads.build_estimate(search), search.question.assumptions.split_first_token_factor)
    both = PoolEstimates(reads, pair.writes.build_estimate(search, DECODE_DEPLOYMENT))
    return combine_estimates(
        search.workload, Deployment(both.decode.deployment.accelerator), both, pair.transfer, None, search.catalog
    )


def pair_transfer(workload: InferenceWorkload, pair: PoolPairs, question: Question) -> Transfer:
    """KV cache transfer between the two pools of a pair."""
    replicas = at(pair.reads.fleet.replicas, 0), at(pair.writes.fleet.replicas, 0)
    total = at(pair.reads.fleet.accelerators + pair.writes.fleet.accelerators, 0)
    return estimate_transfer(workload, pair.reads.plans, pair.writes.plans, replicas, total, question.assumptions)


def deployment_of_plan(plan: Plans, catalog: Catalog) -> Deployment:
    """Deployment with the accelerator and engine of a plan."""
    code, engine = int(plan.accelerator[0]), int(plan.engine[0])
    return Deployment(catalog.accelerators[code].slug, engine=catalog.engines[engine])


def simulate_pool(
    search: Search[InferenceWorkload], options: Options, asked: Deployment | None = None
) -> SimulatedPool | None:
    """Simulated pool of one plan with the replicas that it needs; None where no number can serve."""
    runs = simulate_replicas(search, options.plans, options.settings, asked, extent=Extent.PLANNED)
    if runs is None or not has_capacity(*runs.capacity_at_confidence(search.workload)).all():
        return None
    return SimulatedPool(search.workload, size_fleet(search.question, search.workload, options, runs), runs)


def machine_locations(plans: Plans, catalog: Catalog) -> Codes:
    """Location of each plan's machines: a code of provider and region, or -1 for the buyer's own site."""
    table, sold = catalog.listings, plans.offered.listing
    rented = table.provider[sold] * len(catalog.regions) + table.region[sold]
    return np.where(table.offer[sold] < 0, -1, rented)


def pairing_keys(plans: Plans, catalog: Catalog) -> Codes:
    """Key that is equal for plans that can form a pair: the same engine, KV cache format and location.

    The location must be the same because network bandwidth between locations is not modeled.
    """
    keys: Codes = (machine_locations(plans, catalog) * len(catalog.engines) + plans.engine) * len(KV_NAMES) + plans.kv
    return keys


def leading_plans(options: Options, catalog: Catalog, needed: Column | float = 0.0) -> Options:
    """The best plans by each ranking measure, per accelerator type, engine, KV cache format and location.

    Parameters:
        needed: accelerators per request, which decide between equals. Of prefill pools on equally many machines, the
            one that needs the fewest accelerators comes first, since a simulation may need more.
    """
    plans, work = options.plans, options.fleet.replicas * options.capacity_per_s
    kinds = (plans.accelerator * (plans.engine.max() + 1) + plans.engine) * 16 + plans.kv
    _, kinds = np.unique(np.stack([kinds, machine_locations(plans, catalog)]), axis=1, return_inverse=True)
    measures: tuple[Column, ...] = (
        options.daily_usd_per_hour,
        options.daily.power_w,
        options.e2e_p50_s,
        options.fleet.accelerators / np.maximum(work, LEAST_PER_S),
    )
    leading_rows = set[int]()
    for measure in measures:
        order = np.lexsort((needed + np.zeros_like(measure), measure, kinds))
        leading_rows.update(order[np.unique(kinds[order], return_index=True)[1]].tolist())
    return options.take(np.array(sorted(leading_rows), np.int64))
