"""Recorded traffic: the planned rates and lengths, and the statistics of the trace."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import Unanswerable
from app.sizing.assumptions import Assumptions
from app.sizing.workload import (
    Arrivals,
    InferenceWorkload,
    Lengths,
    Load,
    PrefixHits,
    Trace,
    build_inference_workload,
    build_recorded_workload,
)
from app.sizing.workload.trace import arrival_burstiness, find_busiest_window
from tests.examples import CHAT, LLAMA_8B, registered

ASSUMED = Assumptions()


def trace_of(*rows: tuple[float, int, int, int]) -> Trace:
    at, read, made, prefix = zip(*rows, strict=True)
    return Trace(np.array(at, float), *(np.array(column, np.int64) for column in (read, made, prefix)))


def evenly(gap_s: float, count: int, start_s: float = 0.0) -> list[tuple[float, int, int, int]]:
    return [(start_s + i * gap_s, 100 + i % 5, 10 + i % 3, i % 7) for i in range(count)]


ROWS = st.lists(
    st.tuples(st.floats(0, 5000), st.integers(1, 3000), st.integers(1, 900), st.floats(0, 0.99)),
    min_size=2,
    max_size=60,
)


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    rows = sorted(draw(ROWS))
    return trace_of(*((at, read, made, int(share * read)) for at, read, made, share in rows))


@pytest.mark.parametrize("gap_s", [0.05, 0.5, 4.0])
def test_an_even_trace_has_its_own_rate_however_short_it_is(gap_s: float) -> None:
    for count in (50, 3000):
        found = find_busiest_window(trace_of(*evenly(gap_s, count)), ASSUMED)
        assert found.peak_per_s == pytest.approx(1 / gap_s, rel=0.02)
        assert found.average_per_s == pytest.approx(1 / gap_s, rel=0.02)
        assert found.burstiness == pytest.approx(0, abs=1e-6)


def test_a_trace_is_planned_for_its_busiest_minute() -> None:
    quiet, busy, later = evenly(10.0, 60), evenly(0.1, 600, start_s=1000.0), evenly(5.0, 100, start_s=1100.0)
    found = find_busiest_window(trace_of(*quiet, *busy, *later), ASSUMED)
    assert found.peak_per_s == pytest.approx(10, rel=1e-9)
    assert found.window_s == 60
    assert found.average_per_s == pytest.approx(759 / 1595)
    half = find_busiest_window(trace_of(*quiet, *busy, *later), ASSUMED.with_overrides({"trace_window_s": 120}))
    assert half.peak_per_s == pytest.approx((600 + 4) / 120)


def test_requests_that_come_at_once_are_a_second_of_traffic() -> None:
    found = find_busiest_window(trace_of(*((5.0, 100, 10, 0) for _ in range(30))), ASSUMED)
    assert (found.peak_per_s, found.window_s, found.burstiness) == (30, 1, 1)


def test_times_between_arrivals_tell_how_bursty_they_are() -> None:
    at_s = np.cumsum(np.random.default_rng(1).exponential(size=20_000))
    assert arrival_burstiness(at_s) == pytest.approx(1, rel=0.05)
    assert arrival_burstiness(at_s[:2]) == 1  # a single gap says nothing


@given(traces())
def test_a_trace_is_what_its_statistics_are(trace: Trace) -> None:
    found = build_recorded_workload(LLAMA_8B, trace, ASSUMED)
    rates = find_busiest_window(trace, ASSUMED)
    assert 0 < rates.average_per_s <= rates.peak_per_s
    values, counts = np.unique(trace.input_tokens, return_counts=True)
    answers, times = np.unique(trace.output_tokens, return_counts=True)
    said = build_inference_workload(
        LLAMA_8B,
        Arrivals(Load.OPEN, peak_per_s=rates.peak_per_s),
        ASSUMED,
        input_tokens=Lengths.from_histogram(values.tolist(), counts.tolist()),
        output_tokens=Lengths.from_histogram(answers.tolist(), times.tolist()),
        average_per_s=rates.average_per_s,
        burstiness=rates.burstiness,
        hits=PrefixHits(float(trace.prefix_tokens.sum() / trace.input_tokens.sum())),
        max_context_tokens=float((trace.input_tokens + trace.output_tokens).max()),
    )
    same = {f.name for f in fields(InferenceWorkload)} - {"trace", "derived"}
    assert {name: getattr(found, name) for name in same} == {name: getattr(said, name) for name in same}
    assert found.input_tokens.mean == pytest.approx(trace.input_tokens.mean())
    assert found.trace is trace
    assert {a.name for a in found.derived} - {a.name for a in said.derived} == {
        "peak_requests_per_s",
        "burstiness",
        "cached_prefix_fraction",
    }
    for a in found.derived:
        assert a.bounds is None or a.bounds[0] <= float(a.value) <= a.bounds[1]


@given(traces(), st.floats(0.2, 5))
def test_faster_and_without_hits(trace: Trace, times: float) -> None:
    workload = build_recorded_workload(LLAMA_8B, trace, ASSUMED)
    busier = workload.scale_load(times)
    assert busier.peak_per_s == times * workload.peak_per_s
    assert busier.trace is not None
    assert busier.trace.duration_s == pytest.approx(trace.duration_s / times, abs=1e-9)
    cold = workload.without_hits
    assert cold.trace is not None
    assert (cold.trace.cached_fraction, cold.cached_prefix_fraction) == (0, 0)


def test_twice_the_load_of_a_run_is_twice_of_all_of_it() -> None:
    run = replace(CHAT, load=Load.CLOSED, peak_per_s=0.0, in_flight=64.0, requests=640.0).scale_load(2.0)
    assert (run.in_flight, run.requests, run.trace) == (128, 1280, None)


@pytest.mark.parametrize(
    ("changed", "detail"),
    [
        ({"max_context_tokens": 100.0}, "smaller than the longest request of the trace, 116 tokens"),
        ({"average_per_s": 3.0}, "exceeds the trace's busiest window, 2 requests/s"),
        ({"turn_gap_s": 3.0}, "requires a trace with prefix_tokens"),
    ],
)
def test_what_contradicts_a_trace_is_refused(changed: dict[str, float], detail: str) -> None:
    trace = trace_of(*evenly(0.5, 50)).without_hits()
    with pytest.raises(Unanswerable, match=detail):
        build_recorded_workload(LLAMA_8B, trace, ASSUMED, **changed)  # type: ignore[arg-type]


def test_only_a_model_that_generates_needs_answers() -> None:
    silent = trace_of((0.0, 100, 0, 0), (1.0, 200, 0, 0))
    with pytest.raises(Unanswerable, match="at least one output token"):
        build_recorded_workload(LLAMA_8B, silent, ASSUMED)
    read = build_recorded_workload(registered("BAAI/bge-large-en-v1.5"), silent, ASSUMED)
    assert (read.output_tokens.mean, read.max_context_tokens) == (0, 200)
