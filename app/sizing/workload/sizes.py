"""Model details that a request sets: the size of a sample and the matrices that adapters modify."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.errors import Unanswerable
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.model.sample import SampleShape
from app.sizing.model.tensors import Per


def resize_samples(model: ModelArchitecture, requested: Mapping[str, Any]) -> ModelArchitecture:
    """The model for samples of the given size.

    Raises Unanswerable for a size that the model does not depend on.
    """
    accepted = model.law.size_fields if model.law is not None else ()
    for name in requested:
        if name not in accepted:
            hint = (
                f"accepted fields are {', '.join(accepted)}"
                if accepted
                else "its work does not depend on the size of a sample"
            )
            raise Unanswerable(f"sample.{name} does not apply to {model.name}: {hint}.")
    return model.with_sample_shape(SampleShape(**requested))


def adapted_matrices(model: ModelArchitecture, target_modules: str | Sequence[str]) -> str | tuple[str, ...]:
    """Matrices that adapters modify: the name of a preset, or names of matrices.

    Raises Unanswerable if the model has no matrix of that name.
    """
    if isinstance(target_modules, str):
        return target_modules
    roles = sorted({t.role for t in model.tensors if t.per is Per.TOKEN and t.inputs > 1})
    for name in target_modules:
        if name not in roles:
            raise Unanswerable(f"{model.name} has no matrix {name!r} to adapt. Available matrices: {', '.join(roles)}.")
    return tuple(target_modules)
