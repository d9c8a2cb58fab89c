"""What a deployment costs: per hour, month and million tokens, over the horizon, and in energy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Codes, Column, Columns, Mask
from app.sizing.decisions.machines import Candidates
from app.sizing.decisions.rejections import Rejections
from app.sizing.question import Constraints, Economics
from app.sizing.units import HOURS_PER_MONTH, SECONDS_PER_HOUR


@dataclass(frozen=True, slots=True)
class Cost(Columns):
    """Money in USD, power in watts of IT load. `purchase_usd` is NaN for rented machines."""

    usd_per_hour: Column
    purchase_usd: Column
    power_w: Column
    rated_w: Column
    tco_usd: Column


def deployment_cost(
    found: Candidates, nodes: Column, network_nodes: Column, assumed: Assumptions, economics: Economics
) -> Cost:
    """Cost of `nodes` machines; owned clusters (`network_nodes` of them) pay for their network too.

    Rent and ownership are on one scale: an owned machine costs, per hour, its purchase over the
    horizon, upkeep, floor space and power. Check: 2 nodes at 55.04 USD are 110.08 per hour and,
    over 730 hours, 80 358 per month.
    """
    owned = ~np.isnan(found.purchase_usd)
    network = np.where(
        owned, network_nodes * found.node.accelerators_per_node * assumed.cluster_network_usd_per_accelerator, 0.0
    )
    hours = economics.horizon_months * HOURS_PER_MONTH
    per_hour = nodes * found.usd_per_hour + network / hours
    return Cost(
        usd_per_hour=per_hour,
        purchase_usd=np.where(owned, nodes * found.purchase_usd + network, np.nan),
        power_w=nodes * found.draw_w,
        rated_w=nodes * found.rated_w,
        tco_usd=per_hour * hours,
    )


def usd_per_million(usd_per_hour: Column, units_per_s: Column) -> Column:
    """Cost of a million tokens (or samples) at a rate. Check: 110.2 USD/h at 27 000/s is 1.134."""
    return usd_per_hour / SECONDS_PER_HOUR / np.maximum(units_per_s, 1e-12) * 1e6


def kwh_per_million(power_w: Column, units_per_s: Column) -> Column:
    """IT energy of a million tokens (or samples). Check: 11.2 kW at 27 000/s is 0.115 kWh."""
    return power_w / 1e3 / SECONDS_PER_HOUR / np.maximum(units_per_s, 1e-12) * 1e6


def within_limits(
    accelerator: Codes, accelerators: Column, cost: Cost, constraints: Constraints, rejections: Rejections
) -> Mask:
    """Rows that exceed no limit of number, money or power; types that lose all rows keep the shortfall."""
    purchase = np.nan_to_num(cost.purchase_usd, nan=0.0)
    power = None if constraints.max_power_w is None else constraints.max_power_w / 1e3
    limits: tuple[tuple[str, str, Column, float | None, str], ...] = (
        (
            "too_many_accelerators",
            "{name} needs {needed} accelerators; {available} are allowed.",
            accelerators,
            constraints.max_accelerators,
            "accelerators",
        ),
        (
            "over_budget",
            "{name} costs {needed} USD per hour; {available} may be spent.",
            cost.usd_per_hour,
            constraints.max_usd_per_hour,
            "usd_per_hour",
        ),
        (
            "over_budget",
            "{name} costs {needed} USD to buy; {available} may be spent.",
            purchase,
            constraints.max_purchase_usd,
            "usd",
        ),
        ("over_power", "{name} draws up to {needed} kW; {available} are allowed.", cost.rated_w / 1e3, power, "kw"),
    )
    keep: Mask = np.ones(len(accelerator), dtype=bool)
    for code, text, needed, available, unit in limits:
        if available is None:
            continue
        good = needed <= available
        rejections.lost(
            accelerator[keep],
            good[keep],
            code=code,
            text=text,
            needed=needed[keep],
            available=np.full(int(keep.sum()), float(available)),
            unit=unit,
        )
        keep = keep & good
    return keep
