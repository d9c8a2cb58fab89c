"""The one model of a bill of materials that every writer reads: lines with quantity, price and where each is from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from enum import StrEnum

from app.errors import Unanswerable
from app.export.money import CENT, Settlement, rounded

SHORT = 40  # characters of a description that every tool takes
SHORT_REFERENCE = 35  # and of a quote's number
OWN_WORDS = ("label", "reference", "cost_centre")  # that a request is filed under
SERVICES = ("cloud", "hosting", "power", "support", "installation", "licence")  # kinds of lines that are no goods


class Unit(StrEnum):
    """Codes of UN/ECE Recommendation 20."""

    EACH = "EA"
    HOUR = "HUR"
    MONTH = "MON"
    KILOWATT = "KWT"
    GBIT_PER_S = "B80"
    GIBIBYTE = "E62"
    TERABYTE = "E35"


@dataclass(frozen=True, slots=True)
class PriceSource:
    """Who stands behind a price, and how old it is at the day of the answer."""

    kind: str
    source: str
    observed: str
    confidence: str
    age_days: int | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """So much of something. Without a price it is to be quoted. `once`: bought, not paid for month by month."""

    goods: str  # its commodity: machine, accelerator, network, cloud, ...
    kind: str  # compute, network, rack, storage, hosting, power, support, installation, licence or cloud
    sku: str
    description: str
    quantity: Decimal
    unit: Unit
    usd: Decimal | None  # of one
    unit_price: Decimal | None  # the same in the bill's currency
    once: bool
    price: PriceSource | None = None
    manufacturer: str | None = None
    part_number: str | None = None  # the maker's
    supplier: str | None = None
    supplier_part_id: str | None = None
    term_months: Decimal | None = None
    codes: dict[str, str] = field(default_factory=dict)
    notes: str = ""
    number: int = 0
    lot: int = 0  # of which kind of machines it is part: several where pools differ

    @property
    def total(self) -> Decimal | None:
        """To the cent; None where it is to be quoted."""
        return None if self.unit_price is None else rounded(self.quantity * self.unit_price, CENT)

    @property
    def paid(self) -> str:
        """Once, or month by month."""
        return "once" if self.once else "over_term"

    @property
    def short(self) -> str:
        """Its description in as many characters as every tool takes."""
        return self.description[:SHORT].rstrip()


@dataclass(frozen=True, slots=True)
class Bill:
    """What one ranked option comes to. Sums are made of the lines whenever they are read."""

    answer: str  # id of the stored recommendation
    rank: int
    title: str
    created_at: str
    as_of: date
    snapshot: str
    settlement: Settlement
    lines: tuple[Line, ...]
    own_words: Mapping[str, str] = field(default_factory=dict)

    @property
    def reference(self) -> str:
        """Under which a quote of this option is filed: 35 characters are what every tool takes."""
        return f"{self.answer}-{self.rank}"[:SHORT_REFERENCE]

    @property
    def priced(self) -> tuple[Line, ...]:
        """Lines that can be ordered at their price."""
        return tuple(line for line in self.lines if line.unit_price is not None)

    @property
    def once(self) -> Decimal:
        return summed(line for line in self.lines if line.once)

    @property
    def over_term(self) -> Decimal:
        return summed(line for line in self.lines if not line.once)

    @property
    def subtotal(self) -> Decimal:
        return summed(self.lines)

    @property
    def tax(self) -> Decimal:
        return self.settlement.tax(self.subtotal)

    @property
    def total(self) -> Decimal:
        return self.subtotal + self.tax

    def ordered(self) -> tuple[Line, ...]:
        """Lines for tools that can only take what has a price. Raises NothingPriced."""
        if not self.priced:
            raise NothingPriced("No line of this option has a price, so there is nothing to order. Ask for a quote.")
        return self.priced


class NothingPriced(Unanswerable):
    """A bill that cannot be ordered from."""

    code = "nothing-priced"


def summed(lines: Iterable[Line]) -> Decimal:
    """Totals of the lines that have one."""
    return sum((line.total for line in lines if line.total is not None), Decimal("0.00"))


def plain(text: str) -> str:
    """Text that every format can carry: of one line, without control characters.

    Check:
        >>> plain("a\\tb\\x00c")
        'a b c'
    """
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
