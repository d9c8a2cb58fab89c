"""Traffic classes that share a service, each with its own rate, lengths and limits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from app.sizing.assumptions import Assumed
from app.sizing.columns import Codes, Column, column
from app.sizing.workload.lengths import Lengths
from app.sizing.workload.limits import Slo


@dataclass(frozen=True, slots=True)
class TrafficClass:
    """One class of requests that a service answers."""

    name: str
    peak_per_s: float
    average_per_s: float
    burstiness: float
    input_tokens: Lengths
    output_tokens: Lengths
    slo: Slo
    max_context_tokens: float
    derived: tuple[Assumed, ...] = ()

    def scale_load(self, times: float) -> TrafficClass:
        """The same class with its load multiplied by `times`."""
        return replace(self, peak_per_s=times * self.peak_per_s, average_per_s=times * self.average_per_s)


@dataclass(frozen=True, slots=True)
class Population:
    """Requests with the same length distributions, whatever their class: a simulation cannot distinguish them."""

    share: float
    input_tokens: Lengths
    output_tokens: Lengths

    def contains_class(self, traffic_class: TrafficClass) -> bool:
        """True if requests of the class belong to this population."""
        return (self.input_tokens, self.output_tokens) == (traffic_class.input_tokens, traffic_class.output_tokens)


def group_populations(classes: Sequence[TrafficClass]) -> tuple[Population, ...]:
    """Populations of the classes. Their order does not depend on names, limits or the order of the classes."""
    rates: dict[tuple[Lengths, Lengths], float] = {}
    for each in sorted(classes, key=lambda c: (c.peak_per_s, c.name)):
        lengths = each.input_tokens, each.output_tokens
        rates[lengths] = rates.get(lengths, 0.0) + each.peak_per_s
    total = sum(sorted(rates.values()))
    groups = (Population(rate / total, *lengths) for lengths, rate in rates.items())
    return tuple(sorted(groups, key=lambda p: (p.input_tokens.mean, p.output_tokens.mean, repr(p.input_tokens))))


def draw_population(classes: Sequence[TrafficClass], chances: Column) -> Codes:
    """Index of the population that each request belongs to, from one uniform random number per request."""
    upto = np.cumsum([p.share for p in group_populations(classes)])[:-1]
    return np.searchsorted(column(upto), chances, side="right").astype(np.int64)


def mixed_burstiness(classes: Sequence[TrafficClass]) -> float:
    """Coefficient of variation of the times between arrivals of all classes.

    Squared coefficients add up by share, as for independent arrival streams (Whitt 1982, asymptotic method).
    """
    rates, squares = column([c.peak_per_s for c in classes]), column([c.burstiness for c in classes]) ** 2
    return float(np.sqrt(np.average(squares, weights=rates)))


def common_slo(classes: Sequence[TrafficClass]) -> Slo:
    """The tightest limit of each kind and the highest percentile, for figures of the whole mixture."""

    def smallest(values: Iterable[float | None]) -> float | None:
        return min((value for value in values if value is not None), default=None)

    return Slo(
        smallest(c.slo.ttft_s for c in classes),
        smallest(c.slo.tpot_s for c in classes),
        smallest(c.slo.e2e_s for c in classes),
        max(c.slo.percentile for c in classes),
    )
