"""Who stands behind a price, for how long a buyer is bound by it, and how old it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

import numpy as np

from app.sizing.columns import Column


class PriceKind(StrEnum):
    """What sort of price it is: whether somebody would sell at it today."""

    PROVIDER = "provider"  # whose machine it is, from the own page or feed
    RESELLER = "reseller"  # sells machines of others in its own name
    QUOTE = "quote"  # asked for or surveyed among sellers of whole machines
    LIST = "list"  # a maker's, of what is still made
    BROKER = (
        "broker"  # a marketplace, a serverless platform, who passes on others' machines, a small host without a region
    )
    LAUNCH = "launch"  # when it came out, in a past year
    PRESS = "press"  # of journalists and analysts
    RECKONED = "reckoned"  # parts and an assumed host


# Prices that somebody stands behind.
FIRM = (PriceKind.PROVIDER, PriceKind.RESELLER, PriceKind.QUOTE, PriceKind.LIST)
KINDS = tuple(PriceKind)
# How each is told of.
IN_WORDS: Mapping[PriceKind, str] = MappingProxyType(
    {
        PriceKind.PROVIDER: "the provider's own price",
        PriceKind.RESELLER: "a reseller's price",
        PriceKind.QUOTE: "a quote for the whole machine",
        PriceKind.LIST: "the maker's list price",
        PriceKind.BROKER: "a broker's, serverless platform's or small host's price",
        PriceKind.LAUNCH: "a launch price",
        PriceKind.PRESS: "a press estimate",
        PriceKind.RECKONED: "a sum of parts around an assumed host",
    }
)


class Commitment(StrEnum):
    """How long a buyer is bound."""

    NONE = "none"
    ONE_YEAR = "1y"
    THREE_YEARS = "3y"


@dataclass(frozen=True, slots=True)
class Terms:
    """What is known of a price beside its amount. Quantities are of machines, `upfront_usd` is of one."""

    kind: PriceKind
    source: str
    observed: str  # a day, month or year
    confidence: str
    min_quantity: int = 1
    max_quantity: int | None = None  # None unknown
    commitment: Commitment = Commitment.NONE
    upfront_usd: float | None = None


def days(texts: Sequence[str]) -> Column:
    """Dates as days, to be subtracted from one another; a month or year counts from its first day, no date is NaN.

    Source: ISO 8601.
    Limits: the Gregorian calendar.
    Check:
        >>> (days(["2026-11-20", "2026-01"]) - days(["2025-11-20", "2026"])).tolist()
        [365.0, 0.0]
    """
    found = np.array(texts, dtype="datetime64[D]")
    return np.where(np.isnat(found), np.nan, found.astype(np.float64))
