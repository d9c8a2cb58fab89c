"""What a deployment says of its recipe: in a request what differs from the framework's own, in an answer all of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from app.sizing.hardware.recipes.record import TrainingRecipe

# What a deployment calls the layouts of recomputation; what lies between none and full is selective.
WHOLE = ("none", "full")
OFFLOADED = "offloaded"


@dataclass(frozen=True, slots=True)
class RecipeSaid:
    """Words of `VOCABULARIES` for what a recipe fixes; None is the framework's own.

    `recomputation` is what the layout recomputes; `name` and `source` say, in an answer, whose recipe it is.
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
        """What it says selective recomputation is."""
        return None if self.recomputation in WHOLE else self.recomputation

    @property
    def layout(self) -> str | None:
        """The layout that its recomputation is.

        Check:
            >>> RecipeSaid(recomputation="attention").layout, RecipeSaid(recomputation="full").layout
            ('selective', 'full')
        """
        return "selective" if self.selective else self.recomputation

    @property
    def offloads(self) -> bool | None:
        """Whether it says that the optimizer is on the host."""
        said = self.optimizer_implementation
        return None if said is None else said == OFFLOADED


# Fields of which what is said replaces a framework's own.
REPLACED = (
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
OF_ADAPTERS = ("adapter_precision", "adapter_dropout", "kbit_widening")


def as_said(recipe: TrainingRecipe, said: RecipeSaid | None) -> TrainingRecipe:
    """A framework's recipe with what a deployment says in place of its own.

    Check:
        >>> as_said(TrainingRecipe("fsdp"), RecipeSaid(loss="fused")).loss
        'fused'
    """
    own = {name: getattr(said, name) for name in REPLACED if getattr(said, name, None) is not None}
    return replace(recipe, **own)
