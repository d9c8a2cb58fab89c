"""Spreads as they are fitted: never from what they are to foretell, and sharp where sources agree."""

from __future__ import annotations

import math

import numpy as np
import pytest

from app.sizing.accuracy import QUANTITIES
from app.sizing.evidence import Compared
from app.sizing.uncertainty import HIGH, LEVELS, LOW, Spread, evidence_pool
from calibration.serving.measured import TAILS
from calibration.spreads import (
    ALONE,
    GROUPS,
    MIN_QUANTILE,
    REMOTE,
    UNTABULATED,
    Errors,
    add_interval,
    errors_of,
    fit_spreads,
    mean_interval_score,
    seen_from,
    shape_of,
    spreads_of,
    weighted_quantiles,
    with_intervals,
)
from tests.examples import col
from tests.sizing.published import result

SERVED = GROUPS[0]


def source(name: str, *, off: float = 1.0, apart: float = 1.1, results: int = 20, **setting: object) -> list[Compared]:
    """Results of one source, evenly from `off` over `apart` to `off` times it, of a prediction of 100."""
    ratios = off * np.geomspace(1 / apart, apart, results)
    return [result(f"{name}{i}", 100.0 * float(ratio), source=name, **setting) for i, ratio in enumerate(ratios)]


def test_every_quantity_that_is_reported_belongs_to_one_group_of_one_pool() -> None:
    tails = {metric.removesuffix("_s") for metric in TAILS}  # compared, and promised by no interval
    assert sorted(q for group in GROUPS for q in group) == sorted(set(QUANTITIES) - tails)
    assert all(len({evidence_pool(q) for q in group}) == 1 for group in GROUPS)


def test_quantiles_stand_about_no_error_and_never_closer_than_runs_of_one_setting_differ() -> None:
    # 101 errors of equal weight from -1 to 1: nine in ten are below 0.8
    found = dict(zip(LEVELS, weighted_quantiles(np.linspace(-1, 1, 101), np.ones(101)), strict=True))
    assert found[0.5] == 0
    assert (found[LOW], found[HIGH]) == pytest.approx((-0.8, 0.8), abs=0.01)
    same = weighted_quantiles(np.zeros(10), np.ones(10))
    assert same == pytest.approx([MIN_QUANTILE * (level - 0.5) / 0.4 for level in LEVELS])
    # all results better than predicted: the worse side is not taken from them, and stays at its least
    better = weighted_quantiles(np.linspace(-1, -0.5, 11), np.ones(11))
    assert better[LEVELS.index(HIGH)] == pytest.approx(MIN_QUANTILE)
    # what counts more draws the quantiles to itself
    at = LEVELS.index(0.8)
    assert weighted_quantiles(col(0.0, 1.0), col(1.0, 9.0))[at] > weighted_quantiles(col(0.0, 1.0), col(9.0, 1.0))[at]


def test_the_evidence_seen_from_a_source_excludes_its_own_results() -> None:
    rows = [
        *source("a", results=1),
        *source("b", results=1, format_class="16bit"),
        *source("c", results=1, excluded=True),
    ]
    found = seen_from(rows)
    # a and b are one format (0.3) apart, and for each only the other is evidence of the runtime on the family
    assert {m: (a.sources[0], a.distance[0]) for (m, _), a in found.items()} == {
        "a0": (1.0, pytest.approx(0.3)),
        "b0": (1.0, pytest.approx(0.3)),
        "c0": (2.0, 0.0),
    }


def test_excluded_results_teach_nothing_and_many_of_one_source_count_less() -> None:
    errors = errors_of(SERVED, [*source("a", results=16), *source("b", results=4), *source("c", excluded=True)])
    assert len(errors.worse) == 20
    # n results count n ** 0.5: 16 * 16 ** -0.5 = 4, and 4 * 4 ** -0.5 = 2
    assert [float(errors.weight[errors.source == i].sum()) for i in (0, 1)] == pytest.approx([4.0, 2.0])


def test_sources_that_agree_are_sharp_and_those_that_do_not_are_wide() -> None:
    def width(rows: list[Compared]) -> float:
        (throughput,) = {s for q, s in spreads_of(rows).items() if q == "throughput"}
        return throughput.worse[LEVELS.index(HIGH)] - throughput.worse[LEVELS.index(LOW)]

    agreeing = [r for name in "abc" for r in source(name)]
    torn = [r for name, off in (("a", 0.5), ("b", 1.0), ("c", 2.0)) for r in source(name, off=off)]
    assert width(agreeing) < 0.25
    assert width(torn) > 1.0


def test_one_source_tells_nothing_of_how_sources_differ() -> None:
    assert spreads_of(source("a")) == {}
    assert set(spreads_of([*source("a"), *source("b")])) == set(SERVED)


def scored(rows: list[Compared]) -> Errors:
    return errors_of(SERVED, rows)


def test_the_numbers_kept_are_those_of_the_best_score() -> None:
    rows = with_intervals(
        [*source("a"), *source("b", off=1.2), *source("c", off=3.0, family="amd_rdna", engine="llama.cpp")]
    )
    errors = scored(rows)
    spread = fit_spreads(SERVED, errors, shape_of(SERVED, errors))["tpot"]
    kept = (spread.alone, spread.remote, spread.untabulated)
    assert kept[0] in ALONE and kept[1] in REMOTE and kept[2] in UNTABULATED
    assert mean_interval_score(errors, kept) == min(
        mean_interval_score(errors, (a, r, u)) for a in ALONE for r in REMOTE for u in UNTABULATED
    )
    assert (spread.rows, spread.sources) == (60, 3)


@pytest.mark.parametrize(
    ("metric", "kept"), [("tpot_s", (50, 150, 130)), ("output_tokens_per_s", (100 / 1.5, 200, 100 / 1.3))]
)
def test_a_result_has_an_interval_and_a_promise_around_the_prediction(
    metric: str, kept: tuple[float, float, float]
) -> None:
    worse = tuple(math.log(f) for f in (0.25, 0.5, 0.8, 1.0, 1.3, 1.5, 2.0))
    # a tenth are half of it or less, four in five are at most 1.3 and nine in ten at most 1.5 times as slow
    interval = add_interval(result(metric=metric), Spread("q", 0.0, 0.0, 0.0, worse, 1, 1))
    assert (interval.low, interval.high, interval.promised) == pytest.approx(kept)


def test_no_result_moves_the_quantiles_of_its_own_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calibration.spreads.shape_of", lambda *_: (1.0, 0.5, 0.0))
    others = [*source("a"), *source("b", off=1.3)]
    honest, absurd = with_intervals([*others, *source("c")]), with_intervals([*others, *source("c", off=50.0)])
    mine = [[(r.low, r.high, r.promised) for r in rows if r.source == "c"] for rows in (honest, absurd)]
    assert mine[0] == mine[1]
    assert all(r.low < r.held_out < r.high and r.low < r.promised < r.high for r in honest)
