"""Where a load curve may end: beyond some load, nothing changes what the answer reads from it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

import numpy as np

from app.sizing.columns import Column
from app.sizing.decisions.placement import replicas_for_rate
from app.sizing.serving.load_curves import MIN_LOADS_FOR_KNEE, Curve, CurveEnd, confident_loads_per_s
from app.sizing.serving.margins import Margins
from app.sizing.workload import Slo

MAX_STABLE_MULTIPLE = 2.0  # a load beyond every simulated one, as a multiple of the saturation rate


class Extent(Enum):
    """How far the simulated load curve of a replica reaches."""

    WHOLE = auto()  # up to the heaviest load
    PLANNED = auto()  # until it is known what a replica is planned to carry
    COUNT = auto()  # until it is known how many replicas carry the peak
    POOL = auto()  # until it is known how many of them share a queue in the simulation


@dataclass(frozen=True, slots=True)
class PlannedEnd(CurveEnd):
    """Test whether heavier loads cannot change what a replica is planned to carry, or how many carry the peak."""

    slo: Slo  # latency limits
    margins: Margins  # margins of the replica, one row
    target_utilization: float  # highest planned share of the stable rate, from 0 to 1
    peak_per_s: float | None = None  # request rate at the peak where only the number of replicas matters, requests/s
    most_replicas: float = np.inf  # number from which more replicas make no difference

    def is_reached(self, curve: Curve) -> bool:
        """Whether heavier loads than those of the curve cannot matter.

        They cannot if its lightest load is too heavy, or if requests in flight exceed a limit. With request rates, the
        median prediction has to exceed every limit that is exceeded with margins, because both determine the capacity;
        or the result is the same if waits beyond the curve stay constant as if they exceed every limit.
        """
        if min(self.margins.ttft[0], self.margins.tpot[0], self.margins.rate[0]) < 1:
            return False
        slower = list(curve.waits_and_limits(self.slo, self.margins))
        late = [wait_s[0, -1] > limit_s for _, wait_s, limit_s in slower]
        if curve.closed or any(wait_s[0, 0] > limit_s for _, wait_s, limit_s in slower):
            return any(late)
        most_per_s = self.target_utilization * curve.stable_below / self.margins.rate
        if not any(late):
            least_per_s = np.minimum(curve.loads[-1] / self.margins.rate, most_per_s)
            return self.is_decided(least_per_s, most_per_s)
        expected = curve.waits_and_limits(self.slo, Margins.without_margin(1))
        if [wait_s[0, -1] > limit_s for _, wait_s, limit_s in expected] == late:
            return True
        heavier = curve.with_constant_waits_up_to(MAX_STABLE_MULTIPLE * curve.stable_below)
        within = (confident_loads_per_s([each], self.slo, self.margins) for each in (curve, heavier))
        return self.is_decided(*(np.minimum(each, most_per_s) for each in within))

    def is_decided(self, least_per_s: Column, most_per_s: Column) -> bool:
        """Whether both bounds of the planned rate of a replica give the same result."""
        if self.peak_per_s is None or least_per_s[0] <= 0:
            return bool(least_per_s[0] == most_per_s[0])
        least, most = (replicas_for_rate(self.peak_per_s, each)[0] for each in (most_per_s, least_per_s))
        return bool(min(least, self.most_replicas) == min(most, self.most_replicas))


@dataclass(frozen=True, slots=True)
class AssuredEnd(CurveEnd):
    """Test whether heavier request rates change neither the capacity at any confidence level nor the knee."""

    slo: Slo  # latency limits
    margins: Margins  # margins of the replica at every level

    def is_reached(self, curve: Curve) -> bool:
        """Whether capacities are the same if waits beyond the curve stay constant as if they exceed every limit."""
        if len(curve.loads) < MIN_LOADS_FOR_KNEE or curve.knee_load() >= curve.loads[-1]:
            return False
        heavier = curve.with_constant_waits_up_to(MAX_STABLE_MULTIPLE * curve.stable_below)
        none, most = Margins.without_margin(1), curve.stable_below / self.margins.rate
        least, best = (
            np.append(
                np.minimum(confident_loads_per_s([c] * len(most), self.slo, self.margins), most),
                np.minimum(c.load_within_limits(self.slo, none), curve.stable_below),
            )
            for c in (curve, heavier)
        )
        return np.array_equal(least, best)
