"""The search over runs: judged plans, chosen plans, and reasons for rejected types."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from app.sizing.decisions.rejections import Rejections
from app.sizing.question import Constraints, Question
from app.sizing.training.counts import counts_of
from app.sizing.training.search import run_measures, smallest_runs
from tests.sizing.small import SMALL
from tests.sizing.training.layouts import WORKLOAD, plans_of

COUNTS = counts_of(WORKLOAD)
LAYOUTS = plans_of(SMALL, WORKLOAD, accelerator="acme-big", micro_batch_sequences=1)


def turned_down(deadline_s: float, **limits: Any) -> tuple[int, list[str]]:
    workload = replace(WORKLOAD, deadline_s=deadline_s)
    rejections = Rejections(SMALL.accelerators)
    question = Question(workload, Constraints(**limits))
    found = smallest_runs(workload, counts_of(workload), LAYOUTS, question, rejections)
    if len(found):
        assert (found.run.wall_s <= deadline_s).all()
        assert len(run_measures(COUNTS, found).usd) == len(found)
    return len(found), [r.code for r in rejections.by_accelerator.values()]


def test_runs_are_in_time_or_fall_out_as_too_slow() -> None:
    found, codes = turned_down(1e9)
    assert found > 0
    assert codes == []
    assert turned_down(60.0) == (0, ["too_slow"])
