"""Memory on the wire: of the fullest accelerator, and of the host where weights lie there."""

from __future__ import annotations

from pydantic import Field

from app.api.schemas.base import Shown


class MemoryPartsShown(Shown):
    """GiB on the fullest accelerator; the parts sum to the total."""

    weights: float
    kv_cache: float
    activations: float
    overhead: float
    gradients: float
    optimizer: float
    total: float
    capacity: float
    usable: float


class HostMemoryShown(Shown):
    """GiB of its host's memory, of one replica."""

    model_config = {"json_schema_extra": {"examples": [{"weights": 18.2936, "cache": 0.1129, "usable": 153.6}]}}

    weights: float
    cache: float = Field(description="Of one sequence of the longest context, of the layers whose weights lie there.")
    usable: float


class MemoryShown(Shown):
    per_accelerator_gib: MemoryPartsShown
    kv_cache_tokens: int | None = None
    max_concurrent_sequences: int | None = Field(
        None, description="Of the longest context, per replica, beside the prefixes of idle sessions."
    )
    prefix_cache_gib: float | None = Field(
        None, description="Of the cache of one accelerator, what prefixes of idle sessions fill at the load."
    )
    idle_sessions: float | None = Field(None, description="Whose prefixes a replica keeps between turns at the load.")
    host_gib: HostMemoryShown | None = None
