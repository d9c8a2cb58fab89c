"""Workload from a recorded trace: the search plans for its busiest window, with the recorded lengths."""

from __future__ import annotations

from dataclasses import replace
from typing import TypedDict, Unpack

from app.errors import Unanswerable
from app.sizing.assumptions import Assumptions
from app.sizing.model.architecture import ModelArchitecture, ModelKind
from app.sizing.workload.inference import (
    Arrivals,
    InferenceWorkload,
    PrefixHits,
    Redundancy,
    Router,
    build_inference_workload,
    reject_long_context,
)
from app.sizing.workload.limits import Limits, Load
from app.sizing.workload.trace import Trace, find_busiest_window, trace_assumptions


class TraceOptions(TypedDict, total=False):
    """Parts of a workload that a trace does not contain."""

    limits: Limits | None
    redundancy: Redundancy | None
    availability_asked: frozenset[str]
    target_utilization: float | None
    router: Router | None


def build_recorded_workload(
    model: ModelArchitecture,
    trace: Trace,
    assumed: Assumptions,
    *,
    average_per_s: float | None = None,
    turn_gap_s: float | None = None,
    max_context_tokens: float | None = None,
    **options: Unpack[TraceOptions],
) -> InferenceWorkload:
    """A complete workload from a trace and the other parts of the request.

    Raises Unanswerable if they contradict one another.
    """
    window = find_busiest_window(trace, assumed)
    if model.kind is ModelKind.DECODER and trace.output_tokens.min() < 1:
        raise Unanswerable.at(
            "#/workload/traffic/trace",
            "Every request of the trace needs at least one output token: the model generates tokens.",
        )
    reject_long_context(model, trace.longest_tokens, "of its longest request", "traffic/trace")
    if max_context_tokens is not None and max_context_tokens < trace.longest_tokens:
        raise Unanswerable.at(
            "#/workload/max_context_tokens",
            f"max_context_tokens is smaller than the longest request of the trace, {trace.longest_tokens:,.0f} tokens.",
        )
    if average_per_s is not None and average_per_s > window.peak_per_s:
        raise Unanswerable.at(
            "#/workload/traffic/average_requests_per_s",
            f"average_requests_per_s exceeds the trace's busiest window, {window.peak_per_s:.4g} requests/s.",
        )
    if turn_gap_s is not None and not trace.cached_fraction:
        raise Unanswerable.at(
            "#/workload/traffic/turn_gap_s",
            "turn_gap_s requires a trace with prefix_tokens. Add prefix_tokens or omit turn_gap_s.",
        )
    workload = build_inference_workload(
        model,
        Arrivals(Load.OPEN, peak_per_s=window.peak_per_s, derived=trace_assumptions(window, trace)),
        assumed,
        input_tokens=trace.prompt_lengths,
        output_tokens=trace.answer_lengths,
        average_per_s=window.average_per_s if average_per_s is None else average_per_s,
        burstiness=window.burstiness,
        hits=PrefixHits(trace.cached_fraction, turn_gap_s=turn_gap_s),
        max_context_tokens=trace.longest_tokens if max_context_tokens is None else max_context_tokens,
        **options,
    )
    return replace(workload, trace=trace)
