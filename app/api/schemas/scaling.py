"""Training at several sizes on the wire."""

from __future__ import annotations

from pydantic import Field

from app.api.schemas.base import Shown


class PointShown(Shown):
    """The run at one size."""

    accelerators: int
    days: float
    usd_total: float | None = None
    tokens_per_s: float = Field(description="Samples per second for models that work on samples.")
    efficiency: float = Field(description="Speed per accelerator over that of the fewest.")


class ScalingShown(Shown):
    """The fastest layout that fits at every size, the global batch as it is."""

    points: list[PointShown]
    knee_accelerators: int = Field(description="The largest size whose last step up returned 70 % of what it added.")
    minimum_accelerators: int = Field(description="The fewest judged on which anything fits.")
    binds: str = Field(description="What stops the next step up from paying.")
