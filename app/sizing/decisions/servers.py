"""Accelerators that suit the work if the request names none: servers and workstations for a service of many users."""

from __future__ import annotations

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Mask
from app.sizing.decisions.rejections import Rejections
from app.sizing.question import Constraints
from app.sizing.result import FilterStage
from app.sizing.snapshot import Catalog


def usual_types(
    catalog: Catalog,
    constraints: Constraints,
    allowed: Mask,
    named: Mask,
    assumed: Assumptions,
    rejections: Rejections,
    *,
    serves_many: bool,
) -> Mask:
    """The allowed types that suit the work: no development kits, and no consumer cards or Macs for a service of many
    users.

    These types count if the request names them or a segment, if nothing else is allowed, or if the power limit is
    below that of any server.
    """
    most_w = constraints.max_power_w
    if constraints.segments or (most_w is not None and most_w < assumed.least_server_power_w):
        return allowed
    unusual = catalog.columns.beneath_servers if serves_many else catalog.columns.edge
    kept: Mask = allowed & (named | ~unusual)
    if not kept.any():
        return allowed
    reason = "{name} is sold on development kits."
    if serves_many:
        reason = "{name} is not sold in servers or workstations, which services use by default."
    text = f"{reason} To include it, name it in `accelerators` or its segment in `segments`."
    rejections.reject(np.flatnonzero(allowed & ~kept), "not_for_servers", text, FilterStage.EXCLUDED)
    return kept
