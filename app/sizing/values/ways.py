"""How the same hardware may be had otherwise, and what would cost less if more were accepted: plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from app.sizing.hardware.parts import PricingModel
from app.sizing.hardware.prices import PriceKind


class Way(StrEnum):
    """How hardware is had."""

    ON_DEMAND = "on_demand"
    ONE_YEAR = "committed_1y"
    THREE_YEARS = "committed_3y"
    SPOT = "spot"
    OWNED = "owned"


# What each pricing model is; capacity that is booked for some days is none of these.
WAY_OF: Mapping[PricingModel, Way] = MappingProxyType(
    {
        PricingModel.ON_DEMAND: Way.ON_DEMAND,
        PricingModel.RESERVED_1Y: Way.ONE_YEAR,
        PricingModel.COMMITTED_1Y: Way.ONE_YEAR,
        PricingModel.RESERVED_3Y: Way.THREE_YEARS,
        PricingModel.COMMITTED_3Y: Way.THREE_YEARS,
        PricingModel.SPOT: Way.SPOT,
        PricingModel.OWNED: Way.OWNED,
    }
)
# What one takes on by each, and by a price that nobody stands behind.
RISKS: Mapping[Way, str] = MappingProxyType(
    {
        Way.ON_DEMAND: "",
        Way.ONE_YEAR: "paid for a year, used or not",
        Way.THREE_YEARS: "paid for three years, used or not",
        Way.SPOT: "may be taken back at any time",
        Way.OWNED: "paid at once; no resale counted",
    }
)
UNBACKED: Mapping[PriceKind, str] = MappingProxyType(
    {
        PriceKind.BROKER: "a broker's or platform's price: hosts differ and may be gone",
        PriceKind.LAUNCH: "a launch price: ask what it costs today",
        PriceKind.PRESS: "a press estimate: ask for a quote",
        PriceKind.RECKONED: "nobody quoted the machine: parts and an assumed host",
    }
)


def risk_of(way: Way, kind: PriceKind) -> str:
    """What one takes on, in words; empty where there is nothing to say."""
    return "; ".join(words for words in (RISKS[way], UNBACKED.get(kind, "")) if words)


@dataclass(frozen=True, slots=True)
class Alternative:
    """The same accelerators, had another way. `break_even_month`: from which on owning has cost less than this rent
    (of an owned one: than the rent recommended); None where it never has within the horizon. `ownable`: whether a price
    to own them is known at all.
    """

    way: Way
    provider: str
    region: str
    usd_per_hour: float
    purchase_usd: float | None
    kind: PriceKind
    observed: str
    ownable: bool
    break_even_month: float | None

    @property
    def risk(self) -> str:
        """What one takes on by it."""
        return risk_of(self.way, self.kind)


@dataclass(frozen=True, slots=True)
class Cheaper:
    """What would cost less than the first recommendation, if something were accepted that is not by default."""

    accepting: str
    accelerator: str
    total_accelerators: int
    provider: str
    usd_per_hour: float
    usd_total: float | None  # of work that ends
    saves_share: float  # of what the first recommendation costs
    kind: PriceKind
    observed: str
    risk: str
