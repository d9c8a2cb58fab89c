"""Schemas of a training run at several sizes."""

from __future__ import annotations

from pydantic import Field

from app.api.schemas.base import ResponseModel


class PointShown(ResponseModel):
    """The run at one size."""

    accelerators: int
    days: float
    usd_total: float | None = None
    tokens_per_s: float = Field(
        description="Training tokens per second; samples per second for models that process samples."
    )
    efficiency: float = Field(description="Throughput per accelerator relative to the smallest size.")


class ScalingShown(ResponseModel):
    """The fastest layout that fits at each size, with the same global batch."""

    points: list[PointShown]
    knee_accelerators: int = Field(
        description="Largest size at which the last increase still gained 70 % of ideal scaling."
    )
    minimum_accelerators: int = Field(description="Smallest evaluated size on which any layout fits.")
    binds: str = Field(description="What limits the gain of the next larger size.")
