"""Other ways to acquire the recommended hardware, and cheaper options that require accepting more risk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from app.sizing.hardware.parts import PricingModel
from app.sizing.hardware.prices import PriceKind


class AcquisitionOption(StrEnum):
    """Acquisition options: how hardware is rented or bought."""

    ON_DEMAND = "on_demand"
    ONE_YEAR = "committed_1y"
    THREE_YEARS = "committed_3y"
    SPOT = "spot"
    OWNED = "owned"


# Acquisition option of each pricing model; capacity reserved for some days is none of them.
OPTION_OF_PRICING: Mapping[PricingModel, AcquisitionOption] = MappingProxyType(
    {
        PricingModel.ON_DEMAND: AcquisitionOption.ON_DEMAND,
        PricingModel.RESERVED_1Y: AcquisitionOption.ONE_YEAR,
        PricingModel.COMMITTED_1Y: AcquisitionOption.ONE_YEAR,
        PricingModel.RESERVED_3Y: AcquisitionOption.THREE_YEARS,
        PricingModel.COMMITTED_3Y: AcquisitionOption.THREE_YEARS,
        PricingModel.SPOT: AcquisitionOption.SPOT,
        PricingModel.OWNED: AcquisitionOption.OWNED,
    }
)
# Risks of each acquisition option, and of price kinds that are no firm offers.
OPTION_RISKS: Mapping[AcquisitionOption, str] = MappingProxyType(
    {
        AcquisitionOption.ON_DEMAND: "",
        AcquisitionOption.ONE_YEAR: "one-year commitment, paid even if unused",
        AcquisitionOption.THREE_YEARS: "three-year commitment, paid even if unused",
        AcquisitionOption.SPOT: "the provider can interrupt it at any time",
        AcquisitionOption.OWNED: "upfront purchase, no resale value",
    }
)
UNQUOTED_RISKS: Mapping[PriceKind, str] = MappingProxyType(
    {
        PriceKind.BROKER: "marketplace price: hosts and availability vary",
        PriceKind.LAUNCH: "launch price: ask for the current price",
        PriceKind.PRESS: "press estimate: ask for a quote",
        PriceKind.ESTIMATE: "machine price estimated from parts and an assumed host",
    }
)


def describe_risk(way: AcquisitionOption, kind: PriceKind) -> str:
    """Risks of an acquisition option and a price kind in words; empty if there are none."""
    return "; ".join(words for words in (OPTION_RISKS[way], UNQUOTED_RISKS.get(kind, "")) if words)


@dataclass(frozen=True, slots=True)
class Alternative:
    """The same accelerators through another acquisition option.

    `break_even_month`: month from which owning has cost less than this rent (for an owned option: than the
    recommended rent); None if that never happens within the horizon. `ownable`: whether a purchase price is known.
    """

    way: AcquisitionOption
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
        """Risks of this option in words."""
        return describe_risk(self.way, self.kind)


@dataclass(frozen=True, slots=True)
class Cheaper:
    """An option that costs less than the first recommendation if the buyer accepts something that is excluded by
    default.
    """

    accepting: str
    accelerator: str
    total_accelerators: int
    provider: str
    usd_per_hour: float
    usd_total: float | None  # total cost of work that ends, USD
    saves_share: float  # saving as a share of the first recommendation's cost
    kind: PriceKind
    observed: str
    risk: str
