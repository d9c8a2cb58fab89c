"""Itemized bill of a deployment: purchases, rent and hourly costs that add up to its cost."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Column, one
from app.sizing.decisions.beside import estimate_ancillary_costs, network_price, node_gbit_per_s
from app.sizing.decisions.chassis import memory_usd
from app.sizing.decisions.machines import Candidates
from app.sizing.decisions.ownership import floor_usd_per_hour, horizon_hours, power_usd_per_hour, upkeep_usd_per_hour
from app.sizing.formula import suspend_recording
from app.sizing.question import Economics
from app.sizing.result import Part


def itemize_costs(
    found: Candidates,
    nodes: Column,
    linked_nodes: Column,
    assumed: Assumptions,
    economics: Economics,
    *,
    host_bytes: Column | float = 0.0,
) -> tuple[tuple[Part, ...], ...]:
    """Itemized bill of each of a few deployments, consistent with `cost.deployment_cost`.

    `nodes` is the number of machines of each deployment.
    """
    host = np.broadcast_to(np.asarray(host_bytes, dtype=np.float64), nodes.shape)
    with suspend_recording():
        return tuple(
            (*_bill_lines(found.take(row), nodes[row], linked_nodes[row], host[row], assumed, economics),)
            for row in np.arange(len(nodes))[:, None]
        )


def _bill_lines(
    found: Candidates,
    nodes: Column,
    linked_nodes: Column,
    host_bytes: Column,
    assumed: Assumptions,
    economics: Economics,
) -> Iterator[Part]:
    """Bill lines of one deployment: purchases with a unit price, then hourly costs, the power of a machine and the
    horizon.
    """
    machines, kilowatts = one(nodes), one(found.draw_w) / 1e3
    if not np.isnan(found.purchase_usd[0]):
        bought = (*_machine_parts(found, machines), *_ancillary_parts(found, nodes, linked_nodes, host_bytes, assumed))
        yield from bought
        spent = sum(part.quantity * (part.unit_usd or 0.0) for part in bought)
        yield Part("upkeep_usd", spent, usd_per_hour=one(upkeep_usd_per_hour(np.ones(1), assumed)))
        floor = one(floor_usd_per_hour(np.full(1, 1e3), ~found.node.workstation, assumed))
        if floor > 0:
            yield Part("floor_kw", machines * kilowatts, usd_per_hour=floor)
        yield Part("power_kw", machines * kilowatts, usd_per_hour=one(power_usd_per_hour(np.full(1, 1e3), economics)))
    elif not np.isnan(found.usd_per_hour[0]):
        yield Part("machine", machines, usd_per_hour=one(found.usd_per_hour))
    yield Part("machine_kw", kilowatts)
    yield Part("horizon_hours", horizon_hours(economics))


def _machine_parts(found: Candidates, machines: float) -> Iterator[Part]:
    """Owned machines as one line, or itemized by part where the machine has no price of its own."""
    parts = found.parts
    if np.isnan(parts.accelerators_usd[0]):
        yield Part("machine", machines, unit_usd=one(found.purchase_usd))
        return
    count = one(found.node.accelerators_per_node)
    yield Part("accelerator", machines * count, unit_usd=one(parts.accelerators_usd) / count)
    memory = memory_usd(parts.memory_bytes, parts.memory_usd_per_gib)
    for what, usd in (("chassis", parts.chassis_usd), ("processors", parts.processors_usd), ("memory", memory)):
        if usd[0] > 0:
            yield Part(what, machines, unit_usd=one(usd))


def _ancillary_parts(
    found: Candidates, nodes: Column, linked_nodes: Column, host_bytes: Column, assumed: Assumptions
) -> Iterator[Part]:
    """Ancillary purchases for owned machines: network, racks and extra memory."""
    ancillary = estimate_ancillary_costs(found, nodes, linked_nodes, host_bytes, assumed)
    if ancillary.network_usd[0] > 0:
        rate = one(nodes * node_gbit_per_s(found, assumed))
        yield Part("network_gbit_per_s", rate, unit_usd=one(network_price(found, linked_nodes, assumed)))
    if ancillary.racks_usd[0] > 0:
        yield Part("rack_kw", one(nodes * found.rated_w) / 1e3, unit_usd=assumed.rack_usd_per_kw)
    if ancillary.more_memory_usd[0] > 0:
        price = one(found.parts.memory_usd_per_gib)
        yield Part("more_memory_gib", one(ancillary.more_memory_usd) / price, unit_usd=price)
