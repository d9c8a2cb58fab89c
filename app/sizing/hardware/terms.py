"""Published commercial terms that prices of machines leave out: egress, storage and software licenses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from app.sizing.facts import build_rows
from app.sizing.words import format_number


@dataclass(frozen=True, slots=True)
class CommercialTerm:
    """A published price of a seller, or of a software product, for goods that a bill lists without a price."""

    goods: str  # as on a bill: egress, storage or licence
    seller: str  # provider, or name of the software
    usd: float  # price of one unit, USD; 0 if it is free of charge
    unit: str
    source: str
    as_of: str
    condition: str = ""  # to what the price applies

    def describe(self) -> str:
        """The price with its condition, date and source.

        Check:
            >>> CommercialTerm("egress", "aws", 0.09, "GB", "a page", "2026-05").describe()
            'published price: 0.09 USD per GB (2026-05, a page)'
        """
        price = f"{format_number(self.usd)} USD per {self.unit}" if self.usd else "free of charge"
        condition = f" {self.condition}" if self.condition.startswith(("after ", "for ")) else ""
        condition = f", {self.condition}" if self.condition and not condition else condition
        return f"published price: {price}{condition} ({self.as_of}, {self.source})"


@cache
def commercial_terms() -> Mapping[tuple[str, str], CommercialTerm]:
    """All published terms by goods and seller."""
    return {(term.goods, term.seller): term for term in build_rows(CommercialTerm, "commercial_terms.csv")}
