"""Results of a typical day of a service, as plain values in base units."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Hour:
    """One hour of the day: its mean request rate and the maximum number of replicas in it, spares included."""

    requests_per_s: float
    replicas: int


@dataclass(frozen=True, slots=True)
class FleetDay:
    """Replica-hours and price per day of one way to run the fleet; the price is None if unknown."""

    replica_hours: float
    usd_per_day: float | None


@dataclass(frozen=True, slots=True)
class AutoscaledDay(FleetDay):
    """A fleet that scales with the load."""

    least_replicas: int  # minimum number of replicas, spares included
    warm_replicas: int  # most replicas that run ahead of the load, because a start takes time
    saving_share: float  # saving as a share of the cost of a fixed fleet; without a price, of its replica-hours
    note: str


@dataclass(frozen=True, slots=True)
class ZeroDay(FleetDay):
    """A fleet that scales with the load, down to zero replicas while there are no requests."""

    idle_hours: float  # hours per day without replicas
    first_request_s: float  # latency of the first request after an idle time


@dataclass(frozen=True, slots=True)
class ColdStart:
    """Time from ordering a replica to its first request. `parts_s` add up to `seconds`."""

    seconds: float
    ten_at_once_s: float  # time for ten replicas that start at the same time, s
    parts_s: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class ScaleOut:
    """Whether replicas ordered while the load rises are ready in time."""

    fast_enough: bool
    steepest_per_s_per_minute: float  # steepest rise of the load, requests/s per minute
    replicas_per_minute: float  # replicas that this rise needs per minute
    why: str


@dataclass(frozen=True, slots=True)
class FailureMinute:
    """State of the service some minutes after a failure at the peak. TTFT is None if unknown or if no replica
    serves.
    """

    minute: int  # minutes after the failure
    capacity_share: float  # serving replicas over all replicas, spares included
    backlog_requests: float  # requests that wait
    ttft_p95_s: float | None


@dataclass(frozen=True, slots=True)
class Failure:
    """Effect of a failure at the peak. A minute that is not listed is like the one before."""

    what: str  # replica, machine or zone
    lost_replicas: int
    minutes: tuple[FailureMinute, ...]
    back_after_minutes: float | None  # minutes until full capacity and an empty queue; None: never without action


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
