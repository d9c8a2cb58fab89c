"""Objects without a fixed set of members, each a named component of the OpenAPI document."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from app.api.schemas.base import Component

DeploymentPatch = Annotated[dict[str, Any], Field(examples=[{"tensor_parallel": 4}]), Component("DeploymentPatch")]
Metrics = Annotated[
    dict[str, str], Field(examples=[{"ttft_ms": "time from the request to its first token"}]), Component("Metrics")
]
RequestPatch = Annotated[
    dict[str, Any], Field(examples=[{"constraints": {"environment": "on_prem"}}]), Component("RequestPatch")
]
WorkloadOfPhase = Annotated[
    dict[str, Any],
    Field(examples=[{"training_tokens": 1e12, "deadline_days": 30}]),
    Component("WorkloadOfPhase"),
]
