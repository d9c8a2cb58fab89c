"""Several classes of traffic on one service beside a service for each: plain values."""

from __future__ import annotations

from dataclasses import dataclass

from app.sizing.values.latencies import ClassWaits


@dataclass(frozen=True, slots=True)
class Apart:
    """The best service for one class alone; None where nothing does it within the limits asked."""

    name: str
    accelerator: str | None
    replicas: int | None
    usd_per_hour: float | None


@dataclass(frozen=True, slots=True)
class SharedFleet:
    """All classes together on one service, and apart."""

    replicas: int
    usd_per_hour: float | None
    by_class: tuple[ClassWaits, ...]
    apart: tuple[Apart, ...]
    cheaper: str | None  # together or apart; None where a price is missing
    saving_usd_per_hour: float | None  # of the cheaper one
    why: str

    @property
    def apart_usd_per_hour(self) -> float | None:
        """What all services apart cost; None where one is missing."""
        return total_usd_per_hour(self.apart)


def total_usd_per_hour(apart: tuple[Apart, ...]) -> float | None:
    """What services cost together; None where one is missing."""
    prices = [each.usd_per_hour for each in apart if each.usd_per_hour is not None]
    return sum(prices) if len(prices) == len(apart) else None
