"""Estimates made by hand that tests of words start from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from app.sizing.hardware.parts import Accelerator, PriceKind, PricingModel, Terms
from app.sizing.question import Deployment
from app.sizing.result import CostSummary, Estimate, Interval, Percentiles, Performance, Price, Ranked
from tests.sizing.small import BIG

DEPLOYMENT = Deployment(
    accelerator="acme-big",
    system="big-8",
    provider="sky",
    region="us-1",
    pricing_model=PricingModel.ON_DEMAND,
    instance_type="big-8",
    accelerators_per_replica=2,
    replicas=3,
    spare_replicas=1,
    nodes=1,
    total_accelerators=8,
    engine="vllm",
    weight_format="bf16",
)
PRICE = Price(Terms(PriceKind.PROVIDER, "a price page", "2026-01-01", "high"), "on_demand", 31)
COST = CostSummary(
    usd_per_hour=40.0,
    usd_per_month=29_200.0,
    usd_per_million=0.25,
    usd_total=None,
    purchase_usd=None,
    power_w=8000.0,
    kwh_per_million=0.1,
    tco_usd=None,
    price=PRICE,
)
SPEED = Performance(Interval("output_tokens_per_s", 80.0, 120.0), "roofline", e2e=Percentiles(2.0, 2.0, 3.0, 4.0))
RUN = Performance(Interval("tokens_per_s", 80.0, 120.0), "roofline", days=5.0)


def estimated(
    *,
    cost: CostSummary | None = COST,
    performance: Performance | None = SPEED,
    bottleneck: str = "compute",
    **deployment: Any,
) -> Estimate:
    """An estimate; a test gives what it is about."""
    return Estimate(replace(DEPLOYMENT, **deployment), True, None, performance, bottleneck, cost, ())


def ranked(rank: int = 1, accelerator: Accelerator = BIG, **given: Any) -> Ranked:
    """One place of a ranking; the second does half as well as the first."""
    return Ranked(rank, 1.0 / rank, estimated(accelerator=accelerator.slug, **given), accelerator)
