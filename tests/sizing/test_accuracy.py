"""Reported errors: promises, quotes in the pages, coverage of intervals."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from app.catalog.files import read_data_file
from app.sizing.accuracy import (
    QUANTITIES,
    headline_figures,
    imprecise_slices,
    interval_quality,
    link_of,
    misses_interval_target,
    reason_of,
    report_on,
    size_class,
    slice_of,
    unexplained_slices,
)
from app.sizing.evidence import lower_is_better
from app.sizing.snapshot import Catalog
from tests.sizing.published import result


def test_committed_errors_keep_the_promises(catalog: Catalog) -> None:
    found = headline_figures(catalog.evidence.rows)
    for kind, committed in json.loads(read_data_file("accuracy.json"))["headline"].items():
        assert found[kind] == pytest.approx(
            committed, abs=2e-3
        )  # two rows of 918 at the edge of their rounded intervals
    assert found["throughput"]["held_out"] <= 0.20
    assert {k: v["in_sample"] <= 0.15 for k, v in found.items() if k in ("throughput", "tpot", "single_stream")} == {
        "throughput": True,
        "tpot": True,
        "single_stream": True,
    }
    assert found["ttft"]["in_sample"] <= 0.30


def test_the_limits_quote_the_committed_errors(catalog: Catalog) -> None:
    said = re.findall(r"(\d+)\s+%\s+\((\d+)\s+%\)", (Path(__file__).parents[2] / "docs" / "limits.md").read_text())
    found = headline_figures(catalog.evidence.rows)
    shown = [
        found[k]
        for k in (
            "throughput",
            "tpot",
            "ttft",
            "single_stream",
            "prefill",
            "training",
            "training_samples",
            "training_memory",
        )
    ]
    assert said == [(f"{100 * f['held_out']:.0f}", f"{100 * f['in_sample']:.0f}") for f in shown]


# Requirements on intervals for sources that no fit has seen: minimum and maximum of the shares inside and kept, and
# the maximum of the median of high/low. Targets: 75 to 90 %, 2.5, for TTFT 6 and for memory 1.5; looser values miss
# the target so far. For TTFT 0.65 are kept with the layouts that no fit uses (67 rows of split pools among them),
# 0.71 of the fitted ones: with fewer errors the intervals are narrower, and 622 of 1,090 are InferenceX's, which start
# every slot at once. Errors of static batches, half of what they were, no longer widen throughput and TPOT.
HELD = {
    "throughput": (0.71, 0.90, 2.5),
    "single_stream": (0.72, 0.90, 2.5),
    "tpot": (0.74, 0.90, 2.5),
    "ttft": (0.65, 0.90, 7.5),
    "training": (0.75, 0.90, 2.5),
    "training_samples": (0.74, 0.90, 2.5),
    "training_memory": (0.75, 0.90, 1.9),
}


def test_intervals_and_promises_hold_for_unseen_sources_and_are_sharp(catalog: Catalog) -> None:
    report = report_on(catalog.evidence.rows)
    held = {s.metric: s.intervals for s in report.overall}
    for quantity, (least, most, widest) in HELD.items():
        assert least <= held[quantity].coverage <= most, quantity
        assert least <= held[quantity].kept <= most, quantity
        assert held[quantity].width <= widest, quantity
    fitted = report_on([row for row in catalog.evidence.rows if not row.excluded])
    assert next(s.intervals.kept for s in fitted.overall if s.metric == "ttft") >= 0.70
    assert unexplained_slices(report) == []
    assert [f"{s.metric} {s.value}" for s in imprecise_slices(report) if reason_of(s) is None] == []
    assert [s.metric for s in report.overall] == list(QUANTITIES)
    assert len(report.worst) == 20


def test_kept_promises_are_counted_by_hand() -> None:
    # of 50 to 200, planned with 80: inside and kept; inside and not kept; outside and kept; a time of 90, not kept
    rows = [result("1", 100.0), result("2", 60.0), result("3", 400.0), result("4", 90.0, metric="tpot_s")]
    found = interval_quality(rows)
    assert (found.coverage, found.kept) == (0.75, 0.5)
    assert found.width == pytest.approx(4.0)
    # log 4 wide, and one of four is log 2 outside: 10 * log 2 / 4
    assert found.score == pytest.approx(math.log(4) + 2.5 * math.log(2))


def test_intervals_fall_short_that_hold_too_few_or_too_many_or_are_too_wide() -> None:
    inside, outside = result("1", 100.0), result("2", 400.0)
    assert not misses_interval_target(slice_of("prefill", "apple", [inside] * 4 + [outside]))
    assert misses_interval_target(slice_of("prefill", "apple", [inside] * 2 + [outside]))
    assert misses_interval_target(slice_of("prefill", "apple", [inside] * 20 + [outside]))
    # high over low is 4: too wide for throughput (2.5), not for the first token (6)
    assert misses_interval_target(slice_of("throughput", "apple", [inside] * 4 + [outside]))
    assert not misses_interval_target(slice_of("ttft", "apple", [inside] * 4 + [outside]))
    asked = slice_of("tpot", "nvidia_hopper", [inside])
    assert reason_of(asked) != reason_of(replace(asked, metric="throughput"))
    assert reason_of(replace(asked, value="no_such")) is None


def test_every_prediction_stands_in_its_interval(catalog: Catalog) -> None:
    for r in catalog.evidence.rows:
        assert r.low < r.held_out < r.high, r.measurement
        assert r.low < r.promised < r.high, r.measurement
        assert (r.promised > r.held_out) == lower_is_better(r.metric), r.measurement


def test_references_to_repositories_become_links() -> None:
    assert link_of("a/b-c:docs/x y.md@0f45") is None
    assert (
        link_of("NVIDIA/TensorRT-LLM:docs/perf.md@0f45ab")
        == "https://github.com/NVIDIA/TensorRT-LLM/blob/0f45ab/docs/perf.md"
    )
    assert link_of("github.com/vllm-project/vllm/issues/10517") == "https://github.com/vllm-project/vllm/issues/10517"
    assert link_of("a page of text") is None


def test_model_sizes_are_classed() -> None:
    assert [size_class(p) for p in (1e9, 8e9, 32e9, 70e9, 235e9, 671e9)] == [
        "under 3B",
        "3B-10B",
        "10B-40B",
        "40B-100B",
        "100B-250B",
        "250B and more",
    ]
