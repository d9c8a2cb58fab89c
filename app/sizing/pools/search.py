"""The best split of a service: plans of each pool sized by the search of services, in pairs that can work together.

What a pair costs is what its pools cost, so the best of each pool are enough to find the best pair. It is judged as a
deployment of two pools is, and only where the search finds it better than the best that does both in one is simulated.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from app.sizing.answer.serving import judge_deployments
from app.sizing.columns import Codes, Column, Mask, at
from app.sizing.decisions.cost import Cost, within_limits
from app.sizing.decisions.ranking import Measures, score_of
from app.sizing.decisions.rejections import Unread
from app.sizing.pools.estimate import MIXED, SPLITTING, most_prompts
from app.sizing.pools.joined import Both, joined
from app.sizing.pools.parts import at_limit_s, decode_of, prefill_of, reserve_s
from app.sizing.pools.reading import readers
from app.sizing.pools.transfer import transfer_of
from app.sizing.question import Deployment, Question
from app.sizing.result import Estimate
from app.sizing.serving.finalists import as_run, carries, sized
from app.sizing.serving.options import Options
from app.sizing.serving.plans import Plans
from app.sizing.serving.search import search
from app.sizing.snapshot import Snapshot
from app.sizing.split import Transfer
from app.sizing.units import LEAST_PER_S
from app.sizing.workload import InferenceWorkload, Load

DECODES = Deployment("", scheduler=MIXED)
TRIES = 2  # pairs that are simulated, where those before serve with no number of replicas, or others come near
CLOSE = 1.1  # times the score of the best, within which a pair of other accelerators is simulated too
MOST_TYPES = 5  # of accelerator that pools are made of: the best of those that do both


@dataclass(frozen=True, slots=True)
class Pairs:
    """A plan of each pool, row by row."""

    reads: Options
    writes: Options
    of_plan: tuple[Codes, Codes]  # which of those that lead each is

    def take(self, rows: Codes) -> Pairs:
        """Some of them, in the order given."""
        reads, writes = self.of_plan
        return Pairs(self.reads.take(rows), self.writes.take(rows), (reads[rows], writes[rows]))

    def measures(self, workload: InferenceWorkload, transfer_s: float = 0.0) -> Measures:
        """What a pair is ranked by."""
        reads, writes = self.reads, self.writes
        capacity = np.minimum(*(pool.fleet.replicas * pool.capacity_per_s for pool in (reads, writes)))
        served = np.minimum(workload.average_per_s, capacity) * max(1.0, workload.tokens_per_request)
        return Measures(
            reads.cost.usd_per_hour + writes.cost.usd_per_hour,
            reads.e2e_p50_s + transfer_s + writes.e2e_p50_s,
            capacity / (reads.fleet.accelerators + writes.fleet.accelerators),
            (reads.cost.power_w + writes.cost.power_w) / np.maximum(served, LEAST_PER_S),
        )

    def allowed(self, question: Question, market: Snapshot) -> Mask:
        """Pairs within the limits of number, money and power."""
        reads, writes = self.reads, self.writes
        names = ("usd_per_hour", "purchase_usd", "power_w", "rated_w", "tco_usd")
        cost = Cost(*(getattr(reads.cost, name) + getattr(writes.cost, name) for name in names))
        total = reads.fleet.accelerators + writes.fleet.accelerators
        return within_limits(writes.accelerator, total, cost, question.constraints, Unread(market.accelerators))


def may_split(question: Question, workload: InferenceWorkload) -> bool:
    """Whether pools are looked for: of token streams that come at a rate to a service with a memory of prompts."""
    streams = workload.load is Load.OPEN and not workload.single_pass and bool(workload.model.attention)
    streams = streams and not question.companions and not workload.classes
    return streams and workload.output_tokens.mean > 1 and not question.constraints.kv_formats


def splitting(plans: Plans, market: Snapshot, types: Codes) -> Plans:
    """Plans of these types on engines that keep pools apart, with all their weights on the accelerators."""
    engines = [code for code, name in enumerate(market.engines) if name in SPLITTING]
    rows = np.isin(plans.engine, engines) & ~plans.away
    if len(types):
        rows &= np.isin(plans.accelerator, types)
    return plans.take(rows)


def ranked_pairs(
    question: Question, workload: InferenceWorkload, plans: Plans, market: Snapshot, types: Codes
) -> Pairs | None:
    """Pairs as the search finds them, best first; None where no two pools serve."""
    able = splitting(plans, market, types[:MOST_TYPES])
    if not len(able):
        return None
    reads = readers(question, prefill_of(workload, reserve_s(workload)), able, market, Unread(market.accelerators))
    writes = search(question, decode_of(workload, 0.0), able, market, Unread(market.accelerators))
    if not len(reads) or not len(writes):
        return None
    reads, writes = leading(reads), leading(writes)
    first, second = np.nonzero(joinable(reads.plans, writes.plans))
    if not len(first):
        return None
    pairs = Pairs(reads.take(first), writes.take(second), (first, second))
    score = np.where(pairs.allowed(question, market), score_of(question.objective, pairs.measures(workload)), np.inf)
    order = np.argsort(score, kind="stable")
    return pairs.take(order[np.isfinite(score[order])])


def better_split(
    question: Question,
    workload: InferenceWorkload,
    plans: Plans,
    market: Snapshot,
    types: Codes,
    *,
    ranked_at: float = np.inf,
    expected_at: float = np.inf,
) -> tuple[Estimate, float] | None:
    """Two pools that do better than the best that does both in one, with their score. `ranked_at` is the score of that
    one as simulated, `expected_at` as the search expects it; `types` are the accelerators that pools are made of, any
    where there are none.
    """
    pairs = ranked_pairs(question, workload, plans, market, types) if may_split(question, workload) else None
    if pairs is None:
        return None
    score = score_of(question.objective, pairs.measures(workload))
    open_pairs = score < max(ranked_at, expected_at)
    types_of = pairs.reads.accelerator * (int(plans.accelerator.max()) + 1) + pairs.writes.accelerator
    best: tuple[Estimate, float] | None = None
    for _ in range(TRIES):
        if not open_pairs.any():
            break
        row = np.array([int(np.argmax(open_pairs))])
        found, fails = judged_pair(question, workload, pairs.take(row), market)
        if found is None:
            tried = pairs.of_plan[fails]
            open_pairs &= tried != tried[row[0]]
            continue
        best = found if best is None or found[1] < best[1] else best
        open_pairs &= (types_of != types_of[row[0]]) & (score <= CLOSE * score[row[0]])
    return best if best is not None and best[1] < ranked_at else None


def judged_pair(
    question: Question, workload: InferenceWorkload, pair: Pairs, market: Snapshot
) -> tuple[tuple[Estimate, float] | None, int]:
    """A pair as its schedulers run, sized by that, with its score; or none, and which of the two serves with no number
    of replicas.
    """
    transfer = way_between(workload, pair, question)
    most = np.array([float(most_prompts(named(pair.reads.plans, market), market))])
    reads = replace(pair.reads, settings=replace(pair.reads.settings, max_sequences=most))
    first = as_simulated(question, prefill_of(workload, reserve_s(workload) + transfer.seconds), reads, market)
    if first is None:
        return None, 0
    before_s = at_limit_s(first[0].performance, workload.slo.percentile) + transfer.seconds
    second = as_simulated(question, decode_of(workload, before_s), pair.writes, market, DECODES)
    if second is None:
        return None, 1
    sized_pair = Pairs(first[1], second[1], pair.of_plan)
    way = way_between(workload, sized_pair, question)
    if not sized_pair.allowed(question, market)[0] or way.link != transfer.link:
        return None, 1
    both, asked = Both(first[0], second[0]), Deployment(second[0].deployment.accelerator)
    score = score_of(question.objective, sized_pair.measures(workload, way.seconds))
    return (joined(workload, asked, both, way, None), at(score, 0)), 1


def way_between(workload: InferenceWorkload, pair: Pairs, question: Question) -> Transfer:
    """What handing over takes between both pools of a pair."""
    replicas = at(pair.reads.fleet.replicas, 0), at(pair.writes.fleet.replicas, 0)
    total = at(pair.reads.fleet.accelerators + pair.writes.fleet.accelerators, 0)
    return transfer_of(workload, pair.reads.plans, pair.writes.plans, replicas, total, question.assumptions)


def named(plan: Plans, market: Snapshot) -> Deployment:
    """Accelerator and engine of a plan."""
    code, engine = int(plan.accelerator[0]), int(plan.engine[0])
    return Deployment(market.accelerators[code].slug, engine=market.engines[engine])


def as_simulated(
    question: Question, workload: InferenceWorkload, options: Options, market: Snapshot, asked: Deployment | None = None
) -> tuple[Estimate, Options] | None:
    """A pool of one plan as its scheduler runs: its estimate, and its row with the replicas that this takes."""
    runs = as_run(question, workload, options.plans, options.settings, market, asked)
    if runs is None or not carries(*runs.surely(workload)).all():
        return None
    again = sized(question, workload, options, runs)
    (found,) = judge_deployments(question, workload, again.plans, market, again.settings, asked, runs=runs)
    scheduler = found.deployment.scheduler
    if asked is not None and scheduler is not None:
        scheduler = scheduler.with_settings(asked.scheduler)
    deployment = replace(found.deployment, scheduler=scheduler)
    return replace(found, deployment=deployment), again


def joinable(reads: Plans, writes: Plans) -> Mask:
    """Which plans of one pool go with which of the other: one engine, and caches in one format."""
    alike: Mask = (reads.engine[:, None] == writes.engine) & (reads.kv[:, None] == writes.kv)
    return alike


def leading(options: Options) -> Options:
    """Of each type, engine and cache the plans that lead by a measure that pairs are ranked by."""
    plans, work = options.plans, options.fleet.replicas * options.capacity_per_s
    kinds = (plans.accelerator * (plans.engine.max() + 1) + plans.engine) * 16 + plans.kv
    measures: tuple[Column, ...] = (
        options.cost.usd_per_hour,
        options.cost.power_w,
        options.e2e_p50_s,
        options.fleet.accelerators / np.maximum(work, LEAST_PER_S),
    )
    found = set[int]()
    for measure in measures:
        order = np.lexsort((measure, kinds))
        found.update(order[np.unique(kinds[order], return_index=True)[1]].tolist())
    return options.take(np.array(sorted(found), np.int64))
