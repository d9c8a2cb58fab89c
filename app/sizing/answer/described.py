"""Summary of one deployment: hardware and layout, whether it fits, performance and cost."""

from __future__ import annotations

from app.sizing.answer.money import price_words
from app.sizing.answer.summary import hardware_words, layout_words, work_words
from app.sizing.question import Question
from app.sizing.result import Estimate, Performance, Ranked
from app.sizing.units import SECONDS_PER_DAY
from app.sizing.values.latencies import Percentiles
from app.sizing.words import format_distinct_numbers, figure, percent, span
from app.sizing.workload import InferenceWorkload, Load, TrainingWorkload

LEAST_TOLD = 0.005  # probabilities closer to 0 or 1 are not shown as a number


def describe_deployment(question: Question, ranked: Ranked) -> str:
    """Summary of one deployment in two to four sentences."""
    estimate, workload = ranked.estimate, question.workload
    if estimate.memory is None:
        return f"{work_words(workload)}. {estimate.explanation[0].text}"
    layout = "" if estimate.deployment.pools is not None else f": {layout_words(ranked)}"
    taken = f"{work_words(workload)} on {hardware_words(ranked)}{layout}"
    if not estimate.fits or estimate.performance is None:
        reasons = {reason.code: reason.text for reason in estimate.explanation}
        return f"{taken}. {reasons.get('out_of_memory', estimate.explanation[0].text)} {cost_words(estimate)}."
    if isinstance(workload, TrainingWorkload):
        done = run_words(workload, estimate.performance)
    else:
        done = service_words(workload, estimate.performance)
    return f"{taken}. It fits {done}.{sure_words(estimate)} {cost_words(estimate)}."


def cost_words(estimate: Estimate) -> str:
    """Cost of the deployment, where it is known."""
    priced = estimate.cost is not None and estimate.cost.usd_per_hour is not None
    return f"It costs {price_words(estimate)}" if priced else "Its price is unknown"


def run_words(workload: TrainingWorkload, speed: Performance) -> str:
    """Duration of a run compared with its deadline, as it follows "It fits"."""
    days, limit = speed.days or 0.0, workload.deadline_s / SECONDS_PER_DAY
    if days <= limit:
        return f"and takes {span(days)}, within the deadline of {span(limit)}"
    return f"but takes {span(days)}, longer than the deadline of {span(limit)}"


def service_words(workload: InferenceWorkload, speed: Performance) -> str:
    """Capacity of a service and its latency, as it follows "It fits"."""
    unit = "samples" if workload.model.sample else "requests"
    capacity = speed.requests_per_s_capacity or speed.samples_per_s or 0.0
    if workload.load is Load.OFFLINE:
        return f"and serves {figure(capacity)} {unit}/s"
    if workload.load is Load.OPEN and capacity < workload.peak_per_s * (1 - 1e-9):
        carried, requested = format_distinct_numbers(capacity, workload.peak_per_s)
        return f"but serves only {carried} of the requested {requested} {unit}/s within the limits"
    waits = latency_words(speed)
    if workload.load is Load.OPEN:
        return f"and serves up to {figure(capacity)} {unit}/s within the limits. At peak, {waits}"
    return f"and serves {figure(capacity)} {unit}/s. With this load, {waits}"


def latency_words(speed: Performance) -> str:
    """The first two known latencies, each with its median and its p95."""
    latencies = {"TTFT": speed.ttft, "TPOT": speed.tpot, "end-to-end latency": speed.e2e}
    waits = [f"{name} is {wait_words(times)}" for name, times in latencies.items() if times is not None]
    return " and ".join(waits[:2])


def wait_words(times: Percentiles) -> str:
    """Median and p95 in milliseconds, or in seconds from ten seconds up."""
    usual, tail = (
        "unbounded" if s is None else f"{figure(s)} s" if s >= 10 else f"{figure(s * 1e3)} ms"
        for s in (times.p50_s, times.p95_s)
    )
    return f"{usual} (p95 {tail})"


def sure_words(estimate: Estimate) -> str:
    """Probability that the deployment meets every limit, or the deadline of work without other limits."""
    sure = estimate.assurance
    chance = None if sure is None else sure.meets_deadline if sure.meets_slo is None else sure.meets_slo
    if chance is None or chance < LEAST_TOLD:
        return ""
    likely = "almost certain" if chance > 1 - LEAST_TOLD else f"{percent(chance)} likely"
    return f" It is {likely} to meet {'the deadline' if sure is None or sure.meets_slo is None else 'every limit'}."
