"""How requests arrive: at a rate, by so many at once, as people send them, or as was recorded."""

from __future__ import annotations

from dataclasses import dataclass

from app.sizing.assumptions import Assumed, Assumptions
from app.sizing.formula import formula
from app.sizing.units import SECONDS_PER_HOUR
from app.sizing.workload.day import Shares
from app.sizing.workload.limits import Load


@dataclass(frozen=True, slots=True)
class Arrivals:
    """How requests arrive. `samples`: they were counted in samples."""

    load: Load
    peak_per_s: float = 0.0
    in_flight: float = 0.0
    samples: bool = False
    volume_requests: float | None = None
    deadline_s: float | None = None
    requests: float | None = None
    hourly_shares: Shares = ()  # of a day, over its busiest hour; empty: nobody told
    derived: tuple[Assumed, ...] = ()

    def personal(self, assumed: Assumptions) -> bool:
        """Use by one person or very few."""
        return self.load is Load.CLOSED and self.in_flight <= assumed.most_personal_in_flight


@formula(unit="requests/s", source="definition")
def busy_hour_requests_per_s(requests_per_hour: float, assumed: Assumptions) -> float:
    """Requests per second in the busiest minute, from what users ask in an hour.

    Check:
        >>> busy_hour_requests_per_s(40 * 12, Assumptions())
        0.4
    """
    return requests_per_hour / SECONDS_PER_HOUR * assumed.busy_hour_factor


def arrivals_of_users(count: float, requests_per_hour_each: float, assumed: Assumptions) -> Arrivals:
    """People rather than a rate, by the busy-hour rule."""
    peak = busy_hour_requests_per_s(count * requests_per_hour_each, assumed)
    low, high = Assumptions.bounds("busy_hour_factor")
    told = Assumed(
        "peak_requests_per_s",
        peak,
        "1/s",
        "load that is planned for: users times busy_hour_factor",
        "users",
        (peak * low / assumed.busy_hour_factor, peak * high / assumed.busy_hour_factor),
    )
    return Arrivals(Load.OPEN, peak_per_s=peak, derived=(told,))
