"""Finds the best split of a service: sizes plans of each pool with the service search, then pairs compatible plans.

The cost of a pair is the sum of its pools, so the best plans of each pool suffice to find the best pair. A pair is
simulated only where formulas rank it above the best single-pool plan. It is reported only if the simulation confirms
that.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from app.sizing.answer.serving import judge_deployments
from app.sizing.columns import Codes, Column, Mask, at
from app.sizing.decisions.cost import Cost, within_limits
from app.sizing.decisions.ranking import Measures, score_of
from app.sizing.decisions.rejections import NullRejections
from app.sizing.formula import unrecorded
from app.sizing.pools.estimate import MIXED, SPLITTING, most_prompts
from app.sizing.pools.joined import Both, combine_estimates
from app.sizing.pools.parts import decode_of, handed_over, handed_over_s, prefill_of, reserve_s, shown_at
from app.sizing.pools.reading import readers
from app.sizing.pools.transfer import transfer_of
from app.sizing.question import Deployment, Question
from app.sizing.result import Estimate
from app.sizing.serving.curves import waits_at
from app.sizing.serving.finalists import SimulatedReplicas, simulate_replicas, has_capacity, load_per_replica, size_fleet
from app.sizing.serving.layouts import context_splits
from app.sizing.serving.options import Options
from app.sizing.serving.plans import Plans
from app.sizing.serving.search import search_plans
from app.sizing.snapshot import Catalog
from app.sizing.units import LEAST_PER_S
from app.sizing.values.pools import Transfer
from app.sizing.workload import InferenceWorkload, Load

DECODES = Deployment("", scheduler=MIXED)
# Bounds of the search, not of hardware. On the catalog, six services with 8B and 70B models were tested. One simulated
# pair instead of two cost 6 % more in one of them. Four pairs, pairs up to 1.3 times the best score, or ten types found
# nothing better.
TRIES = 2  # maximum number of simulated pairs: others follow if a pair cannot serve or another has a close score
CLOSE = 1.1  # maximum ratio to the best score for simulating a pair of other accelerator types
MOST_TYPES = 5  # accelerator types considered for pools: the best ones of single-pool serving


@dataclass(frozen=True, slots=True)
class Pairs:
    """Pairs of a prefill plan and a decode plan, one per row."""

    reads: Options  # prefill pools
    writes: Options  # decode pools
    of_plan: tuple[Codes, Codes]  # row of each pool among the leading plans

    def take(self, rows: Codes) -> Pairs:
        """Some of the pairs, in the given order."""
        reads, writes = self.of_plan
        return Pairs(self.reads.take(rows), self.writes.take(rows), (reads[rows], writes[rows]))

    def measures(self, question: Question, workload: InferenceWorkload, transfer_s: float = 0.0) -> Measures:
        """Figures that rank pairs."""
        reads, writes = self.reads, self.writes
        capacity = np.minimum(*(pool.fleet.replicas * pool.capacity_per_s for pool in (reads, writes)))
        served = np.minimum(workload.average_per_s, capacity) * max(1.0, workload.tokens_per_request)
        read_s = handed_over_s(reads.e2e_p50_s, question.assumptions.split_first_token_factor)
        return Measures(
            reads.daily_usd_per_hour + writes.daily_usd_per_hour,
            read_s + transfer_s + writes.e2e_p50_s,
            capacity / (reads.fleet.accelerators + writes.fleet.accelerators),
            (reads.cost.power_w + writes.cost.power_w) / np.maximum(served, LEAST_PER_S),
        )

    def within_constraints(self, question: Question, market: Catalog) -> Mask:
        """Mask of pairs within the limits on accelerators, cost and power."""
        reads, writes = self.reads, self.writes
        names = ("usd_per_hour", "purchase_usd", "power_w", "rated_w", "tco_usd")
        cost = Cost(*(getattr(reads.cost, name) + getattr(writes.cost, name) for name in names))
        total = reads.fleet.accelerators + writes.fleet.accelerators
        return within_limits(writes.accelerator, total, cost, question.constraints, NullRejections(market.accelerators))


@dataclass(frozen=True, slots=True)
class PoolAsRun:
    """One simulated pool, sized by its simulation; the workload is the pool's part."""

    workload: InferenceWorkload  # the pool's part of the workload
    options: Options  # one row, sized by the simulation
    simulated: SimulatedReplicas  # simulation of the pool

    def first_token_s(self, percentile: float) -> float:
        """TTFT at the percentile of the limits, in seconds; 0 where the queue grows without bound."""
        with unrecorded():
            waits = waits_at(self.simulated.curves, load_per_replica(self.workload, self.options.fleet.replicas))
        wait_s = at(waits[f"ttft_{shown_at(percentile)}_s"], 0)
        return wait_s if np.isfinite(wait_s) else 0.0

    def estimated(self, question: Question, market: Catalog, asked: Deployment | None = None) -> Estimate:
        """Estimate of the pool for an answer; `asked` is the deployment that the request fixes."""
        plans, settings = self.options.plans, self.options.settings
        (estimate,) = judge_deployments(question, self.workload, plans, market, settings, asked, runs=self.simulated)
        scheduler = estimate.deployment.scheduler
        if asked is not None and scheduler is not None:
            scheduler = scheduler.with_settings(asked.scheduler)
        return replace(estimate, deployment=replace(estimate.deployment, scheduler=scheduler))


@dataclass(frozen=True, slots=True)
class PairAsRun:
    """Two simulated pools, the transfer between them, and the score that ranks them."""

    reads: PoolAsRun  # prefill pool
    writes: PoolAsRun  # decode pool
    way: Transfer  # KV cache transfer between the pools
    score: float  # ranking score; lower is better


def may_split(question: Question, workload: InferenceWorkload) -> bool:
    """Whether to search for a split.

    The workload must be open-loop token generation with attention and more than one output token. Companions,
    traffic classes and a fixed KV cache format exclude a split.
    """
    streams = workload.load is Load.OPEN and not workload.single_pass and bool(workload.model.attention)
    streams = streams and not question.companions and not workload.classes
    return streams and workload.output_tokens.mean > 1 and not question.constraints.kv_formats


def splitting(plans: Plans, market: Catalog, types: Codes) -> Plans:
    """Plans of these types on engines with disaggregated serving and on machines with a known network bandwidth.

    Plans with weights in host memory are left out. An empty `types` allows all types. An unknown bandwidth for the
    KV cache transfer is not guessed.
    """
    engines = [code for code, name in enumerate(market.engines) if name in SPLITTING]
    rows = np.isin(plans.engine, engines) & ~plans.offloads_weights & np.isfinite(plans.node.network_bytes_per_s)
    if len(types):
        rows &= np.isin(plans.accelerator, types)
    return plans.take(rows)


def ranked_pairs(
    question: Question, workload: InferenceWorkload, plans: Plans, market: Catalog, types: Codes
) -> Pairs | None:
    """Pairs of pools, best first by formulas; None where no two pools can serve."""
    able = splitting(plans, market, types[:MOST_TYPES])
    if not len(able):
        return None
    whole = able.take(able.context_parallel == 1)
    split = able if context_splits(workload.model).latent else whole  # only MLA latents may be transferred split
    prompts = prefill_of(workload, reserve_s(workload), question.assumptions.split_first_token_factor)
    reads = readers(question, prompts, whole, market, NullRejections(market.accelerators))
    writes = search_plans(question, decode_of(workload, 0.0), split, market, NullRejections(market.accelerators))
    if not len(reads) or not len(writes):
        return None
    reads, writes = leading(reads, market), leading(writes, market)
    first, second = np.nonzero(joinable(reads.plans, writes.plans, market))
    if not len(first):
        return None
    pairs = Pairs(reads.take(first), writes.take(second), (first, second))
    score = np.where(
        pairs.within_constraints(question, market), score_of(question.objective, pairs.measures(question, workload)), np.inf
    )
    order = np.argsort(score, kind="stable")
    return pairs.take(order[np.isfinite(score[order])])


def better_split(
    question: Question,
    workload: InferenceWorkload,
    plans: Plans,
    market: Catalog,
    types: Codes,
    *,
    ranked_at: float = np.inf,
    expected_score: float = np.inf,
) -> tuple[Estimate, PairAsRun] | None:
    """Best split that beats the best single-pool plan by more than a near tie: its estimate and its simulation.

    Parameters:
        types: accelerator types of the pools; any type if empty.
        simulated_score: simulated score of the best single-pool plan.
        expected_score: score of that plan by formulas.
    """
    pairs = ranked_pairs(question, workload, plans, market, types) if may_split(question, workload) else None
    if pairs is None:
        return None
    score = score_of(question.objective, pairs.measures(question, workload))
    open_pairs = score < expected_score  # compares formulas with formulas: a simulation shifts both in the same way
    types_of = pairs.reads.accelerator * (int(plans.accelerator.max()) + 1) + pairs.writes.accelerator
    best, to_beat = None, ranked_at * (1 - question.assumptions.near_tie_share)  # of near ties one pool is simpler
    for _ in range(TRIES):
        row = next_row(question, workload, pairs, open_pairs)
        if row is None:
            break
        simulated, fails = as_run_together(question, workload, pairs.take(row), market)
        if simulated is None:
            failed_rows = pairs.of_plan[fails]
            open_pairs &= failed_rows != failed_rows[row[0]]
            continue
        if simulated.score < to_beat:
            best, to_beat = simulated, simulated.score
        open_pairs &= (types_of != types_of[row[0]]) & (score <= CLOSE * score[row[0]])
    return None if best is None else (pair_estimate(question, workload, best, market), best)


def next_row(question: Question, workload: InferenceWorkload, pairs: Pairs, open_pairs: Mask) -> Codes | None:
    """The best open pair whose transfer carries the load; closes the pairs before it."""
    while open_pairs.any():
        row = np.array([int(np.argmax(open_pairs))])
        if is_carried(workload, way_between(workload, pairs.take(row), question)):
            return row
        open_pairs[row] = False
    return None


def is_carried(workload: InferenceWorkload, way: Transfer) -> bool:
    """Whether the transfer carries all KV caches at peak load, at the target utilization."""
    return way.requests_per_s_capacity * workload.target_utilization >= workload.peak_per_s


def as_run_together(
    question: Question, workload: InferenceWorkload, pair: Pairs, market: Catalog
) -> tuple[PairAsRun | None, int]:
    """Simulated pair, sized by the simulation; or None and the index of the pool that cannot serve."""
    transfer = way_between(workload, pair, question)
    most = np.array([float(most_prompts(named(pair.reads.plans, market), market))])
    reads = replace(pair.reads, settings=replace(pair.reads.settings, max_sequences=most))
    later = question.assumptions.split_first_token_factor
    prompts = prefill_of(workload, reserve_s(workload) + transfer.seconds, later)
    first = as_simulated(question, prompts, reads, market)
    if first is None:
        return None, 0
    before_s = later * first.first_token_s(workload.slo.percentile) + transfer.seconds
    second = as_simulated(question, decode_of(workload, before_s), pair.writes, market, DECODES)
    if second is None:
        return None, 1
    both = Pairs(first.options, second.options, pair.of_plan)
    way = way_between(workload, both, question)
    if not both.within_constraints(question, market)[0] or way.link != transfer.link or not is_carried(workload, way):
        return None, 1
    score = score_of(question.objective, both.measures(question, workload, way.seconds))
    return PairAsRun(first, second, way, at(score, 0)), 1


def pair_estimate(question: Question, workload: InferenceWorkload, pair: PairAsRun, market: Catalog) -> Estimate:
    """Combined estimate of a simulated pair."""
    reads = handed_over(pair.reads.estimated(question, market), question.assumptions.split_first_token_factor)
    both = Both(reads, pair.writes.estimated(question, market, DECODES))
    return combine_estimates(workload, Deployment(both.decode.deployment.accelerator), both, pair.way, None)


def way_between(workload: InferenceWorkload, pair: Pairs, question: Question) -> Transfer:
    """KV cache transfer between the two pools of a pair."""
    replicas = at(pair.reads.fleet.replicas, 0), at(pair.writes.fleet.replicas, 0)
    total = at(pair.reads.fleet.accelerators + pair.writes.fleet.accelerators, 0)
    return transfer_of(workload, pair.reads.plans, pair.writes.plans, replicas, total, question.assumptions)


def named(plan: Plans, market: Catalog) -> Deployment:
    """Deployment with the accelerator and engine of a plan."""
    code, engine = int(plan.accelerator[0]), int(plan.engine[0])
    return Deployment(market.accelerators[code].slug, engine=market.engines[engine])


def as_simulated(
    question: Question, workload: InferenceWorkload, options: Options, market: Catalog, asked: Deployment | None = None
) -> PoolAsRun | None:
    """Simulated pool of one plan with the replicas that it needs; None where no number can serve."""
    runs = simulate_replicas(question, workload, options.plans, options.settings, market, asked)
    if runs is None or not has_capacity(*runs.capacity_at_confidence(workload)).all():
        return None
    return PoolAsRun(workload, size_fleet(question, workload, options, runs), runs)


def places(plans: Plans, market: Catalog) -> Codes:
    """Location of each plan's machines: a code of provider and region, or -1 for the buyer's own site."""
    table, sold = market.listings, plans.offered.listing
    rented = table.provider[sold] * len(market.regions) + table.region[sold]
    return np.where(table.offer[sold] < 0, -1, rented)


def joinable(reads: Plans, writes: Plans, market: Catalog) -> Mask:
    """Mask of compatible pairs: the same engine, KV cache format and location.

    The location must be the same because network bandwidth between locations is not modeled.
    """
    same_engine_and_cache: Mask = (reads.engine[:, None] == writes.engine) & (reads.kv[:, None] == writes.kv)
    compatible: Mask = same_engine_and_cache & (places(reads, market)[:, None] == places(writes, market))
    return compatible


def leading(options: Options, market: Catalog) -> Options:
    """The best plans by each ranking measure, per accelerator type, engine, KV cache format and location."""
    plans, work = options.plans, options.fleet.replicas * options.capacity_per_s
    kinds = (plans.accelerator * (plans.engine.max() + 1) + plans.engine) * 16 + plans.kv
    _, kinds = np.unique(np.stack([kinds, places(plans, market)]), axis=1, return_inverse=True)
    measures: tuple[Column, ...] = (
        options.daily_usd_per_hour,
        options.cost.power_w,
        options.e2e_p50_s,
        options.fleet.accelerators / np.maximum(work, LEAST_PER_S),
    )
    leading_rows = set[int]()
    for measure in measures:
        order = np.lexsort((measure, kinds))
        leading_rows.update(order[np.unique(kinds[order], return_index=True)[1]].tolist())
    return options.take(np.array(sorted(leading_rows), np.int64))
