"""A fleet that stops when nobody asks: how much of an hour nothing runs."""

from __future__ import annotations

import numpy as np

from app.sizing.columns import Column
from app.sizing.formula import formula


@formula(unit="1")
def idle_share(load_per_s: Column, stops_after_s: float, start_s: float) -> Column:
    """Share of the time in which nothing runs, where the last replica stops after so long without a request.

    A stop follows a gap between requests that is longer than that; the next request starts a replica.

    Source: renewals of Poisson arrivals: gaps until one is long enough, the rest of that gap, the start.
    Limits: answers take no time; one replica at low load.
    Check: a request every ten minutes, stopped after five, three minutes to start.
        >>> round(float(idle_share(1 / 600, 300.0, 180.0)), 3)
        0.513
    """
    stopped = np.exp(-load_per_s * stops_after_s)
    return stopped / (1 + load_per_s * start_s * stopped)
