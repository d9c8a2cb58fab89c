"""Which accelerators a service of many is put on where nobody says: those that servers and workstations carry."""

from __future__ import annotations

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Mask
from app.sizing.decisions.rejections import Rejections
from app.sizing.question import Constraints
from app.sizing.result import Reached
from app.sizing.snapshot import Snapshot


def fit_to_serve(
    snapshot: Snapshot,
    constraints: Constraints,
    allowed: Mask,
    named: Mask,
    assumed: Assumptions,
    rejections: Rejections,
) -> Mask:
    """Of the types allowed those that a service is put on: consumer cards, Macs and development kits are turned down.

    They count where they or their segment are `named`, where nothing else is allowed, and where less power may be
    drawn than any server draws.
    """
    most_w = constraints.max_power_w
    if constraints.segments or (most_w is not None and most_w < assumed.least_server_power_w):
        return allowed
    kept: Mask = allowed & (named | ~snapshot.columns.beneath_servers)
    if not kept.any():
        return allowed
    rejections.reject(
        np.flatnonzero(allowed & ~kept),
        "not_for_servers",
        "{name} is no part of servers or workstations; a service is put on it only where `segments` or `accelerators` "
        "names it.",
        Reached.LEFT_OUT,
    )
    return kept
