"""The hours of a day as shares of its busiest: told one by one, or a smooth day of a peak to average."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from app.errors import Unanswerable
from app.sizing.assumptions import Assumptions

HOURS = 24
MOST_POWER, BISECTIONS = 1e5, 60
LEAST_SHARE = 1e-9  # keeps the quietest hour of a flat day from vanishing
AGREEMENT = 0.01  # how far a peak and an average may be from the ratio of the hours

Shares = tuple[float, ...]


def shares_of(factors: Sequence[float]) -> Shares:
    """Hourly factors of any scale, the busiest as 1.

    Check:
        >>> shares_of([1.0, 4.0, 2.0])
        (0.25, 1.0, 0.5)
    """
    busiest = max(factors)
    return tuple(factor / busiest for factor in factors)


def mean_of(shares: Shares) -> float:
    """Mean load of a day over its peak.

    Check:
        >>> mean_of((0.25, 1.0, 0.25))
        0.5
    """
    return sum(shares) / len(shares)


def smooth_day(peak_to_average: float, assumed: Assumptions) -> Shares:
    """A raised cosine about the busiest hour, to the power that has this peak to average.

    Source: chosen shape.
    Limits: one peak a day; at most 24, where one hour has all of the load.
    Check:
        >>> day = smooth_day(2.0, Assumptions())
        >>> day.index(1.0), round(day[2], 6), round(1 / mean_of(day), 6)
        (14, 0.0, 2.0)
    """
    hour = np.arange(HOURS) - float(int(assumed.smooth_day_peak_hour))
    wave = np.maximum((1 + np.cos(2 * np.pi * hour / HOURS)) / 2, LEAST_SHARE)
    low, high = 0.0, MOST_POWER
    for _ in range(BISECTIONS):
        power = (low + high) / 2
        low, high = (power, high) if (wave**power).mean() * peak_to_average > 1 else (low, power)
    return tuple((wave**high).tolist())


def peak_of(peak_per_s: float | None, average_per_s: float | None, shares: Shares) -> float:
    """Requests per second in the busiest hour of a day, from what is told of it.

    Raises Unanswerable where a peak and an average are told that the hours contradict.

    Check:
        >>> peak_of(None, 5.0, (0.25, 1.0, 0.25))
        10.0
    """
    if average_per_s is None:
        return peak_per_s or 0.0
    told = average_per_s / mean_of(shares)
    if peak_per_s is not None and abs(told / peak_per_s - 1) > AGREEMENT:
        raise Unanswerable(
            f"The day's hours make an average of {mean_of(shares) * peak_per_s:.4g} requests/s of this peak, not "
            f"{average_per_s:.4g}: leave the average or the peak out, or give another shape of the day."
        )
    return told if peak_per_s is None else peak_per_s
