"""Schemas of prompt and output lengths, in the four forms that a request may use."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from app.api.schemas.base import INTEGER_VALUED, Component, RequestModel, with_examples
from app.sizing.workload import Lengths

MAX_VALUES = 1000
LENGTH_FORMS = (("mean", "p95"), ("min", "max"), ("values", "weights"))

Tokens = Annotated[float, Field(ge=0, le=1e8)]
PromptTokens = Annotated[float, Field(ge=1, le=1e8)]
WholeTokens = Annotated[int, Field(ge=1, le=100_000_000), INTEGER_VALUED]


class LengthDistribution(RequestModel):
    """Mean and 95th percentile of a token count, fitted with a log-normal distribution. Equal values mean a fixed
    length.
    """

    mean: Tokens
    p95: Tokens | None = Field(
        None, description="95th percentile. Default: the assumption length_p95_to_mean, 2, times the mean."
    )

    @model_validator(mode="after")
    def _check_order(self) -> LengthDistribution:
        if self.p95 is not None and self.p95 < self.mean:
            raise ValueError("p95 must be at least the mean")
        return self

    def to_lengths(self) -> Lengths | float:
        return self.mean if self.p95 is None else Lengths(self.mean, self.p95)


class PromptLengths(LengthDistribution):
    """Like any length, but at least one token: an empty prompt cannot be served."""

    mean: PromptTokens


class LengthRange(RequestModel):
    """A uniform distribution over the integers from min to max. Equal values mean a fixed length."""

    model_config = with_examples({"min": 820, "max": 1024})

    min: WholeTokens
    max: WholeTokens

    @model_validator(mode="after")
    def _check_order(self) -> LengthRange:
        if self.max < self.min:
            raise ValueError("max must be at least min")
        return self

    def to_lengths(self) -> Lengths:
        return Lengths.uniform(self.min, self.max)


class LengthHistogram(RequestModel):
    """Token counts and their frequencies."""

    model_config = with_examples({"values": [200, 800, 6000], "weights": [60, 30, 10]})

    values: Annotated[list[WholeTokens], Field(min_length=1, max_length=MAX_VALUES)]
    weights: Annotated[
        list[Annotated[float, Field(ge=0, le=1e15)]],
        Field(min_length=1, max_length=MAX_VALUES, description="Relative frequency of each value; any sum above 0."),
    ]

    @model_validator(mode="after")
    def _check_weights(self) -> LengthHistogram:
        if len(self.values) != len(self.weights):
            raise ValueError(f"{len(self.values)} values but {len(self.weights)} weights: set one weight per value")
        if sum(self.weights) <= 0:
            raise ValueError("at least one weight must be above 0")
        return self

    def to_lengths(self) -> Lengths:
        return Lengths.from_histogram(self.values, self.weights)


def _check_single_form(value: Any) -> Any:
    """Rejects an object that mixes several forms."""
    forms = [way for way in LENGTH_FORMS if isinstance(value, dict) and any(name in value for name in way)]
    if len(forms) > 1:
        raise ValueError("use one form of length: mean and p95, min and max, or values and weights")
    return value


def _length_kind(value: Any) -> str:
    if isinstance(value, LengthRange | LengthHistogram | LengthDistribution):
        return {LengthRange: "range", LengthHistogram: "histogram"}.get(type(value), "distribution")
    if not isinstance(value, dict):
        return "number"
    return next(
        (tag for tag, way in zip(("range", "histogram"), LENGTH_FORMS[1:], strict=True) if {*way} & {*value}),
        "distribution",
    )


Shaped = Annotated[LengthRange, Tag("range")] | Annotated[LengthHistogram, Tag("histogram")]
PromptSpec = Annotated[
    Annotated[PromptTokens, Tag("number")] | Annotated[PromptLengths, Tag("distribution")] | Shaped,
    Discriminator(_length_kind),
    BeforeValidator(_check_single_form),
    Component("PromptLength"),
]
LengthSpec = Annotated[
    Annotated[Tokens, Tag("number")] | Annotated[LengthDistribution, Tag("distribution")] | Shaped,
    Discriminator(_length_kind),
    BeforeValidator(_check_single_form),
    Component("AnswerLength"),
]


def to_lengths(spec: float | LengthDistribution | LengthRange | LengthHistogram | None) -> Lengths | float | None:
    """The length in the engine's representation; a number is a mean."""
    return spec.to_lengths() if isinstance(spec, RequestModel) else spec
