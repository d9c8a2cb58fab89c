"""Origins of the fields of an answer: the attribute of a result that each field shows, and the conversion to JSON.

A schema names its result (`of=Percentiles`); each field names the attribute it shows, its unit and its rounding. The
conversion is derived once, when the schema is defined. Without a name, the field shows the attribute of the same name,
or that of the same quantity in base units: `power_kw` shows `power_w`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import Enum
from operator import attrgetter
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from app.api.schemas.base import Choice, ResponseModel, round_value
from app.sizing.columns import GB, GIB, MB

Convert = Callable[[Any], Any]

# Ending of a field, ending of the attribute in base units, and the factor or the divisor between them.
UNITS: tuple[tuple[str, str, float | None, float | None], ...] = (
    ("_gb_per_s", "_bytes_per_s", None, GB),
    ("_mb_per_s", "_bytes_per_s", None, MB),
    ("_ms", "_s", 1e3, None),
    ("_minutes", "_s", None, 60.0),
    ("_gib", "_bytes", None, GIB),
    ("_gb", "_bytes", None, GB),
    ("_tb", "_bytes", None, 1e12),
    ("_kw", "_w", None, 1e3),
)
WHOLE = "."  # name of the result itself
EMPTY: tuple[Any, ...] = ("", 0, [], {})


@dataclass(frozen=True, slots=True)
class From:
    """Where a field comes from and how it is shown.

    Parameters:
        name: attribute of the result, or a path (`terms.kind`); WHOLE for the result itself.
        times, per: factor and divisor from base units to the unit of the field.
        digits: significant digits, 6 unless `decimals` is set.
        decimals: digits after the decimal point.
        exact: whether the value is shown unrounded.
        convert: function from the attribute to the JSON value, in place of units and rounding.
        when: whether a result has this field.
        null: whether null stands for a missing value, as in a required field; otherwise the field is omitted.
        omit: JSON values that are omitted.
    """

    name: str = ""
    times: float | None = None
    per: float | None = None
    digits: int | None = None
    decimals: int | None = None
    exact: bool = False
    convert: Convert | None = None
    when: Callable[[Any], bool] | None = None
    null: bool = False
    omit: tuple[Any, ...] = ()

    def rounding(self) -> Convert | None:
        digits, decimals = self.digits, self.decimals
        if self.exact:
            return None
        if decimals is None:
            return round_value if digits is None else lambda value: round_value(value, digits)
        if digits is None:
            return lambda value: round(value, decimals)
        return lambda value: round_value(round(value, decimals), digits)

    def number(self) -> Convert | None:
        """The function that converts a number to the unit of the field and rounds it."""
        rounded, times, per = self.rounding() or _unchanged, self.times, self.per
        if times is not None:
            return lambda value: rounded(value * times)
        if per is not None:
            return lambda value: rounded(value / per)
        return None if rounded is _unchanged else rounded


ADDED = From("+")  # a field that the caller gives, because the result does not have it


class Origin(NamedTuple):
    """The compiled origin of a field."""

    key: str  # name in the JSON object
    get: Convert
    convert: Convert | None
    when: Callable[[Any], bool] | None
    nullable: bool  # whether null stands for a missing value
    omitted: tuple[Any, ...]  # values that are omitted


class ResultModel(ResponseModel):
    """Base class of schemas of results: `as_json` converts a result of the type `of`."""

    result_type: ClassVar[type]
    field_keys: ClassVar[tuple[str, ...]]
    origins: ClassVar[tuple[Origin, ...]]

    def __init_subclass__(cls, *, of: type | None = None, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        if of is not None:
            cls.result_type = of

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        fields = cls.model_fields
        cls.field_keys = tuple(field.alias or name for name, field in fields.items())
        cls.origins = tuple(
            _compile(name, field, cls.result_type) for name, field in fields.items() if origin_of(field) is not ADDED
        )

    @classmethod
    def as_json(
        cls, result: Any, *, given: Mapping[str, Any] | None = None, without: Collection[str] = ()
    ) -> dict[str, Any]:
        """A result as JSON; fields that do not apply to it are omitted.

        Parameters:
            given: values of fields that the result does not have, or that are shown differently here.
            without: fields to omit.

        Raises TypeError if the schema has no field of a given name.
        """
        origins = cls.origins
        if given or without:
            skipped = {*(given or ()), *without}
            origins = tuple(origin for origin in origins if origin.key not in skipped)
        values: dict[str, Any] = {}
        for key, get, convert, when, nullable, omitted in origins:
            if when is not None and not when(result):
                continue
            value = get(result)
            if value is None:
                if nullable:
                    values[key] = None
                continue
            if convert is not None:
                value = convert(value)
            if not omitted or value not in omitted:
                values[key] = value
        if given:
            if unknown := given.keys() - cls.field_keys:
                raise TypeError(f"{cls.__name__} has no field {', '.join(sorted(unknown))}.")
            values |= given
            return {key: values[key] for key in cls.field_keys if key in values}
        return values


def origin_of(field: FieldInfo) -> From:
    """The declared origin of a field; without one, the attribute of the same name."""
    return next((each for each in field.metadata if isinstance(each, From)), From())


def has_attribute(result: type, name: str) -> bool:
    declared = {each.name for each in fields(result)} if is_dataclass(result) else set()
    return name in declared or hasattr(result, name)


def attribute_of(name: str, at: From, result: type) -> From:
    """The origin of a field with the attribute that it shows, and the conversion between their units."""
    if at.name or has_attribute(result, name):
        return replace(at, name=at.name or name)
    for ending, base, times, per in UNITS:
        attribute = name.removesuffix(ending) + base
        if name.endswith(ending) and has_attribute(result, attribute):
            return replace(at, name=attribute, times=times, per=per)
    raise TypeError(f"{result.__name__} has no attribute for the field {name}.")


def _compile(name: str, field: FieldInfo, result: type) -> Origin:
    at = attribute_of(name, origin_of(field), result)
    return Origin(
        key=field.alias or name,
        get=_unchanged if at.name == WHOLE else attrgetter(at.name),
        convert=at.convert or _converter(field.annotation, at, field.metadata),
        when=at.when,
        nullable=field.is_required() or at.null,
        omitted=at.omit,
    )


def _converter(annotation: Any, at: From, metadata: Collection[Any] = ()) -> Convert | None:
    """The function that converts an attribute to a value of a field's type; None where it is shown unchanged."""
    parts = [part for part in get_args(annotation) if part is not type(None)]
    if get_origin(annotation) is Annotated:
        return _converter(parts[0], at, parts[1:])
    if get_origin(annotation) is list:
        return _each(_converter(parts[0], at))
    if get_origin(annotation) is Literal or any(isinstance(each, Choice) for each in metadata):
        return _enum_value
    if get_origin(annotation) is dict:
        return _each_value(_converter(parts[1], at))
    if parts:  # a union: a number may be text, everything else is one type or null
        return at.number() if float in parts else _converter(parts[0], at)
    if isinstance(annotation, type) and issubclass(annotation, ResultModel):
        return annotation.as_json
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return _each_value(at.number())
    return at.number() if annotation is float else None


def _unchanged(value: Any) -> Any:
    return value


def _enum_value(value: Any) -> Any:
    return value.value if isinstance(value, Enum) else value


def _each(convert: Convert | None) -> Convert:
    return list if convert is None else lambda values: [convert(value) for value in values]


def _each_value(convert: Convert | None) -> Convert:
    def convert_values(values: Mapping[str, Any]) -> dict[str, Any]:
        return dict(values) if convert is None else {name: convert(value) for name, value in values.items()}

    return convert_values
