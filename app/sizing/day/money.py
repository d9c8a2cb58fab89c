"""Daily cost by pricing model: releasing machines saves rent only where they are rented by the hour."""

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
    """Daily cost of a fleet that stays at its peak size.

    Parameters:
        usd_per_hour: hourly cost of the fleet, USD/h.
    Check:
        >>> fixed_usd_per_day(40.0)
        960.0
    """
    return usd_per_hour * HOURS_PER_DAY


@formula(unit="USD")
def rent_saved_usd(usd_per_hour: Column, idle_share: Column) -> Column:
    """Rent saved in a day by releasing machines for a share of their hours.

    Parameters:
        usd_per_hour: hourly cost of the fleet at the peak, USD/h.
        idle_share: share of the machine-hours that are released, from 0 to 1.
    Limits: rented by the hour and billed by the minute; machines are available again when needed.
    Check:
        >>> rent_saved_usd(40.0, 0.25)
        240.0
    """
    return usd_per_hour * HOURS_PER_DAY * idle_share


@formula(unit="USD", source="definition; the power of an idle machine is an assumption")
def energy_saved_usd(power_w: Column, idle_share: Column, assumed: Assumptions, economics: Economics) -> Column:
    """Electricity saved in a day by owned machines that are idle for a share of their hours.

    Parameters:
        power_w: mean power of the fleet under load, W.
        idle_share: share of the machine-hours that are idle, from 0 to 1.
        assumed: assumptions: power of an idle machine as a share of its power under load.
        economics: economics of the request: PUE and the electricity tariff.
    Limits: machines stay switched on.
    Check: 10 kW, a quarter of the hours idle at 40 % of it: 36 kWh, times a PUE of 1.3.
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
    """Mean hourly cost of a day with idle machines, by pricing model.

    Reserved machines are billed whether they run or not; owned machines save energy only.

    Check: a quarter idle, on demand and reserved.
        >>> rented = np.array([True, False])
        >>> paid_usd_per_hour(40.0, 0.0, 0.25, rented, np.array([False, False]), Assumptions(), Economics()).tolist()
        [30.0, 40.0]
    """
    back = np.where(by_the_hour, rent_saved_usd(usd_per_hour, idle_share), 0.0)
    energy = np.where(is_owned, energy_saved_usd(power_w, idle_share, assumed, economics), 0.0)
    paid: Column = usd_per_hour - (back + energy) / HOURS_PER_DAY
    return paid


def savings_note(pricing: PricingModel | None) -> str:
    """A sentence that says what idle hours save with a pricing model."""
    if pricing in BY_THE_HOUR:
        return "Idle machines are released and not billed."
    if pricing is PricingModel.OWNED:
        return "Owned machines cost the same whether they run or not; only energy is saved."
    if pricing is None:
        return "No price is known; only replica-hours are compared."
    return "Reserved machines are billed whether they run or not; nothing is saved."
