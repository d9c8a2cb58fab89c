"""Sizes around the best: whole machines, every layout at each. What layouts are compared by. The search over runs:
judged plans, chosen plans, and reasons for rejected types. Why types cannot train: shortfalls of the
prediction, and shortfalls of the requested confidence only. The smallest run that fits and is in time, against
trying every degree.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.sizing.assumptions import Assumptions
from app.sizing.columns import GIB
from app.sizing.decisions.rejections import Rejections
from app.sizing.question import Constraints, Question
from app.sizing.result import Rejection
from app.sizing.training import attempts, search
from app.sizing.training.attempts import (
    Attempts,
    SizedLayouts,
    attempt_layouts,
    bisect_places,
    degrees_near_size,
    size_attempts,
    sizes_around,
)
from app.sizing.training.counts import counts_of
from app.sizing.training.degrees import legal_degrees
from app.sizing.training.memory import TrainingMemory
from app.sizing.training.run import Run, run_at
from app.sizing.training.search import best_row_per_type, pipeline_handicap, run_measures, smallest_runs
from app.sizing.uncertainty import NORMAL
from tests.examples import PRETRAIN, col, present
from tests.sizing.small import BIG, SMALL, SYSTEMS, snapshot
from tests.sizing.training.layouts import WORKLOAD, plans_of


def test_sizes_are_whole_machines_near_a_size_or_a_part_of_one() -> None:
    several, part = sizes_around(col(160, 4), col(8, 8)).tolist()
    assert several == [136, 144, 152, 160, 184, 200]
    assert set(part) == {4}


def test_every_layout_is_tried_at_each_size_once() -> None:
    counts = counts_of(WORKLOAD)
    plans = plans_of(SMALL, WORKLOAD, accelerator="acme-big", framework="megatron", micro_batch_sequences=1)
    rows, degrees = degrees_near_size(counts, plans, np.full(len(plans), 64.0))
    sizes = plans.ranks[rows] * degrees
    assert len(set(zip(rows.tolist(), sizes.tolist(), strict=True))) == len(rows)
    assert 64 in sizes
    assert (sizes % 8 == 0).all()
    assert (np.abs(np.maximum(1, np.floor(64 / degrees + 0.5)) * degrees / 64 - 1) <= counts.near_batch_share).all()


def test_a_pipeline_must_be_better_by_more_than_a_near_tie() -> None:
    assert pipeline_handicap(col(1, 2, 16), Assumptions(near_tie_share=0.1)).tolist() == [1.0, 1.1, 1.1]


def test_the_best_of_each_type_is_the_cheapest_of_equals_and_then_the_first_by_its_key() -> None:
    accelerator = np.array([3, 3, 3, 1, 1])
    score, usd, tie = col(2, 1, 1, 5, 5), col(0, 9, 8, 1, 1), col(0, 0, 0, 7, 6)
    assert best_row_per_type(accelerator, score, usd, tie).tolist() == [4, 2]


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


def test_no_run_is_computed_for_a_table_without_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[int] = []

    def count_rows(*given: Any) -> Run:
        run = run_at(*given)
        counted.append(len(run))
        return run

    for module in (attempts, search):
        monkeypatch.setattr(module, "run_at", count_rows)
    assert turned_down(60.0) == (0, ["too_slow"])
    assert counted
    assert all(counted)


# The fastest time in the small catalogue, at its largest size.
FASTEST_S = float(
    attempt_layouts(
        COUNTS, plans_of(SMALL, WORKLOAD, accelerator="acme-big", micro_batch_sequences=1), 1e12, Assumptions()
    ).wall_s.min()
)


def shortfalls_turned_down(deadline_s: float, confidence: float) -> Rejection | None:
    workload = replace(WORKLOAD, deadline_s=deadline_s)
    layouts = plans_of(SMALL, workload, confidence, accelerator="acme-big", micro_batch_sequences=1)
    rejections = Rejections(SMALL.accelerators)
    found = smallest_runs(
        workload, counts_of(workload), layouts, Question(workload, Constraints(confidence=confidence)), rejections
    )
    assert (len(found) > 0) == (not rejections.by_accelerator)
    return next(iter(rejections.by_accelerator.values()), None)


def test_a_late_run_is_reported_with_its_days() -> None:
    late = present(shortfalls_turned_down(FASTEST_S / 2, 0.5))
    assert (late.code, late.unit) == ("too_slow", "days")
    assert late.needed == pytest.approx(FASTEST_S / 86400)
    assert late.available == pytest.approx(FASTEST_S / 2 / 86400)
    assert "median prediction" not in late.text


def test_a_late_run_on_one_machine_says_why_it_has_no_more() -> None:
    """No listing states a network, or machines of the class form no clusters."""
    late = replace(WORKLOAD, deadline_s=60.0)
    systems = [replace(s, network_bytes_per_s=None) for s in SYSTEMS]
    small = [replace(a, training_class=False) if a.slug == BIG.slug else a for a in SMALL.accelerators]
    for catalog, why in (
        (snapshot(systems=systems), "no network listed"),
        (snapshot(accelerators=small), "not clustered"),
    ):
        layouts = plans_of(catalog, late, accelerator=BIG.slug, micro_batch_sequences=1)
        rejections = Rejections(catalog.accelerators)
        assert not len(smallest_runs(late, counts_of(late), layouts, Question(late), rejections))
        (rejected,) = rejections.by_accelerator.values()
        assert rejected.text.endswith(f"on 8 accelerators ({why}); the deadline is 1 minute.")


def test_a_run_that_is_late_with_the_confidence_asked_only_says_so() -> None:
    assert shortfalls_turned_down(FASTEST_S * 1.5, 0.5) is None
    # nothing was ever compared: at 80 % a run takes e^0.45 = 1.57 times as long
    late = present(shortfalls_turned_down(FASTEST_S * 1.5, 0.8))
    assert late.needed == pytest.approx(FASTEST_S * np.exp(0.45) / 86400)
    assert "The median prediction meets the deadline." in late.text
    assert "(80 % confidence)" in late.text
    assert shortfalls_turned_down(FASTEST_S * 1.6, 0.8) is None


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
        assert lost.fit_probability == pytest.approx(NORMAL.cdf(np.log(share) / 0.45 * NORMAL.inv_cdf(0.8)), abs=1e-3)


SMALLEST_WORKLOAD = replace(PRETRAIN, global_batch=64, units=1e10)
SMALLEST_COUNTS = counts_of(SMALLEST_WORKLOAD)
SMALLEST_LAYOUTS = plans_of(
    SMALL, SMALLEST_WORKLOAD, accelerator="acme-big", framework="megatron", micro_batch_sequences=1
)
ASSUMED = Assumptions()


def all_sized(deadline_s: float) -> tuple[Attempts, SizedLayouts]:
    """Every layout at its largest degree, and those that do at their smallest."""
    tried = attempt_layouts(SMALLEST_COUNTS, SMALLEST_LAYOUTS, deadline_s, ASSUMED)
    return tried, size_attempts(SMALLEST_COUNTS, tried, np.arange(len(tried.feasible_rows)), deadline_s, ASSUMED)


@pytest.mark.parametrize("days", [0.5, 2.0, 1000.0])
def test_bisection_finds_what_trying_every_degree_finds(days: float) -> None:
    deadline_s = days * 86400
    tried, found = all_sized(deadline_s)
    chosen: dict[int, list[float]] = {}
    for able, degree in zip(found.rows.tolist(), found.data_parallel.tolist(), strict=True):
        chosen.setdefault(able, []).append(degree)
    degrees = legal_degrees(SMALLEST_COUNTS, tried.layouts)
    number = degrees.degrees_per_row()
    for row in range(0, len(tried.layouts), 5):
        rows = np.full(number[row], row)
        options = degrees.degree_at(rows, np.arange(number[row]))
        run = run_at(SMALLEST_COUNTS, tried.layouts.take(rows), options, ASSUMED)
        good = run.memory.fits & (run.wall_s <= deadline_s)
        if not good.any():
            assert row not in chosen
            continue
        least, ranks = float(options[np.argmax(good)]), tried.layouts.ranks[row]
        # a machine of eight is paid whole: where the smallest leaves some of it idle, so does the fullest stand
        whole = float(options[options * ranks <= 8].max(initial=least))
        assert chosen[row] == ([least] if ranks * least >= 8 or whole == least else [least, whole])


def test_one_replica_is_tried_where_two_are_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two may be slower than one: they exchange what one keeps to itself."""

    def slow_pairs(*given: Any) -> Run:
        run = run_at(*given)
        return replace(run, wall_s=np.where(run.data_parallel == 2, np.inf, run.wall_s))

    monkeypatch.setattr(attempts, "run_at", slow_pairs)
    _, found = all_sized(1000 * 86400)
    one = run_at(SMALLEST_COUNTS, found.plans, np.ones(len(found.plans)), ASSUMED)
    assert (found.data_parallel == 1).any()
    fits = {row for row, holds in zip(found.rows.tolist(), one.memory.fits, strict=True) if holds}
    assert fits == set(found.rows[found.data_parallel == 1].tolist())


def test_a_shorter_deadline_never_takes_fewer_accelerators() -> None:
    (_, loose), (_, tight) = (all_sized(days * 86400) for days in (1000.0, 0.25))
    assert set(tight.rows.tolist()) <= set(loose.rows.tolist())
    assert len(tight.rows) > 0
    small, large = (
        dict(zip(s.rows[::-1].tolist(), s.data_parallel[::-1].tolist(), strict=True)) for s in (loose, tight)
    )
    assert all(degree >= small[row] for row, degree in large.items())
    assert any(degree > small[row] for row, degree in large.items())


def test_what_cannot_be_done_is_left_at_its_best_attempt() -> None:
    never, found = all_sized(1.0)
    assert len(never.feasible_rows) == len(found.rows) == 0
    degrees = legal_degrees(SMALLEST_COUNTS, never.layouts)
    largest = degrees.degree_at(np.arange(len(never.layouts)), degrees.degrees_per_row() - 1)
    assert never.largest.tolist() == largest.tolist()
    assert (never.wall_s[never.memory.fits] > 1.0).all()
    assert np.isinf(never.wall_s[~never.memory.fits]).all()


def test_only_what_is_chosen_is_sized() -> None:
    tried, whole = all_sized(2 * 86400)
    some = size_attempts(SMALLEST_COUNTS, tried, np.array([3, 1]), 2 * 86400, ASSUMED)
    assert set(some.rows.tolist()) == {int(tried.feasible_rows[3]), int(tried.feasible_rows[1])}
    known = set(zip(whole.rows.tolist(), whole.data_parallel.tolist(), strict=True))
    assert set(zip(some.rows.tolist(), some.data_parallel.tolist(), strict=True)) <= known


@pytest.mark.parametrize("rows", [1, 40, 600])
def test_places_tried_together_are_those_that_bisection_finds(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if more replicas are not always enough: one row, tables below and above the number tried at once."""
    random = np.random.default_rng(rows)
    able = random.random((rows, 24)) < 0.5
    high = random.integers(0, 24, rows)
    low = np.minimum(random.integers(0, 8, rows), high)
    able[np.arange(rows), high] = True
    judged: list[int] = []

    def does(which: Any, tried: Any) -> Any:
        judged.append(len(which))
        return able[which, tried]

    found = bisect_places(low, high, does)
    together = len(judged)
    assert able[np.arange(rows), found].all() and (low <= found).all() and (found <= high).all()
    rising = np.cumsum(able, axis=1) > 0
    first = bisect_places(low, high, lambda which, tried: rising[which, tried])
    assert (first == np.maximum(low, np.minimum(high, rising.argmax(axis=1)))).all()
    monkeypatch.setattr(attempts, "EVALUATED_TOGETHER", 0)
    assert (bisect_places(low, high, does) == found).all()
    assert together < len(judged) - together or rows == 1
