"""Every field of an answer comes from exactly one attribute of a result."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import pytest

import app.main  # noqa: F401  # defines every schema
from app.api.schemas.answers import DeploymentShown
from app.api.schemas.base import ResponseModel
from app.api.schemas.origins import ADDED, EMPTY, WHOLE, From, ResultModel, attribute_of, origin_of
from app.api.schemas.replica import OfferSpec
from app.api.schemas.requests import DeploymentSpec
from app.api.schemas.results import LoadCurveShown, PercentilesShown, SimulationShown
from app.sizing.question import Deployment
from app.sizing.result import LoadCurve, LoadPoint, Percentiles, Simulation


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


def test_a_deployment_has_the_same_fields_on_the_wire_and_in_the_core() -> None:
    asked = (DeploymentSpec.model_fields.keys() - {"offer"}) | OfferSpec.model_fields.keys()
    assert asked == {f.name for f in fields(Deployment)}
    assert DeploymentShown.model_fields.keys() == DeploymentSpec.model_fields.keys()


WAITS = Percentiles(0.012, 0.0101, 0.03, None)
POINT = LoadPoint(12.34567, None, 0.2, 0.64, 0.024, 0.0317, 3174.4, 0.9981234)


def test_percentiles_are_milliseconds_and_null_where_the_queue_never_empties() -> None:
    assert PercentilesShown.as_json(WAITS) == {"mean": 12, "p50": 10.1, "p95": 30, "p99": None}
    PercentilesShown.model_validate(PercentilesShown.as_json(WAITS))


def test_a_simulation_is_sent_as_its_schema_says() -> None:
    shown = SimulationShown.as_json(
        Simulation(10_000, 1, "poisson", "mixed", WAITS, WAITS, 31.8, 0.42, 0.0, 12.3, 0.99)
    )
    SimulationShown.model_validate(shown)
    assert (shown["requests"], shown["queue_ms"]["p50"], shown["goodput_requests_per_s"]) == (10_000, 10.1, 12.3)


def test_a_curve_takes_four_digits_and_names_the_load_it_is_of() -> None:
    shown = LoadCurveShown.as_json(LoadCurve((POINT, replace(POINT, in_flight=64.0)), 14.2))
    LoadCurveShown.model_validate_json(json.dumps(shown))
    rate, closed = shown["points"]
    assert (rate["requests_per_s"], rate["ttft_ms"], rate["goodput_share"]) == (12.35, {"p50": 200, "p95": 640}, 0.9981)
    assert "in_flight" not in rate
    assert closed["in_flight"] == 64
