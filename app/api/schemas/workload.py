"""The workload of a request, and its conversion to the values of sizing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from app.api.schemas.base import Wire
from app.api.schemas.model import Images, LoraSpec, ModelReference, SampleSpec, lora_targets, with_images
from app.errors import Unanswerable
from app.sizing.assumptions import Assumptions
from app.sizing.model.architecture import ModelArchitecture, ModelKind
from app.sizing.units import GB
from app.sizing.workload import (
    InferenceWorkload,
    Lengths,
    Load,
    Method,
    Redundancy,
    Slo,
    TrainingWorkload,
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


def to_lengths(spec: float | LengthDistribution) -> Lengths:
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
    concurrent_requests: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    users: Users | None = None
    batch: Annotated[int, Field(ge=1, le=100_000)] | None = None
    offline: Literal[True] | None = None
    samples_per_s: Annotated[float, Field(gt=0, le=1e7)] | None = None
    average_requests_per_s: Annotated[float, Field(gt=0, le=1e6)] | None = None
    burstiness: Annotated[float, Field(ge=0, le=20)] = Field(
        1.0, description="Coefficient of variation of inter-arrival times; 1 is Poisson."
    )
    input_tokens: PromptSpec = 512.0
    output_tokens: LengthSpec = 256.0
    images: Images | None = Field(
        None, description="Images with every request; their tokens are added to input_tokens."
    )
    cached_prefix_fraction: Annotated[float, Field(ge=0, le=0.99)] = 0.0

    @model_validator(mode="after")
    def _one_load(self) -> Traffic:
        kinds = ("peak_requests_per_s", "concurrent_requests", "users", "batch", "offline", "samples_per_s")
        given = [k for k in kinds if getattr(self, k) is not None]
        if len(given) != 1:
            raise ValueError(f"exactly one of {', '.join(kinds)} says how requests arrive; {len(given)} were given")
        peak = self.peak_requests_per_s or self.samples_per_s
        if peak is not None and self.average_requests_per_s is not None and self.average_requests_per_s > peak:
            raise ValueError("average_requests_per_s must not exceed the peak")
        return self


class SloSpec(Wire):
    """Limits that `percentile` of requests must meet; null or absent is no limit of that kind."""

    ttft_ms: Annotated[float, Field(gt=0, le=1e8)] | None = None
    tpot_ms: Annotated[float, Field(gt=0, le=1e8)] | None = None
    e2e_ms: Annotated[float, Field(gt=0, le=1e9)] | None = None
    percentile: Annotated[float, Field(ge=50, le=99.9)] = 95.0


class Availability(Wire):
    redundancy: Literal["none", "n+1", "n+2", "2n"] = "none"
    zones: Annotated[int, Field(ge=1, le=8)] = 1


class InferenceSpec(Wire):
    """Traffic on a model, with what its users may be kept waiting."""

    phase: Literal["inference"]
    model: ModelReference
    traffic: Traffic
    sample: SampleSpec | None = None
    slo: SloSpec | None = None
    max_context_tokens: Annotated[int, Field(ge=1, le=100_000_000)] | None = None
    availability: Availability = Availability()
    target_utilization: Annotated[float, Field(ge=0.05, le=1)] | None = None

    def to_workload(self, model: ModelArchitecture, assumed: Assumptions) -> InferenceWorkload:
        """Units converted, defaults filled in; raises Unanswerable where the parts contradict."""
        t = self.traffic
        model = self.sample.applied_to(model) if self.sample is not None else model
        prompt, output = to_lengths(t.input_tokens), to_lengths(t.output_tokens)
        model, prompt, image_flops = with_images(model, prompt, t.images)
        load, peak, in_flight = _load(t, assumed)
        generates = model.kind is ModelKind.DECODER
        if generates and output.mean < 1:
            raise Unanswerable(
                "A model that generates tokens needs output_tokens of at least 1; an embedding model of the catalogue "
                "takes output_tokens 0."
            )
        if t.samples_per_s is not None and model.kind is not ModelKind.SAMPLES:
            raise Unanswerable("samples_per_s is for models that work on samples; this one takes peak_requests_per_s.")
        longest = prompt.quantile(95) + output.quantile(95) if generates else prompt.quantile(95)
        context = float(self.max_context_tokens or max(longest, prompt.mean + output.mean))
        if model.max_context_tokens and context > model.max_context_tokens and model.sample is None:
            raise Unanswerable(
                f"A context of {context:,.0f} tokens was asked for; {model.name} takes at most {model.max_context_tokens:,}."
            )
        if context < prompt.mean + (output.mean if generates else 0):
            raise Unanswerable("max_context_tokens is smaller than the mean input and output together.")
        average = t.average_requests_per_s if t.average_requests_per_s is not None else peak * assumed.average_to_peak
        return InferenceWorkload(
            model=model,
            load=load,
            peak_per_s=peak,
            average_per_s=average,
            in_flight=in_flight,
            burstiness=t.burstiness,
            input_tokens=prompt,
            output_tokens=output,
            cached_prefix_fraction=t.cached_prefix_fraction,
            slo=self._limits(load, generates=generates, assumed=assumed),
            max_context_tokens=context,
            redundancy=_redundancy(self.availability),
            target_utilization=self.target_utilization or assumed.target_utilization,
            encoder_flops_per_request=image_flops,
        )

    def _limits(self, load: Load, *, generates: bool, assumed: Assumptions) -> Slo:
        """The limits asked for, or the usual ones of an open service; offline and batch work has none."""
        spec = self.slo
        if spec is not None and (spec.ttft_ms or spec.tpot_ms or spec.e2e_ms):
            ttft, tpot, e2e = spec.ttft_ms, spec.tpot_ms, spec.e2e_ms
        elif load is Load.OPEN:
            ttft = assumed.default_ttft_ms if generates else None
            tpot = assumed.default_tpot_ms if generates else None
            e2e = None if generates else assumed.default_e2e_ms
        else:
            ttft = tpot = e2e = None
        percentile = spec.percentile if spec is not None else 95.0
        return Slo(
            ttft_s=None if ttft is None else ttft / 1e3,
            tpot_s=None if tpot is None else tpot / 1e3,
            e2e_s=None if e2e is None else e2e / 1e3,
            percentile=percentile,
        )


def _load(t: Traffic, assumed: Assumptions) -> tuple[Load, float, float]:
    """(kind of load, peak per second, requests in flight)."""
    if t.concurrent_requests is not None:
        return Load.CLOSED, 0.0, float(t.concurrent_requests)
    if t.batch is not None:
        return Load.BATCH, 0.0, float(t.batch)
    if t.offline:
        return Load.OFFLINE, 0.0, 0.0
    if t.users is not None:
        hourly = t.users.count * t.users.requests_per_hour_each
        return Load.OPEN, hourly / 3600 * assumed.busy_hour_factor, 0.0
    return Load.OPEN, float(t.peak_requests_per_s or t.samples_per_s or 0.0), 0.0


def _redundancy(spec: Availability) -> Redundancy:
    spare = {"none": 0, "n+1": 1, "n+2": 2, "2n": 0}[spec.redundancy]
    return Redundancy(spare=spare, double=spec.redundancy == "2n", zones=spec.zones)


Precision = Literal["bf16", "fp16", "fp8", "mxfp8", "nvfp4", "fp32", "tf32", "bf16-true"]
Optimizer = Literal["adamw", "adamw-8bit", "adafactor", "lion", "muon", "sgd"]


class _RunSpec(Wire):
    """What training and fine-tuning share."""

    model: ModelReference
    sample: SampleSpec | None = None
    training_tokens: Positive | None = None
    training_samples: Positive | None = None
    sequence_length: Annotated[int, Field(ge=1, le=10_000_000)] = 4096
    global_batch_tokens: Annotated[float, Field(ge=1, le=1e12)] | None = None
    global_batch_sequences: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    global_batch_samples: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    precision: Precision = Field(
        "bf16",
        description="Of matrices. All but fp32, tf32 and bf16-true keep a 32-bit master copy; bf16-true keeps everything in 16 bit.",
    )
    optimizer: Optimizer = "adamw"
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

    def _run(
        self,
        model: ModelArchitecture,
        *,
        phase: str,
        method: Method,
        units: float | None,
        usual_deadline_s: Callable[[], float],
        lora: LoraSpec,
        default_batch: int,
    ) -> TrainingWorkload:
        model = self.sample.applied_to(model) if self.sample is not None else model
        if model.reads_source:
            model = replace(
                model, assumed=(*model.assumed, "half the tokens of a training sequence are source, half target")
            )
        samples = model.sample is not None
        if samples:
            units = self.training_samples if units is None else units
            batch = self.global_batch_samples or self.global_batch_sequences or 256
        else:
            batch = self.global_batch_sequences or default_batch
            if self.global_batch_tokens is not None:
                batch = max(1, round(self.global_batch_tokens / self.sequence_length))
        if units is None:
            wanted = "training_samples" if samples else "training_tokens"
            raise Unanswerable(
                f"The run needs {wanted}" + (", or examples and epochs." if phase == "fine_tuning" else ".")
            )
        if samples and method is not Method.FULL:
            raise Unanswerable(
                "Adapters (lora, qlora) are sized for models that work on tokens; method full is accepted here."
            )
        if not samples and model.max_context_tokens and self.sequence_length > 16 * model.max_context_tokens:
            raise Unanswerable(
                f"sequence_length {self.sequence_length:,} is far beyond {model.name}'s {model.max_context_tokens:,} tokens."
            )
        if self.deadline_hours is not None:
            deadline = self.deadline_hours * 3600
        else:
            deadline = usual_deadline_s() if self.deadline_days is None else self.deadline_days * 86400
        return TrainingWorkload(
            model=model,
            phase=phase,
            method=method,
            units=units,
            units_per_sequence=1.0 if samples else float(self.sequence_length),
            global_batch=batch,
            precision=self.precision,
            optimizer=self.optimizer,
            deadline_s=deadline,
            experiment_overhead=self.experiment_overhead,
            dataset_bytes=None if self.dataset_gb is None else self.dataset_gb * GB,
            checkpoint_interval_s=None
            if self.checkpoint_interval_minutes is None
            else self.checkpoint_interval_minutes * 60,
            synchronous_checkpoints=self.checkpoint_mode == "synchronous",
            lora_rank=lora.rank,
            lora_targets=lora_targets(lora, model) if method is not Method.FULL else "all-linear",
        )


class TrainingSpec(_RunSpec):
    """A pre-training run."""

    phase: Literal["training"]

    def to_workload(self, model: ModelArchitecture, assumed: Assumptions) -> TrainingWorkload:
        return self._run(
            model,
            phase="training",
            method=Method.FULL,
            units=self.training_tokens,
            usual_deadline_s=lambda: assumed.default_training_days * 86400,
            lora=LoraSpec(),
            default_batch=512,
        )


class FineTuningSpec(_RunSpec):
    """A fine-tuning run: all parameters, adapters, or adapters on a 4-bit base."""

    phase: Literal["fine_tuning"]
    method: Literal["full", "lora", "qlora"] = "lora"
    lora: LoraSpec = LoraSpec()
    examples: Annotated[float, Field(ge=1, le=1e12)] | None = None
    epochs: Annotated[float, Field(gt=0, le=1e4)] = 1.0

    def to_workload(self, model: ModelArchitecture, assumed: Assumptions) -> TrainingWorkload:
        units = self.training_tokens
        if units is None and self.examples is not None:
            units = self.examples * self.epochs * (1 if model.sample is not None else self.sequence_length)
        return self._run(
            model,
            phase="fine_tuning",
            method=Method(self.method),
            units=units,
            usual_deadline_s=lambda: assumed.default_fine_tuning_hours * 3600,
            lora=self.lora,
            default_batch=16,
        )


WorkloadSpec = Annotated[InferenceSpec | TrainingSpec | FineTuningSpec, Field(discriminator="phase")]
