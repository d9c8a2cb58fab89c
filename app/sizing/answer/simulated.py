"""Writes the results of the scheduler simulation into an estimate: queueing, the load curve and its limits."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from app.sizing.answer.money import finite_or_none
from app.sizing.columns import at
from app.sizing.formula import suspend_recording
from app.sizing.result import Performance, Reason
from app.sizing.serving.curves import AT_LIMIT, LATENCIES, STATISTICS, ClassCurve, Curve
from app.sizing.serving.finalists import SimulatedReplicas, load_per_replica
from app.sizing.serving.margins import Margins
from app.sizing.serving.options import PlanEvaluations
from app.sizing.serving.simulated import SEED
from app.sizing.serving.step import step_s
from app.sizing.units import SECONDS_PER_DAY
from app.sizing.values.latencies import ClassLatencies, LoadCurve, LoadPoint, Percentiles, Simulation
from app.sizing.words import format_count, format_duration, format_number, format_quantity
from app.sizing.workload import InferenceWorkload, Load, Slo

# Interpolated points of the curve: (index of the lower simulated load, share of the way to the next one).
INTERPOLATED_LOADS = ((0, 0.6), (1, 0.6), (3, 0.5))
MIN_LOADS_FOR_KNEE = 4  # simulated loads needed to report a knee
LONG_RUN_S = 120.0  # a run is reported in minutes, hours or days from this duration on
MIN_REPORTED_PREEMPTIONS = 0.01  # preemptions per request from which they are reported
CURVE_LATENCIES = ("ttft", "tpot", "queue")  # latencies that the load curve shows
LATENCY_NAMES = {"ttft": "TTFT", "tpot": "TPOT", "e2e": "end-to-end latency"}


def arrival_process(workload: InferenceWorkload) -> str:
    """Arrival process of a simulation, as the answer names it."""
    if workload.trace is not None:
        return "trace"
    if workload.load is Load.CLOSED:
        return "closed" if workload.requests is None else "burst"
    return "poisson" if workload.burstiness == 1 else "bursty"


def wait_percentiles(curve: Curve, wait: str, load: float) -> Percentiles:
    """Mean and percentiles of a latency at a load."""
    return Percentiles(*(finite_or_none(curve.wait_s(wait, statistic, load)) for statistic in STATISTICS))


def build_simulation(workload: InferenceWorkload, curve: Curve, load: float, replicas: float) -> Simulation:
    """Results of the scheduler simulation at the load of one replica; goodput is that of the whole deployment."""
    share = curve.interpolate_value(curve.goodput_share, load)
    return Simulation(
        requests=round(curve.interpolate_value(curve.requests, load)),
        seed=SEED,
        arrivals=arrival_process(workload),
        policy=curve.policy,
        inter_token=wait_percentiles(curve, "gap", load),
        queue=wait_percentiles(curve, "queue", load),
        mean_batch=curve.interpolate_proportional(curve.running, load),
        cache_occupancy=curve.interpolate_proportional(curve.cache_share, load),
        preemptions_per_request=curve.interpolate_value(curve.preempted, load),
        goodput_per_s=share * curve.answered_rate_per_s(load) * replicas,
        goodput_share=share,
    )


def build_class_waits(part: ClassCurve, load: float) -> ClassLatencies:
    """Latencies of one request class at the load of a replica, and the largest load within the limits of that class."""
    curve, most = part.curve, part.curve.load_within_limits(part.traffic_class.slo, Margins.without_margin(1), 0)
    first, token, whole = (wait_percentiles(curve, wait, load) for wait in LATENCIES)
    return ClassLatencies(
        part.traffic_class.name,
        first,
        token,
        whole,
        limits_met=load <= most,
        within_per_s=min(most, curve.stable_below),
    )


def build_load_curve(workload: InferenceWorkload, curve: Curve, replicas: float) -> LoadCurve:
    """Load curve of the whole deployment, from light load to collapse."""
    loads = curve.loads.tolist()
    if not curve.closed:
        loads += [float(loads[low] ** (1 - part) * loads[low + 1] ** part) for low, part in INTERPOLATED_LOADS]
    knee = curve.knee_load()
    return LoadCurve(
        points=tuple(build_load_point(workload, curve, load, replicas) for load in sorted(loads)),
        knee_per_s=replicas * (curve.answered_rate_per_s(knee) if curve.closed else knee),
    )


def build_load_point(workload: InferenceWorkload, curve: Curve, load: float, replicas: float) -> LoadPoint:
    """One point of the load curve: the whole deployment, with the same load on each replica.

    Above the stable load, latencies are those of the simulated period.
    """
    answered = replicas * curve.answered_rate_per_s(load)
    waits = {f"{w}_{s}_s": curve.simulated_wait_s(w, s, load) for w in CURVE_LATENCIES for s in ("p50", "p95")}
    return LoadPoint(
        requests_per_s=answered if curve.closed else replicas * load,
        in_flight=replicas * load if curve.closed else None,
        output_tokens_per_s=answered * workload.output_tokens.mean,
        goodput_share=curve.interpolate_value(curve.goodput_share, load),
        **waits,
    )


def with_simulation(
    workload: InferenceWorkload,
    performance: Performance,
    judged: PlanEvaluations[Any, Any, Any],
    simulated_replicas: SimulatedReplicas,
    row: int,
) -> Performance:
    """Performance with the results of the simulation and, for a run that ends, its total duration."""
    curve, replicas = simulated_replicas.curves[row], at(judged.fleet.replicas, row)
    load = at(load_per_replica(workload, judged.fleet.replicas), row)
    with suspend_recording():
        simulated = replace(
            performance,
            simulation=build_simulation(workload, curve, load, replicas),
            load_curve=build_load_curve(workload, curve, replicas) if workload.requests is None else None,
            by_class=tuple(build_class_waits(part, load) for part in curve.by_class),
        )
    if workload.requests is None:
        return simulated
    return replace(simulated, days=workload.requests / (replicas * curve.answered_rate_per_s(load)) / SECONDS_PER_DAY)


def load_text(workload: InferenceWorkload, load: float) -> str:
    """Load on each replica, as text."""
    if workload.load is Load.OPEN:
        return f"{format_quantity(load, 'request')}/s per replica"
    return f"{format_count(load, 'request')} in flight per replica"


def simulation_reasons(
    workload: InferenceWorkload, judged: PlanEvaluations[Any, Any, Any], simulated_replicas: SimulatedReplicas, row: int
) -> Iterator[Reason]:
    """Sentences about a simulation: latency limits, the knee, preemptions, the server process and the duration."""
    curve, load = simulated_replicas.curves[row], at(load_per_replica(workload, judged.fleet.replicas), row)
    with suspend_recording():
        yield from class_limit_reasons(workload, curve, load)
        yield from knee_reasons(workload, curve, load)
        yield from scheduler_delay_reasons(judged, curve, load, row)
    if workload.requests is not None:
        yield run_reason(
            workload.requests, workload.requests / (at(judged.fleet.replicas, row) * curve.answered_rate_per_s(load))
        )


def run_reason(requests: float, seconds: float) -> Reason:
    """Sentence about the duration of a run that ends."""
    lasts = f"{format_number(seconds)} s" if seconds < LONG_RUN_S else format_duration(seconds / SECONDS_PER_DAY)
    text = f"The deployment answers the {format_count(requests, 'request')} of the run in {lasts}."
    return Reason("run", text, "duration_s", seconds, "s")


def class_limit_reasons(workload: InferenceWorkload, curve: Curve, load: float) -> Iterator[Reason]:
    """Sentences about every latency that has a limit; each request class is compared with its own limits."""
    if not curve.by_class:
        yield from latency_limit_reasons(workload, workload.slo, curve, load)
    for part in curve.by_class:
        for reason in latency_limit_reasons(workload, part.traffic_class.slo, part.curve, load):
            yield replace(reason, text=f"{part.traffic_class.name}: {reason.text}")


def latency_limit_reasons(workload: InferenceWorkload, slo: Slo, curve: Curve, load: float) -> Iterator[Reason]:
    """Sentences about every latency that these limits name."""
    for name, short in LATENCY_NAMES.items():
        limit_s, value = getattr(slo, f"{name}_s"), curve.wait_s(name, AT_LIMIT, load)
        if limit_s is None or not math.isfinite(value):
            continue
        most = curve.load_at_limit(curve.statistic_s(name, AT_LIMIT), limit_s)
        never = most <= 0 or most >= min(curve.stable_below, float(curve.loads[-1]))
        unit = "requests/s" if workload.load is Load.OPEN else "requests in flight"
        passes = "" if never else f" It exceeds the limit above {format_number(most)} {unit} per replica."
        text = (
            f"p{slo.percentile:g} {short} is {value * 1e3:,.0f} ms (limit {limit_s * 1e3:,.0f} ms) at "
            f"{load_text(workload, load)}.{passes}"
        )
        yield Reason(f"{name}_ms", text, f"{name}_ms", value * 1e3, "ms")


def knee_reasons(workload: InferenceWorkload, curve: Curve, load: float) -> Iterator[Reason]:
    """Sentence about the knee: the load above which waiting grows faster than throughput."""
    if len(curve.loads) < MIN_LOADS_FOR_KNEE or workload.requests is not None:
        return
    knee = curve.knee_load()
    unit = "requests/s" if workload.load is Load.OPEN else "requests in flight"
    where = (
        f"{format_number(knee)} {unit}" if workload.load is Load.OPEN else f"{format_count(knee, 'request')} in flight"
    )
    text = (
        f"Waiting times start to climb above {where} per replica (planned: {format_number(load)}). Beyond that, p95 "
        "TTFT grows faster than throughput."
    )
    yield Reason("knee", text, "knee", knee, unit)


def scheduler_delay_reasons(
    judged: PlanEvaluations[Any, Any, Any], curve: Curve, load: float, row: int
) -> Iterator[Reason]:
    """Sentences about preemptions, and about a server process that streams tokens more slowly than the device."""
    preempted = curve.interpolate_value(curve.preempted, load)
    if preempted >= MIN_REPORTED_PREEMPTIONS:
        text = (
            f"The KV cache is full at times: the scheduler preempts and recomputes {format_number(preempted * 100)} "
            "of 100 "
            "requests."
        )
        yield Reason("preemptions", text, "preemptions_per_request", preempted, "1/request")
    only, batch = np.array([row]), max(curve.interpolate_proportional(curve.running, load), 1.0)
    terms = judged.speed.step.take(only)
    batch /= at(terms.data_parallel, 0)
    handed = batch * at(terms.stream_token_s, 0)
    if handed > 0 and handed >= at(step_s(terms, np.array([batch])), 0) * (1 - 1e-9):
        text = (
            f"Streaming {format_quantity(batch, 'token')} per step to clients takes the server process "
            f"{format_number(handed * 1e3)} ms, longer than the accelerator's step."
        )
        yield Reason("server", text, "ms_per_step", handed * 1e3, "ms")
