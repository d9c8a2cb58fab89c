"""Bill of materials that every export format reads: lines with quantity, price and price source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from enum import StrEnum

from app.errors import Unanswerable
from app.export.money import CENT, Settlement, round_half_up

SHORT_TEXT_LENGTH = 40  # characters of a description that every procurement tool accepts
REFERENCE_LENGTH = 35  # characters of a quote reference that every procurement tool accepts
FILING_FIELDS = ("label", "reference", "cost_centre")  # request fields that the buyer files an answer under
FILING_LABELS = {"label": "Label", "reference": "Reference", "cost_centre": "Cost center"}  # their display names
# Kinds of lines that are services, not goods.
SERVICE_KINDS = ("cloud", "hosting", "power", "support", "installation", "licence")


class Unit(StrEnum):
    """Units as codes of UN/ECE Recommendation 20."""

    EACH = "EA"
    HOUR = "HUR"
    MONTH = "MON"
    KILOWATT = "KWT"
    GBIT_PER_S = "B80"
    GIBIBYTE = "E62"
    TERABYTE = "E35"


@dataclass(frozen=True, slots=True)
class PriceSource:
    """Origin of a price, and its age on the day of the answer."""

    kind: str
    source: str
    observed: str
    confidence: str
    age_days: int | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a bill. A line without a price needs a quote."""

    goods: str  # commodity of the line: machine, accelerator, network, cloud, ...
    kind: str  # compute, network, rack, storage, hosting, power, support, installation, licence or cloud
    sku: str
    description: str
    quantity: Decimal
    unit: Unit
    usd: Decimal | None  # price per unit in USD
    unit_price: Decimal | None  # price per unit in the currency of the bill
    once: bool  # paid once; false: paid over the term
    price: PriceSource | None = None
    manufacturer: str | None = None
    part_number: str | None = None  # the manufacturer's
    supplier: str | None = None
    supplier_part_id: str | None = None
    term_months: Decimal | None = None
    codes: dict[str, str] = field(default_factory=dict)  # commodity codes by scheme: unspsc, cpv, hs_code
    notes: str = ""
    number: int = 0
    lot: int = 0  # index of the group of machines: pools of different machines are separate lots

    @property
    def total(self) -> Decimal | None:
        """Quantity times unit price, to the cent; None if the line has no price."""
        return None if self.unit_price is None else round_half_up(self.quantity * self.unit_price, CENT)

    @property
    def payment_timing(self) -> str:
        """When the line is paid: "once" or "over_term"."""
        return "once" if self.once else "over_term"

    @property
    def short_description(self) -> str:
        """Description truncated to the length that every procurement tool accepts."""
        return self.description[:SHORT_TEXT_LENGTH].rstrip()


@dataclass(frozen=True, slots=True)
class Bill:
    """Bill of one ranked option. Totals are computed from the lines on each access."""

    answer: str  # id of the stored recommendation
    rank: int
    title: str
    created_at: str
    as_of: date  # day that price ages refer to
    snapshot: str  # id of the catalog snapshot that the answer used
    settlement: Settlement
    lines: tuple[Line, ...]
    filing_values: Mapping[str, str] = field(default_factory=dict)  # label, reference and cost_centre of the request

    @property
    def reference(self) -> str:
        """Quote reference of the option, at most 35 characters, which every procurement tool accepts."""
        return f"{self.answer}-{self.rank}"[:REFERENCE_LENGTH]

    @property
    def priced_lines(self) -> tuple[Line, ...]:
        """Lines that have a price."""
        return tuple(line for line in self.lines if line.unit_price is not None)

    @property
    def once(self) -> Decimal:
        return sum_totals(line for line in self.lines if line.once)

    @property
    def over_term(self) -> Decimal:
        return sum_totals(line for line in self.lines if not line.once)

    @property
    def subtotal(self) -> Decimal:
        return sum_totals(self.lines)

    @property
    def tax(self) -> Decimal:
        return self.settlement.tax(self.subtotal)

    @property
    def total(self) -> Decimal:
        return self.subtotal + self.tax

    def require_priced_lines(self) -> tuple[Line, ...]:
        """Lines for formats that accept only priced lines. Raises NothingPriced if there are none."""
        if not self.priced_lines:
            raise NothingPriced("No line of this option has a price, so nothing can be ordered. Request a quote.")
        return self.priced_lines


class NothingPriced(Unanswerable):
    """Raised for a bill without any priced line."""

    code = "nothing-priced"


def sum_totals(lines: Iterable[Line]) -> Decimal:
    """Sum of the line totals; lines without a price are skipped."""
    return sum((line.total for line in lines if line.total is not None), Decimal("0.00"))


def clean_text(text: str) -> str:
    """Text in one line without control characters, which every format can carry.

    Check:
        >>> clean_text("a\\tb\\x00c")
        'a b c'
    """
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
