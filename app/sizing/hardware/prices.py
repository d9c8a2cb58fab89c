"""Terms of a price: its basis (published, quoted or estimated), its commitment, and its date."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any

import numpy as np

from app.sizing.columns import Column


class PriceKind(StrEnum):
    """Basis of a price: who published or quoted it, or how it was estimated."""

    PROVIDER = "provider"  # the owner of the machine, on its own page or price feed
    RESELLER = "reseller"  # a company that sells other owners' machines in its own name
    QUOTE = "quote"  # quoted by, or surveyed among, sellers of whole machines
    LIST = "list"  # list price of the manufacturer for a product in production
    BROKER = "broker"  # a marketplace, serverless platform, intermediary, or small host without a region
    LAUNCH = "launch"  # price at launch, in a past year
    PRESS = "press"  # estimate by journalists or analysts
    ESTIMATE = "estimate"  # sum of the parts' prices plus an assumed host

    @classmethod
    def _missing_(cls, value: object) -> PriceKind | None:
        """Kind for a deprecated spelling; None for any other value, which is an error."""
        current = DEPRECATED_KINDS.get(value) if isinstance(value, str) else None
        return None if current is None else cls(current)


# Deprecated spellings by the current one: requests may still use them, and stored answers have them.
DEPRECATED_KINDS: Mapping[str, str] = MappingProxyType({"reckoned": PriceKind.ESTIMATE.value})
# Prices that a seller has published or quoted.
FIRM = (PriceKind.PROVIDER, PriceKind.RESELLER, PriceKind.QUOTE, PriceKind.LIST)
KINDS = tuple(PriceKind)
# Price kinds as sentences write them.
PRICE_KIND_TEXTS: Mapping[PriceKind, str] = MappingProxyType(
    {
        PriceKind.PROVIDER: "the provider's own price",
        PriceKind.RESELLER: "a reseller's price",
        PriceKind.QUOTE: "a quote for the whole machine",
        PriceKind.LIST: "the manufacturer's list price",
        PriceKind.BROKER: "a broker, serverless or small-host price",
        PriceKind.LAUNCH: "a launch price",
        PriceKind.PRESS: "a press estimate",
        PriceKind.ESTIMATE: "an estimate from parts plus an assumed host",
    }
)


def current_kind(kind: Any) -> Any:
    """A price kind in its current spelling; other values, of any type, are returned unchanged.

    Check:
        >>> current_kind("reckoned"), current_kind("quote")
        ('estimate', 'quote')
    """
    return DEPRECATED_KINDS.get(kind, kind) if isinstance(kind, str) else kind


class Commitment(StrEnum):
    """Term that a buyer commits to."""

    NONE = "none"
    ONE_YEAR = "1y"
    THREE_YEARS = "3y"


@dataclass(frozen=True, slots=True)
class Terms:
    """Terms of a price: everything that is recorded about it except the amount."""

    kind: PriceKind
    source: str
    observed: str  # date on which the price was seen: a day, month or year
    confidence: str  # high, medium or low: confidence that the seller asks this price
    min_quantity: int = 1  # machines, smallest order
    max_quantity: int | None = None  # machines, largest order; None if unknown
    commitment: Commitment = Commitment.NONE
    upfront_usd: float | None = None  # USD per machine, paid at the start


def day_numbers(texts: Sequence[str]) -> Column:
    """ISO 8601 dates as day numbers, so that differences are days; NaN for an empty text.

    A month or year counts from its first day.
    Check:
        >>> (day_numbers(["2026-11-20", "2026-01"]) - day_numbers(["2025-11-20", "2026"])).tolist()
        [365.0, 0.0]
    """
    found = np.array(texts, dtype="datetime64[D]")
    return np.where(np.isnat(found), np.nan, found.astype(np.float64))
