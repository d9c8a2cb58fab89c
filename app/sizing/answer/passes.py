"""Writes the memory, performance and bottleneck of single-forward work into an estimate."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from app.sizing.answer.confidence import Certainty, clip_interval
from app.sizing.answer.streams import latency_percentiles, replica_utilization, weights_reason
from app.sizing.assumptions import Assumptions
from app.sizing.columns import GIB, Column, Mask, at
from app.sizing.result import DeviceMemory, Performance, Reason
from app.sizing.serving.interfaces import HardwareBound, Memory, OperatingPoint
from app.sizing.serving.options import PlanEvaluations, throughput_per_s
from app.sizing.serving.single_pass import BatchSpeed, BatchTerms, batch_cycle_s, host_batch_s
from app.sizing.words import format_number, format_quantity
from app.sizing.workload import InferenceWorkload, Load

JudgedPasses = PlanEvaluations[Memory, BatchSpeed, OperatingPoint]


class PassAnswerWriter:
    """Writes a row of a table of single-forward work into an estimate."""

    latencies = (("e2e", "end-to-end latency"),)

    def engine_settings(self, workload: InferenceWorkload, judged: JudgedPasses, row: int) -> Mapping[str, Any]:
        """No engine settings in addition to those of every serving mode."""
        return {}

    def device_memory(self, workload: InferenceWorkload, judged: JudgedPasses, row: int) -> DeviceMemory:
        """Memory of a row. Every sample of a batch keeps its activations."""
        memory = judged.memory
        return DeviceMemory(
            weights_bytes=at(memory.weights_bytes, row),
            kv_cache_bytes=0.0,
            activation_bytes=at(memory.activation_bytes * judged.speed.slo_batch, row),
            overhead_bytes=at(memory.overhead_bytes, row),
            gradient_bytes=0.0,
            optimizer_bytes=0.0,
            capacity_bytes=at(memory.capacity_bytes, row),
            usable_bytes=at(memory.usable_bytes, row),
        )

    def serving_performance(
        self,
        workload: InferenceWorkload,
        judged: JudgedPasses,
        row: int,
        certainty: Certainty,
        ideal: HardwareBound,
        *,
        cold_start_s: float,
    ) -> Performance:
        """Speed of the whole deployment in a row; spare replicas do not serve."""
        operation = judged.operation
        requests = at(throughput_per_s(workload, judged.options), row)
        most = at(judged.fleet.replicas * ideal.rate_per_s, row)
        shown = {s: at(getattr(operation, f"e2e_{s}_s"), row) for s in ("p50", "mean")}
        spent = tuple(
            clip_interval(
                certainty.predict_interval("e2e_s", whole, "sample_latency", s), whole, least=at(ideal.tpot_s, row)
            )
            for s, whole in shown.items()
            if math.isfinite(whole)
        )
        return Performance(
            interval=clip_interval(
                certainty.predict_interval("samples_per_s", requests, "samples"), requests, most=most
            ),
            intervals=spent,
            basis=certainty.evidence_basis,
            samples_per_s=requests,
            requests_per_s_capacity=requests,
            total_tokens_per_s=None if workload.model.sample else requests * workload.tokens_per_request,
            utilization_at_peak=replica_utilization(judged, row),
            overloaded=bool(operation.overloaded[row]),
            batch_at_peak=at(operation.batch, row),
            e2e=latency_percentiles(operation, "e2e", row),
            unstable_above_requests_per_s=at(judged.fleet.replicas * judged.speed.saturation_per_s, row)
            if workload.load is Load.OPEN
            else None,
            cold_start_s=cold_start_s,
        )

    def prefix_caches(
        self, workload: InferenceWorkload, judged: JudgedPasses, assumed: Assumptions
    ) -> tuple[None, ...]:
        """No prefix caches: nothing of a request is kept after it is answered."""
        return (None,) * len(judged)

    def step_seconds(self, workload: InferenceWorkload, judged: JudgedPasses) -> dict[str, Column]:
        """Seconds of one forward pass at the operating batch, by bottleneck.

        Work that a device does while it waits for the host does not count.
        """
        terms, batch = judged.speed.terms, judged.operation.batch
        moved, flops = terms.weights_s + batch * terms.bytes_slope_s, batch * terms.flops_slope_s
        ready, waiting = host_batch_s(terms.host_work, batch), waits_for_host(terms, batch)
        return {
            "compute": np.where((flops >= moved) & ~waiting, flops, 0.0),
            "memory_bandwidth": np.where((moved > flops) & ~waiting, moved, 0.0),
            "host": np.where(waiting | terms.host_work.in_turn, ready, 0.0)
            + terms.launch_s
            + terms.request_s / terms.passes,
        }

    def prefill_seconds(self, workload: InferenceWorkload, judged: JudgedPasses) -> Column:
        """Zero: a pass generates nothing."""
        return np.zeros(len(judged.plans))

    def is_full(self, judged: JudgedPasses, row: int, assumed: Assumptions) -> bool:
        """False: memory limits the batch of a pass, not the number of requests."""
        return False

    def memory_reason(
        self, workload: InferenceWorkload, judged: JudgedPasses, row: int, location: str, stored_model: str
    ) -> Reason:
        """Sentence about the memory of an accelerator: the weights, and all that the largest batch needs."""
        memory, batch = self.device_memory(workload, judged, row), at(judged.speed.slo_batch, row)
        weights, total = memory.weights_bytes / GIB, memory.total_bytes / GIB
        reason = weights_reason(stored_model, weights, memory.usable_bytes / GIB)
        samples = format_quantity(batch, "sample" if workload.model.sample is not None else "request")
        return replace(reason, text=f"{reason.text} With a batch of {samples}, {total:.1f} GiB are needed.")


def waits_for_host(terms: BatchTerms, batch: Column) -> Mask:
    """Whether devices wait for the host to prepare requests."""
    waiting: Mask = batch_cycle_s(terms, batch) > batch_cycle_s(terms.without_host_work, batch)
    return waiting & ~terms.host_work.in_turn


def host_reasons(judged: JudgedPasses, row: int) -> Iterator[Reason]:
    """Sentence about the host's work per request, where a device waits for it."""
    terms, only = judged.speed.terms.take(np.array([row])), np.array([row])
    if not waits_for_host(terms, judged.operation.batch[only])[0]:
        return
    each_s, cores, serial_s = (
        at(c, 0) for c in (terms.host_work.host_s, terms.host_work.host_cores, terms.host_work.serial_s)
    )
    if serial_s > each_s / cores:
        text = (
            f"One server process dispatches at most {format_quantity(1 / serial_s, 'request')}/s. A faster accelerator "
            "does not raise this limit."
        )
        yield Reason("host", text, "requests_per_s", 1 / serial_s, "requests/s")
        return
    listed = " (assumed: the listing does not state the CPU)" if np.isnan(judged.plans.vcpus[row]) else ""
    text = (
        f"Accelerators wait for the host: preparing a request (tokens, images or audio, HTTP) takes "
        f"{format_number(each_s * 1e3)} ms of one CPU core. Each replica has {format_quantity(cores, 'core')}{listed}."
    )
    yield Reason("host", text, "host_ms_per_request", each_s * 1e3, "ms")
