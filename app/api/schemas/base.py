"""Base classes of all schemas: unknown fields are rejected, numbers are finite and bounded, strings are printable."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, GetJsonSchemaHandler
from pydantic_core import CoreSchema

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


def _fold_format(value: Any) -> Any:
    return format_slug(value) if isinstance(value, str) else value


def _fold_kv_format(value: Any) -> Any:
    return kv_format_slug(value) if isinstance(value, str) else value


def _fold_by(aliases: Mapping[str, str]) -> BeforeValidator:
    """Accepts the names of tools for an option."""
    return BeforeValidator(lambda value: option_slug(str(value), aliases) if isinstance(value, str | bool) else value)


_UNSIZED = {name: each.advice for each in NAME_TABLES.unsized_methods for name in each.names.split()}


def _fold_method(value: Any) -> Any:
    """Accepts the names of tools for a training method. Raises ValueError with advice for one that is not sized."""
    if isinstance(value, str) and (advice := _UNSIZED.get(value.strip().lower())):
        raise ValueError(f"{quote_name(value)} is not sized. {advice}")
    return option_slug(value, NAME_TABLES.methods) if isinstance(value, str) else value


def _fold_stage(value: Any) -> Any:
    """Accepts the names of tools for a stage of sharding."""
    return NAME_TABLES.zero_stages.get(fold_name(value), value) if isinstance(value, str) else value


FOLD_FORMAT = BeforeValidator(_fold_format)  # accepts common spellings: BF16, AWQ, Q4_K_M
FOLD_KV_FORMAT = BeforeValidator(_fold_kv_format)  # and those of engines: fp8_e5m2, f16
FOLD_ZERO_STAGE = BeforeValidator(_fold_stage)
FOLD_METHOD = BeforeValidator(_fold_method)
FOLD_OPTIMIZER = _fold_by({**NAME_TABLES.optimizers, **dict(zip(OPTIMIZERS, OPTIMIZERS, strict=True))})
FOLD_PRECISION, FOLD_RECOMPUTATION = _fold_by(NAME_TABLES.precisions), _fold_by(NAME_TABLES.recomputations)

if TYPE_CHECKING:
    ActivationCheckpointingName = str
    AdapterPrecisionName = str
    BasisName = str
    BillFactorName = str
    OutcomeName = str
    BottleneckName = str
    CommitmentName = str
    DraftingName = str
    EnvironmentName = str
    ExtraName = str
    FailureDomainName = str
    GradientsName = str
    KernelsName = str
    KvFormatChoice = str
    KvFormatName = str
    MaximizeName = str
    LoraPreset = str
    LossName = str
    MaximizedName = str
    MethodName = str
    ObjectiveName = str
    OptimizerImplementationName = str
    OptimizerName = str
    PackingName = str
    PeakMomentName = str
    PhaseName = str
    PolicyName = str
    PrecisionName = str
    PriceKindName = str
    PricingName = str
    RecomputationName = str
    RedundancyName = str
    RouterName = str
    SegmentName = str
    SoldForName = str
    StatisticName = str
    SupportName = str
    SystemKindName = str
    TrustName = str
    WayName = str
    WeightFormatName = str
    WeightsName = str
else:
    ActivationCheckpointingName = Annotated[
        Literal[ACTIVATION_CHECKPOINTING], FOLD_RECOMPUTATION, Component("ActivationCheckpointing")
    ]
    AdapterPrecisionName = Annotated[Literal[VOCABULARIES["adapter_precision"]], Component("AdapterPrecision")]
    BasisName = Annotated[Literal["measured", "calibrated", "roofline"], Component("Basis")]
    BillFactorName = Annotated[Literal[tuple(f.value for f in BillFactor)], Component("BillFactor")]
    OutcomeName = Annotated[Literal[tuple(each.value for each in Outcome)], Component("Outcome")]
    BottleneckName = Annotated[Literal[tuple(PRIORITY_BY_BOTTLENECK)], Component("Bottleneck")]
    CommitmentName = Annotated[Literal[tuple(c.value for c in Commitment)], Component("Commitment")]
    DraftingName = Annotated[Literal[tuple(d.value for d in DraftMethod)], Component("Drafting")]
    EnvironmentName = Annotated[Literal[tuple(e.value for e in Environment)], Component("Environment")]
    ExtraName = Annotated[Literal[tuple(e.value for e in Extra)], Component("Extra")]
    FailureDomainName = Annotated[Literal[tuple(d.value for d in FailureDomain)], Component("FailureDomain")]
    GradientsName = Annotated[Literal[VOCABULARIES["gradients"]], Component("GradientKeeping")]
    KernelsName = Annotated[Literal[VOCABULARIES["kernels"]], Component("Kernels")]
    KvFormatChoice = Annotated[Literal[(AUTO_KV, *KV_FORMATS)], FOLD_KV_FORMAT, Component("KvFormatChoice")]
    KvFormatName = Annotated[Literal[tuple(KV_FORMATS)], FOLD_KV_FORMAT, Component("KvFormat")]
    MaximizeName = Annotated[Literal[(*(u.value for u in LoadUnit), LARGEST_MODEL)], Component("LoadUnit")]
    LoraPreset = Annotated[Literal[LORA_TARGET_NAMES[::-1]], Component("LoraPreset")]
    LossName = Annotated[Literal[VOCABULARIES["loss"]], Component("LossComputation")]
    MaximizedName = Annotated[Literal[tuple(QUANTITY_UNITS)], Component("Maximized")]
    MethodName = Annotated[Literal[tuple(m.value for m in Method)], FOLD_METHOD, Component("FineTuningMethod")]
    ObjectiveName = Annotated[Literal[tuple(o.value for o in Objective)], Component("Objective")]
    OptimizerImplementationName = Annotated[
        Literal[VOCABULARIES["optimizer_implementation"]], Component("OptimizerImplementation")
    ]
    OptimizerName = Annotated[Literal[tuple(OPTIMIZERS)], FOLD_OPTIMIZER, Component("Optimizer")]
    PackingName = Annotated[Literal[VOCABULARIES["packing"]], Component("Packing")]
    PeakMomentName = Annotated[Literal["loss", "backward", "gradients", "update"], Component("PeakMoment")]
    PhaseName = Annotated[Literal[PHASES], Component("JudgedPhase")]
    PolicyName = Annotated[Literal[tuple(p.value for p in Policy)], Component("SchedulingPolicy")]
    PrecisionName = Annotated[Literal[tuple(PRECISIONS)], FOLD_PRECISION, Component("Precision")]
    PriceKindName = Annotated[Literal[tuple(k.value for k in PriceKind)], Component("PriceKind")]
    PricingName = Annotated[Literal[tuple(p.value for p in PricingModel)], Component("PricingModel")]
    RecomputationName = Annotated[Literal[VOCABULARIES["recomputation"]], Component("Recomputation")]
    RedundancyName = Annotated[Literal[REDUNDANCIES], Component("Redundancy")]
    RouterName = Annotated[Literal[tuple(r.value for r in Router)], Component("Router")]
    SegmentName = Annotated[Literal[SEGMENTS], Component("Segment")]
    SoldForName = Annotated[Literal[tuple(s.value for s in Segment)], Component("SoldFor")]
    StatisticName = Annotated[Literal["mean", "p50", "p95", "p99"], Component("Statistic")]
    SupportName = Annotated[Literal["documented", "expected"], Component("Support")]
    SystemKindName = Annotated[Literal[tuple(k.value for k in SystemKind)], Component("SystemKind")]
    TrustName = Annotated[Literal["high", "medium", "low"], Component("Trust")]
    WayName = Annotated[Literal[tuple(w.value for w in AcquisitionOption)], Component("Way")]
    WeightFormatName = Annotated[Literal[tuple(WEIGHT_FORMATS)], FOLD_FORMAT, Component("WeightFormat")]
    WeightsName = Annotated[Literal[VOCABULARIES["weights"]], Component("WeightKeeping")]
