"""Cost of a deployment: per hour, per month, per million tokens, over the horizon, and in energy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Codes, Column, Columns, Mask
from app.sizing.decisions.beside import ancillary_usd, estimate_ancillary_costs
from app.sizing.decisions.chassis import machine_parts_usd
from app.sizing.decisions.machines import Candidates
from app.sizing.decisions.ownership import horizon_hours, owned_usd_per_hour
from app.sizing.decisions.rejections import Rejections, is_at_most
from app.sizing.formula import formula, is_recording
from app.sizing.question import Constraints, Economics
from app.sizing.result import FilterStage
from app.sizing.units import HOURS_PER_YEAR, LEAST_PER_S, LEAST_WORK_PER_S, SECONDS_PER_HOUR

# Plans that need more accelerators are rejected, whatever limit the request sets.
MAX_ACCELERATORS = 10_000_000


@dataclass(frozen=True, slots=True)
class Cost(Columns):
    """Cost of deployments, in USD, and their power. `purchase_usd` is NaN for rented machines."""

    usd_per_hour: Column  # hourly cost, owning included, USD/h
    purchase_usd: Column  # upfront purchase, USD; NaN for rented machines
    power_w: Column  # mean IT power under load, W
    rated_w: Column  # rated IT power, W
    tco_usd: Column  # total cost of ownership over the horizon, USD


@formula(unit="USD")
def purchase_usd(nodes: Column, machine_purchase_usd: Column, ancillary_usd: Column) -> Column:
    """Upfront spend: owned machines and their ancillary purchases.

    Parameters:
        nodes: machines of the deployment.
        machine_purchase_usd: purchase price of one machine, USD.
        ancillary_usd: network, racks and extra memory, USD.
    Limits: owned machines only.
    Check:
        >>> purchase_usd(2.0, 265_000.0, 68_000.0)
        598000.0
    """
    return nodes * machine_purchase_usd + ancillary_usd


@formula(unit="USD/h")
def usd_per_hour(
    nodes: Column, machine_usd_per_hour: Column, ancillary_usd: Column, horizon_hours: float, assumed: Assumptions
) -> Column:
    """Hourly cost of a deployment: its machines, plus ancillary purchases spread over the horizon and their
    maintenance.

    Parameters:
        nodes: machines of the deployment.
        machine_usd_per_hour: rent or hourly cost of owning one machine, USD/h.
        ancillary_usd: network, racks and extra memory, USD.
        horizon_hours: hours over which purchases are spread.
        assumed: assumptions: maintenance per year as a share of the purchase.
    Limits: excludes staff, storage and internet traffic.
    Check:
        >>> round(usd_per_hour(2.0, 55.04, 26_280.0, 26_280.0, Assumptions()), 2)
        111.23
    """
    yearly = ancillary_usd * assumed.maintenance_fraction_per_year
    return nodes * machine_usd_per_hour + ancillary_usd / horizon_hours + yearly / HOURS_PER_YEAR


@formula(unit="W")
def power_w(nodes: Column, draw_w: Column) -> Column:
    """Mean power of a deployment under load.

    Parameters:
        nodes: machines of the deployment.
        draw_w: mean power of one machine under load, W.
    Limits: IT load; the building's overhead (PUE) is part of the cost, not of this figure.
    Check:
        >>> power_w(2.0, 7_500.0)
        15000.0
    """
    return nodes * draw_w


@formula(unit="USD")
def tco_usd(usd_per_hour: Column, horizon_hours: float) -> Column:
    """Total cost of ownership: all payments over the horizon.

    Parameters:
        usd_per_hour: hourly cost of the deployment, USD/h.
        horizon_hours: hours of the horizon.
    Limits: current prices, use in all hours of the horizon.
    Check:
        >>> tco_usd(110.08, 26_280.0)
        2892902.4
    """
    return usd_per_hour * horizon_hours


@formula(unit="USD", source="definition")
def usd_total(usd_per_hour: Column, wall_s: Column) -> Column:
    """Cost of a job that ends: whole machines for its full duration.

    Parameters:
        usd_per_hour: hourly cost of the machines, USD/h.
        wall_s: duration of the job, s.
    Limits: excludes storage, staff and failed runs.
    Check: 100 machines at 20 USD/h for ten days.
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
    """Cost of `nodes` machines, joined by networks of `linked_nodes` machines each.

    Rent and ownership are comparable: an owned machine costs, per hour, its purchase spread over the horizon,
    maintenance, floor space and power. `host_bytes` is the host memory that the plan uses on each machine.
    """
    owned = ~np.isnan(found.purchase_usd)
    if is_recording():  # the trace shows how the price of an owned machine is derived
        machine_parts_usd(found.parts)
        draw = np.where(owned, found.draw_w, np.nan)
        owned_usd_per_hour(found.purchase_usd, draw, ~found.node.workstation, assumed, economics)
    hours, ancillary = horizon_hours(economics), np.zeros(len(found))
    if owned.any():
        bought = estimate_ancillary_costs(found, nodes, linked_nodes, host_bytes, assumed)
        ancillary = ancillary_usd(bought.network_usd, bought.racks_usd, bought.more_memory_usd)
    hourly = usd_per_hour(nodes, found.usd_per_hour, ancillary, hours, assumed)
    return Cost(
        usd_per_hour=hourly,
        purchase_usd=np.where(owned, purchase_usd(nodes, found.purchase_usd, ancillary), np.nan),
        power_w=power_w(nodes, found.draw_w),
        rated_w=nodes * found.rated_w,
        tco_usd=tco_usd(hourly, hours),
    )


def has_measurable_throughput(units_per_s: float) -> bool:
    """Whether the throughput is high enough for a cost per million to be meaningful."""
    return units_per_s > LEAST_WORK_PER_S


@formula(unit="USD")
def usd_per_million(usd_per_hour: Column, units_per_s: Column) -> Column:
    """Cost of a million tokens (or samples).

    Parameters:
        usd_per_hour: hourly cost of the deployment, USD/h.
        units_per_s: mean tokens (or samples) per second.
    Limits: at the mean load of all hours, not at the peak.
    Check:
        >>> round(float(usd_per_million(110.2, 27_000.0)), 3)
        1.134
    """
    return usd_per_hour / SECONDS_PER_HOUR / np.maximum(units_per_s, LEAST_PER_S) * 1e6


@formula(unit="kWh")
def kwh_per_million(power_w: Column, units_per_s: Column) -> Column:
    """IT energy of a million tokens (or samples).

    Parameters:
        power_w: mean power of the deployment under load, W.
        units_per_s: mean tokens (or samples) per second.
    Limits: excludes the building's overhead (PUE).
    Check:
        >>> round(float(kwh_per_million(11_200.0, 27_000.0)), 3)
        0.115
    """
    return power_w / 1e3 / SECONDS_PER_HOUR / np.maximum(units_per_s, LEAST_PER_S) * 1e6


Limit = tuple[str, str, Column, float | None, str]


def _limit_rows(accelerators: Column, cost: Cost, constraints: Constraints) -> tuple[Limit, ...]:
    """Code, sentence, needed column, allowed value and unit of each limit on accelerators, money and power."""
    purchase = np.nan_to_num(cost.purchase_usd, nan=0.0)
    power = None if constraints.max_power_w is None else constraints.max_power_w / 1e3
    return (
        (
            "too_many_accelerators",
            "{name} needs {needed} accelerators; the limit is {available}.",
            accelerators,
            MAX_ACCELERATORS if constraints.max_accelerators is None else constraints.max_accelerators,
            "accelerators",
        ),
        (
            "over_budget",
            "{name} costs {needed} USD/h for {on}; the budget is {available} USD/h.",
            cost.usd_per_hour,
            constraints.max_usd_per_hour,
            "usd_per_hour",
        ),
        (
            "over_budget",
            "{name} costs {needed} USD upfront for {on}; the purchase budget is {available} USD.",
            purchase,
            constraints.max_purchase_usd,
            "usd",
        ),
        (
            "over_power",
            "{name} draws up to {needed} kW with {on}; the limit is {available} kW.",
            cost.rated_w / 1e3,
            power,
            "kw",
        ),
    )


def within_limits(
    accelerator: Codes, accelerators: Column, cost: Cost, constraints: Constraints, rejections: Rejections
) -> Mask:
    """Rows that exceed no limit on accelerators, money or power; types that lose all rows are rejected with the
    shortfall.
    """
    keep: Mask = np.ones(len(accelerator), dtype=bool)
    for code, text, needed, available, unit in _limit_rows(accelerators, cost, constraints):
        if available is None:
            continue
        good = is_at_most(needed, float(available))
        rejections.reject_with_shortfall(
            accelerator[keep],
            good[keep],
            code=code,
            text=text,
            needed=needed[keep],
            available=np.full(int(keep.sum()), float(available)),
            unit=unit,
            count=accelerators[keep],
            reached=FilterStage.LIMITS,
        )
        keep = keep & good
    return keep
