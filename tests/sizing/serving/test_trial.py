"""What is simulated: other layouts of a type whose best failed, and what may yet be better by far."""

from __future__ import annotations

import numpy as np

from app.sizing.decisions.ranking import score_of
from app.sizing.question import Objective
from app.sizing.serving.options import measures
from app.sizing.serving.trial import Trial
from tests.sizing.serving.test_finalists import BUSY, asked, options_of


def test_in_the_place_of_a_layout_that_failed_another_of_its_type_is_tried() -> None:
    options = options_of(asked(BUSY), BUSY)
    score = score_of(Objective.COST, measures(BUSY, options))
    sizes = options.plans.accelerators_per_replica
    for first in range(len(options)):
        trial = Trial(options, score, np.array([first]))
        seen = []
        while len(rows := trial.next(1)):
            assert options.accelerator[rows[0]] == options.accelerator[first]
            seen.append(float(sizes[rows[0]]))
            trial.failed(rows)
        assert sorted(seen) == np.unique(sizes[options.accelerator == options.accelerator[first]]).tolist()
    assert len(seen) > 1


def test_more_is_simulated_while_what_waits_would_cost_far_less() -> None:
    options = options_of(asked(BUSY), BUSY)
    score = score_of(Objective.COST, measures(BUSY, options))
    trial = Trial(options, score, np.argsort(score)[:2])
    assert not trial.may_beat(np.inf)
    assert not trial.may_beat(1.2 * score.min())
    assert trial.may_beat(1.3 * score.min())
    trial.next(2)
    assert not trial.may_beat(9 * score.min())
