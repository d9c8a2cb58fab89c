"""What a deployment costs: per hour, month and million tokens, over the horizon, and in energy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Codes, Column, Columns, Mask
from app.sizing.decisions.beside import beside_of, beside_usd
from app.sizing.decisions.chassis import together_usd
from app.sizing.decisions.machines import Candidates
from app.sizing.decisions.ownership import horizon_hours, owned_usd_per_hour
from app.sizing.decisions.rejections import Rejections, no_more
from app.sizing.formula import formula, is_recording
from app.sizing.question import Constraints, Economics
from app.sizing.result import Reached
from app.sizing.units import HOURS_PER_YEAR, LEAST_PER_S, LEAST_WORK_PER_S, SECONDS_PER_HOUR

# No fleet is larger: what would need more is turned down, whatever a caller allows.
MOST_ACCELERATORS = 10_000_000


@dataclass(frozen=True, slots=True)
class Cost(Columns):
    """Money in USD, power in watts of IT load. `purchase_usd` is NaN for rented machines."""

    usd_per_hour: Column
    purchase_usd: Column
    power_w: Column
    rated_w: Column
    tco_usd: Column


@formula(unit="USD")
def purchase_usd(nodes: Column, machine_purchase_usd: Column, beside_usd: Column) -> Column:
    """What is spent at once: owned machines, and what is bought beside them.

    Source: definition.
    Limits: of rented machines there is none.
    Check:
        >>> purchase_usd(2.0, 265_000.0, 68_000.0)
        598000.0
    """
    return nodes * machine_purchase_usd + beside_usd


@formula(unit="USD/h")
def usd_per_hour(
    nodes: Column, machine_usd_per_hour: Column, beside_usd: Column, horizon_hours: float, assumed: Assumptions
) -> Column:
    """What a deployment costs per hour: its machines, and what is bought beside them over the horizon, with upkeep.

    Source: definition.
    Limits: people, storage and traffic to the outside are not in it.
    Check:
        >>> round(usd_per_hour(2.0, 55.04, 26_280.0, 26_280.0, Assumptions()), 2)
        111.23
    """
    yearly = beside_usd * assumed.maintenance_fraction_per_year
    return nodes * machine_usd_per_hour + beside_usd / horizon_hours + yearly / HOURS_PER_YEAR


@formula(unit="W")
def power_w(nodes: Column, draw_w: Column) -> Column:
    """Mean power of a deployment under load.

    Source: definition.
    Limits: IT load; what the building adds is priced, not shown.
    Check:
        >>> power_w(2.0, 7_500.0)
        15000.0
    """
    return nodes * draw_w


@formula(unit="USD")
def tco_usd(usd_per_hour: Column, horizon_hours: float) -> Column:
    """Everything that is paid over the horizon.

    Source: definition.
    Limits: prices as of today, all hours of the horizon.
    Check:
        >>> tco_usd(110.08, 26_280.0)
        2892902.4
    """
    return usd_per_hour * horizon_hours


@formula(unit="USD", source="whole machines for the whole run")
def usd_total(usd_per_hour: Column, wall_s: Column) -> Column:
    """Money of work that ends: whole machines for its whole time.

    Source: definition.
    Limits: storage, people and runs that failed are not in it.
    Check: 100 machines at 20 USD per hour for ten days.
        >>> usd_total(2000.0, 864_000.0)
        480000.0
    """
    return usd_per_hour * wall_s / SECONDS_PER_HOUR


def deployment_cost(
    found: Candidates,
    nodes: Column,
    linked_nodes: Column,
    assumed: Assumptions,
    economics: Economics,
    *,
    host_bytes: Column | float = 0.0,
) -> Cost:
    """Cost of `nodes` machines, of which a network joins so many at a time, with what a plan needs of their memory.

    Rent and ownership are on one scale: an owned machine costs, per hour, its purchase over the
    horizon, upkeep, floor space and power.
    """
    owned = ~np.isnan(found.purchase_usd)
    if is_recording():  # how the price of an owned machine came about
        together_usd(found.parts)
        draw = np.where(owned, found.draw_w, np.nan)
        owned_usd_per_hour(found.purchase_usd, draw, ~found.node.workstation, assumed, economics)
    hours, beside = horizon_hours(economics), np.zeros(len(found))
    if owned.any():
        bought = beside_of(found, nodes, linked_nodes, host_bytes, assumed)
        beside = beside_usd(bought.network_usd, bought.racks_usd, bought.more_memory_usd)
    hourly = usd_per_hour(nodes, found.usd_per_hour, beside, hours, assumed)
    return Cost(
        usd_per_hour=hourly,
        purchase_usd=np.where(owned, purchase_usd(nodes, found.purchase_usd, beside), np.nan),
        power_w=power_w(nodes, found.draw_w),
        rated_w=nodes * found.rated_w,
        tco_usd=tco_usd(hourly, hours),
    )


def does_work(units_per_s: float) -> bool:
    """Whether enough is done for a cost of a million to mean anything."""
    return units_per_s > LEAST_WORK_PER_S


@formula(unit="USD")
def usd_per_million(usd_per_hour: Column, units_per_s: Column) -> Column:
    """Cost of a million tokens (or samples) at a rate.

    Source: definition.
    Limits: at the mean load of all hours, not at the peak.
    Check:
        >>> round(float(usd_per_million(110.2, 27_000.0)), 3)
        1.134
    """
    return usd_per_hour / SECONDS_PER_HOUR / np.maximum(units_per_s, LEAST_PER_S) * 1e6


@formula(unit="kWh")
def kwh_per_million(power_w: Column, units_per_s: Column) -> Column:
    """IT energy of a million tokens (or samples).

    Source: definition.
    Limits: without what the building adds.
    Check:
        >>> round(float(kwh_per_million(11_200.0, 27_000.0)), 3)
        0.115
    """
    return power_w / 1e3 / SECONDS_PER_HOUR / np.maximum(units_per_s, LEAST_PER_S) * 1e6


Limit = tuple[str, str, Column, float | None, str]


def _sizes(accelerators: Column, cost: Cost, constraints: Constraints) -> tuple[Limit, ...]:
    """Code, sentence, what a row needs, what is allowed and the unit of each limit of number, money and power."""
    purchase = np.nan_to_num(cost.purchase_usd, nan=0.0)
    power = None if constraints.max_power_w is None else constraints.max_power_w / 1e3
    return (
        (
            "too_many_accelerators",
            "{name} needs {needed} accelerators; the limit is {available}.",
            accelerators,
            MOST_ACCELERATORS if constraints.max_accelerators is None else constraints.max_accelerators,
            "accelerators",
        ),
        (
            "over_budget",
            "{name} costs {needed} USD per hour for {on}; {available} may be spent.",
            cost.usd_per_hour,
            constraints.max_usd_per_hour,
            "usd_per_hour",
        ),
        (
            "over_budget",
            "{name} costs {needed} USD to buy {on}; {available} may be spent.",
            purchase,
            constraints.max_purchase_usd,
            "usd",
        ),
        (
            "over_power",
            "{name} draws up to {needed} kW with {on}; the limit is {available}.",
            cost.rated_w / 1e3,
            power,
            "kw",
        ),
    )


def within_limits(
    accelerator: Codes, accelerators: Column, cost: Cost, constraints: Constraints, rejections: Rejections
) -> Mask:
    """Rows that exceed no limit of number, money or power; types that lose all rows keep the shortfall."""
    keep: Mask = np.ones(len(accelerator), dtype=bool)
    for code, text, needed, available, unit in _sizes(accelerators, cost, constraints):
        if available is None:
            continue
        good = no_more(needed, float(available))
        rejections.lost(
            accelerator[keep],
            good[keep],
            code=code,
            text=text,
            needed=needed[keep],
            available=np.full(int(keep.sum()), float(available)),
            unit=unit,
            count=accelerators[keep],
            reached=Reached.LIMITS,
        )
        keep = keep & good
    return keep
