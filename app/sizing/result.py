"""Results as plain values in base units; the API rounds and renames them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from types import MappingProxyType
from typing import Any

import numpy as np

from app.sizing.assumptions import Assumed
from app.sizing.day_results import Day
from app.sizing.evidence import Neighbor, Setting
from app.sizing.formula import Step
from app.sizing.hardware.grids import Grid
from app.sizing.hardware.hosts import HostProcessor
from app.sizing.hardware.licenses import SourceLicense
from app.sizing.hardware.parts import Accelerator, Availability, PriceKind, PricingModel, Terms
from app.sizing.hardware.terms import LeadTime
from app.sizing.question import Deployment
from app.sizing.words import format_count, format_distinct_amounts, format_distinct_numbers, format_duration, percent


@dataclass(frozen=True, slots=True)
class HostedPrice:
    """Price of a model at a host, in USD per million tokens. Cached input without a price of its own costs as much as
    other input.
    """

    model: str
    provider: str
    usd_per_million_input: float
    usd_per_million_output: float
    usd_per_million_cached_input: float | None
    source: str
    observed: str


@dataclass(frozen=True, slots=True)
class HostedCost:
    """Cost of a workload at one host: per month for a service, in total for work that ends."""

    price: HostedPrice
    usd_per_million_tokens: float  # price per million tokens of this workload's mix of tokens
    usd_per_month: float | None = None
    usd_total: float | None = None


@dataclass(frozen=True, slots=True)
class HostedApi:
    """Comparison of hosted APIs with the recommended machines, cheapest host first."""

    text: str
    hosts: tuple[HostedCost, ...]
    pays_from_requests_per_s: float | None = None  # mean rate from which the recommended machines cost less


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Mean and percentiles in seconds; None if the queue never empties."""

    mean_s: float | None
    p50_s: float | None
    p95_s: float | None
    p99_s: float | None


@dataclass(frozen=True, slots=True)
class ClassLatencies:
    """Latencies of one traffic class on a shared service."""

    name: str
    ttft: Percentiles
    tpot: Percentiles
    e2e: Percentiles
    limits_met: bool
    within_per_s: float  # total rate of all classes that one replica serves within the limits of this class


@dataclass(frozen=True, slots=True)
class Simulation:
    """Results of simulating one replica's scheduler at the load; rates are for the whole deployment."""

    requests: int  # requests simulated at each load
    seed: int
    arrivals: str
    policy: str
    inter_token: Percentiles
    queue: Percentiles  # time from arrival to the start of prefill
    mean_batch: float  # mean batch size of a replica
    cache_occupancy: float  # share of the KV cache in use
    preemptions_per_request: float
    goodput_per_s: float  # rate of requests answered within the limits
    goodput_share: float  # share of requests answered within the limits


@dataclass(frozen=True, slots=True)
class LoadPoint:
    """Performance of a deployment at one load: a request rate or a number of requests in flight."""

    requests_per_s: float
    in_flight: float | None  # requests in flight of closed load; None for open load
    ttft_p50_s: float
    ttft_p95_s: float
    tpot_p50_s: float
    tpot_p95_s: float
    output_tokens_per_s: float
    goodput_share: float
    queue_p50_s: float = 0.0  # part of the TTFT before prefill starts
    queue_p95_s: float = 0.0


@dataclass(frozen=True, slots=True)
class LoadCurve:
    """Performance from light load to overload. Above the knee, p95 latency grows faster than throughput."""

    points: tuple[LoadPoint, ...]
    knee_per_s: float  # load at the knee, requests/s


@dataclass(frozen=True, slots=True)
class SeparateService:
    """The best service for one class only; fields are None if no service meets the limits."""

    name: str
    accelerator: str | None
    replicas: int | None
    usd_per_hour: float | None
    total_accelerators: int | None = None
    engine: str | None = None
    accelerator_name: str | None = None


@dataclass(frozen=True, slots=True)
class SharedFleet:
    """All classes on one service, and each on its own service."""

    replicas: int
    usd_per_hour: float | None
    by_class: tuple[ClassLatencies, ...]
    separate_services: tuple[SeparateService, ...]
    cheaper: str | None  # together or apart; None if a price is missing
    saving_usd_per_hour: float | None  # saving of the cheaper option, USD/h
    why: str

    @property
    def separate_usd_per_hour(self) -> float | None:
        """Price of all separate services in USD/h; None if one has no price."""
        return total_usd_per_hour(self.separate_services)


def total_usd_per_hour(services: tuple[SeparateService, ...]) -> float | None:
    """Total price of several services in USD/h; None if one has no price."""
    prices = [each.usd_per_hour for each in services if each.usd_per_hour is not None]
    return sum(prices) if len(prices) == len(services) else None


@dataclass(frozen=True, slots=True)
class Placement:
    """Share of an accelerator that a model uses, repeated on `cards` consecutive accelerators with the same
    division.
    """

    card: int  # number of the first accelerator, from 1
    cards: int  # consecutive accelerators with the same division
    name: str
    share_memory: float  # share of the accelerator's memory
    share_time: float  # share of the accelerator's compute time
    slice: str | None = None  # name of the partition in the driver, for a partitioned accelerator


@dataclass(frozen=True, slots=True)
class PackedModel:
    """How a model runs on its shares."""

    name: str
    engine: str
    weight_format: str
    replicas: int  # replicas, spares included


@dataclass(frozen=True, slots=True)
class Packing:
    """Models that share accelerators of one type, compared with each model on its own machines.

    Fields are None if there is no price or no packing.
    """

    cards: int | None
    machines: int | None
    usd_per_hour: float | None
    on: tuple[Placement, ...]
    models: tuple[PackedModel, ...]
    apart_usd_per_hour: float | None
    cheaper: str | None  # together or apart
    why: str

    @property
    def total_usd_per_hour(self) -> float | None:
        """Cost of all models, packed or separate, whichever is cheaper; None where neither is known."""
        ways = (self.usd_per_hour, self.apart_usd_per_hour)
        return min((usd for usd in ways if usd is not None), default=None)


@dataclass(frozen=True, slots=True)
class PoolLoad:
    """Utilization of one pool at the load, and its capacity within its limits."""

    utilization: float | None  # load over capacity
    requests_per_s_capacity: float  # capacity within the limits, requests/s


@dataclass(frozen=True, slots=True)
class Transfer:
    """Transfer of the KV cache of a mean prompt from the prefill pool to the decode pool."""

    request_bytes: float  # KV cache of a mean prompt, bytes
    seconds: float  # transfer time
    link: str  # "network", or "scale_up" if both pools share a scale-up domain
    bytes_per_s: float  # total transfer rate of the accelerators of a replica that send or receive in parallel
    requests_per_s_capacity: float
    utilization: float | None


@dataclass(frozen=True, slots=True)
class PoolSplit:
    """Both pools and the transfer between them."""

    prefill: PoolLoad
    decode: PoolLoad
    transfer: Transfer


QUANTITY_UNITS = {"parameters": "parameters", "sequence_length": "tokens", "micro_batch": "sequences"}


@dataclass(frozen=True, slots=True)
class MaximumThatFits:
    """The largest value that fits in memory, and the smallest tested value that does not."""

    quantity: str
    value: float
    too_large: float

    @property
    def unit(self) -> str:
        return QUANTITY_UNITS[self.quantity]


@dataclass(frozen=True, slots=True)
class LargestLoad:
    """The largest load within the limits of the request: its unit, its value, and its ratio to the requested load. For
    the largest model: its parameters, their ratio to those of the requested model, and its name.
    """

    quantity: str
    value: float
    times: float
    model: str | None = None


@dataclass(frozen=True, slots=True)
class ScalingPoint:
    """The fastest layout that fits on a number of accelerators."""

    accelerators: int
    days: float
    usd_total: float | None
    tokens_per_s: float
    efficiency: float  # speed per accelerator over the best speed per accelerator of this and smaller sizes


@dataclass(frozen=True, slots=True)
class ScalingCurve:
    """Speed and cost by number of accelerators. `knee` is the largest size whose last increase still pays off; `binds`
    names what limits the next size.
    """

    points: tuple[ScalingPoint, ...]
    knee: int
    minimum: int
    binds: str
    twice: ScalingPoint | None = None  # result with twice the chosen accelerators
    ends: str = ""  # why the curve ends


class AcquisitionOption(StrEnum):
    """Acquisition options: how hardware is rented or bought."""

    ON_DEMAND = "on_demand"
    ONE_YEAR = "committed_1y"
    THREE_YEARS = "committed_3y"
    SPOT = "spot"
    OWNED = "owned"


# Acquisition option of each pricing model; capacity reserved for some days is none of them.
OPTION_OF_PRICING: Mapping[PricingModel, AcquisitionOption] = MappingProxyType(
    {
        PricingModel.ON_DEMAND: AcquisitionOption.ON_DEMAND,
        PricingModel.RESERVED_1Y: AcquisitionOption.ONE_YEAR,
        PricingModel.COMMITTED_1Y: AcquisitionOption.ONE_YEAR,
        PricingModel.RESERVED_3Y: AcquisitionOption.THREE_YEARS,
        PricingModel.COMMITTED_3Y: AcquisitionOption.THREE_YEARS,
        PricingModel.SPOT: AcquisitionOption.SPOT,
        PricingModel.OWNED: AcquisitionOption.OWNED,
    }
)
# Risks of each acquisition option, and of price kinds that are no firm offers.
OPTION_RISKS: Mapping[AcquisitionOption, str] = MappingProxyType(
    {
        AcquisitionOption.ON_DEMAND: "",
        AcquisitionOption.ONE_YEAR: "one-year commitment, paid even if unused",
        AcquisitionOption.THREE_YEARS: "three-year commitment, paid even if unused",
        AcquisitionOption.SPOT: "the provider can interrupt it at any time",
        AcquisitionOption.OWNED: "upfront purchase, no resale value",
    }
)
UNQUOTED_RISKS: Mapping[PriceKind, str] = MappingProxyType(
    {
        PriceKind.SURVEY: "survey of sellers' prices: ask for a quote",
        PriceKind.BROKER: "marketplace price: hosts and availability vary",
        PriceKind.LAUNCH: "launch price: ask for the current price",
        PriceKind.PRESS: "press estimate: ask for a quote",
        PriceKind.ESTIMATE: "machine price estimated from parts and an assumed host",
    }
)


def describe_risk(way: AcquisitionOption, kind: PriceKind) -> str:
    """Risks of an acquisition option and a price kind in words; empty if there are none."""
    return "; ".join(words for words in (OPTION_RISKS[way], UNQUOTED_RISKS.get(kind, "")) if words)


@dataclass(frozen=True, slots=True)
class Alternative:
    """The same accelerators through another acquisition option.

    `break_even_month`: month from which owning has cost less than this rent (for an owned option: than the
    recommended rent); None if that never happens within the horizon. `ownable`: whether a purchase price is known.
    """

    way: AcquisitionOption
    provider: str
    region: str
    usd_per_hour: float
    purchase_usd: float | None
    kind: PriceKind
    observed: str
    ownable: bool
    break_even_month: float | None

    @property
    def risk(self) -> str:
        """Risks of this option in words."""
        return describe_risk(self.way, self.kind)


@dataclass(frozen=True, slots=True)
class Cheaper:
    """An option that costs less than the first recommendation if the buyer accepts something that is excluded by
    default.
    """

    accepting: str
    accelerator: str
    total_accelerators: int
    provider: str
    usd_per_hour: float
    usd_total: float | None  # total cost of work that ends, USD
    saves_share: float  # saving as a share of the first recommendation's cost
    kind: PriceKind
    observed: str
    risk: str


MONEY_UNITS = ("usd", "usd_per_hour")  # units of rejections that are shown as amounts of money


@dataclass(frozen=True, slots=True)
class Reason:
    """A sentence for the buyer with the number behind it."""

    code: str
    text: str
    quantity: str  # name of the number
    value: float
    unit: str


@dataclass(frozen=True, slots=True)
class Notice:
    """A warning of an answer."""

    code: str
    text: str


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """Memory of the fullest device in bytes; the parts sum to the total."""

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
    request_cache_bytes: float = 0.0  # KV cache of a mean request at its end, as a mean over the ranks of a replica
    prefix_cache_bytes: float | None = None  # part of the KV cache that holds prefixes of idle sessions
    idle_sessions: float | None = None  # idle sessions per replica
    host_weights_bytes: float | None = None  # weights of one replica in host memory
    host_cache_bytes: float | None = None  # cache of one sequence with the longest context in host memory
    host_usable_bytes: float | None = None  # usable host memory
    host_bytes: float | None = None  # host memory that a training run needs on one machine, if it offloads
    moments_bytes: Mapping[str, float] | None = None  # total at each moment of a training step
    activation_parts_bytes: Mapping[str, float] | None = None  # activations at the highest of these moments, by part

    @property
    def total_bytes(self) -> float:
        """Sum of the parts, bytes."""
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
    """80 % prediction interval of a quantity."""

    quantity: str  # name of the quantity
    low: float  # 10th percentile
    high: float  # 90th percentile
    statistic: str = "mean"  # statistic of the quantity; for a latency its percentile


@dataclass(frozen=True, slots=True)
class LevelDeployment:
    """A deployment that serves a confidence level at less cost than the one recommended; separate prefill and decode
    pools have no layout here.
    """

    accelerator: str
    accelerators_per_replica: int | None
    tensor_parallel: int | None
    pipeline_parallel: int | None
    data_parallel: int | None
    weight_format: str | None
    engine: str | None


@dataclass(frozen=True, slots=True)
class Unreachable:
    """Why no number of accelerators, or of those owned, reaches a confidence level, and what would."""

    why: str
    instead: str


@dataclass(frozen=True, slots=True)
class Level:
    """Accelerators and cost needed at one confidence; None where no number of accelerators is enough. More than the
    caller owns have no cost.
    """

    confidence: float
    total_accelerators: int | None
    usd_per_hour: float | None = None  # cost of a service, USD/h
    usd_total: float | None = None  # cost of a run at its duration at this confidence, USD
    deployment: LevelDeployment | None = None  # another deployment, where it serves this level at less cost
    unreachable: Unreachable | None = None  # why no number, or none that the caller has, is enough

    @property
    def cost(self) -> float:
        """Cost in USD, or the number of accelerators where there is no price; infinite where no number is enough."""
        spent = self.usd_total if self.usd_total is not None else self.usd_per_hour
        if self.total_accelerators is None or self.unreachable is not None:
            return math.inf
        return float(self.total_accelerators) if spent is None else spent

    def within_stock(self, owned: float) -> Level:
        """The level, without a cost if it needs more accelerators than the caller owns; infinite: hardware for sale."""
        if self.total_accelerators is None or self.total_accelerators <= owned:
            return self
        reason = Unreachable(
            f"It takes {self.total_accelerators:,} accelerators, and your inventory has {owned:,.0f}.",
            "More of them, a looser limit, another layout, or the benchmark in `verification` would reach it.",
        )
        return Level(self.confidence, self.total_accelerators, unreachable=reason)


class BillFactor(StrEnum):
    """Reasons for accelerators beyond those that the load needs at full speed, in the order of the bill."""

    PREDICTED = "predicted"  # the load at the rate from which queues never empty
    LIMITS = "limits"  # latency limits at the peak
    CONFIDENCE = "confidence"  # errors of the predictions
    RESERVE = "reserve"  # target utilization
    REDUNDANCY = "redundancy"  # spare replicas
    WHOLE_MACHINES = "whole_machines"  # whole replicas and whole machines


@dataclass(frozen=True, slots=True)
class CertaintyFactor:
    """One factor of the bill of certainty."""

    factor: BillFactor
    multiplier: float  # factor on the accelerators of the line before; 1 in the first line
    total_accelerators: float  # accelerators up to this line; whole only in the last line
    usd_per_hour: float | None  # their cost, USD/h; None without a price
    removed_by: str  # what would remove the factor; empty where it is 1


@dataclass(frozen=True, slots=True)
class Assurance:
    """Probability that a deployment meets each requirement; None where it was not requested."""

    asked: float  # requested confidence, 0 to 1
    fits: float  # probability that it fits in memory
    meets_slo: float | None  # probability that it meets the latency limits at the load
    meets_deadline: float | None  # probability that it meets the deadline
    by_level: tuple[Level, ...]  # size and cost at several confidences
    after: tuple[Level, ...] = ()  # the same at the requested confidence after each benchmark outcome
    bill: tuple[
        CertaintyFactor, ...
    ] = ()  # why the load gets that many accelerators; empty where the load is not carried


class Outcome(StrEnum):
    """How a benchmark may come out, from the least to the greatest speed."""

    SLOWER = "slower"  # by one standard deviation of the prediction
    AS_PREDICTED = "as_predicted"
    FASTER = "faster"  # by one standard deviation


@dataclass(frozen=True, slots=True)
class BenchmarkOutcome:
    """What one outcome of a benchmark would change."""

    outcome: Outcome
    rate: float  # what the benchmark reports, in `unit`
    unit: str
    total_accelerators: int | None  # at the requested confidence after this result; None: no number is enough
    usd_per_hour: float | None = None  # cost of a service, USD/h
    usd_total: float | None = None  # cost of a job that ends, USD


@dataclass(frozen=True, slots=True)
class Verification:
    """The one benchmark that would reduce the uncertainty most."""

    command: str  # command to run
    accelerator: str  # accelerator type
    accelerators: int  # number of accelerators
    minutes: float  # duration, minutes
    usd: float | None  # cost, USD
    decides: str  # what the result decides, as text
    after: tuple[BenchmarkOutcome, ...] = ()  # what each outcome would change


@dataclass(frozen=True, slots=True)
class PrefixCache:
    """Prefix cache of idle sessions that one replica keeps, or would keep, at the requested load.

    The `times_*` fields are the hardware that the same load needs without hits, or with twice the gap between turns, as
    a multiple of the plan; None where no amount meets the limits.
    """

    counted: bool  # whether hits are counted; otherwise every prompt is computed in full
    sessions: float  # idle sessions per replica
    bytes_per_replica: float  # cache of these sessions
    turn_gap_s: float  # time between turns of a session, s
    times_without_hits: float | None
    times_at_twice_the_gap: float | None
    host_bytes: float = 0.0  # host memory of one replica for copies of the cache


@dataclass(frozen=True, slots=True)
class ClusterNeeds:
    """What a cluster must provide in addition to accelerators and storage bandwidth."""

    network_bytes_per_s_per_node: float | None  # network bandwidth that the layout assumes; None for one machine
    checkpoint_capacity_bytes: float  # storage for checkpoints
    host_memory_bytes_per_node: float
    power_w: float
    cooling_w: float


@dataclass(frozen=True, slots=True)
class Performance:
    """Predicted performance of a deployment; fields that do not apply to its phase are None."""

    interval: Interval
    basis: str  # evidence class of the prediction
    intervals: tuple[Interval, ...] = ()  # intervals of the other predicted quantities
    sources: int | None = None  # independent sources for the runtime on the hardware family; 0: none for the engine
    output_tokens_per_s: float | None = None
    total_tokens_per_s: float | None = None
    prefill_tokens_per_s: float | None = None
    requests_per_s_capacity: float | None = None
    samples_per_s: float | None = None
    utilization_at_peak: float | None = None
    overloaded: bool | None = None  # whether the load exceeds the capacity within the limits
    batch_at_peak: float | None = None
    ttft: Percentiles | None = None
    tpot: Percentiles | None = None
    e2e: Percentiles | None = None
    simulation: Simulation | None = None
    load_curve: LoadCurve | None = None
    by_class: tuple[ClassLatencies, ...] = ()  # latencies by traffic class, where several share the service
    unstable_above_requests_per_s: float | None = None
    cold_start_s: float | None = None
    tokens_per_s: float | None = None
    tokens_per_s_per_accelerator: float | None = None
    step_time_s: float | None = None
    mfu: float | None = None
    step_breakdown_s: Mapping[str, float] | None = None
    scaling_efficiency: float | None = None
    days: float | None = None
    surely_days: float | None = None  # duration of work with an end at the requested confidence, days
    accelerator_hours: float | None = None
    checkpoint_bytes: float | None = None
    required_storage_bytes_per_s: float | None = None
    required_ingest_bytes_per_s: float | None = None
    expected_interruptions: float | None = None
    checkpoint_interval_s: float | None = None
    checkpoint_stall_s: float | None = None
    cluster: ClusterNeeds | None = None
    pools: PoolSplit | None = None  # separate prefill and decode pools


@dataclass(frozen=True, slots=True)
class Price:
    """Origin and age of a price."""

    terms: Terms
    pricing_model: str
    age_days: int | None = None  # age of the price, days; None where the day of the answer is unknown
    discount: float = 0.0  # discount of the request, 0 to 1
    countries: tuple[str, ...] | None = None  # where the machines may stand if no region is known, ISO 3166 codes
    trend_30d: float | None = None  # change of an observed price within 30 days, as a share of the earlier price
    availability: Availability | None = None  # capacity of the offer as last seen; None if no feed states it
    lead_time: LeadTime | None = None  # reported for purchased machines; None for rents and where no source has one

    @property
    def upfront_usd(self) -> float | None:
        """Upfront payment per machine after the discount, USD."""
        return None if self.terms.upfront_usd is None else self.terms.upfront_usd * (1 - self.discount)


@dataclass(frozen=True, slots=True)
class Part:
    """A line of the bill: a quantity with a price each or per hour, or without a price a quantity that other lines
    use.
    """

    what: str  # name of the line
    quantity: float
    unit_usd: float | None = None  # price each, USD
    usd_per_hour: float | None = None  # price each, USD/h


@dataclass(frozen=True, slots=True)
class Carbon:
    """Greenhouse gases of the electricity of a deployment and its building, CO2e, and the grid that they rest on.

    Scope 2 of the GHG Protocol by the location-based method.
    """

    kg: float  # over the period
    kg_per_million: float | None  # per million tokens or samples
    period: str  # "run" for work that ends, otherwise "month"
    grids: tuple[Grid, ...]  # one, or those of two pools


@dataclass(frozen=True, slots=True)
class CostSummary:
    """Money and energy; None where the catalog has no price.

    Where the workload states the hours of a day, money and energy are means of the day of a fleet that follows the
    load.
    """

    usd_per_hour: float | None
    usd_per_month: float | None
    usd_per_million: float | None
    usd_total: float | None
    purchase_usd: float | None
    power_w: float
    kwh_per_million: float | None
    tco_usd: float | None
    price: Price | None
    per_million: str = "tokens"  # unit of the price per million, as part of a field name
    million_of: str = "tokens"  # the same unit as text, such as "input and output tokens"
    parts: tuple[Part, ...] = ()  # lines of the bill, from which the amounts above follow
    usd_per_day: float | None = None  # cost of a day, where the workload states the hours of a day
    peak_usd_per_hour: float | None = None  # hourly cost at the peak, where the workload states the hours of a day
    average_power_w: float | None = None  # mean power of a day, where the workload states its hours, W
    carbon: Carbon | None = None  # None where the grid is unknown

    @property
    def full_usd_per_hour(self) -> float | None:
        """Hourly cost of the whole fleet, which runs at the peak, USD/h."""
        return self.usd_per_hour if self.usd_per_day is None else self.peak_usd_per_hour

    @property
    def mean_power_w(self) -> float:
        """Mean power of the machines that run, W."""
        return self.power_w if self.average_power_w is None else self.average_power_w


@dataclass(frozen=True, slots=True)
class Estimate:
    """Judgment of one deployment. `deployment` is complete: sent back to /estimate it gives the same numbers."""

    deployment: Deployment
    fits: bool
    memory: DeviceMemory | None
    performance: Performance | None
    bottleneck: str | None
    cost: CostSummary | None
    explanation: tuple[Reason, ...]
    trace: tuple[Step, ...] = ()
    nearest: tuple[Neighbor, ...] = ()
    scaling: ScalingCurve | None = None
    maximum: MaximumThatFits | None = None
    assurance: Assurance | None = None
    prefixes: PrefixCache | None = None  # where the request counts on cached prefixes of idle sessions
    alternatives: tuple[Alternative, ...] = ()  # other ways to acquire the same accelerators
    summary: str | None = None  # only for a deployment judged by itself
    assumptions: tuple[Assumed, ...] = ()  # only for a deployment judged by itself
    verification: Verification | None = None  # only for a deployment judged by itself
    warnings: tuple[Notice, ...] = ()  # only for a deployment judged by itself
    hosted_api: HostedApi | None = None  # only for a deployment judged by itself
    packing: Packing | None = None  # packing with the companions of the request
    day: Day | None = None  # course of a day, where the workload states its hours
    shared: SharedFleet | None = None  # comparison with separate services, where several classes share the service
    support: str | None = None  # support status of the software; None where it does not run
    rule: str = ""  # support rule that prevents the deployment from running
    setting: Setting | None = None  # one replica, or the run, as a measurement of it would describe it


@dataclass(frozen=True, slots=True)
class RunnerUp:
    """Another engine that is almost as good on the same accelerator."""

    engine: str
    weight_format: str | None
    worse: float  # how much worse its value of the objective is, as a share


@dataclass(frozen=True, slots=True)
class Ranked:
    """One recommendation of the ranking."""

    rank: int  # 1 is the best
    score: float  # 1 for the best; best objective value divided by this one for the others
    estimate: Estimate
    accelerator: Accelerator
    runner_up: RunnerUp | None = None  # another engine that is almost as good
    names: Mapping[str, str] = field(default_factory=dict)  # names of the accelerators and systems, by slug
    hosts: Mapping[str, HostProcessor] = field(default_factory=dict)  # hosts that are not x86-64, by accelerator name


@dataclass(frozen=True, slots=True)
class FleetGroup:
    """Replicas of one deployment that carry a share of a service's requests."""

    owned: bool  # whether the machines are the caller's own
    share: float  # share of the requests that the router sends here, 0 to 1
    first: Ranked  # the deployment, judged at its share of the load


@dataclass(frozen=True, slots=True)
class MixedFleet:
    """Groups of replicas behind one router, which sends each a fixed share of the requests."""

    groups: tuple[FleetGroup, ...]
    text: str
    requests_per_s_capacity: float | None  # rate at which the first group reaches its capacity, requests/s
    usd_per_hour: float  # mean cost of all groups over a day
    purchase_usd: float | None  # None if all are rented
    saves_share: float | None  # saving over the first option without the inventory; None if there is none


@dataclass(frozen=True, slots=True)
class Considered:
    """Counts of what the search evaluated."""

    accelerators: int  # accelerator types in the catalog
    plans: int  # plans evaluated
    feasible_accelerators: int  # accelerator types with a feasible plan


@dataclass(frozen=True, slots=True)
class Effect:
    """Effect of one changed requirement. `request` holds the request where the change makes another type the first."""

    change: str
    effect: str
    request: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer to a question: recommendations, rejections and explanations."""

    summary: str
    assumptions: tuple[Assumed, ...]
    warnings: tuple[Notice, ...]
    recommendations: tuple[Ranked, ...]
    rejected: tuple[Rejection, ...]
    rejected_by_code: Mapping[str, int]
    considered: Considered
    sensitivity: tuple[Effect, ...]
    verification: Verification | None = None
    scaling: ScalingCurve | None = None  # scaling of the first recommendation, for training
    cheaper_if: tuple[Cheaper, ...] = ()  # cheaper options under terms excluded by default
    hosted_api: HostedApi | None = None  # hosts of the model for the same traffic
    maximum: LargestLoad | None = None  # the load that the answer is for, if it was to be as large as possible
    licenses: tuple[SourceLicense, ...] = ()  # of the published sources that the answer shows
    mixed_fleet: MixedFleet | None = None  # where no deployment on owned machines is enough alone


class FilterStage(IntEnum):
    """The last filter that an accelerator type reached: no plan of the type passed it."""

    EXCLUDED = 0  # excluded by the request
    UNSOLD = 1  # not sold where the request allows
    OFFERS = 2  # sold, but without an engine and a layout for the model
    MEMORY = 3
    SPEED = 4
    LIMITS = 5  # limits on accelerators, money and power


BORDERLINE_PROBABILITY = 0.1  # a plan that is expected not to fit is borderline from this probability of fitting on


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why an accelerator type was rejected, with the shortfall of its nearest plan.

    `sentence` is a template with fields for the name, both numbers and the accelerators of that plan (`on`: "8
    accelerators", `each`: "each of 8 accelerators"). It is filled in on reading, because few rejections are read.
    """

    accelerator: str  # slug of the type
    name: str  # name of the type
    code: str  # reason code
    template: str  # template of the reason
    needed: float | None = None
    available: float | None = None
    unit: str | None = None  # unit of both numbers
    count: float = 1.0  # accelerators of the nearest plan
    stage: FilterStage = FilterStage.OFFERS  # last filter that the type reached
    rule: str = ""  # support rule that applies
    counted_as: str = "accelerator"  # what one of the accelerators is called when counted
    fit_probability: float = 0.0  # probability that the nearest plan fits in memory

    @property
    def text(self) -> str:
        """The reason as one or two sentences."""
        numbers: dict[str, str] = {}
        if self.needed is not None and self.available is not None:
            needed, available = format_distinct_numbers(self.needed, self.available)
            if self.unit == "days":
                needed, available = format_duration(self.needed), format_duration(self.available)
            if self.unit in MONEY_UNITS:
                needed, available = format_distinct_amounts(self.needed, self.available)
            numbers = {"needed": needed, "available": available}
        text = self.template.format(
            name=self.name,
            on=format_count(self.count, self.counted_as),
            each=f"one {self.counted_as}" if self.count == 1 else f"each of {self.count:,.0f} {self.counted_as}s",
            **numbers,
        )
        if self.fit_probability < BORDERLINE_PROBABILITY:
            return text
        return f"{text} This is borderline: it is {percent(self.fit_probability)} likely to fit."

    @property
    def shortfall_ratio(self) -> float:
        """Ratio of the needed and the available value, at least 1; infinite where there is no number."""
        if self.needed is None or self.available is None or self.needed <= 0:
            return np.inf
        if self.available <= 0:
            return 1e12
        return max(self.needed / self.available, self.available / self.needed)
