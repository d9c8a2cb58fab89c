"""A training recipe on the wire: what a deployment says of it, and all of it in an answer."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from app.api.schemas.base import Shown, Wire
from app.api.schemas.names import (
    AdapterPrecisionName,
    GradientsName,
    KernelsName,
    LossName,
    OptimizerImplementationName,
    PackingName,
    RecomputationName,
    WeightsName,
)
from app.sizing.hardware.recipes import RecipeSaid


class RecipeSpec(Wire):
    """What differs from the framework's own recipe; GET /catalog/frameworks shows each. `name` and `source` are taken
    as an answer shows them, and decide nothing.
    """

    model_config = {"json_schema_extra": {"examples": [{"loss": "chunked", "recomputation": "full"}]}}

    loss: LossName | None = None
    kernels: KernelsName | None = None
    weights: WeightsName | None = None
    gradients: GradientsName | None = None
    recomputation: RecomputationName | None = Field(
        None, description="What activation_checkpointing recomputes: all but none and full are ways of selective."
    )
    optimizer_implementation: OptimizerImplementationName | None = None
    adapter_precision: AdapterPrecisionName | None = None
    adapter_dropout: bool | None = None
    kbit_widening: bool | None = Field(
        None, description="Of qlora: embeddings, head, norms and the residual stream in 32 bit."
    )
    packing: PackingName | None = None
    name: Annotated[str, Field(max_length=80)] | None = None
    source: Annotated[str, Field(max_length=300)] | None = None

    def to_recipe(self) -> RecipeSaid:
        return RecipeSaid(**self.model_dump(exclude={"name", "source"}))


class RecipeShown(Shown):
    """Complete: how memory was counted, whose recipe it is and where that was read."""

    loss: str
    kernels: str
    weights: str
    gradients: str
    recomputation: str
    optimizer_implementation: str
    adapter_precision: str | None = None
    adapter_dropout: bool | None = None
    kbit_widening: bool | None = None
    packing: str
    name: str
    source: str | None = None
