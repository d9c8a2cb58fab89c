"""Schemas of several models on the same cards."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from app.api.schemas.base import ResponseModel, round_value, rounded_fields, with_examples
from app.api.schemas.names import WeightFormatName
from app.sizing.values.packing import Packing


class PlacedShown(ResponseModel):
    """A model's share of a card, and of the following cards with the same division."""

    model_config = with_examples({"card": 1, "name": "chat", "share_memory": 0.6, "share_time": 0.7})

    card: int
    cards: int | None = Field(
        None, description="Number of cards from `card` on with the same division; absent for one card."
    )
    name: str
    share_memory: float = Field(
        description="Memory share of each card that its engine may use; for a slice, the slice's share."
    )
    share_time: float = Field(description="Share of the card's time; for a slice, its share of the compute.")
    slice: str | None = Field(None, description="MIG profile, if the card is partitioned.")


class PackedShown(ResponseModel):
    """How a model runs in its shares."""

    model_config = with_examples(
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
    replicas: int = Field(description="Replicas including spares, at most one per card.")


class PackingShown(ResponseModel):
    """The model and its companions on shared cards, compared with each on its own cheapest machines."""

    model_config = with_examples(
        {
            "cards": 1,
            "machines": 1,
            "usd_per_hour": 2.5,
            "on": [{"card": 1, "name": "chat", "share_memory": 0.6, "share_time": 0.7}],
            "models": [],
            "apart_usd_per_hour": 3.4,
            "cheaper": "together",
            "why": "2 models share 1 × NVIDIA H100 SXM5 80GB for 2.50 USD/h.",
        }
    )

    cards: int | None = Field(
        None, description="Number of cards; absent if a model cannot run on one card of this type."
    )
    machines: int | None = None
    usd_per_hour: float | None = None
    on: list[PlacedShown]
    models: list[PackedShown]
    apart_usd_per_hour: float | None = None
    cheaper: str | None = Field(None, description="Cheaper variant: `together` or `apart`.")
    why: str


def packing_json(packing: Packing) -> dict[str, Any]:
    """A packing as JSON."""
    return {
        **rounded_fields(cards=packing.cards, machines=packing.machines, usd_per_hour=packing.usd_per_hour),
        "on": [
            {
                "card": p.card,
                **({"cards": p.cards} if p.cards > 1 else {}),
                "name": p.name,
                "share_memory": round_value(p.share_memory),
                "share_time": round_value(p.share_time),
                **rounded_fields(slice=p.slice),
            }
            for p in packing.on
        ],
        "models": [
            {
                "name": m.name,
                "engine": m.engine,
                "weight_format": m.weight_format,
                "replicas": m.replicas,
            }
            for m in packing.models
        ],
        **rounded_fields(apart_usd_per_hour=packing.apart_usd_per_hour, cheaper=packing.cheaper),
        "why": packing.why,
    }
