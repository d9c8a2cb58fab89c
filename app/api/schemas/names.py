"""Names a request may use: each list is read from the record of the core that has them, for checks and for OpenAPI."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator

from app.catalog.names import format_slug
from app.sizing.hardware.engines.scheduling import Policy
from app.sizing.hardware.parts import SEGMENTS, Environment, PricingModel
from app.sizing.hardware.prices import Commitment, PriceKind
from app.sizing.hardware.recipes import VOCABULARIES
from app.sizing.model.counts import NAMED_TARGETS
from app.sizing.model.formats import KV_FORMATS, WEIGHT_FORMATS
from app.sizing.question import Drafting, Objective
from app.sizing.training.layouts import ACTIVATION_CHECKPOINTING
from app.sizing.training.recipes import OPTIMIZERS, PRECISIONS
from app.sizing.values.runs import UNITS
from app.sizing.workload import REDUNDANCIES, FailureDomain, Method


def _folded(value: Any) -> Any:
    return format_slug(value) if isinstance(value, str) else value


FOLDED = BeforeValidator(_folded)  # formats as people write them: BF16, AWQ, Q4_K_M

if TYPE_CHECKING:
    ActivationCheckpointingName = str
    AdapterPrecisionName = str
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
    PolicyName = str
    PrecisionName = str
    PriceKindName = str
    PricingName = str
    RecomputationName = str
    RedundancyName = str
    SegmentName = str
    WeightFormatName = str
    WeightsName = str
else:
    ActivationCheckpointingName = Literal[ACTIVATION_CHECKPOINTING]
    AdapterPrecisionName = Literal[VOCABULARIES["adapter_precision"]]
    CommitmentName = Literal[tuple(c.value for c in Commitment)]
    DraftingName = Literal[tuple(d.value for d in Drafting)]
    EnvironmentName = Literal[tuple(e.value for e in Environment)]
    FailureDomainName = Literal[tuple(d.value for d in FailureDomain)]
    GradientsName = Literal[VOCABULARIES["gradients"]]
    KernelsName = Literal[VOCABULARIES["kernels"]]
    KvFormatName = Annotated[Literal[tuple(KV_FORMATS)], FOLDED]
    LoraPreset = Literal[NAMED_TARGETS[::-1]]
    LossName = Literal[VOCABULARIES["loss"]]
    MaximizedName = Literal[tuple(UNITS)]
    MethodName = Literal[tuple(m.value for m in Method)]
    ObjectiveName = Literal[tuple(o.value for o in Objective)]
    OptimizerImplementationName = Literal[VOCABULARIES["optimizer_implementation"]]
    OptimizerName = Literal[tuple(OPTIMIZERS)]
    PackingName = Literal[VOCABULARIES["packing"]]
    PolicyName = Literal[tuple(p.value for p in Policy)]
    PrecisionName = Literal[tuple(PRECISIONS)]
    PriceKindName = Literal[tuple(k.value for k in PriceKind)]
    PricingName = Literal[tuple(p.value for p in PricingModel)]
    RecomputationName = Literal[VOCABULARIES["recomputation"]]
    RedundancyName = Literal[REDUNDANCIES]
    SegmentName = Literal[SEGMENTS]
    WeightFormatName = Annotated[Literal[tuple(WEIGHT_FORMATS)], FOLDED]
    WeightsName = Literal[VOCABULARIES["weights"]]
