"""What a request says of its model: the size of a sample, the matrices that adapters touch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.errors import Unanswerable
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.model.sample import SampleShape
from app.sizing.model.tensors import Per


def sized(model: ModelArchitecture, given: Mapping[str, Any]) -> ModelArchitecture:
    """The model on samples of this size; raises Unanswerable for a size it does not depend on."""
    accepted = model.law.sizes if model.law is not None else ()
    for name in given:
        if name not in accepted:
            words = (
                f"it depends on {', '.join(accepted)}"
                if accepted
                else "its work does not follow from the size of a sample"
            )
            raise Unanswerable(f"sample.{name} does not apply to {model.name}: {words}.")
    return model.sized(SampleShape(**given))


def adapted_matrices(model: ModelArchitecture, target_modules: str | Sequence[str]) -> str | tuple[str, ...]:
    """The matrices that adapters touch: a preset's name, or names of matrices.

    Raises Unanswerable for a name the model has no matrix of.
    """
    if isinstance(target_modules, str):
        return target_modules
    roles = sorted({t.role for t in model.tensors if t.per is Per.TOKEN and t.inputs > 1})
    for name in target_modules:
        if name not in roles:
            raise Unanswerable(f"{model.name} has no matrix {name!r} to adapt; it has {', '.join(roles)}.")
    return tuple(target_modules)
