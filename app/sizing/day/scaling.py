"""Replicas that follow a day's load: what runs in every minute, and what runs ahead because a start takes its time.

One fleet by numbers, or many by columns of one row each: minutes run along the last axis.
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
class Following:
    """What a fleet that follows the load is held to."""

    capacity_per_s: Column | float  # of a replica within the limits, with the confidence asked
    target_utilization: float
    most_replicas: Column | float  # those of the fixed fleet
    start_s: Column | float  # from a change of the load to a replica that answers
    supply_per_s: Column | float  # replicas that come up per second, however many are ordered
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


def least_holding(load: Column, capacity_per_s: Column | float) -> Column:
    """The fewest replicas that carry a load within the limits, with no room to spare."""
    held: Column = np.ceil(load / np.maximum(capacity_per_s, LEAST_PER_S) - ROUNDING)
    return held


def minutes_of(seconds: Column | float) -> Codes:
    """Whole minutes that hold so many seconds."""
    return np.ceil(np.asarray(seconds) / SECONDS_PER_MINUTE - ROUNDING).astype(np.int64)


def most_after(load: Column, minutes: Codes) -> Column:
    """The most of a load in so many minutes after each, for every fleet."""
    each, which = np.unique(minutes, return_inverse=True)
    found: Column = np.stack([most_within(load, 0, after) for after in each.tolist()])[which.ravel()]
    return found if minutes.ndim else found[0]


def ahead(load: Column, at: Following, every: int) -> Column:
    """Replicas that must be running or ordered so that the limits hold until what is ordered now is there; earlier
    still where what starts at once shares a registry and a store.
    """
    wanted = least_holding(most_after(load, minutes_of(at.start_s))[..., ::every], at.capacity_per_s)
    supply = np.minimum(at.supply_per_s * SECONDS_PER_MINUTE * every, at.most_replicas)
    count = wanted.shape[-1]
    twice = np.concatenate([wanted, wanted], axis=-1) - supply * np.arange(2 * count)
    later = np.maximum.accumulate(twice[..., ::-1], axis=-1)[..., ::-1][..., :count]
    early: Column = np.ceil(later + supply * np.arange(count) - ROUNDING)
    return np.maximum(wanted, early)


def following(load: Column, at: Following, every: int = 1) -> Running:
    """Replicas of a fleet that orders them as the load asks, or ahead of it where a start takes too long; told of each
    minute, or of one in so many.
    """
    recent = most_within(load, int(minutes_of(at.keep_s)), 0)[::every]
    kept = np.minimum(replicas_for_rate(recent, np.asarray(at.capacity_per_s), at.target_utilization), at.most_replicas)
    ordered = np.minimum(np.maximum(kept, ahead(load, at, every)), at.most_replicas)
    return Running(kept, ordered)


def steepest_per_minute(load: Column) -> float:
    """The most that the load rises in a minute."""
    return max(0.0, float((np.roll(load, -1) - load).max()))
