"""What wins, by every objective."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.sizing.assumptions import Assumptions
from app.sizing.decisions.ranking import (
    Measures,
    PublishedUse,
    best_of_other_engines,
    best_per_accelerator,
    familiar_first,
    familiar_per_accelerator,
    find_runners_up,
    objective_score,
    tie_share,
)
from app.sizing.decisions.search import Search
from app.sizing.question import Objective, Question
from tests.examples import CHAT, col
from tests.sizing.small import SMALL

# Four types of one plan each; every objective has another winner.
MEASURES = Measures(
    usd=col(1, 4, 9, 3),
    latency_s=col(8, 1, 5, 4),
    throughput_per_accelerator=col(100, 200, 900, 300),
    joules_per_unit=col(9, 8, 7, 1),
)


@pytest.mark.parametrize(
    ("objective", "score", "order"),
    [
        (Objective.COST, [1, 4, 9, 3], [0, 3, 1, 2]),
        (Objective.LATENCY, [8, 1, 5, 4], [1, 3, 2, 0]),
        (Objective.THROUGHPUT, [1 / 100, 1 / 200, 1 / 900, 1 / 300], [2, 3, 1, 0]),
        (Objective.ENERGY, [9, 8, 7, 1], [3, 2, 1, 0]),
        # geometric means of 1 * 8 * 9, 4 * 1 * 8, 9 * 5 * 7 and 3 * 4 * 1
        (Objective.BALANCED, [72 ** (1 / 3), 32 ** (1 / 3), 315 ** (1 / 3), 12 ** (1 / 3)], [3, 1, 0, 2]),
    ],
)
def test_every_objective_ranks_by_its_own_measure(objective: Objective, score: list[float], order: list[int]) -> None:
    assert objective_score(objective, MEASURES).tolist() == pytest.approx(score)
    assert best_per_accelerator(np.arange(4), objective, MEASURES, col(0, 0, 0, 0)).tolist() == order


def test_each_type_is_ranked_by_its_best_plan() -> None:
    measures = Measures(
        usd=col(5, 2, 3, 9),
        latency_s=col(*[1] * 4),
        throughput_per_accelerator=col(*[1] * 4),
        joules_per_unit=col(*[1] * 4),
    )
    rows = best_per_accelerator(np.array([0, 0, 1, 1]), Objective.COST, measures, col(0, 1, 2, 3))
    assert rows.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("usd", "latency_s", "joules", "tie", "best"),
    [
        ([2, 1], [1, 9], [1, 9], [0, 1], 1),  # cost before latency
        ([1, 1], [2, 1], [1, 9], [0, 1], 1),  # latency before energy
        ([1, 1], [1, 1], [2, 1], [0, 1], 1),  # energy before the key
        ([1, 1], [1, 1], [1, 1], [1, 0], 1),  # the key at last
        ([1 + 1e-12, 1], [1, 2], [1, 1], [0, 1], 0),  # a difference of one part in 10^12 is none
        ([1 + 1e-7, 1], [1, 2], [1, 1], [0, 1], 1),
        ([0, 1], [9, 1], [9, 1], [1, 0], 0),  # what costs nothing costs least
    ],
)
def test_ties_go_to_the_cheaper_then_the_quicker_then_the_thriftier(
    usd: list[float], latency_s: list[float], joules: list[float], tie: list[float], best: int
) -> None:
    """Two plans of one type, equal in throughput."""
    measures = Measures(col(*usd), col(*latency_s), col(5, 5), col(*joules))
    assert best_per_accelerator(np.array([0, 0]), Objective.THROUGHPUT, measures, col(*tie)).tolist() == [best]


def test_each_plan_is_paired_with_the_best_of_other_engines_on_its_type() -> None:
    accelerator = np.array([0, 0, 0, 0, 1, 1, 2, 2])
    engine = np.array([5, 5, 6, 7, 5, 5, 6, 5])
    score = col(1, 1.1, 3, 2, 4, 5, 6, 6)
    # of type 0 engine 7 comes before 6, of type 1 there is no other engine; a tie is paired with its equal
    assert best_of_other_engines(accelerator, engine, score, np.zeros(8), np.array([0, 4, 7])).tolist() == [3, -1, 6]
    assert best_of_other_engines(accelerator, engine, score, np.zeros(8), np.array([7])).tolist() == [6]
    twice = np.array([0, 0, 0]), np.array([1, 2, 3]), col(1, 2, 2)
    assert best_of_other_engines(*twice, np.zeros(3), np.array([0])).tolist() == [1]  # of equals the first
    assert best_of_other_engines(*twice, col(1, 9, 8), np.array([0])).tolist() == [2]  # or the faster one


def test_a_runner_up_is_named_up_to_a_near_tie() -> None:
    search = Search.start(Question(CHAT), SMALL)
    share = search.question.assumptions.near_tie_share
    accelerator, engine, stored = np.array([0, 0]), np.array([0, 1]), np.array([0, 1])
    near = (0.0, 0.99 * share, -0.99 * share)
    for worse, named in (*((w, True) for w in near), *((w, False) for w in (1.01 * share, 1.9 * share, -0.3))):
        score = col(2, 2 * (1 + worse))
        (found,) = find_runners_up(search, accelerator, engine, score, score, np.array([0]), stored)
        assert (found is not None) == named
        if found is not None:
            assert found.engine == SMALL.engines[1] and found.weight_format == SMALL.formats[1]
            assert found.worse == pytest.approx(worse)
    alone = find_runners_up(search, accelerator, np.array([0, 0]), col(2, 2), col(2, 2), np.array([0]))
    assert alone == (None,)
    unknown = col(np.inf, np.inf)
    assert find_runners_up(search, accelerator, engine, unknown, unknown, np.array([0])) == (None,)


ASSUMED = Assumptions()
RATIO, TIE = ASSUMED.published_use_ratio, ASSUMED.near_tie_share
# Options as (score, cost, published recipes); scores lie close together, so that near ties are common.
OPTIONS = st.lists(
    st.tuples(st.floats(1, 1.4), st.floats(1, 1.4), st.integers(0, 40).map(float)), min_size=1, max_size=8
)


def columns_of(options: list[tuple[float, float, float]]) -> tuple[np.ndarray, ...]:
    """Score, cost and recipes of options, best score first."""
    return tuple(np.array(column) for column in zip(*sorted(options), strict=True))


@given(OPTIONS)
def test_what_has_more_published_use_is_first_only_among_near_ties(options: list[tuple[float, float, float]]) -> None:
    score, usd, recipes = columns_of(options)
    order = familiar_first(score, usd, PublishedUse.measured(*recipes), ASSUMED)
    first, *rest = order.tolist()
    assert sorted(order.tolist()) == list(range(len(score)))
    assert rest == [row for row in range(len(score)) if row != first]  # the others keep their order
    share = float(tie_share(PublishedUse.measured(recipes[0]), ASSUMED)[0])
    assert score[first] <= score[0] * (1 + share) and (first == 0 or usd[first] <= usd[0] * (1 + share))
    near = (score <= score[0] * (1 + share)) & (usd <= usd[0] * (1 + share))
    assert recipes[near].max() <= RATIO * recipes[first]  # no near tie has clearly more published use
    if first:
        cheaper = score[first] <= score[0] * (1 + TIE) and usd[first] < usd[0] * (1 - TIE)
        assert cheaper or recipes[first] > recipes[0] * RATIO or recipes[0] * RATIO < recipes[near].max()


@given(OPTIONS)
def test_with_no_near_ties_or_equal_use_the_best_score_stays_first(options: list[tuple[float, float, float]]) -> None:
    score, usd, recipes = columns_of(options)
    alike = PublishedUse.measured(*np.full(len(score), recipes[0]))
    assert familiar_first(score, score, alike, ASSUMED).tolist() == list(range(len(score)))
    apart = score[0] * (1 + 2 * float(tie_share(PublishedUse.measured(recipes[0]), ASSUMED)[0])) ** np.arange(
        len(score)
    )
    assert familiar_first(apart, usd, PublishedUse.measured(*recipes), ASSUMED)[0] == 0


@given(
    st.lists(st.tuples(st.integers(0, 2), st.floats(1, 1.4), st.integers(0, 40).map(float)), min_size=1, max_size=12)
)
def test_each_type_takes_its_most_used_near_tie(options: list[tuple[int, float, float]]) -> None:
    accelerator = np.array([kind for kind, _, _ in options])
    score, recipes = np.array([s for _, s, _ in options]), np.array([n for _, _, n in options])
    best = np.array([np.flatnonzero(accelerator == k)[np.argmin(score[accelerator == k])] for k in set(accelerator)])
    slow = Measures(score, -np.arange(float(len(score))), score, score)  # the last of equal rows is the fastest
    use = PublishedUse.measured(*recipes)
    rows = familiar_per_accelerator(accelerator, best, score, slow, use, ASSUMED, tie=np.zeros(len(score)))
    assert accelerator[rows].tolist() == accelerator[best].tolist()
    for row, own in zip(rows.tolist(), best.tolist(), strict=True):
        near = (accelerator == accelerator[own]) & (score <= score[own] * (1 + tie_share(use, ASSUMED)[own]))
        used = near & (recipes * RATIO >= recipes[near].max())
        # the best of those that are about as much used as any, and the fastest of equals
        assert score[row] == score[used].min()
        assert row in (own, max(np.flatnonzero(used & (score == score[row]))))


def test_of_equal_rows_with_more_published_use_the_one_with_the_lowest_key_is_taken() -> None:
    """The first row is best and unused; the others are as good, as fast within rounding, and have published use."""
    same = Measures(*(col(1.0, 1.0, 1.0) for _ in range(4)))
    latency = replace(same, latency_s=col(1.0, 1.0, 1.0 + 1e-15))
    row = familiar_per_accelerator(
        np.zeros(3, np.int64),
        np.array([0]),
        same.usd,
        latency,
        PublishedUse.measured(0, 9, 9),
        ASSUMED,
        tie=col(1, 3, 2),
    )
    assert row.tolist() == [2]


def test_an_unknown_cost_does_not_keep_an_option_from_being_first() -> None:
    score, usd = col(1.0, 1.01), col(np.nan, 5.0)
    assert familiar_first(score, usd, PublishedUse.measured(0, 9), ASSUMED).tolist() == [1, 0]


def test_a_near_tie_that_costs_far_more_is_not_first_under_another_objective() -> None:
    use = PublishedUse.measured(0, 9)
    assert familiar_first(col(1.0, 1.01), col(10.0, 20.0), use, ASSUMED).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("recipes", "unmeasured", "worse", "first"),
    [
        ((15, 90), (True, False), 0.3, 1),  # a lead within the error of a prediction that no result confirms
        ((15, 90), (False, False), 0.3, 0),
        ((15, 39), (True, True), 0.25, 1),  # less than three times the recipes, but far more
        ((15, 90), (True, False), 0.36, 0),
        ((67, 80), (True, False), TIE, 1),  # about as much use: results decide near ties
        ((67, 80), (True, False), 0.06, 0),
        ((67, 80), (True, True), TIE, 0),
    ],
)
def test_a_stack_without_results_gives_way_within_the_error_of_its_prediction(
    recipes: tuple[float, ...], unmeasured: tuple[bool, ...], worse: float, first: int
) -> None:
    score, use = col(1.0, 1 + worse), PublishedUse(col(*recipes), np.array(unmeasured))
    assert familiar_first(score, score, use, ASSUMED)[0] == first
    same, measures = np.zeros(2, np.int64), Measures(*(score for _ in range(4)))
    rows = familiar_per_accelerator(same, np.array([0]), score, measures, use, ASSUMED, tie=np.zeros(2))
    assert rows.tolist() == [first]
