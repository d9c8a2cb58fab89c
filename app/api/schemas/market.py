"""Schemas of GET /catalog/market."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from app.api.schemas.base import PrintableText, ResponseModel, with_examples
from app.api.schemas.origins import From, ResultModel
from app.catalog.market import ClassRatio, Market, MarketGroup

_RATIO: dict[str, Any] = {"of_means": 3.29799, "of_medians": 3.61138}
_GROUP: dict[str, Any] = {
    "name": "nvidia-l4",
    "offers": 236,
    "min_usd_per_hour": 0.44,
    "median_usd_per_hour": 1.16279,
    "max_usd_per_hour": 4.28145,
    "usd_per_tflops_hour": 0.00960984,
    "usd_per_gb_hour": 0.04845,
    "usd_per_gb_per_s_hour": 0.00387597,
    "trend_30d": 0.0,
    "trend_90d": 0.0,
}


class MarketQuery(BaseModel):
    """How offers are grouped, and which are included."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    by: Literal["accelerator", "class", "provider", "region", "pricing_model"] = Field(
        "accelerator", description="Grouping of the offers. A class is training or inference."
    )
    accelerator: PrintableText | None = Field(None, description="Only these accelerators: a name or a pattern.")
    accelerator_class: Literal["training", "inference"] | None = Field(
        None, alias="class", description="Only accelerators of this class."
    )
    provider: PrintableText | None = Field(None, description="Only this provider.")
    region: PrintableText | None = Field(None, description="Only this region, country or area.")
    pricing_model: PrintableText | None = Field(
        None, description="Only this pricing model. Default: on_demand, or all if `by` is pricing_model."
    )


class MarketGroupShown(ResultModel, of=MarketGroup):
    """Prices of one group of offers, per accelerator and hour, in USD."""

    model_config = with_examples(_GROUP)

    name: str = Field(description="Name of the group.")
    offers: int = Field(description="Number of offers.")
    min_usd_per_hour: Annotated[float, From("low_usd")] = Field(description="Lowest price.")
    median_usd_per_hour: Annotated[float, From("median_usd")] = Field(description="Median price.")
    max_usd_per_hour: Annotated[float, From("high_usd")] = Field(description="Highest price.")
    usd_per_tflops_hour: Annotated[float | None, From("usd_per_tflops")] = Field(
        None, description="Median price of an hour of 1 TFLOPS, dense, in 16 bit."
    )
    usd_per_gb_hour: Annotated[float | None, From("usd_per_gb")] = Field(
        None, description="Median price of an hour of 1 GB of accelerator memory."
    )
    usd_per_gb_per_s_hour: Annotated[float | None, From("usd_per_gb_per_s")] = Field(
        None, description="Median price of an hour of 1 GB/s of memory bandwidth."
    )
    trend_30d: float | None = Field(
        None,
        description="Median change of prices within 30 days, as a share, over the offers that were observed since and "
        "have a known earlier price; absent if there are none.",
    )
    trend_90d: float | None = Field(None, description="The same within 90 days.")


class ClassRatioShown(ResultModel, of=ClassRatio):
    """Price of an hour of a training-class accelerator divided by that of an inference-class accelerator."""

    model_config = with_examples(_RATIO)

    of_means: float = Field(description="Ratio of the mean prices.")
    of_medians: float = Field(description="Ratio of the median prices.")


class MarketResponse(ResponseModel):
    """Hourly prices by group, and the ratio of the classes."""

    model_config = with_examples(
        {"by": "accelerator", "prices_as_of": "2026-08-22", "items": [_GROUP], "training_to_inference": _RATIO}
    )

    by: str = Field(description="Grouping of the offers.")
    prices_as_of: str = Field(description="Day of the newest price in the catalog, YYYY-MM-DD.")
    items: list[MarketGroupShown] = Field(description="Groups in alphabetical order.")
    training_to_inference: ClassRatioShown | None = Field(
        None, description="Ratio of the classes over all included offers; absent if one has no offer."
    )


def market_json(by: str, prices_as_of: str, market: Market) -> dict[str, Any]:
    body: dict[str, Any] = {"by": by, "prices_as_of": prices_as_of}
    body["items"] = [MarketGroupShown.as_json(group) for group in market.groups]
    if market.ratio is not None:
        body["training_to_inference"] = ClassRatioShown.as_json(market.ratio)
    return body
