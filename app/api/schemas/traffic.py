"""Schemas of traffic: arrival rate, concurrency or recorded requests, and the lengths of prompts and outputs."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Annotated, Literal

import numpy as np
from pydantic import AfterValidator, Field, model_validator

from app.api.schemas.base import INTEGER_VALUED, RequestModel, with_examples
from app.api.schemas.classes import LENGTHS, TrafficClassSpec, Users
from app.api.schemas.lengths import LengthSpec, PromptSpec
from app.api.schemas.model import Images
from app.sizing.assumptions import Assumptions
from app.sizing.columns import column
from app.sizing.units import SECONDS_PER_HOUR
from app.sizing.workload import (
    HOURS,
    Arrivals,
    Load,
    Shares,
    Trace,
    arrivals_from_users,
    derive_peak_per_s,
    normalize_hours,
    smooth_day,
)


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
Recorded = Annotated[list[TracedRequest], Field(min_length=2, max_length=20_000), AfterValidator(_check_order)]
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
