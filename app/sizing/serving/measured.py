"""What judging a plan finds out whatever kind of work it serves: the columns that search and answers read of both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np

from app.sizing.columns import Codes, Column, Columns, Mask
from app.sizing.serving.margins import Margins

# Halvings that find a batch to within one of 8192 sequences, and a rate to within 10^-5.
BATCH_BISECTIONS = 13
RATE_BISECTIONS = 18
QUANTILES = (50.0, 95.0, 99.0)
# A replica that does less meets its limits by the rounding of its batch only.
LEAST_CAPACITY_PER_S = 1e-9
# Keeps a replica that is exactly full from being overloaded.
OVERLOAD_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Settings(Columns):
    """What is fixed of the engine and the fleet, one value per row; None is chosen."""

    max_sequences: Column | None = None
    max_batched_tokens: Column | None = None
    memory_fraction: Column | None = None
    replicas: Column | None = None
    spare_replicas: Column | None = None
    nodes: Column | None = None


@dataclass(frozen=True, slots=True)
class Memory(Columns):
    """Bytes on the fullest device of a replica."""

    weights_bytes: Column
    activation_bytes: Column
    overhead_bytes: Column
    capacity_bytes: Column
    usable_bytes: Column  # what the engine will take of it
    needed_bytes: Column  # the least it runs in
    memory_fraction: Column
    sequences: Column  # that fit at once

    @property
    def fits(self) -> Mask:
        return self.needed_bytes <= self.usable_bytes

    @property
    def unfit(self) -> Column:
        """What is needed over what there is, of the memory that is shortest; 0 where it fits."""
        return np.where(self.fits, 0.0, self.needed_bytes / np.maximum(self.usable_bytes, 1.0))


@dataclass(frozen=True, slots=True)
class Alone(Columns):
    """What a request alone on an idle replica takes, and what its limits leave."""

    margins: Margins  # by which they are to hold


@dataclass(frozen=True, slots=True)
class Speed(Columns):
    """How one replica serves a workload."""

    alone: Alone
    slo_batch: Column  # largest batch that meets the limits
    capacity_per_s: Column  # requests per second within the limits
    saturation_per_s: Column  # requests per second at which the queue grows without bound

    @property
    def margins(self) -> Margins:
        return self.alone.margins

    @property
    def data_parallel(self) -> Column:
        """Ranks of a replica, each of which runs its part of the batch."""
        return np.ones(len(self))

    @property
    def rank_batch(self) -> Column:
        """The largest batch of one of them."""
        return self.slo_batch / self.data_parallel

    @property
    def serves(self) -> Mask:
        """Whether a replica does any work within the limits."""
        return self.capacity_per_s > LEAST_CAPACITY_PER_S


@dataclass(frozen=True, slots=True)
class Operation(Columns):
    """One replica at its share of the load. Latencies are infinite where the queue never empties."""

    batch: Column  # mean sequences running
    rate_per_s: Column  # requests per second of one replica
    utilization: Column
    e2e_mean_s: Column
    e2e_p50_s: Column
    e2e_p95_s: Column
    e2e_p99_s: Column

    @property
    def overloaded(self) -> Mask:
        """Whether more is asked of a replica than it carries within the limits."""
        return self.utilization > 1 + OVERLOAD_ROUNDING


@dataclass(frozen=True, slots=True)
class Best(Columns):
    """What no software makes of the hardware at a batch: 100 % of every rate, no overhead, no queue."""

    rate_per_s: Column  # requests per second of one replica
    tpot_s: Column
    ttft_s: Column


@dataclass(frozen=True, slots=True)
class Limit:
    """What a request alone on an idle replica must meet, and what to say where it does not."""

    code: str
    text: str
    needed_s: Column
    available_s: Column
    met: Mask
    expected: Mask  # met as predicted, if not with the confidence asked for


class Test(Protocol):
    """A table of monotone tests, one per row, that hold up to some value."""

    def holds(self, values: Column) -> Mask:
        """Whether each row's test holds at its value."""
        ...

    def take(self, rows: Codes | Mask) -> Self:
        """Some of the rows."""
        ...


# Up to how many rows so many halvings are tried at once: their points cost less than another pass.
AT_ONCE = ((16, 6), (128, 3), (400, 2))


def largest(low: Column, high: Column, test: Test, *, halvings: int = RATE_BISECTIONS) -> Column:
    """Largest value between `low` and `high` for which a test holds, by bisection of the rows where `high` fails and,
    of many, `low` holds; `low` where nothing does.
    """
    found = high.copy()
    open_rows = np.flatnonzero(~test.holds(high))
    if not len(open_rows):
        return found
    if len(open_rows) < len(high):
        test, low, high = test.take(open_rows), low[open_rows], high[open_rows]
    if len(open_rows) > AT_ONCE[-1][0]:
        found[open_rows] = low
        able = np.flatnonzero(test.holds(low))
        open_rows, test, low, high = open_rows[able], test.take(able), low[able], high[able]
    together = next((times for rows, times in AT_ONCE if len(open_rows) <= rows), 1)
    tried = test.take(np.tile(np.arange(len(low)), 2**together - 1)) if together > 1 else test
    for _ in range(halvings // together):
        low, high = halved(low, high, tried, together)
    for _ in range(halvings % together):
        low, high = halved(low, high, test, 1)
    found[open_rows] = low
    return found


def halved(low: Column, high: Column, test: Test, times: int) -> tuple[Column, Column]:
    """Where so many halvings lead; `test` has a row for each point that they may ask for. The points are those of
    halving one by one, to the last digit: what a row comes to does not depend on how many others there are.
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
    held = test.holds(inner.ravel()).reshape(inner.shape)
    cell = np.where(held.all(axis=0), len(inner), held.argmin(axis=0))
    return points[cell, rows], points[cell + 1, rows]
