"""Load curves of one replica: latencies at loads from light to overload, and interpolation between them.

A load is a request rate, or a number of requests in flight. Waits never decrease with load, and they are interpolated
linearly in log space; every limit is read from the same lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.sizing.columns import Column
from app.sizing.formula import formula, trace_label
from app.sizing.serving.margins import Margins
from app.sizing.workload import Slo, TrafficClass

WAITS = ("ttft", "tpot", "e2e", "queue", "gap")
LATENCIES = WAITS[:3]
STATISTICS = ("mean", "p50", "p95", "p99")
AT_LIMIT = "at_limit"  # the percentile at which limits hold
STATISTIC_COLUMNS = (*STATISTICS, AT_LIMIT)
MIN_WAIT_S = 1e-9

Waits = NDArray[np.float64]


@formula(unit="s", source="simulation at two loads, linear in log space between them")
def between_loads_s(lighter_s: Column, heavier_s: Column, fraction: Column) -> Column:
    """Wait at a load between two simulated loads, interpolated in log space.

    Parameters:
        lighter_s: wait at the lighter load, s.
        heavier_s: wait at the heavier load, s.
        fraction: position of the load between the two, 0 at the lighter one.
    Limits: loads that are close together.
    Check:
        >>> one(between_loads_s(col(0.1), col(0.4), col(0.5)))
        0.2
    """
    return lighter_s ** (1 - fraction) * heavier_s**fraction


@formula(unit="requests/s", source="simulation: minimum of the largest load within the limits and the stability limit")
def expected_capacity_per_s(load_within_limits_per_s: Column, stable_below_per_s: Column) -> Column:
    """Predicted request rate of a replica within the latency limits (median prediction).

    Parameters:
        load_within_limits_per_s: largest simulated rate within the limits, requests/s.
        stable_below_per_s: rate from which the queue never empties, requests/s.
    Check:
        >>> one(expected_capacity_per_s(col(2.0), col(2.5)))
        2.0
    """
    return np.minimum(load_within_limits_per_s, stable_below_per_s)


@formula(unit="requests/s", source="simulation, with waits and rates worsened by the margins of the confidence")
def capacity_at_confidence_per_s(
    confident_load_per_s: Column, stable_below_per_s: Column, rate_margin: Column
) -> Column:
    """Request rate of a replica within the latency limits at the requested confidence.

    Parameters:
        confident_load_per_s: largest simulated rate within the limits after latency margins, requests/s.
        stable_below_per_s: rate from which the queue never empties, requests/s.
        rate_margin: factor by which the rate may be lower than predicted.
    Check:
        >>> one(capacity_at_confidence_per_s(col(2.0), col(2.5), col(1.25)))
        1.6
    """
    return np.minimum(confident_load_per_s, stable_below_per_s) / rate_margin


@dataclass(frozen=True, slots=True)
class Interpolation:
    """Position of a load among the simulated loads: the two neighbors and the distance from the lighter one."""

    lighter: int  # index of the lighter neighbor
    heavier: int  # index of the heavier neighbor
    fraction: float  # distance from the lighter one in log space, 0 to 1; above 1: extrapolated

    @property
    def clamped_fraction(self) -> float:
        """The fraction, at most 1: no extrapolation beyond the heavier load."""
        return min(self.fraction, 1.0)


@dataclass(frozen=True, slots=True)
class Curve:
    """Simulated behavior of one replica at several loads, lightest first."""

    closed: bool  # whether loads are requests in flight; else requests/s
    policy: str  # policy of the scheduler
    loads: Column  # requests in flight or requests/s
    waits_s: Waits  # per load: WAITS by STATISTIC_COLUMNS, s
    answered_per_s: Column  # answered requests/s
    running: Column  # mean sequences running
    cache_share: Column  # mean share of the KV pool in use
    preempted: Column  # preemptions per request
    goodput_share: Column  # share of requests that meet every limit
    stable_below: float  # rate from which the queue never empties, requests/s
    requests: Column  # simulated requests
    by_class: tuple[ClassCurve, ...] = ()  # curves of the traffic classes that share the service

    def interpolation_at(self, load: float) -> Interpolation:
        """Position of a load: clamped at the lightest load; above the heaviest, waits of a closed loop are
        extrapolated.
        """
        last = len(self.loads) - 1
        low = max(min(int(self.loads.searchsorted(load, side="right")) - 1, last - 1), 0)
        high = min(low + 1, last)
        if high == low or load <= self.loads[low]:
            return Interpolation(low, high, 0.0)
        part = float(np.log(load / self.loads[low]) / np.log(self.loads[high] / self.loads[low]))
        return Interpolation(low, high, part if self.closed else min(part, 1.0))

    def statistic_s(self, wait: str, statistic: str) -> Column:
        """One statistic of a wait at every load, s."""
        values: Column = self.waits_s[:, WAITS.index(wait), STATISTIC_COLUMNS.index(statistic)]
        return values

    def bracketing_waits(self, wait: str, statistic: str, load: float) -> tuple[float, float, float]:
        """Wait at the lighter load, wait at the heavier load, and the fraction between them.

        The waits are infinite where the queue never empties.
        """
        if not self.closed and load >= self.stable_below:
            return np.inf, np.inf, 0.0
        return self.simulated_bracketing_waits(wait, statistic, load)

    def simulated_bracketing_waits(self, wait: str, statistic: str, load: float) -> tuple[float, float, float]:
        """The same for the simulated requests, also where the queue never empties.

        A wait of zero at the lighter load is not extrapolated.
        """
        at, values = self.interpolation_at(load), self.statistic_s(wait, statistic)
        lighter = float(values[at.lighter])
        return lighter, float(values[at.heavier]), at.fraction if lighter > 0 else at.clamped_fraction

    def wait_s(self, wait: str, statistic: str, load: float) -> float:
        """Wait at a load, s; infinite where the queue never empties."""
        lighter, heavier, part = self.bracketing_waits(wait, statistic, load)
        return lighter if part == 0 else float(lighter ** (1 - part) * heavier**part)

    def simulated_wait_s(self, wait: str, statistic: str, load: float) -> float:
        """Wait of the simulated requests at a load, s; finite even where the queue never empties."""
        lighter, heavier, part = self.simulated_bracketing_waits(wait, statistic, load)
        return lighter if part == 0 else float(lighter ** (1 - part) * heavier**part)

    def interpolate_value(self, values: Column, load: float) -> float:
        """Value at a load of a quantity that is no wait, interpolated linearly."""
        at = self.interpolation_at(load)
        return float(values[at.lighter] + at.clamped_fraction * (values[at.heavier] - values[at.lighter]))

    def interpolate_proportional(self, values: Column, load: float) -> float:
        """Value at a load of a quantity that grows with the load from zero, as by Little's law."""
        return self.interpolate_value(values / self.loads, load) * min(load, float(self.loads[-1]))

    def answered_rate_per_s(self, load: float) -> float:
        """Answered requests per second at a load."""
        if not self.closed:
            return min(load, self.stable_below)
        return self.interpolate_value(self.answered_per_s, load)

    def waits_and_limits(self, slo: Slo, margins: Margins, row: int) -> Iterator[tuple[Column, float]]:
        """Pairs of a wait at every load, after the margins of a row, and its limit.

        Only waits with a limit count; each traffic class has its own limits.
        """
        if self.by_class:
            for part in self.by_class:
                yield from part.curve.waits_and_limits(part.traffic_class.slo, margins, row)
            return
        first, token, whole = (self.statistic_s(name, AT_LIMIT) for name in LATENCIES)
        slower_first, slower_token = float(margins.ttft[row]), float(margins.tpot[row])
        for wait_s, limit_s in (
            (first * slower_first, slo.ttft_s),
            (token * slower_token, slo.tpot_s),
            (first * slower_first + (whole - first) * slower_token, slo.e2e_s),
        ):
            if limit_s is not None:
                yield np.maximum.accumulate(np.maximum(wait_s, MIN_WAIT_S)), limit_s

    def load_within_limits(self, slo: Slo, margins: Margins, row: int) -> float:
        """Largest load that meets every limit after the margins of a row; 0 if none does."""
        return min(
            (self.load_at_limit(*limit) for limit in self.waits_and_limits(slo, margins, row)),
            default=float(self.loads[-1]),
        )

    def worst_wait_at_lightest(self, slo: Slo, margins: Margins, row: int) -> tuple[float, float]:
        """At the lightest load, the wait that exceeds its limit by the largest factor, s, and that limit, s."""
        pairs = [(float(wait_s[0]), limit_s) for wait_s, limit_s in self.waits_and_limits(slo, margins, row)]
        return max(pairs, key=lambda pair: pair[0] / pair[1], default=(1.0, np.inf))

    def load_at_limit(self, wait_s: Column, limit_s: float) -> float:
        """Largest load at which a wait meets its limit."""
        over = np.flatnonzero(wait_s > limit_s)
        if not len(over):
            return float(self.loads[-1])
        after = int(over[0])
        if after == 0:
            return 0.0
        part = np.log(limit_s / wait_s[after - 1]) / np.log(wait_s[after] / wait_s[after - 1])
        low, high = self.loads[after - 1], self.loads[after]
        return float(low * (high / low) ** part)

    def knee_load(self) -> float:
        """Load above which the p95 of TTFT grows faster than throughput."""
        slow = np.diff(np.log(np.maximum(self.statistic_s("ttft", "p95"), MIN_WAIT_S)))
        more = np.diff(np.log(np.maximum(self.answered_per_s, MIN_WAIT_S)))
        steeper = np.flatnonzero(slow > more)
        return float(self.loads[int(steeper[0]) if len(steeper) else -1])


@dataclass(frozen=True, slots=True)
class ClassCurve:
    """Load curve of one traffic class; the loads are those of all classes together."""

    traffic_class: TrafficClass
    curve: Curve


def waits_at(curves: Sequence[Curve], loads: Column) -> dict[str, Column]:
    """Latencies of replicas at their loads, by field name of the operating point, s."""
    latencies: dict[str, Column] = {}
    for wait in LATENCIES:
        for statistic in STATISTICS:
            ends = [c.bracketing_waits(wait, statistic, load) for c, load in zip(curves, loads.tolist(), strict=True)]
            lighter, heavier, part = np.array(ends).T
            with trace_label(f"{wait} {statistic}"):
                latencies[f"{wait}_{statistic}_s"] = between_loads_s(lighter, heavier, part)
    return latencies


def loads_within_limits(curves: Sequence[Curve], slo: Slo, margins: Margins) -> Column:
    """Largest load of every curve within the limits after margins."""
    return np.array([c.load_within_limits(slo, margins, row) for row, c in enumerate(curves)])


def stability_limits(curves: Sequence[Curve]) -> Column:
    """Rate of every curve from which the queue never empties, requests/s."""
    return np.array([c.stable_below for c in curves])


def in_flight_within(curves: Sequence[Curve], slo: Slo, margins: Margins, sequences: Column) -> Column:
    """Requests in flight that every replica serves within the limits, at most the sequences that can run."""
    in_flight: Column = np.floor(np.minimum(loads_within_limits(curves, slo, margins), sequences) + MIN_WAIT_S)
    return in_flight
