"""Serving work that is not a stream of tokens: embeddings, vision, speech, diffusion.

A batch of b samples takes passes * max(FLOPs, weights and activations moved) plus launch
overheads. Requests wait for the batch that is running and leave with the next one, so the slowest
sees two batch times.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Column, Columns, Mask
from app.sizing.model.sample import SampleWork
from app.sizing.serving.load import QUANTILES, largest
from app.sizing.serving.plans import Plans
from app.sizing.serving.step import smooth_maximum
from app.sizing.snapshot import Market
from app.sizing.units import GIB
from app.sizing.workload import InferenceWorkload, Load, z_score

MAX_BATCH = 256.0


def work_of(workload: InferenceWorkload) -> SampleWork:
    """One request as a sample: an encoder's pass over its tokens, or the model's own facts.

    Activations of an encoder in serving are one layer's live tensors, not all layers'.
    """
    model = workload.model
    if model.sample is not None:
        return model.sample
    tokens = max(1.0, workload.input_tokens.mean)
    flops = 2 * model.matmul_params * tokens + model.prefill_attention_flops(tokens)
    live = tokens * 2.0 * (6 * model.hidden_size + 2 * model.mlp_width)
    return SampleWork(flops=flops, moved_bytes=2 * live, live_bytes=live, layers=model.num_layers, unit="request")


@dataclass(frozen=True, slots=True)
class BatchTerms(Columns):
    """Seconds of one pass: per sample and per batch; `once_s` reads the weights that no pass repeats (encoders,
    tables).
    """

    flops_slope_s: Column
    bytes_slope_s: Column
    host_slope_s: Column  # of each decoded token
    weights_s: Column
    once_s: Column
    launch_s: Column
    extra_slope_s: Column
    exponent: Column
    request_s: Column
    passes: float


def batch_terms(work: SampleWork, plans: Plans) -> BatchTerms:
    """Terms of a batch's time.

    Check: ResNet-50 at 8.18 GFLOP on 0.28 of 312 TFLOP/s is 94 us an image, 10 700 images/s.
    """
    s = plans.achieved
    fraction = s.sample_compute_fraction if work.convolutional else s.linear_compute_fraction
    memory = plans.bytes_per_s * s.linear_memory_fraction
    rate = plans.linear_flops_per_s * fraction
    wide = plans.linear_flops_per_s / plans.bit16_flops_per_s  # activations are as wide as what is multiplied
    width = np.where(wide > 1.2, 0.5, np.where(wide < 0.9, 2.0, 1.0))
    return BatchTerms(
        flops_slope_s=work.flops / rate,
        bytes_slope_s=work.moved_bytes
        * width
        / (plans.bytes_per_s * (s.attention_memory_fraction if work.decodes else s.linear_memory_fraction)),
        host_slope_s=s.sequence_overhead_s * work.decodes,
        weights_s=plans.streamed_bytes / memory,
        once_s=(plans.weights_bytes - plans.streamed_bytes) / memory,
        launch_s=work.layers * s.layer_overhead_s / 2,
        extra_slope_s=work.extra_flops / rate,
        exponent=s.roofline_exponent,
        request_s=s.step_overhead_s,
        passes=work.passes,
    )


def batch_s(terms: BatchTerms, batch: Column) -> Column:
    """Seconds a batch occupies the device."""
    moved = terms.weights_s + batch * terms.bytes_slope_s
    one = (
        smooth_maximum(batch * terms.flops_slope_s, moved, terms.exponent) + terms.launch_s + batch * terms.host_slope_s
    )
    return terms.passes * one + batch * terms.extra_slope_s + terms.once_s + terms.request_s


@dataclass(frozen=True, slots=True)
class BatchMemory(Columns):
    """Bytes on the device; the parts sum to the total."""

    weights_bytes: Column
    activation_bytes: Column  # of one sample
    overhead_bytes: Column
    capacity_bytes: Column
    memory_fraction: Column

    @property
    def usable_bytes(self) -> Column:
        return self.capacity_bytes * self.memory_fraction

    @property
    def needed_bytes(self) -> Column:
        return self.weights_bytes + self.activation_bytes + self.overhead_bytes

    @property
    def fits(self) -> Mask:
        return self.needed_bytes <= self.usable_bytes

    @property
    def max_batch(self) -> Column:
        free = self.usable_bytes - self.weights_bytes - self.overhead_bytes
        with np.errstate(divide="ignore", invalid="ignore"):
            by_memory = np.where(self.activation_bytes > 0, free / self.activation_bytes, MAX_BATCH)
        return np.clip(np.floor(by_memory), 1.0, MAX_BATCH)


def batch_memory(
    work: SampleWork, plans: Plans, market: Market, assumed: Assumptions, *, fraction: Column | None = None
) -> BatchMemory:
    share = np.where(
        market.columns.unified[plans.accelerator], assumed.unified_memory_fraction, assumed.batch_memory_fraction
    )
    if fraction is not None:
        share = fraction
    n = len(plans)
    return BatchMemory(
        weights_bytes=plans.weights_bytes * assumed.weights_load_overhead,
        activation_bytes=np.full(n, work.live_bytes * assumed.activation_workspace_factor),
        overhead_bytes=np.minimum(np.full(n, assumed.small_runtime_overhead_gib * GIB), 0.12 * plans.memory_bytes),
        capacity_bytes=plans.memory_bytes,
        memory_fraction=share,
    )


@dataclass(frozen=True, slots=True)
class BatchSpeed(Columns):
    """How one device serves samples."""

    terms: BatchTerms
    max_batch: Column
    slo_batch: Column
    fastest_e2e_s: Column
    e2e_limit_s: Column
    capacity_per_s: Column
    saturation_per_s: Column


def single_pass_speed(
    workload: InferenceWorkload, plans: Plans, memory: BatchMemory, work: SampleWork, max_batch: Column | None = None
) -> BatchSpeed:
    """Capacity of a device: the largest batch two of which fit into the end-to-end limit."""
    terms = batch_terms(work, plans)
    one = np.ones(len(plans))
    cap = memory.max_batch if max_batch is None else np.minimum(memory.max_batch, max_batch)
    limit = np.full(len(plans), np.inf if workload.slo.e2e_s is None else workload.slo.e2e_s)
    fastest = 2 * batch_s(terms, one) if workload.load is Load.OPEN else batch_s(terms, one)
    peak = largest(one, cap, lambda b: 2 * batch_s(terms, b) <= limit)
    peak = np.maximum(1.0, np.floor(peak + 1e-6))
    if workload.load in (Load.OFFLINE, Load.BATCH):
        peak = cap
    return BatchSpeed(
        terms=terms,
        max_batch=cap,
        slo_batch=peak,
        fastest_e2e_s=fastest,
        e2e_limit_s=limit,
        capacity_per_s=peak / batch_s(terms, peak),
        saturation_per_s=cap / batch_s(terms, cap),
    )


@dataclass(frozen=True, slots=True)
class BatchOperation(Columns):
    """One device at its share of the load."""

    replicas: Column
    batch: Column
    rate_per_s: Column
    e2e_p50_s: Column
    e2e_p95_s: Column
    e2e_p99_s: Column
    utilization: Column


def operate_single_pass(
    workload: InferenceWorkload, plans: Plans, speed: BatchSpeed, replicas: Column
) -> BatchOperation:
    """Batch and latencies when `replicas` devices share the load.

    A request waits for what remains of the running batch, uniform over it, then runs: the q-quantile
    is (1 + q) batch times, stretched by burstiness above Poisson.
    """
    one = np.ones(len(plans))
    if workload.load is Load.OPEN:
        rate = workload.peak_per_s / replicas
        batch = largest(one * 0.0, speed.max_batch, lambda b: b <= rate * batch_s(speed.terms, b))
        overloaded = rate > speed.saturation_per_s
        utilization = rate / np.maximum(speed.capacity_per_s, 1e-12)
    else:
        wanted = np.ceil(workload.in_flight / replicas) if workload.in_flight else speed.max_batch
        batch = np.minimum(np.maximum(wanted, 1.0), speed.max_batch)
        rate = batch / batch_s(speed.terms, batch)
        overloaded = np.zeros(len(plans), dtype=bool)
        utilization = np.maximum(wanted, 1.0) / np.maximum(speed.slo_batch, 1.0)
    busy = np.minimum(rate / np.maximum(speed.saturation_per_s, 1e-12), 1.0)
    values: dict[str, Column] = {}
    for q in QUANTILES:
        crowd = np.maximum(batch, 1.0)
        if workload.load is Load.OPEN:
            spread = max(0.0, z_score(q)) * workload.burstiness * np.sqrt(batch)
            crowd = np.minimum(np.maximum(batch + spread, 1.0), speed.max_batch)
        waiting = q / 100 * busy if workload.load is Load.OPEN else np.zeros(len(plans))
        values[f"e2e_p{q:.0f}_s"] = np.where(overloaded, np.inf, batch_s(speed.terms, crowd) * (1 + waiting))
    return BatchOperation(
        replicas=replicas, batch=np.maximum(batch, 1.0), rate_per_s=rate, utilization=utilization, **values
    )
