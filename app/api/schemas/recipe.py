"""A training recipe on the wire: what a deployment says of it, and all of it in an answer."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from app.api.schemas.base import Shown, Wire, shown_as
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
from app.sizing.hardware.recipes import RecipeSaid, TrainingRecipe


class RecipeSpec(Wire):
    """What differs from the framework's own recipe; GET /catalog/frameworks shows each. `name` and `source` are taken
    as an answer shows them, and decide nothing.
    """

    model_config = shown_as({"loss": "chunked", "recomputation": "full"})

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


class RecipeListed(Shown):
    """What a framework does from a version on, where a deployment says nothing else."""

    name: str = Field(description="Of the framework that it was read of, with the version.")
    since: str | None = Field(description="First version that it holds for; null: as far back as is known.")
    methods: list[str] = Field(description="Methods that it is for; none: all.")
    loss: LossName
    kernels: KernelsName
    weights: WeightsName
    gradients: GradientsName
    selective: str = Field(
        description="What activation_checkpointing selective recomputes; none: it has no such layout."
    )
    recomputation: RecomputationName = Field(description="What it recomputes unasked.")
    optimizer_implementation: OptimizerImplementationName
    adapter_precision: AdapterPrecisionName
    adapter_dropout: bool
    kbit_widening: bool
    offloads_checkpoints: bool
    packing: PackingName
    source: str
    as_of: str
    sources: dict[str, str] = Field(description="Of single fields, where they were read.")


def listed_json(recipe: TrainingRecipe) -> dict[str, Any]:
    """A framework's recipe as the catalogue lists it."""
    names = (name for name in RecipeListed.model_fields if name not in ("since", "methods", "sources"))
    since = None if recipe.since is None else ".".join(map(str, recipe.since))
    said = {name: getattr(recipe, name) for name in names}
    return said | {"since": since, "methods": list(recipe.methods), "sources": dict(recipe.sources)}


class RecipeShown(Shown):
    """Complete: how memory was counted, whose recipe it is and where that was read. What is refused is as asked."""

    loss: LossName | None = None
    kernels: KernelsName | None = None
    weights: WeightsName | None = None
    gradients: GradientsName | None = None
    recomputation: RecomputationName | None = None
    optimizer_implementation: OptimizerImplementationName | None = None
    adapter_precision: AdapterPrecisionName | None = None
    adapter_dropout: bool | None = None
    kbit_widening: bool | None = None
    packing: PackingName | None = None
    name: str | None = None
    source: str | None = None
