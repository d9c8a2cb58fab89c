"""Schemas of answer parts: latencies, load curves, memory, prices, a day, packing, scaling and alternatives."""

from __future__ import annotations

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
    rounded_fields,
    with_examples,
)
from app.api.schemas.filing import StatusName
from app.api.schemas.traffic import shared_json
from app.catalog.outbox import STATUS
from app.sizing.columns import GIB
from app.sizing.result import (
    Alternative,
    Cheaper,
    Day,
    DeviceMemory,
    Estimate,
    Failure,
    FleetDay,
    HostedApi,
    HostedCost,
    LoadCurve,
    LoadPoint,
    Packing,
    Percentiles,
    Price,
    Simulation,
)


class HourShown(ResponseModel):
    """One hour of the day."""

    requests_per_s: float
    replicas: int = Field(
        description="Maximum number of running replicas in this hour if the fleet follows the load, including spares."
    )


class FixedShown(ResponseModel):
    """A fleet of constant size all day."""

    replica_hours: float
    usd_per_day: float | None = Field(description="Daily cost of the fleet; null without a price.")


class AutoscaledShown(FixedShown):
    """A fleet that follows the load; each replica is paid for from the time it is ordered."""

    least_replicas: int
    warm_replicas: int = Field(
        description="Maximum number of replicas that run ahead of the load, because a start takes time."
    )
    saving_share: float = Field(
        description="Share of the fixed fleet's cost that is saved; without a price, of its replica-hours."
    )
    note: str


class ScaleToZeroShown(FixedShown):
    """An autoscaled fleet that stops all replicas when there are no requests."""

    idle_hours: float
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


class ColdStartShown(ResponseModel):
    """Time from the order of a replica to its first request."""

    seconds: float
    ten_at_once_seconds: float
    parts_s: StartPartsShown


class ScaleOutShown(ResponseModel):
    """Whether replicas start as fast as the load rises."""

    fast_enough: bool = Field(
        description="True if the running replicas can serve the rising load until new replicas are ready."
    )
    steepest_requests_per_s_per_minute: float
    replicas_per_minute: float
    why: str


class FailureMinuteShown(ResponseModel):
    """One minute after a failure."""

    minute: int
    capacity_share: float = Field(description="Share of the replicas, including spares, that serve requests.")
    backlog_requests: float
    ttft_p95_ms: float | None = Field(
        None,
        description="95th percentile of TTFT for requests arriving in this minute; absent if no request is served.",
    )


class FailureShown(ResponseModel):
    """A failure at the peak, minute by minute; an omitted minute equals the previous one."""

    what: str = Field(
        description="What fails: replica, machine or zone (if there are several); prefixed by the pool's name for "
        "pools.",
    )
    lost_replicas: int
    minutes: list[FailureMinuteShown]
    back_after_minutes: float | None = Field(
        description="Time until all replicas are back and the queue is empty; null if machines need repair or the "
        "queue stays.",
    )


class DayShown(ResponseModel):
    """A fixed fleet compared with an autoscaled fleet, hour by hour, and how replicas start."""

    hours: list[HourShown]
    fixed: FixedShown
    autoscaled: AutoscaledShown
    scale_to_zero: ScaleToZeroShown
    cold_start: ColdStartShown
    scale_out: ScaleOutShown
    failures: list[FailureShown]
    cheaper: str = Field(description="The cheaper fleet: fixed or autoscaled.")


def _fleet_json(fleet: FleetDay) -> dict[str, Any]:
    return {"replica_hours": round(fleet.replica_hours, 2), "usd_per_day": round_value(fleet.usd_per_day)}


def _failure_json(failure: Failure) -> dict[str, Any]:
    minutes = [
        rounded_fields(
            minute=m.minute,
            capacity_share=round(m.capacity_share, 4),
            backlog_requests=round(m.backlog_requests),
            ttft_p95_ms=None if m.ttft_p95_s is None else float(round(m.ttft_p95_s * 1e3)),
        )
        for m in failure.minutes
    ]
    back = failure.back_after_minutes
    return {
        "what": failure.what,
        "lost_replicas": failure.lost_replicas,
        "minutes": minutes,
        "back_after_minutes": None if back is None else round(back, 2),
    }


def day_json(day: Day | None) -> dict[str, Any] | None:
    """A day of a deployment as JSON, or None if it has no daily profile."""
    if day is None:
        return None
    follows, zero, start, out = day.autoscaled, day.scale_to_zero, day.cold_start, day.scale_out
    return {
        "hours": [
            {"requests_per_s": round_value(round(h.requests_per_s, 9), 4), "replicas": h.replicas} for h in day.hours
        ],
        "fixed": _fleet_json(day.fixed),
        "autoscaled": {
            **_fleet_json(follows),
            "least_replicas": follows.least_replicas,
            "warm_replicas": follows.warm_replicas,
            "saving_share": round(follows.saving_share, 4),
            "note": follows.note,
        },
        "scale_to_zero": {
            **_fleet_json(zero),
            "idle_hours": round(zero.idle_hours, 2),
            "first_request_ms": round_value(zero.first_request_s * 1e3),
        },
        "cold_start": {
            "seconds": round(start.seconds, 1),
            "ten_at_once_seconds": round(start.ten_at_once_s, 1),
            "parts_s": {name: round(seconds, 2) for name, seconds in start.parts_s.items()},
        },
        "scale_out": {
            "fast_enough": out.fast_enough,
            **rounded_fields(
                steepest_requests_per_s_per_minute=out.steepest_per_s_per_minute,
                replicas_per_minute=out.replicas_per_minute,
                why=out.why,
            ),
        },
        "failures": [_failure_json(failure) for failure in day.failures],
        "cheaper": day.cheaper,
    }


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


class PercentilesShown(ResponseModel):
    """Latencies in milliseconds; null if the queue never empties."""

    mean: float | None
    p50: float | None
    p95: float | None
    p99: float | None


class SimulationShown(ResponseModel):
    """Simulation of one replica's scheduler at the peak load."""

    model_config = with_examples(SIMULATED)

    requests: int = Field(description="Simulated requests at each load of the curve.")
    seed: int
    arrivals: str = Field(
        description="Arrival process: poisson, bursty, closed (fixed concurrency), burst (a finite run that starts at "
        "once) or trace."
    )
    policy: str = Field(description="How prefill and decode share steps: mixed, prefill_first or static.")
    inter_token_ms: PercentilesShown = Field(description="Time between two consecutive tokens.")
    queue_ms: PercentilesShown = Field(description="Time in the queue until prefill starts.")
    mean_batch: float = Field(description="Mean number of sequences that run concurrently on a replica.")
    cache_occupancy: float = Field(description="Mean share of the KV cache in use.")
    preemptions_per_request: float
    goodput_requests_per_s: float = Field(
        description="Requests per second of the whole deployment that meet every limit."
    )
    goodput_share: float = Field(description="Share of requests that meet every limit.")


class MedianShown(ResponseModel):
    """Median and 95th percentile, in milliseconds."""

    model_config = with_examples({"p50": 212, "p95": 640.2})

    p50: float
    p95: float


class LoadPointShown(ResponseModel):
    """Behavior of the whole deployment at one load."""

    model_config = with_examples(POINT)

    requests_per_s: float
    in_flight: float | None = Field(None, description="Requests in flight, for fixed concurrency.")
    ttft_ms: MedianShown
    tpot_ms: MedianShown
    output_tokens_per_s: float
    goodput_share: float


class LoadCurveShown(ResponseModel):
    """Behavior of this deployment from light load to overload."""

    model_config = with_examples({"points": [POINT], "knee_requests_per_s": 14.2})

    points: list[LoadPointShown]
    knee_requests_per_s: float = Field(description="Load above which p95 latency grows faster than throughput.")


def percentiles_json(p: Percentiles) -> dict[str, Any]:
    values = {"mean": p.mean_s, "p50": p.p50_s, "p95": p.p95_s, "p99": p.p99_s}
    return {k: None if v is None else round_value(v * 1e3) for k, v in values.items()}


def simulation_json(s: Simulation) -> dict[str, Any]:
    return {
        "requests": s.requests,
        "seed": s.seed,
        "arrivals": s.arrivals,
        "policy": s.policy,
        "inter_token_ms": percentiles_json(s.inter_token),
        "queue_ms": percentiles_json(s.queue),
        "mean_batch": round_value(s.mean_batch),
        "cache_occupancy": round_value(s.cache_occupancy),
        "preemptions_per_request": round_value(s.preemptions_per_request),
        "goodput_requests_per_s": round_value(s.goodput_per_s),
        "goodput_share": round_value(s.goodput_share),
    }


def point_json(p: LoadPoint) -> dict[str, Any]:
    """A point of the load curve as JSON, rounded to four significant digits."""

    def to_shown(value: float) -> Any:
        return round_value(value, POINT_DIGITS)

    return {
        "requests_per_s": to_shown(p.requests_per_s),
        **({} if p.in_flight is None else {"in_flight": to_shown(p.in_flight)}),
        "ttft_ms": {"p50": to_shown(p.ttft_p50_s * 1e3), "p95": to_shown(p.ttft_p95_s * 1e3)},
        "tpot_ms": {"p50": to_shown(p.tpot_p50_s * 1e3), "p95": to_shown(p.tpot_p95_s * 1e3)},
        "output_tokens_per_s": to_shown(p.output_tokens_per_s),
        "goodput_share": to_shown(p.goodput_share),
    }


def load_curve_json(c: LoadCurve) -> dict[str, Any]:
    return {"points": [point_json(p) for p in c.points], "knee_requests_per_s": round_value(c.knee_per_s)}


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


class MemoryPartsShown(ResponseModel):
    """Memory of the fullest accelerator in GiB; the components sum to the total."""

    weights: float
    kv_cache: float
    activations: float
    overhead: float
    gradients: float
    optimizer: float
    total: float
    capacity: float
    usable: float


class HostMemoryShown(ResponseModel):
    """Host memory of one replica in GiB."""

    model_config = with_examples({"weights": 18.2936, "cache": 0.1129, "usable": 153.6})

    weights: float
    cache: float = Field(
        description="KV cache of one sequence of the longest context, for the layers with weights in host memory."
    )
    usable: float


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


class MemoryShown(ResponseModel):
    """Memory use of the fullest accelerator and of the host."""

    per_accelerator_gib: MemoryPartsShown
    kv_cache_tokens: int | None = None
    max_concurrent_sequences: int | None = Field(
        None,
        description="Sequences of the longest context per replica that fit next to the prefixes of idle sessions.",
    )
    prefix_cache_gib: float | None = Field(
        None, description="Part of one accelerator's KV cache that prefixes of idle sessions fill at this load."
    )
    idle_sessions: float | None = Field(
        None, description="Idle sessions whose prefixes a replica keeps between turns at this load."
    )
    host_gib: HostMemoryShown | None = None
    peak_moment: PeakMomentName | None = Field(
        None, description="Moment of a training step with the highest memory use."
    )
    moments_gib: MomentsShown | None = None
    activation_parts_gib: ActivationPartsShown | None = None


def memory_json(m: DeviceMemory) -> dict[str, Any]:
    """Memory use as JSON."""
    parts = {
        "weights": m.weights_bytes,
        "kv_cache": m.kv_cache_bytes,
        "activations": m.activation_bytes,
        "overhead": m.overhead_bytes,
        "gradients": m.gradient_bytes,
        "optimizer": m.optimizer_bytes,
        "total": m.total_bytes,
        "capacity": m.capacity_bytes,
        "usable": m.usable_bytes,
    }
    shown = {k: round(v / GIB, 4) for k, v in parts.items()}
    shown["total"] = round(sum(v for k, v in shown.items() if k not in ("total", "capacity", "usable")), 4)
    counts = {"kv_cache_tokens": m.kv_cache_tokens, "max_concurrent_sequences": m.max_concurrent_sequences}
    values: dict[str, Any] = {"per_accelerator_gib": shown, **{k: int(v) for k, v in counts.items() if v is not None}}
    if m.prefix_cache_bytes is not None and m.idle_sessions is not None:
        values |= {
            "prefix_cache_gib": round_value(m.prefix_cache_bytes / GIB),
            "idle_sessions": round_value(m.idle_sessions),
        }
    if m.moments_bytes is not None:
        values["peak_moment"] = max(m.moments_bytes, key=m.moments_bytes.__getitem__)
        for name, parts_of in (("moments", m.moments_bytes), ("activation_parts", m.activation_parts_bytes or {})):
            values[f"{name}_gib"] = {k: round(v / GIB, 2) for k, v in parts_of.items()}
    host = {"weights": m.host_weights_bytes, "cache": m.host_cache_bytes, "usable": m.host_usable_bytes}
    if m.host_weights_bytes is not None:
        values["host_gib"] = {k: round(v / GIB, 4) for k, v in host.items() if v is not None}
    return values


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
    note: str | None = Field(None, description="Reason given for the change of status.")
    superseded_by: str | None = Field(None, description="ID of the recommendation that replaced this one.")


class Notice(ResponseModel):
    """One event as posted to a webhook, signed with the headers of Standard Webhooks."""

    model_config = with_examples({"type": STATUS, "timestamp": "2026-11-21T09:30:00.123456+00:00", "data": DATA})

    type: Annotated[Literal["recommendation.stored", "recommendation.status"], Component("EventType")] = Field(
        description="The kind of event that happened."
    )
    timestamp: str = Field(description="Time of the event, RFC 3339.")
    data: NoticeData


class PlacedShown(ResponseModel):
    """A model's share of a card, and of the following cards with the same division."""

    model_config = with_examples({"card": 1, "name": "chat", "share_memory": 0.6, "share_time": 0.7})

    card: int
    cards: int | None = Field(
        None, description="Number of cards from `card` on with the same division; absent for one card."
    )
    name: str
    share_memory: float = Field(
        description="Memory share of each card that its engine may use; for a slice, the slice's share."
    )
    share_time: float = Field(description="Share of the card's time; for a slice, its share of the compute.")
    slice: str | None = Field(None, description="MIG profile, if the card is partitioned.")


class PackedShown(ResponseModel):
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


class PackingShown(ResponseModel):
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


def packing_json(packing: Packing) -> dict[str, Any]:
    """A packing as JSON."""
    return {
        **rounded_fields(cards=packing.cards, machines=packing.machines, usd_per_hour=packing.usd_per_hour),
        "on": [
            {
                "card": p.card,
                **({"cards": p.cards} if p.cards > 1 else {}),
                "name": p.name,
                "share_memory": round_value(p.share_memory),
                "share_time": round_value(p.share_time),
                **rounded_fields(slice=p.slice),
            }
            for p in packing.on
        ],
        "models": [
            {
                "name": m.name,
                "engine": m.engine,
                "weight_format": m.weight_format,
                "replicas": m.replicas,
            }
            for m in packing.models
        ],
        **rounded_fields(apart_usd_per_hour=packing.apart_usd_per_hour, cheaper=packing.cheaper),
        "why": packing.why,
    }


class PriceShown(ResponseModel):
    """Kind, source, age and terms of the price that is paid."""

    kind: PriceKindName = Field(
        description="A seller has published or quoted provider, reseller, quote and list prices; broker, launch, press "
        "and estimate prices are not firm. Answers stored by earlier versions say `reckoned` for `estimate`."
    )
    source: str
    observed: str = Field(description="When the price was observed: a day, month or year.")
    as_of: str = Field(description="Same value as observed.")
    age_days: int | None = Field(None, description="Days from observed to the day of the request, or to its as_of.")
    confidence: TrustName = Field(description="Confidence that the seller asks this price: high, medium or low.")
    min_quantity: int = Field(1, description="Minimum number of machines per order.")
    max_quantity: int | None = Field(None, description="Maximum number of machines; absent if unknown.")
    pricing_model: PricingName
    commitment: CommitmentName = Field(description="Length of the commitment: none, 1y or 3y.")
    upfront_usd: float | None = Field(None, description="Upfront payment for one machine; included in usd_per_hour.")
    discount: float | None = Field(None, description="Discount from the request; every figure includes it.")


def price_json(p: Price) -> dict[str, Any]:
    """A price as JSON with the first of its sources; GET /catalog/offers and /catalog/systems list all of them."""
    terms = p.terms
    return {
        "kind": terms.kind.value,
        "source": terms.source.split(";")[0],
        "observed": terms.observed,
        "as_of": terms.observed,
        **rounded_fields(age_days=p.age_days),
        "confidence": terms.confidence,
        **rounded_fields(min_quantity=terms.min_quantity, max_quantity=terms.max_quantity),
        "pricing_model": p.pricing_model,
        "commitment": terms.commitment.value,
        **rounded_fields(upfront_usd=p.upfront_usd, discount=p.discount or None),
    }


class PointShown(ResponseModel):
    """The run at one size."""

    accelerators: int
    days: float
    usd_total: float | None = None
    tokens_per_s: float = Field(
        description="Training tokens per second; samples per second for models that process samples."
    )
    efficiency: float = Field(description="Throughput per accelerator relative to the smallest size.")


class ScalingShown(ResponseModel):
    """The fastest layout that fits at each size, with the same global batch."""

    points: list[PointShown]
    knee_accelerators: int = Field(
        description="Largest size at which the last increase still gained 70 % of ideal scaling."
    )
    minimum_accelerators: int = Field(description="Smallest evaluated size on which any layout fits.")
    binds: str = Field(description="What limits the gain of the next larger size.")


class AlternativeShown(ResponseModel):
    """The same number of the same accelerators, acquired in another way."""

    way: WayName = Field(description="How it is acquired: on_demand, committed_1y, committed_3y, spot or owned.")
    provider: str
    region: str
    usd_per_hour: float
    purchase_usd: float | None = Field(None, description="Purchase cost, if owned.")
    kind: PriceKindName = Field(description="Kind of price.")
    observed: str
    break_even_month: float | None = Field(
        None,
        description="Month from which owning has cost less than this rental, or than the recommended rental if this "
        "option is owned. Null if there is none within the horizon; absent if no purchase price is known.",
    )
    risk: str | None = None


class CheaperShown(ResponseModel):
    """An option that would cost less than the first recommendation if you accept one more condition."""

    if_: str = Field(alias="if")
    accelerator: str
    total_accelerators: int
    provider: str
    usd_per_hour: float
    usd_total: float | None = Field(None, description="Total cost of finite work.")
    saves_share: float = Field(description="Share of the first recommendation's cost for the same work.")
    kind: PriceKindName = Field(description="Kind of price.")
    observed: str
    risk: str


class HostShown(ResponseModel):
    """An API provider that hosts the model and charges by the token."""

    provider: str
    usd_per_million_input: float
    usd_per_million_output: float
    usd_per_million_cached_input: float | None = None
    usd_per_million_tokens: float = Field(
        description="Cost per million tokens of this traffic, input and output together."
    )
    usd_per_month: float | None = None
    usd_total: float | None = Field(None, description="Total cost of finite work.")


class HostedApiShown(ResponseModel):
    """Cost of the same traffic at the cheapest API providers of the model, which charge by the token."""

    text: str
    hosts: list[HostShown]
    pays_from_requests_per_s: float | None = Field(
        None, description="Mean load above which your own machines cost less than the cheapest API provider."
    )
    source: str
    observed: str


def hosted_json(api: HostedApi) -> dict[str, Any]:
    """The cheapest API providers and their prices as JSON."""
    return {
        "text": api.text,
        "hosts": [_host_json(host) for host in api.hosts],
        **rounded_fields(pays_from_requests_per_s=api.pays_from_requests_per_s),
        "source": api.hosts[0].price.source.split(" ")[0],
        "observed": api.hosts[0].price.observed,
    }


def _host_json(host: HostedCost) -> dict[str, Any]:
    price = host.price
    return rounded_fields(
        provider=price.provider,
        usd_per_million_input=price.usd_per_million_input,
        usd_per_million_output=price.usd_per_million_output,
        usd_per_million_cached_input=price.usd_per_million_cached_input,
        usd_per_million_tokens=host.usd_per_million_tokens,
        usd_per_month=host.usd_per_month,
        usd_total=host.usd_total,
    )


def alternative_json(a: Alternative) -> dict[str, Any]:
    """Another way to acquire the same accelerators as JSON."""
    shown = rounded_fields(
        way=a.way.value,
        provider=a.provider,
        region=a.region,
        usd_per_hour=a.usd_per_hour,
        purchase_usd=a.purchase_usd,
        kind=a.kind.value,
        observed=a.observed,
    )
    if a.ownable:
        shown["break_even_month"] = None if a.break_even_month is None else round(a.break_even_month, 1)
    return {**shown, **rounded_fields(risk=a.risk or None)}


def cheaper_json(c: Cheaper) -> dict[str, Any]:
    """A cheaper option and its condition as JSON."""
    return {
        "if": c.accepting,
        **rounded_fields(
            accelerator=c.accelerator,
            total_accelerators=c.total_accelerators,
            provider=c.provider,
            usd_per_hour=c.usd_per_hour,
            usd_total=c.usd_total,
            saves_share=round(c.saves_share, 3),
            kind=c.kind.value,
            observed=c.observed,
            risk=c.risk,
        ),
    }


def ancillary_json(e: Estimate) -> dict[str, Any]:
    """The accompanying parts of an estimate that it has, as JSON."""
    hosted, packing, shared = e.hosted_api, e.packing, e.shared
    return {
        **({} if hosted is None else {"hosted_api": hosted_json(hosted)}),
        **({} if packing is None else {"packing": packing_json(packing)}),
        **({} if shared is None else {"classes": shared_json(shared)}),
    }
