"""What a day costs by the way it is paid: what is given back is saved only where it is rented by the hour."""

from __future__ import annotations

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Column, Mask
from app.sizing.formula import formula
from app.sizing.hardware.parts import BY_THE_HOUR, PricingModel
from app.sizing.question import Economics
from app.sizing.units import HOURS_PER_DAY


@formula(unit="USD")
def fixed_usd_per_day(usd_per_hour: float) -> float:
    """A day of a fleet that runs as it is at the peak.

    Source: definition.
    Limits: as the hourly cost.
    Check:
        >>> fixed_usd_per_day(40.0)
        960.0
    """
    return usd_per_hour * HOURS_PER_DAY


@formula(unit="USD")
def given_back_usd(usd_per_hour: Column, idle_share: Column) -> Column:
    """What is not paid of a day where machines are given back for a share of their hours.

    Source: definition.
    Limits: rent by the hour, paid by the minute; machines are there when they are wanted.
    Check:
        >>> given_back_usd(40.0, 0.25)
        240.0
    """
    return usd_per_hour * HOURS_PER_DAY * idle_share


@formula(unit="USD")
def energy_saved_usd(power_w: Column, idle_share: Column, assumed: Assumptions, economics: Economics) -> Column:
    """Electricity that owned machines do not draw in a day while nothing runs on a share of them.

    Source: definition; what an idle machine draws is an assumption.
    Limits: machines stay switched on.
    Check: 10 kW, a quarter of the hours idle at 0.4 of it: 36 kWh, with 1.3 for the building.
        >>> round(energy_saved_usd(1e4, 0.25, Assumptions(), Economics(electricity_usd_per_kwh=0.1, pue=1.3)), 3)
        4.68
    """
    saved = power_w / 1e3 * idle_share * (1 - assumed.idle_power_share) * HOURS_PER_DAY
    return saved * economics.pue * economics.electricity_usd_per_kwh


def paid_usd_per_hour(
    usd_per_hour: Column,
    power_w: Column,
    idle_share: Column,
    by_the_hour: Mask,
    is_owned: Mask,
    assumed: Assumptions,
    economics: Economics,
) -> Column:
    """What an hour of a day costs in the mean where machines are idle for a share of it, by how they are paid.

    Source: definition.
    Limits: what is reserved is paid for whether it runs or not.
    Check: a quarter idle, on demand and reserved.
        >>> rented = np.array([True, False])
        >>> paid_usd_per_hour(40.0, 0.0, 0.25, rented, np.array([False, False]), Assumptions(), Economics()).tolist()
        [30.0, 40.0]
    """
    back = np.where(by_the_hour, given_back_usd(usd_per_hour, idle_share), 0.0)
    energy = np.where(is_owned, energy_saved_usd(power_w, idle_share, assumed, economics), 0.0)
    paid: Column = usd_per_hour - (back + energy) / HOURS_PER_DAY
    return paid


def note_of(pricing: PricingModel | None) -> str:
    """What is saved of hours in which machines are idle, in words."""
    if pricing in BY_THE_HOUR:
        return "Machines that are idle are given back and not paid for."
    if pricing is PricingModel.OWNED:
        return "Owned machines are paid for whether they run or not: only energy is saved."
    if pricing is None:
        return "No price is known: only hours are compared."
    return "Reserved machines are paid for whether they run or not: nothing is saved."
