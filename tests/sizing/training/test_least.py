"""What layouts do at the least, against what their runs come to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.sizing.assumptions import Assumptions
from app.sizing.decisions.ranking import objective_score
from app.sizing.question import Economics, Objective
from app.sizing.training.counts import counts_of
from app.sizing.training.least import (
    LEADERS_PER_TYPE,
    least_accelerator_s,
    lower_bound_measures,
    lowest_bounds_per_type,
)
from app.sizing.training.run import build_run_parts, run_at, run_cost
from app.sizing.training.search import CostedRuns, run_measures
from tests.examples import PRETRAIN, col, row
from tests.sizing.small import SMALL
from tests.sizing.training.layouts import plans_of

ASSUMED = Assumptions()


def test_every_micro_batch_passes_all_ranks() -> None:
    # a million tokens in micro-batches of 4 sequences of 1,000: 250 of them, on 8 ranks for 2 s each
    counts: Any = row(units=1e6, units_per_sequence=1000.0)
    assert least_accelerator_s(counts, col(4), col(8), col(2)).tolist() == [4000.0]


@pytest.mark.parametrize("objective", Objective)
@pytest.mark.parametrize("degree", [1.0, 4.0, 64.0])
def test_no_run_does_better_than_the_least(objective: Objective, degree: float) -> None:
    workload = replace(PRETRAIN, global_batch=1024, units=1e10)
    counts = counts_of(workload)
    plans = plans_of(SMALL, workload, accelerator="acme-big")
    parts = build_run_parts(counts, plans, ASSUMED)
    run = run_at(counts, plans, np.full(len(plans), degree), ASSUMED, parts)
    judged = CostedRuns(np.arange(len(plans)), plans, run, run_cost(plans, run, ASSUMED, Economics()))
    least = objective_score(objective, lower_bound_measures(counts, plans, parts.time))
    found = objective_score(objective, run_measures(counts, judged))
    assert (least <= found * (1 + 1e-12)).all()
    known = objective not in (Objective.LATENCY, Objective.BALANCED)
    assert (least > 0.05 * found).any() == known


def test_the_least_of_each_type_come_first() -> None:
    accelerator = np.repeat([4, 2], [LEADERS_PER_TYPE + 3, 2])
    bound = np.arange(float(len(accelerator)))[::-1]
    found = lowest_bounds_per_type(accelerator, bound)
    assert sorted(found[accelerator[found] == 4].tolist()) == list(range(3, LEADERS_PER_TYPE + 3))
    assert sorted(found[accelerator[found] == 2].tolist()) == [LEADERS_PER_TYPE + 3, LEADERS_PER_TYPE + 4]
    assert len(lowest_bounds_per_type(accelerator[:0], bound[:0])) == 0
