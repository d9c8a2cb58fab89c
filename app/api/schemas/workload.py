"""The workload of a request, and its conversion to the values of sizing."""

from __future__ import annotations

from typing import Annotated, Literal, Required, TypedDict, Unpack

from pydantic import Field, model_validator

from app.api.schemas.base import WHOLE, Component, Name, Wire, shown_as
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
    Hits,
    InferenceWorkload,
    Method,
    Redundancy,
    TrainingWorkload,
    inference_workload,
    mixed_workload,
    recorded_workload,
    training_workload,
)

AtLeastOne = Annotated[float, Field(ge=1, le=1e18)]


class Availability(Wire):
    """What the service survives: any so many failure domains lost leave what the peak needs."""

    redundancy: RedundancyName | None = Field(
        None, description="Spare replicas: n+1, n+2 or twice what the peak needs (2n). Default: none."
    )
    zones: Annotated[int, Field(ge=1, le=8), WHOLE] = Field(
        1, description="Machines stand in each; with redundancy any one zone may be lost, whatever the failure domain."
    )
    failure_domain: FailureDomainName | None = Field(
        None, description="What n+1 and n+2 count: accelerators, machines (where nothing is said) or zones."
    )

    @property
    def said(self) -> frozenset[str]:
        """The names of what was said."""
        return frozenset(name for name in self.model_fields_set if getattr(self, name) is not None)

    def to_redundancy(self) -> Redundancy:
        """The same as the core has it; raises Unanswerable where no zone would be left."""
        return Redundancy.named(self.redundancy or "none", zones=self.zones, domain=self.failure_domain)


class AdaptersSpec(Wire):
    """Adapters on a shared base: requests of one batch may each have their own."""

    model_config = shown_as({"count": 40, "rank": 16, "active": 12})

    count: Annotated[int, Field(ge=1, le=100_000), WHOLE]
    rank: Annotated[int, Field(ge=1, le=1024), WHOLE]
    active: Annotated[int, Field(ge=1, le=4096), WHOLE] | None = Field(
        None,
        description="How many stay loaded on every replica, of which requests run at once. Default: all, at most the "
        "assumption default_loaded_adapters, 8.",
    )

    @model_validator(mode="after")
    def _no_more_than_there_are(self) -> AdaptersSpec:
        if self.active is not None and self.active > self.count:
            raise ValueError("active must be at most count: no more adapters stay loaded than there are")
        return self

    def beside(self, model: ModelArchitecture, assumed: Assumptions) -> ModelArchitecture:
        """The model with those that stay loaded."""
        usual = min(self.count, int(assumed.default_loaded_adapters)) if self.active is None else self.active
        return with_adapters(model, rank=self.rank, loaded=usual)


class CompanionSpec(Wire):
    """A small model to stand on the same cards, with traffic and limits of its own."""

    model_config = shown_as({"model": "BAAI/bge-m3", "traffic": {"peak_requests_per_s": 20, "input_tokens": 300}})

    model: ModelReference
    traffic: Traffic
    slo: SloSpec | None = None
    name: Name | None = Field(None, description="What the answer calls it. Default: the model's name.")

    @model_validator(mode="after")
    def _comes_by_itself(self) -> CompanionSpec:
        t = self.traffic
        if any(load is not None for load in (t.trace, t.batch, t.offline, t.requests, t.classes)):
            raise ValueError("a companion's traffic is a rate, users or concurrent_requests: other work shares nothing")
        return self

    @property
    def alone(self) -> InferenceSpec:
        """The same as a workload of its own."""
        return InferenceSpec(phase="inference", model=self.model, traffic=self.traffic, slo=self.slo)


class InferenceSpec(Wire):
    """Traffic on a model, with what its users may be kept waiting."""

    phase: Literal["inference"]
    model: ModelReference
    traffic: Traffic
    sample: SampleSpec | None = None
    slo: SloSpec | None = None
    max_context_tokens: Annotated[int, Field(ge=1, le=100_000_000), WHOLE] | None = None
    availability: Availability = Availability()
    target_utilization: Annotated[float, Field(ge=0.05, le=1)] | None = None
    adapters: AdaptersSpec | None = Field(None, description="LoRA adapters served on the model as their base.")
    companions: Annotated[list[CompanionSpec], Field(max_length=8)] = Field(
        [], description="Small models to be packed on the same cards; the answer's `packing` says how, at which cost."
    )

    @model_validator(mode="after")
    def _limits_of_classes(self) -> InferenceSpec:
        if self.traffic.classes is not None and self.companions:
            raise ValueError("companions are packed beside one class of traffic: leave traffic.classes or them out")
        if self.traffic.classes is not None and self.slo is not None:
            raise ValueError("with traffic.classes every class has its own slo: leave workload.slo out")
        return self

    def alone(self, of: TrafficClassSpec) -> InferenceSpec:
        """One class of the traffic by itself."""
        return self.model_copy(update={"traffic": Traffic(**of.traffic()), "sample": None, "slo": of.slo})

    def to_workload(self, model: ModelArchitecture, assumed: Assumptions) -> InferenceWorkload:
        """The same in units of the core; raises Unanswerable where the parts contradict."""
        t, trace = self.traffic, self.traffic.to_trace()
        model = self.sample.applied_to(model) if self.sample is not None else model
        model = self.adapters.beside(model, assumed) if self.adapters is not None else model
        limits = None if self.slo is None else self.slo.to_limits()
        redundancy, available = self.availability.to_redundancy(), self.availability.said
        if t.classes is not None:
            parts = [(c.name, self.alone(c).to_workload(model, assumed)) for c in t.classes]
            return mixed_workload(parts)
        if trace is not None:
            return recorded_workload(
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
        return inference_workload(
            model,
            t.to_arrivals(assumed),
            assumed,
            input_tokens=to_lengths(t.input_tokens),
            output_tokens=to_lengths(t.output_tokens),
            images=None if t.images is None else t.images.to_images(),
            average_per_s=t.average_requests_per_s,
            burstiness=t.burstiness,
            hits=Hits(t.cached_prefix_fraction, t.shared_prefix_fraction or 0.0, t.turn_gap_s),
            limits=limits,
            max_context_tokens=self.max_context_tokens,
            redundancy=redundancy,
            availability_asked=available,
            target_utilization=self.target_utilization,
        )


class OfPhase(TypedDict, total=False):
    """What only one kind of run says."""

    phase: Required[str]
    method: Method
    lora_rank: int | None
    lora_targets: str | list[str]


class _RunSpec(Wire):
    """What training and fine-tuning share."""

    model: ModelReference
    sample: SampleSpec | None = None
    training_tokens: AtLeastOne | None = None
    training_samples: AtLeastOne | None = None
    sequence_length: Annotated[int, Field(ge=1, le=10_000_000), WHOLE] | None = Field(
        None, description="Default: the assumption default_sequence_tokens, 4096."
    )
    global_batch_tokens: Annotated[float, Field(ge=1, le=1e12)] | None = None
    global_batch_sequences: Annotated[int, Field(ge=1, le=10_000_000), WHOLE] | None = None
    global_batch_samples: Annotated[int, Field(ge=1, le=10_000_000), WHOLE] | None = None
    precision: PrecisionName | None = Field(
        None,
        description="Of matrices. Default: bf16. All but fp32, tf32 and bf16-true keep a 32-bit master copy; "
        "bf16-true keeps everything in 16 bit.",
    )
    optimizer: OptimizerName | None = Field(
        None, description="What updates the weights, and so which states are kept. Default: adamw."
    )
    deadline_days: Annotated[float, Field(gt=0, le=36500)] | None = None
    deadline_hours: Annotated[float, Field(gt=0, le=876000)] | None = None
    dataset_gb: Annotated[float, Field(gt=0, le=1e9)] | None = None
    checkpoint_interval_minutes: Annotated[float, Field(gt=0, le=100000)] | None = None
    checkpoint_mode: Annotated[Literal["asynchronous", "synchronous"], Component("CheckpointMode")] = Field(
        "asynchronous",
        description="Written while training goes on (it stalls for the copy to host memory), or before it goes on.",
    )
    experiment_overhead: Annotated[float, Field(ge=0, le=10)] = 0.0

    @model_validator(mode="after")
    def _one_deadline(self) -> _RunSpec:
        if self.deadline_days is not None and self.deadline_hours is not None:
            raise ValueError("give deadline_days or deadline_hours, not both")
        if self.training_tokens is not None and self.training_samples is not None:
            raise ValueError("give training_tokens or training_samples, not both")
        return self

    def run(
        self, model: ModelArchitecture, assumed: Assumptions, amount: Amount, **of_phase: Unpack[OfPhase]
    ) -> TrainingWorkload:
        """The same in units of the core; raises Unanswerable where the parts contradict."""
        days, hours, interval = self.deadline_days, self.deadline_hours, self.checkpoint_interval_minutes
        deadline = None if days is None else days * SECONDS_PER_DAY
        return training_workload(
            self.sample.applied_to(model) if self.sample is not None else model,
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
        return self.run(model, assumed, Amount(self.training_tokens, self.training_samples), phase="training")


class FineTuningSpec(_RunSpec):
    """A fine-tuning run: all parameters, adapters, or adapters on a 4-bit base."""

    phase: Literal["fine_tuning"]
    method: MethodName = "lora"
    lora: LoraSpec = LoraSpec()
    examples: Annotated[float, Field(ge=1, le=1e12)] | None = None
    epochs: Annotated[float, Field(gt=0, le=1e4)] = Field(1.0, description="Times that the examples are gone through.")

    def to_workload(self, model: ModelArchitecture, assumed: Assumptions) -> TrainingWorkload:
        return self.run(
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
