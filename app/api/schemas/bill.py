"""Schema of the bill behind a cost."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from app.api.schemas.base import ResponseModel, rounded_fields, with_examples
from app.sizing.result import Part


class PartShown(ResponseModel):
    """A line of the bill. Lines with `unit_usd` add up to the purchase cost, paid over `horizon_hours`; lines with
    `usd_per_hour` add up to the hourly cost. `machine_kw` is the mean power of each machine. Cost and energy per unit
    are divided by `tokens_per_s` or `samples_per_s`.
    """

    model_config = with_examples({"what": "network_gbit_per_s", "quantity": 6400, "unit_usd": 4.7})

    what: str
    quantity: float = Field(description="Number of units; for upkeep_usd, the purchase cost that it is a share of.")
    unit_usd: float | None = Field(None, description="Purchase price of one unit.")
    usd_per_hour: float | None = Field(None, description="Hourly price of one unit.")


def part_json(part: Part) -> dict[str, Any]:
    return rounded_fields(
        what=part.what, quantity=part.quantity, unit_usd=part.unit_usd, usd_per_hour=part.usd_per_hour
    )
