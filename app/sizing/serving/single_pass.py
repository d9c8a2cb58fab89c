"""Serving work that is not a stream of tokens: embeddings, vision, speech, diffusion.

Requests wait for the batch that is running and leave with the next one, so the slowest sees two batch times.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Column, Columns, Mask
from app.sizing.formula import formula, told_as, unrecorded
from app.sizing.model.sample import SampleWork
from app.sizing.serving.batch import BatchTerms, batch_terms, of_batch_s, padding_of
from app.sizing.serving.host import hosting
from app.sizing.serving.margins import Margins
from app.sizing.serving.measured import QUANTILES, Alone, Memory, Operation, Settings, Speed, largest
from app.sizing.serving.plans import Plans
from app.sizing.units import GIB
from app.sizing.workload import InferenceWorkload, Load, z_score


@dataclass(frozen=True, slots=True)
class BatchAlone(Alone):
    """A sample alone on an idle device, and the batch before it."""

    terms: BatchTerms
    fastest_e2e_s: Column
    e2e_limit_s: Column  # what is left of it by the margins


@dataclass(frozen=True, slots=True)
class BatchSpeed(Speed):
    """How one device serves samples."""

    alone: BatchAlone

    @property
    def terms(self) -> BatchTerms:
        return self.alone.terms


@formula(unit="B", source="counts of the configuration")
def loaded_weights_bytes(weights_bytes: Column, assumed: Assumptions) -> Column:
    """Weights of the device. Source: counted; start-up logs. Limits: one device."""
    return weights_bytes * assumed.weights_load_overhead


@formula(unit="B/sample", source="counts of the configuration")
def sample_activation_bytes(work: SampleWork, assumed: Assumptions) -> float:
    """Workspace of one sample. Source: counted live tensors. Limits: engines plan memory once per graph."""
    return work.live_bytes * assumed.activation_workspace_factor


@formula(unit="B", source="chosen")
def runtime_bytes(memory_bytes: Column, assumed: Assumptions) -> Column:
    """Runtime of a compiled engine. Source: chosen. Limits: a small device is served by a smaller one."""
    return np.minimum(assumed.small_runtime_overhead_gib * GIB, assumed.overhead_memory_fraction_limit * memory_bytes)


@formula(unit="B", source="share of the device that is taken")
def usable_sample_bytes(memory_bytes: Column, memory_fraction: Column) -> Column:
    """What single-pass serving takes of a device. Source: chosen share. Limits: alone on the device."""
    return memory_bytes * memory_fraction


@formula(unit="samples", source="what fits beside the weights, up to the largest batch tried")
def samples(
    usable_sample_bytes: Column,
    loaded_weights_bytes: Column,
    runtime_bytes: Column,
    sample_activation_bytes: Column,
    assumed: Assumptions,
) -> Column:
    """Samples of the largest batch. Source: counted. Limits: larger batches gain nothing more."""
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

    `unforeseen_share` of a device is allowed for beyond that.
    """
    share = settings.memory_fraction
    if share is None:
        share = np.where(plans.unified, assumed.unified_memory_fraction, assumed.batch_memory_fraction)
    weights = loaded_weights_bytes(plans.weights_bytes, assumed)
    activations = np.full(len(plans), sample_activation_bytes(work, assumed))
    runtime = runtime_bytes(plans.memory_bytes, assumed)
    usable = usable_sample_bytes(plans.memory_bytes, share)
    needed = weights + activations + runtime
    if unforeseen_share is None:
        most = samples(usable, weights, runtime, activations, assumed)
    else:
        unforeseen = unforeseen_share * plans.memory_bytes
        most, needed = samples(usable - unforeseen, weights, runtime, activations, assumed), needed + unforeseen
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
    """Samples per second of batches one after another. Source: definition. Limits: full batches."""
    return batch / cycle_s


@formula(unit="samples/s", source="Little's law: who waits for an answer sends no more")
def answered_per_s(batches_per_s: Column, in_flight: Column, cycle_s: Column, host_s: Column) -> Column:
    """Samples per second of so many in flight. Source: Little 1961. Limits: the next is sent at once."""
    return np.minimum(batches_per_s, in_flight / (host_s + cycle_s))


@dataclass(frozen=True, slots=True)
class TwoWithin(Columns):
    """Whether two batches fit into the limit: a request waits for one and leaves with the next."""

    terms: BatchTerms
    e2e_limit_s: Column

    def holds(self, batch: Column) -> Mask:
        """At this batch."""
        met: Mask = 2 * of_batch_s(self.terms, batch) + self.terms.hosting.host_s <= self.e2e_limit_s
        return met


@dataclass(frozen=True, slots=True)
class Filling(Columns):
    """Whether a batch is over before as many samples have arrived again."""

    terms: BatchTerms
    rate_per_s: Column

    def holds(self, batch: Column) -> Mask:
        """At this batch."""
        met: Mask = batch <= self.rate_per_s * of_batch_s(self.terms, batch)
        return met


def single_pass_alone(
    workload: InferenceWorkload,
    plans: Plans,
    work: SampleWork,
    assumed: Assumptions,
    margins: Margins | None = None,
) -> BatchAlone:
    """A request alone on a device of every plan, beside the end-to-end limit less so much margin."""
    margins = Margins.none(len(plans)) if margins is None else margins
    terms = batch_terms(
        work,
        plans,
        padding=padding_of(workload, plans, assumed),
        host=hosting(workload, work, plans, assumed),
    )
    with unrecorded():
        fastest = of_batch_s(terms, np.ones(len(plans))) * (2 if workload.load is Load.OPEN else 1)
        fastest = fastest + terms.hosting.host_s
    return BatchAlone(margins, terms, fastest, e2e_limit_s(workload, margins))


def e2e_limit_s(workload: InferenceWorkload, margins: Margins) -> Column:
    """What the margins leave of the end-to-end limit."""
    slo_s = workload.slo.e2e_s
    return np.full(len(margins), np.inf if slo_s is None else slo_s) / margins.rate


def single_pass_speed(workload: InferenceWorkload, memory: Memory, alone: BatchAlone) -> BatchSpeed:
    """Capacity of a device: the largest batch two of which fit into the end-to-end limit."""
    terms, peak, most = alone.terms, memory.sequences, memory.sequences
    if workload.load not in (Load.OFFLINE, Load.BATCH):
        with unrecorded():
            found = largest(np.ones(len(memory)), most, TwoWithin(terms, alone.e2e_limit_s))
        peak = np.maximum(1.0, np.floor(found + 1e-6))
    capacity = batches_per_s(peak, of_batch_s(terms, peak)) / alone.margins.rate
    with told_as("largest batch"):
        saturation = batches_per_s(most, of_batch_s(terms, most))
    return BatchSpeed(alone=alone, slo_batch=peak, capacity_per_s=capacity, saturation_per_s=saturation)


@formula(unit="samples", source="arrivals of a batch time fluctuate like a Poisson count")
def sample_crowd(batch: Column, z: float, burstiness: float, sequences: Column) -> Column:
    """Samples of a batch at a percentile. Source: normal approximation. Limits: no more than fit."""
    return np.minimum(np.maximum(batch + z * burstiness * np.sqrt(batch), 1.0), sequences)


@formula(unit="1", source="what remains of the running batch is uniform over it")
def waiting_share(percentile: float, rate_per_s: Column, saturation_per_s: Column) -> Column:
    """Share of a batch time that a request waits. Source: renewal theory. Limits: batches of one size."""
    return percentile / 100 * np.minimum(rate_per_s / np.maximum(saturation_per_s, 1e-12), 1.0)


@formula(unit="s", source="made ready, the wait, then the batch itself; infinite beyond saturation")
def sample_e2e_s(cycle_s: Column, waiting_share: Column | float, host_s: Column, overloaded: Mask) -> Column:
    """Percentile of a whole request. Source: sum of the parts. Limits: transfers are not counted."""
    return np.where(overloaded, np.inf, host_s + cycle_s * (1 + waiting_share))


def operate_single_pass(workload: InferenceWorkload, memory: Memory, speed: BatchSpeed, replicas: Column) -> Operation:
    """Batch and latencies when `replicas` devices share the load.

    A request waits for what remains of the running batch, then runs: the q-quantile is (1 + q) batch times,
    stretched by burstiness above Poisson.
    """
    terms, most, alone = speed.terms, memory.sequences, np.ones(len(replicas))
    is_open = workload.load is Load.OPEN
    if is_open:
        rate = workload.peak_per_s / replicas
        with unrecorded():
            batch = largest(alone * 0.0, most, Filling(terms, rate))
        overloaded = rate > speed.saturation_per_s
        used = rate / np.maximum(speed.capacity_per_s, 1e-12)
    else:
        in_flight = np.maximum(np.ceil(workload.in_flight / replicas) if workload.in_flight else most, 1.0)
        batch = np.minimum(in_flight, most)
        with told_as("at the load"):
            cycle = of_batch_s(terms, batch)
            rate = batches_per_s(batch, cycle)
            if workload.load is Load.CLOSED:
                rate = answered_per_s(rate, in_flight, cycle, terms.hosting.host_s)
        overloaded = np.zeros(len(replicas), dtype=bool)
        used = in_flight / np.maximum(speed.slo_batch, 1.0)
    values: dict[str, Column] = {}
    for q in QUANTILES:
        with told_as(f"p{q:.0f}"):
            met, waits = np.maximum(batch, 1.0), 0.0 * alone
            if is_open:
                met = sample_crowd(batch, max(0.0, z_score(q)), workload.burstiness, most)
                waits = waiting_share(q, rate, speed.saturation_per_s)
            values[f"e2e_p{q:.0f}_s"] = sample_e2e_s(of_batch_s(terms, met), waits, terms.hosting.host_s, overloaded)
    mean = values["e2e_p50_s"]  # what remains of a batch is uniform: its mean is its median
    return Operation(batch=np.maximum(batch, 1.0), rate_per_s=rate, utilization=used, e2e_mean_s=mean, **values)
