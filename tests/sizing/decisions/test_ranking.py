"""What wins, by every objective."""

from __future__ import annotations

import numpy as np
import pytest

from app.sizing.decisions.ranking import (
    Measures,
    best_of_other_engines,
    best_per_accelerator,
    find_runners_up,
    objective_score,
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
    assert best_of_other_engines(accelerator, engine, score, np.array([0, 4, 7])).tolist() == [3, -1, 6]
    assert best_of_other_engines(accelerator, engine, score, np.array([7])).tolist() == [6]
    twice = np.array([0, 0, 0]), np.array([1, 2, 3]), col(1, 2, 2)
    assert best_of_other_engines(*twice, np.array([0])).tolist() == [1]  # of equals the first


def test_a_runner_up_is_named_up_to_a_near_tie() -> None:
    search = Search.start(Question(CHAT), SMALL)
    share = search.question.assumptions.near_tie_share
    accelerator, engine, stored = np.array([0, 0]), np.array([0, 1]), np.array([0, 1])
    for worse, named in ((0.0, True), (0.99 * share, True), (1.01 * share, False), (1.9 * share, False)):
        score = col(2, 2 * (1 + worse))
        (found,) = find_runners_up(search, accelerator, engine, score, np.array([0]), stored)
        assert (found is not None) == named
        if found is not None:
            assert found.engine == SMALL.engines[1] and found.weight_format == SMALL.formats[1]
            assert found.worse == pytest.approx(worse)
    alone = find_runners_up(search, accelerator, np.array([0, 0]), col(2, 2), np.array([0]))
    assert alone == (None,)
