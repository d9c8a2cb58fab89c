"""Orders plans by the buyer's objective; ties are broken by the other measures, then by name."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import LEAST_PER_S, Codes, Column, Columns, Mask
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
    carbon_kg_per_unit: Column | None = None  # greenhouse gases per unit of work, kg CO2e; NaN where unknown


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
    if objective is Objective.CARBON:
        assert measures.carbon_kg_per_unit is not None
        return np.nan_to_num(measures.carbon_kg_per_unit, nan=np.inf)
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


@dataclass(frozen=True, slots=True)
class PublishedUse(Columns):
    """Published use of the stack of every row: recipes for the work, and results on the hardware family."""

    recipes: Column  # published recipes
    unmeasured: Mask  # whether no source has results of the stack

    @classmethod
    def measured(cls, *recipes: float) -> PublishedUse:
        """Stacks with results."""
        return cls(np.array(recipes), np.zeros(len(recipes), bool))


def tie_share(use: PublishedUse, assumed: Assumptions) -> Column:
    """Share by which others may be worse than these rows and still tie with them.

    It falls from the saving that a stack without recipes needs to the share of a near tie, the more recipes there are.
    A stack without published results needs at least the saving that the error of its prediction may amount to.

    Check: without recipes, with ten and with 90; and with 90 recipes but no result.
        >>> tie_share(PublishedUse.measured(0, 10, 90), Assumptions()).round(3).tolist()
        [0.25, 0.15, 0.07]
        >>> tie_share(PublishedUse(np.array([90.0]), np.array([True])), Assumptions()).round(3).tolist()
        [0.35]
    """
    share, most = assumed.near_tie_share, max(assumed.near_tie_share, assumed.no_recipe_saving)
    falling = share + (most - share) / (1 + use.recipes / assumed.few_recipes)
    return np.where(use.unmeasured, np.maximum(falling, assumed.no_result_saving), falling)


def is_used_enough(use: PublishedUse, most: Column, assumed: Assumptions) -> Mask:
    """Whether rows have about as much published use as the row with most; without results, rows need closer to it."""
    ratio = assumed.published_use_ratio
    enough: Mask = use.recipes * np.where(use.unmeasured, math.sqrt(ratio), ratio) >= most
    return enough


def near_ties(score: Column, usd: Column, best_score: Column, best_usd: Column, share: Column) -> Mask:
    """Rows whose score and cost exceed those of the best row by at most a share; unknown costs do not matter."""
    with np.errstate(invalid="ignore"):
        dearer = usd > best_usd * (1 + share)
        near: Mask = (score <= best_score * (1 + share)) & ~dearer
    return near


def familiar_per_accelerator(
    accelerator: Codes,
    best: Codes,
    score: Column,
    measures: Measures,
    use: PublishedUse,
    assumed: Assumptions,
    *,
    tie: Column,
) -> Codes:
    """For each accelerator type, the best near tie of its best row that has about as much published use as any.

    That is the faster one of equally good rows, and of equally fast ones the row with the lowest `tie` key. If it has
    no published results, the next row with some and no fewer recipes takes its place within the share of a near tie,
    unless it is slower by more than the error of a prediction.

    Parameters:
        accelerator: accelerator type of every row.
        best: the best row of each type.
        score: score of every row; smaller is better.
        measures: measures of every row.
        use: published use of the stack of every row.
        assumed: assumptions, with the share of a near tie and the ratio from which one stack is more used.
        tie: stable key of every row, smaller first.
    """
    row_of = np.full(int(accelerator.max(initial=-1)) + 1, -1)
    row_of[accelerator[best]] = best
    own, usd = row_of[accelerator], measures.usd
    near = (own >= 0) & near_ties(score, usd, score[own], usd[own], tie_share(use.take(own), assumed))
    most = np.zeros(len(row_of))
    np.maximum.at(most, accelerator[near], use.recipes[near])
    enough = is_used_enough(use, most[accelerator], assumed)
    rows, keeps_best, latency_s = np.flatnonzero(near & enough), enough[best], measures.latency_s
    ties = ranking_key(latency_s[rows]), ranking_key(score[rows])
    order = rows[np.lexsort((tie[rows], *ties, accelerator[rows]))]
    types, first = np.unique(accelerator[order], return_index=True)
    row_of[types] = order[first]
    row_of[accelerator[best]] = np.where(keeps_best, best, row_of[accelerator[best]])
    lead = row_of[accelerator]
    with np.errstate(invalid="ignore"):
        proven = use.unmeasured[lead] & ~use.unmeasured & (score <= score[lead] * (1 + assumed.near_tie_share))
        proven &= latency_s <= latency_s[lead] * (1 + assumed.no_result_saving)
        proven &= use.recipes >= use.recipes[lead]
    order = order[proven[order]]
    types, first = np.unique(accelerator[order], return_index=True)
    row_of[types] = order[first]
    taken: Codes = row_of[accelerator[best]]
    return taken


def familiar_first(score: Column, usd: Column, use: PublishedUse, assumed: Assumptions) -> Codes:
    """Order of rows that are given best first: of the near ties of the first row, the best comes first that has about
    as much published use as any, or a much cheaper one that is about as good.

    Check: the third row has more published use and costs 4 % more than the first; the fourth has most and costs 10 %
    more. A first row with one recipe gives way even to the fourth.
        >>> score = np.array([100.0, 102.0, 104.0, 110.0])
        >>> familiar_first(score, score, PublishedUse.measured(90, 0, 900, 9000), Assumptions()).tolist()
        [2, 0, 1, 3]
        >>> familiar_first(score, score, PublishedUse.measured(1, 0, 5, 90), Assumptions()).tolist()
        [3, 0, 1, 2]

    Where the score is not the cost, a tenth of the cost at 1 % more latency.
        >>> latency_s, usd = np.array([1.60, 1.62]), np.array([216.0, 24.0])
        >>> familiar_first(latency_s, usd, PublishedUse.measured(9, 9), Assumptions()).tolist()
        [1, 0]
    """
    order = np.arange(len(score))
    if not len(score):
        return order
    near = near_ties(score, usd, score[:1], usd[:1], tie_share(use.take(np.arange(1)), assumed))
    used = near & is_used_enough(use, use.recipes[near].max(initial=0.0), assumed)
    pick, share = int(np.argmax(used)), assumed.near_tie_share
    proven = used & ~use.unmeasured & (use.recipes >= use.recipes[pick])
    proven &= near_ties(score, usd, score[[pick]], usd[[pick]], np.array([share]))
    pick = int(np.argmax(proven)) if use.unmeasured[pick] and proven.any() else pick
    close = np.where(used & (score <= score[0] * (1 + share)) & ~np.isnan(usd), usd, np.inf)
    if close.min() < usd[pick] * (1 - share):
        pick = int(np.argmin(close))
    return np.concatenate([[pick], np.delete(order, pick)])


def best_of_other_engines(accelerator: Codes, engine: Codes, score: Column, latency_s: Column, chosen: Codes) -> Codes:
    """For each chosen row, the best row of the same accelerator type with another engine, the faster one of equally
    good rows; -1 where there is none.
    """
    own = np.full(int(accelerator.max(initial=-1)) + 1, -1)
    own[accelerator[chosen]] = engine[chosen]
    others = np.flatnonzero((own[accelerator] >= 0) & (own[accelerator] != engine))
    worst_first = others[np.lexsort((latency_s[others], ranking_key(score[others])))][::-1]
    best = np.full(len(own), -1)
    best[accelerator[worst_first]] = worst_first  # the last of several rows of a type wins
    return best[accelerator[chosen]]


def find_runners_up(
    search: Search[Workload],
    accelerator: Codes,
    engine: Codes,
    score: Column,
    latency_s: Column,
    shown: Codes,
    stored: Codes | None = None,
) -> tuple[RunnerUp | None, ...]:
    """For each shown row, the runner-up with another engine on the same accelerator type, if its score is close."""
    others = best_of_other_engines(accelerator, engine, score, latency_s, shown)
    own, share = score[shown], search.question.assumptions.near_tie_share
    # What formulas alone find far better was not found better by simulation. A score is infinite where it is unknown.
    near = (others >= 0) & (score[others] <= own * (1 + share)) & (score[others] >= own * (1 - share)) & (own < np.inf)
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
