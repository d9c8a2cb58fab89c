"""Writes token streams into an estimate: memory, performance, bottleneck, and the results of the simulation."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from app.sizing.answer.confidence import Certainty, clip_interval
from app.sizing.answer.money import finite_or_none
from app.sizing.answer.parts_words import host_memory_fields, share_on_host
from app.sizing.assumptions import Assumptions
from app.sizing.columns import GIB, ROUNDING, SECONDS_PER_DAY, Column, at
from app.sizing.formula import suspend_recording
from app.sizing.hardware.engines.record import SchedulerSettings
from app.sizing.result import (
    ClassLatencies,
    DeviceMemory,
    Interval,
    LoadCurve,
    LoadPoint,
    Percentiles,
    Performance,
    PrefixCache,
    Reason,
    Simulation,
)
from app.sizing.serving.capacity import StreamOperatingPoint, StreamSpeed
from app.sizing.serving.finalists import SimulatedReplicas, load_per_replica
from app.sizing.serving.interfaces import QUANTILES, HardwareBound, OperatingPoint
from app.sizing.serving.load_curves import (
    AT_LIMIT,
    LATENCIES,
    MIN_LOADS_FOR_KNEE,
    SEED,
    STATISTICS,
    ClassCurve,
    Curve,
    deployed_scheduler,
)
from app.sizing.serving.margins import Margins, spread_names
from app.sizing.serving.memory import ServingMemory
from app.sizing.serving.options import PlanEvaluations, throughput_per_s
from app.sizing.serving.plans import KV_NAMES
from app.sizing.serving.prefix_capacity import prefix_cache_reports
from app.sizing.serving.step import host_part_s, linear_s, micro_batch, multiply_and_read_s, step_s
from app.sizing.words import format_count, format_duration, format_number, format_quantity
from app.sizing.workload import InferenceWorkload, Load, Slo

# Interpolated points of the curve: (index of the lower simulated load, share of the way to the next one).
INTERPOLATED_LOADS = ((0, 0.6), (1, 0.6), (3, 0.5))
LONG_RUN_S = 120.0  # a run is reported in minutes, hours or days from this duration on
STRAGGLER_SHARE = 0.3  # share of a run from which its longest answer is named
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
    curve = part.curve
    most = at(curve.load_within_limits(part.traffic_class.slo, Margins.without_margin(1)), 0)
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
    shows_curve = workload.requests is None and curve.is_whole
    with suspend_recording():
        simulated = replace(
            performance,
            simulation=build_simulation(workload, curve, load, replicas),
            load_curve=build_load_curve(workload, curve, replicas) if shows_curve else None,
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
        lasts = workload.requests / (at(judged.fleet.replicas, row) * curve.answered_rate_per_s(load))
        yield run_reason(workload.requests, lasts)
        yield from longest_answer_reasons(workload, curve.wait_s("tpot", "mean", load), lasts)


def longest_answer_reasons(workload: InferenceWorkload, tpot_s: float, lasts_s: float) -> Iterator[Reason]:
    """Sentence about the longest answer of a run that ends, where it takes a large share of the run."""
    assert workload.requests is not None
    tokens = workload.output_tokens.quantile(100 * (1 - 0.5 / workload.requests))
    alone_s = tokens * tpot_s
    if alone_s < STRAGGLER_SHARE * lasts_s:
        return
    text = (
        f"The longest answer has about {format_number(tokens)} tokens. At the speed of a full batch it takes "
        f"{format_number(alone_s)} s, so the batch is nearly empty at the end of the run. Set `output_tokens.max` if "
        "answers are shorter."
    )
    yield Reason("longest_answer", text, "duration_s", alone_s, "s")


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
        most = at(curve.load_at_limit(curve.statistic_s(name, AT_LIMIT)[None], limit_s), 0)
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
            f"The KV cache is full at times: the scheduler preempts and recomputes {format_number(preempted * 100)} of "
            "100 requests."
        )
        yield Reason("preemptions", text, "preemptions_per_request", preempted, "1/request")
    only, batch = np.array([row]), max(curve.interpolate_proportional(curve.running, load), 1.0)
    terms = judged.speed.step.take(only)
    batch /= at(terms.data_parallel, 0)
    handed = batch * at(terms.stream_token_s, 0)
    if handed > 0 and handed >= at(step_s(terms, np.array([batch])), 0) * (1 - ROUNDING):
        text = (
            f"Streaming {format_quantity(batch, 'token')} per step to clients takes the server process "
            f"{format_number(handed * 1e3)} ms, longer than the accelerator's step."
        )
        yield Reason("server", text, "ms_per_step", handed * 1e3, "ms")


JudgedStreams = PlanEvaluations[ServingMemory, StreamSpeed, StreamOperatingPoint]


def latency_percentiles(operation: OperatingPoint, quantity: str, row: int) -> Percentiles:
    """Mean and percentiles of one latency in a row."""
    shown = ("mean", *(f"p{q:.0f}" for q in QUANTILES))
    return Percentiles(*(finite_or_none(at(getattr(operation, f"{quantity}_{s}_s"), row)) for s in shown))


def replica_utilization(judged: PlanEvaluations[Any, Any, Any], row: int) -> float | None:
    """Utilization of a replica at the load; None where it has no capacity within the limits."""
    return at(judged.operation.utilization, row) if judged.speed.has_capacity[row] else None


class TokenAnswerWriter:
    """Writes a row of a table of token streams into an estimate."""

    latencies = (("ttft", "TTFT"), ("tpot", "TPOT"), ("e2e", "end-to-end latency"))

    def engine_settings(self, workload: InferenceWorkload, judged: JudgedStreams, row: int) -> Mapping[str, Any]:
        """Engine settings that a deployment echoes in addition to those of every serving mode.

        A plan that does not fit reports 0 for the weights on the host.
        """
        nothing = None if judged.memory.fits[row] else 0.0
        return {
            "kv_format": KV_NAMES[int(judged.plans.kv[row])] if workload.model.attention else None,
            "max_batched_tokens": int(at(judged.memory.max_batched_tokens, row)),
            "weights_on_host": share_on_host(judged.plans, row) or nothing,
            "scheduler": self.scheduler_settings(workload, judged, row),
        }

    def scheduler_settings(self, workload: InferenceWorkload, judged: JudgedStreams, row: int) -> SchedulerSettings:
        """Scheduler settings of a row, except max_batch and max_batched_tokens, which the deployment has itself.

        The prefix cache is on where the workload counts on cache hits.
        """
        own = deployed_scheduler(judged.plans, judged.memory, row).to_settings
        keeps = bool(own.prefix_cache) or workload.cached_prefix_fraction > 0
        return replace(own, max_sequences=None, max_batched_tokens=None, prefix_cache=keeps)

    def device_memory(self, workload: InferenceWorkload, judged: JudgedStreams, row: int) -> DeviceMemory:
        """Memory of a row. The KV cache fills the memory that remains."""
        memory = judged.memory
        pool, ranks = at(memory.kv_pool_bytes, row), at(judged.plans.data_parallel, row)
        request, longest = at(memory.cache_bytes_per_sequence, row), at(memory.longest_sequence_bytes, row)
        # Servers report their longest sequences times their length. A small engine is started with a size that leaves
        # room for the windows of every sequence.
        per_token, windows = longest / workload.max_context_tokens, 0.0
        more_tokens = workload.max_context_tokens - workload.tokens_per_request
        if judged.plans.small_engine[row] and longest > request and more_tokens > 0:
            per_token = (longest - request) / more_tokens
            windows = at(memory.sequences, row) * (request - per_token * workload.tokens_per_request)
        sessions, waiting = idle_session_memory(judged, row)
        return DeviceMemory(
            weights_bytes=at(memory.weights_bytes, row),
            kv_cache_bytes=pool,
            activation_bytes=at(memory.activation_bytes, row),
            overhead_bytes=at(memory.overhead_bytes, row),
            gradient_bytes=0.0,
            optimizer_bytes=0.0,
            capacity_bytes=at(memory.capacity_bytes, row),
            usable_bytes=at(memory.usable_bytes, row),
            kv_cache_tokens=math.floor(ranks * max(0.0, pool - windows) / per_token) if per_token > 0 else None,
            max_concurrent_sequences=math.floor(ranks * max(0.0, pool - waiting) / longest) if longest > 0 else None,
            prefix_cache_bytes=waiting or None,
            idle_sessions=sessions or None,
            request_cache_bytes=request / ranks,
            **host_memory_fields(judged, row),
        )

    def serving_performance(
        self,
        workload: InferenceWorkload,
        judged: JudgedStreams,
        row: int,
        certainty: Certainty,
        ideal: HardwareBound,
        *,
        cold_start_s: float,
    ) -> Performance:
        """Speed of the whole deployment in a row; spare replicas do not serve."""
        operation, speed = judged.operation, judged.speed
        replicas = at(judged.fleet.replicas, row)
        requests = at(throughput_per_s(workload, judged.options), row)
        output = requests * workload.output_tokens.mean
        prompt = at(speed.prefill.new_tokens, row)
        offline = workload.load is Load.OFFLINE
        most = replicas * at(ideal.rate_per_s, row) * workload.output_tokens.mean
        rated = certainty.predict_interval("output_tokens_per_s", output, spread_names(workload)[0])
        return Performance(
            interval=clip_interval(rated, output, most=most),
            intervals=self.latency_intervals(workload, operation, row, certainty, ideal),
            basis=certainty.evidence_basis,
            sources=certainty.source_count,
            output_tokens_per_s=output,
            total_tokens_per_s=requests * workload.tokens_per_request,
            prefill_tokens_per_s=replicas * at(speed.data_parallel, row) * prompt / at(speed.occupancy_s, row),
            requests_per_s_capacity=requests,
            utilization_at_peak=replica_utilization(judged, row),
            overloaded=bool(operation.overloaded[row]),
            batch_at_peak=at(operation.batch, row),
            ttft=None if offline else latency_percentiles(operation, "ttft", row),
            tpot=latency_percentiles(operation, "tpot", row),
            e2e=None if offline else latency_percentiles(operation, "e2e", row),
            unstable_above_requests_per_s=replicas * at(speed.saturation_per_s, row)
            if workload.load is Load.OPEN
            else None,
            cold_start_s=cold_start_s,
        )

    def latency_intervals(
        self,
        workload: InferenceWorkload,
        operation: StreamOperatingPoint,
        row: int,
        certainty: Certainty,
        ideal: HardwareBound,
    ) -> tuple[Interval, ...]:
        """Ranges of the latencies: at the median, and for the mean where it differs."""
        statistics = ("p50", "mean") if at(operation.e2e_mean_s, row) != at(operation.e2e_p50_s, row) else ("p50",)
        by_statistic = (self.intervals_of_statistic(s, workload, operation, row, certainty, ideal) for s in statistics)
        return tuple(itertools.chain.from_iterable(by_statistic))

    def intervals_of_statistic(
        self,
        statistic: str,
        workload: InferenceWorkload,
        operation: StreamOperatingPoint,
        row: int,
        certainty: Certainty,
        ideal: HardwareBound,
    ) -> tuple[Interval, ...]:
        """Ranges of one statistic of the latencies. The range of a whole request is the sum of its parts."""
        _, tpot_kind, ttft_kind = spread_names(workload)
        least_tpot, least_ttft = at(ideal.tpot_s, row), at(ideal.ttft_s, row)
        tpot, ttft, e2e = (at(getattr(operation, f"{name}_{statistic}_s"), row) for name in ("tpot", "ttft", "e2e"))
        if not math.isfinite(e2e):
            return ()
        token = clip_interval(certainty.predict_interval("tpot_s", tpot, tpot_kind, statistic), tpot, least=least_tpot)
        if workload.load is Load.OFFLINE:
            return (token,)
        first = clip_interval(certainty.predict_interval("ttft_s", ttft, ttft_kind, statistic), ttft, least=least_ttft)
        later = (e2e - ttft) / tpot if tpot > 0 else 0.0
        whole = Interval("e2e_s", first.low + later * token.low, first.high + later * token.high, statistic)
        if workload.load is Load.BATCH:
            least = least_ttft + later * least_tpot
            whole = clip_interval(certainty.predict_interval("e2e_s", e2e, "e2e", statistic), e2e, least=least)
        return token, first, whole

    def prefix_caches(
        self, workload: InferenceWorkload, judged: JudgedStreams, assumed: Assumptions
    ) -> tuple[PrefixCache | None, ...]:
        """Prefixes of idle sessions that each row keeps in its cache."""
        size = judged.plans.accelerators_per_replica
        return prefix_cache_reports(workload, judged.memory, judged.speed, judged.operation, size, assumed)

    def step_seconds(self, workload: InferenceWorkload, judged: JudgedStreams) -> dict[str, Column]:
        """Seconds of one mixed step (prefill and decode) at the operating batch, by bottleneck."""
        terms = judged.speed.step
        batch = np.maximum(judged.operation.batch / terms.data_parallel, 1.0)
        prefill = self.prefill_seconds(workload, judged)
        with suspend_recording():
            micro = micro_batch(batch, terms.pipeline_parallel)
            multiply, read = multiply_and_read_s(terms, micro)
            linear = linear_s(multiply, read, terms.exponent)
            part = host_part_s(terms, micro, micro, batch)
        return {
            "compute": prefill + np.where(multiply > read, linear, 0.0),
            "memory_bandwidth": np.where(read >= multiply, linear, 0.0)
            + (micro * terms.attention_slope_s + terms.attention_fixed_s),
            "interconnect": micro * terms.links_slope_s + terms.links_fixed_s,
            "host": batch * terms.host_slope_s + terms.host_fixed_s + part,
        }

    def prefill_seconds(self, workload: InferenceWorkload, judged: JudgedStreams) -> Column:
        """Seconds of prefill per mixed step: as many prompts start as sequences end, one per output length."""
        batch = np.maximum(judged.operation.batch / judged.speed.step.data_parallel, 1.0)
        seconds: Column = batch / max(1.0, workload.output_tokens.mean) * judged.speed.occupancy_s
        return seconds

    def is_full(self, judged: JudgedStreams, row: int, assumed: Assumptions) -> bool:
        """Whether memory caps the batch below the latency limits, or prefixes of idle sessions cap the request rate."""
        memory, prefixes = judged.memory, judged.speed.prefix_reservation
        if prefixes is not None and prefixes.limits_capacity[row]:
            return True
        fitting = at(memory.sequences, row)
        capped = at(judged.speed.rank_batch, row) >= fitting < at(memory.max_sequences, row)
        batch = at(judged.operation.batch / judged.plans.data_parallel, row)
        return capped and batch > assumed.full_cache_share * fitting

    def memory_reason(
        self, workload: InferenceWorkload, judged: JudgedStreams, row: int, location: str, stored_model: str
    ) -> Reason:
        """Sentence about the memory of an accelerator: weights, KV cache and prefixes of idle sessions."""
        memory = judged.memory
        weights, usable = at(memory.weights_bytes, row) / GIB, at(memory.usable_bytes, row) / GIB
        pool, longest = at(memory.kv_pool_bytes, row), at(memory.longest_sequence_bytes, row)
        if longest <= 0:
            return weights_reason(stored_model, weights, usable)
        held_at_once = format_count(math.floor(pool / longest), "sequence")
        each = " on each data-parallel rank" if at(judged.plans.data_parallel, row) > 1 else ""
        text = (
            f"{stored_model} takes {weights:.1f} GiB of {usable:.1f} GiB usable memory {location}. That leaves "
            f"{pool / GIB:.1f} GiB for the KV cache: room for {held_at_once} of "
            f"{workload.max_context_tokens:,.0f} tokens{each}."
        )
        sessions, waiting = idle_session_memory(judged, row)
        if sessions:
            batch = at(judged.operation.batch / judged.plans.data_parallel, row)
            run = at(memory.held_bytes_per_sequence, row) * batch
            text += (
                f" At this load, {format_number(run / GIB)} GiB of it goes to "
                f"{format_quantity(batch, 'running sequence')} and "
                f"{format_number(waiting / GIB)} GiB to the prefixes of {format_quantity(sessions, 'idle session')}."
            )
        return Reason("memory", text, "kv_cache_gib", pool / GIB, "GiB")


def idle_session_memory(judged: JudgedStreams, row: int) -> tuple[float, float]:
    """Idle sessions of a replica whose prefix-cache hits count, and bytes of their prefixes on each device."""
    prefixes, operation = judged.speed.prefix_reservation, judged.operation
    if prefixes is None or not prefixes.hits_counted[row]:
        return 0.0, 0.0
    if operation.idle_sessions is None or operation.prefix_bytes is None:
        return 0.0, 0.0
    return at(operation.idle_sessions, row), at(operation.prefix_bytes, row)


def weights_reason(name: str, weights_gib: float, usable_gib: float) -> Reason:
    """Sentence about the memory of a model without a KV cache."""
    text = f"{name} takes {weights_gib:.2f} GiB of {usable_gib:.1f} GiB usable memory."
    return Reason("memory", text, "weights_gib", weights_gib, "GiB")
