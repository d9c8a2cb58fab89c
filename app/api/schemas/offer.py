"""Which machine and price of the catalogue a deployment means, and how it is counted."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from app.api.schemas.base import WHOLE, Name, Shown, Wire
from app.api.schemas.names import PricingName

Degree = Annotated[int, Field(ge=1, le=1_000_000), WHOLE]
# Far beyond any fleet: what was asked for in replicas comes back in accelerators and is taken again.
MOST_COUNTED = 10**12
Count = Annotated[int, Field(ge=1, le=MOST_COUNTED), WHOLE]


class OfferSpec(Wire):
    """Which price of the catalogue is meant."""

    provider: Name | None = None
    region: Annotated[str, Field(min_length=1, max_length=80)] | None = None
    pricing_model: PricingName | None = None
    instance_type: Annotated[str, Field(min_length=1, max_length=120)] | None = None


class OfferShown(Shown):
    """The price of the catalogue that was taken."""

    provider: str
    region: str
    pricing_model: PricingName
    instance_type: str | None = None
