"""Recorded traffic: when requests came and how long they were, and what a search plans for of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.assumptions import Assumed, Assumptions
from app.sizing.columns import Codes, Column
from app.sizing.workload.lengths import Lengths

MOST_BURSTINESS = 20.0


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Requests in order of arrival, one per row."""

    at_s: Column
    input_tokens: Codes
    output_tokens: Codes
    prefix_tokens: Codes  # of a prompt, what earlier requests began with

    def __len__(self) -> int:
        return len(self.at_s)

    @property
    def prompts(self) -> Lengths:
        return counted(self.input_tokens)

    @property
    def answers(self) -> Lengths:
        return counted(self.output_tokens)

    @property
    def longest_tokens(self) -> float:
        """Prompt and answer of the longest request."""
        return float((self.input_tokens + self.output_tokens).max())

    @property
    def cached_fraction(self) -> float:
        """Share of all prompts that is found in the cache."""
        return float(self.prefix_tokens.sum() / self.input_tokens.sum())

    @property
    def duration_s(self) -> float:
        """From the first arrival to the last."""
        return float(self.at_s[-1] - self.at_s[0])

    def faster(self, times: float) -> Trace:
        """The same requests at so many times the rate."""
        return Trace(self.at_s / times, self.input_tokens, self.output_tokens, self.prefix_tokens)

    def without_hits(self) -> Trace:
        """The same where nothing of a prompt is found in the cache."""
        return Trace(self.at_s, self.input_tokens, self.output_tokens, np.zeros_like(self.prefix_tokens))


@dataclass(frozen=True, slots=True)
class Planned:
    """Rates and evenness of a trace as a search plans for them."""

    peak_per_s: float
    average_per_s: float
    burstiness: float  # in its busiest stretch
    stretch_s: float


def counted(tokens: Codes) -> Lengths:
    """The lengths of so many requests."""
    values, times = np.unique(tokens, return_counts=True)
    return Lengths.histogram(values.tolist(), times.tolist())


def planned(trace: Trace, assumed: Assumptions) -> Planned:
    """The busiest stretch of a trace, which is no longer than the trace itself."""
    least_s = Assumptions.bounds("trace_window_s")[0]
    stretch_s = max(least_s, min(assumed.trace_window_s, trace.duration_s))
    after = np.searchsorted(trace.at_s, trace.at_s + stretch_s, side="left")
    arrivals = after - np.arange(len(trace))
    busiest = int(np.argmax(arrivals))
    rate = float(arrivals[busiest]) / stretch_s
    whole = min((len(trace) - 1) / max(least_s, trace.duration_s), rate)
    return Planned(rate, whole, burstiness_of(trace.at_s[busiest : after[busiest]]), stretch_s)


def burstiness_of(at_s: Column) -> float:
    """Coefficient of variation of the times between arrivals; that of chance where there are too few."""
    gaps = np.diff(at_s)
    if len(gaps) < 2 or gaps.mean() <= 0:
        return 1.0
    return float(np.minimum(gaps.std() / gaps.mean(), MOST_BURSTINESS))


def rates_told(found: Planned, trace: Trace) -> tuple[Assumed, ...]:
    """What a trace is planned for, as an answer shows it."""
    reason, source = f"busiest {found.stretch_s:g} s of the trace", "trace"
    each = len(trace) / Assumptions.bounds("trace_window_s")[0]
    even = "times between arrivals vary so, in that stretch"
    return (
        Assumed("peak_requests_per_s", found.peak_per_s, "1/s", reason, source, (found.average_per_s, each)),
        Assumed("burstiness", found.burstiness, "1", even, source, (0.0, MOST_BURSTINESS)),
        Assumed("cached_prefix_fraction", trace.cached_fraction, "1", "of its prompts", source, (0.0, 1.0)),
    )
