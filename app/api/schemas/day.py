"""Schemas of the load, fleet size and failures of a deployment over a day."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from app.api.schemas.base import ResponseModel, round_value, rounded_fields
from app.sizing.values.day import Day, Failure, FleetDay


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
