"""Schema of a price: kind, source, age and terms."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from app.api.schemas.base import ResponseModel, rounded_fields
from app.api.schemas.names import CommitmentName, PriceKindName, PricingName, TrustName
from app.sizing.result import Price


class PriceShown(ResponseModel):
    """Kind, source, age and terms of the price that is paid."""

    kind: PriceKindName = Field(
        description="A seller has published or quoted provider, reseller, quote and list prices; broker, launch, press "
        "and estimate prices are not firm. Answers stored by earlier versions say `reckoned` for `estimate`."
    )
    source: str
    observed: str = Field(description="When the price was observed: a day, month or year.")
    as_of: str = Field(description="Same value as observed.")
    age_days: int | None = Field(None, description="Days from observed to the day of the request, or to its as_of.")
    confidence: TrustName = Field(description="Confidence that the seller asks this price: high, medium or low.")
    min_quantity: int = Field(1, description="Minimum number of machines per order.")
    max_quantity: int | None = Field(None, description="Maximum number of machines; absent if unknown.")
    pricing_model: PricingName
    commitment: CommitmentName = Field(description="Length of the commitment: none, 1y or 3y.")
    upfront_usd: float | None = Field(None, description="Upfront payment for one machine; included in usd_per_hour.")
    discount: float | None = Field(None, description="Discount from the request; every figure includes it.")


def price_json(p: Price) -> dict[str, Any]:
    """A price as JSON with the first of its sources; GET /catalog/offers and /catalog/systems list all of them."""
    terms = p.terms
    return {
        "kind": terms.kind.value,
        "source": terms.source.split(";")[0],
        "observed": terms.observed,
        "as_of": terms.observed,
        **rounded_fields(age_days=p.age_days),
        "confidence": terms.confidence,
        **rounded_fields(min_quantity=terms.min_quantity, max_quantity=terms.max_quantity),
        "pricing_model": p.pricing_model,
        "commitment": terms.commitment.value,
        **rounded_fields(upfront_usd=p.upfront_usd, discount=p.discount or None),
    }
