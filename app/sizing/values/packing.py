"""Several models on shared accelerators, and the cost of each model on its own machines."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Placement:
    """Share of an accelerator that a model uses, repeated on `cards` consecutive accelerators with the same
    division.
    """

    card: int  # number of the first accelerator, from 1
    cards: int  # consecutive accelerators with the same division
    name: str
    share_memory: float  # share of the accelerator's memory
    share_time: float  # share of the accelerator's compute time
    slice: str | None = None  # name of the partition in the driver, for a partitioned accelerator


@dataclass(frozen=True, slots=True)
class PackedModel:
    """How a model runs on its shares."""

    name: str
    engine: str
    weight_format: str
    replicas: int  # replicas, spares included


@dataclass(frozen=True, slots=True)
class Packing:
    """Models that share accelerators of one type, compared with each model on its own machines.

    Fields are None if there is no price or no packing.
    """

    cards: int | None
    machines: int | None
    usd_per_hour: float | None
    on: tuple[Placement, ...]
    models: tuple[PackedModel, ...]
    apart_usd_per_hour: float | None
    cheaper: str | None  # together or apart
    why: str
