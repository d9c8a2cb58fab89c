"""Converts results of the sizing engine to the JSON that is sent, with units and rounding.

Answers are built as plain dictionaries and serialized directly, because building a validated object for every fact
costs more than the search. Tests validate each answer against its model in answers.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from app.api.schemas.answers import DeploymentShown
from app.api.schemas.base import round_value, rounded_fields
from app.api.schemas.materials import part_json
from app.api.schemas.replica import pools_json, scheduler_json, split_json
from app.api.schemas.results import (
    alternative_json,
    ancillary_json,
    cheaper_json,
    day_json,
    hosted_json,
    load_curve_json,
    memory_json,
    percentiles_json,
    price_json,
    simulation_json,
)
from app.sizing.assumptions import Assumed
from app.sizing.columns import GB, GIB, MB
from app.sizing.evidence import Neighbor
from app.sizing.formula import Step
from app.sizing.question import Deployment
from app.sizing.result import (
    Answer,
    Assurance,
    ClusterNeeds,
    CostSummary,
    Estimate,
    Interval,
    MaximumThatFits,
    Notice,
    Performance,
    Reason,
    Rejection,
    ScalingCurve,
    Verification,
)

# Deployment fields with the same name in the API and in the engine, in API order.
UNCHANGED_DEPLOYMENT_FIELDS = tuple(
    n for n in DeploymentShown.model_fields if n not in ("offer", "pools", "recipe", "scheduler", "speculative")
)

METRICS = {
    "ttft_ms": "time from sending a request to its first token, including queueing",
    "tpot_ms": "mean time per token after the first; equals the inter-token latency if tokens arrive one at a time",
    "e2e_ms": "time from sending a request to its last token: TTFT + (output tokens - 1) x TPOT",
    "output_tokens_per_s": "generated tokens per second of the whole deployment, with idle spares",
    "total_tokens_per_s": "prompt and generated tokens per second of the whole deployment",
    "prefill_tokens_per_s": "prompt tokens per second if the deployment only processed prompts",
}


def metric_definitions(e: Estimate) -> dict[str, str] | None:
    """Definitions of the metrics as load testers use them, or None if the deployment generates no tokens."""
    return METRICS if e.performance is not None and e.performance.output_tokens_per_s is not None else None


def deployment_json(d: Deployment) -> dict[str, Any]:
    offer = None
    if d.provider is not None and d.region is not None and d.pricing_model is not None:
        offer = rounded_fields(
            provider=d.provider, region=d.region, pricing_model=d.pricing_model.value, instance_type=d.instance_type
        )
    values = {n: getattr(d, n) for n in UNCHANGED_DEPLOYMENT_FIELDS}
    drafting = None
    if (option := d.speculative) is not None:
        drafting = rounded_fields(
            method=option.method.value,
            draft_tokens=option.draft_tokens,
            acceptance_rate=option.acceptance_rate,
            draft_parameters_billion=option.draft_parameters / 1e9 or None,
        )
    recipe = None if d.recipe is None else rounded_fields(**asdict(d.recipe)) or None
    shown = {**values, "offer": offer, "speculative": drafting, "recipe": recipe}
    shown["scheduler"] = scheduler_json(d.scheduler)
    shown["pools"] = None if d.pools is None else pools_json(d.pools, deployment_json)
    return {k: v for k, v in shown.items() if v is not None}


# Ending of a quantity's name in the engine, its ending in the API, and the factor between their units.
UNIT_CONVERSIONS = (("_per_s", "_per_s", 1.0), ("_s", "_ms", 1e3), ("_bytes", "_gib", 1 / GIB))


def interval_json(i: Interval) -> dict[str, Any]:
    """An interval as JSON, with times in ms and sizes in GiB; other quantities keep their unit."""
    name, factor = i.quantity, 1.0
    for ending, shown, times in UNIT_CONVERSIONS:
        if name.endswith(ending):
            name, factor = name.removesuffix(ending) + shown, times
            break
    bounds = {"low": round_value(i.low * factor), "high": round_value(i.high * factor)}
    return {"quantity": name, **({} if i.statistic == "mean" else {"statistic": i.statistic}), **bounds}


def assurance_json(a: Assurance) -> dict[str, Any]:
    """The probability that a deployment meets the requirements, and the hardware needed at other confidence levels, as
    JSON.
    """
    return {
        **rounded_fields(asked=a.asked, meets_slo=a.meets_slo, meets_deadline=a.meets_deadline, fits=a.fits),
        "by_level": [
            {
                "confidence": level.confidence,
                "total_accelerators": level.total_accelerators,
                **rounded_fields(usd_per_hour=level.usd_per_hour, usd_total=level.usd_total),
            }
            for level in a.by_level
        ],
    }


def verification_json(v: Verification) -> dict[str, Any]:
    """The benchmark that would reduce the uncertainty most, as JSON."""
    return {
        "command": v.command,
        "accelerator": v.accelerator,
        "accelerators": v.accelerators,
        "minutes": v.minutes,
        "usd": round_value(v.usd),
        "decides": v.decides,
    }


def notice_json(n: Notice) -> dict[str, Any]:
    """A warning as JSON."""
    return {"code": n.code, "text": n.text}


def cluster_json(c: ClusterNeeds) -> dict[str, Any]:
    network = c.network_bytes_per_s_per_node
    return rounded_fields(
        network_gbit_per_s_per_node=None if network is None else network * 8 / 1e9,
        checkpoint_capacity_tb=c.checkpoint_capacity_bytes / 1e12,
        host_memory_gib_per_node=c.host_memory_bytes_per_node / GIB,
        power_kw=c.power_w / 1e3,
        cooling_kw=c.cooling_w / 1e3,
    )


def scaling_json(c: ScalingCurve) -> dict[str, Any]:
    return {
        "points": [
            rounded_fields(
                accelerators=p.accelerators,
                days=p.days,
                usd_total=p.usd_total,
                tokens_per_s=p.tokens_per_s,
                efficiency=round(p.efficiency, 4),
            )
            for p in c.points
        ],
        "knee_accelerators": c.knee,
        "minimum_accelerators": c.minimum,
        "binds": c.binds,
    }


def maximum_json(m: MaximumThatFits) -> dict[str, Any]:
    return {
        "quantity": m.quantity,
        "value": round_value(m.value),
        "too_large": round_value(m.too_large),
        "unit": m.unit,
    }


def performance_json(p: Performance, *, simulated: bool = True) -> dict[str, Any]:
    """Throughput and latencies as JSON; `simulated` adds the simulation results, if there are any."""
    same = (
        "output_tokens_per_s",
        "total_tokens_per_s",
        "prefill_tokens_per_s",
        "requests_per_s_capacity",
        "samples_per_s",
        "utilization_at_peak",
        "batch_at_peak",
        "unstable_above_requests_per_s",
        "cold_start_s",
        "tokens_per_s",
        "tokens_per_s_per_accelerator",
        "step_time_s",
        "mfu",
        "scaling_efficiency",
        "days",
        "accelerator_hours",
        "expected_interruptions",
    )
    shown = rounded_fields(**{n: getattr(p, n) for n in same})
    if p.overloaded is not None:
        shown["overloaded"] = p.overloaded
    for name, value, unit in (
        ("checkpoint_gb", p.checkpoint_bytes, GB),
        ("required_storage_gb_per_s", p.required_storage_bytes_per_s, GB),
        ("required_ingest_mb_per_s", p.required_ingest_bytes_per_s, MB),
        ("checkpoint_interval_minutes", p.checkpoint_interval_s, 60.0),
        ("checkpoint_stall_s", p.checkpoint_stall_s, 1.0),
    ):
        if value is not None:
            shown[name] = round_value(value / unit)
    for name, percentiles in (("ttft_ms", p.ttft), ("tpot_ms", p.tpot), ("e2e_ms", p.e2e)):
        if percentiles is not None:
            shown[name] = percentiles_json(percentiles)
    if simulated and p.overloaded is not None:
        shown["simulation"] = None if p.simulation is None else simulation_json(p.simulation)
        shown["load_curve"] = None if p.load_curve is None else load_curve_json(p.load_curve)
    if p.step_breakdown_s is not None:
        shown["step_breakdown_s"] = {k: round_value(v) for k, v in p.step_breakdown_s.items()}
    shown["interval"] = interval_json(p.interval)
    if p.intervals:
        shown["intervals"] = [interval_json(i) for i in p.intervals]
    if p.cluster is not None:
        shown["cluster"] = cluster_json(p.cluster)
    if p.pools is not None:
        shown["pools"] = split_json(p.pools)
    shown["basis"] = p.basis
    return shown


def cost_json(c: CostSummary) -> dict[str, Any]:
    """Cost and energy as JSON."""
    return {
        "usd_per_hour": round_value(c.usd_per_hour),
        **rounded_fields(usd_per_day=c.usd_per_day),
        "usd_per_month": round_value(c.usd_per_month),
        f"usd_per_million_{c.per_million}": round_value(c.usd_per_million),
        "usd_total": round_value(c.usd_total),
        "purchase_usd": round_value(c.purchase_usd),
        "power_kw": round_value(c.power_w / 1e3),
        f"kwh_per_million_{c.per_million}": round_value(c.kwh_per_million),
        "tco_usd": round_value(c.tco_usd),
        "price": None if c.price is None else price_json(c.price),
        "parts": [part_json(part) for part in c.parts],
    }


def reason_json(r: Reason) -> dict[str, Any]:
    return {
        "code": r.code,
        "text": r.text,
        "evidence": {"quantity": r.quantity, "value": round_value(r.value), "unit": r.unit},
    }


def step_json(s: Step) -> dict[str, Any]:
    return {
        "name": s.name,
        "formula": s.formula,
        "inputs": {k: round_value(float(v), 12) for k, v in s.inputs.items()},
        "value": round_value(float(s.value), 12),
        "unit": s.unit,
        "source": s.source,
    }


def metric_name(metric: str) -> str:
    """The name of a metric in the API; training rates are per accelerator."""
    if metric.startswith("training_"):
        return metric.removeprefix("training_") + "_per_accelerator"
    if metric == "peak_memory_bytes":
        return "peak_memory_gib"
    return metric.removesuffix("_s") + "_ms" if metric.endswith("_s") and not metric.endswith("per_s") else metric


def neighbour_json(n: Neighbor) -> dict[str, Any]:
    c = n.compared
    scale, unit = {"s": (1e3, "ms"), "B": (1 / GIB, "GiB")}.get(c.unit, (1.0, c.unit))
    return {
        "source": c.reference,
        "distance": round_value(n.distance, 3),
        "quantity": metric_name(c.metric),
        "measured": round_value(c.measured * scale),
        "predicted": round_value(c.predicted * scale),
        "unit": unit,
    }


def estimate_json(e: Estimate, *, trace: bool, neighbours: int = 3, simulated: bool = True) -> dict[str, Any]:
    shown: dict[str, Any] = {"deployment": deployment_json(e.deployment), "fits": e.fits}
    shown |= rounded_fields(support=e.support, rule=e.rule or None)
    if e.memory is not None:
        shown["memory"] = memory_json(e.memory)
    if e.performance is not None:
        shown["performance"] = performance_json(e.performance, simulated=simulated)
    if e.bottleneck is not None:
        shown["bottleneck"] = e.bottleneck
    if e.cost is not None:
        shown["cost"] = cost_json(e.cost)
    if e.alternatives:
        shown["alternatives"] = [alternative_json(a) for a in e.alternatives]
    if e.assurance is not None:
        shown["confidence"] = assurance_json(e.assurance)
    shown["explanation"] = [reason_json(r) for r in e.explanation]
    if e.verification is not None:
        shown["verification"] = verification_json(e.verification)
    if e.summary is not None:
        shown["summary"] = e.summary
        shown["assumptions"] = [assumed_json(a) for a in e.assumptions]
        shown["warnings"] = [notice_json(n) for n in e.warnings]
    shown |= rounded_fields(day=day_json(e.day))
    shown |= ancillary_json(e)
    if neighbours > 1 and (metrics := metric_definitions(e)) is not None:
        shown["metrics"] = metrics
    shown["nearest_measurements"] = [neighbour_json(n) for n in e.nearest[:neighbours]]
    if e.scaling is not None:
        shown["scaling"] = scaling_json(e.scaling)
    if e.maximum is not None:
        shown["maximum"] = maximum_json(e.maximum)
    if trace:
        shown["trace"] = [step_json(s) for s in e.trace]
    return shown


def assumed_json(a: Assumed) -> dict[str, Any]:
    return {
        "name": a.name,
        "value": round_value(a.value),
        "unit": a.unit,
        "reason": a.reason,
        "asked": a.asked,
        "source": "request" if a.asked else a.source,
        "range": None if a.bounds is None else [round_value(float(bound)) for bound in a.bounds],
    }


def rejection_json(r: Rejection) -> dict[str, Any]:
    shown = {"accelerator": r.accelerator, "code": r.code, "text": r.text}
    return {**shown, **rounded_fields(rule=r.rule or None, needed=r.needed, available=r.available, unit=r.unit)}


def answer_json(
    answer: Answer,
    *,
    identity: str,
    created_at: str,
    catalog: Mapping[str, str],
    as_of: str,
    request: Mapping[str, Any],
    trace: bool,
) -> dict[str, Any]:
    """A whole recommendation as it is sent and stored."""
    metrics = metric_definitions(answer.recommendations[0].estimate) if answer.recommendations else None
    return {
        "id": identity,
        "created_at": created_at,
        "catalog": dict(catalog),
        "as_of": as_of,
        "request": dict(request),
        "summary": answer.summary,
        "assumptions": [assumed_json(a) for a in answer.assumptions],
        "warnings": [notice_json(w) for w in answer.warnings],
        "recommendations": [
            {
                "rank": r.rank,
                "score": round_value(r.score),
                **estimate_json(r.estimate, trace=trace, neighbours=1, simulated=r.rank == 1),
            }
            for r in answer.recommendations
        ],
        "rejected": [rejection_json(r) for r in answer.rejected],
        "considered": {
            "accelerators": answer.considered.accelerators,
            "plans": answer.considered.plans,
            "feasible_accelerators": answer.considered.feasible_accelerators,
        },
        "rejected_by_code": dict(answer.rejected_by_code),
        "sensitivity": [
            rounded_fields(change=c.change, effect=c.effect, request=c.request) for c in answer.sensitivity
        ],
        **({} if answer.verification is None else {"verification": verification_json(answer.verification)}),
        **({"cheaper_if": [cheaper_json(c) for c in answer.cheaper_if]} if answer.cheaper_if else {}),
        **({} if answer.hosted_api is None else {"hosted_api": hosted_json(answer.hosted_api)}),
        **({"scaling": scaling_json(answer.scaling)} if answer.scaling is not None else {}),
        **({} if metrics is None else {"metrics": metrics}),
    }
