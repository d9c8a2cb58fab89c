"""Writes the memory, performance and bottleneck of token streams into an estimate."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from app.sizing.answer.certainty import Certainty, clip_interval
from app.sizing.answer.host_weights import host_memory_fields, share_on_host
from app.sizing.answer.money import finite_or_none
from app.sizing.assumptions import Assumptions
from app.sizing.columns import Column, at
from app.sizing.formula import suspend_recording
from app.sizing.hardware.engines.scheduling import SchedulerSettings
from app.sizing.result import DeviceMemory, Interval, Performance, PrefixCache, Reason
from app.sizing.serving.load import StreamSpeed
from app.sizing.serving.margins import spread_names
from app.sizing.serving.measured import QUANTILES, HardwareBound, OperatingPoint
from app.sizing.serving.memory import ServingMemory
from app.sizing.serving.operation import StreamOperatingPoint
from app.sizing.serving.options import PlanEvaluations, throughput_per_s
from app.sizing.serving.plans import KV_NAMES
from app.sizing.serving.prefixes import prefix_cache_reports
from app.sizing.serving.scheduling import deployed_scheduler
from app.sizing.serving.step import host_part_s, linear_s, micro_batch, multiply_and_read_s
from app.sizing.units import GIB
from app.sizing.values.latencies import Percentiles
from app.sizing.words import format_count, format_number, format_quantity
from app.sizing.workload import InferenceWorkload, Load

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
        per_token = at(memory.cache_bytes_per_sequence, row) / max(1.0, workload.tokens_per_request)
        pool, ranks = at(memory.kv_pool_bytes, row), at(judged.plans.data_parallel, row)
        longest = at(memory.longest_sequence_bytes, row)
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
            kv_cache_tokens=math.floor(ranks * pool / per_token) if per_token > 0 else None,
            max_concurrent_sequences=math.floor(ranks * max(0.0, pool - waiting) / longest) if longest > 0 else None,
            prefix_cache_bytes=waiting or None,
            idle_sessions=sessions or None,
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
            prefill_tokens_per_s=replicas * prompt / at(speed.occupancy_s, row),
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
        prefill = (batch - 1) / max(1.0, workload.output_tokens.mean) * judged.speed.occupancy_s
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
        text = (
            f"{stored_model} takes {weights:.1f} GiB of {usable:.1f} GiB usable memory {location}. That leaves "
            f"{pool / GIB:.1f} GiB for the KV cache: room for {held_at_once} of "
            f"{workload.max_context_tokens:,.0f} tokens."
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
