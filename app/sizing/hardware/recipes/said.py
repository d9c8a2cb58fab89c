"""Recipe settings of a deployment: in a request the overrides, in an answer the complete recipe."""

from __future__ import annotations

from dataclasses import dataclass, replace

from app.sizing.hardware.recipes.record import TrainingRecipe

# Recomputation words that are layouts themselves; every other word is a kind of selective recomputation.
WHOLE = ("none", "full")
OFFLOADED = "offloaded"


@dataclass(frozen=True, slots=True)
class RecipeSettings:
    """Words of `VOCABULARIES` for the fields of a recipe; None keeps the framework's own.

    `recomputation` is what the layout recomputes. In an answer, `name` and `source` identify the recipe.
    """

    loss: str | None = None
    kernels: str | None = None
    weights: str | None = None
    gradients: str | None = None
    recomputation: str | None = None
    optimizer_implementation: str | None = None
    adapter_precision: str | None = None
    adapter_dropout: bool | None = None
    kbit_widening: bool | None = None
    packing: str | None = None
    name: str | None = None
    source: str | None = None

    @property
    def selective(self) -> str | None:
        """Kind of selective recomputation; None if the layout recomputes everything or nothing."""
        return None if self.recomputation in WHOLE else self.recomputation

    @property
    def recomputation_layout(self) -> str | None:
        """Recomputation layout: "none", "selective" or "full".

        Check:
            >>> [RecipeSettings(recomputation=word).recomputation_layout for word in ("attention", "full")]
            ['selective', 'full']
        """
        return "selective" if self.selective else self.recomputation

    @property
    def offloads_optimizer(self) -> bool | None:
        """Whether the optimizer is on the host; None if not set."""
        said = self.optimizer_implementation
        return None if said is None else said == OFFLOADED


# Fields in which a setting replaces the framework's own.
SETTABLE_FIELDS = (
    "loss",
    "kernels",
    "weights",
    "gradients",
    "selective",
    "optimizer_implementation",
    "adapter_precision",
    "adapter_dropout",
    "kbit_widening",
    "packing",
)
ADAPTER_FIELDS = ("adapter_precision", "adapter_dropout", "kbit_widening")


def apply_settings(recipe: TrainingRecipe, settings: RecipeSettings | None) -> TrainingRecipe:
    """A framework's recipe with the settings of a deployment applied.

    Check:
        >>> apply_settings(TrainingRecipe("fsdp"), RecipeSettings(loss="fused")).loss
        'fused'
    """
    own = {name: getattr(settings, name) for name in SETTABLE_FIELDS if getattr(settings, name, None) is not None}
    return replace(recipe, **own)
