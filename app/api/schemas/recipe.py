"""Schemas of training recipes: the fields that a deployment may set, and the complete recipe in an answer."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from app.api.schemas.base import RequestModel, ResponseModel, with_examples
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
from app.sizing.hardware.recipes import RecipeSettings, TrainingRecipe


class RecipeSpec(RequestModel):
    """Differences from the framework's own recipe, which GET /catalog/frameworks shows.

    `name` and `source` are accepted because answers contain them; they have no effect.
    """

    model_config = with_examples({"loss": "chunked", "recomputation": "full"})

    loss: LossName | None = None
    kernels: KernelsName | None = None
    weights: WeightsName | None = None
    gradients: GradientsName | None = None
    recomputation: RecomputationName | None = Field(
        None,
        description="What activation_checkpointing recomputes; every value except none and full is a variant of "
        "selective.",
    )
    optimizer_implementation: OptimizerImplementationName | None = None
    adapter_precision: AdapterPrecisionName | None = None
    adapter_dropout: bool | None = None
    kbit_widening: bool | None = Field(
        None, description="For qlora: whether embeddings, head, norms and the residual stream are in 32 bit."
    )
    packing: PackingName | None = None
    name: Annotated[str, Field(max_length=80)] | None = None
    source: Annotated[str, Field(max_length=300)] | None = None

    def to_recipe(self) -> RecipeSettings:
        return RecipeSettings(**self.model_dump(exclude={"name", "source"}))


class RecipeListed(ResponseModel):
    """A framework's default recipe from one version on."""

    name: str = Field(description="Name of the framework and the version that it was read from.")
    since: str | None = Field(description="First version that it applies to; null: every known earlier version.")
    methods: list[str] = Field(description="Methods that it applies to; empty: all.")
    loss: LossName
    kernels: KernelsName
    weights: WeightsName
    gradients: GradientsName
    selective: str = Field(description="What activation_checkpointing selective recomputes; none: not supported.")
    recomputation: RecomputationName = Field(description="What it recomputes by default.")
    optimizer_implementation: OptimizerImplementationName
    adapter_precision: AdapterPrecisionName
    adapter_dropout: bool
    kbit_widening: bool
    offloads_checkpoints: bool
    packing: PackingName
    source: str
    as_of: str
    sources: dict[str, str] = Field(description="Sources of individual fields.")


def listed_json(recipe: TrainingRecipe) -> dict[str, Any]:
    """A framework's recipe in the catalog as JSON."""
    names = (name for name in RecipeListed.model_fields if name not in ("since", "methods", "sources"))
    since = None if recipe.since is None else ".".join(map(str, recipe.since))
    values = {name: getattr(recipe, name) for name in names}
    return values | {"since": since, "methods": list(recipe.methods), "sources": dict(recipe.sources)}


class RecipeShown(ResponseModel):
    """The complete recipe for which memory was calculated, with its framework and source. A rejected recipe is shown as
    requested.
    """

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
