"""Runs that are shown: judged once more they are the same, and noted where the arithmetic is wanted."""

from __future__ import annotations

import numpy as np
import pytest

from app.sizing.assumptions import Assumptions
from app.sizing.question import Question
from app.sizing.training.counts import counts_of
from app.sizing.training.finalists import Finalists, assess_finalists
from app.sizing.training.ranks import virtual_pipeline
from app.sizing.training.run import run_at
from tests.sizing.small import SMALL
from tests.sizing.training.layouts import WORKLOAD, plans_of

COUNTS = counts_of(WORKLOAD)
PLANS = plans_of(SMALL, WORKLOAD, accelerator="acme-big", framework="megatron", micro_batch_sequences=1).take(
    np.array([0, 20, 40])
)
RUN = run_at(COUNTS, PLANS, np.full(3, 8.0), Assumptions())


def judged(*, trace: bool) -> Finalists:
    return assess_finalists(COUNTS, PLANS, RUN, WORKLOAD.deadline_s, Question(WORKLOAD, trace=trace))


def test_judging_once_more_changes_no_number() -> None:
    plain, traced = judged(trace=False), judged(trace=True)
    assert len(plain) == len(traced) == 3
    for name in ("units_per_s", "days", "usd_total", "mfu"):
        assert getattr(plain.outcome, name).tolist() == getattr(traced.outcome, name).tolist()
    assert plain.fits.tolist() == traced.fits.tolist()
    assert plain.run.wall_s.tolist() == traced.run.wall_s.tolist() == RUN.wall_s.tolist()


def test_arithmetic_is_noted_where_it_is_wanted() -> None:
    assert judged(trace=False).trace.row_steps(0) == ()
    lines = {line.name: line.value for line in judged(trace=True).trace.row_steps(1)}
    assert lines["wall_s"] == pytest.approx(float(RUN.wall_s[1]))
    assert lines["accelerators"] == float(PLANS.ranks[1]) * 8
    # neighbours are judged too, and leave no line
    names = [line.name for line in judged(trace=True).trace.row_steps(1)]
    assert names.count("step_time_s") == names.count("wall_s") == 1


def test_finalists_come_with_neighbours_and_chunks() -> None:
    found = judged(trace=False)
    assert len(found.comparisons.alternatives) == len(found.assurance) == 3
    assert found.virtual_pipeline.tolist() == virtual_pipeline(COUNTS, PLANS).tolist()
    # whole machines for the whole run
    hours = found.outcome.days * 24
    assert found.outcome.usd_total == pytest.approx(found.cost.usd_per_hour * hours, nan_ok=True)
