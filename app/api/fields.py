"""Where the fields of a request stand: for a name that is misspelt, or right in another place."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel

Models = tuple[type[BaseModel], ...]
MOST_PLACES = 3
LEAST_LIKENESS = 0.6


@cache
def models_in(annotation: Any) -> Models:
    """Models that a field may hold, through unions, lists and annotations."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return (annotation,)
    if get_origin(annotation) is Literal:
        return ()
    return tuple(dict.fromkeys(found for part in get_args(annotation) for found in models_in(part)))


def phase_of(model: type[BaseModel]) -> str | None:
    """Of a workload, the phase it is of."""
    field = model.model_fields.get("phase")
    return get_args(field.annotation)[0] if field is not None and get_origin(field.annotation) is Literal else None


def models_at(root: type[BaseModel], location: Sequence[Any]) -> Models:
    """Models that may stand at a place; steps that are no fields choose among several: the tag of a phase."""
    models: Models = (root,)
    for step in location:
        held: list[Any] = [model.model_fields[step].annotation for model in models if step in model.model_fields]
        below = tuple(found for annotation in held for found in models_in(annotation))
        models = below or tuple(m for m in models if phase_of(m) == step) or models
    return models


@cache
def places(root: type[BaseModel]) -> dict[str, tuple[str, ...]]:
    """Every field of a request by its name, as dotted paths; of a phase's own the phase."""
    found: dict[str, dict[str, None]] = {}
    for name, path in _walked(root, "", ()):
        found.setdefault(name, {})[path] = None
    return {name: tuple(paths) for name, paths in found.items()}


def _walked(model: type[BaseModel], path: str, above: Models) -> Iterator[tuple[str, str]]:
    phase = phase_of(model)
    for name, field in model.model_fields.items():
        yield name, (path or "the request") + (f" of phase {phase}" if phase is not None else "")
        held: Any = field.annotation
        for below in models_in(held):
            if below not in above:
                yield from _walked(below, f"{path}.{name}" if path else name, (*above, model))


def misplaced(root: type[BaseModel], location: Sequence[Any]) -> str:
    """What to say of a field that does not stand where it was put."""
    name = str(location[-1])[:80]
    here = sorted({field for model in models_at(root, location[:-1]) for field in model.model_fields})
    close = difflib.get_close_matches(name.lower(), here, n=1, cutoff=LEAST_LIKENESS)
    if close and close[0].replace("_", "") == name.lower().replace("_", "").replace("-", ""):
        return f"no such field here; did you mean {close[0]}?"
    elsewhere = places(root).get(name)
    if elsewhere:
        nearest = sorted(elsewhere, key=lambda place: place.count("."))[:MOST_PLACES]
        return f"no such field here; {name} is a field of {', '.join(nearest)}"
    if close:
        return f"no such field here; did you mean {close[0]}?"
    near = difflib.get_close_matches(name.lower(), places(root), n=1, cutoff=LEAST_LIKENESS)
    if near:
        return (
            f"no such field here; did you mean {near[0]}, a field of {', '.join(places(root)[near[0]][:MOST_PLACES])}?"
        )
    return f"no such field here; accepted: {', '.join(here)}" if here else "no such field here"
