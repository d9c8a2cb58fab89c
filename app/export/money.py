"""Amounts as buyers book them: decimal, rounded half up, in a currency at a dated rate, with a tax as given."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import ROUND_HALF_UP, Decimal

CENT = Decimal("0.01")
FINE = Decimal("0.0001")  # of prices per hour and per Gbit/s
THOUSANDTH = Decimal("0.001")


def decimal(value: float, step: Decimal) -> Decimal:
    """A figure of an answer in steps, halves up.

    Check:
        >>> decimal(2.675, CENT)
        Decimal('2.68')
    """
    return rounded(Decimal(repr(value)), step)


def rounded(value: Decimal, step: Decimal) -> Decimal:
    """An amount in steps, halves up."""
    return value.quantize(step, rounding=ROUND_HALF_UP)


def plainly(value: Decimal) -> str:
    """A number without an exponent or needless zeros.

    Check:
        >>> plainly(Decimal("26280.000")), plainly(Decimal("4.70")), plainly(Decimal("1E+3"))
        ('26280', '4.7', '1000')
    """
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


@dataclass(frozen=True, slots=True)
class Settlement:
    """In which currency a bill is written, at which rate of which day, and what tax comes on top."""

    currency: str = "USD"
    per_usd: Decimal = Decimal(1)  # of the currency
    rate_date: date | None = None  # None: dollars
    tax_name: str | None = None
    tax_percent: Decimal = Decimal(0)

    def tax(self, amount: Decimal) -> Decimal:
        """Tax on an amount, to the cent."""
        return rounded(amount * self.tax_percent / 100, CENT)
