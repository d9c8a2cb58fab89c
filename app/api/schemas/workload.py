"""The workload of a request, and its conversion to the values of sizing."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Required, TypedDict, Unpack

from pydantic import Discriminator, Field, Tag, model_validator

from app.api.schemas.base import WHOLE, Wire
from app.api.schemas.model import Images, LoraSpec, ModelReference, SampleSpec
from app.api.schemas.names import FailureDomainName, MethodName, OptimizerName, PrecisionName, RedundancyName
from app.sizing.assumptions import Assumptions
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.units import GB, SECONDS_PER_DAY, SECONDS_PER_HOUR
from app.sizing.workload import (
    Amount,
    Arrivals,
    GlobalBatch,
    Hits,
    InferenceWorkload,
    Lengths,
    Limits,
    Load,
    Method,
    Redundancy,
    TrainingWorkload,
    arrivals_of_users,
    inference_workload,
    training_workload,
)

Tokens = Annotated[float, Field(ge=0, le=1e8)]
Positive = Annotated[float, Field(gt=0, le=1e18)]


class LengthDistribution(Wire):
    """Mean and 95th percentile of a token count; a log-normal is put through both."""

    mean: Tokens
    p95: Tokens | None = None

    @model_validator(mode="after")
    def _ordered(self) -> LengthDistribution:
        if self.p95 is not None and self.p95 < self.mean:
            raise ValueError("p95 must be at least the mean")
        return self


def _length_kind(value: Any) -> str:
    return "distribution" if isinstance(value, dict | LengthDistribution) else "number"


class PromptLengths(LengthDistribution):
    """As any length, and at least one token: an empty prompt cannot be served."""

    mean: Annotated[float, Field(ge=1, le=1e8)]


PromptSpec = Annotated[
    Annotated[Annotated[float, Field(ge=1, le=1e8)], Tag("number")] | Annotated[PromptLengths, Tag("distribution")],
    Discriminator(_length_kind),
]
LengthSpec = Annotated[
    Annotated[Tokens, Tag("number")] | Annotated[LengthDistribution, Tag("distribution")], Discriminator(_length_kind)
]


def to_lengths(spec: float | LengthDistribution | None) -> Lengths | None:
    if spec is None:
        return None
    if isinstance(spec, LengthDistribution):
        return Lengths(spec.mean, spec.p95)
    return Lengths(float(spec))


class Users(Wire):
    """People rather than a rate; turned into peak requests by the busy-hour rule."""

    count: Annotated[float, Field(gt=0, le=1e9)]
    requests_per_hour_each: Annotated[float, Field(gt=0, le=1e5)]


class Traffic(Wire):
    """How requests arrive: exactly one of peak_requests_per_s, concurrent_requests, users, batch, offline,
    samples_per_s.
    """

    peak_requests_per_s: Annotated[float, Field(gt=0, le=1e6)] | None = None
    concurrent_requests: Annotated[int, Field(ge=1, le=1_000_000), WHOLE] | None = None
    users: Users | None = None
    batch: Annotated[int, Field(ge=1, le=100_000), WHOLE] | None = None
    offline: Literal[True] | None = None
    samples_per_s: Annotated[float, Field(gt=0, le=1e7)] | None = None
    volume_requests: Annotated[float, Field(ge=1, le=1e15)] | None = Field(
        None, description="Of offline work that ends: requests (or samples) in all."
    )
    deadline_hours: Annotated[float, Field(gt=0, le=876000)] | None = Field(
        None, description="Hours in which the volume is to be done, from the start of the machines."
    )
    average_requests_per_s: Annotated[float, Field(gt=0, le=1e6)] | None = None
    burstiness: Annotated[float, Field(ge=0, le=20)] = Field(
        1.0, description="Coefficient of variation of inter-arrival times; 1 is Poisson."
    )
    input_tokens: PromptSpec | None = Field(None, description="Default: the assumption default_input_tokens, 512.")
    output_tokens: LengthSpec | None = Field(None, description="Default: the assumption default_output_tokens, 256.")
    images: Images | None = Field(
        None, description="Images with every request; their tokens are added to input_tokens."
    )
    cached_prefix_fraction: Annotated[float, Field(ge=0, le=0.99)] = Field(
        0.0, description="Part of a prompt that is found in the cache: what its session or all requests began with."
    )
    shared_prefix_fraction: Annotated[float, Field(ge=0, le=0.99)] | None = Field(
        None, description="Part of cached_prefix_fraction that all requests share; a replica keeps it once. Default 0."
    )
    turn_gap_s: Annotated[float, Field(ge=0, le=604800)] | None = Field(
        None,
        description="From a session's answer to its next request; its prefix must stay in the cache for so long. "
        "Default: the assumption session_turn_gap_s, 60.",
    )

    @model_validator(mode="after")
    def _prefixes(self) -> Traffic:
        shared, cached = self.shared_prefix_fraction or 0.0, self.cached_prefix_fraction
        if shared > cached:
            raise ValueError("shared_prefix_fraction is part of cached_prefix_fraction and must not exceed it")
        if self.turn_gap_s is not None and not cached:
            raise ValueError("turn_gap_s goes with a cached_prefix_fraction above 0")
        if self.turn_gap_s is not None and (self.offline or self.batch is not None):
            raise ValueError("turn_gap_s is for sessions of a service; offline and batch requests wait for no turn")
        return self

    @model_validator(mode="after")
    def _one_load(self) -> Traffic:
        kinds = ("peak_requests_per_s", "concurrent_requests", "users", "batch", "offline", "samples_per_s")
        given = [k for k in kinds if getattr(self, k) is not None]
        if len(given) != 1:
            raise ValueError(f"exactly one of {', '.join(kinds)} says how requests arrive; {len(given)} were given")
        peak = self.peak_requests_per_s or self.samples_per_s
        if not self.offline and (self.volume_requests is not None or self.deadline_hours is not None):
            raise ValueError("volume_requests and deadline_hours go with offline: true")
        if self.deadline_hours is not None and self.volume_requests is None:
            raise ValueError("deadline_hours needs volume_requests: how much is to be done by then")
        if peak is not None and self.average_requests_per_s is not None and self.average_requests_per_s > peak:
            raise ValueError("average_requests_per_s must not exceed the peak")
        return self

    def to_arrivals(self, assumed: Assumptions) -> Arrivals:
        if self.users is not None:
            return arrivals_of_users(self.users.count, self.users.requests_per_hour_each, assumed)
        if self.concurrent_requests is not None:
            return Arrivals(Load.CLOSED, in_flight=float(self.concurrent_requests))
        if self.batch is not None:
            return Arrivals(Load.BATCH, in_flight=float(self.batch))
        if self.offline:
            hours = self.deadline_hours
            return Arrivals(
                Load.OFFLINE,
                volume_requests=self.volume_requests,
                deadline_s=None if hours is None else hours * SECONDS_PER_HOUR,
            )
        peak = float(self.peak_requests_per_s or self.samples_per_s or 0.0)
        return Arrivals(Load.OPEN, peak_per_s=peak, samples=self.samples_per_s is not None)


class SloSpec(Wire):
    """Limits that `percentile` of requests must meet; null or absent is no limit of that kind."""

    ttft_ms: Annotated[float, Field(gt=0, le=1e8)] | None = None
    tpot_ms: Annotated[float, Field(gt=0, le=1e8)] | None = None
    e2e_ms: Annotated[float, Field(gt=0, le=1e9)] | None = None
    percentile: Annotated[float, Field(ge=50, le=99.9)] | None = Field(
        None, description="Default: the assumption default_percentile, 95."
    )

    def to_limits(self) -> Limits:
        def seconds(ms: float | None) -> float | None:
            return None if ms is None else ms / 1e3

        return Limits(seconds(self.ttft_ms), seconds(self.tpot_ms), seconds(self.e2e_ms), self.percentile)


class Availability(Wire):
    """What the service survives: any so many failure domains lost leave what the peak needs."""

    redundancy: RedundancyName | None = Field(None, description="Default: none.")
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

    def to_workload(self, model: ModelArchitecture, assumed: Assumptions) -> InferenceWorkload:
        """The same in units of the core; raises Unanswerable where the parts contradict."""
        t = self.traffic
        return inference_workload(
            self.sample.applied_to(model) if self.sample is not None else model,
            t.to_arrivals(assumed),
            assumed,
            input_tokens=to_lengths(t.input_tokens),
            output_tokens=to_lengths(t.output_tokens),
            images=None if t.images is None else t.images.to_images(),
            average_per_s=t.average_requests_per_s,
            burstiness=t.burstiness,
            hits=Hits(t.cached_prefix_fraction, t.shared_prefix_fraction or 0.0, t.turn_gap_s),
            limits=None if self.slo is None else self.slo.to_limits(),
            max_context_tokens=self.max_context_tokens,
            redundancy=self.availability.to_redundancy(),
            availability_asked=self.availability.said,
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
    training_tokens: Positive | None = None
    training_samples: Positive | None = None
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
    optimizer: OptimizerName | None = Field(None, description="Default: adamw.")
    deadline_days: Annotated[float, Field(gt=0, le=36500)] | None = None
    deadline_hours: Annotated[float, Field(gt=0, le=876000)] | None = None
    dataset_gb: Annotated[float, Field(gt=0, le=1e9)] | None = None
    checkpoint_interval_minutes: Annotated[float, Field(gt=0, le=100000)] | None = None
    checkpoint_mode: Literal["asynchronous", "synchronous"] = Field(
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


WorkloadSpec = Annotated[InferenceSpec | TrainingSpec | FineTuningSpec, Field(discriminator="phase")]
