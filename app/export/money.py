"""Decimal amounts for bills: rounding half up, currency conversion at a dated rate, and tax."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import ROUND_HALF_UP, Decimal

CENT = Decimal("0.01")
PRICE_STEP = Decimal("0.0001")  # step of prices per hour, kW, GiB and Gbit/s
THOUSANDTH = Decimal("0.001")


def to_decimal(value: float, step: Decimal) -> Decimal:
    """A figure of an answer as a decimal, rounded half up to a step.

    Check:
        >>> to_decimal(2.675, CENT)
        Decimal('2.68')
    """
    return round_half_up(Decimal(repr(value)), step)


def round_half_up(value: Decimal, step: Decimal) -> Decimal:
    """An amount rounded half up to a step."""
    return value.quantize(step, rounding=ROUND_HALF_UP)


def format_decimal(value: Decimal) -> str:
    """A number without an exponent and without trailing zeros.

    Check:
        >>> format_decimal(Decimal("26280.000")), format_decimal(Decimal("4.70")), format_decimal(Decimal("1E+3"))
        ('26280', '4.7', '1000')
    """
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


@dataclass(frozen=True, slots=True)
class Settlement:
    """Currency of a bill, its exchange rate, and the tax."""

    currency: str = "USD"
    per_usd: Decimal = Decimal(1)  # units of the currency for one USD
    rate_date: date | None = None  # day of the exchange rate; None for USD
    tax_name: str | None = None
    tax_percent: Decimal = Decimal(0)  # tax rate in percent

    def tax(self, amount: Decimal) -> Decimal:
        """Tax on an amount, to the cent."""
        return round_half_up(amount * self.tax_percent / 100, CENT)
