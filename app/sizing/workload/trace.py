"""Recorded traffic: arrival times and lengths of requests, and the busiest window that a search plans for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.assumptions import Assumed, Assumptions
from app.sizing.columns import Codes, Column
from app.sizing.workload.lengths import Lengths

MAX_BURSTINESS = 20.0


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Requests in order of arrival, one per row."""

    at_s: Column  # arrival time, s
    input_tokens: Codes  # prompt tokens
    output_tokens: Codes  # answer tokens
    prefix_tokens: Codes  # prompt tokens shared with the beginning of earlier requests

    def __len__(self) -> int:
        return len(self.at_s)

    @property
    def prompt_lengths(self) -> Lengths:
        return lengths_from_counts(self.input_tokens)

    @property
    def answer_lengths(self) -> Lengths:
        return lengths_from_counts(self.output_tokens)

    @property
    def longest_tokens(self) -> float:
        """Prompt and answer tokens of the longest request."""
        return float((self.input_tokens + self.output_tokens).max())

    @property
    def cached_fraction(self) -> float:
        """Share of all prompt tokens that is found in the prefix cache."""
        return float(self.prefix_tokens.sum() / self.input_tokens.sum())

    @property
    def duration_s(self) -> float:
        """Time from the first to the last arrival, in seconds."""
        return float(self.at_s[-1] - self.at_s[0])

    def scale_rate(self, times: float) -> Trace:
        """The same requests at a rate multiplied by `times`."""
        return Trace(self.at_s / times, self.input_tokens, self.output_tokens, self.prefix_tokens)

    def without_hits(self) -> Trace:
        """The same trace without prefix cache hits."""
        return Trace(self.at_s, self.input_tokens, self.output_tokens, np.zeros_like(self.prefix_tokens))


@dataclass(frozen=True, slots=True)
class BusiestWindow:
    """Rates and burstiness of a trace that a search plans for."""

    peak_per_s: float  # rate in the busiest window, requests/s
    average_per_s: float  # mean rate of the trace, requests/s
    burstiness: float  # coefficient of variation of the times between arrivals in the busiest window
    window_s: float  # length of the busiest window, s


def lengths_from_counts(tokens: Codes) -> Lengths:
    """Length distribution of recorded token counts."""
    values, times = np.unique(tokens, return_counts=True)
    return Lengths.from_histogram(values.tolist(), times.tolist())


def find_busiest_window(trace: Trace, assumed: Assumptions) -> BusiestWindow:
    """Find the busiest window of a trace. The window is at most as long as the trace."""
    least_s = Assumptions.allowed_range("trace_window_s")[0]
    window_s = max(least_s, min(assumed.trace_window_s, trace.duration_s))
    after = np.searchsorted(trace.at_s, trace.at_s + window_s, side="left")
    arrivals = after - np.arange(len(trace))
    busiest = int(np.argmax(arrivals))
    rate = float(arrivals[busiest]) / window_s
    whole = min((len(trace) - 1) / max(least_s, trace.duration_s), rate)
    return BusiestWindow(rate, whole, arrival_burstiness(trace.at_s[busiest : after[busiest]]), window_s)


def arrival_burstiness(at_s: Column) -> float:
    """Coefficient of variation of the times between arrivals; 1 (Poisson arrivals) if there are too few."""
    gaps = np.diff(at_s)
    if len(gaps) < 2 or gaps.mean() <= 0:
        return 1.0
    return float(np.minimum(gaps.std() / gaps.mean(), MAX_BURSTINESS))


def trace_assumptions(window: BusiestWindow, trace: Trace) -> tuple[Assumed, ...]:
    """Rates and burstiness of a trace, as an answer lists them."""
    reason, source = f"busiest {window.window_s:g} s of the trace", "trace"
    each = len(trace) / Assumptions.allowed_range("trace_window_s")[0]
    even = "variation of the times between arrivals in that window"
    hits = "share of prompt tokens found in the prefix cache"
    return (
        Assumed("peak_requests_per_s", window.peak_per_s, "1/s", reason, source, (window.average_per_s, each)),
        Assumed("burstiness", window.burstiness, "1", even, source, (0.0, MAX_BURSTINESS)),
        Assumed("cached_prefix_fraction", trace.cached_fraction, "1", hits, source, (0.0, 1.0)),
    )
