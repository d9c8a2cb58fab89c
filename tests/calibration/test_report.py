"""Errors as they are reported: what is promised, what the pages quote, what intervals hold."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from app.calibration.__main__ import risen
from app.calibration.report import KINDS, headline, link_of, report_on, size_class, unexplained
from app.catalog.seed import data_text
from app.sizing.snapshot import Snapshot


def test_committed_errors_hold_what_is_promised(market: Snapshot) -> None:
    found = headline(market.evidence.rows)
    for kind, committed in json.loads(data_text("accuracy.json"))["headline"].items():
        assert found[kind] == pytest.approx(committed, abs=3e-4)
    assert found["throughput"]["held_out"] <= 0.20
    assert {k: v["in_sample"] <= 0.15 for k, v in found.items() if k in ("throughput", "tpot", "single_stream")} == {
        "throughput": True,
        "tpot": True,
        "single_stream": True,
    }
    assert found["ttft"]["in_sample"] <= 0.30
    worse = {k: {**v, "held_out": v["held_out"] * 1.2} for k, v in found.items()}
    assert len(risen(found, worse)) == len(found)
    assert risen(found, found) == []


def test_the_readme_quotes_the_committed_errors(market: Snapshot) -> None:
    said = re.findall(r"(\d+)\s+%\s+\((\d+)\s+%\)", (Path(__file__).parents[2] / "README.md").read_text())
    found = headline(market.evidence.rows)
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


def test_intervals_hold_four_fifths_of_unseen_sources(market: Snapshot) -> None:
    report = report_on(market.evidence.rows)
    for s in report.overall:
        assert 0.74 <= s.coverage <= 0.86, s.metric
    assert unexplained(report) == []
    assert [s.metric for s in report.overall] == list(KINDS)
    assert len(report.worst) == 20


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
