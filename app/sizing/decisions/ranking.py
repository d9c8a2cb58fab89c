"""Orders plans by the buyer's objective; ties are broken by the other measures, then by name."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.columns import LEAST_PER_S, Codes, Column, Mask
from app.sizing.decisions.search import Search, Workload
from app.sizing.formula import formula
from app.sizing.question import Objective
from app.sizing.result import RunnerUp

MIN_PRODUCT = 1e-300  # lower bound of the product, so that free plans do not all score 0


@dataclass(frozen=True, slots=True)
class Measures:
    """Measures by which plans are ranked; smaller is better except for throughput."""

    usd: Column  # cost of the plan, USD
    latency_s: Column  # end-to-end latency, s
    throughput_per_accelerator: Column  # units of work per second and accelerator
    joules_per_unit: Column  # energy per unit of work, J


@formula(unit="1")
def balanced_score(usd: Column, latency_s: Column, joules_per_unit: Column) -> Column:
    """Geometric mean of cost, latency and energy: halving one offsets doubling another, whatever the units.

    Parameters:
        usd: cost of the plan, USD.
        latency_s: end-to-end latency, s.
        joules_per_unit: energy per unit of work, J.
    Limits: orders plans of one workload; scores of different workloads are not comparable.
    Check:
        >>> round(float(balanced_score(2.0, 4.0, 8.0)), 6)
        4.0
    """
    return np.cbrt(np.maximum(usd * latency_s * joules_per_unit, MIN_PRODUCT))


def objective_score(objective: Objective, measures: Measures) -> Column:
    """Score of each plan for the objective: smaller is better, and the score is monotone in each measure it uses.

    `balanced` weighs cost, latency and energy equally.
    """
    if objective is Objective.COST:
        return measures.usd
    if objective is Objective.LATENCY:
        return measures.latency_s
    if objective is Objective.THROUGHPUT:
        return 1.0 / np.maximum(measures.throughput_per_accelerator, LEAST_PER_S)
    if objective is Objective.ENERGY:
        return measures.joules_per_unit
    return balanced_score(measures.usd, measures.latency_s, measures.joules_per_unit)


def ranking_key(values: Column) -> Column:
    """Numbers that are equal where the values agree within one part in 10^9."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(values > 0, np.round(np.log(values) * 1e9), -np.inf)


def best_by_score(accelerator: Codes, score: Column, types: int | None = None) -> Mask:
    """Plans with the best score of their type; only the other measures decide between them.

    With `types`, only plans of that number of best types, and of types that tie with them.
    """
    key = ranking_key(score)
    least = np.full(int(accelerator.max(initial=-1)) + 1, np.inf)
    np.minimum.at(least, accelerator, key)
    best: Mask = key <= least[accelerator]
    if types is not None and types < len(least):
        best &= key <= np.partition(least, types - 1)[types - 1]
    return best


def best_per_accelerator(accelerator: Codes, objective: Objective, measures: Measures, tie: Column) -> Codes:
    """Row of the best plan of each accelerator type, best type first.

    Ties within one part in 10^9 are broken by cost, latency, energy, then by the stable row key `tie`.
    """
    score = objective_score(objective, measures)
    rows = np.flatnonzero(best_by_score(accelerator, score))
    ties = (measures.joules_per_unit, measures.latency_s, measures.usd, score)
    order = rows[np.lexsort((accelerator[rows], tie[rows], *(ranking_key(values[rows]) for values in ties)))]
    first = np.sort(np.unique(accelerator[order], return_index=True)[1])
    return order[first]


def best_of_other_engines(accelerator: Codes, engine: Codes, score: Column, chosen: Codes) -> Codes:
    """For each chosen row, the best row of the same accelerator type with another engine; -1 where there is none."""
    own = np.full(int(accelerator.max(initial=-1)) + 1, -1)
    own[accelerator[chosen]] = engine[chosen]
    others = np.flatnonzero((own[accelerator] >= 0) & (own[accelerator] != engine))
    worst_first = others[np.argsort(score[others], kind="stable")][::-1]
    best = np.full(len(own), -1)
    best[accelerator[worst_first]] = worst_first  # the last of several rows of a type wins
    return best[accelerator[chosen]]


def find_runners_up(
    search: Search[Workload],
    accelerator: Codes,
    engine: Codes,
    score: Column,
    shown: Codes,
    stored: Codes | None = None,
) -> tuple[RunnerUp | None, ...]:
    """For each shown row, the runner-up with another engine on the same accelerator type, if its score is close."""
    others = best_of_other_engines(accelerator, engine, score, shown)
    near = (others >= 0) & (score[others] <= score[shown] * (1 + search.question.assumptions.near_tie_share))
    return tuple(
        RunnerUp(
            search.catalog.engines[engine[other]],
            None if stored is None else search.catalog.formats[stored[other]],
            float(score[other] / score[row] - 1),
        )
        if tied
        else None
        for row, other, tied in zip(shown.tolist(), others.tolist(), near.tolist(), strict=True)
    )
