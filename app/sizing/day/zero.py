"""A fleet that stops without requests: the share of time in which no replica runs."""

from __future__ import annotations

import numpy as np

from app.sizing.columns import Column
from app.sizing.formula import formula


@formula(unit="1", source="renewal theory, Poisson arrivals")
def idle_share(load_per_s: Column, stops_after_s: float, start_s: float) -> Column:
    """Share of the time in which no replica runs, if the last one stops after a period without requests.

    A stop follows a gap between requests that is longer than this period; the next request starts a replica. The
    renewal cycle consists of the gaps until one is long enough, the rest of that gap, and the start.

    Parameters:
        load_per_s: mean request rate, requests/s.
        stops_after_s: time without requests after which the last replica stops, s.
        start_s: start time of a replica, s.
    Limits: answers take no time; one replica at low load.
    Check: a request every ten minutes, a stop after five minutes, three minutes to start.
        >>> round(float(idle_share(1 / 600, 300.0, 180.0)), 3)
        0.513
    """
    stopped = np.exp(-load_per_s * stops_after_s)
    return stopped / (1 + load_per_s * start_s * stopped)
