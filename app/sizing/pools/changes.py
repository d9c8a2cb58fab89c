"""Sensitivity of the best split: each pool is sized again with one input changed, and the effects are combined."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from app.sizing.answer.sensitivity import (
    Case,
    State,
    current_state,
    describe_effect,
    list_cases,
    plan_cost_usd,
    plans_in_case,
)
from app.sizing.columns import one
from app.sizing.decisions.cost import kwh_per_million
from app.sizing.decisions.search import Search
from app.sizing.pools.search import PoolPairs, SimulatedPair, SimulatedPool
from app.sizing.question import Question
from app.sizing.result import Change, Estimate
from app.sizing.serving.finalists import with_expected_performance
from app.sizing.serving.options import served_per_s, units_per_request
from app.sizing.workload import InferenceWorkload

NAMES = ("prefill", "decode")


def split_changes(search: Search[InferenceWorkload], answer: Estimate, pair: SimulatedPair) -> Iterator[Change]:
    """Effects of more load, other redundancy or more headroom on a split; `answer` is the estimate that the user
    sees.
    """
    now, before = current_state(answer), (pair.reads, pair.writes)
    if now is None:
        return
    every = zip(
        list_cases(search.workload), list_cases(pair.reads.workload), list_cases(pair.writes.workload), strict=True
    )
    for case, *of_pools in every:
        reads, writes = (pool_in_case(search.question, *each) for each in zip(of_pools, before, strict=True))
        then = scale_state(now, combined_state(search.workload, before), combined_state(case.workload, (reads, writes)))
        kept = single_pair(reads, writes).within_constraints(search)
        text = describe_effect(search.question.objective, search.workload, now, then, within_limits=bool(kept[0]))
        yield Change(case.label, f"{text}{describe_replicas(before, (reads, writes))}")


def pool_in_case(question: Question, case: Case, pool: SimulatedPool) -> SimulatedPool:
    """A pool with the replicas that a changed case needs."""
    return replace(pool, workload=case.workload, options=plans_in_case(question, case, pool.options))


def single_pair(reads: SimulatedPool, writes: SimulatedPool) -> PoolPairs:
    """Two pools as a table with one pair."""
    first = np.zeros(1, np.int64)
    return PoolPairs(reads.options, writes.options, (first, first))


def combined_state(workload: InferenceWorkload, pools: tuple[SimulatedPool, SimulatedPool]) -> State:
    """Expected state of two pools together; the utilization is that of the fuller pool."""
    expected = [with_expected_performance(pool.workload, pool.options, pool.simulated) for pool in pools]
    accelerators = sum(one(pool.fleet.accelerators) for pool in expected)
    capacity = min(one(pool.fleet.replicas * pool.capacity_per_s) for pool in expected)
    served = min(one(served_per_s(pool.workload, each)) for pool, each in zip(pools, expected, strict=True))
    power, units = sum(one(pool.cost.power_w) for pool in expected), served * units_per_request(workload)
    return State(
        accelerators=int(accelerators),
        replicas=sum(one(pool.fleet.replicas) for pool in expected),
        utilization=workload.peak_per_s / capacity,
        usd=sum(plan_cost_usd(workload, pool, 0) for pool in expected),
        e2e_s=sum(one(pool.e2e_p50_s) for pool in expected),
        per_accelerator_per_s=capacity / accelerators,
        kwh_per_million=one(kwh_per_million(np.array([power]), np.array([units]))),
    )


def scale_state(shown: State, now: State, then: State) -> State:
    """State of a changed case: the shown state, scaled by the change of the expected state."""
    return replace(
        then,
        utilization=shown.utilization * then.utilization / now.utilization,
        usd=shown.usd * then.usd / now.usd,
        e2e_s=shown.e2e_s + then.e2e_s - now.e2e_s,
        per_accelerator_per_s=shown.per_accelerator_per_s * then.per_accelerator_per_s / now.per_accelerator_per_s,
        kwh_per_million=shown.kwh_per_million * then.kwh_per_million / now.kwh_per_million,
    )


def describe_replicas(before: tuple[SimulatedPool, SimulatedPool], after: tuple[SimulatedPool, SimulatedPool]) -> str:
    """Replicas of each pool before and after, where they change; otherwise empty."""
    counts = [[one(pool.options.fleet.replicas) for pool in pools] for pools in (before, after)]
    if counts[0] == counts[1]:
        return ""
    changed = (f"{name} {now:.0f} -> {then:.0f}" for name, now, then in zip(NAMES, *counts, strict=True))
    return f" (replicas: {', '.join(changed)})"
