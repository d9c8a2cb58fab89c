"""Locates the fields of a request, to explain a misspelled or misplaced field name."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel

from app.sizing.words import join_words

Models = tuple[type[BaseModel], ...]
UNKNOWN_FIELD = "Unknown field"
TOP_LEVEL = "the request"  # stands for the empty path
MAX_PLACES = 3
MIN_SIMILARITY = 0.6


@cache
def models_in(annotation: Any) -> Models:
    """Returns the models in a type annotation, including those in unions, lists and Annotated."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return (annotation,)
    if get_origin(annotation) is Literal:
        return ()
    return tuple(dict.fromkeys(model for part in get_args(annotation) for model in models_in(part)))


def model_phase(model: type[BaseModel]) -> str | None:
    """Returns the phase of a workload model, or None for other models."""
    field = model.model_fields.get("phase")
    return get_args(field.annotation)[0] if field is not None and get_origin(field.annotation) is Literal else None


def models_at(root: type[BaseModel], location: Sequence[Any]) -> Models:
    """Returns the models at a location of the request. A location step that is a phase tag selects among several
    models.
    """
    models: Models = (root,)
    for step in location:
        annotations: list[Any] = [model.model_fields[step].annotation for model in models if step in model.model_fields]
        below = tuple(found for annotation in annotations for found in models_in(annotation))
        models = below or tuple(m for m in models if model_phase(m) == step) or models
    return models


@cache
def field_places(root: type[BaseModel]) -> dict[str, tuple[str, ...]]:
    """Maps every field name of a request to the dotted paths of its parents, marked with the phase where one
    applies.
    """
    paths_by_name: dict[str, dict[str, None]] = {}
    for name, path in _walk_fields(root, "", ()):
        paths_by_name.setdefault(name, {})[path] = None
    return {name: tuple(paths) for name, paths in paths_by_name.items()}


def _walk_fields(model: type[BaseModel], path: str, above: Models) -> Iterator[tuple[str, str]]:
    phase = model_phase(model)
    for name, field in model.model_fields.items():
        yield name, (path or TOP_LEVEL) + (f" of phase {phase}" if phase is not None else "")
        annotation: Any = field.annotation
        for below in models_in(annotation):
            if below not in above:
                yield from _walk_fields(below, f"{path}.{name}" if path else name, (*above, model))


def explain_unknown_field(root: type[BaseModel], location: Sequence[Any]) -> str:
    """Returns the error text for an unknown field: the closest accepted field, or the accepted fields."""
    name = str(location[-1])[:80]
    here = sorted({field for model in models_at(root, location[:-1]) for field in model.model_fields})
    close = difflib.get_close_matches(name.lower(), here, n=1, cutoff=MIN_SIMILARITY)
    if close and close[0].replace("_", "") == name.lower().replace("_", "").replace("-", ""):
        return f"{UNKNOWN_FIELD}. Did you mean {close[0]}?"
    elsewhere = field_places(root).get(name)
    if elsewhere:
        nearest = sorted(elsewhere, key=lambda place: place.count("."))[:MAX_PLACES]
        return f"{UNKNOWN_FIELD}. Did you mean {join_words([_field_path(place, name) for place in nearest], 'or')}?"
    if close:
        return f"{UNKNOWN_FIELD}. Did you mean {close[0]}?"
    near = difflib.get_close_matches(name.lower(), field_places(root), n=1, cutoff=MIN_SIMILARITY)
    if near:
        paths = [_field_path(place, near[0]) for place in field_places(root)[near[0]][:MAX_PLACES]]
        return f"{UNKNOWN_FIELD}. Did you mean {join_words(paths, 'or')}?"
    return f"{UNKNOWN_FIELD}. Accepted fields: {', '.join(here)}" if here else UNKNOWN_FIELD


def _field_path(place: str, name: str) -> str:
    """Returns the dotted path of a field from its entry in `field_places`, with the phase in brackets if any."""
    path, _, phase = place.partition(" of phase ")
    return (name if path == TOP_LEVEL else f"{path}.{name}") + (f" (phase {phase})" if phase else "")
