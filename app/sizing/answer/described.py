"""Summary of one deployment: hardware and layout, whether it fits, performance and cost."""

from __future__ import annotations

from app.sizing.answer.money import describe_price
from app.sizing.answer.summary import describe_hardware, describe_layout, describe_workload
from app.sizing.question import Question
from app.sizing.result import Estimate, Performance, Ranked
from app.sizing.units import SECONDS_PER_DAY
from app.sizing.values.latencies import Percentiles
from app.sizing.words import format_distinct_numbers, format_duration, format_large_number, format_number, percent
from app.sizing.workload import InferenceWorkload, Load, TrainingWorkload

# Text of the maximum, by the quantity that a request maximizes.
MAXIMUM_TEXTS = {
    "parameters": "the largest model that fits",
    "sequence_length": "the longest sequences that fit",
    "micro_batch": "the largest micro-batch that fits",
}
SMALLEST_SHOWN_PROBABILITY = 0.005  # probabilities closer to 0 or 1 are not shown as a number


def describe_deployment(question: Question, ranked: Ranked) -> str:
    """Summary of one deployment in two to four sentences."""
    estimate, workload = ranked.estimate, question.workload
    if estimate.memory is None:
        return f"{describe_workload(workload)}. {estimate.explanation[0].text}"
    layout = "" if estimate.deployment.pools is not None else f": {describe_layout(ranked)}"
    taken = f"{describe_workload(workload)}{describe_maximum(estimate)} on {describe_hardware(ranked)}{layout}"
    if not estimate.fits or estimate.performance is None:
        priced = "" if estimate.cost is None else f" {describe_cost(estimate)}."
        reasons = {reason.code: reason.text for reason in estimate.explanation}
        return f"{taken}. {reasons.get('out_of_memory', estimate.explanation[0].text)}{priced}"
    if isinstance(workload, TrainingWorkload):
        done = describe_run(workload, estimate.performance)
    else:
        done = describe_service(workload, estimate.performance)
    return f"{taken}. It fits {done}.{describe_probability(estimate)} {describe_cost(estimate)}."


def describe_maximum(estimate: Estimate) -> str:
    """Largest value that fits, as part of a sentence; empty if the request did not ask for one."""
    if estimate.maximum is None:
        return ""
    value = f"{format_large_number(estimate.maximum.value)} {estimate.maximum.unit}"
    return f", with {MAXIMUM_TEXTS[estimate.maximum.quantity]} ({value}),"


def describe_cost(estimate: Estimate) -> str:
    """Cost of the deployment, where it is known."""
    priced = estimate.cost is not None and estimate.cost.usd_per_hour is not None
    return f"It costs {describe_price(estimate)}" if priced else "Its price is unknown"


def describe_run(workload: TrainingWorkload, speed: Performance) -> str:
    """Duration of a run compared with its deadline, as it follows "It fits"."""
    days, limit = speed.days or 0.0, workload.deadline_s / SECONDS_PER_DAY
    if days <= limit:
        return f"and takes {format_duration(days)}, within the deadline of {format_duration(limit)}"
    return f"but takes {format_duration(days)}, longer than the deadline of {format_duration(limit)}"


def describe_service(workload: InferenceWorkload, speed: Performance) -> str:
    """Capacity of a service and its latency, as it follows "It fits"."""
    unit = "samples" if workload.model.sample else "requests"
    capacity = speed.requests_per_s_capacity or speed.samples_per_s or 0.0
    if workload.load is Load.OFFLINE:
        return f"and serves {format_number(capacity)} {unit}/s"
    if workload.load is Load.OPEN and capacity < workload.peak_per_s * (1 - 1e-9):
        carried, requested = format_distinct_numbers(capacity, workload.peak_per_s)
        return f"but serves only {carried} of the requested {requested} {unit}/s within the limits"
    waits = describe_latencies(speed)
    if workload.load is Load.OPEN:
        return f"and serves up to {format_number(capacity)} {unit}/s within the limits. At peak, {waits}"
    return f"and serves {format_number(capacity)} {unit}/s. With this load, {waits}"


def describe_latencies(speed: Performance) -> str:
    """The first two known latencies, each with its median and its p95."""
    latencies = {"TTFT": speed.ttft, "TPOT": speed.tpot, "end-to-end latency": speed.e2e}
    waits = [f"{name} is {format_latency(times)}" for name, times in latencies.items() if times is not None]
    return " and ".join(waits[:2])


def format_latency(times: Percentiles) -> str:
    """Median and p95 in milliseconds, or in seconds from ten seconds up."""
    usual, tail = (
        "unbounded" if s is None else f"{format_number(s)} s" if s >= 10 else f"{format_number(s * 1e3)} ms"
        for s in (times.p50_s, times.p95_s)
    )
    return f"{usual} (p95 {tail})"


def describe_probability(estimate: Estimate) -> str:
    """Probability that the deployment meets every limit, or the deadline of work without other limits."""
    sure = estimate.assurance
    chance = None if sure is None else sure.meets_deadline if sure.meets_slo is None else sure.meets_slo
    if chance is None or chance < SMALLEST_SHOWN_PROBABILITY:
        return ""
    likely = "almost certain" if chance > 1 - SMALLEST_SHOWN_PROBABILITY else f"{percent(chance)} likely"
    return f" It is {likely} to meet {'the deadline' if sure is None or sure.meets_slo is None else 'every limit'}."
