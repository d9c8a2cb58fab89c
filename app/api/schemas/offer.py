"""Schemas of the machine and price that a deployment refers to, and of its counts."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from app.api.schemas.base import INTEGER_VALUED, Name, RequestModel, ResponseModel
from app.api.schemas.names import PricingName

Degree = Annotated[int, Field(ge=1, le=1_000_000), INTEGER_VALUED]
# Far above any real fleet: a count given in replicas is returned in accelerators and must be accepted again.
MAX_COUNT = 10**12
Count = Annotated[int, Field(ge=1, le=MAX_COUNT), INTEGER_VALUED]


class OfferSpec(RequestModel):
    """The catalog price to use."""

    provider: Name | None = None
    region: Annotated[str, Field(min_length=1, max_length=80)] | None = None
    pricing_model: PricingName | None = None
    instance_type: Annotated[str, Field(min_length=1, max_length=120)] | None = None


class OfferShown(ResponseModel):
    """The catalog price that was used."""

    provider: str
    region: str
    pricing_model: PricingName
    instance_type: str | None = None
