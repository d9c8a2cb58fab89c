"""Serving of single-pass work: embeddings, vision, speech, diffusion.

A request waits for the running batch and leaves with the next one, so the slowest request takes two batch times.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Column, Columns, Mask
from app.sizing.formula import formula, suspend_recording, trace_label
from app.sizing.model.sample import SampleWork
from app.sizing.serving.batch import BatchTerms, batch_cycle_s, batch_terms, plan_padding_factors
from app.sizing.serving.host import estimate_host_work
from app.sizing.serving.margins import Margins
from app.sizing.serving.measured import (
    QUANTILES,
    Memory,
    OperatingPoint,
    Settings,
    Speed,
    UnloadedLatency,
    bisect_largest,
)
from app.sizing.serving.plans import Plans
from app.sizing.units import GIB
from app.sizing.workload import InferenceWorkload, Load, z_score


@dataclass(frozen=True, slots=True)
class UnloadedBatch(UnloadedLatency):
    """Latency of one sample on an idle device, and the time of its batch."""

    terms: BatchTerms  # times of a batch
    fastest_e2e_s: Column  # end-to-end latency without other load, s
    e2e_limit_s: Column  # end-to-end limit reduced by the margins, s


@dataclass(frozen=True, slots=True)
class BatchSpeed(Speed):
    """Throughput of one device on samples."""

    unloaded: UnloadedBatch

    @property
    def terms(self) -> BatchTerms:
        return self.unloaded.terms


@formula(unit="B", source="counted from the model configuration; start-up logs for the load overhead")
def loaded_weights_bytes(weights_bytes: Column, assumed: Assumptions) -> Column:
    """Weights of a device after loading.

    Parameters:
        weights_bytes: weights of the model, B.
        assumed: assumptions: `weights_load_overhead`.
    Limits: one device per replica.
    Check:
        >>> round(loaded_weights_bytes(2e9, row(weights_load_overhead=1.005)))
        2010000000
    """
    return weights_bytes * assumed.weights_load_overhead


@formula(unit="B/sample", source="live tensors, counted from the model configuration")
def sample_activation_bytes(work: SampleWork, assumed: Assumptions) -> float:
    """Workspace of one sample.

    Parameters:
        work: work of one sample, which gives its live tensors.
        assumed: assumptions: `activation_workspace_factor`.
    Limits: engines plan this memory once per graph.
    Check:
        >>> sample_activation_bytes(row(live_bytes=40e6), row(activation_workspace_factor=1.5))
        60000000.0
    """
    return work.live_bytes * assumed.activation_workspace_factor


@formula(unit="B", source="assumption")
def runtime_bytes(memory_bytes: Column, assumed: Assumptions) -> Column:
    """Runtime memory of a compiled engine.

    Parameters:
        memory_bytes: device memory, B.
        assumed: assumptions: `small_runtime_overhead_gib`, `overhead_memory_fraction_limit`.
    Limits: the overhead is capped at a share of a small device.
    Check: 0.4 GiB on a device of 24 GB.
        >>> sizes = row(small_runtime_overhead_gib=0.4, overhead_memory_fraction_limit=0.1)
        >>> round(float(runtime_bytes(24e9, sizes)) / GIB, 6)
        0.4
    """
    return np.minimum(assumed.small_runtime_overhead_gib * GIB, assumed.overhead_memory_fraction_limit * memory_bytes)


@formula(unit="B", source="assumption")
def usable_sample_bytes(memory_bytes: Column, memory_fraction: Column) -> Column:
    """Memory of a device that single-pass serving uses.

    Parameters:
        memory_bytes: device memory, B.
        memory_fraction: share of it that the engine takes.
    Limits: no other process runs on the device.
    Check:
        >>> usable_sample_bytes(24e9, 0.9)
        21600000000.0
    """
    return memory_bytes * memory_fraction


@formula(unit="samples", source="counted, up to the largest batch that is tried")
def max_batch_samples(
    usable_sample_bytes: Column,
    loaded_weights_bytes: Column,
    runtime_bytes: Column,
    sample_activation_bytes: Column,
    assumed: Assumptions,
) -> Column:
    """Samples of the largest batch that fits next to the weights.

    Parameters:
        usable_sample_bytes: memory that the engine uses, B.
        loaded_weights_bytes: weights after loading, B.
        runtime_bytes: runtime memory, B.
        sample_activation_bytes: workspace of one sample, B.
        assumed: assumptions: `max_samples`, the largest batch that is tried.
    Limits: batches above `max_samples` are not considered.
    Check: 19 GB free at 0.5 GB per sample.
        >>> float(max_batch_samples(21.6e9, 2e9, 0.6e9, 0.5e9, row(max_samples=512.0)))
        38.0
    """
    free = usable_sample_bytes - loaded_weights_bytes - runtime_bytes
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.clip(
            np.floor(np.where(sample_activation_bytes > 0, free / sample_activation_bytes, assumed.max_samples)),
            1.0,
            assumed.max_samples,
        )


def batch_memory(
    work: SampleWork,
    plans: Plans,
    assumed: Assumptions,
    settings: Settings,
    unforeseen_share: Column | None = None,
) -> Memory:
    """Memory of every plan: weights, runtime, and the activations of as many samples as fit.

    `unforeseen_share` of a device is reserved in addition.
    """
    share = settings.memory_fraction
    if share is None:
        share = np.where(plans.has_unified_memory, assumed.unified_memory_fraction, assumed.batch_memory_fraction)
    weights = loaded_weights_bytes(plans.weights_bytes, assumed)
    activations = np.full(len(plans), sample_activation_bytes(work, assumed))
    runtime = runtime_bytes(plans.memory_bytes, assumed)
    usable = usable_sample_bytes(plans.memory_bytes, share)
    needed = weights + activations + runtime
    if unforeseen_share is None:
        most = max_batch_samples(usable, weights, runtime, activations, assumed)
    else:
        unforeseen = unforeseen_share * plans.memory_bytes
        most, needed = (
            max_batch_samples(usable - unforeseen, weights, runtime, activations, assumed),
            needed + unforeseen,
        )
    return Memory(
        weights_bytes=weights,
        activation_bytes=activations,
        overhead_bytes=runtime,
        capacity_bytes=plans.memory_bytes,
        usable_bytes=usable,
        needed_bytes=needed,
        memory_fraction=share,
        sequences=most if settings.max_sequences is None else np.fmin(most, settings.max_sequences),
    )


@formula(unit="samples/s", source="definition")
def batches_per_s(batch: Column, cycle_s: Column) -> Column:
    """Samples per second of batches that run one after another.

    Parameters:
        batch: samples in a batch.
        cycle_s: time from one batch to the next, s.
    Limits: full batches.
    Check:
        >>> batches_per_s(32, 0.25)
        128.0
    """
    return batch / cycle_s


@formula(unit="samples/s", source="Little's law (Little 1961) for clients that wait for each answer")
def closed_loop_samples_per_s(batches_per_s: Column, in_flight: Column, cycle_s: Column, host_s: Column) -> Column:
    """Samples per second at a fixed concurrency, where each client waits for its answer.

    Parameters:
        batches_per_s: samples per second of full batches.
        in_flight: requests in flight.
        cycle_s: time from one batch to the next, s.
        host_s: host time of one request, s.
    Limits: each client sends its next request at once.
    Check: 16 in flight, 0.25 s per batch and no host time.
        >>> float(closed_loop_samples_per_s(128.0, 16, 0.25, 0.0))
        64.0
    """
    return np.minimum(batches_per_s, in_flight / (host_s + cycle_s))


@dataclass(frozen=True, slots=True)
class TwoBatchesWithinLimit(Columns):
    """Tests whether two batches fit into the end-to-end limit: a request waits for one and leaves with the next."""

    terms: BatchTerms
    e2e_limit_s: Column

    def holds(self, batch: Column) -> Mask:
        """Whether the limit is met at this batch size."""
        within: Mask = 2 * batch_cycle_s(self.terms, batch) + self.terms.host_work.host_s <= self.e2e_limit_s
        return within


@dataclass(frozen=True, slots=True)
class ArrivalsFillBatch(Columns):
    """Tests whether at least as many samples arrive during a batch as it holds."""

    terms: BatchTerms
    rate_per_s: Column

    def holds(self, batch: Column) -> Mask:
        """Whether arrivals fill a batch of this size."""
        filled: Mask = batch <= self.rate_per_s * batch_cycle_s(self.terms, batch)
        return filled


def unloaded_single_pass(
    workload: InferenceWorkload,
    plans: Plans,
    work: SampleWork,
    assumed: Assumptions,
    margins: Margins | None = None,
) -> UnloadedBatch:
    """Unloaded latency of a request on every plan, and the end-to-end limit reduced by the margins."""
    margins = Margins.without_margin(len(plans)) if margins is None else margins
    terms = batch_terms(
        work,
        plans,
        padding_factor=plan_padding_factors(workload, plans, assumed),
        host=estimate_host_work(workload, work, plans, assumed),
    )
    with suspend_recording():
        fastest = batch_cycle_s(terms, np.ones(len(plans))) * (2 if workload.load is Load.OPEN else 1)
        fastest = fastest + terms.host_work.host_s
    return UnloadedBatch(margins, terms, fastest, e2e_limit_s(workload, margins))


def e2e_limit_s(workload: InferenceWorkload, margins: Margins) -> Column:
    """End-to-end limit divided by the margin on rates, s; infinite without a limit."""
    slo_s = workload.slo.e2e_s
    return np.full(len(margins), np.inf if slo_s is None else slo_s) / margins.rate


def single_pass_speed(workload: InferenceWorkload, memory: Memory, unloaded: UnloadedBatch) -> BatchSpeed:
    """Capacity of a device: its rate at the largest batch of which two fit into the end-to-end limit."""
    terms, peak, most = unloaded.terms, memory.sequences, memory.sequences
    if workload.load not in (Load.OFFLINE, Load.BATCH):
        with suspend_recording():
            batch = bisect_largest(np.ones(len(memory)), most, TwoBatchesWithinLimit(terms, unloaded.e2e_limit_s))
        peak = np.maximum(1.0, np.floor(batch + 1e-6))
    capacity = batches_per_s(peak, batch_cycle_s(terms, peak)) / unloaded.margins.rate
    with trace_label("largest batch"):
        saturation = batches_per_s(most, batch_cycle_s(terms, most))
    return BatchSpeed(unloaded=unloaded, slo_batch=peak, capacity_per_s=capacity, saturation_per_s=saturation)


@formula(unit="samples", source="normal approximation of a Poisson count of arrivals")
def batch_at_percentile(batch: Column, z: float, burstiness: float, sequences: Column) -> Column:
    """Samples in a batch at a percentile of the load.

    Parameters:
        batch: mean samples in a batch.
        z: standard score of the percentile.
        burstiness: burstiness of arrivals; 1 is Poisson.
        sequences: largest batch that fits.
    Limits: normal approximation of the count.
    Check: a mean of 16 samples at a score of 1.645.
        >>> round(float(batch_at_percentile(16.0, 1.645, 1.0, 64.0)), 2)
        22.58
    """
    return np.minimum(np.maximum(batch + z * burstiness * np.sqrt(batch), 1.0), sequences)


@formula(unit="1", source="renewal theory: the rest of the running batch is uniformly distributed")
def waiting_share(percentile: float, rate_per_s: Column, saturation_per_s: Column) -> Column:
    """Share of a batch time that a request waits for the running batch.

    Parameters:
        percentile: percentile of the wait, in percent.
        rate_per_s: requests per second of a replica.
        saturation_per_s: rate at which the queue grows without bound, requests/s.
    Limits: batches of one size.
    Check: the 95th percentile at half of the saturation rate.
        >>> float(waiting_share(95.0, 50.0, 100.0))
        0.475
    """
    return percentile / 100 * np.minimum(rate_per_s / np.maximum(saturation_per_s, 1e-12), 1.0)


@formula(unit="s", source="sum of host time, wait and batch time")
def sample_e2e_s(cycle_s: Column, waiting_share: Column | float, host_s: Column, overloaded: Mask) -> Column:
    """End-to-end latency of a request at a percentile; infinite above saturation.

    Parameters:
        cycle_s: time from one batch to the next, s.
        waiting_share: share of that time that the request waits.
        host_s: host time of one request, s.
        overloaded: whether the load exceeds the saturation rate.
    Limits: network transfers are not counted.
    Check: 2 ms on the host, and 1.5 batch times of 20 ms.
        >>> round(float(sample_e2e_s(0.02, 0.5, 0.002, False)), 6)
        0.032
    """
    return np.where(overloaded, np.inf, host_s + cycle_s * (1 + waiting_share))


def single_pass_operating_point(
    workload: InferenceWorkload, memory: Memory, speed: BatchSpeed, replicas: Column
) -> OperatingPoint:
    """Batch and latencies of a device if `replicas` devices share the load.

    A request waits for the rest of the running batch, then runs: the q-quantile is (1 + q) batch times. Burstiness
    above Poisson increases it.
    """
    terms, most, ones = speed.terms, memory.sequences, np.ones(len(replicas))
    is_open = workload.load is Load.OPEN
    if is_open:
        rate = workload.peak_per_s / replicas
        with suspend_recording():
            batch = bisect_largest(ones * 0.0, most, ArrivalsFillBatch(terms, rate))
        overloaded = rate > speed.saturation_per_s
        used = rate / np.maximum(speed.capacity_per_s, 1e-12)
    else:
        in_flight = np.maximum(np.ceil(workload.in_flight / replicas) if workload.in_flight else most, 1.0)
        batch = np.minimum(in_flight, most)
        with trace_label("at the load"):
            cycle = batch_cycle_s(terms, batch)
            rate = batches_per_s(batch, cycle)
            if workload.load is Load.CLOSED:
                rate = closed_loop_samples_per_s(rate, in_flight, cycle, terms.host_work.host_s)
        overloaded = np.zeros(len(replicas), dtype=bool)
        used = in_flight / np.maximum(speed.slo_batch, 1.0)
    values: dict[str, Column] = {}
    for q in QUANTILES:
        with trace_label(f"p{q:.0f}"):
            filled, waits = np.maximum(batch, 1.0), 0.0 * ones
            if is_open:
                filled = batch_at_percentile(batch, max(0.0, z_score(q)), workload.burstiness, most)
                waits = waiting_share(q, rate, speed.saturation_per_s)
            values[f"e2e_p{q:.0f}_s"] = sample_e2e_s(
                batch_cycle_s(terms, filled), waits, terms.host_work.host_s, overloaded
            )
    mean = values["e2e_p50_s"]  # the rest of a batch is uniformly distributed: its mean is its median
    return OperatingPoint(batch=np.maximum(batch, 1.0), rate_per_s=rate, utilization=used, e2e_mean_s=mean, **values)
