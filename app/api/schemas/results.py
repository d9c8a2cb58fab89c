"""Schemas of answer parts: latencies, load curves, memory, prices, a day, packing, scaling and alternatives."""

from __future__ import annotations

from operator import attrgetter
from typing import Annotated, Any, Literal

from pydantic import Field

from app.api.schemas.base import (
    CommitmentName,
    Component,
    PeakMomentName,
    PriceKindName,
    PricingName,
    ResponseModel,
    TrustName,
    WayName,
    WeightFormatName,
    round_value,
    with_examples,
)
from app.api.schemas.filing import StatusName
from app.api.schemas.origins import EMPTY, WHOLE, From, ResultModel
from app.catalog.outbox import STATUS
from app.sizing.columns import GIB
from app.sizing.day_results import (
    AutoscaledDay,
    ColdStart,
    Day,
    Failure,
    FailureMinute,
    FleetDay,
    Hour,
    ScaleOut,
    ZeroDay,
)
from app.sizing.hardware.parts import Availability
from app.sizing.hardware.terms import LeadTime
from app.sizing.result import (
    Alternative,
    Cheaper,
    DeviceMemory,
    HostedApi,
    HostedCost,
    LoadCurve,
    LoadPoint,
    PackedModel,
    Packing,
    Percentiles,
    Placement,
    Price,
    ScalingCurve,
    ScalingPoint,
    Simulation,
)
from app.sizing.words import source_name


class HourShown(ResultModel, of=Hour):
    """One hour of the day."""

    requests_per_s: Annotated[float, From(decimals=9, digits=4)]
    replicas: int = Field(
        description="Maximum number of running replicas in this hour if the fleet follows the load, including spares."
    )


class FixedShown(ResultModel, of=FleetDay):
    """A fleet of constant size all day."""

    replica_hours: Annotated[float, From(decimals=2)]
    usd_per_day: float | None = Field(description="Daily cost of the fleet; null without a price.")


class AutoscaledShown(FixedShown, of=AutoscaledDay):
    """A fleet that follows the load; each replica is paid for from the time it is ordered."""

    least_replicas: int
    warm_replicas: int = Field(
        description="Maximum number of replicas that run ahead of the load, because a start takes time."
    )
    saving_share: Annotated[float, From(decimals=4)] = Field(
        description="Share of the fixed fleet's cost that is saved; without a price, of its replica-hours."
    )
    note: str


class ScaleToZeroShown(FixedShown, of=ZeroDay):
    """An autoscaled fleet that stops all replicas when there are no requests."""

    idle_hours: Annotated[float, From(decimals=2)]
    first_request_ms: float = Field(
        description="Time to first token of the first request after an idle period, including the cold start."
    )


class StartPartsShown(ResponseModel):
    """Start time of a replica by component, in seconds."""

    machine: float
    image: float
    weights_read: float
    weights_to_device: float
    engine_start: float


class ColdStartShown(ResultModel, of=ColdStart):
    """Time from the order of a replica to its first request."""

    seconds: Annotated[float, From(decimals=1)]
    ten_at_once_seconds: Annotated[float, From("ten_at_once_s", decimals=1)]
    parts_s: Annotated[StartPartsShown, From(decimals=2)]


class ScaleOutShown(ResultModel, of=ScaleOut):
    """Whether replicas start as fast as the load rises."""

    fast_enough: bool = Field(
        description="True if the running replicas can serve the rising load until new replicas are ready."
    )
    steepest_requests_per_s_per_minute: Annotated[float, From("steepest_per_s_per_minute")]
    replicas_per_minute: float
    why: str


class FailureMinuteShown(ResultModel, of=FailureMinute):
    """One minute after a failure."""

    minute: int
    capacity_share: Annotated[float, From(decimals=4, digits=6)] = Field(
        description="Share of the replicas, including spares, that serve requests."
    )
    backlog_requests: Annotated[float, From(convert=round)]
    ttft_p95_ms: Annotated[float | None, From(decimals=0, digits=6)] = Field(
        None,
        description="95th percentile of TTFT for requests arriving in this minute; absent if no request is served.",
    )


class FailureShown(ResultModel, of=Failure):
    """A failure at the peak, minute by minute; an omitted minute equals the previous one."""

    what: str = Field(
        description="What fails: replica, machine or zone (if there are several); prefixed by the pool's name for "
        "pools.",
    )
    lost_replicas: int
    minutes: list[FailureMinuteShown]
    back_after_minutes: Annotated[float | None, From(decimals=2)] = Field(
        description="Time until all replicas are back and the queue is empty; null if machines need repair or the "
        "queue stays.",
    )


class DayShown(ResultModel, of=Day):
    """A fixed fleet compared with an autoscaled fleet, hour by hour, and how replicas start."""

    hours: list[HourShown]
    fixed: FixedShown
    autoscaled: AutoscaledShown
    scale_to_zero: ScaleToZeroShown
    cold_start: ColdStartShown
    scale_out: ScaleOutShown
    failures: list[FailureShown]
    cheaper: str = Field(description="The cheaper fleet: fixed or autoscaled.")


POINT_DIGITS = 4
WAITS = {"mean": 21.4, "p50": 18.2, "p95": 44.9, "p99": 71.3}
POINT = {
    "requests_per_s": 12.4,
    "ttft_ms": {"p50": 212, "p95": 640.2},
    "tpot_ms": {"p50": 24.1, "p95": 31.7},
    "output_tokens_per_s": 3174,
    "goodput_share": 0.998,
}
SIMULATED = {
    "requests": 10_000,
    "seed": 1,
    "arrivals": "poisson",
    "policy": "mixed",
    "inter_token_ms": WAITS,
    "queue_ms": WAITS,
    "mean_batch": 31.8,
    "cache_occupancy": 0.42,
    "preemptions_per_request": 0,
    "goodput_requests_per_s": 12.38,
    "goodput_share": 0.998,
}


class PercentilesShown(ResultModel, of=Percentiles):
    """Latencies in milliseconds; null if the queue never empties."""

    mean: Annotated[float | None, From("mean_s", times=1e3)]
    p50: Annotated[float | None, From("p50_s", times=1e3)]
    p95: Annotated[float | None, From("p95_s", times=1e3)]
    p99: Annotated[float | None, From("p99_s", times=1e3)]


class SimulationShown(ResultModel, of=Simulation):
    """Simulation of one replica's scheduler at the peak load."""

    model_config = with_examples(SIMULATED)

    requests: int = Field(description="Simulated requests at each load of the curve.")
    seed: int
    arrivals: str = Field(
        description="Arrival process: poisson, bursty, closed (fixed concurrency), burst (a finite run that starts at "
        "once) or trace."
    )
    policy: str = Field(description="How prefill and decode share steps: mixed, prefill_first or static.")
    inter_token_ms: Annotated[PercentilesShown, From("inter_token")] = Field(
        description="Time between two consecutive tokens."
    )
    queue_ms: Annotated[PercentilesShown, From("queue")] = Field(description="Time in the queue until prefill starts.")
    mean_batch: float = Field(description="Mean number of sequences that run concurrently on a replica.")
    cache_occupancy: float = Field(description="Mean share of the KV cache in use.")
    preemptions_per_request: float
    goodput_requests_per_s: Annotated[float, From("goodput_per_s")] = Field(
        description="Requests per second of the whole deployment that meet every limit."
    )
    goodput_share: float = Field(description="Share of requests that meet every limit.")


class MedianShown(ResponseModel):
    """Median and 95th percentile, in milliseconds."""

    model_config = with_examples({"p50": 212, "p95": 640.2})

    p50: float
    p95: float


def _median_of(name: str) -> From:
    """Median and 95th percentile of a latency of a load point."""
    both = attrgetter(f"{name}_p50_s", f"{name}_p95_s")

    def convert(point: LoadPoint) -> dict[str, Any]:
        p50, p95 = both(point)
        return {"p50": round_value(p50 * 1e3, POINT_DIGITS), "p95": round_value(p95 * 1e3, POINT_DIGITS)}

    return From(WHOLE, convert=convert)


ROUGH = From(digits=POINT_DIGITS)


class LoadPointShown(ResultModel, of=LoadPoint):
    """Behavior of the whole deployment at one load."""

    model_config = with_examples(POINT)

    requests_per_s: Annotated[float, ROUGH]
    in_flight: Annotated[float | None, ROUGH] = Field(None, description="Requests in flight, for fixed concurrency.")
    ttft_ms: Annotated[MedianShown, _median_of("ttft")]
    tpot_ms: Annotated[MedianShown, _median_of("tpot")]
    output_tokens_per_s: Annotated[float, ROUGH]
    goodput_share: Annotated[float, ROUGH]


class LoadCurveShown(ResultModel, of=LoadCurve):
    """Behavior of this deployment from light load to overload."""

    model_config = with_examples({"points": [POINT], "knee_requests_per_s": 14.2})

    points: list[LoadPointShown]
    knee_requests_per_s: Annotated[float, From("knee_per_s")] = Field(
        description="Load above which p95 latency grows faster than throughput."
    )


DeploymentPatch = Annotated[dict[str, Any], Field(examples=[{"tensor_parallel": 4}]), Component("DeploymentPatch")]
Metrics = Annotated[
    dict[str, str], Field(examples=[{"ttft_ms": "time from the request to its first token"}]), Component("Metrics")
]
RequestPatch = Annotated[
    dict[str, Any], Field(examples=[{"constraints": {"environment": "on_prem"}}]), Component("RequestPatch")
]
WorkloadOfPhase = Annotated[
    dict[str, Any],
    Field(examples=[{"training_tokens": 1e12, "deadline_days": 30}]),
    Component("WorkloadOfPhase"),
]


def _gib_of(name: str) -> From:
    return From(name, per=GIB, decimals=4)


class MemoryPartsShown(ResultModel, of=DeviceMemory):
    """Memory of the fullest accelerator in GiB; the components sum to the total."""

    weights: Annotated[float, _gib_of("weights_bytes")]
    kv_cache: Annotated[float, _gib_of("kv_cache_bytes")]
    activations: Annotated[float, _gib_of("activation_bytes")]
    overhead: Annotated[float, _gib_of("overhead_bytes")]
    gradients: Annotated[float, _gib_of("gradient_bytes")]
    optimizer: Annotated[float, _gib_of("optimizer_bytes")]
    total: Annotated[float, _gib_of("total_bytes")]
    capacity: Annotated[float, _gib_of("capacity_bytes")]
    usable: Annotated[float, _gib_of("usable_bytes")]


class HostMemoryShown(ResultModel, of=DeviceMemory):
    """Host memory of one replica in GiB."""

    model_config = with_examples({"weights": 18.2936, "cache": 0.1129, "usable": 153.6})

    weights: Annotated[float, _gib_of("host_weights_bytes")]
    cache: Annotated[float, _gib_of("host_cache_bytes")] = Field(
        description="KV cache of one sequence of the longest context, for the layers with weights in host memory."
    )
    usable: Annotated[float, _gib_of("host_usable_bytes")]


class MomentsShown(ResponseModel):
    """Memory of the fullest accelerator in GiB at each moment of a training step; the highest is the total."""

    model_config = with_examples({"loss": 60.1, "backward": 58.7, "gradients": 43.9, "update": 43.8})

    loss: float = Field(description="End of the forward pass: every activation, and the logits.")
    backward: float = Field(
        description="Start of the backward pass: nothing is freed yet, and one layer is recomputed."
    )
    gradients: float = Field(description="End of the backward pass: all gradients.")
    update: float = Field(description="Optimizer step: update of the weights.")


class ActivationPartsShown(ResponseModel):
    """Components of the activations in GiB at the peak of a training step; they sum to the activations."""

    model_config = with_examples({"kept": 17.1, "working": 0.1, "logits": 5.9, "gathered": 2.4, "update": 0.0})

    kept: float = Field(description="Kept for the backward pass, for all micro-batches in flight.")
    working: float = Field(description="Working memory of the current layer, or of the last norm.")
    logits: float
    gathered: float = Field(description="Weights that were all-gathered or converted for use.")
    update: float = Field(description="Temporary tensors of the optimizer.")


def _memory_parts(memory: DeviceMemory) -> dict[str, Any]:
    """Memory by component; the total is the sum of the rounded components."""
    shown = MemoryPartsShown.as_json(memory)
    total = sum(gib for name, gib in shown.items() if name not in ("total", "capacity", "usable"))
    return shown | {"total": round(total, 4)}


def _uses_host_memory(memory: DeviceMemory) -> bool:
    return memory.host_weights_bytes is not None or memory.host_bytes is not None


def _host_memory(memory: DeviceMemory) -> dict[str, Any] | float:
    return HostMemoryShown.as_json(memory) if memory.host_bytes is None else round_value(memory.host_bytes / GIB)


HostMemory = Annotated[HostMemoryShown | float, Component("HostMemory")]


class MemoryShown(ResultModel, of=DeviceMemory):
    """Memory use of the fullest accelerator and of the host."""

    per_accelerator_gib: Annotated[MemoryPartsShown, From(WHOLE, convert=_memory_parts)]
    kv_cache_tokens: Annotated[int | None, From(convert=int)] = None
    max_concurrent_sequences: Annotated[int | None, From(convert=int)] = Field(
        None,
        description="Sequences of the longest context per replica that fit next to the prefixes of idle sessions.",
    )
    prefix_cache_gib: float | None = Field(
        None, description="Part of one accelerator's KV cache that prefixes of idle sessions fill at this load."
    )
    idle_sessions: float | None = Field(
        None, description="Idle sessions whose prefixes a replica keeps between turns at this load."
    )
    host_gib: Annotated[HostMemory | None, From(WHOLE, convert=_host_memory, when=_uses_host_memory)] = None
    peak_moment: Annotated[PeakMomentName | None, From("moments_bytes", convert=lambda m: max(m, key=m.get))] = Field(
        None, description="Moment of a training step with the highest memory use."
    )
    moments_gib: Annotated[MomentsShown | None, From(decimals=2)] = None
    activation_parts_gib: Annotated[ActivationPartsShown | None, From(decimals=2)] = None


DATA = {
    "id": "rec_0123456789abcdef0123456789ab",
    "status": "approved",
    "label": "chat, second site",
    "reference": "PR-2026-0417",
    "cost_centre": "4711",
    "model": "meta-llama/Llama-3.1-70B-Instruct",
    "option": "8 x NVIDIA H200 SXM 141GB",
    "accelerators": ["nvidia-h200-sxm-141gb"],
    "changed_by": "J. Doe",
    "note": "Board of 20 November.",
}


class NoticeData(ResponseModel):
    """A stored answer at the time of the event; fields without a value are omitted."""

    model_config = with_examples(DATA)

    id: str = Field(description="ID of the recommendation; GET /recommendations/{id} returns the answer.")
    status: StatusName = Field(description="Approval status after the event.")
    label: str | None = Field(None, description="Label from the request.")
    reference: str | None = Field(None, description="Reference from the request.")
    cost_centre: str | None = Field(None, description="Cost center from the request.")
    model: str | None = Field(None, description="Model that the answer is for.")
    option: str | None = Field(None, description="The first rank in words; absent if nothing was feasible.")
    accelerators: list[str] = Field(description="Accelerators of the first rank; empty if nothing was feasible.")
    changed_by: str | None = Field(None, description="Who changed the status.")
    note: str | None = Field(
        None, description="Reason given for the change of status, or what has changed about the plan."
    )
    superseded_by: str | None = Field(None, description="ID of the recommendation that replaced this one.")
    changes: list[Literal["offer_gone", "cheaper_plan"]] | None = Field(
        None, description="For a plan that was checked: codes of the findings."
    )


class Notice(ResponseModel):
    """One event as posted to a webhook, signed with the headers of Standard Webhooks."""

    model_config = with_examples({"type": STATUS, "timestamp": "2026-11-21T09:30:00.123456+00:00", "data": DATA})

    type: Annotated[
        Literal["recommendation.stored", "recommendation.status", "recommendation.standing"], Component("EventType")
    ] = Field(description="The kind of event that happened.")
    timestamp: str = Field(description="Time of the event, RFC 3339.")
    data: NoticeData


class PlacedShown(ResultModel, of=Placement):
    """A model's share of a card, and of the following cards with the same division."""

    model_config = with_examples({"card": 1, "name": "chat", "share_memory": 0.6, "share_time": 0.7})

    card: int
    cards: Annotated[int | None, From(when=lambda placed: placed.cards > 1)] = Field(
        None, description="Number of cards from `card` on with the same division; absent for one card."
    )
    name: str
    share_memory: float = Field(
        description="Memory share of each card that its engine may use; for a slice, the slice's share."
    )
    share_time: float = Field(description="Share of the card's time; for a slice, its share of the compute.")
    slice: str | None = Field(None, description="MIG profile, if the card is partitioned.")


class PackedShown(ResultModel, of=PackedModel):
    """How a model runs in its shares."""

    model_config = with_examples(
        {
            "name": "embeddings",
            "engine": "vllm",
            "weight_format": "bf16",
            "replicas": 1,
        }
    )

    name: str
    engine: str
    weight_format: WeightFormatName
    replicas: int = Field(description="Replicas including spares, at most one per card.")


class PackingShown(ResultModel, of=Packing):
    """The model and its companions on shared cards, compared with each on its own cheapest machines."""

    model_config = with_examples(
        {
            "cards": 1,
            "machines": 1,
            "usd_per_hour": 2.5,
            "on": [{"card": 1, "name": "chat", "share_memory": 0.6, "share_time": 0.7}],
            "models": [],
            "apart_usd_per_hour": 3.4,
            "cheaper": "together",
            "why": "2 models share 1 × NVIDIA H100 SXM5 80GB for 2.50 USD/h.",
        }
    )

    cards: int | None = Field(
        None, description="Number of cards; absent if a model cannot run on one card of this type."
    )
    machines: int | None = None
    usd_per_hour: float | None = None
    on: list[PlacedShown]
    models: list[PackedShown]
    apart_usd_per_hour: float | None = None
    cheaper: str | None = Field(None, description="Cheaper variant: `together` or `apart`.")
    why: str


class AvailabilityShown(ResultModel, of=Availability):
    """Capacity of the offer as a price feed last saw it."""

    model_config = with_examples({"state": "low", "quantity": 4, "seen_at": "2026-11-20T12:00:00Z"})

    state: Literal["available", "low", "none", "unknown"] = Field(description="available, low, none or unknown.")
    quantity: int | None = Field(None, description="Number of machines; absent if the feed does not state it.")
    seen_at: str = Field(description="When the feed stated it, RFC 3339 UTC.")


class LeadTimeShown(ResultModel, of=LeadTime):
    """Weeks from order to delivery that a public source reports. Ask the seller for yours."""

    model_config = with_examples(
        {"weeks_low": 8, "weeks_high": 16, "seller": "NVIDIA partners", "source": "a page", "as_of": "2026-05-01"}
    )

    weeks_low: float = Field(description="Shortest reported time, in weeks.")
    weeks_high: float | None = Field(None, description="Absent if the source states no upper end.")
    seller: str = Field(description="Whose deliveries it is about.")
    source: str
    as_of: str = Field(description="Day on which it was reported.")


class PriceShown(ResultModel, of=Price):
    """Kind, source, age and terms of the price that is paid."""

    kind: Annotated[PriceKindName, From("terms.kind")] = Field(
        description="A seller has published or quoted provider, reseller, quote and list prices; survey, broker, "
        "launch, press and estimate prices are not firm. Answers of earlier versions say `reckoned` for `estimate`."
    )
    source: Annotated[str, From("terms.source", convert=lambda sources: source_name(sources).partition(";")[0])]
    observed: Annotated[str, From("terms.observed")] = Field(
        description="When the price was observed: a day, month or year."
    )
    as_of: Annotated[str, From("terms.observed")] = Field(description="Same value as observed.")
    age_days: int | None = Field(None, description="Days from observed to the day of the request, or to its as_of.")
    confidence: Annotated[TrustName, From("terms.confidence")] = Field(
        description="Confidence that the seller asks this price: high, medium or low."
    )
    min_quantity: Annotated[int, From("terms.min_quantity")] = Field(
        1, description="Minimum number of machines per order."
    )
    max_quantity: Annotated[int | None, From("terms.max_quantity")] = Field(
        None, description="Maximum number of machines; absent if unknown."
    )
    pricing_model: PricingName
    commitment: Annotated[CommitmentName, From("terms.commitment")] = Field(
        description="Length of the commitment: none, 1y or 3y."
    )
    upfront_usd: float | None = Field(None, description="Upfront payment for one machine; included in usd_per_hour.")
    trend_30d: float | None = Field(
        None,
        description="Change of the observed price within 30 days, as a share: -0.1 is 10 % less. Absent for "
        "prices that no feed has observed.",
    )
    countries: list[str] | None = Field(
        None,
        description="Countries, as ISO 3166 codes, in one of which the provider places the machines; absent if the "
        "region is known, or the countries are not.",
    )
    discount: Annotated[float | None, From(omit=EMPTY)] = Field(
        None, description="Discount from the request; every figure includes it."
    )
    lead_time: LeadTimeShown | None = Field(
        None, description="Reported lead time of purchased machines; absent for rents and if no source reports one."
    )


class PointShown(ResultModel, of=ScalingPoint):
    """The run at one size."""

    accelerators: int
    days: float
    usd_total: float | None = None
    tokens_per_s: float = Field(
        description="Training tokens per second; samples per second for models that process samples."
    )
    efficiency: Annotated[float, From(decimals=4, digits=6)] = Field(
        description="Throughput per accelerator relative to the smallest size."
    )


class ScalingShown(ResultModel, of=ScalingCurve):
    """The fastest layout that fits at each size, with the same global batch."""

    points: list[PointShown]
    knee_accelerators: Annotated[int, From("knee")] = Field(
        description="Largest size at which the last increase still gained 70 % of ideal scaling."
    )
    minimum_accelerators: Annotated[int, From("minimum")] = Field(
        description="Smallest evaluated size on which any layout fits."
    )
    binds: str = Field(description="What limits the gain of the next larger size.")


class AlternativeShown(ResultModel, of=Alternative):
    """The same number of the same accelerators, acquired in another way."""

    way: WayName = Field(description="How it is acquired: on_demand, committed_1y, committed_3y, spot or owned.")
    provider: str
    region: str
    usd_per_hour: float
    purchase_usd: float | None = Field(None, description="Purchase cost, if owned.")
    kind: PriceKindName = Field(description="Kind of price.")
    observed: str
    break_even_month: Annotated[float | None, From(decimals=1, when=lambda option: option.ownable, null=True)] = Field(
        None,
        description="Month from which owning has cost less than this rental, or than the recommended rental if this "
        "option is owned. Null if there is none within the horizon; absent if no purchase price is known.",
    )
    risk: Annotated[str | None, From(omit=EMPTY)] = None


class CheaperShown(ResultModel, of=Cheaper):
    """An option that would cost less than the first recommendation if you accept one more condition."""

    if_: Annotated[str, From("accepting")] = Field(alias="if")
    accelerator: str
    total_accelerators: int
    provider: str
    usd_per_hour: float
    usd_total: float | None = Field(None, description="Total cost of finite work.")
    saves_share: Annotated[float, From(decimals=3, digits=6)] = Field(
        description="Share of the first recommendation's cost for the same work."
    )
    kind: PriceKindName = Field(description="Kind of price.")
    observed: str
    risk: str


class HostShown(ResultModel, of=HostedCost):
    """An API provider that hosts the model and charges by the token."""

    provider: Annotated[str, From("price.provider")]
    usd_per_million_input: Annotated[float, From("price.usd_per_million_input")]
    usd_per_million_output: Annotated[float, From("price.usd_per_million_output")]
    usd_per_million_cached_input: Annotated[float | None, From("price.usd_per_million_cached_input")] = None
    usd_per_million_tokens: float = Field(
        description="Cost per million tokens of this traffic, input and output together."
    )
    usd_per_month: float | None = None
    usd_total: float | None = Field(None, description="Total cost of finite work.")


class HostedApiShown(ResultModel, of=HostedApi):
    """Cost of the same traffic at the cheapest API providers of the model, which charge by the token."""

    text: str
    hosts: list[HostShown]
    pays_from_requests_per_s: float | None = Field(
        None, description="Mean load above which your own machines cost less than the cheapest API provider."
    )
    source: Annotated[str, From("hosts", convert=lambda hosts: hosts[0].price.source.split(" ")[0])]
    observed: Annotated[str, From("hosts", convert=lambda hosts: hosts[0].price.observed)]
