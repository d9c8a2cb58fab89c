"""Schemas of the requests POST /recommend, POST /estimate and POST /catalog/models/inspect."""

from __future__ import annotations

import json
from datetime import date
from importlib import resources
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from app.api.schemas.base import INTEGER_VALUED, Name, PrintableText, RequestModel, with_examples
from app.api.schemas.model import ImageSize, LoraSpec, ModelReference, SampleSpec
from app.api.schemas.names import (
    ActivationCheckpointingName,
    CommitmentName,
    DraftingName,
    EnvironmentName,
    KvFormatName,
    MaximizedName,
    ObjectiveName,
    PriceKindName,
    PricingName,
    SegmentName,
    WeightFormatName,
)
from app.api.schemas.offer import Degree
from app.api.schemas.pools import PoolsSpec
from app.api.schemas.recipe import RecipeSpec
from app.api.schemas.replica import ReplicaSpec
from app.api.schemas.workload import InferenceSpec, WorkloadSpec
from app.sizing.assumptions import Assumptions, RecordingAssumptions
from app.sizing.hardware.parts import Environment, PricingModel
from app.sizing.hardware.prices import Commitment, PriceKind, current_kind
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.question import (
    DEFAULT_RANKED,
    DEFAULT_REJECTED,
    Constraints,
    Deployment,
    DraftMethod,
    Economics,
    Objective,
    Question,
    Speculative,
)

Names = Annotated[list[Name], Field(max_length=200)]
AcceptedPriceKind = Annotated[PriceKindName, BeforeValidator(current_kind)]  # deprecated spellings too


def load_example(name: str) -> dict[str, Any]:
    """A sample request body from the package."""
    value: dict[str, Any] = json.loads(resources.files("app.api").joinpath("examples", f"{name}.json").read_text())
    return value


CONFIDENCE = (
    "Probability of meeting the memory, latency, capacity and deadline limits. Uncertain plans are sized larger; 0.5 "
    "uses the median prediction. Default: the assumption confidence, 0.8."
)
Confidence = Annotated[float, Field(ge=0.5, le=0.95)]


class ConstraintsSpec(RequestModel):
    """Constraints on the hardware, software and offers to consider; everything you omit is allowed."""

    environments: Annotated[list[EnvironmentName], Field(max_length=2)] = []
    providers: Names = []
    regions: Names = Field(
        [], description="Names, patterns such as eu-*, countries or areas: DE, US, EU, asia. Default: all."
    )
    vendors: Names = []
    accelerators: Names = Field(
        [],
        description="Accelerators to consider: slugs, common names (rtx 4090), driver names (NVIDIA H100 80GB HBM3), "
        "instance types (p5.48xlarge) or patterns such as nvidia-h100-*. Default: all.",
    )
    exclude_accelerators: Names = Field([], description="Accelerators to exclude, written like accelerators.")
    segments: Annotated[list[SegmentName], Field(max_length=5)] = Field(
        [],
        description="Market segments. Macs are both workstation and consumer; cpu means CPUs without accelerators.",
    )
    pricing_models: Annotated[list[PricingName], Field(max_length=8)] = Field(
        [],
        description="Ways to pay. Default: on_demand and owned for services, on_demand for runs; plus those that "
        "commitment allows.",
    )
    commitment: CommitmentName = Field(
        "none", description="Longest commitment: 1y also allows one-year prices, 3y one-year and three-year prices."
    )
    price_kinds: Annotated[list[AcceptedPriceKind], Field(max_length=8)] = Field(
        [],
        description="The only price kinds to consider. Default: provider, reseller, quote and list, which a seller has "
        "published or quoted; also broker if you name providers; and any kind for an accelerator that you name and "
        "that has none of these. `reckoned` is the deprecated spelling of `estimate`.",
    )
    max_price_age_days: Annotated[float, Field(ge=0, le=36500)] | None = Field(
        None, description="Maximum age of prices; older prices are not used."
    )
    weight_formats: Annotated[list[WeightFormatName], Field(max_length=30)] = Field(
        [],
        description="Weight formats to consider. Default: 16 bit, 8 bit and the published format; also 4 bit for "
        "personal use.",
    )
    kv_formats: Annotated[list[KvFormatName], Field(max_length=6)] = Field(
        [], description="KV cache formats to consider. Default: 16 bit."
    )
    engines: Names = Field([], description="Serving engines and training frameworks to consider. Default: all.")
    max_usd_per_hour: Annotated[float, Field(gt=0, le=1e9)] | None = None
    max_purchase_usd: Annotated[float, Field(gt=0, le=1e12)] | None = None
    max_accelerators: Annotated[int, Field(ge=1, le=10_000_000), INTEGER_VALUED] | None = None
    max_power_kw: Annotated[float, Field(gt=0, le=1e7)] | None = None
    confidence: Confidence | None = Field(None, description=CONFIDENCE)

    def to_constraints(self, assumed: Assumptions) -> Constraints:
        return Constraints(
            environments=tuple(Environment(e) for e in self.environments),
            providers=tuple(self.providers),
            regions=tuple(self.regions),
            vendors=tuple(self.vendors),
            accelerators=tuple(self.accelerators),
            exclude_accelerators=tuple(self.exclude_accelerators),
            segments=tuple(self.segments),
            pricing_models=tuple(PricingModel(p) for p in self.pricing_models),
            commitment=Commitment(self.commitment),
            price_kinds=tuple(PriceKind(k) for k in self.price_kinds),
            max_price_age_days=self.max_price_age_days,
            weight_formats=tuple(self.weight_formats),
            kv_formats=tuple(self.kv_formats),
            engines=tuple(self.engines),
            max_usd_per_hour=self.max_usd_per_hour,
            max_purchase_usd=self.max_purchase_usd,
            max_accelerators=self.max_accelerators,
            confidence=assumed.confidence,
            max_power_w=None if self.max_power_kw is None else self.max_power_kw * 1e3,
        )


class EconomicsSpec(RequestModel):
    """Payment horizon of the hardware, energy price and discounts."""

    horizon_months: Annotated[float, Field(ge=1, le=240)] | None = Field(
        None, description="Months over which hardware is paid for. Default: the assumption horizon_months, 36."
    )
    electricity_usd_per_kwh: Annotated[float, Field(ge=0, le=10)] | None = Field(
        None, description="Electricity price. Default: the assumption electricity_usd_per_kwh, 0.12."
    )
    pue: Annotated[float, Field(ge=1, le=5)] | None = Field(
        None,
        description="Power usage effectiveness (PUE): facility power divided by IT power. Default: the assumption pue, "
        "1.3.",
    )
    discounts: Annotated[
        dict[Name, Annotated[float, Field(gt=0, lt=1)]],
        Field(max_length=50, description="Discount on bought or rented machines, as a share, by accelerator."),
    ] = {}

    def to_economics(self, assumed: Assumptions) -> Economics:
        return Economics.from_assumptions(
            assumed,
            horizon_months=self.horizon_months,
            electricity_usd_per_kwh=self.electricity_usd_per_kwh,
            pue=self.pue,
            discounts=tuple(sorted(self.discounts.items())),
        )


# Covers every price in the catalog.
AsOf = Annotated[date, Field(ge=date(2000, 1, 1), le=date(2100, 1, 1))]
LABEL = "Your own label, by which you can find the stored answer."
REFERENCE = "Your own reference number, for example of a requisition, project or ticket."
AS_OF = "Day that price ages refer to; part of the answer's identity. Default: today, UTC."


Overrides = Annotated[
    dict[Annotated[str, Field(max_length=60)], float],
    Field(max_length=50, description="Assumptions to replace, by the names in an answer; each within its range."),
]


class RecommendRequest(RequestModel):
    """A workload, and how to choose between plans."""

    model_config = with_examples(load_example("recommend-chat-70b"), load_example("recommend-training-7b"))

    workload: WorkloadSpec
    constraints: ConstraintsSpec = ConstraintsSpec()
    objective: ObjectiveName = "cost"
    economics: EconomicsSpec = EconomicsSpec()
    assumptions: Overrides = {}
    limit: Annotated[int, Field(ge=1, le=50), INTEGER_VALUED] = DEFAULT_RANKED
    rejected_limit: Annotated[int, Field(ge=0, le=200), INTEGER_VALUED] | None = Field(
        None, description="Maximum number of rejected types. Default: 20, or as many as keep the answer under 30 KB."
    )
    trace: bool = False
    as_of: AsOf | None = Field(None, description=AS_OF)
    label: PrintableText | None = Field(None, description=LABEL)
    reference: PrintableText | None = Field(None, description=REFERENCE)
    cost_centre: PrintableText | None = None

    def to_question(self, model: ModelArchitecture, assumed: Assumptions, today: date) -> Question:
        """The request in the engine's units on a given day. Raises Unanswerable if its parts contradict each other."""
        return Question(
            workload=self.workload.to_workload(model, assumed),
            constraints=self.constraints.to_constraints(assumed),
            today=(self.as_of or today).isoformat(),
            objective=Objective(self.objective),
            economics=self.economics.to_economics(assumed),
            assumptions=assumed,
            limit=self.limit,
            rejected_limit=DEFAULT_REJECTED if self.rejected_limit is None else self.rejected_limit,
            trace=self.trace,
        )


class SpeculativeSpec(RequestModel):
    """Speculative decoding, off by default. The acceptance rate depends on the text: measure yours."""

    method: DraftingName
    draft_tokens: Annotated[int, Field(ge=1, le=32, description="Tokens drafted per step."), INTEGER_VALUED]
    acceptance_rate: Annotated[
        float, Field(gt=0, lt=1, description="Probability that the model accepts a drafted token.")
    ]
    draft_parameters_billion: Annotated[float, Field(gt=0, le=1000)] | None = None

    @model_validator(mode="after")
    def _check_draft_size(self) -> SpeculativeSpec:
        if (self.method == "draft_model") != (self.draft_parameters_billion is not None):
            raise ValueError("set draft_parameters_billion if and only if method is draft_model")
        return self

    def to_speculative(self) -> Speculative:
        return Speculative(
            DraftMethod(self.method),
            self.draft_tokens,
            self.acceptance_rate,
            (self.draft_parameters_billion or 0.0) * 1e9,
        )


class DeploymentSpec(ReplicaSpec):
    """A deployment to estimate. Only the accelerator is required; the service chooses the rest and shows it in the
    answer.
    """

    accelerator: Annotated[
        Name, Field(description="Written as in constraints; an instance type also sets the machine.")
    ]
    engine: Name | None = None
    engine_version: Annotated[str, Field(max_length=60)] | None = None
    weights_on_host: Annotated[float, Field(ge=0, le=1)] | None = Field(
        None,
        description="Share of the weights in host memory, for llama.cpp, Ollama and KTransformers: routed "
        "experts first, then layers. Default: as much as needed if nothing fits otherwise; 0: none.",
    )
    speculative: SpeculativeSpec | None = None
    zero_stage: Annotated[int, Field(ge=0, le=3), INTEGER_VALUED] | None = None
    micro_batch_sequences: Degree | None = None
    activation_checkpointing: ActivationCheckpointingName | None = None
    optimizer_offload: bool | None = None
    activation_offload: bool | None = Field(None, description="Whether stored activations are kept in host memory.")
    parameter_offload: bool | None = Field(
        None,
        description="Whether sharded weights are kept in host memory; trained weights take their optimizer states "
        "along.",
    )
    framework: Name | None = None
    virtual_pipeline: Degree | None = None
    sequence_parallel: bool | None = None
    flash_attention: bool | None = None
    framework_version: Annotated[str, Field(max_length=60)] | None = None
    recipe: RecipeSpec | None = None
    pools: PoolsSpec | None = Field(
        None, description="Serving only: disaggregated prefill and decode. Set the replica fields in each pool instead."
    )

    def to_deployment(self) -> Deployment:
        fields = self.explicit_fields("speculative", "recipe", "pools")
        recipe = None if self.recipe is None else self.recipe.to_recipe()
        if recipe is not None:
            fields["activation_checkpointing"] = recipe.recomputation_layout or self.activation_checkpointing
            fields["optimizer_offload"] = recipe.offloads_optimizer or self.optimizer_offload
        return Deployment(
            speculative=None if self.speculative is None else self.speculative.to_speculative(),
            recipe=recipe,
            pools=None if self.pools is None else self.pools.to_pools(self.accelerator),
            **fields,
        )


class EstimateConstraintsSpec(RequestModel):
    """Limits that a deployment must meet where it is left open."""

    model_config = with_examples({"confidence": 0.9})

    confidence: Confidence | None = Field(None, description=CONFIDENCE)


class EstimateRequest(RequestModel):
    """A workload on one deployment."""

    model_config = with_examples(load_example("estimate-70b-8xh100"))

    workload: WorkloadSpec
    deployment: DeploymentSpec
    constraints: EstimateConstraintsSpec = EstimateConstraintsSpec()
    maximize: MaximizedName | None = Field(
        None,
        description="Training and fine-tuning only: finds and evaluates the largest value that fits this hardware.",
    )
    economics: EconomicsSpec = EconomicsSpec()
    assumptions: Overrides = {}
    trace: bool = False
    as_of: AsOf | None = Field(None, description=AS_OF)

    def to_question(self, model: ModelArchitecture, assumed: Assumptions, today: date) -> Question:
        """The request in the engine's units on a given day. Raises Unanswerable if its parts contradict each other."""
        return Question(
            workload=self.workload.to_workload(model, assumed),
            constraints=Constraints(confidence=assumed.confidence),
            today=(self.as_of or today).isoformat(),
            economics=self.economics.to_economics(assumed),
            assumptions=assumed,
            trace=self.trace,
            maximize=self.maximize,
        )

    @model_validator(mode="after")
    def _check_maximize(self) -> EstimateRequest:
        if self.maximize is not None and self.workload.phase == "inference":
            raise ValueError(
                "maximize requires phase training or fine_tuning; for serving, omit it and read "
                "max_concurrent_sequences"
            )
        return self


def requested_assumptions(request: RecommendRequest | EstimateRequest) -> RecordingAssumptions:
    """The assumptions of a request: defaults, replaced by name or by a field with the same meaning."""
    values = {**request.economics.model_dump(exclude={"discounts"}), "confidence": request.constraints.confidence}
    if isinstance(request.workload, InferenceSpec):
        values["target_utilization"] = request.workload.target_utilization
    fields = {name: value for name, value in values.items() if value is not None}
    return Assumptions().with_recording({**request.assumptions, **fields})


class InspectRequest(RequestModel):
    """A model to inspect."""

    model: ModelReference
    sample: SampleSpec | None = None
    context_tokens: (
        Annotated[list[Annotated[int, Field(ge=1, le=100_000_000), INTEGER_VALUED]], Field(min_length=1, max_length=20)]
        | None
    ) = Field(
        None,
        description="Context lengths for which cache and FLOPs are shown. Default: 1024, 8192, 32768 and 131072, up to "
        "the model's limit.",
    )
    lora: LoraSpec = LoraSpec()
    image: ImageSize | None = Field(
        None, description="Image whose tokens are counted. Default: 1024 x 1024 if the model accepts images."
    )
