"""Replicas that follow a day's load: those that run in each minute, and those that start early because a start takes
time.

Values are numbers for one fleet, or columns with one row per fleet; minutes run along the last axis.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.columns import Codes, Column
from app.sizing.decisions.placement import ROUNDING, replicas_for_rate
from app.sizing.units import LEAST_PER_S
from app.sizing.workload import HOURS, Shares

MINUTES = 60
MINUTES_PER_DAY = HOURS * MINUTES
SECONDS_PER_MINUTE = 60.0


@dataclass(frozen=True, slots=True)
class Autoscaler:
    """Capacity, start time and limits of a fleet that follows the load."""

    capacity_per_s: Column | float  # capacity of one replica within the SLO at the requested confidence, requests/s
    target_utilization: float  # highest planned share of that capacity, from 0 to 1
    most_replicas: Column | float  # replicas of the fixed fleet, the upper limit
    start_s: Column | float  # time from a change of the load until a new replica answers, s
    supply_per_s: Column | float  # replicas per second that become ready, however many are ordered
    keep_s: float  # time that a replica is kept after it was last needed, s


@dataclass(frozen=True, slots=True)
class ReplicaTimeline:
    """Replicas in every minute of a day."""

    needed: Column  # replicas that the load needs, or recently needed, at the target utilization
    ordered: Column  # billed replicas, running or starting: those needed plus those ahead of the load

    @property
    def max_warm_replicas(self) -> int:
        """Most replicas that run ahead of the load."""
        return int((self.ordered - self.needed).max())


def load_per_minute(peak_per_s: float, shares: Shares) -> Column:
    """The load of every minute of a repeating day, interpolated linearly between the middles of the hours.

    Check: the mean of a day is that of its hours.
        >>> load = load_per_minute(8.0, (0.0, 1.0) * 12)
        >>> float(load[30]), float(load[90]), float(load[60]), round(float(load.mean()), 9)
        (0.0, 8.0, 4.0, 4.0)
    """
    middles = (np.arange(-1, HOURS + 1) + 0.5) * MINUTES
    around = np.array([shares[-1], *shares, shares[0]])
    load: Column = peak_per_s * np.interp(np.arange(MINUTES_PER_DAY), middles, around)
    return load


def window_max(values: Column, before: int, after: int) -> Column:
    """Largest value within `before` minutes before and `after` minutes after each minute of a repeating day.

    Check:
        >>> window_max(np.array([0.0, 1.0, 5.0, 2.0]), 1, 0).tolist()
        [2.0, 1.0, 5.0, 5.0]
    """
    day = len(values)
    before, after = min(before, day - 1), min(after, day - 1)
    rows = np.arange(day)[:, None] + np.arange(-before, after + 1)
    found: Column = values[rows % day].max(axis=1)
    return found


def min_replicas_for_load(load: Column, capacity_per_s: Column | float) -> Column:
    """Fewest replicas that carry a load within the limits, without headroom."""
    held: Column = np.ceil(load / np.maximum(capacity_per_s, LEAST_PER_S) - ROUNDING)
    return held


def whole_minutes(seconds: Column | float) -> Codes:
    """Seconds rounded up to whole minutes."""
    return np.ceil(np.asarray(seconds) / SECONDS_PER_MINUTE - ROUNDING).astype(np.int64)


def max_load_ahead(load: Column, minutes: Codes) -> Column:
    """Largest load within `minutes` after each minute, for every fleet."""
    each, which = np.unique(minutes, return_inverse=True)
    found: Column = np.stack([window_max(load, 0, after) for after in each.tolist()])[which.ravel()]
    return found if minutes.ndim else found[0]


def replicas_ahead_of_load(load: Column, autoscaler: Autoscaler, every: int) -> Column:
    """Replicas that must run or be ordered so that the limits hold until new replicas are ready.

    Replicas are ordered earlier where simultaneous starts share a registry and a weight store.
    """
    wanted = min_replicas_for_load(
        max_load_ahead(load, whole_minutes(autoscaler.start_s))[..., ::every], autoscaler.capacity_per_s
    )
    supply = np.minimum(autoscaler.supply_per_s * SECONDS_PER_MINUTE * every, autoscaler.most_replicas)
    count = wanted.shape[-1]
    twice = np.concatenate([wanted, wanted], axis=-1) - supply * np.arange(2 * count)
    later = np.maximum.accumulate(twice[..., ::-1], axis=-1)[..., ::-1][..., :count]
    early: Column = np.ceil(later + supply * np.arange(count) - ROUNDING)
    return np.maximum(wanted, early)


def simulate_autoscaling(load: Column, autoscaler: Autoscaler, every: int = 1) -> ReplicaTimeline:
    """Replicas of a fleet that scales with the load, and ahead of it where a start takes too long.

    The result has one value per `every` minutes.
    """
    recent = window_max(load, int(whole_minutes(autoscaler.keep_s)), 0)[::every]
    kept = np.minimum(
        replicas_for_rate(recent, np.asarray(autoscaler.capacity_per_s), autoscaler.target_utilization),
        autoscaler.most_replicas,
    )
    ordered = np.minimum(np.maximum(kept, replicas_ahead_of_load(load, autoscaler, every)), autoscaler.most_replicas)
    return ReplicaTimeline(kept, ordered)


def steepest_rise_per_s(load: Column) -> float:
    """Largest rise of the load from one minute to the next, requests/s."""
    return max(0.0, float((np.roll(load, -1) - load).max()))
