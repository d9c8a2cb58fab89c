"""Replica range of services that follow a day's load, and the request rate per replica."""

from __future__ import annotations

import math
from dataclasses import dataclass

from app.export.handoff.option import Option

WINDOW = "2m"  # window of the request rate
LONGEST_WAIT_S = 3600  # longest stabilization window that a HorizontalPodAutoscaler accepts


@dataclass(frozen=True, slots=True)
class Following:
    """Replica range for a day, with the peak rate and the start time of a replica."""

    least: int  # fewest replicas
    most: int  # most replicas, with spares
    spares: int  # spare replicas
    peak_per_s: float  # requests per second in the busiest hour
    start_s: float  # cold start of a replica in seconds

    @property
    def each_per_s(self) -> float:
        """Requests per second per replica at the peak, without the spares.

        It is rounded down, so that the peak runs all planned replicas.
        """
        return _down(self.peak_per_s / max(1, self.most - self.spares))

    @property
    def shared_per_s(self) -> float:
        """Requests per second per replica at the peak, over all replicas, for tools without spares."""
        return _down(self.peak_per_s / self.most)

    @property
    def wait_s(self) -> int:
        """Seconds to wait before scaling down: the start time of a replica.

        No replica is released sooner than it could restart.
        """
        return min(LONGEST_WAIT_S, math.ceil(self.start_s))


def following_of(option: Option) -> Following | None:
    """Replica range of an option; None without a day, and for two pools, which scale on different metrics."""
    day = option.day
    if not day or len(option.groups) > 1:
        return None
    least, most = max(1, int(day["autoscaled"]["least_replicas"])), option.groups[0].replicas
    peak = max(float(hour["requests_per_s"]) for hour in day["hours"])
    if least >= most or peak <= 0:
        return None
    return Following(
        least=least,
        most=most,
        spares=int(option.deployment.get("spare_replicas") or 0),
        peak_per_s=peak,
        start_s=float(day["cold_start"]["seconds"]),
    )


def following_notes(option: Option) -> tuple[str, ...]:
    """Notes for the operator about autoscaling."""
    day, scaling = option.day, following_of(option)
    if day and len(option.groups) > 1:
        return ("Two pools scale on different metrics, so these files run all replicas that the peak needs.",)
    if scaling is None or day is None:
        return ()
    notes = [f"Autoscaling runs {scaling.least} to {scaling.most} replicas, one per {scaling.each_per_s:g} requests/s."]
    if day["cheaper"] == "fixed":
        notes.append(f"A fixed fleet of {scaling.most} replicas costs no more than autoscaling.")
    if not day["scale_out"]["fast_enough"]:
        notes.append(
            f"A replica takes {scaling.start_s:.0f} s to start, too long for this day's ramp. Start replicas ahead of "
            f"the ramp, or run all {scaling.most}."
        )
    return tuple(notes)


def _down(rate: float) -> float:
    """A rate rounded down to three significant digits.

    Check:
        >>> _down(5.7149), _down(0.0066666), _down(1234.5)
        (5.71, 0.00666, 1230.0)
    """
    digits = 2 - math.floor(math.log10(rate))
    return round(math.floor(rate * 10.0**digits + 1e-9) / 10.0**digits, max(0, digits))
