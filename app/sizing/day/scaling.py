"""Replicas that follow a day's load: what runs in every minute, and what runs ahead because a start takes its time."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from app.sizing.columns import Column
from app.sizing.decisions.placement import ROUNDING, replicas_for_rate
from app.sizing.units import LEAST_PER_S
from app.sizing.workload import HOURS, Shares

MINUTES = 60
MINUTES_PER_DAY = HOURS * MINUTES
SECONDS_PER_MINUTE = 60.0


@dataclass(frozen=True, slots=True)
class Following:
    """What a fleet that follows the load is held to."""

    capacity_per_s: float  # of a replica within the limits, with the confidence asked
    target_utilization: float
    most_replicas: float  # those of the fixed fleet
    start_s: float  # from a change of the load to a replica that answers
    supply_per_s: float  # replicas that come up per second, however many are ordered
    keep_s: float  # a replica is kept after it was last needed


@dataclass(frozen=True, slots=True)
class Running:
    """Replicas in every minute of a day."""

    kept: Column  # as many as the load asks for at the share of their capacity that is planned, or just did
    ordered: Column  # running or starting, and paid for: these, and those ahead of the load

    @property
    def warm(self) -> int:
        """The most that run ahead of the load."""
        return int((self.ordered - self.kept).max())


def per_minute(peak_per_s: float, shares: Shares) -> Column:
    """The load of every minute: straight from the middle of an hour to the middle of the next, day after day.

    Check: the mean of a day is that of its hours.
        >>> load = per_minute(8.0, (0.0, 1.0) * 12)
        >>> float(load[30]), float(load[90]), float(load[60]), round(float(load.mean()), 9)
        (0.0, 8.0, 4.0, 4.0)
    """
    middles = (np.arange(-1, HOURS + 1) + 0.5) * MINUTES
    around = np.array([shares[-1], *shares, shares[0]])
    load: Column = peak_per_s * np.interp(np.arange(MINUTES_PER_DAY), middles, around)
    return load


def most_within(values: Column, before: int, after: int) -> Column:
    """The most of a day's values in so many minutes before and after each, day after day.

    Check:
        >>> most_within(np.array([0.0, 1.0, 5.0, 2.0]), 1, 0).tolist()
        [2.0, 1.0, 5.0, 5.0]
    """
    day = len(values)
    before, after = min(before, day - 1), min(after, day - 1)
    rows = np.arange(day)[:, None] + np.arange(-before, after + 1)
    found: Column = values[rows % day].max(axis=1)
    return found


def least_holding(load: Column, capacity_per_s: float) -> Column:
    """The fewest replicas that carry a load within the limits, with no room to spare."""
    held: Column = np.ceil(load / max(capacity_per_s, LEAST_PER_S) - ROUNDING)
    return held


def minutes_of(seconds: float) -> int:
    """Whole minutes that hold so many seconds."""
    return math.ceil(seconds / SECONDS_PER_MINUTE - ROUNDING)


def ahead(load: Column, at: Following) -> Column:
    """Replicas that must be running or ordered so that the limits hold until what is ordered now is there; earlier
    still where what starts at once shares a registry and a store.
    """
    wanted = most_within(least_holding(load, at.capacity_per_s), 0, minutes_of(at.start_s))
    supply = at.supply_per_s * SECONDS_PER_MINUTE
    if supply >= at.most_replicas:
        return wanted
    twice = np.tile(wanted, 2) - supply * np.arange(2 * len(wanted))
    later = np.maximum.accumulate(twice[::-1])[::-1][: len(wanted)]
    early: Column = np.ceil(later + supply * np.arange(len(wanted)) - ROUNDING)
    return early


def following(load: Column, at: Following) -> Running:
    """Replicas of a fleet that orders them as the load asks, or ahead of it where a start takes too long."""
    needed = replicas_for_rate(load, np.array([at.capacity_per_s]), at.target_utilization)
    kept = most_within(np.minimum(needed, at.most_replicas), minutes_of(at.keep_s), 0)
    ordered = np.minimum(np.maximum(kept, ahead(load, at)), at.most_replicas)
    return Running(kept, ordered)


def steepest_per_minute(load: Column) -> float:
    """The most that the load rises in a minute."""
    return max(0.0, float((np.roll(load, -1) - load).max()))
