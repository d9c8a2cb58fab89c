"""What each confidence takes of a run, against trying every size by hand."""

from __future__ import annotations

import numpy as np
import pytest

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Column
from app.sizing.question import Economics, Question
from app.sizing.training.assurance import RunAssurance, assess_assurance
from app.sizing.training.counts import counts_of
from app.sizing.training.degrees import LegalDegrees, legal_degrees
from app.sizing.training.plans import TrainingPlans
from app.sizing.training.run import run_at, run_cost
from tests.sizing.small import SMALL
from tests.sizing.training.layouts import WORKLOAD, plans_of

COUNTS, ASSUMED, ECONOMICS = counts_of(WORKLOAD), Assumptions(), Economics()
FOUND = plans_of(SMALL, WORKLOAD, 0.8, accelerator="acme-big", framework="megatron", micro_batch_sequences=1)
PLANS = FOUND.take(np.array([0, 20, 40]))
RUN = run_at(COUNTS, PLANS, np.full(3, 8.0), ASSUMED)


def split(plans: TrainingPlans, row: int) -> tuple[float, ...]:
    """What stays of a layout: its degrees of parallelism and offloading."""
    degrees = (plans.tensor_parallel, plans.pipeline_parallel, plans.context_parallel, plans.optimizer_offload)
    return tuple(float(d[row]) for d in degrees)


def holds_less(plans: TrainingPlans, other: int, row: int) -> bool:
    """Whether a layout recomputes at least as much as one of those that are judged, and shards as it does, or at all
    where that shards nothing.
    """
    recomputed = plans.activation_checkpointing[other] >= PLANS.activation_checkpointing[row]
    stage = PLANS.zero_stage[row]
    return bool(recomputed and (stage == 0 or plans.zero_stage[other] == stage))


def every(degrees: LegalDegrees, row: int) -> Column:
    """All degrees of a row."""
    number = int(degrees.degrees_per_row()[row])
    return degrees.degree_at(np.full(number, row), np.arange(number))


def sure(deadline_s: float) -> RunAssurance:
    return assess_assurance(COUNTS, PLANS, RUN, deadline_s, Question(WORKLOAD))


def test_every_level_is_the_cheapest_size_that_holds_with_it_or_from_the_asked_one_on_the_run_itself() -> None:
    deadline_s = float(RUN.wall_s.max())
    found = sure(deadline_s)
    assert found.levels == (0.5, 0.8, 0.9, 0.95)
    degrees = legal_degrees(COUNTS, FOUND)
    for row in range(len(PLANS)):
        like = [i for i in range(len(FOUND)) if split(FOUND, i) == split(PLANS, row) and holds_less(FOUND, i, row)]
        rows = np.repeat(like, degrees.degrees_per_row()[like])
        plans = FOUND.take(rows)
        run = run_at(COUNTS, plans, np.concatenate([every(degrees, i) for i in like]), ASSUMED)
        usd = run_cost(plans, run, ASSUMED, ECONOMICS).usd_per_hour * run.wall_s / 3600
        for i, (level, worse) in enumerate(zip(found.levels, (0.0, 0.45, 0.7, 0.9), strict=True)):
            # nothing was ever compared in the small catalogue: e^0.45 at 80 %, e^0.7 at 90, e^0.9 at 95
            factor = np.exp(worse)
            good = run.memory.fits & (run.memory.total_bytes * factor <= run.memory.capacity_bytes)
            good &= run.wall_s * factor <= deadline_s
            own = RUN.memory.fits[row] & (RUN.memory.total_bytes[row] * factor <= RUN.memory.capacity_bytes[row])
            if level >= 0.8 and own and RUN.wall_s[row] * factor <= deadline_s:
                assert found.accelerators[row, i] == RUN.accelerators[row], level
            elif good.any():
                assert found.usd_total[row, i] == pytest.approx(usd[good].min() * factor), level
            else:
                assert np.isnan(found.accelerators[row, i]), level


def test_more_confidence_never_costs_less() -> None:
    for share in (0.1, 0.5, 1.0, 3.0):
        usd = np.nan_to_num(sure(float(RUN.wall_s.max()) * share).usd_total, nan=np.inf)
        assert (usd[:, 1:] >= usd[:, :-1]).all()


def test_a_deadline_met_twice_over_is_nearly_sure_and_one_missed_by_half_is_not() -> None:
    assert sure(float(RUN.wall_s.max()) * 4).meets_deadline.min() > 0.98
    assert sure(float(RUN.wall_s.min()) / 4).meets_deadline.max() < 0.02


def test_nothing_is_in_time_where_no_size_is() -> None:
    never = sure(1.0)
    assert np.isnan(never.accelerators).all()
    assert np.isnan(never.usd_total).all()


def test_time_with_the_confidence_asked_is_the_margin_over_what_is_expected() -> None:
    assert sure(1e9).wall_s == pytest.approx(RUN.wall_s * np.exp(0.45))
