"""Why types cannot train: shortfalls of the prediction, and shortfalls of the requested confidence only."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from app.sizing.assumptions import Assumptions
from app.sizing.decisions.rejections import Rejections
from app.sizing.question import Constraints, Question
from app.sizing.result import Rejection
from app.sizing.training.counts import counts_of
from app.sizing.training.memory import TrainingMemory
from app.sizing.training.search import smallest_runs
from app.sizing.training.smallest import attempt_layouts
from app.sizing.units import GIB
from tests.sizing.small import BIG, SMALL, snapshot
from tests.sizing.training.layouts import WORKLOAD, plans_of

COUNTS = counts_of(WORKLOAD)
# The fastest time in the small catalogue, at its largest size.
FASTEST_S = float(
    attempt_layouts(
        COUNTS, plans_of(SMALL, WORKLOAD, accelerator="acme-big", micro_batch_sequences=1), 1e12, Assumptions()
    ).wall_s.min()
)


def turned_down(deadline_s: float, confidence: float) -> Rejection | None:
    workload = replace(WORKLOAD, deadline_s=deadline_s)
    layouts = plans_of(SMALL, workload, confidence, accelerator="acme-big", micro_batch_sequences=1)
    rejections = Rejections(SMALL.accelerators)
    found = smallest_runs(
        workload, counts_of(workload), layouts, Question(workload, Constraints(confidence=confidence)), rejections
    )
    assert (len(found) > 0) == (not rejections.by_accelerator)
    return next(iter(rejections.by_accelerator.values()), None)


def test_a_late_run_is_reported_with_its_days() -> None:
    late = turned_down(FASTEST_S / 2, 0.5)
    assert late is not None
    assert (late.code, late.unit) == ("too_slow", "days")
    assert late.needed == pytest.approx(FASTEST_S / 86400)
    assert late.available == pytest.approx(FASTEST_S / 2 / 86400)
    assert "median prediction" not in late.text


def test_a_run_that_is_late_with_the_confidence_asked_only_says_so() -> None:
    assert turned_down(FASTEST_S * 1.5, 0.5) is None
    # nothing was ever compared: at 80 % a run takes e^0.45 = 1.57 times as long
    late = turned_down(FASTEST_S * 1.5, 0.8)
    assert late is not None
    assert late.needed == pytest.approx(FASTEST_S * np.exp(0.45) / 86400)
    assert "The median prediction meets the deadline." in late.text
    assert "(80 % confidence)" in late.text
    assert turned_down(FASTEST_S * 1.6, 0.8) is None


def least_bytes(memory: TrainingMemory) -> float:
    return float(memory.total_bytes.min())


def test_what_fits_by_its_prediction_only_says_so() -> None:
    largest = attempt_layouts(
        COUNTS, plans_of(SMALL, WORKLOAD, accelerator="acme-big", micro_batch_sequences=1), 1e12, Assumptions()
    )
    least = least_bytes(largest.memory)
    for share, expected in ((1.2, True), (0.9, False)):
        # a device that the prediction leaves a sixth of, or a tenth short
        small = snapshot(accelerators=(replace(BIG, memory_bytes=least * share), *SMALL.accelerators[1:]))
        layouts = plans_of(small, WORKLOAD, 0.8, accelerator="acme-big", micro_batch_sequences=1)
        rejections = Rejections(small.accelerators)
        smallest_runs(WORKLOAD, COUNTS, layouts, Question(WORKLOAD), rejections)
        (lost,) = rejections.by_accelerator.values()
        assert lost.code == "out_of_memory"
        assert ("The median prediction fits." in lost.text) == expected
        assert lost.needed == pytest.approx(least * (np.exp(0.45) if expected else 1.0) / GIB)
