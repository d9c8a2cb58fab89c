"""What a day of a service comes to: plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Hour:
    """An hour of the day: its mean load, and the most replicas that run in it, spares included."""

    requests_per_s: float
    replicas: int


@dataclass(frozen=True, slots=True)
class FleetDay:
    """What a way to run the fleet takes in a day; None where no price is known."""

    replica_hours: float
    usd_per_day: float | None


@dataclass(frozen=True, slots=True)
class AutoscaledDay(FleetDay):
    """A fleet that follows the load."""

    least_replicas: int
    warm_replicas: int  # most that run ahead of what the load asks for, because a start takes its time
    saving_share: float  # of the money of a fixed fleet; without a price of its replica-hours
    note: str


@dataclass(frozen=True, slots=True)
class ZeroDay(FleetDay):
    """The same, with nothing running while nobody asks."""

    idle_hours: float
    first_request_s: float  # of who comes then


@dataclass(frozen=True, slots=True)
class ColdStart:
    """From the order of a replica to its first request; `parts_s` add up to the first."""

    seconds: float
    ten_at_once_s: float
    parts_s: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class ScaleOut:
    """Whether replicas that are ordered as the load rises are there in time."""

    fast_enough: bool
    steepest_per_s_per_minute: float
    replicas_per_minute: float
    why: str


@dataclass(frozen=True, slots=True)
class FailureMinute:
    """So many minutes after a loss at the peak; TTFT is None where it is not known or nobody is served."""

    minute: int
    capacity_share: float  # of the replicas, spares included, what serves
    backlog_requests: float
    ttft_p95_s: float | None


@dataclass(frozen=True, slots=True)
class Failure:
    """What a loss at the peak does; a minute that is left out is as the one before."""

    what: str  # replica, machine or zone
    lost_replicas: int
    minutes: tuple[FailureMinute, ...]
    back_after_minutes: float | None  # until all is back and nobody waits; None: not by itself


@dataclass(frozen=True, slots=True)
class Day:
    """A day of a deployment."""

    hours: tuple[Hour, ...]
    fixed: FleetDay
    autoscaled: AutoscaledDay
    scale_to_zero: ZeroDay
    cold_start: ColdStart
    scale_out: ScaleOut
    failures: tuple[Failure, ...]
    cheaper: str  # fixed or autoscaled
