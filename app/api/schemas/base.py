"""What all wire models share: unknown fields refused, finite bounded numbers, plain strings."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, GetJsonSchemaHandler
from pydantic_core import CoreSchema

NAMED = "x-named"  # marks, in a schema that is being made, what becomes a component of its own


@dataclass(frozen=True)
class Component:
    """A union or a set of words that the OpenAPI document has as a component under this name."""

    name: str

    def __get_pydantic_json_schema__(self, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**handler(core_schema), NAMED: self.name}


def shown_as(*examples: dict[str, Any]) -> ConfigDict:
    """Settings of a model with examples of it."""
    return ConfigDict(json_schema_extra={"examples": [*examples]})


class Wire(BaseModel):
    """A model of the wire: strict, frozen, no unknown fields."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Shown(BaseModel):
    """A model of an answer: documentation for readers and a check for tests."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def _plain(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be blank")
    return text


def printable(text: str) -> str:
    """Text that every document can carry."""
    if not text.isprintable() or not text.strip():
        raise ValueError("must be printable text")
    return text


Name = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_plain)]


Words = Annotated[str, Field(min_length=1, max_length=120), AfterValidator(printable)]


def _whole(value: Any) -> Any:
    return int(value) if type(value) is float and value.is_integer() else value


# A number without a fraction is an integer however it is written, as in JSON Schema: 4.0 is 4.
WHOLE = BeforeValidator(_whole)


def rounded(value: Any, digits: int = 6) -> Any:
    """Numbers to six significant digits, once, at the edge; everything else as it is."""
    if not isinstance(value, float):
        return value
    if value == 0 or not math.isfinite(value):
        return 0.0 if value == 0 else None
    short = float(f"{value:.6g}" if digits == 6 else f"{value:.{digits}g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short


def present(**values: Any) -> dict[str, Any]:
    """The values that are not None, rounded: fields of another phase are absent."""
    return {k: rounded(v) for k, v in values.items() if v is not None}
