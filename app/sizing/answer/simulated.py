"""What an answer says of a simulation: the scheduler at the load, the curve around it, and where limits are passed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from app.sizing.answer.money import finite
from app.sizing.columns import at
from app.sizing.formula import unrecorded
from app.sizing.result import Performance, Reason
from app.sizing.serving.curves import AT_LIMIT, LATENCIES, STATISTICS, ClassCurve, Curve
from app.sizing.serving.finalists import AsRun, loads_of
from app.sizing.serving.margins import Margins
from app.sizing.serving.options import Judged
from app.sizing.serving.simulated import SEED
from app.sizing.serving.step import step_s
from app.sizing.units import SECONDS_PER_DAY
from app.sizing.values.latencies import ClassWaits, LoadCurve, LoadPoint, Percentiles, Simulation
from app.sizing.words import counted, figure, measured, span
from app.sizing.workload import InferenceWorkload, Load, Slo

# Loads of the curve that are shown beside those that were simulated, as parts of the way between two of these.
SHOWN_BETWEEN = ((0, 0.6), (1, 0.6), (3, 0.5))
FEWEST_LOADS = 4  # that a knee is seen in
LONG_S = 120.0  # from which a run is told in minutes
LEAST_PREEMPTED = 0.01  # of a request, from which it is told
CURVED = ("ttft", "tpot", "queue")  # waits that a curve tells
SHORT = {"ttft": "TTFT", "tpot": "TPOT", "e2e": "whole request"}


def arrivals_of(workload: InferenceWorkload) -> str:
    """How the requests of a simulation arrive."""
    if workload.trace is not None:
        return "trace"
    if workload.load is Load.CLOSED:
        return "closed" if workload.requests is None else "burst"
    return "poisson" if workload.burstiness == 1 else "bursty"


def percentiles_at(curve: Curve, wait: str, load: float) -> Percentiles:
    """Mean and percentiles of a wait at a load."""
    return Percentiles(*(finite(curve.wait_s(wait, statistic, load)) for statistic in STATISTICS))


def simulation_of(workload: InferenceWorkload, curve: Curve, load: float, replicas: float) -> Simulation:
    """What the scheduler did at a replica's load."""
    share = curve.level(curve.goodput_share, load)
    return Simulation(
        requests=round(curve.level(curve.requests, load)),
        seed=SEED,
        arrivals=arrivals_of(workload),
        policy=curve.policy,
        inter_token=percentiles_at(curve, "gap", load),
        queue=percentiles_at(curve, "queue", load),
        mean_batch=curve.share_of_load(curve.running, load),
        cache_occupancy=curve.share_of_load(curve.cache_share, load),
        preemptions_per_request=curve.level(curve.preempted, load),
        goodput_per_s=share * curve.answered(load) * replicas,
        goodput_share=share,
    )


def class_waits(part: ClassCurve, load: float) -> ClassWaits:
    """What one class waits for at a replica's load, and up to which load it is within its limits."""
    curve, most = part.curve, part.curve.most_within(part.of.slo, Margins.none(1), 0)
    first, token, whole = (percentiles_at(curve, wait, load) for wait in LATENCIES)
    return ClassWaits(
        part.of.name, first, token, whole, limits_met=load <= most, within_per_s=min(most, curve.stable_below)
    )


def load_curve_of(workload: InferenceWorkload, curve: Curve, replicas: float) -> LoadCurve:
    """A whole deployment from light load to collapse."""
    loads = curve.loads.tolist()
    if not curve.closed:
        loads += [float(loads[low] ** (1 - part) * loads[low + 1] ** part) for low, part in SHOWN_BETWEEN]
    knee = curve.knee()
    return LoadCurve(
        points=tuple(point_of(workload, curve, load, replicas) for load in sorted(loads)),
        knee_per_s=replicas * (curve.answered(knee) if curve.closed else knee),
    )


def point_of(workload: InferenceWorkload, curve: Curve, load: float, replicas: float) -> LoadPoint:
    """A whole deployment whose replicas get a load each; beyond what they can do, as long as it was simulated."""
    answered = replicas * curve.answered(load)
    waits = {f"{w}_{s}_s": curve.simulated_s(w, s, load) for w in CURVED for s in ("p50", "p95")}
    return LoadPoint(
        requests_per_s=answered if curve.closed else replicas * load,
        in_flight=replicas * load if curve.closed else None,
        output_tokens_per_s=answered * workload.output_tokens.mean,
        goodput_share=curve.level(curve.goodput_share, load),
        **waits,
    )


def with_simulation(
    workload: InferenceWorkload, performance: Performance, judged: Judged[Any, Any, Any], runs: AsRun, row: int
) -> Performance:
    """Performance with what was simulated; of a run that ends also how long all of it takes."""
    curve, replicas = runs.curves[row], at(judged.fleet.replicas, row)
    load = at(loads_of(workload, judged.fleet.replicas), row)
    with unrecorded():
        found = replace(
            performance,
            simulation=simulation_of(workload, curve, load, replicas),
            load_curve=load_curve_of(workload, curve, replicas) if workload.requests is None else None,
            by_class=tuple(class_waits(part, load) for part in curve.by_class),
        )
    if workload.requests is None:
        return found
    return replace(found, days=workload.requests / (replicas * curve.answered(load)) / SECONDS_PER_DAY)


def load_words(workload: InferenceWorkload, load: float) -> str:
    """What each replica gets."""
    if workload.load is Load.OPEN:
        return f"{measured(load, 'request')}/s per replica"
    return f"{counted(load, 'request')} in flight per replica"


def reasons_of_run(
    workload: InferenceWorkload, judged: Judged[Any, Any, Any], runs: AsRun, row: int
) -> Iterator[Reason]:
    """Latencies at the load beside their limits, where these are passed, where the knee is, and what the scheduler or
    the server in front of it is held up by.
    """
    curve, load = runs.curves[row], at(loads_of(workload, judged.fleet.replicas), row)
    with unrecorded():
        yield from limits_of_run(workload, curve, load)
        yield from knee_of_run(workload, curve, load)
        yield from held_up(judged, curve, load, row)
    if workload.requests is not None:
        yield run_reason(workload.requests, workload.requests / (at(judged.fleet.replicas, row) * curve.answered(load)))


def run_reason(requests: float, seconds: float) -> Reason:
    """How long a run that ends takes."""
    lasts = f"{figure(seconds)} s" if seconds < LONG_S else span(seconds / SECONDS_PER_DAY)
    text = f"All {counted(requests, 'request')} of the run are answered after {lasts}."
    return Reason("run", text, "duration_s", seconds, "s")


def limits_of_run(workload: InferenceWorkload, curve: Curve, load: float) -> Iterator[Reason]:
    """Every latency that has a limit; of several classes each beside its own."""
    if not curve.by_class:
        yield from limits_beside(workload, workload.slo, curve, load)
    for part in curve.by_class:
        for reason in limits_beside(workload, part.of.slo, part.curve, load):
            yield replace(reason, text=f"{part.of.name}: {reason.text}")


def limits_beside(workload: InferenceWorkload, slo: Slo, curve: Curve, load: float) -> Iterator[Reason]:
    """Every latency that these limits name."""
    for name, short in SHORT.items():
        limit_s, value = getattr(slo, f"{name}_s"), curve.wait_s(name, AT_LIMIT, load)
        if limit_s is None or not math.isfinite(value):
            continue
        most = curve.crossing(curve.of(name, AT_LIMIT), limit_s)
        never = most <= 0 or most >= min(curve.stable_below, float(curve.loads[-1]))
        passes = "" if never else f"; it passes the limit at {figure(most)}"
        text = (
            f"p{slo.percentile:g} {short} {value * 1e3:,.0f} ms of {limit_s * 1e3:,.0f} allowed at "
            f"{load_words(workload, load)}{passes}."
        )
        yield Reason(f"{name}_ms", text, f"{name}_ms", value * 1e3, "ms")


def knee_of_run(workload: InferenceWorkload, curve: Curve, load: float) -> Iterator[Reason]:
    """From where waiting grows faster than throughput."""
    if len(curve.loads) < FEWEST_LOADS or workload.requests is not None:
        return
    knee = curve.knee()
    unit = "requests/s" if workload.load is Load.OPEN else "requests in flight"
    where = f"{figure(knee)} {unit}" if workload.load is Load.OPEN else f"{counted(knee, 'request')} in flight"
    text = (
        f"From {where} per replica on, p95 of the first token grows faster than throughput; the load is {figure(load)}."
    )
    yield Reason("knee", text, "knee", knee, unit)


def held_up(judged: Judged[Any, Any, Any], curve: Curve, load: float, row: int) -> Iterator[Reason]:
    """Sequences that lose their room in the cache, and a server that hands tokens out more slowly than they come."""
    preempted = curve.level(curve.preempted, load)
    if preempted >= LEAST_PREEMPTED:
        text = f"The cache is full at times: {figure(preempted * 100)} of 100 requests lose their room and are redone."
        yield Reason("preemptions", text, "preemptions_per_request", preempted, "1/request")
    only, batch = np.array([row]), max(curve.share_of_load(curve.running, load), 1.0)
    terms = judged.speed.step.take(only)
    batch /= at(terms.data_parallel, 0)
    handed = batch * at(terms.stream_token_s, 0)
    if handed > 0 and handed >= at(step_s(terms, np.array([batch])), 0) * (1 - 1e-9):
        text = (
            f"Handing {figure(batch)} tokens a step to their clients takes the server's process {figure(handed * 1e3)} "
            "ms, longer than the accelerator's work."
        )
        yield Reason("server", text, "ms_per_step", handed * 1e3, "ms")
