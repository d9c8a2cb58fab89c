"""Several models on the same cards, and what each would cost by itself: plain values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Placed:
    """A model's share of a card, and of as many cards after it as are divided alike."""

    card: int  # the first of them, from 1
    cards: int
    name: str
    share_memory: float
    share_time: float
    slice: str | None = None  # as the driver calls it, where the card is cut


@dataclass(frozen=True, slots=True)
class Packed:
    """How a model runs in its shares."""

    name: str
    engine: str
    weight_format: str
    replicas: int  # with spares


@dataclass(frozen=True, slots=True)
class Packing:
    """Models together on cards of one kind, beside each on machines of its own; None where there is no price or no
    way.
    """

    cards: int | None
    machines: int | None
    usd_per_hour: float | None
    on: tuple[Placed, ...]
    models: tuple[Packed, ...]
    apart_usd_per_hour: float | None
    cheaper: str | None  # together or apart
    why: str
