"""Fields of replicas, shared by a deployment and each of its pools."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from app.api.schemas.base import INTEGER_VALUED, Name, RequestModel, ResponseModel
from app.api.schemas.names import KvFormatName, WeightFormatName
from app.api.schemas.offer import MAX_COUNT, Count, Degree, OfferShown, OfferSpec
from app.api.schemas.scheduler import SchedulerShown, SchedulerSpec
from app.sizing.hardware.parts import PricingModel


class ReplicaSpec(RequestModel):
    """Identical replicas; omitted fields are chosen by the service and shown in the answer."""

    accelerator: Name | None = None
    system: Name | None = None
    offer: OfferSpec | None = None
    accelerators_per_replica: Degree | None = None
    replicas: Count | None = None
    spare_replicas: Annotated[int, Field(ge=0, le=MAX_COUNT), INTEGER_VALUED] | None = None
    nodes: Count | None = None
    total_accelerators: Count | None = None
    tensor_parallel: Degree | None = None
    pipeline_parallel: Degree | None = None
    data_parallel: Degree | None = None
    context_parallel: Degree | None = None
    expert_parallel: Degree | None = None
    weight_format: WeightFormatName | None = None
    kv_format: KvFormatName | None = None
    max_batch: Degree | None = None
    max_batched_tokens: Annotated[int, Field(ge=16, le=10_000_000), INTEGER_VALUED] | None = None
    scheduler: SchedulerSpec | None = None
    memory_fraction: Annotated[float, Field(gt=0.05, le=1)] | None = None

    def explicit_fields(self, *excluded: str) -> dict[str, Any]:
        """The fields under the engine's names, without the fields `apart`."""
        fields = self.model_dump(exclude={"offer", "scheduler", *excluded})
        if self.offer is not None:
            fields |= self.offer.model_dump()
            pricing = self.offer.pricing_model
            fields["pricing_model"] = None if pricing is None else PricingModel(pricing)
        if self.scheduler is not None:
            fields["scheduler"] = self.scheduler.to_settings()
            fields["max_batch"] = self.max_batch or self.scheduler.max_sequences
            fields["max_batched_tokens"] = self.max_batched_tokens or self.scheduler.max_batched_tokens
        return fields


class ReplicaShown(ResponseModel):
    """Identical replicas, complete."""

    accelerator: str
    system: str | None = None
    offer: OfferShown | None = None
    accelerators_per_replica: int | None = None
    replicas: int | None = None
    spare_replicas: int | None = None
    nodes: int | None = None
    total_accelerators: int | None = Field(
        None, description="Number of accelerators that are paid for; machines are rented and bought as a whole."
    )
    tensor_parallel: int | None = None
    pipeline_parallel: int | None = None
    data_parallel: int | None = None
    context_parallel: int | None = None
    expert_parallel: int | None = None
    weight_format: WeightFormatName | None = None
    kv_format: KvFormatName | None = None
    max_batch: int | None = None
    max_batched_tokens: int | None = None
    scheduler: SchedulerShown | None = None
    memory_fraction: float | None = None
    weights_on_host: float | None = Field(None, description="Share of the weights in host memory.")
