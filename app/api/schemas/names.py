"""Enumerations that requests may use; each is read from the engine's own table, for validation and OpenAPI."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator

from app.api.schemas.base import Component
from app.catalog.names import format_slug
from app.sizing.comparing.phases import PRIORITY_BY_BOTTLENECK
from app.sizing.hardware.engines.scheduling import Policy
from app.sizing.hardware.parts import SEGMENTS, Environment, PricingModel, Segment, SystemKind
from app.sizing.hardware.prices import Commitment, PriceKind
from app.sizing.hardware.recipes import VOCABULARIES
from app.sizing.hardware.support.records import PHASES
from app.sizing.model.counts import LORA_TARGET_NAMES
from app.sizing.model.formats import KV_FORMATS, WEIGHT_FORMATS
from app.sizing.question import DraftMethod, Objective
from app.sizing.training.layouts import ACTIVATION_CHECKPOINTING
from app.sizing.training.recipes import OPTIMIZERS, PRECISIONS
from app.sizing.values.runs import QUANTITY_UNITS
from app.sizing.values.ways import AcquisitionOption
from app.sizing.workload import REDUNDANCIES, FailureDomain, Method


def _fold_format(value: Any) -> Any:
    return format_slug(value) if isinstance(value, str) else value


FOLD_FORMAT = BeforeValidator(_fold_format)  # accepts common spellings: BF16, AWQ, Q4_K_M

if TYPE_CHECKING:
    ActivationCheckpointingName = str
    AdapterPrecisionName = str
    BasisName = str
    BottleneckName = str
    CommitmentName = str
    DraftingName = str
    EnvironmentName = str
    FailureDomainName = str
    GradientsName = str
    KernelsName = str
    KvFormatName = str
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
    ActivationCheckpointingName = Annotated[Literal[ACTIVATION_CHECKPOINTING], Component("ActivationCheckpointing")]
    AdapterPrecisionName = Annotated[Literal[VOCABULARIES["adapter_precision"]], Component("AdapterPrecision")]
    BasisName = Annotated[Literal["measured", "calibrated", "roofline"], Component("Basis")]
    BottleneckName = Annotated[Literal[tuple(PRIORITY_BY_BOTTLENECK)], Component("Bottleneck")]
    CommitmentName = Annotated[Literal[tuple(c.value for c in Commitment)], Component("Commitment")]
    DraftingName = Annotated[Literal[tuple(d.value for d in DraftMethod)], Component("Drafting")]
    EnvironmentName = Annotated[Literal[tuple(e.value for e in Environment)], Component("Environment")]
    FailureDomainName = Annotated[Literal[tuple(d.value for d in FailureDomain)], Component("FailureDomain")]
    GradientsName = Annotated[Literal[VOCABULARIES["gradients"]], Component("GradientKeeping")]
    KernelsName = Annotated[Literal[VOCABULARIES["kernels"]], Component("Kernels")]
    KvFormatName = Annotated[Literal[tuple(KV_FORMATS)], FOLD_FORMAT, Component("KvFormat")]
    LoraPreset = Annotated[Literal[LORA_TARGET_NAMES[::-1]], Component("LoraPreset")]
    LossName = Annotated[Literal[VOCABULARIES["loss"]], Component("LossComputation")]
    MaximizedName = Annotated[Literal[tuple(QUANTITY_UNITS)], Component("Maximized")]
    MethodName = Annotated[Literal[tuple(m.value for m in Method)], Component("FineTuningMethod")]
    ObjectiveName = Annotated[Literal[tuple(o.value for o in Objective)], Component("Objective")]
    OptimizerImplementationName = Annotated[
        Literal[VOCABULARIES["optimizer_implementation"]], Component("OptimizerImplementation")
    ]
    OptimizerName = Annotated[Literal[tuple(OPTIMIZERS)], Component("Optimizer")]
    PackingName = Annotated[Literal[VOCABULARIES["packing"]], Component("Packing")]
    PeakMomentName = Annotated[Literal["loss", "backward", "gradients", "update"], Component("PeakMoment")]
    PhaseName = Annotated[Literal[PHASES], Component("JudgedPhase")]
    PolicyName = Annotated[Literal[tuple(p.value for p in Policy)], Component("SchedulingPolicy")]
    PrecisionName = Annotated[Literal[tuple(PRECISIONS)], Component("Precision")]
    PriceKindName = Annotated[Literal[tuple(k.value for k in PriceKind)], Component("PriceKind")]
    PricingName = Annotated[Literal[tuple(p.value for p in PricingModel)], Component("PricingModel")]
    RecomputationName = Annotated[Literal[VOCABULARIES["recomputation"]], Component("Recomputation")]
    RedundancyName = Annotated[Literal[REDUNDANCIES], Component("Redundancy")]
    SegmentName = Annotated[Literal[SEGMENTS], Component("Segment")]
    SoldForName = Annotated[Literal[tuple(s.value for s in Segment)], Component("SoldFor")]
    StatisticName = Annotated[Literal["mean", "p50", "p95", "p99"], Component("Statistic")]
    SupportName = Annotated[Literal["documented", "expected"], Component("Support")]
    SystemKindName = Annotated[Literal[tuple(k.value for k in SystemKind)], Component("SystemKind")]
    TrustName = Annotated[Literal["high", "medium", "low"], Component("Trust")]
    WayName = Annotated[Literal[tuple(w.value for w in AcquisitionOption)], Component("Way")]
    WeightFormatName = Annotated[Literal[tuple(WEIGHT_FORMATS)], FOLD_FORMAT, Component("WeightFormat")]
    WeightsName = Annotated[Literal[VOCABULARIES["weights"]], Component("WeightKeeping")]
