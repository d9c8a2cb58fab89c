"""The simulated layouts: alternatives of a type whose best failed, and layouts that may be far better."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from app.sizing.decisions.ranking import objective_score
from app.sizing.question import Objective
from app.sizing.serving.options import Options, measures
from app.sizing.serving.trial import SimulationQueue
from tests.sizing.serving.test_finalists import BUSY, asked, options_of


def trial_of(options: Options, *best: int) -> SimulationQueue:
    """A trial by cost that has rows wait."""
    return SimulationQueue(options, objective_score(Objective.COST, measures(BUSY, options)), np.array(best))


def test_in_the_place_of_a_layout_that_failed_another_of_its_type_is_tried() -> None:
    options = options_of(asked(BUSY), BUSY)
    sizes = options.plans.accelerators_per_replica
    for first in range(len(options)):
        trial = trial_of(options, first)
        seen = []
        while len(rows := trial.next_rows(1)):
            assert options.accelerator[rows[0]] == options.accelerator[first]
            seen.append(float(sizes[rows[0]]))
            trial.record_scores(rows, np.array([np.inf]))
        assert sorted(seen) == np.unique(sizes[options.accelerator == options.accelerator[first]]).tolist()
        assert trial.type_count == 0
    assert len(seen) > 1


def test_a_layout_that_holds_more_is_tried_before_cheaper_ones_that_hold_as_few() -> None:
    """A larger batch helps if a layout failed, or became expensive, at a batch that others share."""
    options = options_of(asked(BUSY), BUSY)
    plain = trial_of(options)
    of_type = np.flatnonzero(options.accelerator == options.accelerator[np.argmax(plain.layouts)])
    _, firsts = np.unique(plain.layouts[of_type], return_index=True)
    first, *others = of_type[firsts][np.argsort(plain.score[of_type[firsts]])].tolist()
    assert len(others) > 1
    dearest = others[-1]
    held = np.where(plain.layouts == plain.layouts[dearest], 9.0, 1.0)
    for turned_out in (np.inf, 9 * plain.score[dearest]):
        trial = trial_of(replace(options, slo_batch=held), first)
        trial.record_scores(trial.next_rows(1), np.array([turned_out]))
        (row,) = trial.next_rows(1)
        assert trial.layouts[row] == plain.layouts[dearest]


def test_a_layout_far_worse_than_another_adds_that_one_to_the_queue() -> None:
    """It counts for no type of its own; one that is hardly better is left alone."""
    options = options_of(asked(BUSY), BUSY)
    layouts = trial_of(options).layouts
    of_type = np.flatnonzero(options.accelerator == options.accelerator[np.argmax(layouts)])
    first = int(of_type[0])
    others = of_type[layouts[of_type] != layouts[first]]
    best = trial_of(options).score[others].min()
    for turned_out, tried in ((1.05, []), (1.2, [best])):
        trial = trial_of(options, first)
        trial.record_scores(trial.next_rows(1), np.array([turned_out * best]))
        extra = trial.next_rows(0)
        assert trial.score[extra].tolist() == tried
        trial.record_scores(extra, np.full(len(extra), np.inf))
        assert trial.type_count == 1


def test_more_is_simulated_while_what_waits_would_cost_far_less() -> None:
    options = options_of(asked(BUSY), BUSY)
    kinds = np.unique(options.accelerator, return_index=True)[1].tolist()
    score = trial_of(options).score
    best, other = sorted(kinds, key=score.__getitem__)[:2]
    for turned_out, more in ((1.2, False), (1.3, True)):
        trial = trial_of(options, best, other)
        assert not trial.may_beat()
        trial.record_scores(trial.next_rows(1), np.array([turned_out * score[other]]))
        assert trial.may_beat() is more
    trial.next_rows(1)
    assert not trial.may_beat()
