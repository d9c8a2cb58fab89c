"""Published runs put as questions: what happened, answered to fit or not."""

from __future__ import annotations

from typing import Any

import pytest

from app.catalog.files import read_rows
from calibration.case import NotCompared
from calibration.training.answered import answer_all_runs, answer_run, false_misfits
from calibration.training.cases import TrainingCases

ROWS: dict[str, dict[str, Any]] = {r["id"]: dict(r) for r in read_rows("measurements_training.csv")}


def test_a_run_is_answered_with_its_own_layout_and_how_probably_it_fits(training_cases: TrainingCases) -> None:
    (found,) = answer_run(ROWS["T04804"], training_cases)
    assert (found.id, found.source, found.method, found.recomputation) == (
        "T04804",
        "torchao_bench",
        "pretrain",
        "selective",
    )
    assert found.fits
    assert found.probability is not None and found.probability > 0.5
    assert found.total_bytes is not None and found.capacity_bytes is not None
    assert found.total_bytes < found.capacity_bytes


def test_the_same_run_with_eight_times_the_micro_batch_is_a_misfit(training_cases: TrainingCases) -> None:
    # 47.65 GiB of 80 with one sequence a step: eight do not fit
    (found,) = answer_run({**ROWS["T04804"], "micro_batch": "8", "global_batch": "64"}, training_cases)
    assert false_misfits([found]) == [found]
    assert found.probability is not None and found.probability < 0.5


def test_what_did_not_happen_is_counted_and_not_asked(training_cases: TrainingCases) -> None:
    ran_out = next(r for r in ROWS.values() if r["notes"].startswith("OOM") and r["accelerator"])
    with pytest.raises(NotCompared):
        next(answer_run(ran_out, training_cases))
    found, left_out = answer_all_runs([ran_out, ROWS["T04804"]], training_cases)
    assert [a.id for a in found] == ["T04804"]
    assert sum(left_out.values()) == 1
