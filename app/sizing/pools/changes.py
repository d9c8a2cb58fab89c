"""Sensitivity of the best split: each pool is sized again with one input changed, and the effects are combined."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from app.sizing.answer.sensitivity import Case, State, cases, money_of, placed, state_of, describe_effect
from app.sizing.columns import one
from app.sizing.decisions.cost import kwh_per_million
from app.sizing.pools.search import PairAsRun, Pairs, PoolAsRun
from app.sizing.question import Question
from app.sizing.result import Change, Estimate
from app.sizing.serving.finalists import with_expected_performance
from app.sizing.serving.options import served_per_s, units_per_request
from app.sizing.snapshot import Catalog
from app.sizing.workload import InferenceWorkload

NAMES = ("prefill", "decode")


def split_changes(
    question: Question, workload: InferenceWorkload, answer: Estimate, pair: PairAsRun, market: Catalog
) -> Iterator[Change]:
    """Effects of more load, other redundancy or more headroom on a split; `answer` is the estimate that the user
    sees.
    """
    now, before = state_of(answer), (pair.reads, pair.writes)
    if now is None:
        return
    every = zip(cases(workload), cases(pair.reads.workload), cases(pair.writes.workload), strict=True)
    for case, *of_pools in every:
        reads, writes = (in_case(question, *each) for each in zip(of_pools, before, strict=True))
        then = in_proportion(now, both_states(workload, before), both_states(case.workload, (reads, writes)))
        kept = one_pair(reads, writes).within_constraints(question, market)
        text = describe_effect(question.objective, workload, now, then, within_limits=bool(kept[0]))
        yield Change(case.label, f"{text}{replica_words(before, (reads, writes))}")


def in_case(question: Question, case: Case, pool: PoolAsRun) -> PoolAsRun:
    """A pool with the replicas that a changed case needs."""
    return replace(pool, workload=case.workload, options=placed(question, case, pool.options))


def one_pair(reads: PoolAsRun, writes: PoolAsRun) -> Pairs:
    """Two pools as a table with one pair."""
    first = np.zeros(1, np.int64)
    return Pairs(reads.options, writes.options, (first, first))


def both_states(workload: InferenceWorkload, pools: tuple[PoolAsRun, PoolAsRun]) -> State:
    """Expected state of two pools together; the utilization is that of the fuller pool."""
    expected = [with_expected_performance(pool.workload, pool.options, pool.simulated) for pool in pools]
    accelerators = sum(one(pool.fleet.accelerators) for pool in expected)
    capacity = min(one(pool.fleet.replicas * pool.capacity_per_s) for pool in expected)
    served = min(one(served_per_s(pool.workload, each)) for pool, each in zip(pools, expected, strict=True))
    power, units = sum(one(pool.cost.power_w) for pool in expected), served * units_per_request(workload)
    return State(
        accelerators=int(accelerators),
        replicas=sum(one(pool.fleet.replicas) for pool in expected),
        used=workload.peak_per_s / capacity,
        usd=sum(money_of(workload, pool, 0) for pool in expected),
        e2e_s=sum(one(pool.e2e_p50_s) for pool in expected),
        each_per_s=capacity / accelerators,
        kwh_per_million=one(kwh_per_million(np.array([power]), np.array([units]))),
    )


def in_proportion(shown: State, now: State, then: State) -> State:
    """State of a changed case: the shown state, scaled by the change of the expected state."""
    return replace(
        then,
        used=shown.used * then.used / now.used,
        usd=shown.usd * then.usd / now.usd,
        e2e_s=shown.e2e_s + then.e2e_s - now.e2e_s,
        each_per_s=shown.each_per_s * then.each_per_s / now.each_per_s,
        kwh_per_million=shown.kwh_per_million * then.kwh_per_million / now.kwh_per_million,
    )


def replica_words(before: tuple[PoolAsRun, PoolAsRun], after: tuple[PoolAsRun, PoolAsRun]) -> str:
    """Replicas of each pool before and after, where they change; otherwise empty."""
    counts = [[one(pool.options.fleet.replicas) for pool in pools] for pools in (before, after)]
    if counts[0] == counts[1]:
        return ""
    changed = (f"{name} {now:.0f} -> {then:.0f}" for name, now, then in zip(NAMES, *counts, strict=True))
    return f" (replicas: {', '.join(changed)})"
