"""Prefixes that idle sessions leave in the cache: what they take of it, and whether waiting for them is worth it.

A session's prefix waits from its answer to its next request. With a rate of requests and that gap there are, by
Little's law, so many idle sessions; they and the running sequences share the pool:

    running(rate) * held + idle * own + shared <= pool        idle = rate * gap

The largest rate at which both fit is what a replica carries with its hits. Where it carries more by computing every
prompt whole, no hits are counted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Column, Columns, Mask, at, either
from app.sizing.decisions.placement import replicas_for_requests
from app.sizing.formula import formula, told_as, unrecorded
from app.sizing.result import PrefixCache
from app.sizing.serving.cache import Prefixes
from app.sizing.serving.flow import closed_turn, open_rate_per_s
from app.sizing.serving.load import BesidePrefixes, StreamSpeed, mean_batch, stream_speed
from app.sizing.serving.margins import Margins
from app.sizing.serving.measured import LEAST_CAPACITY_PER_S, largest
from app.sizing.serving.memory import ServingMemory
from app.sizing.serving.operation import StreamOperation, crowd
from app.sizing.serving.pace import Stream
from app.sizing.workload import InferenceWorkload, Load, z_score

# Computing prompts whole counts for so little where they take longer than their limit: only where hits serve nothing.
LAST_RESORT = 1e-12


@formula(unit="sessions", source="Little's law")
def idle_sessions(replica_rate_per_s: Column, turn_gap_s: float) -> Column:
    """Sessions of a replica between an answer and the next request.

    Source: Little 1961. Limits: every request is followed by another; gaps of one length.
    Check:
        >>> one(idle_sessions(col(2.5), 60.0))
        150.0
    """
    return replica_rate_per_s * turn_gap_s


@formula(unit="B", source="counted: what all share is kept once")
def prefix_bytes(idle_sessions: Column, own_bytes: Column, shared_bytes: Column) -> Column:
    """Cache of one device that idle sessions' prefixes fill; while none is idle, what all share lies with what runs.

    Source: counted. Limits: blocks are found again whole.
    Check:
        >>> one(prefix_bytes(col(150), col(2e8), col(1e9)))  # 150 * 0.2 GB, and 1 GB that all share
        31000000000.0
    """
    return idle_sessions * own_bytes + np.minimum(idle_sessions, 1.0) * shared_bytes


@formula(unit="B", source="counted")
def running_bytes(running: Column, held_bytes_per_sequence: Column) -> Column:
    """Cache of one device that running sequences fill. Source: counted. Limits: each holds its whole prompt."""
    return running * held_bytes_per_sequence


@formula(unit="requests/s", source="minimum of the bounds")
def capacity_with_hits_per_s(capacity_per_s: Column, prefix_rate_per_s: Column) -> Column:
    """Requests per second within the limits at which the hits last; `prefix_rate_per_s` is the largest at which running
    sequences and prefixes fit.

    Source: minimum of the bounds. Limits: as of the bounds.
    """
    return np.minimum(capacity_per_s, prefix_rate_per_s)


@formula(unit="1", source="definition")
def hits_counted(merit_with_hits: Column, merit_without_hits: Column) -> Column:
    """Whether a replica does no less by waiting for hits. Source: definition. Limits: all of them, or none."""
    return np.where(merit_with_hits >= merit_without_hits, 1.0, 0.0)


@dataclass(frozen=True, slots=True)
class Fitting(Columns):
    """Whether so many running sequences, and the prefixes of their rate, fit into the pool."""

    stream: Stream
    prefixes: Prefixes
    kv_pool_bytes: Column
    held_bytes_per_sequence: Column
    most: Column  # sequences at once
    margin: Column | float  # by which the rate is less than predicted
    z: float  # of how crowded it may get
    closed: bool

    def rate(self, batch: Column) -> Column:
        """What the replica is counted on for at this mean batch."""
        if self.closed:
            return closed_turn(self.stream, batch, batch).rate_per_s * np.minimum(batch, 1.0) / self.margin
        return open_rate_per_s(self.stream, batch, self.most) / self.margin

    def holds(self, batch: Column) -> Mask:
        """At this mean batch."""
        idle = idle_sessions(self.rate(batch), self.prefixes.turn_gap_s)
        waiting = prefix_bytes(idle, self.prefixes.own_bytes, self.prefixes.shared_bytes)
        running = running_bytes(crowd(batch, self.z, self.most), self.held_bytes_per_sequence)
        met: Mask = running + waiting <= self.kv_pool_bytes
        return met


def fitting_of(
    workload: InferenceWorkload, memory: ServingMemory, prefixes: Prefixes, speed: StreamSpeed
) -> tuple[Fitting, Column]:
    """What must fit, and the mean batch up to which it may.

    Of a request rate the batch that a percentile meets counts. A closed loop that is slower than predicted has fewer
    sessions idle: there what is predicted must fit.
    """
    opened = workload.load is Load.OPEN
    z = max(0.0, z_score(workload.slo.percentile)) if opened else 0.0
    fitting = Fitting(
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


def with_hits(
    workload: InferenceWorkload, memory: ServingMemory, prefixes: Prefixes, speed: StreamSpeed
) -> StreamSpeed:
    """What of a speed is left where the prefixes of idle sessions must stay."""
    fitting, most = fitting_of(workload, memory, prefixes, speed)
    with unrecorded():
        batch = largest(np.zeros(len(memory)), most, fitting)
        always = replace(fitting, most=memory.sequences, z=0.0).holds(memory.sequences)
    sequences, peak, slower = memory.sequences, speed.slo_batch, Margins.none(len(memory)).rate
    if workload.load is not Load.OPEN:
        sequences = np.floor(batch + 1e-6)
        batch = peak = np.minimum(peak, sequences)
        with unrecorded():
            # More in flight may be slower and so leave fewer sessions idle: what fits there need not fit here.
            fitted = largest(np.zeros(len(memory)), peak, fitting)
        shrunk = fitted < peak
        batch = peak = np.where(shrunk, np.floor(fitted + 1e-6), peak)
        sequences = np.where(shrunk, peak, sequences)
        slower = speed.margins.rate
    with told_as("beside prefixes"):
        rate = fitting.rate(batch) / slower
        capacity = capacity_with_hits_per_s(speed.capacity_per_s, rate)
    return replace(
        speed,
        slo_batch=np.maximum(peak, 1.0),
        capacity_per_s=capacity,
        saturation_per_s=np.where(always, speed.saturation_per_s, np.minimum(speed.saturation_per_s, rate)),
        beside=BesidePrefixes(
            counted=np.ones(len(memory), bool), binds=capacity < speed.capacity_per_s, sequences=sequences
        ),
    )


def merit(workload: InferenceWorkload, speed: StreamSpeed) -> Column:
    """What decides between speeds of one replica: its rate, or how few of it hold what is in flight."""
    if workload.load is Load.OPEN:
        return speed.capacity_per_s
    with unrecorded():
        replicas = replicas_for_requests(workload.in_flight, speed.slo_batch)
    return np.where(speed.serves, 1 / replicas, 0.0)


def speed_with_prefixes(
    workload: InferenceWorkload, memory: ServingMemory, speed: StreamSpeed, assumed: Assumptions
) -> StreamSpeed:
    """The better of waiting for hits and of computing every prompt whole, row by row; `speed` has its hits for free.

    Beyond the rate at which the prefixes fit a replica still does what it does without hits.
    """
    cold_alone = speed.alone.cold
    if memory.prefixes is None or cold_alone is None:
        return speed
    with told_as("hits"):
        hits = with_hits(workload, memory, memory.prefixes, speed)
    with told_as("no hits"):
        cold = stream_speed(workload, memory, cold_alone, assumed)
    prompt_in_time = cold_alone.fastest_ttft_s <= cold_alone.ttft_limit_s
    without = np.where(prompt_in_time, 1.0, LAST_RESORT) * merit(workload, cold)
    counted = hits_counted(merit(workload, hits), without) > 0
    lasting = np.minimum(np.maximum(hits.saturation_per_s, cold.saturation_per_s), speed.saturation_per_s)
    hits = replace(hits, saturation_per_s=lasting)
    if counted.all():
        return hits
    beside = BesidePrefixes(counted, counted, memory.sequences)
    return either(counted, hits, replace(cold, alone=replace(cold_alone, cold=cold_alone), beside=beside))


def with_idle(memory: ServingMemory, operation: StreamOperation) -> StreamOperation:
    """An operation with the prefixes that its rate leaves behind, whether or not they are waited for."""
    prefixes = memory.prefixes
    if prefixes is None:
        return operation
    with told_as("at the load"):
        idle = idle_sessions(operation.rate_per_s, prefixes.turn_gap_s)
        waiting = prefix_bytes(idle, prefixes.own_bytes, prefixes.shared_bytes)
    return replace(operation, idle_sessions=idle, prefix_bytes=waiting)


def at_once(workload: InferenceWorkload, memory: ServingMemory, speed: StreamSpeed) -> ServingMemory:
    """Memory in which no more run than the prefixes of a closed loop leave room for."""
    if speed.beside is None or workload.load is not Load.CLOSED:
        return memory
    return replace(memory, sequences=np.maximum(1.0, speed.beside.sequences))


def survival(
    workload: InferenceWorkload,
    memory: ServingMemory,
    speed: StreamSpeed,
    operation: StreamOperation,
    accelerators_per_replica: Column,
    assumed: Assumptions,
) -> tuple[PrefixCache | None, ...]:
    """Of every deployment what it keeps of idle sessions, and how much more the same load takes without hits and when
    turns are twice as far apart.
    """
    speed = speed.times(1 / speed.data_parallel)
    prefixes, cold_alone, beside = memory.prefixes, speed.alone.cold, speed.beside
    idle, waiting = operation.idle_sessions, operation.prefix_bytes
    if prefixes is None or cold_alone is None or beside is None or idle is None or waiting is None:
        return (None,) * len(memory)
    with unrecorded():
        without = merit(workload, stream_speed(workload, memory, cold_alone, assumed))
        longer = replace(prefixes, turn_gap_s=2 * prefixes.turn_gap_s)
        later = np.maximum(merit(workload, with_hits(workload, memory, longer, speed)), without)
    now = merit(workload, speed)

    def times(merits: Column, row: int) -> float | None:
        left = at(merits, row)
        return at(now, row) / left if left > LEAST_CAPACITY_PER_S else None

    return tuple(
        PrefixCache(
            counted=bool(beside.counted[row]),
            sessions=at(idle, row),
            bytes_per_replica=at(waiting * accelerators_per_replica, row),
            turn_gap_s=prefixes.turn_gap_s,
            times_without_hits=times(without, row),
            times_at_twice_the_gap=times(later, row),
        )
        for row in range(len(memory))
    )
