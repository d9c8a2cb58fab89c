"""Which accelerators work is put on where nobody says: a service of many on what servers and workstations carry."""

from __future__ import annotations

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Mask
from app.sizing.decisions.rejections import Rejections
from app.sizing.question import Constraints
from app.sizing.result import Reached
from app.sizing.snapshot import Snapshot


def usual_parts(
    snapshot: Snapshot,
    constraints: Constraints,
    allowed: Mask,
    named: Mask,
    assumed: Assumptions,
    rejections: Rejections,
    *,
    serves_many: bool,
) -> Mask:
    """Of the types allowed those that such work is put on: no development kits, and for a service of many no consumer
    cards or Macs.

    They count where they or their segment are `named`, where nothing else is allowed, and where less power may be
    drawn than any server draws.
    """
    most_w = constraints.max_power_w
    if constraints.segments or (most_w is not None and most_w < assumed.least_server_power_w):
        return allowed
    aside = snapshot.columns.beneath_servers if serves_many else snapshot.columns.edge
    kept: Mask = allowed & (named | ~aside)
    if not kept.any():
        return allowed
    what = "{name} is sold on development kits: it counts"
    if serves_many:
        what = "{name} is no part of servers or workstations: a service is put on it"
    text = f"{what} only where `segments` or `accelerators` names it."
    rejections.reject(np.flatnonzero(allowed & ~kept), "not_for_servers", text, Reached.LEFT_OUT)
    return kept
