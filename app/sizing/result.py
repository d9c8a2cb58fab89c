"""What comes out: plain values in base units that the wire rounds and renames, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from app.sizing.assumptions import Assumed
from app.sizing.evidence import Neighbour
from app.sizing.formula import Step
from app.sizing.hardware.parts import Accelerator
from app.sizing.hardware.prices import Terms
from app.sizing.question import Deployment
from app.sizing.values.classes import SharedFleet
from app.sizing.values.day import Day
from app.sizing.values.hosted import HostedApi
from app.sizing.values.latencies import ClassWaits, LoadCurve, Percentiles, Simulation
from app.sizing.values.packing import Packing
from app.sizing.values.pools import Split
from app.sizing.values.runs import Curve, Maximum
from app.sizing.values.ways import Alternative, Cheaper
from app.sizing.words import apart, counted, span


@dataclass(frozen=True, slots=True)
class Reason:
    """A sentence for the buyer and the number it rests on."""

    code: str
    text: str
    quantity: str
    value: float
    unit: str


@dataclass(frozen=True, slots=True)
class Notice:
    code: str
    text: str


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """Bytes on the fullest device; the parts sum to the total."""

    weights_bytes: float
    kv_cache_bytes: float
    activation_bytes: float
    overhead_bytes: float
    gradient_bytes: float
    optimizer_bytes: float
    capacity_bytes: float
    usable_bytes: float
    kv_cache_tokens: float | None = None
    max_concurrent_sequences: float | None = None
    prefix_cache_bytes: float | None = None  # of the cache, prefixes of idle sessions
    idle_sessions: float | None = None  # of one replica
    host_weights_bytes: float | None = None  # of one replica, in its host's memory
    host_cache_bytes: float | None = None  # of one sequence of the longest context
    host_usable_bytes: float | None = None
    moments_bytes: Mapping[str, float] | None = None  # everything at each moment of a training step
    activation_parts_bytes: Mapping[str, float] | None = None  # at the highest of them

    @property
    def total_bytes(self) -> float:
        return (
            self.weights_bytes
            + self.kv_cache_bytes
            + self.activation_bytes
            + self.overhead_bytes
            + self.gradient_bytes
            + self.optimizer_bytes
        )


@dataclass(frozen=True, slots=True)
class Interval:
    """80 % of published results are expected between these. `statistic`: of a latency its percentile."""

    quantity: str
    low: float
    high: float
    statistic: str = "mean"


@dataclass(frozen=True, slots=True)
class Level:
    """What holds with a confidence: how many accelerators, and what they cost. None: no number of them would do."""

    confidence: float
    total_accelerators: int | None
    usd_per_hour: float | None = None  # of a service
    usd_total: float | None = None  # of a run, at the duration that holds with that confidence


@dataclass(frozen=True, slots=True)
class Assurance:
    """How sure a deployment is to do what was asked; None where that was not asked."""

    asked: float
    fits: float
    meets_slo: float | None
    meets_deadline: float | None
    by_level: tuple[Level, ...]


@dataclass(frozen=True, slots=True)
class Verification:
    """The one benchmark that would settle most."""

    command: str
    accelerator: str
    accelerators: int
    minutes: float
    usd: float | None
    decides: str


@dataclass(frozen=True, slots=True)
class PrefixCache:
    """What a replica keeps of idle sessions at the load asked, or would keep; `times` of what the load takes are None
    where no number of these meets the limits.
    """

    counted: bool  # whether its hits are; else every prompt is computed whole
    sessions: float
    bytes_per_replica: float
    turn_gap_s: float
    times_without_hits: float | None
    times_at_twice_the_gap: float | None


@dataclass(frozen=True, slots=True)
class ClusterNeeds:
    """What a cluster must bring beside its accelerators and the rates of its storage."""

    network_bytes_per_s_per_node: float | None  # as the layout assumes; None: one machine
    checkpoint_capacity_bytes: float
    host_memory_bytes_per_node: float
    power_w: float
    cooling_w: float


@dataclass(frozen=True, slots=True)
class Performance:
    """What a deployment does; fields of another phase are None."""

    interval: Interval
    basis: str
    intervals: tuple[Interval, ...] = ()  # of the other predicted quantities
    sources: int | None = None  # that published results of the runtime on the family
    output_tokens_per_s: float | None = None
    total_tokens_per_s: float | None = None
    prefill_tokens_per_s: float | None = None
    requests_per_s_capacity: float | None = None
    samples_per_s: float | None = None
    utilization_at_peak: float | None = None
    overloaded: bool | None = None  # more is asked than is carried within the limits
    batch_at_peak: float | None = None
    ttft: Percentiles | None = None
    tpot: Percentiles | None = None
    e2e: Percentiles | None = None
    simulation: Simulation | None = None
    load_curve: LoadCurve | None = None
    by_class: tuple[ClassWaits, ...] = ()  # where several share the service
    unstable_above_requests_per_s: float | None = None
    cold_start_s: float | None = None
    tokens_per_s: float | None = None
    tokens_per_s_per_accelerator: float | None = None
    step_time_s: float | None = None
    mfu: float | None = None
    step_breakdown_s: Mapping[str, float] | None = None
    scaling_efficiency: float | None = None
    days: float | None = None
    surely_days: float | None = None  # of work that ends, with the confidence asked
    accelerator_hours: float | None = None
    checkpoint_bytes: float | None = None
    required_storage_bytes_per_s: float | None = None
    required_ingest_bytes_per_s: float | None = None
    expected_interruptions: float | None = None
    checkpoint_interval_s: float | None = None
    checkpoint_stall_s: float | None = None
    cluster: ClusterNeeds | None = None
    pools: Split | None = None  # of prefill and decode in pools of their own


@dataclass(frozen=True, slots=True)
class Price:
    """Who stands behind what is paid, and how old it is; None where no day is known to count to."""

    terms: Terms
    pricing_model: str
    age_days: int | None = None
    discount: float = 0.0  # that the caller has off it

    @property
    def upfront_usd(self) -> float | None:
        """Paid at the start, per machine."""
        return None if self.terms.upfront_usd is None else self.terms.upfront_usd * (1 - self.discount)


@dataclass(frozen=True, slots=True)
class Part:
    """A line of a bill: so many at a price each, or by the hour; without either, a figure that others rest on."""

    what: str
    quantity: float
    unit_usd: float | None = None
    usd_per_hour: float | None = None


@dataclass(frozen=True, slots=True)
class CostSummary:
    """Money and energy; None where the catalogue has no price."""

    usd_per_hour: float | None
    usd_per_month: float | None
    usd_per_million: float | None
    usd_total: float | None
    purchase_usd: float | None
    power_w: float
    kwh_per_million: float | None
    tco_usd: float | None
    price: Price | None
    per_million: str = "tokens"
    million_of: str = "tokens"  # in words: of which tokens
    parts: tuple[Part, ...] = ()  # the bill: every figure above can be added up from it
    usd_per_day: float | None = None  # as it is paid where the hours of a day are told; None where they are not


@dataclass(frozen=True, slots=True)
class Estimate:
    """One deployment, judged. `deployment` is complete: posted back it gives the same numbers."""

    deployment: Deployment
    fits: bool
    memory: DeviceMemory | None
    performance: Performance | None
    bottleneck: str | None
    cost: CostSummary | None
    explanation: tuple[Reason, ...]
    trace: tuple[Step, ...] = ()
    nearest: tuple[Neighbour, ...] = ()
    scaling: Curve | None = None
    maximum: Maximum | None = None
    assurance: Assurance | None = None
    prefixes: PrefixCache | None = None  # where hits on those of idle sessions are asked for
    alternatives: tuple[Alternative, ...] = ()  # the same accelerators, had another way
    summary: str | None = None  # of a deployment judged by itself
    assumptions: tuple[Assumed, ...] = ()  # of the same
    verification: Verification | None = None  # of the same
    warnings: tuple[Notice, ...] = ()  # of the same
    hosted_api: HostedApi | None = None  # of the same
    packing: Packing | None = None  # with the companions asked for; of the first rank
    day: Day | None = None  # of the same and of the first recommendation, where the hours of one are told
    shared: SharedFleet | None = None  # where several classes share the service
    support: str | None = None  # how surely its software runs there; None where it does not
    rule: str = ""  # that keeps it from running


@dataclass(frozen=True, slots=True)
class Rival:
    """Another engine that comes near on the same accelerator: how much worse its ranking figure is, as a share."""

    engine: str
    weight_format: str | None
    worse: float


@dataclass(frozen=True, slots=True)
class Ranked:
    """`score` is 1 for the best and the share of its merit for the others."""

    rank: int
    score: float
    estimate: Estimate
    accelerator: Accelerator
    rival: Rival | None = None


@dataclass(frozen=True, slots=True)
class Considered:
    accelerators: int
    plans: int
    feasible_accelerators: int


@dataclass(frozen=True, slots=True)
class Change:
    """What would change with one thing changed. `request`: of a request, where that makes another type first."""

    change: str
    effect: str
    request: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    summary: str
    assumptions: tuple[Assumed, ...]
    warnings: tuple[Notice, ...]
    recommendations: tuple[Ranked, ...]
    rejected: tuple[Rejection, ...]
    rejected_by_code: Mapping[str, int]
    considered: Considered
    sensitivity: tuple[Change, ...]
    verification: Verification | None = None
    scaling: Curve | None = None  # of the first recommendation, in training
    cheaper_if: tuple[Cheaper, ...] = ()  # than the first recommendation
    hosted_api: HostedApi | None = None  # the same traffic, where somebody hosts the model


class Reached(IntEnum):
    """How far an accelerator type came: the kind of filter that no plan of it passed."""

    LEFT_OUT = 0  # by the caller
    UNSOLD = 1  # where it was asked for
    OFFERS = 2  # somebody sells it, with an engine and a layout for the model
    MEMORY = 3
    SPEED = 4
    LIMITS = 5  # of number, money and power


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why an accelerator type was turned down, with the shortfall of its nearest plan.

    `sentence` has places for the name, both numbers and the accelerators of that plan (`on`: so many, `each`: on each
    of so many); it is filled in where it is read, because few are. `reached` is how far the type came.
    """

    accelerator: str
    name: str
    code: str
    sentence: str
    needed: float | None = None
    available: float | None = None
    unit: str | None = None
    count: float = 1.0  # accelerators of the plan
    reached: Reached = Reached.OFFERS
    rule: str = ""  # of what runs where

    @property
    def text(self) -> str:
        """The reason in words."""
        numbers: dict[str, str] = {}
        if self.needed is not None and self.available is not None:
            needed, available = apart(self.needed, self.available)
            if self.unit == "days":
                needed, available = span(self.needed), span(self.available)
            numbers = {"needed": needed, "available": available}
        return self.sentence.format(
            name=self.name,
            on=counted(self.count, "accelerator"),
            each="one accelerator" if self.count == 1 else f"each of {self.count:,.0f} accelerators",
            **numbers,
        )

    @property
    def miss(self) -> float:
        """How far off: needed over available, infinite where there is no number."""
        if self.needed is None or self.available is None or self.needed <= 0:
            return np.inf
        if self.available <= 0:
            return 1e12
        return max(self.needed / self.available, self.available / self.needed)
