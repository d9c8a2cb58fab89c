"""Capacity of a replica that reuses cached prefixes: how many prompts find theirs, and the memory that this takes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Column, Columns, Mask, at, choose_rows
from app.sizing.decisions.placement import replicas_for_requests
from app.sizing.formula import formula, suspend_recording, trace_label
from app.sizing.result import PrefixCache
from app.sizing.serving.capacity import (
    LAST_RESORT_WEIGHT,
    PrefixReservation,
    StreamOperatingPoint,
    StreamSpeed,
    crowded_batch,
    hits_counted,
    idle_sessions,
    mean_batch,
    prefix_bytes,
    running_bytes,
    stream_speed,
)
from app.sizing.serving.continuous_batching import (
    Stream,
)
from app.sizing.serving.interfaces import (
    LEAST_CAPACITY_PER_S,
    bisect_largest,
)
from app.sizing.serving.kv_cache import Prefixes
from app.sizing.serving.margins import Margins
from app.sizing.serving.memory import ServingMemory
from app.sizing.serving.steady_state import (
    closed_loop,
    open_rate_per_s,
)
from app.sizing.workload import InferenceWorkload, Load, z_score


@formula(unit="requests/s", source="minimum of the bounds")
def capacity_with_hits_per_s(capacity_per_s: Column, prefix_rate_per_s: Column) -> Column:
    """Request rate within the limits at which the hits of prefix caching last.

    Parameters:
        capacity_per_s: request rate within the latency limits, requests/s.
        prefix_rate_per_s: largest rate at which running sequences and idle prefixes fit in the cache, requests/s.
    Check:
        >>> one(capacity_with_hits_per_s(col(5.0), col(3.5)))
        3.5
    """
    return np.minimum(capacity_per_s, prefix_rate_per_s)


@dataclass(frozen=True, slots=True)
class PrefixesFit(Columns):
    """Test whether running sequences and the idle prefixes of their request rate fit in the KV pool."""

    stream: Stream  # requests of one kind on the replica
    prefixes: Prefixes  # prefixes of idle sessions
    kv_pool_bytes: Column  # KV pool of one device, bytes
    held_bytes_per_sequence: Column  # KV cache of one sequence on one device, bytes
    most: Column  # sequences that can run at the same time
    margin: Column | float  # factor by which the rate may be lower than predicted
    z: float  # standard normal quantile of the occupancy that must fit
    closed: bool  # whether the load is a closed loop

    def replica_rate(self, batch: Column) -> Column:
        """Request rate that sizing counts on at this mean batch, requests/s."""
        if self.closed:
            return closed_loop(self.stream, batch, batch).rate_per_s * np.minimum(batch, 1.0) / self.margin
        return open_rate_per_s(self.stream, batch, self.most) / self.margin

    def holds(self, batch: Column) -> Mask:
        """Whether everything fits at this mean batch."""
        rate = self.replica_rate(batch)
        idle = idle_sessions(rate, self.prefixes.turn_gap_s)
        waiting = prefix_bytes(idle, self.prefixes.own_bytes, self.prefixes.shared_bytes)
        running = running_bytes(crowded_batch(batch, self.z, self.most), self.held_bytes_per_sequence)
        return self.prefixes.fit(rate, running, waiting, self.kv_pool_bytes)


def prefix_fit_test(
    workload: InferenceWorkload, memory: ServingMemory, prefixes: Prefixes, speed: StreamSpeed
) -> tuple[PrefixesFit, Column]:
    """Test of what must fit in the KV pool, and the mean batch up to which it may.

    In an open loop, the batch that a percentile of requests meets counts. A closed loop that runs slower than predicted
    has fewer idle sessions, so there the median prediction must fit.
    """
    opened = workload.load is Load.OPEN
    z = max(0.0, z_score(workload.slo.percentile)) if opened else 0.0
    fitting = PrefixesFit(
        stream=speed.stream,
        prefixes=prefixes,
        kv_pool_bytes=memory.kv_pool_bytes,
        held_bytes_per_sequence=memory.held_bytes_per_sequence,
        most=speed.slo_batch if opened else memory.sequences,
        margin=speed.margins.rate if opened else 1.0,
        z=z,
        closed=not opened,
    )
    return fitting, mean_batch(speed.slo_batch, z) if opened else memory.sequences


def speed_with_hits(
    workload: InferenceWorkload, memory: ServingMemory, prefixes: Prefixes, speed: StreamSpeed
) -> StreamSpeed:
    """Speed of a replica that keeps the prefixes of idle sessions in its cache."""
    fitting, most = prefix_fit_test(workload, memory, prefixes, speed)
    with suspend_recording():
        batch = bisect_largest(np.zeros(len(memory)), most, fitting)
        always = replace(fitting, most=memory.sequences, z=0.0).holds(memory.sequences)
    sequences, peak, slower = memory.sequences, speed.slo_batch, Margins.without_margin(len(memory)).rate
    full = (batch < most) | (workload.load is not Load.OPEN)
    if workload.load is not Load.OPEN:
        sequences = np.floor(batch + 1e-6)
        batch = peak = np.minimum(peak, sequences)
        with suspend_recording():
            # More in flight may be slower and so leave fewer sessions idle: what fits there need not fit here.
            fitted = bisect_largest(np.zeros(len(memory)), peak, fitting)
        shrunk = fitted < peak
        batch = peak = np.where(shrunk, np.floor(fitted + 1e-6), peak)
        sequences = np.where(shrunk, peak, sequences)
        slower = speed.margins.rate
    with trace_label("with idle prefixes"):
        rate = fitting.replica_rate(batch) / slower
        # A cache that is not full limits no rate. With margins, `rate` is below a capacity that counts errors jointly.
        bound = np.where(full, rate, np.maximum(rate, speed.capacity_per_s))
        capacity = capacity_with_hits_per_s(speed.capacity_per_s, bound)
    return replace(
        speed,
        slo_batch=np.maximum(peak, 1.0),
        capacity_per_s=capacity,
        saturation_per_s=np.where(always, speed.saturation_per_s, np.minimum(speed.saturation_per_s, rate)),
        prefix_reservation=PrefixReservation(
            hits_counted=np.ones(len(memory), bool),
            limits_capacity=capacity < speed.capacity_per_s,
            sequences=sequences,
        ),
    )


def serving_value(workload: InferenceWorkload, speed: StreamSpeed) -> Column:
    """Figure that decides between two speeds of a replica: its request rate, or one over the replicas needed."""
    if workload.load is Load.OPEN:
        return speed.capacity_per_s
    with suspend_recording():
        replicas = replicas_for_requests(workload.in_flight, speed.slo_batch)
    return np.where(speed.has_capacity, 1 / replicas, 0.0)


def speed_with_prefixes(
    workload: InferenceWorkload, memory: ServingMemory, speed: StreamSpeed, assumed: Assumptions
) -> StreamSpeed:
    """The better of keeping prefixes and computing every prompt whole, row by row; `speed` has its hits for free.

    Above the rate at which the prefixes fit, a replica still serves what it can without hits.
    """
    cold_unloaded = speed.unloaded.without_hits
    if memory.prefixes is None or cold_unloaded is None:
        return speed
    with trace_label("with hits"):
        hits = speed_with_hits(workload, memory, memory.prefixes, speed)
    with trace_label("without hits"):
        cold = stream_speed(workload, memory, cold_unloaded, assumed)
    prompt_in_time = cold_unloaded.fastest_ttft_s <= cold_unloaded.ttft_limit_s
    without = np.where(prompt_in_time, 1.0, LAST_RESORT_WEIGHT) * serving_value(workload, cold)
    counted = hits_counted(serving_value(workload, hits), without) > 0
    lasting = np.minimum(np.maximum(hits.saturation_per_s, cold.saturation_per_s), speed.saturation_per_s)
    hits = replace(hits, saturation_per_s=lasting)
    if counted.all():
        return hits
    reservation = PrefixReservation(counted, counted, memory.sequences)
    return choose_rows(
        counted,
        hits,
        replace(cold, unloaded=replace(cold_unloaded, without_hits=cold_unloaded), prefix_reservation=reservation),
    )


def add_idle_sessions(memory: ServingMemory, operation: StreamOperatingPoint) -> StreamOperatingPoint:
    """Operating point with the idle sessions of its request rate and their prefixes, whether or not hits are
    counted.
    """
    prefixes = memory.prefixes
    if prefixes is None:
        return operation
    with trace_label("at the load"):
        idle = idle_sessions(operation.rate_per_s, prefixes.turn_gap_s)
        waiting = prefix_bytes(idle, prefixes.own_bytes, prefixes.shared_bytes)
    return replace(operation, idle_sessions=idle, prefix_bytes=waiting)


def limit_sequences(workload: InferenceWorkload, memory: ServingMemory, speed: StreamSpeed) -> ServingMemory:
    """Memory limited to the sequences for which the prefixes of a closed loop leave room."""
    if speed.prefix_reservation is None or workload.load is not Load.CLOSED:
        return memory
    return replace(memory, sequences=np.maximum(1.0, speed.prefix_reservation.sequences))


def prefix_cache_reports(
    workload: InferenceWorkload,
    memory: ServingMemory,
    speed: StreamSpeed,
    operation: StreamOperatingPoint,
    accelerators_per_replica: Column,
    assumed: Assumptions,
) -> tuple[PrefixCache | None, ...]:
    """Prefix-cache report of every deployment.

    Each tells what the cache keeps of idle sessions, and how many times the hardware the same load needs without hits
    and with gaps twice as long.
    """
    speed = speed.scale_to_ranks(1 / speed.data_parallel)
    prefixes, cold_unloaded, reservation = memory.prefixes, speed.unloaded.without_hits, speed.prefix_reservation
    idle, waiting = operation.idle_sessions, operation.prefix_bytes
    if prefixes is None or cold_unloaded is None or reservation is None or idle is None or waiting is None:
        return (None,) * len(memory)
    with suspend_recording():
        without = serving_value(workload, stream_speed(workload, memory, cold_unloaded, assumed))
        longer = replace(prefixes, turn_gap_s=2 * prefixes.turn_gap_s)
        later = np.maximum(serving_value(workload, speed_with_hits(workload, memory, longer, speed)), without)
    now = serving_value(workload, speed)

    def load_factor(values: Column, row: int) -> float | None:
        remaining = at(values, row)
        return at(now, row) / remaining if remaining > LEAST_CAPACITY_PER_S else None

    return tuple(
        PrefixCache(
            counted=bool(reservation.hits_counted[row]),
            sessions=at(idle, row),
            bytes_per_replica=at(waiting * accelerators_per_replica, row),
            host_bytes=at(prefixes.host_room_bytes * accelerators_per_replica, row),
            turn_gap_s=prefixes.turn_gap_s,
            times_without_hits=load_factor(without, row),
            times_at_twice_the_gap=load_factor(later, row),
        )
        for row in range(len(memory))
    )
