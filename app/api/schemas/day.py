"""A day of a deployment on the wire."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from app.api.schemas.base import Shown, present, rounded
from app.sizing.values.day import Day, Failure, FleetDay


class HourShown(Shown):
    """One hour of the day."""

    requests_per_s: float
    replicas: int = Field(description="Most that run in this hour where the fleet follows the load, spares included.")


class FixedShown(Shown):
    """The fleet of one size all day."""

    replica_hours: float
    usd_per_day: float | None = Field(description="Null without a price, as below.")


class AutoscaledShown(FixedShown):
    """A fleet that follows the load: every replica is paid for from its order on."""

    least_replicas: int
    warm_replicas: int = Field(description="Most that run ahead of the load, because a start takes its time.")
    saving_share: float = Field(description="Of the money of the fixed fleet; without a price of its replica-hours.")
    note: str


class ScaleToZeroShown(FixedShown):
    """The same, with nothing running while nobody asks."""

    idle_hours: float
    first_request_ms: float = Field(description="Of who comes first then.")


class StartPartsShown(Shown):
    """Seconds of a replica's start, by what they go to."""

    machine: float
    image: float
    weights_read: float
    weights_to_device: float
    engine_start: float


class ColdStartShown(Shown):
    """From the order of a replica to its first request."""

    seconds: float
    ten_at_once_seconds: float
    parts_s: StartPartsShown


class ScaleOutShown(Shown):
    """Whether replicas start as fast as the load rises."""

    fast_enough: bool = Field(description="Whether what runs carries the ramp until what is ordered is there.")
    steepest_requests_per_s_per_minute: float
    replicas_per_minute: float
    why: str


class FailureMinuteShown(Shown):
    """One minute after a loss."""

    minute: int
    capacity_share: float = Field(description="Of the replicas, spares included, what serves.")
    backlog_requests: float
    ttft_p95_ms: float | None = Field(None, description="Of who comes then; absent where nobody is served.")


class FailureShown(Shown):
    """A loss at the peak, minute by minute; a minute that is left out is as the one before."""

    what: str = Field(
        description="replica, machine, or zone where there are several; of pools with the pool's name before it."
    )
    lost_replicas: int
    minutes: list[FailureMinuteShown]
    back_after_minutes: float | None = Field(
        description="Until all is back and nobody waits; null where machines have to be repaired or the queue stays."
    )


class DayShown(Shown):
    """A fixed fleet against one that follows the load, hour by hour, and how replicas start."""

    hours: list[HourShown]
    fixed: FixedShown
    autoscaled: AutoscaledShown
    scale_to_zero: ScaleToZeroShown
    cold_start: ColdStartShown
    scale_out: ScaleOutShown
    failures: list[FailureShown]
    cheaper: str = Field(description="fixed or autoscaled.")


def _fleet_json(fleet: FleetDay) -> dict[str, Any]:
    return {"replica_hours": round(fleet.replica_hours, 2), "usd_per_day": rounded(fleet.usd_per_day)}


def _failure_json(failure: Failure) -> dict[str, Any]:
    minutes = [
        present(
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
    """A day of a deployment, where it has one."""
    if day is None:
        return None
    follows, zero, start, out = day.autoscaled, day.scale_to_zero, day.cold_start, day.scale_out
    return {
        "hours": [
            {"requests_per_s": rounded(round(h.requests_per_s, 9), 4), "replicas": h.replicas} for h in day.hours
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
            "first_request_ms": rounded(zero.first_request_s * 1e3),
        },
        "cold_start": {
            "seconds": round(start.seconds, 1),
            "ten_at_once_seconds": round(start.ten_at_once_s, 1),
            "parts_s": {name: round(seconds, 2) for name, seconds in start.parts_s.items()},
        },
        "scale_out": {
            "fast_enough": out.fast_enough,
            **present(
                steepest_requests_per_s_per_minute=out.steepest_per_s_per_minute,
                replicas_per_minute=out.replicas_per_minute,
                why=out.why,
            ),
        },
        "failures": [_failure_json(failure) for failure in day.failures],
        "cheaper": day.cheaper,
    }
