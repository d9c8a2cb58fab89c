"""How requests arrive: at a rate, with a fixed number in flight, from a number of users, or as recorded."""

from __future__ import annotations

from dataclasses import dataclass

from app.sizing.assumptions import Assumed, Assumptions
from app.sizing.formula import formula
from app.sizing.units import SECONDS_PER_HOUR
from app.sizing.workload.day import Shares
from app.sizing.workload.limits import Load


@dataclass(frozen=True, slots=True)
class Arrivals:
    """How requests arrive. `samples` is true if the rate counts samples."""

    load: Load
    peak_per_s: float = 0.0  # peak rate, requests/s or samples/s
    in_flight: float = 0.0  # requests in flight
    samples: bool = False
    volume_requests: float | None = None  # requests or samples of offline work that ends
    deadline_s: float | None = None  # time within which the volume must be finished
    requests: float | None = None  # requests of a run that ends
    hourly_shares: Shares = ()  # hourly load over that of the busiest hour; empty: not given
    derived: tuple[Assumed, ...] = ()  # values derived from other inputs

    def is_personal(self, assumed: Assumptions) -> bool:
        """True if one person or very few people use the service."""
        return self.load is Load.CLOSED and self.in_flight <= assumed.most_personal_in_flight


@formula(unit="requests/s", source="definition")
def busy_hour_requests_per_s(requests_per_hour: float, assumed: Assumptions) -> float:
    """Request rate in the busiest minute, from the number of requests in an hour.

    Parameters:
        requests_per_hour: requests of all users in an hour.
        assumed: assumptions; `busy_hour_factor` is the rate of the busiest minute over the hourly mean.
    Check: 40 users with 12 requests per hour each.
        >>> busy_hour_requests_per_s(40 * 12, Assumptions())
        0.4
    """
    return requests_per_hour / SECONDS_PER_HOUR * assumed.busy_hour_factor


def arrivals_from_users(count: float, requests_per_hour_each: float, assumed: Assumptions) -> Arrivals:
    """Arrivals from a number of users, with the peak rate from the busy-hour rule."""
    peak = busy_hour_requests_per_s(count * requests_per_hour_each, assumed)
    low, high = Assumptions.allowed_range("busy_hour_factor")
    derived_peak = Assumed(
        "peak_requests_per_s",
        peak,
        "1/s",
        "planned peak load: requests of all users times busy_hour_factor",
        "users",
        (peak * low / assumed.busy_hour_factor, peak * high / assumed.busy_hour_factor),
    )
    return Arrivals(Load.OPEN, peak_per_s=peak, derived=(derived_peak,))
