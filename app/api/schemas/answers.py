"""Answers on the wire: the shapes that are documented, and the conversion that rounds once.

Answers are built as plain dictionaries and serialised directly, because building a validated
object for every fact costs more than the search; tests hold each answer against its model here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from app.api.schemas.base import Shown, present, rounded
from app.sizing.assumptions import Assumed
from app.sizing.evidence import Neighbour
from app.sizing.rejections import Rejection
from app.sizing.result import (
    Answer,
    CostSummary,
    DeviceMemory,
    Estimate,
    Percentiles,
    Performance,
    Reason,
    Step,
)
from app.sizing.units import GB, GIB, MB
from app.sizing.workload import Deployment


class OfferShown(Shown):
    provider: str
    region: str
    pricing_model: str
    instance_type: str | None = None


class SpeculativeShown(Shown):
    method: str
    draft_tokens: int
    acceptance_rate: float
    draft_parameters_billion: float | None = None


class DeploymentShown(Shown):
    """Complete: posted back to /estimate it gives the same numbers."""

    accelerator: str
    system: str | None = None
    offer: OfferShown | None = None
    accelerators_per_replica: int | None = None
    replicas: int | None = None
    spare_replicas: int | None = None
    nodes: int | None = None
    total_accelerators: int | None = Field(None, description="Paid for: whole machines are rented and bought.")
    tensor_parallel: int | None = None
    pipeline_parallel: int | None = None
    expert_parallel: int | None = None
    engine: str | None = None
    engine_version: str | None = None
    weight_format: str | None = None
    kv_format: str | None = None
    max_batch: int | None = None
    max_batched_tokens: int | None = None
    memory_fraction: float | None = None
    speculative: SpeculativeShown | None = None
    data_parallel: int | None = None
    context_parallel: int | None = None
    zero_stage: int | None = None
    micro_batch_sequences: int | None = None
    activation_checkpointing: str | None = None
    optimizer_offload: bool | None = None
    framework: str | None = None


class MemoryPartsShown(Shown):
    """GiB on the fullest accelerator; the parts sum to the total."""

    weights: float
    kv_cache: float
    activations: float
    overhead: float
    gradients: float
    optimizer: float
    total: float
    capacity: float
    usable: float


class MemoryShown(Shown):
    per_accelerator_gib: MemoryPartsShown
    kv_cache_tokens: int | None = None
    max_concurrent_sequences: int | None = Field(None, description="Of the longest context, per replica.")


class PercentilesShown(Shown):
    """Milliseconds; null where the queue never empties."""

    p50: float | None
    p95: float | None
    p99: float | None


class IntervalShown(Shown):
    quantity: str
    low: float
    high: float


class BreakdownShown(Shown):
    compute: float
    exposed_communication: float
    pipeline_bubble: float
    optimizer: float
    input: float


class PerformanceShown(Shown):
    """Whole deployment, spares idle; for a request rate, throughputs are its capacity within the SLO.

    TTFT includes queueing; TPOT leaves the first token out; e2e is a whole request.
    """

    output_tokens_per_s: float | None = None
    total_tokens_per_s: float | None = None
    prefill_tokens_per_s: float | None = None
    requests_per_s_capacity: float | None = None
    samples_per_s: float | None = None
    utilization_at_peak: float | None = None
    batch_at_peak: float | None = None
    ttft_ms: PercentilesShown | None = None
    tpot_ms: PercentilesShown | None = None
    e2e_ms: PercentilesShown | None = None
    unstable_above_requests_per_s: float | None = None
    cold_start_s: float | None = None
    tokens_per_s: float | None = None
    tokens_per_s_per_accelerator: float | None = None
    step_time_s: float | None = None
    mfu: float | None = None
    step_breakdown_s: BreakdownShown | None = None
    scaling_efficiency: float | None = None
    days: float | None = None
    accelerator_hours: float | None = None
    checkpoint_gb: float | None = None
    required_storage_gb_per_s: float | None = None
    required_ingest_mb_per_s: float | None = None
    expected_interruptions: float | None = None
    interval: IntervalShown
    intervals: list[IntervalShown] = Field([], description="80 % intervals of TTFT and TPOT at their medians.")
    basis: str = Field(
        description="measured: a published result of the same stack, size and load; calibrated: fitted to results of its parts; "
        "roofline: nothing comparable was published."
    )


class PriceShown(Shown):
    source: str
    as_of: str
    pricing_model: str


class CostShown(Shown):
    usd_per_hour: float | None
    usd_per_month: float | None
    usd_per_million_tokens: float | None = None
    usd_per_million_samples: float | None = None
    usd_total: float | None
    purchase_usd: float | None
    power_kw: float
    kwh_per_million_tokens: float | None = None
    kwh_per_million_samples: float | None = None
    tco_usd: float | None
    price: PriceShown | None


class EvidenceShown(Shown):
    quantity: str
    value: float
    unit: str


class ReasonShown(Shown):
    code: str
    text: str
    evidence: EvidenceShown


class StepShown(Shown):
    name: str
    formula: str
    inputs: dict[str, float]
    value: float
    unit: str
    source: str


class NearestShown(Shown):
    """A published result near this deployment, with what the engine predicts for it."""

    source: str
    distance: float = Field(description="0: the same; 0.3: another engine, format or twice the size; above 1.5: another vendor.")
    quantity: str
    measured: float
    predicted: float
    unit: str


class EstimateShown(Shown):
    """What one deployment would do. Without `fits` there is a reason and, where known, the memory."""

    deployment: DeploymentShown
    fits: bool
    memory: MemoryShown | None = None
    performance: PerformanceShown | None = None
    bottleneck: str | None = None
    cost: CostShown | None = None
    explanation: list[ReasonShown]
    nearest_measurements: list[NearestShown]
    trace: list[StepShown] | None = None


class RecommendationShown(EstimateShown):
    rank: int
    score: float


class RejectedShown(Shown):
    accelerator: str
    code: str
    text: str
    needed: float | None = None
    available: float | None = None
    unit: str | None = None


class AssumedShown(Shown):
    name: str
    value: float | str
    unit: str
    reason: str


class NoticeShown(Shown):
    code: str
    text: str


class CatalogShown(Shown):
    snapshot: str
    prices_as_of: str


class ConsideredShown(Shown):
    accelerators: int
    plans: int
    feasible_accelerators: int


class ChangeShown(Shown):
    change: str
    effect: str


class RecommendResponse(Shown):
    """Ranked, explained hardware; the same request on the same snapshot is the same answer, byte for byte."""

    id: str
    created_at: str = Field(
        description="When the catalogue snapshot that this answer rests on was published. The same request on the same "
        "snapshot is one answer, so this is its date; GET /recommendations/{id} says in Last-Modified when it was first stored."
    )
    catalog: CatalogShown
    summary: str
    assumptions: list[AssumedShown]
    warnings: list[NoticeShown]
    recommendations: list[RecommendationShown]
    rejected: list[RejectedShown]
    considered: ConsideredShown
    rejected_by_code: dict[str, int]
    sensitivity: list[ChangeShown]


def deployment_json(d: Deployment) -> dict[str, Any]:
    offer = None
    if d.provider is not None and d.region is not None and d.pricing_model is not None:
        offer = present(provider=d.provider, region=d.region, pricing_model=d.pricing_model.value, instance_type=d.instance_type)
    names = list(DeploymentShown.model_fields)
    values = {n: getattr(d, n) for n in names if n not in ("offer", "speculative")}
    drafting = None
    if (option := d.speculative) is not None:
        drafting = present(
            method=option.method.value, draft_tokens=option.draft_tokens, acceptance_rate=option.acceptance_rate,
            draft_parameters_billion=option.draft_parameters / 1e9 or None,
        )  # fmt: skip
    return {k: v for k, v in {**values, "offer": offer, "speculative": drafting}.items() if v is not None}


def memory_json(m: DeviceMemory) -> dict[str, Any]:
    parts = {
        "weights": m.weights_bytes, "kv_cache": m.kv_cache_bytes, "activations": m.activation_bytes,
        "overhead": m.overhead_bytes, "gradients": m.gradient_bytes, "optimizer": m.optimizer_bytes,
        "total": m.total_bytes, "capacity": m.capacity_bytes, "usable": m.usable_bytes,
    }  # fmt: skip
    shown = {k: round(v / GIB, 4) for k, v in parts.items()}
    shown["total"] = round(sum(v for k, v in shown.items() if k not in ("total", "capacity", "usable")), 4)
    counts = {"kv_cache_tokens": m.kv_cache_tokens, "max_concurrent_sequences": m.max_concurrent_sequences}
    return {"per_accelerator_gib": shown, **{k: int(v) for k, v in counts.items() if v is not None}}


def _ms(p: Percentiles | None) -> dict[str, Any] | None:
    if p is None:
        return None
    values = {"p50": p.p50_s, "p95": p.p95_s, "p99": p.p99_s}
    return {k: None if v is None else rounded(v * 1e3) for k, v in values.items()}


def performance_json(p: Performance) -> dict[str, Any]:
    same = (
        "output_tokens_per_s", "total_tokens_per_s", "prefill_tokens_per_s", "requests_per_s_capacity", "samples_per_s",
        "utilization_at_peak", "batch_at_peak", "unstable_above_requests_per_s", "cold_start_s", "tokens_per_s",
        "tokens_per_s_per_accelerator", "step_time_s", "mfu", "scaling_efficiency", "days", "accelerator_hours",
        "expected_interruptions",
    )  # fmt: skip
    shown = present(**{n: getattr(p, n) for n in same})
    for name, value, unit in (
        ("checkpoint_gb", p.checkpoint_bytes, GB),
        ("required_storage_gb_per_s", p.required_storage_bytes_per_s, GB),
        ("required_ingest_mb_per_s", p.required_ingest_bytes_per_s, MB),
    ):
        if value is not None:
            shown[name] = rounded(value / unit)
    for name, percentiles in (("ttft_ms", p.ttft), ("tpot_ms", p.tpot), ("e2e_ms", p.e2e)):
        if (ms := _ms(percentiles)) is not None:
            shown[name] = ms
    if p.step_breakdown_s is not None:
        shown["step_breakdown_s"] = {k: rounded(v) for k, v in p.step_breakdown_s.items()}
    i = p.interval
    shown["interval"] = {"quantity": i.quantity, "low": rounded(i.low), "high": rounded(i.high)}
    if p.intervals:
        shown["intervals"] = [
            {"quantity": i.quantity.removesuffix("_s") + "_ms", "low": rounded(i.low * 1e3), "high": rounded(i.high * 1e3)}
            for i in p.intervals
        ]
    shown["basis"] = p.basis
    return shown


def cost_json(c: CostSummary) -> dict[str, Any]:
    price = None if c.price is None else {"source": c.price.source, "as_of": c.price.as_of, "pricing_model": c.price.pricing_model}
    return {
        "usd_per_hour": rounded(c.usd_per_hour),
        "usd_per_month": rounded(c.usd_per_month),
        f"usd_per_million_{c.per_million}": rounded(c.usd_per_million),
        "usd_total": rounded(c.usd_total),
        "purchase_usd": rounded(c.purchase_usd),
        "power_kw": rounded(c.power_w / 1e3),
        f"kwh_per_million_{c.per_million}": rounded(c.kwh_per_million),
        "tco_usd": rounded(c.tco_usd),
        "price": price,
    }


def reason_json(r: Reason) -> dict[str, Any]:
    return {"code": r.code, "text": r.text, "evidence": {"quantity": r.quantity, "value": rounded(r.value), "unit": r.unit}}


def step_json(s: Step) -> dict[str, Any]:
    return {
        "name": s.name, "formula": s.formula, "inputs": {k: rounded(float(v), 12) for k, v in s.inputs.items()},
        "value": rounded(float(s.value), 12), "unit": s.unit, "source": s.source,
    }  # fmt: skip


def neighbour_json(n: Neighbour) -> dict[str, Any]:
    c = n.compared
    time = c.metric.endswith("_s") and not c.metric.endswith("per_s")
    scale = 1e3 if time else 1.0
    return {
        "source": c.reference, "distance": rounded(n.distance, 3), "quantity": c.metric.removesuffix("_s") + "_ms" if time else c.metric,
        "measured": rounded(c.measured * scale), "predicted": rounded(c.predicted * scale), "unit": "ms" if time else "tokens/s",
    }  # fmt: skip


def estimate_json(e: Estimate, *, trace: bool, neighbours: int = 3) -> dict[str, Any]:
    shown: dict[str, Any] = {"deployment": deployment_json(e.deployment), "fits": e.fits}
    if e.memory is not None:
        shown["memory"] = memory_json(e.memory)
    if e.performance is not None:
        shown["performance"] = performance_json(e.performance)
    if e.bottleneck is not None:
        shown["bottleneck"] = e.bottleneck
    if e.cost is not None:
        shown["cost"] = cost_json(e.cost)
    shown["explanation"] = [reason_json(r) for r in e.explanation]
    shown["nearest_measurements"] = [neighbour_json(n) for n in e.nearest[:neighbours]]
    if trace:
        shown["trace"] = [step_json(s) for s in e.trace]
    return shown


def assumed_json(a: Assumed) -> dict[str, Any]:
    return {"name": a.name, "value": rounded(a.value), "unit": a.unit, "reason": a.reason}


def rejection_json(r: Rejection) -> dict[str, Any]:
    shown = {"accelerator": r.accelerator, "code": r.code, "text": r.text}
    return {**shown, **present(needed=r.needed, available=r.available, unit=r.unit)}


def answer_json(answer: Answer, *, identity: str, created_at: str, catalog: Mapping[str, str], trace: bool) -> dict[str, Any]:
    """A whole recommendation as it is sent and stored."""
    return {
        "id": identity,
        "created_at": created_at,
        "catalog": dict(catalog),
        "summary": answer.summary,
        "assumptions": [assumed_json(a) for a in answer.assumptions],
        "warnings": [{"code": w.code, "text": w.text} for w in answer.warnings],
        "recommendations": [
            {"rank": r.rank, "score": rounded(r.score), **estimate_json(r.estimate, trace=trace, neighbours=1)}
            for r in answer.recommendations
        ],
        "rejected": [rejection_json(r) for r in answer.rejected],
        "considered": {
            "accelerators": answer.considered.accelerators,
            "plans": answer.considered.plans,
            "feasible_accelerators": answer.considered.feasible_accelerators,
        },
        "rejected_by_code": dict(answer.rejected_by_code),
        "sensitivity": [{"change": c.change, "effect": c.effect} for c in answer.sensitivity],
    }
