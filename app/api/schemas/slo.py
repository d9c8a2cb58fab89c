"""Schema of latency limits (SLO)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from app.api.schemas.base import RequestModel
from app.sizing.workload import Limits


class SloSpec(RequestModel):
    """Limits that `percentile` percent of the requests must meet; null or absent means no limit of that kind."""

    ttft_ms: Annotated[float, Field(gt=0, le=1e8)] | None = None
    tpot_ms: Annotated[float, Field(gt=0, le=1e8)] | None = None
    e2e_ms: Annotated[float, Field(gt=0, le=1e9)] | None = None
    percentile: Annotated[float, Field(ge=50, le=99.9)] | None = Field(
        None,
        description="Percentile of requests that must meet the limits. Default: the assumption default_percentile, 95.",
    )

    def to_limits(self) -> Limits:
        def to_seconds(ms: float | None) -> float | None:
            return None if ms is None else ms / 1e3

        return Limits(to_seconds(self.ttft_ms), to_seconds(self.tpot_ms), to_seconds(self.e2e_ms), self.percentile)
