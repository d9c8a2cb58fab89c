"""Schemas of the requests /recommend, /estimate and /inspect and their workloads, converted to the engine's values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date
from importlib import resources
from typing import Annotated, Any, Literal, Required, TypedDict, Unpack

from pydantic import AfterValidator, Field, model_validator

from app.api.schemas.base import (
    FOLD_ZERO_STAGE,
    INTEGER_VALUED,
    ActivationCheckpointingName,
    CommitmentName,
    Component,
    DraftingName,
    EnvironmentName,
    ExtraName,
    FailureDomainName,
    KvFormatChoice,
    MaximizedName,
    MaximizeName,
    MethodName,
    Name,
    ObjectiveName,
    OptimizerName,
    PrecisionName,
    PriceKindName,
    PricingName,
    PrintableText,
    RedundancyName,
    RequestModel,
    SegmentName,
    WeightFormatName,
    require_printable,
    with_examples,
)
from app.api.schemas.inventory import InventorySpec, InventoryUse
from app.api.schemas.model import ImageSize, LoraSpec, ModelReference, SampleSpec
from app.api.schemas.replica import Degree, PoolsSpec, RecipeSpec, ReplicaSpec
from app.api.schemas.traffic import SloSpec, Traffic, TrafficClassSpec, scaled_load, to_lengths
from app.errors import moved_pointers
from app.sizing.assumptions import Assumptions, RecordingAssumptions
from app.sizing.columns import GB, SECONDS_PER_DAY, SECONDS_PER_HOUR
from app.sizing.hardware.grids import electricity_price
from app.sizing.hardware.parts import Commitment, Environment, PriceKind, PricingModel
from app.sizing.model.adapted import with_adapters
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.question import (
    DEFAULT_EXTRAS,
    DEFAULT_RANKED,
    DEFAULT_REJECTED,
    LARGEST_MODEL,
    Constraints,
    Deployment,
    DraftMethod,
    Economics,
    Extra,
    Objective,
    Question,
    Speculative,
)
from app.sizing.workload import (
    Amount,
    GlobalBatch,
    InferenceWorkload,
    Method,
    PrefixHits,
    Redundancy,
    Router,
    TrainingWorkload,
    build_inference_workload,
    build_mixed_workload,
    build_recorded_workload,
    build_training_workload,
)

AtLeastOne = Annotated[float, Field(ge=1, le=1e18)]


class Availability(RequestModel):
    """Failures that the service survives: after losing this many failure domains, the rest still carries the peak
    load.
    """

    redundancy: RedundancyName | None = Field(
        None, description="Spare capacity: n+1, n+2 or twice the capacity for the peak (2n). Default: none."
    )
    zones: Annotated[int, Field(ge=1, le=8), INTEGER_VALUED] = Field(
        1,
        description="Number of zones with machines. With redundancy, any one zone may fail, whatever the failure "
        "domain.",
    )
    failure_domain: FailureDomainName | None = Field(
        None, description="Unit that n+1 and n+2 count: accelerators, machines (default) or zones."
    )

    @property
    def explicit_fields(self) -> frozenset[str]:
        """Names of the fields that the request set."""
        return frozenset(name for name in self.model_fields_set if getattr(self, name) is not None)

    def to_redundancy(self) -> Redundancy:
        """The redundancy in the engine's representation. Raises Unanswerable if no zone would remain."""
        return Redundancy.from_label(self.redundancy or "none", zones=self.zones, domain=self.failure_domain)


class AdaptersSpec(RequestModel):
    """Adapters on a shared base model; each request of a batch may use its own adapter."""

    model_config = with_examples({"count": 40, "rank": 16, "active": 12})

    count: Annotated[int, Field(ge=1, le=100_000), INTEGER_VALUED]
    rank: Annotated[int, Field(ge=1, le=1024), INTEGER_VALUED]
    active: Annotated[int, Field(ge=1, le=4096), INTEGER_VALUED] | None = Field(
        None,
        description="Adapters that stay loaded on every replica and can serve requests concurrently. Default: all, at "
        "most the assumption default_loaded_adapters, 8.",
    )

    @model_validator(mode="after")
    def _check_active(self) -> AdaptersSpec:
        if self.active is not None and self.active > self.count:
            raise ValueError("active must be at most count")
        return self

    def loaded(self, assumed: Assumptions) -> int:
        """Number of adapters that stay loaded on every replica."""
        return min(self.count, int(assumed.default_loaded_adapters)) if self.active is None else self.active


class CompanionSpec(RequestModel):
    """A small model on the same cards, with its own traffic and limits."""

    model_config = with_examples({"model": "BAAI/bge-m3", "traffic": {"peak_requests_per_s": 20, "input_tokens": 300}})

    model: ModelReference
    traffic: Traffic
    slo: SloSpec | None = None
    name: Name | None = Field(None, description="Name of the companion in the answer. Default: the model's name.")

    @model_validator(mode="after")
    def _check_traffic(self) -> CompanionSpec:
        t = self.traffic
        if any(load is not None for load in (t.trace, t.batch, t.offline, t.requests, t.classes)):
            raise ValueError("a companion's traffic must be a rate, users or concurrent_requests")
        return self

    @property
    def to_inference_spec(self) -> InferenceSpec:
        """The companion as a separate workload."""
        return InferenceSpec(phase="inference", model=self.model, traffic=self.traffic, slo=self.slo)


class InferenceSpec(RequestModel):
    """Traffic for a model, with latency limits."""

    phase: Literal["inference"]
    model: ModelReference
    traffic: Traffic
    sample: SampleSpec | None = None
    slo: SloSpec | None = None
    max_context_tokens: Annotated[int, Field(ge=1, le=100_000_000), INTEGER_VALUED] | None = None
    availability: Availability = Availability()
    target_utilization: Annotated[float, Field(ge=0.05, le=1)] | None = None
    adapters: AdaptersSpec | None = Field(None, description="LoRA adapters served on this model as their base.")
    companions: Annotated[list[CompanionSpec], Field(max_length=8)] = Field(
        [], description="Small models to pack on the same cards. The answer's `packing` has the layout and cost."
    )

    @model_validator(mode="after")
    def _check_classes(self) -> InferenceSpec:
        if self.traffic.classes is not None and self.companions:
            raise ValueError("companions require a single class of traffic; omit companions or traffic.classes")
        if self.traffic.classes is not None and self.slo is not None:
            raise ValueError("with traffic.classes, set slo in each class and omit workload.slo")
        return self

    def for_class(self, traffic_class: TrafficClassSpec) -> InferenceSpec:
        traffic = Traffic(**traffic_class.traffic_fields(), router=self.traffic.router)
        return self.model_copy(update={"traffic": traffic, "sample": None, "slo": traffic_class.slo})

    def with_load(self, times: float) -> InferenceSpec:
        """This workload with its load multiplied by `times`."""
        classes = [c.model_copy(update=scaled_load(c, times)) for c in self.traffic.classes or ()] or None
        traffic = self.traffic.model_copy(update={**scaled_load(self.traffic, times), "classes": classes})
        return self.model_copy(update={"traffic": traffic})

    def to_workload(self, model: ModelArchitecture, assumed: Assumptions) -> InferenceWorkload:
        """The workload in the engine's units. Raises Unanswerable if its parts contradict each other."""
        t, trace = self.traffic, self.traffic.to_trace()
        model = self.sample.apply_to(model) if self.sample is not None else model
        model = (
            with_adapters(model, rank=self.adapters.rank, loaded=self.adapters.loaded(assumed))
            if self.adapters is not None
            else model
        )
        limits = None if self.slo is None else self.slo.to_limits()
        redundancy, available = self.availability.to_redundancy(), self.availability.explicit_fields
        router = None if t.router is None else Router(t.router)
        if t.classes is not None:
            parts = []
            for i, each in enumerate(t.classes):
                with moved_pointers("#/workload/traffic/", f"#/workload/traffic/classes/{i}/"):
                    parts.append((each.name, self.for_class(each).to_workload(model, assumed)))
            return build_mixed_workload(parts)
        if trace is not None:
            return build_recorded_workload(
                model,
                trace,
                assumed,
                average_per_s=t.average_requests_per_s,
                turn_gap_s=t.turn_gap_s,
                limits=limits,
                max_context_tokens=self.max_context_tokens,
                redundancy=redundancy,
                availability_asked=available,
                target_utilization=self.target_utilization,
                router=router,
            )
        return build_inference_workload(
            model,
            t.to_arrivals(assumed),
            assumed,
            input_tokens=to_lengths(t.input_tokens),
            output_tokens=to_lengths(t.output_tokens),
            images=None if t.images is None else t.images.to_images(),
            average_per_s=t.average_requests_per_s,
            burstiness=t.burstiness,
            router=router,
            hits=PrefixHits(t.cached_prefix_fraction, t.shared_prefix_fraction or 0.0, t.turn_gap_s),
            limits=limits,
            max_context_tokens=self.max_context_tokens,
            redundancy=redundancy,
            availability_asked=available,
            target_utilization=self.target_utilization,
        )


class OfPhase(TypedDict, total=False):
    """Fields that only one kind of run has."""

    phase: Required[str]
    method: Method
    lora_rank: int | None
    lora_targets: str | list[str]
    lora_magnitudes: bool


class _RunSpec(RequestModel):
    """Fields shared by training and fine-tuning."""

    model: ModelReference
    sample: SampleSpec | None = None
    training_tokens: AtLeastOne | None = None
    training_samples: AtLeastOne | None = None
    sequence_length: Annotated[int, Field(ge=1, le=10_000_000), INTEGER_VALUED] | None = Field(
        None, description="Tokens per sequence. Default: the assumption default_sequence_tokens, 4096."
    )
    global_batch_tokens: Annotated[float, Field(ge=1, le=1e12)] | None = None
    global_batch_sequences: Annotated[int, Field(ge=1, le=10_000_000), INTEGER_VALUED] | None = None
    global_batch_samples: Annotated[int, Field(ge=1, le=10_000_000), INTEGER_VALUED] | None = None
    precision: PrecisionName | None = Field(
        None,
        description="Precision of matrix operations. Default: bf16. All except fp32, tf32 and bf16-true keep a 32-bit "
        "master copy of the weights; bf16-true keeps everything in 16 bit.",
    )
    optimizer: OptimizerName | None = Field(
        None, description="Optimizer, which determines the optimizer states in memory. Default: adamw."
    )
    deadline_days: Annotated[float, Field(gt=0, le=36500)] | None = None
    deadline_hours: Annotated[float, Field(gt=0, le=876000)] | None = None
    dataset_gb: Annotated[float, Field(gt=0, le=1e9)] | None = None
    checkpoint_interval_minutes: Annotated[float, Field(gt=0, le=100000)] | None = None
    checkpoint_mode: Annotated[Literal["asynchronous", "synchronous"], Component("CheckpointMode")] = Field(
        "asynchronous",
        description="asynchronous: training pauses only for the copy to host memory; synchronous: until it is written.",
    )
    experiment_overhead: Annotated[float, Field(ge=0, le=10)] = 0.0

    @model_validator(mode="after")
    def _check_deadline(self) -> _RunSpec:
        if self.deadline_days is not None and self.deadline_hours is not None:
            raise ValueError("set deadline_days or deadline_hours, not both")
        if self.training_tokens is not None and self.training_samples is not None:
            raise ValueError("set training_tokens or training_samples, not both")
        return self

    def to_training_workload(
        self, model: ModelArchitecture, assumed: Assumptions, amount: Amount, **of_phase: Unpack[OfPhase]
    ) -> TrainingWorkload:
        """The run in the engine's units. Raises Unanswerable if its parts contradict each other."""
        days, hours, interval = self.deadline_days, self.deadline_hours, self.checkpoint_interval_minutes
        deadline = None if days is None else days * SECONDS_PER_DAY
        return build_training_workload(
            self.sample.apply_to(model) if self.sample is not None else model,
            assumed,
            amount=amount,
            batch=GlobalBatch(self.global_batch_tokens, self.global_batch_sequences, self.global_batch_samples),
            precision=self.precision,
            optimizer=self.optimizer,
            sequence_tokens=self.sequence_length,
            deadline_s=deadline if hours is None else hours * SECONDS_PER_HOUR,
            experiment_overhead=self.experiment_overhead,
            dataset_bytes=None if self.dataset_gb is None else self.dataset_gb * GB,
            checkpoint_interval_s=None if interval is None else interval * 60,
            synchronous_checkpoints=self.checkpoint_mode == "synchronous",
            **of_phase,
        )


class TrainingSpec(_RunSpec):
    """A pre-training run."""

    phase: Literal["training"]

    def to_workload(self, model: ModelArchitecture, assumed: Assumptions) -> TrainingWorkload:
        return self.to_training_workload(
            model, assumed, Amount(self.training_tokens, self.training_samples), phase="training"
        )


DORA_METHODS = {"dora": "lora", "qdora": "qlora"}


class FineTuningSpec(_RunSpec):
    """A fine-tuning run: all parameters, adapters, or adapters on a 4-bit base."""

    phase: Literal["fine_tuning"]
    method: MethodName = "lora"
    lora: LoraSpec = LoraSpec()
    examples: Annotated[float, Field(ge=1, le=1e12)] | None = None
    epochs: Annotated[float, Field(gt=0, le=1e4)] = Field(1.0, description="Number of passes over the examples.")

    @model_validator(mode="before")
    @classmethod
    def _read_dora(cls, value: Any) -> Any:
        """Reads the methods dora and qdora, as tools call them, as LoRA with magnitudes."""
        method = value.get("method") if isinstance(value, dict) else None
        plain = DORA_METHODS.get(method.lower()) if isinstance(method, str) else None
        lora = value.get("lora", {}) if plain else None
        if not isinstance(lora, dict):
            return value
        return {**value, "method": plain, "lora": {"use_dora": True, **lora}}

    def to_workload(self, model: ModelArchitecture, assumed: Assumptions) -> TrainingWorkload:
        return self.to_training_workload(
            model,
            assumed,
            Amount(self.training_tokens, self.training_samples, self.examples, self.epochs),
            phase="fine_tuning",
            method=Method(self.method),
            lora_rank=self.lora.rank,
            lora_targets=self.lora.target_modules,
            lora_magnitudes=self.lora.use_dora,
        )


WorkloadSpec = Annotated[
    InferenceSpec | TrainingSpec | FineTuningSpec, Field(discriminator="phase"), Component("Workload")
]


Names = Annotated[list[Name], Field(max_length=200)]


def load_example(name: str) -> dict[str, Any]:
    """A sample request body from the package."""
    value: dict[str, Any] = json.loads(resources.files("app.api").joinpath("examples", f"{name}.json").read_text())
    return value


CONFIDENCE = (
    "Probability of meeting the memory, latency, capacity and deadline limits. Uncertain plans are sized larger; 0.5 "
    "uses the median prediction. Default: the assumption confidence, 0.8."
)
Confidence = Annotated[float, Field(ge=0.5, le=0.95)]


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


PrefixCacheTiers = Annotated[list[Literal["gpu", "host"]], Field(max_length=2)]
PREFIX_CACHE_TIERS = (
    "Where cached prefixes of idle sessions may stay between their turns. With `host`, engines that offload the KV "
    "cache also keep them in the memory of the machine."
)


class ConstraintsSpec(RequestModel):
    """Constraints on the hardware, software and offers to consider; everything you omit is allowed."""

    environments: Annotated[list[EnvironmentName], Field(max_length=2)] = []
    providers: Names = []
    regions: Names = Field([], description="Names, patterns (eu-*), countries or areas: DE, EU, asia. Default: all.")
    provider_jurisdiction: Names = Field([], description="Seats of providers: ISO codes or EU.")
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
    price_kinds: Annotated[list[PriceKindName], Field(max_length=9)] = Field(
        [],
        description="The only price kinds to consider. Default: provider, reseller, quote and list, which a seller has "
        "published or quoted, and survey; also broker if you name providers; and any kind for an accelerator that "
        "you name and that has none of these.",
    )
    max_price_age_days: Annotated[float, Field(ge=0, le=36500)] | None = Field(
        None, description="Maximum age of prices; older prices are not used."
    )
    available_within_hours: Annotated[float, Field(gt=0, le=8760)] | None = Field(
        None,
        description="Only rents that a price feed has seen with capacity within these hours. Excludes offers whose "
        "capacity no feed states, and purchases.",
    )
    weight_formats: Annotated[list[WeightFormatName], Field(max_length=30)] = Field(
        [],
        description="Weight formats to consider. Default: 16 bit, 8 bit and the published format; also 4 bit for "
        "personal use.",
    )
    kv_formats: Annotated[list[KvFormatChoice], Field(max_length=7)] = Field(
        [],
        description=(
            "KV cache formats to consider. Default: `auto`, the engine's own choice: FP8 where the checkpoint states "
            "an FP8 cache, or with FP8 and NVFP4 weights on TensorRT-LLM; 16 bit otherwise."
        ),
    )
    prefix_cache_tiers: PrefixCacheTiers = Field(["gpu"], description=PREFIX_CACHE_TIERS)
    engines: Names = Field([], description="Serving engines and training frameworks to consider. Default: all.")
    speculative: SpeculativeSpec | None = Field(
        None, description="Speculative decoding of every candidate; engines that cannot draft so are rejected."
    )
    max_usd_per_hour: Annotated[float, Field(gt=0, le=1e9)] | None = None
    max_purchase_usd: Annotated[float, Field(gt=0, le=1e12)] | None = None
    max_accelerators: Annotated[int, Field(ge=1, le=10_000_000), INTEGER_VALUED] | None = None
    max_power_kw: Annotated[float, Field(gt=0, le=1e7)] | None = None
    max_carbon_kg: Annotated[float, Field(gt=0, le=1e12)] | None = Field(
        None,
        description="Maximum greenhouse gases of the electricity in kg CO2e: of a month under load for services, of "
        "the whole run for work that ends.",
    )
    confidence: Confidence | None = Field(None, description=CONFIDENCE)
    inventory: InventoryUse = Field(
        "first",
        description="What the inventory of the request is for: only its hardware counts, its hardware if that can do "
        "the work and otherwise hardware for sale, or it is ignored.",
    )

    @property
    def limits_purchases_alone(self) -> bool:
        """Whether a purchase budget is the only limit, although rents are allowed, which it does not limit."""
        others = (self.max_usd_per_hour, self.max_accelerators, self.max_power_kw, self.max_carbon_kg)
        limited = self.max_purchase_usd is not None and all(limit is None for limit in others)
        return limited and self.environments != ["on_prem"]

    def to_constraints(self, assumed: Assumptions) -> Constraints:
        return Constraints(
            environments=tuple(Environment(e) for e in self.environments),
            providers=tuple(self.providers),
            regions=tuple(self.regions),
            jurisdictions=tuple(self.provider_jurisdiction),
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
            host_prefix_cache="host" in self.prefix_cache_tiers,
            engines=tuple(self.engines),
            speculative=None if self.speculative is None else self.speculative.to_speculative(),
            max_usd_per_hour=self.max_usd_per_hour,
            max_purchase_usd=self.max_purchase_usd,
            max_accelerators=self.max_accelerators,
            confidence=assumed.confidence,
            max_power_w=None if self.max_power_kw is None else self.max_power_kw * 1e3,
            max_carbon_kg=self.max_carbon_kg,
            inventory_only=self.inventory == "only",
        )


class EconomicsSpec(RequestModel):
    """Payment horizon of the hardware, energy price and discounts."""

    horizon_months: Annotated[float, Field(ge=1, le=240)] | None = Field(
        None, description="Months over which hardware is paid for. Default: the assumption horizon_months, 36."
    )
    electricity_usd_per_kwh: Annotated[float, Field(ge=0, le=10)] | None = Field(
        None,
        description="Electricity price. Default: the industrial price of the country, otherwise the assumption "
        "electricity_usd_per_kwh, 0.12.",
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

    country: Name | None = Field(
        None,
        description="Country in which owned machines stand: an ISO 3166 code or a name. It determines their grid, and "
        "the electricity price unless you set one.",
    )

    def to_economics(self, assumed: Assumptions, overrides: Mapping[str, float]) -> Economics:
        stated = self.electricity_usd_per_kwh is not None or "electricity_usd_per_kwh" in overrides
        return Economics.from_assumptions(
            assumed,
            horizon_months=self.horizon_months,
            electricity_usd_per_kwh=self.electricity_usd_per_kwh,
            pue=self.pue,
            discounts=tuple(sorted(self.discounts.items())),
            country=self.country,
            country_price=None if stated else electricity_price(self.country),
        )


# Covers every price in the catalog.
AsOf = Annotated[date, Field(ge=date(2000, 1, 1), le=date(2100, 1, 1))]
LABEL = "Your own label, by which you can find the stored answer."
REFERENCE = "Your own reference number, for example of a requisition, project or ticket."
AS_OF = "Day of the prices. Default: today, UTC."


Overrides = Annotated[
    dict[Annotated[str, Field(max_length=60)], float],
    Field(max_length=50, description="Assumptions to replace, by the names in an answer; each within its range."),
]


def _require_argument(text: str) -> str:
    """Text that a tool reads as a value. Raises ValueError for text that it would read as an option."""
    if text.startswith("-"):
        raise ValueError("must not start with -, because tools read it as an option; write a path as ./-name")
    return require_printable(text)


RunInput = Annotated[str, Field(min_length=1, max_length=500), AfterValidator(_require_argument)]


class HandoffSpec(RequestModel):
    """Data and checkpoints of a training run, which its deployment files then name. They do not affect the sizing."""

    model_config = with_examples({"dataset": "/data/conversations.jsonl", "output": "/data/run-1"})

    dataset: RunInput | None = Field(
        None, description="Training data: a file, a folder, or a data set of the Hugging Face hub."
    )
    base_checkpoint: RunInput | None = Field(
        None,
        description="Checkpoint to start from: a repository of the Hugging Face hub, or a folder. Default: the model.",
    )
    output: RunInput | None = Field(None, description="Folder for checkpoints and the trained model.")
    resume_from: RunInput | None = Field(
        None, description="Checkpoint to resume from. Default: the last one in the output folder."
    )


class RecommendRequest(RequestModel):
    """A workload, and how to choose between plans."""

    model_config = with_examples(load_example("recommend-chat-70b"), load_example("recommend-training-7b"))

    workload: WorkloadSpec
    constraints: ConstraintsSpec = ConstraintsSpec()
    objective: ObjectiveName = "cost"
    economics: EconomicsSpec = EconomicsSpec()
    inventory: Annotated[
        list[InventorySpec], Field(max_length=50, description="Hardware that you own; it needs no price.")
    ] = []
    assumptions: Overrides = {}
    limit: Annotated[int, Field(ge=1, le=50), INTEGER_VALUED] = DEFAULT_RANKED
    rejected_limit: Annotated[int, Field(ge=0, le=200), INTEGER_VALUED] | None = Field(
        None, description="Maximum number of rejected types. Default: 20, or as many as keep the answer under 30 KB."
    )
    trace: bool = False
    maximize: MaximizeName | None = Field(
        None,
        description="Finds the largest load, the most training tokens, or the largest model that the limits allow, and "
        "recommends hardware for it. The load of the request says in which proportions it grows. Requires a limit on "
        "cost, power or accelerators, or an inventory.",
    )
    models: Annotated[list[Name], Field(max_length=50)] = Field(
        [],
        description="With maximize model: the models to try, the best first. Default: language models of the catalog "
        "with public weights from the last two years, those with the most parameters first. If none meets the limits, "
        "the answer is about the model of the workload.",
    )
    include: Annotated[list[ExtraName], Field(max_length=len(Extra))] | None = Field(
        None,
        description="Parts of the answer; an empty list is fastest. Default: all but trace.",
    )
    as_of: AsOf | None = Field(None, description=AS_OF)
    label: PrintableText | None = Field(None, description=LABEL)
    reference: PrintableText | None = Field(None, description=REFERENCE)
    cost_centre: PrintableText | None = None
    handoff: HandoffSpec | None = Field(
        None, description="Data and checkpoints that the deployment files of a training run name; not for inference."
    )

    @model_validator(mode="after")
    def _check_handoff(self) -> RecommendRequest:
        if self.handoff is not None and self.workload.phase == "inference":
            raise ValueError(
                "handoff names data and checkpoints of a training run; omit it, or set workload.phase to training or "
                "fine_tuning"
            )
        return self

    @model_validator(mode="after")
    def _check_models(self) -> RecommendRequest:
        if self.models and self.maximize != LARGEST_MODEL:
            raise ValueError("models lists the models to try; set maximize to model, or omit it")
        return self

    @property
    def shows_trace(self) -> bool:
        """Whether the answer includes the trace, by either field."""
        return self.trace or Extra.TRACE in (self.include or ())

    def to_question(self, model: ModelArchitecture, assumed: Assumptions, today: date) -> Question:
        """The request in the engine's units on a given day. Raises Unanswerable if its parts contradict each other."""
        return Question(
            workload=self.workload.to_workload(model, assumed),
            constraints=self.constraints.to_constraints(assumed),
            today=(self.as_of or today).isoformat(),
            objective=Objective(self.objective),
            economics=self.economics.to_economics(assumed, self.assumptions),
            assumptions=assumed,
            limit=self.limit,
            rejected_limit=DEFAULT_REJECTED if self.rejected_limit is None else self.rejected_limit,
            trace=self.shows_trace,
            extras=DEFAULT_EXTRAS if self.include is None else frozenset(map(Extra, self.include)),
        )

    @property
    def is_limited(self) -> bool:
        """Whether the request limits accelerators, cost or power, or lists an inventory that counts."""
        c = self.constraints
        limits = (c.max_usd_per_hour, c.max_purchase_usd, c.max_accelerators, c.max_power_kw, c.max_carbon_kg)
        return any(limit is not None for limit in limits) or bool(self.inventory and c.inventory != "ignore")


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
    zero_stage: Annotated[int, Field(ge=0, le=3), INTEGER_VALUED, FOLD_ZERO_STAGE] | None = None
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
    prefix_cache_tiers: PrefixCacheTiers = Field(["gpu"], description=PREFIX_CACHE_TIERS)


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
            constraints=Constraints(
                confidence=assumed.confidence, host_prefix_cache="host" in self.constraints.prefix_cache_tiers
            ),
            today=(self.as_of or today).isoformat(),
            economics=self.economics.to_economics(assumed, self.assumptions),
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
    values = {
        **request.economics.model_dump(exclude={"discounts", "country"}),
        "confidence": request.constraints.confidence,
    }
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
