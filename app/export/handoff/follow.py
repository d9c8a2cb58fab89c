"""Services that follow their load: between how many replicas, and by what one of them bears."""

from __future__ import annotations

import math
from dataclasses import dataclass

from app.export.handoff.option import Option

WINDOW = "2m"  # over which a rate is taken
LONGEST_WAIT_S = 3600  # that a HorizontalPodAutoscaler may be told


@dataclass(frozen=True, slots=True)
class Following:
    """Of a day: replicas with spares, requests per second at its busiest, and how long a replica takes to be back."""

    least: int
    most: int
    spares: int
    peak_per_s: float
    start_s: float

    @property
    def each_per_s(self) -> float:
        """Requests per second that a replica bears at the peak, spares left aside; not rounded up, so that as many
        replicas run then as were found.
        """
        return _down(self.peak_per_s / max(1, self.most - self.spares))

    @property
    def shared_per_s(self) -> float:
        """The same of all replicas, for tools that keep no spares."""
        return _down(self.peak_per_s / self.most)

    @property
    def wait_s(self) -> int:
        """A replica is not given up sooner than it would be back."""
        return min(LONGEST_WAIT_S, math.ceil(self.start_s))


def following_of(option: Option) -> Following | None:
    """What a day says of replicas that follow the load; none without a day, nor for two pools, which follow it each
    by its own measure.
    """
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
    """What is to be known before replicas follow the load."""
    day, found = option.day, following_of(option)
    if day and len(option.groups) > 1:
        return ("Two pools follow the load by a measure of their own each: these files keep all that the peak takes.",)
    if found is None or day is None:
        return ()
    told = [f"Between {found.least} and {found.most} replicas follow the load, {found.each_per_s:g} requests/s each."]
    if day["cheaper"] == "fixed":
        told.append(f"A fleet of {found.most} that does not follow it costs no more.")
    if not day["scale_out"]["fast_enough"]:
        told.append(
            f"A start takes {found.start_s:.0f} s, too long for this day's ramp: have more running before it, or run "
            f"all {found.most}."
        )
    return tuple(told)


def _down(rate: float) -> float:
    """Three digits, never more than it was.

    Check:
        >>> _down(5.7149), _down(0.0066666), _down(1234.5)
        (5.71, 0.00666, 1230.0)
    """
    digits = 2 - math.floor(math.log10(rate))
    return round(math.floor(rate * 10.0**digits + 1e-9) / 10.0**digits, max(0, digits))
