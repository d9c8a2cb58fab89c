"""Schemas of traffic: arrival rate, concurrency or recorded requests, lengths, latency limits and classes."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import AfterValidator, BaseModel, BeforeValidator, Discriminator, Field, Tag, model_validator

from app.api.schemas.base import (
    INTEGER_VALUED,
    Component,
    Name,
    RequestModel,
    RouterName,
    round_value,
    with_examples,
)
from app.api.schemas.model import Images
from app.api.schemas.origins import ADDED, WHOLE, From, ResultModel
from app.sizing.assumptions import Assumptions
from app.sizing.columns import SECONDS_PER_HOUR, column
from app.sizing.result import ClassLatencies, Percentiles, SeparateService, SharedFleet
from app.sizing.workload import (
    HOURS,
    Arrivals,
    Lengths,
    Limits,
    Load,
    Shares,
    Trace,
    arrivals_from_users,
    derive_peak_per_s,
    normalize_hours,
    smooth_day,
)

MAX_VALUES = 1000
LENGTH_FORMS = (("mean", "p95"), ("min",), ("values", "weights"))

Tokens = Annotated[float, Field(ge=0, le=1e8)]
PromptTokens = Annotated[float, Field(ge=1, le=1e8)]
WholeTokens = Annotated[int, Field(ge=1, le=100_000_000), INTEGER_VALUED]


class LengthDistribution(RequestModel):
    """Mean and 95th percentile of a token count, fitted with a log-normal distribution that ends at the maximum. Equal
    values mean a fixed length.
    """

    mean: Tokens
    p95: Tokens | None = Field(
        None, description="95th percentile. Default: the assumption length_p95_to_mean, 2, times the mean."
    )

    max: Tokens | None = Field(
        None,
        description="Longest length. Default: the assumption longest_percentile, 99.9 %, or the context window.",
    )

    @model_validator(mode="after")
    def _check_order(self) -> LengthDistribution:
        if self.p95 is not None and self.p95 < self.mean:
            raise ValueError("p95 must be at least the mean")
        if self.max is not None and self.max < (self.p95 or self.mean):
            raise ValueError("max must be at least the mean and the p95")
        return self

    def to_lengths(self) -> Lengths | float:
        return self.mean if self.p95 is None and self.max is None else Lengths(self.mean, self.p95, self.max)


class PromptLengths(LengthDistribution):
    """Like any length, but at least one token: an empty prompt cannot be served."""

    mean: PromptTokens


class LengthRange(RequestModel):
    """A uniform distribution over the integers from min to max. Equal values mean a fixed length."""

    model_config = with_examples({"min": 820, "max": 1024})

    min: WholeTokens
    max: WholeTokens

    @model_validator(mode="after")
    def _check_order(self) -> LengthRange:
        if self.max < self.min:
            raise ValueError("max must be at least min")
        return self

    def to_lengths(self) -> Lengths:
        return Lengths.uniform(self.min, self.max)


class LengthHistogram(RequestModel):
    """Token counts and their frequencies."""

    model_config = with_examples({"values": [200, 800, 6000], "weights": [60, 30, 10]})

    values: Annotated[list[WholeTokens], Field(min_length=1, max_length=MAX_VALUES)]
    weights: Annotated[
        list[Annotated[float, Field(ge=0, le=1e15)]],
        Field(min_length=1, max_length=MAX_VALUES, description="Relative frequency of each value; any sum above 0."),
    ]

    @model_validator(mode="after")
    def _check_weights(self) -> LengthHistogram:
        if len(self.values) != len(self.weights):
            raise ValueError(f"{len(self.values)} values but {len(self.weights)} weights: set one weight per value")
        if sum(self.weights) <= 0:
            raise ValueError("at least one weight must be above 0")
        return self

    def to_lengths(self) -> Lengths:
        return Lengths.from_histogram(self.values, self.weights)


def _check_single_form(value: Any) -> Any:
    """Rejects an object that mixes several forms."""
    forms = [way for way in LENGTH_FORMS if isinstance(value, dict) and any(name in value for name in way)]
    if len(forms) > 1:
        raise ValueError("use one form of length: mean, p95 and max; min and max; or values and weights")
    return value


def _length_kind(value: Any) -> str:
    if isinstance(value, LengthRange | LengthHistogram | LengthDistribution):
        return {LengthRange: "range", LengthHistogram: "histogram"}.get(type(value), "distribution")
    if not isinstance(value, dict):
        return "number"
    if {"values", "weights"} & {*value}:
        return "histogram"
    return "range" if "min" in value or ("max" in value and not {"mean", "p95"} & {*value}) else "distribution"


Shaped = Annotated[LengthRange, Tag("range")] | Annotated[LengthHistogram, Tag("histogram")]
PromptSpec = Annotated[
    Annotated[PromptTokens, Tag("number")] | Annotated[PromptLengths, Tag("distribution")] | Shaped,
    Discriminator(_length_kind),
    BeforeValidator(_check_single_form),
    Component("PromptLength"),
]
LengthSpec = Annotated[
    Annotated[Tokens, Tag("number")] | Annotated[LengthDistribution, Tag("distribution")] | Shaped,
    Discriminator(_length_kind),
    BeforeValidator(_check_single_form),
    Component("AnswerLength"),
]


def to_lengths(spec: float | LengthDistribution | LengthRange | LengthHistogram | None) -> Lengths | float | None:
    """The length in the engine's representation; a number is a mean."""
    return spec.to_lengths() if isinstance(spec, RequestModel) else spec


class SloSpec(RequestModel):
    """Limits that `percentile` percent of the requests must meet; null or absent means no limit of that kind."""

    ttft_ms: Annotated[float, Field(gt=0, le=1e8)] | None = None
    tpot_ms: Annotated[float, Field(gt=0, le=1e8)] | None = None
    e2e_ms: Annotated[float, Field(gt=0, le=1e9)] | None = None
    percentile: Annotated[float, Field(ge=50, le=99.9)] | None = Field(
        None,
        description="Percentile of requests that must meet the limits. Default: the assumption default_percentile, 95.",
    )

    def to_limits(self) -> Limits:
        def to_seconds(ms: float | None) -> float | None:
            return None if ms is None else ms / 1e3

        return Limits(to_seconds(self.ttft_ms), to_seconds(self.tpot_ms), to_seconds(self.e2e_ms), self.percentile)


LENGTHS = "A number is a mean; the assumption length_p95_to_mean gives the spread."
DIGITS = 4


class Users(RequestModel):
    """A number of users instead of a rate; the busy-hour rule converts it to peak requests per second."""

    count: Annotated[float, Field(gt=0, le=1e9)]
    requests_per_hour_each: Annotated[float, Field(gt=0, le=1e5)]


RATE_FIELDS = ("peak_requests_per_s", "average_requests_per_s", "samples_per_s")


def scaled_load(spec: BaseModel, times: float) -> dict[str, Any]:
    """The loads that a traffic or a class states, multiplied by `times`; requests in flight are rounded down."""
    loads = {name: getattr(spec, name, None) for name in RATE_FIELDS}
    scaled: dict[str, Any] = {name: load * times for name, load in loads.items() if load is not None}
    users, in_flight = getattr(spec, "users", None), getattr(spec, "concurrent_requests", None)
    if users is not None:
        scaled["users"] = users.model_copy(update={"count": users.count * times})
    if in_flight is not None:
        scaled["concurrent_requests"] = max(1, int(in_flight * times * (1 + 1e-9)))
    return scaled


class TrafficClassSpec(RequestModel):
    """One class of requests; its rate is peak_requests_per_s or users."""

    model_config = with_examples(
        {
            "name": "interactive",
            "peak_requests_per_s": 8,
            "input_tokens": 800,
            "output_tokens": 200,
            "slo": {"ttft_ms": 500, "tpot_ms": 40},
        }
    )

    name: Annotated[Name, Field(max_length=40)]
    peak_requests_per_s: Annotated[float, Field(gt=0, le=1e6)] | None = None
    users: Users | None = None
    average_requests_per_s: Annotated[float, Field(gt=0, le=1e6)] | None = None
    burstiness: Annotated[float, Field(ge=0, le=20)] = Field(
        1.0, description="Coefficient of variation of inter-arrival times; 1 is Poisson."
    )
    input_tokens: PromptSpec | None = Field(None, description=LENGTHS)
    output_tokens: LengthSpec | None = Field(None, description=LENGTHS)
    slo: SloSpec | None = Field(None, description="Latency limits of this class. Default: typical limits for the task.")

    @model_validator(mode="after")
    def _check_rate(self) -> TrafficClassSpec:
        if (self.peak_requests_per_s is None) == (self.users is None):
            raise ValueError("set exactly one of peak_requests_per_s and users in each class")
        peak, average = self.peak_requests_per_s, self.average_requests_per_s
        if peak is not None and average is not None and average > peak:
            raise ValueError("average_requests_per_s must not exceed the peak")
        return self

    def traffic_fields(self) -> dict[str, Any]:
        """The fields that the request set for this class, without name and limits."""
        return {name: getattr(self, name) for name in self.model_fields_set - {"name", "slo"}}


class TimesShown(ResultModel, of=Percentiles):
    """Latencies in milliseconds; null if the queue never empties."""

    p50: Annotated[float | None, From("p50_s", times=1e3, digits=DIGITS)]
    p95: Annotated[float | None, From("p95_s", times=1e3, digits=DIGITS)]


class ClassShown(ResultModel, of=ClassLatencies):
    """One traffic class on the shared service."""

    name: str
    ttft_ms: Annotated[TimesShown, From("ttft")]
    tpot_ms: Annotated[TimesShown, From("tpot")]
    e2e_ms: Annotated[TimesShown, From("e2e")]
    limits_met: bool = Field(
        description="True if the predicted latencies meet the limits of the class at its percentile."
    )
    within_requests_per_s: Annotated[float, ADDED] = Field(
        description="Load of all classes together up to which the service meets the limits of this class."
    )


def _classes_json(fleet: SharedFleet) -> list[dict[str, Any]]:
    """The classes of a shared service; the loads are those of all its replicas."""
    return [
        ClassShown.as_json(each, given={"within_requests_per_s": round_value(fleet.replicas * each.within_per_s)})
        for each in fleet.by_class
    ]


class TogetherShown(ResultModel, of=SharedFleet):
    """This deployment: one shared service for all classes."""

    replicas: int
    usd_per_hour: float | None
    by_class: Annotated[list[ClassShown], From(WHOLE, convert=_classes_json)]


class ApartShown(ResultModel, of=SeparateService):
    """The best separate service for one class under the same constraints; null if there is none."""

    name: str
    accelerator: str | None
    total_accelerators: int | None = None
    replicas: int | None
    usd_per_hour: float | None


class SharedShown(ResultModel, of=SharedFleet):
    """One shared service compared with a separate service per class."""

    together: Annotated[TogetherShown, From(WHOLE)]
    apart: Annotated[list[ApartShown], From("separate_services")]
    cheaper: str | None = Field(description="together or apart; null if a price is unknown.")
    saving_usd_per_hour: float | None
    why: str


class TracedRequest(RequestModel):
    """One recorded request."""

    model_config = with_examples({"at_s": 12.5, "input_tokens": 900, "output_tokens": 210, "prefix_tokens": 600})

    at_s: Annotated[float, Field(ge=0, le=31_622_400, description="Arrival time, from any common start.")]
    input_tokens: Annotated[int, Field(ge=1, le=100_000_000), INTEGER_VALUED]
    output_tokens: Annotated[int, Field(ge=0, le=100_000_000), INTEGER_VALUED]
    prefix_tokens: Annotated[int, Field(ge=0, le=100_000_000), INTEGER_VALUED] = Field(
        0, description="Prompt tokens that match the start of an earlier request and are found in the prefix cache."
    )

    @model_validator(mode="after")
    def _check_prefix(self) -> TracedRequest:
        if self.prefix_tokens >= self.input_tokens:
            raise ValueError("prefix_tokens must be less than input_tokens: the end of a prompt is always computed")
        return self


def _check_order(trace: list[TracedRequest]) -> list[TracedRequest]:
    early = next((i for i, (a, b) in enumerate(pairwise(trace), 1) if b.at_s < a.at_s), None)
    if early is not None:
        raise ValueError(f"must be in order of arrival: at_s of entry {early} is before that of entry {early - 1}")
    return trace


def _check_load(factors: list[float]) -> list[float]:
    if max(factors) <= 0:
        raise ValueError("must not all be 0: at least one hour has load")
    return factors


def _check_names(classes: list[TrafficClassSpec]) -> list[TrafficClassSpec]:
    if len({c.name for c in classes}) < len(classes):
        raise ValueError("use a unique name for every class")
    return classes


Classes = Annotated[list[TrafficClassSpec], Field(min_length=2, max_length=4), AfterValidator(_check_names)]
Factor = Annotated[float, Field(ge=0, le=1e9)]
Hourly = Annotated[list[Factor], Field(min_length=HOURS, max_length=HOURS), AfterValidator(_check_load)]
Recorded = Annotated[
    list[TracedRequest], Field(min_length=2, max_length=20_000, fail_fast=True), AfterValidator(_check_order)
]
KINDS = ("peak_requests_per_s", "concurrent_requests", "users", "batch", "offline", "samples_per_s", "trace", "classes")
RATES = ("peak_requests_per_s", "samples_per_s", "users")
IN_TRACE = ("input_tokens", "output_tokens", "burstiness", "cached_prefix_fraction", "shared_prefix_fraction", "images")


class Traffic(RequestModel):
    """How requests arrive: exactly one of peak_requests_per_s, concurrent_requests, users, batch, offline,
    samples_per_s, trace and classes. With a daily profile, average_requests_per_s may replace it.
    """

    peak_requests_per_s: Annotated[float, Field(gt=0, le=1e6)] | None = None
    concurrent_requests: Annotated[int, Field(ge=1, le=1_000_000), INTEGER_VALUED] | None = None
    users: Users | None = None
    batch: Annotated[int, Field(ge=1, le=100_000), INTEGER_VALUED] | None = None
    offline: Literal[True] | None = None
    samples_per_s: Annotated[float, Field(gt=0, le=1e7)] | None = None
    trace: Recorded | None = Field(
        None,
        description="2 to 20,000 recorded requests in order of arrival. The body size limit of the service applies: "
        "65,536 bytes (about 900 requests) unless HEADROOM_MAX_BODY_BYTES raises it.",
    )
    classes: Classes | None = Field(
        None,
        description="2 to 4 classes of requests on one service, each with its own rate, lengths and slo. The answer's "
        "`classes` compares one shared service with one service per class.",
    )
    requests: Annotated[int, Field(ge=1, le=1_000_000), INTEGER_VALUED] | None = Field(
        None,
        description="Total number of requests of a finite run; requires concurrent_requests. The run starts at full "
        "concurrency. Default: the service runs indefinitely.",
    )
    volume_requests: Annotated[float, Field(ge=1, le=1e15)] | None = Field(
        None, description="Total number of requests (or samples) of finite offline work."
    )
    deadline_hours: Annotated[float, Field(gt=0, le=876000)] | None = Field(
        None, description="Hours within which the volume must be completed, from the start of the machines."
    )
    average_requests_per_s: Annotated[float, Field(gt=0, le=1e6)] | None = None
    hourly_factors: Hourly | None = Field(
        None, description="Relative load of each hour of a day; the largest is the peak. The answer then has `day`."
    )
    peak_to_average: Annotated[float, Field(ge=1, le=HOURS)] | None = Field(
        None,
        description="Instead of hourly_factors: a smooth day whose busiest hour has this multiple of the mean load.",
    )
    burstiness: Annotated[float, Field(ge=0, le=20)] = Field(
        1.0, description="Coefficient of variation of inter-arrival times; 1 is Poisson."
    )
    router: RouterName | None = Field(
        None,
        description="How a replica is chosen. Default: prefix_aware if sessions leave prefixes, else least_loaded.",
    )
    input_tokens: PromptSpec | None = Field(
        None, description=f"Prompt length. {LENGTHS} Default: the assumption default_input_tokens, 512."
    )
    output_tokens: LengthSpec | None = Field(
        None, description=f"Output length. {LENGTHS} Default: the assumption default_output_tokens, 256."
    )
    images: Images | None = Field(None, description="Images in every request; their tokens are added to input_tokens.")
    cached_prefix_fraction: Annotated[float, Field(ge=0, le=0.99)] = Field(
        0.0,
        description="Share of a prompt found in the prefix cache: the common start of its session or of all requests.",
    )
    shared_prefix_fraction: Annotated[float, Field(ge=0, le=0.99)] | None = Field(
        None,
        description="Part of cached_prefix_fraction that all requests share; a replica stores it once. Default: 0.",
    )
    turn_gap_s: Annotated[float, Field(ge=0, le=604800)] | None = Field(
        None,
        description="Time from a session's answer to its next request; its prefix must stay in the cache that long. "
        "Default: the assumption session_turn_gap_s, 60.",
    )

    @model_validator(mode="after")
    def _check_prefixes(self) -> Traffic:
        shared, cached = self.shared_prefix_fraction or 0.0, self.cached_prefix_fraction
        if shared > cached:
            raise ValueError("shared_prefix_fraction must not exceed cached_prefix_fraction, which includes it")
        if self.turn_gap_s is not None and not cached and self.trace is None:
            raise ValueError("turn_gap_s requires a cached_prefix_fraction above 0")
        if self.turn_gap_s is not None and (self.offline or self.batch is not None):
            raise ValueError("turn_gap_s applies to sessions of a service; omit it for offline and batch requests")
        return self

    @model_validator(mode="after")
    def _check_single_load(self) -> Traffic:
        given = [k for k in KINDS if getattr(self, k) is not None]
        if len(given) != 1 and not (self.has_day and not given and self.average_requests_per_s is not None):
            raise ValueError(f"set exactly one of {', '.join(KINDS)}; {len(given)} are set")
        peak = self.peak_requests_per_s or self.samples_per_s
        if not self.offline and (self.volume_requests is not None or self.deadline_hours is not None):
            raise ValueError("volume_requests and deadline_hours require offline: true")
        if self.deadline_hours is not None and self.volume_requests is None:
            raise ValueError("deadline_hours requires volume_requests, the amount of work to complete")
        if peak is not None and self.average_requests_per_s is not None and self.average_requests_per_s > peak:
            raise ValueError("average_requests_per_s must not exceed the peak")
        return self

    @model_validator(mode="after")
    def _check_day(self) -> Traffic:
        if not self.has_day:
            return self
        if self.hourly_factors is not None and self.peak_to_average is not None:
            raise ValueError("set hourly_factors or peak_to_average, not both")
        named = "hourly_factors" if self.hourly_factors is not None else "peak_to_average"
        others = [k for k in KINDS if k not in RATES and getattr(self, k) is not None]
        if others:
            raise ValueError(f"{named} requires a rate or users; it does not apply to {others[0]}")
        return self

    @model_validator(mode="after")
    def _check_classes(self) -> Traffic:
        extra = sorted(self.model_fields_set - {"classes"})
        if self.classes is not None and extra:
            raise ValueError(f"with classes, set every field in each class; omit {', '.join(extra)}")
        return self

    @model_validator(mode="after")
    def _check_finite_run(self) -> Traffic:
        if self.requests is None:
            return self
        if self.concurrent_requests is None:
            raise ValueError("requests requires concurrent_requests, the number of requests in flight")
        if self.requests < self.concurrent_requests:
            raise ValueError("requests must be at least concurrent_requests")
        return self

    @model_validator(mode="after")
    def _check_trace(self) -> Traffic:
        if self.trace is None:
            return self
        extra = [name for name in IN_TRACE if name in self.model_fields_set and getattr(self, name) is not None]
        if extra:
            raise ValueError(f"a trace already contains {', '.join(extra)}; omit them, or omit the trace")
        return self

    @property
    def has_day(self) -> bool:
        """True if the request describes the hours of a day."""
        return self.hourly_factors is not None or self.peak_to_average is not None

    def to_shares(self, assumed: Assumptions) -> Shares:
        """Load of each hour of a day relative to the busiest hour; empty without a daily profile."""
        if self.hourly_factors is not None:
            return normalize_hours(self.hourly_factors)
        return () if self.peak_to_average is None else smooth_day(self.peak_to_average, assumed)

    @property
    def has_hits(self) -> bool:
        """True if any part of a prompt is found in the prefix cache."""
        return self.cached_prefix_fraction > 0 or any(request.prefix_tokens for request in self.trace or ())

    def to_trace(self) -> Trace | None:
        """The recorded requests in the engine's representation, or None if there are none."""
        if self.trace is None:
            return None
        return Trace(
            column([request.at_s for request in self.trace]),
            np.array([request.input_tokens for request in self.trace], np.int64),
            np.array([request.output_tokens for request in self.trace], np.int64),
            np.array([request.prefix_tokens for request in self.trace], np.int64),
        )

    def to_arrivals(self, assumed: Assumptions) -> Arrivals:
        shares = self.to_shares(assumed)
        if self.users is not None:
            by_users = arrivals_from_users(self.users.count, self.users.requests_per_hour_each, assumed)
            if shares:
                derive_peak_per_s(by_users.peak_per_s, self.average_requests_per_s, shares)
            return replace(by_users, hourly_shares=shares)
        if self.concurrent_requests is not None:
            requests = None if self.requests is None else float(self.requests)
            return Arrivals(Load.CLOSED, in_flight=float(self.concurrent_requests), requests=requests)
        if self.batch is not None:
            return Arrivals(Load.BATCH, in_flight=float(self.batch))
        if self.offline:
            hours = self.deadline_hours
            return Arrivals(
                Load.OFFLINE,
                volume_requests=self.volume_requests,
                deadline_s=None if hours is None else hours * SECONDS_PER_HOUR,
            )
        peak = self.peak_requests_per_s or self.samples_per_s
        if shares:
            peak = derive_peak_per_s(peak, self.average_requests_per_s, shares)
        counted_in_samples = self.samples_per_s is not None
        return Arrivals(Load.OPEN, peak_per_s=float(peak or 0.0), samples=counted_in_samples, hourly_shares=shares)
