"""What searches and answers read of an evaluated plan, common to all serving backends, and its latency limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np

from app.sizing.columns import Codes, Column, Columns, Mask
from app.sizing.decisions.placement import planned_capacity_per_s
from app.sizing.serving.margins import Margins
from app.sizing.workload import InferenceWorkload, Load

# Bisection steps for a batch to within 1 of 8192 sequences, and for a rate to within 10^-5.
BATCH_BISECTIONS = 13
RATE_BISECTIONS = 18
QUANTILES = (50.0, 95.0, 99.0)
# A replica with less capacity meets its limits only because its batch is rounded.
LEAST_CAPACITY_PER_S = 1e-9
# Tolerance, so that a replica at exactly 100 % utilization is not reported as overloaded.
OVERLOAD_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Settings(Columns):
    """Fixed engine and fleet settings, one value per row; a setting of None is left to the search."""

    max_sequences: Column | None = None  # concurrent sequences of one rank (`max_num_seqs`)
    max_batched_tokens: Column | None = None  # tokens of one step (`max_num_batched_tokens`)
    memory_fraction: Column | None = None  # share of device memory that the engine uses
    logits_copies: Column | None = None  # float32 copies of the logits that sampling holds
    skip_mm_profiling: Column | None = None  # 1 where the engine reserves no memory for its largest images
    replicas: Column | None = None  # replicas without spares
    spare_replicas: Column | None = None  # spare replicas
    nodes: Column | None = None  # machines


@dataclass(frozen=True, slots=True)
class Memory(Columns):
    """Memory use of the fullest device of a replica."""

    weights_bytes: Column  # weights
    activation_bytes: Column  # activations and workspace
    overhead_bytes: Column  # runtime, CUDA graphs and communication buffers
    capacity_bytes: Column  # memory of the device
    usable_bytes: Column  # memory that the engine may use
    needed_bytes: Column  # minimum memory in which the engine runs
    memory_fraction: Column  # share of device memory that the engine uses
    sequences: Column  # sequences that fit concurrently

    @property
    def fits(self) -> Mask:
        return self.needed_bytes <= self.usable_bytes

    @property
    def memory_shortfall(self) -> Column:
        """Ratio of needed to usable memory on the fullest device; 0 where the plan fits."""
        return np.where(self.fits, 0.0, self.needed_bytes / np.maximum(self.usable_bytes, 1.0))


@dataclass(frozen=True, slots=True)
class UnloadedLatency(Columns):
    """Latency of a request on an idle replica, and the time that its limits leave."""

    margins: Margins  # margins with which the limits must hold


@dataclass(frozen=True, slots=True)
class Speed(Columns):
    """Capacity of one replica for a workload."""

    unloaded: UnloadedLatency  # latency of a request on an idle replica
    slo_batch: Column  # largest batch that meets the limits
    capacity_per_s: Column  # requests per second within the limits
    saturation_per_s: Column  # requests per second at which the queue grows without bound

    @property
    def margins(self) -> Margins:
        return self.unloaded.margins

    def planned_capacity_per_s(self, workload: InferenceWorkload) -> Column:
        """Requests per second that a replica is planned to carry."""
        if workload.load is not Load.OPEN:
            return self.capacity_per_s
        bounds = self.saturation_per_s, self.margins.rate, workload.target_utilization
        return planned_capacity_per_s(self.capacity_per_s, *bounds)

    @property
    def data_parallel(self) -> Column:
        """Data-parallel ranks of a replica; each runs its part of the batch."""
        return np.ones(len(self))

    @property
    def rank_batch(self) -> Column:
        """Largest batch of one data-parallel rank within the limits."""
        return self.slo_batch / self.data_parallel

    @property
    def sequence_limit(self) -> Column:
        """Sequences that one data-parallel rank is configured to run at once (`max_num_seqs`)."""
        return self.rank_batch

    @property
    def has_capacity(self) -> Mask:
        """Whether a replica has any capacity within the limits."""
        return self.capacity_per_s > LEAST_CAPACITY_PER_S


@dataclass(frozen=True, slots=True)
class OperatingPoint(Columns):
    """Operating point of one replica at its share of the load. Latencies are infinite where the queue grows without
    bound.
    """

    batch: Column  # mean number of running sequences
    rate_per_s: Column  # requests per second of one replica
    utilization: Column  # load as a share of the capacity within the limits
    e2e_mean_s: Column  # mean end-to-end latency, in seconds
    e2e_p50_s: Column  # median end-to-end latency, in seconds
    e2e_p95_s: Column  # 95th percentile of end-to-end latency, in seconds
    e2e_p99_s: Column  # 99th percentile of end-to-end latency, in seconds

    @property
    def overloaded(self) -> Mask:
        """Whether the load exceeds the replica's capacity within the limits."""
        return self.utilization > 1 + OVERLOAD_ROUNDING


@dataclass(frozen=True, slots=True)
class HardwareBound(Columns):
    """Upper bound of the hardware at a batch: 100 % of every nominal rate, no overhead, no queue."""

    rate_per_s: Column  # requests per second of one replica
    tpot_s: Column  # time per output token, in seconds
    ttft_s: Column  # time to first token, in seconds


@dataclass(frozen=True, slots=True)
class LatencyLimit:
    """Limit that a request must meet on an idle replica, and the message for plans that miss it."""

    code: str  # rejection code
    text: str  # rejection text with placeholders
    needed_s: Column  # latency with margins, in seconds
    available_s: Column  # limit, in seconds
    met: Mask  # whether the limit holds at the requested confidence
    expected: Mask  # whether the median prediction meets the limit


class MonotoneTest(Protocol):
    """Table of monotone predicates, one per row: each holds up to some value and fails above it."""

    def holds(self, values: Column) -> Mask:
        """Whether each row's predicate holds at its value."""
        ...

    def take(self, rows: Codes | Mask) -> Self:
        """Some of the rows."""
        ...


# (rows, bisection steps per pass): for few rows, evaluating more points in one pass is cheaper than more passes.
STEPS_PER_PASS = ((16, 6), (128, 3), (400, 2))


def bisect_largest(low: Column, high: Column, test: MonotoneTest, *, halvings: int = RATE_BISECTIONS) -> Column:
    """Largest value between `low` and `high` at which each row's test holds, found by bisection.

    Rows that hold at `high` return `high`. Rows that hold nowhere return `low`.
    """
    found = high.copy()
    open_rows = np.flatnonzero(~test.holds(high))
    if not len(open_rows):
        return found
    if len(open_rows) < len(high):
        test, low, high = test.take(open_rows), low[open_rows], high[open_rows]
    if len(open_rows) > STEPS_PER_PASS[-1][0]:
        found[open_rows] = low
        able = np.flatnonzero(test.holds(low))
        open_rows, test, low, high = open_rows[able], test.take(able), low[able], high[able]
    together = next((times for rows, times in STEPS_PER_PASS if len(open_rows) <= rows), 1)
    repeated_test = test.take(np.tile(np.arange(len(low)), 2**together - 1)) if together > 1 else test
    for _ in range(halvings // together):
        low, high = bisect_interval(low, high, repeated_test, together)
    for _ in range(halvings % together):
        low, high = bisect_interval(low, high, test, 1)
    found[open_rows] = low
    return found


def bisect_interval(low: Column, high: Column, test: MonotoneTest, times: int) -> tuple[Column, Column]:
    """Interval of each row after `times` bisections, which one call of `test` evaluates together.

    `test` has a row for every point. The points equal those of repeated bisection exactly, so the result of a row
    does not depend on the number of other rows.
    """
    if times == 1:
        middle = (low + high) / 2
        good = test.holds(middle)
        return np.where(good, middle, low), np.where(good, high, middle)
    points = np.stack([low, high])
    for _ in range(times):
        finer = np.empty((2 * len(points) - 1, len(low)))
        finer[::2], finer[1::2] = points, (points[:-1] + points[1:]) / 2
        points = finer
    inner, rows = points[1:-1], np.arange(len(low))
    holds = test.holds(inner.ravel()).reshape(inner.shape)
    cell = np.where(holds.all(axis=0), len(inner), holds.argmin(axis=0))
    return points[cell, rows], points[cell + 1, rows]


@dataclass(frozen=True, slots=True)
class TightestLimits(Columns):
    """Tightest limits of all traffic classes on every plan.

    TPOT takes the smallest limit of all classes. TTFT takes the class with the least time left after its unloaded
    long prompt.
    """

    unloaded_ttft_s: Column  # unloaded TTFT of the long prompt of the class with the least time left, in seconds
    tpot_s: Column  # smallest TPOT limit of all classes, in seconds
    ttft_s: Column  # TTFT limit of the class with the least time left, in seconds


def prediction_limits(workload: InferenceWorkload, unloaded_ttft_s: Column, margins: Margins) -> tuple[Column, Column]:
    """TPOT and TTFT that median predictions must meet so that the limits hold with the margins, in seconds.

    A limit on end-to-end latency is converted into limits on both.
    """
    slo = workload.slo
    tpot = np.full(len(unloaded_ttft_s), np.inf if slo.tpot_s is None else slo.tpot_s)
    ttft = np.full(len(unloaded_ttft_s), np.inf if slo.ttft_s is None else slo.ttft_s)
    if slo.e2e_s is not None:
        tokens = max(1.0, workload.long_answer(slo.percentile))
        tpot = np.minimum(tpot, np.maximum(slo.e2e_s - unloaded_ttft_s * margins.ttft, 1e-9) / tokens)
        ttft = np.minimum(ttft, slo.e2e_s)
    return tpot / margins.tpot, ttft / margins.ttft


def tightest_limits(workload: InferenceWorkload, unloaded_ttft_s: Sequence[Column]) -> TightestLimits | None:
    """Tightest limits of a workload's traffic classes; None if there are no classes.

    `quickest` holds the unloaded TTFT of each class's long prompt, in seconds.
    """
    if not workload.classes:
        return None
    none = Margins.without_margin(len(unloaded_ttft_s[0]))
    limits = [
        prediction_limits(workload.single_class_workload(c), alone_s, none)
        for c, alone_s in zip(workload.classes, unloaded_ttft_s, strict=True)
    ]
    tpot, ttft = (np.stack(found) for found in zip(*limits, strict=True))
    unloaded = np.stack(unloaded_ttft_s)
    least = np.argmin(ttft - unloaded, axis=0), np.arange(unloaded.shape[1])
    return TightestLimits(unloaded[least], tpot.min(axis=0), ttft[least])


def limits_with_margins(
    workload: InferenceWorkload, tightest: TightestLimits | None, unloaded_ttft_s: Column, margins: Margins
) -> tuple[Column, Column]:
    """TPOT and TTFT limits with margins, of the classes or of the workload, in seconds."""
    if tightest is None:
        return prediction_limits(workload, unloaded_ttft_s, margins)
    return tightest.tpot_s / margins.tpot, tightest.ttft_s / margins.ttft
