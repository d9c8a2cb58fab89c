"""The smallest run that fits and is in time, against trying every degree."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.sizing.assumptions import Assumptions
from app.sizing.training import smallest
from app.sizing.training.counts import counts_of
from app.sizing.training.degrees import legal_degrees
from app.sizing.training.run import Run, run_at
from app.sizing.training.smallest import Attempts, SizedLayouts, attempt_layouts, bisect_places, size_attempts
from tests.examples import PRETRAIN
from tests.sizing.small import SMALL
from tests.sizing.training.layouts import plans_of

WORKLOAD = replace(PRETRAIN, global_batch=64, units=1e10)
COUNTS = counts_of(WORKLOAD)
LAYOUTS = plans_of(SMALL, WORKLOAD, accelerator="acme-big", framework="megatron", micro_batch_sequences=1)
ASSUMED = Assumptions()


def all_sized(deadline_s: float) -> tuple[Attempts, SizedLayouts]:
    """Every layout at its largest degree, and those that do at their smallest."""
    tried = attempt_layouts(COUNTS, LAYOUTS, deadline_s, ASSUMED)
    return tried, size_attempts(COUNTS, tried, np.arange(len(tried.feasible_rows)), deadline_s, ASSUMED)


@pytest.mark.parametrize("days", [0.5, 2.0, 1000.0])
def test_bisection_finds_what_trying_every_degree_finds(days: float) -> None:
    deadline_s = days * 86400
    tried, found = all_sized(deadline_s)
    chosen: dict[int, list[float]] = {}
    for able, degree in zip(found.rows.tolist(), found.data_parallel.tolist(), strict=True):
        chosen.setdefault(able, []).append(degree)
    degrees = legal_degrees(COUNTS, tried.layouts)
    number = degrees.degrees_per_row()
    for row in range(0, len(tried.layouts), 5):
        rows = np.full(number[row], row)
        options = degrees.degree_at(rows, np.arange(number[row]))
        run = run_at(COUNTS, tried.layouts.take(rows), options, ASSUMED)
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

    monkeypatch.setattr(smallest, "run_at", slow_pairs)
    _, found = all_sized(1000 * 86400)
    one = run_at(COUNTS, found.plans, np.ones(len(found.plans)), ASSUMED)
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
    degrees = legal_degrees(COUNTS, never.layouts)
    largest = degrees.degree_at(np.arange(len(never.layouts)), degrees.degrees_per_row() - 1)
    assert never.largest.tolist() == largest.tolist()
    assert (never.wall_s[never.memory.fits] > 1.0).all()
    assert np.isinf(never.wall_s[~never.memory.fits]).all()


def test_only_what_is_chosen_is_sized() -> None:
    tried, whole = all_sized(2 * 86400)
    some = size_attempts(COUNTS, tried, np.array([3, 1]), 2 * 86400, ASSUMED)
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
    monkeypatch.setattr(smallest, "EVALUATED_TOGETHER", 0)
    assert (bisect_places(low, high, does) == found).all()
    assert together < len(judged) - together or rows == 1
