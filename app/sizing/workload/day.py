"""Hourly load of a day as shares of its busiest hour: listed by hour, or a smooth curve with one peak."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from app.errors import Unanswerable
from app.sizing.assumptions import Assumptions

HOURS = 24
MAX_POWER = 1e5  # upper bound of the exponent of the day curve
BISECTIONS = 60  # steps of the search for the exponent
MIN_HOUR_SHARE = 1e-9  # lower bound of an hour's share before the exponent, so that a flat day has no empty hour
PEAK_TOLERANCE = 0.01  # relative difference accepted between a given peak and the peak that average and hours imply

Shares = tuple[float, ...]


def normalize_hours(factors: Sequence[float]) -> Shares:
    """Hourly factors scaled so that the busiest hour is 1.

    Check:
        >>> normalize_hours([1.0, 4.0, 2.0])
        (0.25, 1.0, 0.5)
    """
    busiest = max(factors)
    return tuple(factor / busiest for factor in factors)


def mean_share(shares: Shares) -> float:
    """Mean load of a day over its peak load.

    Check:
        >>> mean_share((0.25, 1.0, 0.25))
        0.5
    """
    return sum(shares) / len(shares)


def smooth_day(peak_to_average: float, assumed: Assumptions) -> Shares:
    """Hourly shares of a raised cosine around the busiest hour, to the power that gives the peak-to-average ratio.

    The shape is an assumption.
    Limits: one peak per day; a ratio of at most 24, where one hour has all the load.
    Check:
        >>> day = smooth_day(2.0, Assumptions())
        >>> day.index(1.0), round(day[2], 6), round(1 / mean_share(day), 6)
        (14, 0.0, 2.0)
    """
    hour = np.arange(HOURS) - float(int(assumed.smooth_day_peak_hour))
    wave = np.maximum((1 + np.cos(2 * np.pi * hour / HOURS)) / 2, MIN_HOUR_SHARE)
    low, high = 0.0, MAX_POWER
    for _ in range(BISECTIONS):
        power = (low + high) / 2
        low, high = (power, high) if (wave**power).mean() * peak_to_average > 1 else (low, power)
    return tuple((wave**high).tolist())


def derive_peak_per_s(peak_per_s: float | None, average_per_s: float | None, shares: Shares) -> float:
    """Requests per second in the busiest hour, from the peak rate or from the average rate and the hourly shares.

    Raises Unanswerable if the hourly shares contradict the given peak and average.

    Check:
        >>> derive_peak_per_s(None, 5.0, (0.25, 1.0, 0.25))
        10.0
    """
    if average_per_s is None:
        return peak_per_s or 0.0
    derived_peak = average_per_s / mean_share(shares)
    if peak_per_s is not None and abs(derived_peak / peak_per_s - 1) > PEAK_TOLERANCE:
        raise Unanswerable(
            f"The peak and the hourly shares give an average of {mean_share(shares) * peak_per_s:.4g} requests/s, not "
            f"{average_per_s:.4g} requests/s. Omit the average or the peak, or change the hourly shares."
        )
    return derived_peak if peak_per_s is None else peak_per_s
