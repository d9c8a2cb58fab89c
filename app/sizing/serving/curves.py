"""What one replica does at loads from light to too much, and what is read between them.

A load is a rate of requests, or a number in flight. Waits do not fall from one load to the next, so a lighter load
never waits longer; between two loads they are straight in logarithms, and every limit is read from the same lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.sizing.columns import Column
from app.sizing.formula import formula, told_as
from app.sizing.serving.margins import Margins
from app.sizing.workload import Slo, TrafficClass

WAITS = ("ttft", "tpot", "e2e", "queue", "gap")
LATENCIES = WAITS[:3]
STATISTICS = ("mean", "p50", "p95", "p99")
AT_LIMIT = "at_limit"  # the percentile that limits hold at
TOLD = (*STATISTICS, AT_LIMIT)
LEAST_S = 1e-9

Waits = NDArray[np.float64]


@formula(unit="s", source="simulated at two loads, straight in logarithms between them")
def between_loads_s(lighter_s: Column, heavier_s: Column, part: Column) -> Column:
    """A wait at a load between two that were simulated; `part` is how far it is from the lighter one.

    Source: definition. Limits: loads that lie close.
    Check:
        >>> one(between_loads_s(col(0.1), col(0.4), col(0.5)))
        0.2
    """
    return lighter_s ** (1 - part) * heavier_s**part


@formula(unit="requests/s", source="simulated: the largest load within the limits, and where the queue never empties")
def expected_capacity_per_s(load_within_limits_per_s: Column, stable_below_per_s: Column) -> Column:
    """Requests per second that a replica carries within the limits, as predicted.

    Source: minimum of the bounds. Limits: as of the bounds.
    """
    return np.minimum(load_within_limits_per_s, stable_below_per_s)


@formula(unit="requests/s", source="simulated, with waits and rates worse by the margins of the confidence asked")
def sure_capacity_per_s(load_surely_within_per_s: Column, stable_below_per_s: Column, rate_margin: Column) -> Column:
    """Requests per second that a replica carries within the limits with the confidence asked.

    Source: minimum of the bounds. Limits: as of the bounds.
    """
    return np.minimum(load_surely_within_per_s, stable_below_per_s) / rate_margin


@dataclass(frozen=True, slots=True)
class Place:
    """Between which of the loads one lies, and how far from the lighter one."""

    lighter: int
    heavier: int
    part: float

    @property
    def inside(self) -> float:
        """The same between the two."""
        return min(self.part, 1.0)


@dataclass(frozen=True, slots=True)
class Curve:
    """One replica at loads, least first. `closed`: loads are requests in flight, else requests a second."""

    closed: bool
    policy: str  # of the scheduler
    loads: Column
    waits_s: Waits  # a row for each load: WAITS by TOLD
    answered_per_s: Column
    running: Column  # mean sequences
    cache_share: Column  # in use, in the mean
    preempted: Column  # per request
    goodput_share: Column  # of requests that meet every limit
    stable_below: float  # the rate from which the queue never empties
    requests: Column  # that were simulated
    by_class: tuple[ClassCurve, ...] = ()  # of a service that several classes share

    def place(self, load: float) -> Place:
        """Where a load lies; below the least it is the least, beyond the greatest a closed loop waits on."""
        last = len(self.loads) - 1
        low = max(min(int(self.loads.searchsorted(load, side="right")) - 1, last - 1), 0)
        high = min(low + 1, last)
        if high == low or load <= self.loads[low]:
            return Place(low, high, 0.0)
        part = float(np.log(load / self.loads[low]) / np.log(self.loads[high] / self.loads[low]))
        return Place(low, high, part if self.closed else min(part, 1.0))

    def of(self, wait: str, statistic: str) -> Column:
        """One statistic of a wait at every load."""
        found: Column = self.waits_s[:, WAITS.index(wait), TOLD.index(statistic)]
        return found

    def ends(self, wait: str, statistic: str, load: float) -> tuple[float, float, float]:
        """What a wait at a load is read from: at the lighter load, at the heavier, how far between; infinite where the
        queue never empties.
        """
        if not self.closed and load >= self.stable_below:
            return np.inf, np.inf, 0.0
        return self.simulated_ends(wait, statistic, load)

    def simulated_ends(self, wait: str, statistic: str, load: float) -> tuple[float, float, float]:
        """The same of the requests that were simulated; a wait that begins with none is told no further than it was."""
        at, values = self.place(load), self.of(wait, statistic)
        lighter = float(values[at.lighter])
        return lighter, float(values[at.heavier]), at.part if lighter > 0 else at.inside

    def wait_s(self, wait: str, statistic: str, load: float) -> float:
        """A wait at a load; infinite where the queue never empties."""
        lighter, heavier, part = self.ends(wait, statistic, load)
        return lighter if part == 0 else float(lighter ** (1 - part) * heavier**part)

    def simulated_s(self, wait: str, statistic: str, load: float) -> float:
        """The same of the requests that were simulated, even where the queue never empties."""
        lighter, heavier, part = self.simulated_ends(wait, statistic, load)
        return lighter if part == 0 else float(lighter ** (1 - part) * heavier**part)

    def level(self, values: Column, load: float) -> float:
        """A figure that is no wait at a load: straight between two."""
        at = self.place(load)
        return float(values[at.lighter] + at.inside * (values[at.heavier] - values[at.lighter]))

    def share_of_load(self, values: Column, load: float) -> float:
        """A figure that grows with the load from nothing, by Little's law."""
        return self.level(values / self.loads, load) * min(load, float(self.loads[-1]))

    def answered(self, load: float) -> float:
        """Requests per second that are answered at a load."""
        if not self.closed:
            return min(load, self.stable_below)
        return self.level(self.answered_per_s, load)

    def limits(self, slo: Slo, margins: Margins, row: int) -> Iterator[tuple[Column, float]]:
        """Waits by the margins of a row beside what is allowed, where anything is; of several classes each by its own
        limits.
        """
        if self.by_class:
            for part in self.by_class:
                yield from part.curve.limits(part.of.slo, margins, row)
            return
        first, token, whole = (self.of(name, AT_LIMIT) for name in LATENCIES)
        slower_first, slower_token = float(margins.ttft[row]), float(margins.tpot[row])
        for wait_s, limit_s in (
            (first * slower_first, slo.ttft_s),
            (token * slower_token, slo.tpot_s),
            (first * slower_first + (whole - first) * slower_token, slo.e2e_s),
        ):
            if limit_s is not None:
                yield np.maximum.accumulate(np.maximum(wait_s, LEAST_S)), limit_s

    def most_within(self, slo: Slo, margins: Margins, row: int) -> float:
        """The largest load that meets every limit by the margins of a row; none: 0."""
        return min((self.crossing(*limit) for limit in self.limits(slo, margins, row)), default=float(self.loads[-1]))

    def least(self, slo: Slo, margins: Margins, row: int) -> tuple[float, float]:
        """At the lightest load the wait that misses its limit by the most, and the limit."""
        found = [(float(wait_s[0]), limit_s) for wait_s, limit_s in self.limits(slo, margins, row)]
        return max(found, key=lambda pair: pair[0] / pair[1], default=(1.0, np.inf))

    def crossing(self, wait_s: Column, limit_s: float) -> float:
        """The largest load at which a wait is allowed."""
        over = np.flatnonzero(wait_s > limit_s)
        if not len(over):
            return float(self.loads[-1])
        after = int(over[0])
        if after == 0:
            return 0.0
        part = np.log(limit_s / wait_s[after - 1]) / np.log(wait_s[after] / wait_s[after - 1])
        low, high = self.loads[after - 1], self.loads[after]
        return float(low * (high / low) ** part)

    def knee(self) -> float:
        """The load from which the first token's p95 grows faster than throughput."""
        slow = np.diff(np.log(np.maximum(self.of("ttft", "p95"), LEAST_S)))
        more = np.diff(np.log(np.maximum(self.answered_per_s, LEAST_S)))
        beyond = np.flatnonzero(slow > more)
        return float(self.loads[int(beyond[0]) if len(beyond) else -1])


@dataclass(frozen=True, slots=True)
class ClassCurve:
    """What one class of traffic waits for where the loads are those of all of them together."""

    of: TrafficClass
    curve: Curve


def waits_at(curves: Sequence[Curve], loads: Column) -> dict[str, Column]:
    """Latencies of replicas at their loads, by the names of an operation's columns."""
    found: dict[str, Column] = {}
    for wait in LATENCIES:
        for statistic in STATISTICS:
            ends = [c.ends(wait, statistic, load) for c, load in zip(curves, loads.tolist(), strict=True)]
            lighter, heavier, part = np.array(ends).T
            with told_as(f"{wait} {statistic}"):
                found[f"{wait}_{statistic}_s"] = between_loads_s(lighter, heavier, part)
    return found


def most_within(curves: Sequence[Curve], slo: Slo, margins: Margins) -> Column:
    """The largest load of every curve within the limits, by margins."""
    return np.array([c.most_within(slo, margins, row) for row, c in enumerate(curves)])


def stable_below(curves: Sequence[Curve]) -> Column:
    """The rate from which the queue of every curve never empties."""
    return np.array([c.stable_below for c in curves])


def in_flight_within(curves: Sequence[Curve], slo: Slo, margins: Margins, sequences: Column) -> Column:
    """Requests in flight that a replica of every curve holds within the limits, of those that run at once."""
    held: Column = np.floor(np.minimum(most_within(curves, slo, margins), sequences) + LEAST_S)
    return held
