"""Base classes of all schemas: unknown fields are rejected, numbers are finite and bounded, strings are printable."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, GetJsonSchemaHandler
from pydantic_core import CoreSchema

COMPONENT_KEY = "x-named"  # schema key that marks a future named component


@dataclass(frozen=True)
class Component:
    """Marks a union or enumeration that becomes a named component of the OpenAPI document."""

    name: str

    def __get_pydantic_json_schema__(self, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**handler(core_schema), COMPONENT_KEY: self.name}


def with_examples(*examples: dict[str, Any]) -> ConfigDict:
    """Model configuration with examples for the OpenAPI document."""
    return ConfigDict(json_schema_extra={"examples": [*examples]})


class RequestModel(BaseModel):
    """Base class of request schemas: strict, frozen, no unknown fields."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class ResponseModel(BaseModel):
    """Base class of response schemas: documents the response and lets tests validate it."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def _require_text(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be blank")
    return text


def require_printable(text: str) -> str:
    """The text, if every document format can contain it. Raises ValueError for blank or non-printable text."""
    if not text.isprintable() or not text.strip():
        raise ValueError("must be printable text")
    return text


Name = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_require_text)]


PrintableText = Annotated[str, Field(min_length=1, max_length=120), AfterValidator(require_printable)]


def _to_integer(value: Any) -> Any:
    return int(value) if type(value) is float and value.is_integer() else value


# Accepts floats without a fraction as integers, as JSON Schema does: 4.0 is 4.
INTEGER_VALUED = BeforeValidator(_to_integer)


def round_value(value: Any, digits: int = 6) -> Any:
    """A number rounded to `digits` significant digits; any other value unchanged, and None for a number that is not
    finite.
    """
    if not isinstance(value, float):
        return value
    if value == 0 or not math.isfinite(value):
        return 0.0 if value == 0 else None
    short = float(f"{value:.6g}" if digits == 6 else f"{value:.{digits}g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short


def rounded_fields(**values: Any) -> dict[str, Any]:
    """The values that are not None, rounded: the answer omits fields that do not apply."""
    return {k: round_value(v) for k, v in values.items() if v is not None}
