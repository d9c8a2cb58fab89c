"""Replica range of services that follow a day's load, and the request rate per replica."""

from __future__ import annotations

import math
from dataclasses import dataclass

from app.export.handoff.option import Option

WINDOW = "2m"  # window of the request rate
MAX_SCALE_DOWN_DELAY_S = 3600  # longest stabilization window that a HorizontalPodAutoscaler accepts


@dataclass(frozen=True, slots=True)
class ReplicaRange:
    """Replica range for a day, with the peak rate and the start time of a replica."""

    min_replicas: int  # fewest replicas
    max_replicas: int  # most replicas, with spares
    spares: int  # spare replicas
    peak_per_s: float  # requests per second in the busiest hour
    start_s: float  # cold start of a replica in seconds

    @property
    def rate_without_spares(self) -> float:
        """Requests per second per replica at the peak, without the spares.

        It is rounded down, so that the peak runs all planned replicas.
        """
        return _round_down(self.peak_per_s / max(1, self.max_replicas - self.spares))

    @property
    def rate_with_spares(self) -> float:
        """Requests per second per replica at the peak, over all replicas, for tools without spares."""
        return _round_down(self.peak_per_s / self.max_replicas)

    @property
    def scale_down_delay_s(self) -> int:
        """Seconds to wait before scaling down: the start time of a replica.

        No replica is released sooner than it could restart.
        """
        return min(MAX_SCALE_DOWN_DELAY_S, math.ceil(self.start_s))


def replica_range(option: Option) -> ReplicaRange | None:
    """Replica range of an option; None without a day, and for two pools, which scale on different metrics."""
    day = option.day
    if not day or len(option.groups) > 1:
        return None
    least, most = max(1, int(day["autoscaled"]["least_replicas"])), option.groups[0].replicas
    peak = max(float(hour["requests_per_s"]) for hour in day["hours"])
    if least >= most or peak <= 0:
        return None
    return ReplicaRange(
        min_replicas=least,
        max_replicas=most,
        spares=int(option.deployment.get("spare_replicas") or 0),
        peak_per_s=peak,
        start_s=float(day["cold_start"]["seconds"]),
    )


def scaling_notes(option: Option) -> tuple[str, ...]:
    """Notes for the operator about autoscaling."""
    day, scaling = option.day, replica_range(option)
    if day and len(option.groups) > 1:
        return ("Two pools scale on different metrics, so these files run all replicas that the peak needs.",)
    if scaling is None or day is None:
        return ()
    notes = [
        f"Autoscaling runs {scaling.min_replicas} to {scaling.max_replicas} replicas, one per "
        f"{scaling.rate_without_spares:g} requests/s."
    ]
    if day["cheaper"] == "fixed":
        notes.append(f"A fixed fleet of {scaling.max_replicas} replicas costs no more than autoscaling.")
    if not day["scale_out"]["fast_enough"]:
        notes.append(
            f"A replica takes {scaling.start_s:.0f} s to start, too long for this day's ramp. Start replicas ahead of "
            f"the ramp, or run all {scaling.max_replicas}."
        )
    return tuple(notes)


def _round_down(rate: float) -> float:
    """A rate rounded down to three significant digits.

    Check:
        >>> _round_down(5.7149), _round_down(0.0066666), _round_down(1234.5)
        (5.71, 0.00666, 1230.0)
    """
    digits = 2 - math.floor(math.log10(rate))
    return round(math.floor(rate * 10.0**digits + 1e-9) / 10.0**digits, max(0, digits))
