"""Several models on the same cards, as an answer shows them."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from app.api.schemas.base import Shown, present, rounded, shown_as
from app.api.schemas.names import WeightFormatName
from app.sizing.values.packing import Packing


class PlacedShown(Shown):
    """A model's share of a card, and of those after it that are divided alike."""

    model_config = shown_as({"card": 1, "name": "chat", "share_memory": 0.6, "share_time": 0.7})

    card: int
    cards: int | None = Field(None, description="How many from `card` on are divided alike; absent of one.")
    name: str
    share_memory: float = Field(description="What its engine is set to take of each card; of a slice its part.")
    share_time: float = Field(description="Of its time; of a slice its part of the compute.")
    slice: str | None = Field(None, description="The MIG profile, where the card is cut into slices.")


class PackedShown(Shown):
    """How a model runs in its shares."""

    model_config = shown_as(
        {
            "name": "embeddings",
            "engine": "vllm",
            "weight_format": "bf16",
            "replicas": 1,
        }
    )

    name: str
    engine: str
    weight_format: WeightFormatName
    replicas: int = Field(description="With spares; one at most on a card.")


class PackingShown(Shown):
    """The model and its companions on shares of the same cards, beside each on the cheapest machines of its own."""

    model_config = shown_as(
        {
            "cards": 1,
            "machines": 1,
            "usd_per_hour": 2.5,
            "on": [{"card": 1, "name": "chat", "share_memory": 0.6, "share_time": 0.7}],
            "models": [],
            "apart_usd_per_hour": 3.4,
            "cheaper": "together",
            "why": "2 models share 1 card of nvidia-h100-sxm5-80gb for 2.50 USD per hour.",
        }
    )

    cards: int | None = Field(None, description="Absent where a model cannot run on one card of this kind.")
    machines: int | None = None
    usd_per_hour: float | None = None
    on: list[PlacedShown]
    models: list[PackedShown]
    apart_usd_per_hour: float | None = None
    cheaper: str | None = Field(None, description="`together` or `apart`.")
    why: str


def packing_json(found: Packing) -> dict[str, Any]:
    """The same on the wire."""
    return {
        **present(cards=found.cards, machines=found.machines, usd_per_hour=found.usd_per_hour),
        "on": [
            {
                "card": p.card,
                **({"cards": p.cards} if p.cards > 1 else {}),
                "name": p.name,
                "share_memory": rounded(p.share_memory),
                "share_time": rounded(p.share_time),
                **present(slice=p.slice),
            }
            for p in found.on
        ],
        "models": [
            {
                "name": m.name,
                "engine": m.engine,
                "weight_format": m.weight_format,
                "replicas": m.replicas,
            }
            for m in found.models
        ],
        **present(apart_usd_per_hour=found.apart_usd_per_hour, cheaper=found.cheaper),
        "why": found.why,
    }
