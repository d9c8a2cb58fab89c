"""Schemas of workloads, and their conversion to the engine's representation."""

from __future__ import annotations

from typing import Annotated, Literal, Required, TypedDict, Unpack

from pydantic import Field, model_validator

from app.api.schemas.base import INTEGER_VALUED, Component, Name, RequestModel, with_examples
from app.api.schemas.classes import TrafficClassSpec
from app.api.schemas.lengths import to_lengths
from app.api.schemas.model import LoraSpec, ModelReference, SampleSpec
from app.api.schemas.names import FailureDomainName, MethodName, OptimizerName, PrecisionName, RedundancyName
from app.api.schemas.slo import SloSpec
from app.api.schemas.traffic import Traffic
from app.sizing.assumptions import Assumptions
from app.sizing.model.adapted import with_adapters
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.units import GB, SECONDS_PER_DAY, SECONDS_PER_HOUR
from app.sizing.workload import (
    Amount,
    GlobalBatch,
    InferenceWorkload,
    Method,
    PrefixHits,
    Redundancy,
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

    def apply_adapters(self, model: ModelArchitecture, assumed: Assumptions) -> ModelArchitecture:
        """The model with the adapters that stay loaded."""
        usual = min(self.count, int(assumed.default_loaded_adapters)) if self.active is None else self.active
        return with_adapters(model, rank=self.rank, loaded=usual)


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
        """The workload with only one class of the traffic."""
        return self.model_copy(
            update={"traffic": Traffic(**traffic_class.traffic_fields()), "sample": None, "slo": traffic_class.slo}
        )

    def to_workload(self, model: ModelArchitecture, assumed: Assumptions) -> InferenceWorkload:
        """The workload in the engine's units. Raises Unanswerable if its parts contradict each other."""
        t, trace = self.traffic, self.traffic.to_trace()
        model = self.sample.apply_to(model) if self.sample is not None else model
        model = self.adapters.apply_adapters(model, assumed) if self.adapters is not None else model
        limits = None if self.slo is None else self.slo.to_limits()
        redundancy, available = self.availability.to_redundancy(), self.availability.explicit_fields
        if t.classes is not None:
            parts = [(c.name, self.for_class(c).to_workload(model, assumed)) for c in t.classes]
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


class FineTuningSpec(_RunSpec):
    """A fine-tuning run: all parameters, adapters, or adapters on a 4-bit base."""

    phase: Literal["fine_tuning"]
    method: MethodName = "lora"
    lora: LoraSpec = LoraSpec()
    examples: Annotated[float, Field(ge=1, le=1e12)] | None = None
    epochs: Annotated[float, Field(gt=0, le=1e4)] = Field(1.0, description="Number of passes over the examples.")

    def to_workload(self, model: ModelArchitecture, assumed: Assumptions) -> TrainingWorkload:
        return self.to_training_workload(
            model,
            assumed,
            Amount(self.training_tokens, self.training_samples, self.examples, self.epochs),
            phase="fine_tuning",
            method=Method(self.method),
            lora_rank=self.lora.rank,
            lora_targets=self.lora.target_modules,
        )


WorkloadSpec = Annotated[
    InferenceSpec | TrainingSpec | FineTuningSpec, Field(discriminator="phase"), Component("Workload")
]
