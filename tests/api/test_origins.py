"""Every field of an answer comes from exactly one attribute of a result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import pytest

import app.main  # noqa: F401  # defines every schema
from app.api.schemas.base import ResponseModel
from app.api.schemas.origins import ADDED, EMPTY, WHOLE, From, ResultModel, attribute_of, origin_of


def subclasses(model: type[ResultModel]) -> Iterator[type[ResultModel]]:
    for each in model.__subclasses__():
        yield each
        yield from subclasses(each)


MODELS = sorted(
    {model for model in subclasses(ResultModel) if model.__module__.startswith("app.")}, key=lambda m: m.__name__
)


def type_at(path: str, result: type) -> Any:
    """The declared type of a path of attributes; None in between is left out."""
    for name in path.split("."):
        found = getattr(result, name, None)
        declared = get_type_hints(found.fget)["return"] if isinstance(found, property) else get_type_hints(result)[name]
        (result, *_) = [part for part in get_args(declared) if part is not type(None)] or [declared]
        if get_origin(declared) in (Mapping, dict, tuple):
            return declared
    return declared


def models_in(annotation: Any) -> Iterator[type[ResponseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, ResponseModel):
        yield annotation
    for part in get_args(annotation):
        yield from models_in(part)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_every_field_has_one_origin_that_exists(model: type[ResultModel]) -> None:
    for name, field in model.model_fields.items():
        assert len([each for each in field.metadata if isinstance(each, From)]) <= 1, name
        at = origin_of(field)
        if at is ADDED:
            continue
        at = attribute_of(name, at, model.result_type)
        source = model.result_type if at.name == WHOLE else type_at(at.name, model.result_type)
        if field.annotation is int and at.convert is None:
            assert int in (source, *get_args(source)), name
        plain = [each for each in models_in(field.annotation) if not issubclass(each, ResultModel)]
        of_a_mapping = Mapping in (get_origin(source), *map(get_origin, get_args(source)))
        assert not plain or at.convert is not None or of_a_mapping, name


@dataclass(frozen=True, slots=True)
class Pump:
    pump_w: float
    flow_bytes: float
    stalls: int
    note: str | None = None


def test_a_field_shows_the_attribute_of_its_name_or_of_its_quantity() -> None:
    class PumpShown(ResultModel, of=Pump):
        pump_kw: float
        flow_gib: Annotated[float, From(decimals=2)]
        note: str | None = None

    assert PumpShown.as_json(Pump(1500.0, 2.0**30, 0)) == {"pump_kw": 1.5, "flow_gib": 1.0}


def test_a_missing_value_is_null_in_a_required_field_and_absent_in_others() -> None:
    class PumpShown(ResultModel, of=Pump):
        first: Annotated[str | None, From("note")]
        second: Annotated[str | None, From("note")] = None
        third: Annotated[str | None, From("note", null=True)] = None
        stalls: Annotated[int | None, From(omit=EMPTY)] = None

    assert PumpShown.as_json(Pump(1.0, 1.0, 0)) == {"first": None, "third": None}


def test_what_the_caller_gives_is_shown_in_the_place_of_its_field() -> None:
    class PumpShown(ResultModel, of=Pump):
        rank: Annotated[int, ADDED]
        stalls: int
        note: str | None = None

    shown = PumpShown.as_json(Pump(1.0, 1.0, 3, "loud"), given={"rank": 1}, without=("note",))
    assert list(shown.items()) == [("rank", 1), ("stalls", 3)]
    with pytest.raises(TypeError, match="PumpShown has no field place"):
        PumpShown.as_json(Pump(1.0, 1.0, 3), given={"place": 1})


def test_a_field_without_an_origin_is_an_error() -> None:
    with pytest.raises(TypeError, match="Pump has no attribute for the field colour"):

        class PumpShown(ResultModel, of=Pump):
            colour: str
