"""Comparison of one service for all traffic classes with one service per class."""

from __future__ import annotations

from dataclasses import dataclass

from app.sizing.values.latencies import ClassLatencies


@dataclass(frozen=True, slots=True)
class SeparateService:
    """The best service for one class only; fields are None if no service meets the limits."""

    name: str
    accelerator: str | None
    replicas: int | None
    usd_per_hour: float | None


@dataclass(frozen=True, slots=True)
class SharedFleet:
    """All classes on one service, and each on its own service."""

    replicas: int
    usd_per_hour: float | None
    by_class: tuple[ClassLatencies, ...]
    separate_services: tuple[SeparateService, ...]
    cheaper: str | None  # together or apart; None if a price is missing
    saving_usd_per_hour: float | None  # saving of the cheaper option, USD/h
    why: str

    @property
    def separate_usd_per_hour(self) -> float | None:
        """Price of all separate services in USD/h; None if one has no price."""
        return total_usd_per_hour(self.separate_services)


def total_usd_per_hour(services: tuple[SeparateService, ...]) -> float | None:
    """Total price of several services in USD/h; None if one has no price."""
    prices = [each.usd_per_hour for each in services if each.usd_per_hour is not None]
    return sum(prices) if len(prices) == len(services) else None
