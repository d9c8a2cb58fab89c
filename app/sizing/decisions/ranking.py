"""Orders plans by the buyer's objective; ties are broken by the other measures, then by name."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.columns import Codes, Column, Mask
from app.sizing.formula import formula
from app.sizing.question import Objective, Question
from app.sizing.result import Rival
from app.sizing.snapshot import Snapshot
from app.sizing.units import LEAST_PER_S

LEAST_PRODUCT = 1e-300  # keeps a plan that costs nothing from having no score


@dataclass(frozen=True, slots=True)
class Measures:
    """What a plan is judged by; smaller is better except throughput."""

    usd: Column
    latency_s: Column
    throughput_per_accelerator: Column
    joules_per_unit: Column


@formula(unit="1")
def balanced_score(usd: Column, latency_s: Column, joules_per_unit: Column) -> Column:
    """Geometric mean of cost, latency and energy: halving one is worth doubling another, whatever the units.

    Source: definition.
    Limits: orders plans of one workload; it means nothing between workloads.
    Check:
        >>> round(float(balanced_score(2.0, 4.0, 8.0)), 6)
        4.0
    """
    return np.cbrt(np.maximum(usd * latency_s * joules_per_unit, LEAST_PRODUCT))


def score_of(objective: Objective, measures: Measures) -> Column:
    """The number that ranks: smaller is better and every score is monotone in each measure it uses.

    `balanced` weighs cost, latency and energy alike.
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


def rounded(values: Column) -> Column:
    """Numbers that are equal where values agree within one part in 10^9."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(values > 0, np.round(np.log(values) * 1e9), -np.inf)


def contenders(accelerator: Codes, score: Column, types: int | None = None) -> Mask:
    """Plans that no other of their type beats by the score alone: other measures decide between them only. Of the best
    so many types, where that is given, and of those that tie with them.
    """
    key = rounded(score)
    least = np.full(int(accelerator.max(initial=-1)) + 1, np.inf)
    np.minimum.at(least, accelerator, key)
    best: Mask = key <= least[accelerator]
    if types is not None and types < len(least):
        best &= key <= np.partition(least, types - 1)[types - 1]
    return best


def best_per_accelerator(accelerator: Codes, objective: Objective, measures: Measures, tie: Column) -> Codes:
    """Row of the best plan of each accelerator type, best type first.

    Ties within one part in 10^9 are broken by cost, latency, energy, then the stable row key `tie`.
    """
    score = score_of(objective, measures)
    rows = np.flatnonzero(contenders(accelerator, score))
    ties = (measures.joules_per_unit, measures.latency_s, measures.usd, score)
    order = rows[np.lexsort((accelerator[rows], tie[rows], *(rounded(values[rows]) for values in ties)))]
    first = np.sort(np.unique(accelerator[order], return_index=True)[1])
    return order[first]


def best_of_others(accelerator: Codes, engine: Codes, score: Column, chosen: Codes) -> Codes:
    """Of each chosen row's accelerator type the best row of another engine than its own; -1 where there is none."""
    own = np.full(int(accelerator.max(initial=-1)) + 1, -1)
    own[accelerator[chosen]] = engine[chosen]
    others = np.flatnonzero((own[accelerator] >= 0) & (own[accelerator] != engine))
    worst_first = others[np.argsort(score[others], kind="stable")][::-1]
    best = np.full(len(own), -1)
    best[accelerator[worst_first]] = worst_first  # of several rows of a type the last one stays
    return best[accelerator[chosen]]


def rivals(
    question: Question,
    market: Snapshot,
    accelerator: Codes,
    engine: Codes,
    score: Column,
    shown: Codes,
    stored: Codes | None = None,
) -> tuple[Rival | None, ...]:
    """Of each row that is shown the best of other engines on the same accelerator type, where it comes near."""
    others = best_of_others(accelerator, engine, score, shown)
    near = (others >= 0) & (score[others] <= score[shown] * (1 + question.assumptions.near_tie_share))
    return tuple(
        Rival(
            market.engines[engine[other]],
            None if stored is None else market.formats[stored[other]],
            float(score[other] / score[row] - 1),
        )
        if tied
        else None
        for row, other, tied in zip(shown.tolist(), others.tolist(), near.tolist(), strict=True)
    )
