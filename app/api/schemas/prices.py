"""Prices on the wire: who stands behind what is paid."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from app.api.schemas.base import Shown, present
from app.api.schemas.names import CommitmentName, PriceKindName, PricingName, TrustName
from app.sizing.result import Price


class PriceShown(Shown):
    """Who stands behind what is paid."""

    kind: PriceKindName = Field(
        description="provider, reseller, quote and list are prices that somebody stands behind; broker, launch, press "
        "and reckoned are not."
    )
    source: str
    observed: str = Field(description="When it was seen: a day, month or year.")
    as_of: str = Field(description="The same as observed.")
    age_days: int | None = Field(None, description="From observed to the day of the request, or its as_of.")
    confidence: TrustName = Field(description="That it is what the seller asks: high, medium or low.")
    min_quantity: int = Field(1, description="Machines that are sold together at least.")
    max_quantity: int | None = Field(None, description="Machines that are sold at most; absent where it is not known.")
    pricing_model: PricingName
    commitment: CommitmentName = Field(description="How long it binds: none, 1y or 3y.")
    upfront_usd: float | None = Field(None, description="Of one machine, paid at the start; part of usd_per_hour.")
    discount: float | None = Field(None, description="That the request has off it; every figure counts it.")


def price_json(p: Price) -> dict[str, Any]:
    """Who stands behind a price. Of its sources the first; GET /catalog/offers and /catalog/systems list them."""
    terms = p.terms
    return {
        "kind": terms.kind.value,
        "source": terms.source.split(";")[0],
        "observed": terms.observed,
        "as_of": terms.observed,
        **present(age_days=p.age_days),
        "confidence": terms.confidence,
        **present(min_quantity=terms.min_quantity, max_quantity=terms.max_quantity),
        "pricing_model": p.pricing_model,
        "commitment": terms.commitment.value,
        **present(upfront_usd=p.upfront_usd, discount=p.discount or None),
    }
