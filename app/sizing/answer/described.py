"""One deployment in two or three sentences: what it is, whether it fits, what it does, what it costs."""

from __future__ import annotations

from app.sizing.answer.money import price_words
from app.sizing.answer.summary import hardware_words, work_words
from app.sizing.question import Question
from app.sizing.result import Estimate, Performance, Ranked
from app.sizing.units import SECONDS_PER_DAY
from app.sizing.values.latencies import Percentiles
from app.sizing.words import apart, counted, figure, span
from app.sizing.workload import InferenceWorkload, Load, TrainingWorkload

LEAST_TOLD = 0.005  # probabilities nearer to none or to certainty are not told by a number


def described(question: Question, ranked: Ranked) -> str:
    """What somebody who asks about this deployment wants to know first."""
    found, workload = ranked.estimate, question.workload
    if found.memory is None:
        return f"{work_words(workload)}. {found.explanation[0].text}"
    layout = "" if found.deployment.pools is not None else f" {layout_words(found)}"
    taken = f"{work_words(workload)}, on {hardware_words(ranked)}{layout}"
    if not found.fits or found.performance is None:
        reasons = {reason.code: reason.text for reason in found.explanation}
        return f"{taken}. {reasons.get('out_of_memory', found.explanation[0].text)} {cost_words(found)}."
    if isinstance(workload, TrainingWorkload):
        done = run_words(workload, found.performance)
    else:
        done = service_words(workload, found.performance)
    return f"{taken}. It fits and {done}{sure_words(found)}. {cost_words(found)}."


def cost_words(found: Estimate) -> str:
    """What it costs, where that is known."""
    priced = found.cost is not None and found.cost.usd_per_hour is not None
    return f"It costs {price_words(found)}" if priced else "Its price is not known"


def layout_words(found: Estimate) -> str:
    """How the work lies on the hardware."""
    d = found.deployment
    if d.framework is not None:
        return f"({d.framework}, {counted(d.accelerators_per_replica or 0, 'accelerator')})"
    spare = f" and {d.spare_replicas} spare" if d.spare_replicas else ""
    size = d.accelerators_per_replica
    return f"as {counted(d.replicas or 0, 'replica')}{spare} of {size} in {d.weight_format} on {d.engine}"


def run_words(workload: TrainingWorkload, speed: Performance) -> str:
    """How long a run takes, beside its deadline."""
    days, limit = speed.days or 0.0, workload.deadline_s / SECONDS_PER_DAY
    return f"takes {span(days)}, {'within' if days <= limit else 'longer than'} the {span(limit)} it may take"


def service_words(workload: InferenceWorkload, speed: Performance) -> str:
    """What a service carries, or how quick it is with what is in flight."""
    unit = "samples" if workload.model.sample else "requests"
    capacity = speed.requests_per_s_capacity or speed.samples_per_s or 0.0
    if workload.load is Load.OFFLINE:
        return f"does {figure(capacity)} {unit}/s"
    if workload.load is Load.OPEN and capacity < workload.peak_per_s * (1 - 1e-9):
        carried, asked = apart(capacity, workload.peak_per_s)
        return f"carries {carried} of the {asked} {unit}/s asked for within the limits"
    waits = latency_words(speed)
    if workload.load is Load.OPEN:
        return f"carries up to {figure(capacity)} {unit}/s within the limits; at the peak {waits}"
    return f"does {figure(capacity)} {unit}/s; {waits}"


def latency_words(speed: Performance) -> str:
    """How long users wait, at the median and in the tail."""
    told = {"a first token": speed.ttft, "a further one": speed.tpot, "an answer": speed.e2e}
    waits = [f"{what} takes {wait_words(times)}" for what, times in told.items() if times is not None]
    return " and ".join(waits[:2])


def wait_words(times: Percentiles) -> str:
    """Milliseconds, or seconds from ten on."""
    usual, tail = (
        "ever longer" if s is None else f"{figure(s)} s" if s >= 10 else f"{figure(s * 1e3)} ms"
        for s in (times.p50_s, times.p95_s)
    )
    return f"{usual} (p95 {tail})"


def sure_words(found: Estimate) -> str:
    """How sure it is to do what was asked."""
    sure = found.assurance
    chance = None if sure is None else sure.meets_deadline if sure.meets_slo is None else sure.meets_slo
    if chance is None or chance < LEAST_TOLD:
        return ""
    told = "nearly certain" if chance > 1 - LEAST_TOLD else f"{chance:.0%} likely"
    return f" (what was asked is {told} to hold)"
