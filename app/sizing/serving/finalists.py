"""Finalists of serving: preselected with formulas, sized by simulating their schedulers, and ranked by that result."""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Codes, Column, Mask, concat_tables, with_rows
from app.sizing.decisions.cost import MAX_ACCELERATORS
from app.sizing.decisions.placement import plan_fleet, planned_capacity_per_s, replicas_for_rate
from app.sizing.decisions.ranking import (
    best_per_accelerator,
    familiar_first,
    familiar_per_accelerator,
    objective_score,
)
from app.sizing.decisions.search import Search
from app.sizing.formula import suspend_recording, trace_label
from app.sizing.question import CONFIDENCE_LEVELS, Deployment, Objective, Question
from app.sizing.result import Assurance, FilterStage
from app.sizing.serving.assurance import MarginLevels, estimate_assurance
from app.sizing.serving.capacity import replica_rate_per_s, utilization
from app.sizing.serving.curve_ends import AssuredEnd, Extent, PlannedEnd
from app.sizing.serving.interfaces import LEAST_CAPACITY_PER_S, Memory, Settings, Speed
from app.sizing.serving.kinds import AUTOREGRESSIVE
from app.sizing.serving.load_curves import (
    MAX_POOLED,
    Curve,
    CurveEnd,
    build_replicas,
    capacity_at_confidence_per_s,
    confident_loads_per_s,
    curves_of_replicas,
    expected_capacity_per_s,
    in_flight_within,
    is_simulated,
    loads_within_limits,
    pooled_replicas,
    pools_replicas,
    saturation_rates_per_s,
    simulate_one_load,
    stability_limits,
    waits_at,
    worst_waits_at_lightest,
)
from app.sizing.serving.margins import RATE_CORRELATIONS, Margins
from app.sizing.serving.options import (
    DEGREES_BASE,
    Options,
    PlanEvaluations,
    layout_keys,
    measures,
    stable_key,
    within_constraints,
)
from app.sizing.serving.plans import Plans
from app.sizing.serving.search import (
    confidence_margins,
    reject_plans,
    required_replicas,
    with_replica_count,
)
from app.sizing.serving.simulation import Replica
from app.sizing.workload import InferenceWorkload, Load

MAX_REPLACEMENTS = 24  # maximum number of replacement layouts for failed or far more expensive types
MAX_CHALLENGERS = 96  # maximum number of layouts compared with the simulated layout of their type
CHECKED_TOGETHER = 1  # layouts of one type that are compared at once
MAX_FAILED = 3  # maximum number of challengers of one type that do not win
MIN_SCORE_RATIO = 1.1  # minimum ratio of a type's best simulated score to another layout's score by formulas
# Objectives for which fewer replicas are always better, so that one load decides whether a layout can win.
COUNTED_OBJECTIVES = (Objective.COST, Objective.ENERGY, Objective.CARBON)
TRIED_COUNTS = 12  # replica counts at which the score of a challenger is computed
MIN_REPLICA_SHARE = 0.5  # lowest number of replicas with which a layout may win, as a share of that of the formulas
# Largest expected ratios between simulations and formulas: of the capacity of a layout, of the rate from which its
# queue never empties, and of the requests in flight of closed loops, where formulas miss waves of requests.
MAX_CAPACITY_RATIO, MAX_STABLE_RATIO, MAX_IN_FLIGHT_RATIO = 1.6, 1.2, 1.05
# Waits above a limit by this factor reject a challenger; below, its whole curve decides. Beyond p95, few of the
# simulated requests are that late: the wait of one layout varied by a factor of 1.3 between similar loads.
CHECK_TOLERANCE, TAIL_CHECK_TOLERANCE, TAIL_PERCENTILE = 1.1, 1.4, 95.0


class SimulationQueue:
    """Queue of rows to simulate, best first.

    If the best layout of a type fails, another layout of the type takes its place; layouts with a larger batch are
    preferred.
    """

    def __init__(self, options: Options, score: Column, best: Codes, assumed: Assumptions) -> None:
        self.options, self.score, self.assumed = options, score, assumed
        self.waiting: list[int] = best.tolist()
        self.best_scores: dict[int, float] = {}  # best simulated score by type
        self.best_sizes: dict[int, float] = {}  # accelerators per replica of the row with that score, by type
        self.layouts = layout_keys(options.plans)
        self.untried: Mask = np.ones(len(options), bool)
        self.replacement_budget, self.challenger_budget = MAX_REPLACEMENTS, MAX_CHALLENGERS
        self.failed: Counter[int] = Counter()  # challengers that did not win, by type
        self.failed_degrees: Mask = np.zeros(len(options), bool)  # rows with the degrees and type of one of those
        self.capacity_ratio = 0.0  # largest ratio between the simulated capacity of a row and that of the formulas

    def next_rows(self, types: int) -> Codes:
        """Up to `types` rows from the queue."""
        rows, self.waiting = self.waiting[:types], self.waiting[types:]
        return np.array(rows, np.int64)

    def may_beat(self) -> bool:
        """Whether the next row would beat every simulated row if formulas were exact; uses up the budget."""
        if not self.waiting or not self.best_scores or not self.replacement_budget:
            return False
        would_win = float(self.score[self.waiting[0]]) < min(self.best_scores.values())
        self.replacement_budget -= would_win
        return would_win

    def record_scores(self, rows: Codes, scores: Column) -> None:
        """Record the simulated scores of rows, best first; infinite for failures."""
        for row, score in zip(rows.tolist(), scores.tolist(), strict=True):
            kind = int(self.options.accelerator[row])
            if score < self.best_scores.get(kind, np.inf):
                self.best_scores[kind] = score
                self.best_sizes[kind] = float(self.options.plans.accelerators_per_replica[row])
        self.mark_tried(rows)
        for row in rows.tolist():
            if int(self.options.accelerator[row]) not in self.best_scores:
                self.queue_replacement(row)

    def mark_tried(self, rows: Codes) -> None:
        """Mark all rows with the layouts of these rows as tried."""
        for row in rows.tolist():
            of_type = self.options.accelerator == self.options.accelerator[row]
            self.untried &= ~(of_type & (self.layouts == self.layouts[row]))

    def mark_failed(self, rows: Codes) -> None:
        """Mark the layouts of challengers that do not win as tried."""
        self.mark_tried(rows)
        self.failed.update(self.options.accelerator[rows].tolist())
        degrees = self.layouts % DEGREES_BASE
        for row in rows.tolist():
            of_type = self.options.accelerator == self.options.accelerator[row]
            self.failed_degrees |= of_type & (degrees == degrees[row])

    def queue_replacement(self, row: int) -> None:
        """Queue the untried layout of its type with the best score among those with more accelerators per replica than
        the failed row, which are faster; or else among those with a larger batch, or else among all. An untried near
        tie with more published use goes before it.
        """
        others = np.flatnonzero((self.options.accelerator == self.options.accelerator[row]) & self.untried)
        for values in (self.options.plans.accelerators_per_replica, self.options.slo_batch):
            larger = others[values[others] > values[row]]
            if len(larger):
                break
        if len(larger) or (len(others) and self.replacement_budget > 0):
            among, score = larger if len(larger) else others, self.score
            order = np.concatenate([among[[np.argmin(score[among])]], others[np.argsort(score[others], kind="stable")]])
            use, unknown_usd = self.options.plans.published_use.take(order), np.full(len(order), np.nan)
            familiar = order[familiar_first(score[order], unknown_usd, use, self.assumed)[0]]
            insort(self.waiting, int(familiar), key=score.__getitem__)
            self.replacement_budget -= not len(larger)

    def challengers(self, min_ratio: float = MIN_SCORE_RATIO) -> Codes:
        """Untried layouts that would beat the simulated one of their type by `min_ratio` if formulas were exact, one
        row each, the most likely first.
        """
        to_beat = self.scores_to_beat(np.arange(len(self.options)))
        (left,) = np.nonzero(self.untried & (self.score * min_ratio < to_beat))
        order: Codes = left[np.argsort(self.score[left], kind="stable")]
        layouts = np.stack([self.options.accelerator[order], self.layouts[order]])
        _, first = np.unique(layouts, axis=1, return_index=True)
        return order[np.sort(first)]

    def pick_challengers(self, rows: Codes, per_type: int) -> Codes:
        """The first `per_type` rows of each type, as far as the budget reaches."""
        _, kinds, counts = np.unique(self.options.accelerator[rows], return_inverse=True, return_counts=True)
        by_kind = np.argsort(kinds, kind="stable")
        position = np.empty(len(rows), np.int64)
        position[by_kind] = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        picked: Codes = rows[position < per_type][: self.challenger_budget]
        self.challenger_budget -= len(picked)
        return picked

    def scores_to_beat(self, rows: Codes) -> Column:
        """Best simulated score of the type of each row; 0 for types without one or with too many failed challengers."""
        scores = np.zeros(int(self.options.accelerator.max(initial=-1)) + 1)
        for kind, score in self.best_scores.items():
            scores[kind] = score if self.failed[kind] < MAX_FAILED else 0.0
        to_beat: Column = scores[self.options.accelerator[rows]]
        return to_beat

    def preference(self, rows: Codes) -> Column:
        """Preference for each row as the next challenger of its type. After every other failure, replicas larger than
        that of the best row come first, then others with degrees that have not failed: formulas may miss a latency in
        the same way for all replicas of one size, and for all engines and formats.
        """
        kinds, sizes = self.options.accelerator[rows].tolist(), self.options.plans.accelerators_per_replica[rows]
        failed = np.array([self.failed[kind] % 2 for kind in kinds], bool)
        larger = sizes > np.array([self.best_sizes.get(kind, 0.0) for kind in kinds])
        order: Column = np.where(failed, np.where(larger, 2.0, ~self.failed_degrees[rows]), 0.0)
        return order

    @property
    def feasible_types(self) -> set[int]:
        """Types that passed a simulation or are still queued."""
        return {*self.best_scores, *self.options.accelerator[self.waiting].tolist()}


MIN_SIMULATED_TYPES = 3  # minimum number of accelerator types whose best plan is simulated, even if fewer are shown
MISSED_LIMIT_TEXT = (
    "{name} misses a latency limit on {on}, even at the lightest load: {needed} ms at the requested percentile. "
    "The limit is {available} ms."
)


@dataclass(frozen=True, slots=True)
class SimulatedReplicas:
    """Simulated replicas of plans, one load curve per row."""

    curves: tuple[Curve, ...]  # load curve of each replica
    sequences: Column  # sequences that run concurrently
    margins: Margins  # margins of the requested confidence
    pooled: Codes  # replicas that were simulated behind one router
    replicas: tuple[Replica, ...] = ()  # simulated replicas

    def capacity_at_confidence(self, workload: InferenceWorkload) -> tuple[Column, Column]:
        """Requests per second, and requests in flight, of a replica within the limits at the requested confidence."""
        if workload.load is Load.CLOSED:
            rate, held = self.in_flight_capacity(workload, self.margins)
            return rate / self.margins.rate, held
        within = confident_loads_per_s(self.curves, workload.slo, self.margins)
        return capacity_at_confidence_per_s(within, stability_limits(self.curves), self.margins.rate), self.sequences

    def planned_capacity(self, workload: InferenceWorkload) -> tuple[Column, Column]:
        """Requests per second that a replica is planned to carry, and requests in flight within the limits."""
        capacity, held = self.capacity_at_confidence(workload)
        if workload.load is Load.CLOSED:
            return capacity, held
        stable = stability_limits(self.curves)
        return planned_capacity_per_s(capacity, stable, self.margins.rate, workload.target_utilization), held

    def expected_capacity(self, workload: InferenceWorkload) -> tuple[Column, Column]:
        """Requests per second, and requests in flight, of a replica within the limits, as the median prediction."""
        none = Margins.without_margin(len(self.curves))
        if workload.load is Load.CLOSED:
            return self.in_flight_capacity(workload, none)
        within = loads_within_limits(self.curves, workload.slo, none)
        return expected_capacity_per_s(within, stability_limits(self.curves)), self.sequences

    def in_flight_capacity(self, workload: InferenceWorkload, margins: Margins) -> tuple[Column, Column]:
        """Throughput in requests per second and requests in flight within the limits, with the given margins."""
        held = in_flight_within(self.curves, workload.slo, margins, self.sequences)
        return np.where(held >= 1, self.completed_per_s(np.maximum(held, 1.0)), 0.0), held

    def completed_per_s(self, loads: Column) -> Column:
        """Requests per second that the replicas complete at their loads."""
        return np.array([c.answered_rate_per_s(load) for c, load in zip(self.curves, loads.tolist(), strict=True)])

    def replace_rows(self, rows: Codes, others: SimulatedReplicas) -> SimulatedReplicas:
        """These replicas with others in the given rows; sequences and margins stay the same."""
        curves, pooled = list(self.curves), self.pooled.copy()
        for row, curve in zip(rows.tolist(), others.curves, strict=True):
            curves[row] = curve
        pooled[rows] = others.pooled
        return replace(self, curves=tuple(curves), pooled=pooled)

    def simulate(self, workload: InferenceWorkload, count: int, ends: Sequence[CurveEnd | None]) -> SimulatedReplicas:
        """The same replicas with curves of `count` requests per load, simulated up to their ends."""
        running = self.sequences.astype(np.int64)
        curves = curves_of_replicas(workload, self.replicas, running, self.pooled, count, self.margins, ends)
        return replace(self, curves=curves)

    def take(self, rows: Codes, margins: Margins | None = None) -> SimulatedReplicas:
        """Some of the rows, with their own margins or with the given ones."""
        curves = tuple(self.curves[row] for row in rows.tolist()) if self.curves else ()
        margins = self.margins.take(rows) if margins is None else margins
        replicas = tuple(self.replicas[row] for row in rows.tolist()) if self.replicas else ()
        return SimulatedReplicas(curves, self.sequences[rows], margins, self.pooled[rows], replicas)

    def with_whole_curves(
        self, question: Question, workload: InferenceWorkload, rows: int | None = None
    ) -> SimulatedReplicas:
        """The same replicas; curves of the first `rows` (default: of all) reach up to the heaviest load."""
        return self._extend_curves(question, workload, dict.fromkeys(range(len(self.curves))[:rows]))

    def with_assured_curves(
        self, question: Question, workload: InferenceWorkload, by: MarginLevels
    ) -> SimulatedReplicas:
        """The same replicas; curves reach up to the loads that decide the capacity at every confidence level."""
        ends = {
            row: AssuredEnd(len(curve.loads), workload.slo, by.margins.take(by.rows_of_levels(row)))
            for row, curve in enumerate(self.curves)
            if not curve.is_whole
        }
        return self._extend_curves(question, workload, ends)

    def _extend_curves(
        self, question: Question, workload: InferenceWorkload, ends: Mapping[int, CurveEnd | None]
    ) -> SimulatedReplicas:
        """The same replicas; curves of some rows reach up to their ends."""
        rows = np.array([*ends], np.int64)
        own, count = self.take(rows), int(question.assumptions.simulated_requests)
        with suspend_recording():
            return self.replace_rows(rows, own.simulate(workload, count, [*ends.values()]))


def simulate_replicas(
    search: Search[InferenceWorkload],
    plans: Plans,
    settings: Settings,
    asked: Deployment | None = None,
    *,
    most_requests: int | None = None,
    extent: Extent = Extent.WHOLE,
) -> SimulatedReplicas | None:
    """Simulate plans with complete settings; None for workloads that are not simulated.

    No more replicas share a queue than the simulation then finds necessary.

    Parameters:
        asked: the deployment that the request fixes.
        most_requests: cap on the simulated requests per load.
        extent: how far load curves reach; those of pools that do not fit reach no further than this is known.
    """
    if not is_simulated(search.workload):
        return None
    workload, assumed = search.workload, search.question.assumptions
    count = min(int(assumed.simulated_requests), most_requests or int(assumed.simulated_requests))
    with suspend_recording():
        memory = AUTOREGRESSIVE.estimate_memory(workload, plans, assumed, settings)
        replicas = build_replicas(workload, plans, memory, assumed, asked)
        margins, sequences = confidence_margins(search, plans), memory.sequences * plans.data_parallel
        fixed = asked is not None and (asked.replicas is not None or asked.fixes_hardware)
        sized = np.ones(len(plans)) if settings.replicas is None else settings.replicas
        if not fixed and pools_replicas(workload):
            stable = saturation_rates_per_s(workload, replicas, count)
            sized = np.maximum(sized, least_replicas(workload, stable, margins))
        pooled = pooled_replicas(workload, sized)

        runs = SimulatedReplicas((), sequences, margins, pooled, tuple(replicas))
        if not fixed and pools_replicas(workload):
            runs = replace(runs, pooled=fitting_pools(search, plans, runs, count))
        return runs.simulate(workload, count, curve_ends(workload, margins, extent))


def curve_ends(workload: InferenceWorkload, margins: Margins, extent: Extent) -> list[CurveEnd | None]:
    """Where the curves of replicas with these margins may end; None for whole curves."""
    if extent is Extent.WHOLE:
        return [None] * len(margins)
    peak_per_s = None if extent is Extent.PLANNED else workload.peak_per_s
    most_replicas = MAX_POOLED if extent is Extent.POOL else np.inf
    rows = (margins.take(row) for row in np.arange(len(margins))[:, None])
    return [PlannedEnd(1, workload.slo, row, workload.target_utilization, peak_per_s, most_replicas) for row in rows]


def fitting_pools(search: Search[InferenceWorkload], plans: Plans, runs: SimulatedReplicas, count: int) -> Codes:
    """Replicas behind one router of plans whose pool is the fleet that carries the load, as far as the size of a pool
    matters.

    More replicas share their load better, so the fewest that are enough are found by bisection. Simulations vary: a
    pool that turns out too small is extended to what it needs.

    Parameters:
        runs: the plans to simulate, with the pools with which the search begins.
        count: simulated requests per load.
    """

    def needed_in(rows: Codes, pools: Codes) -> Codes:
        found, workload = replace(runs.take(rows), pooled=pools), search.workload
        found = found.simulate(workload, count, curve_ends(workload, found.margins, Extent.POOL))
        replicas = needed_replicas(search.question, search.workload, plans.take(rows), found)
        return np.minimum(replicas, MAX_POOLED).astype(np.int64)

    pooled = runs.pooled
    needed = needed_in(np.arange(len(plans)), pooled)
    enough = needed <= pooled
    least, most, pooled = np.where(enough, needed, pooled + 1), np.where(enough, pooled, needed), pooled.copy()
    while len(rows := np.flatnonzero((least < most) | (pooled != most))):
        middle = (least[rows] + most[rows]) // 2
        needed = needed_in(rows, middle)
        enough, last = needed <= middle, middle == most[rows]
        pooled[rows[enough]] = middle[enough]
        most[rows] = np.where(enough, middle, np.where(last, needed, np.minimum(most[rows], needed)))
        least[rows] = np.minimum(np.maximum(least[rows], np.where(enough, needed, middle + 1)), most[rows])
    return pooled


def least_replicas(workload: InferenceWorkload, stable_per_s: Column, margins: Margins) -> Column:
    """Replicas without which the planned share of the rate at which the queues never empty is exceeded, however many
    share a queue.
    """
    no_limit = np.full(len(stable_per_s), np.inf)
    planned = planned_capacity_per_s(no_limit, stable_per_s, margins.rate, workload.target_utilization)
    return replicas_for_rate(workload.peak_per_s, planned)


def needed_replicas(question: Question, workload: InferenceWorkload, plans: Plans, runs: SimulatedReplicas) -> Column:
    """Replicas of simulated plans that carry the load.

    Where no number of replicas is enough at the requested confidence, the median prediction decides, then the
    capacity without latency limits.
    """
    capacity, held = runs.planned_capacity(workload)
    able = has_capacity(capacity, held)
    if able.all():
        return required_replicas(question, workload, plans, capacity, held, Settings())
    likely, likely_held = runs.expected_capacity(workload)
    at_all = has_capacity(likely, likely_held)
    stable = workload.target_utilization * stability_limits(runs.curves)
    capacity = np.where(able, capacity, np.where(at_all, np.minimum(likely, stable), stable))
    held = np.where(able, held, np.where(at_all, likely_held, runs.sequences))
    return required_replicas(question, workload, plans, capacity, held, Settings())


def has_capacity(capacity_per_s: Column, held: Column) -> Mask:
    """Mask of replicas that complete any work within the limits."""
    able: Mask = (capacity_per_s > LEAST_CAPACITY_PER_S) & (held >= 1)
    return able


def load_per_replica(workload: InferenceWorkload, replicas: Column) -> Column:
    """Load of each replica: requests per second, or requests in flight."""
    if workload.load is Load.OPEN:
        return workload.peak_per_s / replicas
    return np.ceil(workload.in_flight / replicas)


def size_fleet(question: Question, workload: InferenceWorkload, options: Options, runs: SimulatedReplicas) -> Options:
    """Options with the replicas, machines and cost that the simulation implies, and simulated figures with margins."""
    capacity, held = runs.planned_capacity(workload)
    replicas = required_replicas(question, workload, options.plans, capacity, held, Settings())
    replicas = np.maximum(replicas, runs.pooled)
    stable = stability_limits(runs.curves) / runs.margins.rate
    sized = replace(options, capacity_per_s=capacity, stable_per_s=stable, slo_batch=held)
    again = with_replica_count(question, workload, sized, replicas)
    loads, margins = load_per_replica(workload, replicas), runs.margins
    with suspend_recording():
        waits = waits_at(runs.curves, loads)
    latency = margins.request_s(waits["ttft_p50_s"], waits["e2e_p50_s"])
    return replace(again, rate_per_s=runs.completed_per_s(loads) / margins.rate, e2e_p50_s=latency)


@dataclass(frozen=True, slots=True)
class Finalists:
    """Best options of a search, best first.

    `options` are all options of the search, with the finalists' rows as sized by the simulation.
    """

    options: Options  # all options of the search
    rows: Codes  # rows of the finalists in `options`
    scores: Column  # scores of the finalists; lower is better
    runs: SimulatedReplicas | None  # simulation of the finalists; None if they are not simulated
    passed: int | None = None  # row with a better score that the first finalist passes for its published use
    failed: Mask | None = None  # options whose engine misses the limits on their type in simulations; None: none

    def all_scores(self, question: Question, workload: InferenceWorkload) -> Column:
        """Score of every option of the search; infinite where simulations of its engine miss the limits."""
        scores = objective_score(question.objective, measures(workload, self.options))
        return scores if self.failed is None else np.where(self.failed, np.inf, scores)

    def keep_best(self, count: int) -> Finalists:
        """The first `count` finalists."""
        kept = np.arange(min(count, len(self.rows)))
        return self.take(kept, self.scores[kept])

    def with_whole_curves(self, question: Question, workload: InferenceWorkload, rows: int | None = None) -> Finalists:
        """The same finalists, the first `rows` of which (default: all) are simulated up to the heaviest load."""
        return self if self.runs is None else replace(self, runs=self.runs.with_whole_curves(question, workload, rows))

    def take(self, kept: Codes, scores: Column) -> Finalists:
        """Some of the finalists, in another order and with other scores."""
        runs = None if self.runs is None else self.runs.take(kept)
        return replace(self, rows=self.rows[kept], scores=scores, runs=runs)

    @property
    def chosen_options(self) -> Options:
        """Options of the finalists only."""
        return self.options.take(self.rows)


def ranked_rows(question: Question, workload: InferenceWorkload, options: Options) -> tuple[Codes, Column]:
    """The best option of each accelerator type, best type first, and the score of every option.

    Of near ties, the engine with more published use is taken, and the type with more published use comes first;
    except where the objective is carbon.
    """
    ranking, use = measures(workload, options), options.plans.published_use
    score, assumed = objective_score(question.objective, ranking), question.assumptions
    tie = stable_key(options)
    best = best_per_accelerator(options.accelerator, question.objective, ranking, tie)
    if question.objective is Objective.CARBON:
        return best, score
    best = familiar_per_accelerator(options.accelerator, best, score, ranking, use, assumed, tie=tie)
    best = best[np.argsort(score[best], kind="stable")]
    return best[familiar_first(score[best], ranking.usd[best], use.take(best), assumed)], score


def passed_row(rows: Codes, scores: Column) -> int | None:
    """The second row if its score is better than that of the first; None otherwise."""
    return int(rows[1]) if len(rows) > 1 and scores[1] < scores[0] else None


def select_finalists(
    search: Search[InferenceWorkload],
    options: Options,
    requested: Deployment | None = None,
) -> tuple[Finalists, int]:
    """Best option of each accelerator type, up to the requested number, and how many types can serve.

    Load curves end where heavier loads cannot change what a replica is planned to carry.

    Parameters:
        requested: deployment that the request fixes.
    """
    best, score = ranked_rows(search.question, search.workload, options)
    if not is_simulated(search.workload):
        shown = best[: search.question.limit]
        return Finalists(options, shown, score[shown], None, passed_row(best, score[best])), len(best)
    queue = SimulationQueue(options, score, best[np.argsort(score[best], kind="stable")], search.question.assumptions)
    results = SimulationResults(search, options, requested)
    wanted = max(search.question.limit, MIN_SIMULATED_TYPES)
    while len(rows := queue.next_rows(max(wanted - len(queue.best_scores), int(queue.may_beat())))):
        queue.record_scores(rows, results.simulate(rows))
    # With a fixed number of requests in flight, formulas miss waves of requests: only a simulation at the one load that
    # decides can show that another layout is better.
    if is_decided_by_load(search):
        simulate_checked_challengers(search, queue, results, requested)
    elif search.workload.load is Load.OPEN:
        while len(rows := queue.pick_challengers(queue.challengers(), 1)):
            queue.record_scores(rows, results.simulate(rows))
    search.rejections.withdraw(queue.feasible_types)
    return results.merge().keep_best(search.question.limit), len(queue.feasible_types)


def simulate_checked_challengers(
    search: Search[InferenceWorkload], queue: SimulationQueue, results: SimulationResults, requested: Deployment | None
) -> None:
    """Simulate the layouts that carry the load with so few replicas that they beat the simulated one of their type."""
    while True:
        queue.capacity_ratio = results.max_capacity_ratio()
        rows, replicas = next_challengers(search, queue)
        if not len(rows):
            return
        slack = simulated_slack(search, queue.options.take(rows), replicas, requested)
        able = passes_check(search, slack)
        queue.mark_failed(rows[~able])
        rows = rows[able][np.argsort(-slack[able], kind="stable")]
        _, first = np.unique(queue.options.accelerator[rows], return_index=True)
        rows = rows[first]
        to_beat, scores = queue.scores_to_beat(rows), results.simulate(rows)
        queue.record_scores(rows, scores)
        queue.mark_failed(rows[scores >= to_beat])


def next_challengers(search: Search[InferenceWorkload], queue: SimulationQueue) -> tuple[Codes, Column]:
    """A few layouts of each type that may win, and the most replicas with which they would.

    A layout far better by formulas has to beat the simulated layout of its type, others have to beat all types.
    Formulas must find that it may carry the load, as far as simulations of other layouts differ from theirs. Layouts
    that need the smallest share of their capacity come first, except after every other failure.
    """
    rows = queue.challengers(MIN_REPLICA_SHARE)
    if not len(rows):
        return rows, np.zeros(0)
    options, of_type = queue.options.take(rows), queue.scores_to_beat(rows)
    is_far_better = queue.score[rows] * MIN_SCORE_RATIO < of_type
    to_beat = np.where(is_far_better, of_type, min(queue.best_scores.values()))
    replicas = most_winning_replicas(search, options, to_beat)
    used = used_capacity_share(search.workload, options, replicas, max(MAX_CAPACITY_RATIO, queue.capacity_ratio))
    order = np.lexsort((used, -queue.preference(rows)))
    order = order[used[order] <= 1]
    picked = queue.pick_challengers(rows[order], CHECKED_TOGETHER)
    sorter = np.argsort(rows)
    return picked, replicas[sorter[np.searchsorted(rows, picked, sorter=sorter)]]


def used_capacity_share(
    workload: InferenceWorkload, options: Options, replicas: Column, capacity_ratio: float
) -> Column:
    """Share that the load takes of the largest capacity that a simulation may find; infinite without replicas.

    Parameters:
        capacity_ratio: largest expected ratio between the capacities of simulations and formulas.
    """
    loads = load_per_replica(workload, np.maximum(replicas, 1.0))
    if workload.load is Load.CLOSED:
        most = options.slo_batch * MAX_IN_FLIGHT_RATIO
    else:
        stable = workload.target_utilization * options.stable_per_s
        most = np.minimum(options.capacity_per_s * capacity_ratio, stable * MAX_STABLE_RATIO)
    share: Column = np.where(replicas > 0, loads / most, np.inf)
    return share


class SimulationResults:
    """Sized options and simulations of the rows simulated so far."""

    def __init__(self, search: Search[InferenceWorkload], options: Options, requested: Deployment | None) -> None:
        self.search, self.options, self.requested = search, options, requested
        self.tables: list[Options] = []
        self.simulations: list[SimulatedReplicas] = []
        self.rows: list[Codes] = []
        self.failed: Mask = np.zeros(len(options), bool)

    def simulate(self, rows: Codes) -> Column:
        """Simulate rows and keep those that meet all limits; their scores, infinite for the others."""
        scores = np.full(len(rows), np.inf)
        if not len(rows):
            return scores
        options = self.options.take(rows)
        options = replace(options, settings=self.expected_settings(options))
        only_cost = self.search.question.cost_only and not self.search.workload.hourly_shares
        extent = Extent.COUNT if only_cost and is_decided_by_load(self.search) else Extent.PLANNED
        passes, runs, again = simulate_candidates(self.search, options, self.requested, extent=extent)
        if passes.any():
            within = within_constraints(self.search.question, again, self.search.rejections)
            self.tables.append(again.take(within))
            self.simulations.append(runs.take(np.flatnonzero(within)))
            self.rows.append(rows[passes][within])
            passes[passes] = within
            scores[passes] = objective_score(
                self.search.question.objective, measures(self.search.workload, self.tables[-1])
            )
        self.failed[rows[~passes]] = True
        return scores

    def capacity_ratios(self) -> Column:
        """Ratio between the capacity of each simulated row and that of the formulas."""
        pairs = zip(self.tables, self.rows, strict=True)
        return np.concatenate(
            [np.zeros(0), *(table.capacity_per_s / self.options.capacity_per_s[rows] for table, rows in pairs)]
        )

    def max_capacity_ratio(self) -> float:
        """Largest ratio between the simulated capacity of a row and that of the formulas; 0 without rows."""
        return float(self.capacity_ratios().max(initial=0.0))

    def expected_settings(self, options: Options) -> Settings:
        """Settings of options with the replicas to expect after the simulations so far, so that the first pool that is
        simulated is likely to be the one that the load needs.
        """
        workload, ratios = self.search.workload, self.capacity_ratios()
        if self.requested is not None or not len(ratios) or not pools_replicas(workload):
            return options.settings
        capacity = options.capacity_per_s * min(1.0, float(np.median(ratios)))
        replicas = required_replicas(
            self.search.question, workload, options.plans, capacity, options.slo_batch, Settings()
        )
        return replace(options.settings, replicas=replicas)

    def merge(self) -> Finalists:
        """All options with the simulated rows as sized by their simulation, and the best row of each type."""
        search, plans = self.search, self.options.plans
        merged = merge_results(search.question, search.workload, self.options, self.tables, self.simulations, self.rows)
        stacks = plans.accelerator * len(search.catalog.engines) + plans.engine
        passed = stacks[np.concatenate([np.zeros(0, np.int64), *self.rows])]
        return replace(merged, failed=np.isin(stacks, np.setdiff1d(stacks[self.failed], passed)))


def is_decided_by_load(search: Search[InferenceWorkload]) -> bool:
    """Whether one load decides if a layout is better than another: fewer replicas are always better."""
    workload = search.workload
    steady = is_simulated(workload) and workload.trace is None and workload.requests is None
    counted = COUNTED_OBJECTIVES if workload.load is Load.OPEN else COUNTED_OBJECTIVES[:1]
    return steady and search.question.objective in counted


def simulated_slack(
    search: Search[InferenceWorkload], options: Options, replicas: Column, requested: Deployment | None
) -> Column:
    """Ratio of limit to wait, of the limit that is missed most, of layouts that carry the load with `replicas`.

    One simulation at that load decides. If the ratio fails the check, the layout needs more replicas. The errors of
    latency and of speed together lower a rate by at least `rate_margin` to the power of their correlation.
    """
    assumed, margins = search.question.assumptions, confidence_margins(search, options.plans)
    loads = load_per_replica(search.workload, replicas)
    if search.workload.load is Load.OPEN:
        loads = loads * margins.rate ** min(RATE_CORRELATIONS.values())
    with suspend_recording():
        memory = AUTOREGRESSIVE.estimate_memory(search.workload, options.plans, assumed, options.settings)
        pooled = pooled_replicas(search.workload, replicas)
        curves = simulate_one_load(search.workload, options.plans, memory, loads, assumed, requested, pooled)
    waits_s, limits_s = worst_waits_at_lightest(curves, search.workload.slo, margins)
    return limits_s / waits_s


def passes_check(search: Search[InferenceWorkload], slack: Column) -> Mask:
    """Mask of the slacks of a short simulation with which a whole one may meet the limits."""
    is_tail = search.workload.slo.percentile > TAIL_PERCENTILE
    passes: Mask = slack >= 1 / (TAIL_CHECK_TOLERANCE if is_tail else CHECK_TOLERANCE)
    return passes


def may_carry_below(search: Search[InferenceWorkload], options: Options, to_beat: Column) -> Mask:
    """Mask of options that may carry the load at a score below `to_beat`, as far as one simulated load tells."""
    able = np.ones(len(options), bool)
    if is_decided_by_load(search):
        replicas = most_winning_replicas(search, options, to_beat)
        able = replicas > 0
        left = np.flatnonzero(able)
        if len(left):
            slack = simulated_slack(search, options.take(left), replicas[left], None)
            able[left] = passes_check(search, slack)
    return able


def plans_of_types_that_may_win(search: Search[InferenceWorkload], options: Options, to_beat: float) -> Options:
    """Plans of the leading types of which some layout may reach a better score than `to_beat`."""
    workload, objective = search.workload, search.question.objective
    if not is_decided_by_load(search):
        return options
    score = objective_score(objective, measures(workload, options))
    best = best_per_accelerator(options.accelerator, objective, measures(workload, options), stable_key(options))
    leading = options.accelerator[best[:MIN_SIMULATED_TYPES]]
    queue = SimulationQueue(options, score, best, search.question.assumptions)
    queue.best_scores = dict.fromkeys(leading.tolist(), to_beat)
    rows, replicas = next_challengers(search, queue)
    slack = simulated_slack(search, options.take(rows), replicas, None)
    able = options.accelerator[rows[passes_check(search, slack)]]
    return options.take(np.isin(options.accelerator, able))


def most_winning_replicas(search: Search[InferenceWorkload], options: Options, to_beat: Column) -> Column:
    """Largest number of replicas of every option at which its score may be better than `to_beat`; 0 if there is none.

    It is at least a share of the number that the formulas need.
    """
    question, workload, count = search.question, search.workload, len(options)
    needed = options.fleet.replicas
    least = np.maximum(1.0, np.floor(needed * MIN_REPLICA_SHARE))
    most = np.ceil(needed * to_beat / objective_score(question.objective, measures(workload, options))) + 1
    most = np.minimum(np.maximum(most, least), np.maximum(needed, MAX_ACCELERATORS))
    tried = np.rint(np.linspace(least, most, TRIED_COUNTS)).ravel()
    again = options.take(np.tile(np.arange(count), TRIED_COUNTS))
    loads = load_per_replica(workload, tried)
    with suspend_recording():
        sized = with_replica_count(question, workload, replace(again, capacity_per_s=loads), tried)
        score = objective_score(question.objective, measures(workload, sized)).reshape(TRIED_COUNTS, count)
    counts = tried.reshape(TRIED_COUNTS, count)
    losing = np.where(score >= to_beat, counts, most + 1)
    winning: Column = losing.min(axis=0) - 1
    return np.where(winning >= least, winning, 0.0)


def simulate_candidates(
    search: Search[InferenceWorkload],
    options: Options,
    asked: Deployment | None = None,
    *,
    most_requests: int | None = None,
    extent: Extent = Extent.PLANNED,
) -> tuple[Mask, SimulatedReplicas, Options]:
    """Simulate options: mask of those that meet the limits, and their simulation and sized options."""
    runs = simulate_replicas(search, options.plans, options.settings, asked, most_requests=most_requests, extent=extent)
    assert runs is not None
    passes = meets_limits(search, options, runs)
    runs, options = runs.take(np.flatnonzero(passes)), options.take(passes)
    return passes, runs, size_fleet(search.question, search.workload, options, runs) if len(options) else options


def meets_limits(search: Search[InferenceWorkload], options: Options, runs: SimulatedReplicas) -> Mask:
    """Mask of plans that meet the limits at any load; the others are rejected."""
    able = has_capacity(*runs.capacity_at_confidence(search.workload))
    if able.all():
        return able
    slo, expected = search.workload.slo, runs.expected_capacity(search.workload)[0] > LEAST_CAPACITY_PER_S
    waits, limits = worst_waits_at_lightest(runs.curves, slo, runs.margins)
    reject_plans(
        search.rejections,
        search.question.constraints.confidence,
        options.accelerator[~able],
        expected[~able],
        code="too_slow",
        text=MISSED_LIMIT_TEXT,
        needed=waits[~able] * 1e3,
        available=limits[~able] * 1e3,
        unit="ms",
        count=options.plans.accelerators_per_replica[~able],
        reached=FilterStage.SPEED,
    )
    return able


def merge_results(
    question: Question,
    workload: InferenceWorkload,
    options: Options,
    tables: list[Options],
    simulations: list[SimulatedReplicas],
    kept_rows: list[Codes],
) -> Finalists:
    """Merge the sized tables into all options and rank the sized rows."""
    if not any(map(len, kept_rows)):
        none = np.zeros(0, np.int64)
        return Finalists(options, none, np.zeros(0), None)
    rows = np.concatenate(kept_rows)
    again = write_back(apply_simulation_ratio(question, workload, options, rows, tables), rows, tables)
    order, score = ranked_rows(question, workload, again.take(rows))
    runs = SimulatedReplicas(
        tuple(c for part in simulations for c in part.curves),
        np.concatenate([part.sequences for part in simulations]),
        concat_tables([part.margins for part in simulations]),
        np.concatenate([part.pooled for part in simulations]),
        tuple(r for part in simulations for r in part.replicas),
    )
    return Finalists(again, rows[order], score[order], runs.take(order), passed_row(rows[order], score[order]))


def apply_simulation_ratio(
    question: Question, workload: InferenceWorkload, options: Options, rows: Codes, tables: list[Options]
) -> Options:
    """Scale formula results of all plans by the median ratio between simulation and formulas (at most 1)."""

    def median_ratio(name: str) -> float:
        simulated = np.concatenate([getattr(table, name) for table in tables])
        return min(1.0, float(np.median(simulated / getattr(options, name)[rows])))

    capacity = options.capacity_per_s * median_ratio("capacity_per_s")
    batch = np.maximum(1.0, np.floor(options.slo_batch * median_ratio("slo_batch")))
    replicas = required_replicas(question, workload, options.plans, capacity, batch, Settings())
    return with_replica_count(question, workload, replace(options, capacity_per_s=capacity, slo_batch=batch), replicas)


def write_back(options: Options, rows: Codes, tables: list[Options]) -> Options:
    """All options, with the sized values written back into the given rows."""

    def merged_column(name: str, of: Any, parts: list[Any]) -> Column:
        changed: Column = getattr(of, name).copy()
        changed[rows] = np.concatenate([getattr(part, name) for part in parts])
        return changed

    settings = [table.settings for table in tables]
    counts = {name: merged_column(name, options.settings, settings) for name in ("replicas", "spare_replicas", "nodes")}
    return replace(
        options,
        slo_batch=merged_column("slo_batch", options, tables),
        capacity_per_s=merged_column("capacity_per_s", options, tables),
        stable_per_s=merged_column("stable_per_s", options, tables),
        rate_per_s=merged_column("rate_per_s", options, tables),
        e2e_p50_s=merged_column("e2e_p50_s", options, tables),
        settings=replace(options.settings, **counts),
        fleet=with_rows(options.fleet, rows, concat_tables([table.fleet for table in tables])),
        cost=with_rows(options.cost, rows, concat_tables([table.cost for table in tables])),
        daily=with_rows(options.daily, rows, concat_tables([table.daily for table in tables])),
    )


def with_carrying_replicas(
    question: Question,
    workload: InferenceWorkload,
    plans: Plans,
    settings: Settings,
    asked: Settings,
    runs: SimulatedReplicas,
) -> Settings:
    """Settings with enough replicas to carry the load, at most as many as accelerators exist. Fixed spares and machines
    stay.
    """
    if asked.replicas is not None:
        return settings
    replicas = needed_replicas(question, workload, plans, runs)
    each = np.maximum(plans.accelerators_per_replica, plans.accelerators_per_node)
    enough = np.clip(np.maximum(replicas, runs.pooled), 1.0, np.floor(MAX_ACCELERATORS / each))
    return replace(settings, replicas=enough, spare_replicas=asked.spare_replicas, nodes=asked.nodes)


def with_simulated_performance(
    workload: InferenceWorkload, judged: PlanEvaluations[Any, Any, Any], runs: SimulatedReplicas
) -> PlanEvaluations[Any, Any, Any]:
    """Evaluated deployments with simulated capacity, latencies, rates and batches at their load."""
    replicas, speed = judged.fleet.replicas, judged.speed
    loads = load_per_replica(workload, replicas)
    with trace_label("simulated"):
        capacity, held = runs.expected_capacity(workload)
        if workload.load is Load.OPEN:
            rate = replica_rate_per_s(workload.peak_per_s, replicas)
            used = utilization(rate, capacity)
            speed = replace(speed, capacity_per_s=capacity, saturation_per_s=stability_limits(runs.curves))
        else:
            rate, used = runs.completed_per_s(loads), loads / np.maximum(held, 1.0)
            speed = replace(speed, capacity_per_s=capacity, slo_batch=held)
        waits = waits_at(runs.curves, loads)
    batch = np.array(
        [c.interpolate_proportional(c.running, load) for c, load in zip(runs.curves, loads.tolist(), strict=True)]
    )
    operation = replace(judged.operation, batch=batch, rate_per_s=rate, utilization=used, **waits)
    options = replace(
        judged.options,
        slo_batch=speed.slo_batch,
        capacity_per_s=capacity,
        rate_per_s=rate,
        e2e_p50_s=operation.e2e_p50_s,
    )
    return replace(judged, options=options, speed=speed, operation=operation)


def with_expected_performance(workload: InferenceWorkload, options: Options, runs: SimulatedReplicas) -> Options:
    """Options with the expected capacity, rate and latency at their load."""
    loads = load_per_replica(workload, options.fleet.replicas)
    with suspend_recording():
        waits, (capacity, _) = waits_at(runs.curves, loads), runs.expected_capacity(workload)
    return replace(
        options, capacity_per_s=capacity, rate_per_s=runs.completed_per_s(loads), e2e_p50_s=waits["e2e_p50_s"]
    )


def first_replica(runs: SimulatedReplicas | None) -> SimulatedReplicas | None:
    """The first simulated row, or None."""
    return None if runs is None else runs.take(np.zeros(1, np.int64))


def speed_from_curves(
    workload: InferenceWorkload, speed: Speed, by: MarginLevels, runs: SimulatedReplicas
) -> tuple[Speed, Column]:
    """Speed at all margins with simulated capacity, and the ratio of limit to worst latency at the lightest load."""
    every = runs.take(by.deployment_rows, by.margins)
    with suspend_recording():
        capacity, held = every.capacity_at_confidence(workload)
    wait_s, limit_s = worst_waits_at_lightest(every.curves, workload.slo, by.margins)
    batch = speed.slo_batch if workload.load is Load.OPEN else held
    stable = speed.saturation_per_s if workload.load is not Load.OPEN else stability_limits(every.curves)
    return replace(speed, capacity_per_s=capacity, saturation_per_s=stable, slo_batch=batch), limit_s / wait_s


def assurance_from_simulation(
    search: Search[InferenceWorkload],
    judged: PlanEvaluations[Any, Any, Any],
    by: MarginLevels,
    memory: Memory,
    speed: Speed,
    runs: SimulatedReplicas | None,
) -> tuple[Assurance, ...]:
    """Assurance of deployments, based on simulation where one exists."""
    question, workload = search.question, search.workload
    if runs is None:
        return estimate_assurance(question, workload, judged, by, memory, speed)
    simulated, within = speed_from_curves(workload, speed, by, runs)
    confirm = partial(confirm_replicas, search, judged, by, runs)
    return estimate_assurance(question, workload, judged, by, memory, simulated, within, confirm, speed)


def confirm_replicas(
    search: Search[InferenceWorkload],
    judged: PlanEvaluations[Any, Any, Any],
    by: MarginLevels,
    runs: SimulatedReplicas,
    needed: Column,
) -> Column:
    """Replicas that carry the load at every confidence level, simulated with as many behind the router; infinite where
    no number does. NaN where nothing needs them: the first deployment needs all that are shown, and the others those
    at which they may cost less.

    Parameters:
        needed: replicas as the pool of the requested confidence suggests, one row per level; infinite if none.
    """
    if not pools_replicas(search.workload) or not runs.replicas:
        return np.maximum(needed, runs.pooled)
    levels, asked, workload = np.array(by.levels)[:, None], search.question.constraints.confidence, search.workload
    needed = np.where(levels == asked, np.maximum(needed, runs.pooled), needed)
    size = judged.plans.accelerators_per_replica, judged.plans.accelerators_per_node
    machines = plan_fleet(workload.redundancy, *size, np.where(np.isinf(needed), 1.0, needed)).nodes
    usd = np.where(np.isinf(needed), np.inf, machines) * judged.options.daily_usd_per_hour / judged.fleet.nodes
    unshown = ~np.isin(levels, CONFIDENCE_LEVELS)
    decides = (np.arange(by.count) == 0) | (usd < usd[:, :1])
    open_levels = decides & ~unshown & (levels != asked) & np.isfinite(needed)
    pools = np.where(open_levels, np.clip(needed, 1, MAX_POOLED), runs.pooled).astype(np.int64)
    changed, rows = np.nonzero(pools != runs.pooled)
    simulated = np.where(decides | unshown | (levels == asked), needed, np.nan)
    alike, plans = runs.take(rows, by.margins.take(by.count * (1 + changed) + rows)), judged.plans.take(rows)

    if len(rows):
        with suspend_recording():
            count = int(search.question.assumptions.simulated_requests)
            alike = replace(alike, pooled=pools[changed, rows])
            found = replace(alike, pooled=fitting_pools(search, plans, alike, count))
            found = found.simulate(workload, count, curve_ends(workload, found.margins, Extent.COUNT))
            confirmed = needed_replicas(search.question, workload, plans, found)
            able = has_capacity(*found.planned_capacity(workload))
        simulated[changed, rows] = np.where(able, np.maximum(confirmed, found.pooled), np.inf)
    own = simulated[by.levels.index(asked)]
    ascending: Column = np.fmax.accumulate(np.where(levels < asked, np.minimum(simulated, own), simulated))
    return np.where(np.isnan(simulated), np.nan, ascending)


def planned_replica_capacity(
    workload: InferenceWorkload, speed: Speed, by: MarginLevels, asked: float, runs: SimulatedReplicas | None
) -> tuple[Column, Column]:
    """Requests per second, and concurrent requests, that a replica is planned to carry at the requested confidence."""
    if runs is not None:
        return runs.planned_capacity(workload)
    at_asked = by.speed_at(asked, speed)
    return at_asked.planned_capacity_per_s(workload), at_asked.slo_batch
