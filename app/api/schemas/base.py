"""Base classes of all schemas: unknown fields are rejected, numbers are finite and bounded, strings are printable."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
)
from pydantic_core.core_schema import CoreSchema, literal_schema

from app.catalog.names import NAME_TABLES, fold_name, format_slug, kv_format_slug, option_slug, quote_name
from app.sizing.compare import PRIORITY_BY_BOTTLENECK
from app.sizing.hardware.engines.record import Policy
from app.sizing.hardware.parts import SEGMENTS, Commitment, Environment, PriceKind, PricingModel, Segment, SystemKind
from app.sizing.hardware.recipes import VOCABULARIES
from app.sizing.hardware.support.records import PHASES
from app.sizing.model.counts import LORA_TARGET_NAMES
from app.sizing.model.formats import AUTO_KV, KV_FORMATS, WEIGHT_FORMATS
from app.sizing.question import LARGEST_MODEL, DraftMethod, Extra, LoadUnit, Objective
from app.sizing.result import QUANTITY_UNITS, AcquisitionOption, BillFactor, Outcome
from app.sizing.training.layouts import ACTIVATION_CHECKPOINTING
from app.sizing.training.recipes import OPTIMIZERS, PRECISIONS
from app.sizing.workload import REDUNDANCIES, FailureDomain, Method, Router

COMPONENT_KEY = "x-named"  # schema key that marks a future named component


@dataclass(frozen=True)
class Component:
    """Marks a union or enumeration that becomes a named component of the OpenAPI document."""

    name: str

    def __get_pydantic_json_schema__(self, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**handler(core_schema), COMPONENT_KEY: self.name}


@dataclass(frozen=True)
class Choice(Component):
    """Marks text that is one of some values: an enumeration that becomes a named component."""

    values: Iterable[str] = field(hash=False)

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return literal_schema([*map(str, self.values)])


@cache
def field_texts() -> dict[str, dict[str, str]]:
    """Returns the field descriptions by schema name; `any` holds those shared by all schemas."""
    return tomllib.loads(resources.files("app.api.schemas").joinpath("fields.toml").read_text(encoding="utf-8"))


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
    """A number rounded to `digits` significant digits, None if it is not finite; any other value unchanged."""
    if not isinstance(value, float):
        return value
    if value == 0 or not math.isfinite(value):
        return 0.0 if value == 0 else None
    short = float(f"{value:.6g}" if digits == 6 else f"{value:.{digits}g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short


def rounded_fields(**values: Any) -> dict[str, Any]:
    """The values that are not None, rounded: the answer omits fields that do not apply."""
    return {k: round_value(v) for k, v in values.items() if v is not None}


def _folded(fold: Callable[[str], Any]) -> BeforeValidator:
    """Accepts other spellings of a text."""
    return BeforeValidator(lambda value: fold(value) if isinstance(value, str) else value)


def _fold_by(aliases: Mapping[str, str]) -> BeforeValidator:
    """Accepts the names of tools for an option."""
    return BeforeValidator(lambda value: option_slug(str(value), aliases) if isinstance(value, str | bool) else value)


_UNSIZED = {name: each.advice for each in NAME_TABLES.unsized_methods for name in each.names.split()}


def _fold_method(value: Any) -> Any:
    """Accepts the names of tools for a training method. Raises ValueError with advice for one that is not sized."""
    if isinstance(value, str) and (advice := _UNSIZED.get(value.strip().lower())):
        raise ValueError(f"{quote_name(value)} is not sized. {advice}")
    return option_slug(value, NAME_TABLES.methods) if isinstance(value, str) else value


FOLD_FORMAT = _folded(format_slug)  # accepts common spellings: BF16, AWQ, Q4_K_M
FOLD_KV_FORMAT = _folded(kv_format_slug)  # and those of engines: fp8_e5m2, f16
FOLD_ZERO_STAGE = _folded(lambda text: NAME_TABLES.zero_stages.get(fold_name(text), text))  # the names of tools
FOLD_METHOD = BeforeValidator(_fold_method)
FOLD_OPTIMIZER = _fold_by({**NAME_TABLES.optimizers, **dict(zip(OPTIMIZERS, OPTIMIZERS, strict=True))})
FOLD_PRECISION, FOLD_RECOMPUTATION = _fold_by(NAME_TABLES.precisions), _fold_by(NAME_TABLES.recomputations)

ActivationCheckpointingName = Annotated[
    str, Choice("ActivationCheckpointing", ACTIVATION_CHECKPOINTING), FOLD_RECOMPUTATION
]
AdapterPrecisionName = Annotated[str, Choice("AdapterPrecision", VOCABULARIES["adapter_precision"])]
BasisName = Annotated[str, Choice("Basis", ("measured", "calibrated", "roofline"))]
BillFactorName = Annotated[str, Choice("BillFactor", BillFactor)]
OutcomeName = Annotated[str, Choice("Outcome", Outcome)]
BottleneckName = Annotated[str, Choice("Bottleneck", PRIORITY_BY_BOTTLENECK)]
CommitmentName = Annotated[str, Choice("Commitment", Commitment)]
DraftingName = Annotated[str, Choice("Drafting", DraftMethod)]
EnvironmentName = Annotated[str, Choice("Environment", Environment)]
ExtraName = Annotated[str, Choice("Extra", Extra)]
FailureDomainName = Annotated[str, Choice("FailureDomain", FailureDomain)]
GradientsName = Annotated[str, Choice("GradientKeeping", VOCABULARIES["gradients"])]
KernelsName = Annotated[str, Choice("Kernels", VOCABULARIES["kernels"])]
KvFormatChoice = Annotated[str, Choice("KvFormatChoice", (AUTO_KV, *KV_FORMATS)), FOLD_KV_FORMAT]
KvFormatName = Annotated[str, Choice("KvFormat", KV_FORMATS), FOLD_KV_FORMAT]
MaximizeName = Annotated[str, Choice("LoadUnit", (*LoadUnit, LARGEST_MODEL))]
LoraPreset = Annotated[str, Choice("LoraPreset", LORA_TARGET_NAMES[::-1])]
LossName = Annotated[str, Choice("LossComputation", VOCABULARIES["loss"])]
MaximizedName = Annotated[str, Choice("Maximized", QUANTITY_UNITS)]
MethodName = Annotated[str, Choice("FineTuningMethod", Method), FOLD_METHOD]
ObjectiveName = Annotated[str, Choice("Objective", Objective)]
OptimizerImplementationName = Annotated[
    str, Choice("OptimizerImplementation", VOCABULARIES["optimizer_implementation"])
]
OptimizerName = Annotated[str, Choice("Optimizer", OPTIMIZERS), FOLD_OPTIMIZER]
PackingName = Annotated[str, Choice("Packing", VOCABULARIES["packing"])]
PeakMomentName = Annotated[str, Choice("PeakMoment", ("loss", "backward", "gradients", "update"))]
PhaseName = Annotated[str, Choice("JudgedPhase", PHASES)]
PolicyName = Annotated[str, Choice("SchedulingPolicy", Policy)]
PrecisionName = Annotated[str, Choice("Precision", PRECISIONS), FOLD_PRECISION]
PriceKindName = Annotated[str, Choice("PriceKind", PriceKind)]
PricingName = Annotated[str, Choice("PricingModel", PricingModel)]
RecomputationName = Annotated[str, Choice("Recomputation", VOCABULARIES["recomputation"])]
RedundancyName = Annotated[str, Choice("Redundancy", REDUNDANCIES)]
RouterName = Annotated[str, Choice("Router", Router)]
SegmentName = Annotated[str, Choice("Segment", SEGMENTS)]
SoldForName = Annotated[str, Choice("SoldFor", Segment)]
StatisticName = Annotated[str, Choice("Statistic", ("mean", "p50", "p95", "p99"))]
SupportName = Annotated[str, Choice("Support", ("documented", "expected"))]
SystemKindName = Annotated[str, Choice("SystemKind", SystemKind)]
TrustName = Annotated[str, Choice("Trust", ("high", "medium", "low"))]
WayName = Annotated[str, Choice("Way", AcquisitionOption)]
WeightFormatName = Annotated[str, Choice("WeightFormat", WEIGHT_FORMATS), FOLD_FORMAT]
WeightsName = Annotated[str, Choice("WeightKeeping", VOCABULARIES["weights"])]
