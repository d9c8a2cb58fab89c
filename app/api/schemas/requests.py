"""Bodies of POST /recommend and POST /estimate."""

from __future__ import annotations

import json
from datetime import date
from importlib import resources
from typing import Annotated, Any

from pydantic import Field, model_validator

from app.api.schemas.base import WHOLE, Name, Wire, Words, shown_as
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
from app.sizing.assumptions import Assumptions, Noted
from app.sizing.hardware.parts import Environment, PricingModel
from app.sizing.hardware.prices import Commitment, PriceKind
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.question import (
    DEFAULT_RANKED,
    DEFAULT_REJECTED,
    Constraints,
    Deployment,
    Drafting,
    Economics,
    Objective,
    Question,
    Speculative,
)

Names = Annotated[list[Name], Field(max_length=200)]


def example(name: str) -> dict[str, Any]:
    """A worked request body shipped with the package."""
    value: dict[str, Any] = json.loads(resources.files("app.api").joinpath("examples", f"{name}.json").read_text())
    return value


CONFIDENCE = (
    "Probability with which memory, latency limits, capacity and deadline are to hold. Plans that are known badly are "
    "sized larger for it; 0.5 takes predictions at their word. Default: the assumption of this name, 0.8."
)
Confidence = Annotated[float, Field(ge=0.5, le=0.95)]


class ConstraintsSpec(Wire):
    """What may be used; everything left out is allowed."""

    environments: Annotated[list[EnvironmentName], Field(max_length=2)] = []
    providers: Names = []
    regions: Names = Field([], description="Names, patterns such as eu-*, countries and areas: DE, US, EU, asia.")
    vendors: Names = []
    accelerators: Names = Field(
        [],
        description="As the catalogue, drivers, consoles or people write them (rtx 4090, NVIDIA H100 80GB HBM3, "
        "p5.48xlarge), or patterns such as nvidia-h100-*.",
    )
    exclude_accelerators: Names = Field([], description="Not these; written as accelerators are.")
    segments: Annotated[list[SegmentName], Field(max_length=5)] = Field(
        [],
        description="What accelerators are sold for. Macs are both workstation and consumer; cpu is processors alone.",
    )
    pricing_models: Annotated[list[PricingName], Field(max_length=8)] = Field(
        [], description="Default: on_demand and owned, of runs on_demand, with the commitments taken."
    )
    commitment: CommitmentName = Field(
        "none", description="How long you would bind yourself: with 1y one-year prices count too, with 3y both."
    )
    price_kinds: Annotated[list[PriceKindName], Field(max_length=8)] = Field(
        [],
        description="Exactly the kinds of price that count. Default: provider, reseller, quote and list, which "
        "somebody stands behind; broker too where providers are named; any of an accelerator that is named and has "
        "none of these.",
    )
    max_price_age_days: Annotated[float, Field(ge=0, le=36500)] | None = Field(
        None, description="Prices that were seen longer ago do not count."
    )
    weight_formats: Annotated[list[WeightFormatName], Field(max_length=30)] = Field(
        [], description="Default: 16 and 8 bits and the published format; 4 bits too for personal use."
    )
    kv_formats: Annotated[list[KvFormatName], Field(max_length=6)] = Field([], description="Default: 16 bits.")
    engines: Names = Field([], description="Engines of serving, frameworks of training.")
    max_usd_per_hour: Annotated[float, Field(gt=0, le=1e9)] | None = None
    max_purchase_usd: Annotated[float, Field(gt=0, le=1e12)] | None = None
    max_accelerators: Annotated[int, Field(ge=1, le=10_000_000), WHOLE] | None = None
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


class EconomicsSpec(Wire):
    """How long hardware is paid for, and at which energy price."""

    horizon_months: Annotated[float, Field(ge=1, le=240)] | None = Field(
        None, description="Default: the assumption of this name, 36."
    )
    electricity_usd_per_kwh: Annotated[float, Field(ge=0, le=10)] | None = Field(
        None, description="Default: the assumption of this name, 0.12."
    )
    pue: Annotated[float, Field(ge=1, le=5)] | None = Field(
        None, description="The facility's power over the machines'. Default: the assumption of this name, 1.3."
    )
    discounts: Annotated[
        dict[Name, Annotated[float, Field(gt=0, lt=1)]],
        Field(max_length=50, description="Share off the price of machines with an accelerator, bought or rented."),
    ] = {}

    def to_economics(self, assumed: Assumptions) -> Economics:
        return Economics.of(
            assumed,
            horizon_months=self.horizon_months,
            electricity_usd_per_kwh=self.electricity_usd_per_kwh,
            pue=self.pue,
            discounts=tuple(sorted(self.discounts.items())),
        )


# Far enough for any price of the catalogue.
AsOf = Annotated[date, Field(ge=date(2000, 1, 1), le=date(2100, 1, 1))]
LABEL = "Your own words, which the stored answer is found by."
REFERENCE = "Your own number of it: of a requisition, a project, a ticket."
AS_OF = "Day to which the ages of prices are counted, part of the answer's identity. Default: today, UTC."


Overrides = Annotated[
    dict[Annotated[str, Field(max_length=60)], float],
    Field(max_length=50, description="Assumptions to replace, by the names an answer echoes; each within its range."),
]


class RecommendRequest(Wire):
    """A workload and what decides between plans."""

    model_config = shown_as(example("recommend-chat-70b"), example("recommend-training-7b"))

    workload: WorkloadSpec
    constraints: ConstraintsSpec = ConstraintsSpec()
    objective: ObjectiveName = "cost"
    economics: EconomicsSpec = EconomicsSpec()
    assumptions: Overrides = {}
    limit: Annotated[int, Field(ge=1, le=50), WHOLE] = DEFAULT_RANKED
    rejected_limit: Annotated[int, Field(ge=0, le=200), WHOLE] | None = Field(
        None, description="Default: 20, or as many of the nearest misses as keep the answer under 30 KB."
    )
    trace: bool = False
    as_of: AsOf | None = Field(None, description=AS_OF)
    label: Words | None = Field(None, description=LABEL)
    reference: Words | None = Field(None, description=REFERENCE)
    cost_centre: Words | None = None

    def to_question(self, model: ModelArchitecture, assumed: Assumptions, today: date) -> Question:
        """The same in units of the core, on a day; raises Unanswerable where the parts contradict."""
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


class SpeculativeSpec(Wire):
    """Speculative decoding; off unless it is asked for. The acceptance rate depends on the text: measure yours."""

    method: DraftingName
    draft_tokens: Annotated[int, Field(ge=1, le=32, description="Tokens drafted per step."), WHOLE]
    acceptance_rate: Annotated[
        float, Field(gt=0, lt=1, description="Share of drafted tokens that the model accepts, each.")
    ]
    draft_parameters_billion: Annotated[float, Field(gt=0, le=1000)] | None = None

    @model_validator(mode="after")
    def _draft_model_has_a_size(self) -> SpeculativeSpec:
        if (self.method == "draft_model") != (self.draft_parameters_billion is not None):
            raise ValueError("draft_parameters_billion goes with method draft_model, and only with it")
        return self

    def to_speculative(self) -> Speculative:
        return Speculative(
            Drafting(self.method), self.draft_tokens, self.acceptance_rate, (self.draft_parameters_billion or 0.0) * 1e9
        )


class DeploymentSpec(ReplicaSpec):
    """A deployment to judge; only the accelerator is required, the rest is chosen well and echoed."""

    accelerator: Annotated[Name, Field(description="As in constraints; a machine that carries it names both.")]
    engine: Name | None = None
    engine_version: Annotated[str, Field(max_length=60)] | None = None
    weights_on_host: Annotated[float, Field(ge=0, le=1)] | None = Field(
        None,
        description="Share of the weights in the host's memory, for llama.cpp, Ollama and KTransformers: routed "
        "experts first, then layers. Default: as much as it takes where nothing fits without; 0: none.",
    )
    speculative: SpeculativeSpec | None = None
    zero_stage: Annotated[int, Field(ge=0, le=3), WHOLE] | None = None
    micro_batch_sequences: Degree | None = None
    activation_checkpointing: ActivationCheckpointingName | None = None
    optimizer_offload: bool | None = None
    activation_offload: bool | None = Field(None, description="Kept activations in the host's memory.")
    parameter_offload: bool | None = Field(
        None, description="Sharded weights in the host's memory; trained ones take their states along."
    )
    framework: Name | None = None
    virtual_pipeline: Degree | None = None
    sequence_parallel: bool | None = None
    flash_attention: bool | None = None
    framework_version: Annotated[str, Field(max_length=60)] | None = None
    recipe: RecipeSpec | None = None
    pools: PoolsSpec | None = Field(
        None, description="Of serving: prompts are read in one pool, answers written in another; said in its place."
    )

    def to_deployment(self) -> Deployment:
        said = self.said("speculative", "recipe", "pools")
        recipe = None if self.recipe is None else self.recipe.to_recipe()
        if recipe is not None:
            said["activation_checkpointing"] = recipe.layout or self.activation_checkpointing
            said["optimizer_offload"] = recipe.offloads or self.optimizer_offload
        return Deployment(
            speculative=None if self.speculative is None else self.speculative.to_speculative(),
            recipe=recipe,
            pools=None if self.pools is None else self.pools.to_pools(self.accelerator),
            **said,
        )


class EstimateConstraintsSpec(Wire):
    """What a deployment must hold to where something of it is left open."""

    model_config = shown_as({"confidence": 0.9})

    confidence: Confidence | None = Field(None, description=CONFIDENCE)


class EstimateRequest(Wire):
    """A workload on one deployment."""

    model_config = shown_as(example("estimate-70b-8xh100"))

    workload: WorkloadSpec
    deployment: DeploymentSpec
    constraints: EstimateConstraintsSpec = EstimateConstraintsSpec()
    maximize: MaximizedName | None = Field(
        None, description="Of training and fine-tuning: the largest that fits this hardware is found and judged."
    )
    economics: EconomicsSpec = EconomicsSpec()
    assumptions: Overrides = {}
    trace: bool = False
    as_of: AsOf | None = Field(None, description=AS_OF)

    def to_question(self, model: ModelArchitecture, assumed: Assumptions, today: date) -> Question:
        """The same in units of the core, on a day; raises Unanswerable where the parts contradict."""
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
    def _runs_are_maximized(self) -> EstimateRequest:
        if self.maximize is not None and self.workload.phase == "inference":
            raise ValueError(
                "maximize goes with phase training or fine_tuning; for serving, leave it out and read "
                "max_concurrent_sequences"
            )
        return self


def assumed_in(request: RecommendRequest | EstimateRequest) -> Noted:
    """The assumptions with what a request replaces of them, by name or by a field of the same meaning."""
    said = {**request.economics.model_dump(exclude={"discounts"}), "confidence": request.constraints.confidence}
    if isinstance(request.workload, InferenceSpec):
        said["target_utilization"] = request.workload.target_utilization
    fields = {name: value for name, value in said.items() if value is not None}
    return Assumptions().noted({**request.assumptions, **fields})


class InspectRequest(Wire):
    """A model to count."""

    model: ModelReference
    sample: SampleSpec | None = None
    context_tokens: (
        Annotated[list[Annotated[int, Field(ge=1, le=100_000_000), WHOLE]], Field(min_length=1, max_length=20)] | None
    ) = Field(
        None,
        description="Contexts at which cache and FLOPs are shown; default 1024, 8192, 32768 and 131072 as far as the "
        "model goes.",
    )
    lora: LoraSpec = LoraSpec()
    image: ImageSize | None = Field(
        None, description="An image whose tokens are counted; default 1024 x 1024 where a model takes images."
    )
