"""The bill behind a cost, as it is shown."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from app.api.schemas.base import Shown, present, shown_as
from app.sizing.result import Part


class PartShown(Shown):
    """A line of the bill. Lines with `unit_usd` add up to the purchase, over `horizon_hours`; lines with `usd_per_hour`
    to what is paid by the hour; `machine_kw` is the mean draw of each machine, `tokens_per_s` or `samples_per_s` the
    rate over which cost and energy are spread.
    """

    model_config = shown_as({"what": "network_gbit_per_s", "quantity": 6400, "unit_usd": 4.7})

    what: str
    quantity: float = Field(description="How many; of upkeep_usd the purchase it is a share of.")
    unit_usd: float | None = Field(None, description="Price of one, bought.")
    usd_per_hour: float | None = Field(None, description="Of one, by the hour.")


def part_json(part: Part) -> dict[str, Any]:
    return present(what=part.what, quantity=part.quantity, unit_usd=part.unit_usd, usd_per_hour=part.usd_per_hour)
