"""Where a load curve may end: beyond some load, nothing changes what the answer reads from it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.decisions.placement import planned_capacity_per_s, replicas_for_rate
from app.sizing.serving.load_curves import MIN_LOADS_FOR_KNEE, Curve, CurveEnd, confident_loads_per_s
from app.sizing.serving.margins import Margins
from app.sizing.workload import Slo

MAX_STABLE_MULTIPLE = 2.0  # a load beyond every simulated one, as a multiple of the saturation rate


@dataclass(frozen=True, slots=True)
class PlannedEnd(CurveEnd):
    """Test whether heavier loads cannot change what a replica is planned to carry."""

    slo: Slo  # latency limits
    margins: Margins  # margins of the replica, one row
    target_utilization: float  # highest planned share of the stable rate, from 0 to 1

    def is_reached(self, curve: Curve) -> bool:
        """Whether heavier loads than those of the curve cannot matter.

        They cannot if its lightest load is too heavy, or if its heaviest load exceeds a limit. With request rates, the
        median prediction has to exceed every limit that is exceeded with margins, because both determine the capacity;
        or its heaviest load is the highest planned share of the stable rate and exceeds no limit.
        """
        if min(self.margins.ttft[0], self.margins.tpot[0], self.margins.rate[0]) < 1:
            return False
        slower = list(curve.waits_and_limits(self.slo, self.margins))
        late = [wait_s[0, -1] > limit_s for _, wait_s, limit_s in slower]
        if curve.closed or any(wait_s[0, 0] > limit_s for _, wait_s, limit_s in slower):
            return any(late)
        if not any(late):
            return bool(curve.loads[-1] >= self.target_utilization * curve.stable_below)
        expected = curve.waits_and_limits(self.slo, Margins.without_margin(1))
        return [wait_s[0, -1] > limit_s for _, wait_s, limit_s in expected] == late


@dataclass(frozen=True, slots=True)
class CountedEnd(PlannedEnd):
    """Test whether heavier request rates cannot change how many replicas carry the peak."""

    peak_per_s: float  # request rate of all replicas at the peak, requests/s

    def is_reached(self, curve: Curve) -> bool:
        """Whether as many replicas are needed if waits beyond the curve stay constant as if they exceed every limit."""
        if PlannedEnd.is_reached(self, curve):
            return True
        if curve.closed or min(self.margins.ttft[0], self.margins.tpot[0], self.margins.rate[0]) < 1:
            return False
        heavier = curve.with_constant_waits_up_to(MAX_STABLE_MULTIPLE * curve.stable_below)
        stable = np.full(1, curve.stable_below)
        within = [confident_loads_per_s([c], self.slo, self.margins) for c in (curve, heavier)]
        planned = [planned_capacity_per_s(w, stable, self.margins.rate, self.target_utilization) for w in within]
        least, most = (replicas_for_rate(self.peak_per_s, each)[0] for each in planned)
        return bool(least == most)


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
