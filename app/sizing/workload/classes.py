"""Kinds of traffic that share a service: each with a rate, lengths and limits of its own."""

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
    """One of the kinds of requests that a service answers."""

    name: str
    peak_per_s: float
    average_per_s: float
    burstiness: float
    input_tokens: Lengths
    output_tokens: Lengths
    slo: Slo
    max_context_tokens: float
    derived: tuple[Assumed, ...] = ()

    def busier(self, times: float) -> TrafficClass:
        """The same with so many times the load."""
        return replace(self, peak_per_s=times * self.peak_per_s, average_per_s=times * self.average_per_s)


@dataclass(frozen=True, slots=True)
class Population:
    """Requests whose lengths are alike, of whatever class: a simulation cannot tell them apart."""

    share: float
    input_tokens: Lengths
    output_tokens: Lengths

    def holds(self, of: TrafficClass) -> bool:
        """Whether requests of a class are among these."""
        return (self.input_tokens, self.output_tokens) == (of.input_tokens, of.output_tokens)


def populations(classes: Sequence[TrafficClass]) -> tuple[Population, ...]:
    """The populations of some classes, in an order that neither their names, limits nor places decide."""
    rates: dict[tuple[Lengths, Lengths], float] = {}
    for each in sorted(classes, key=lambda c: (c.peak_per_s, c.name)):
        lengths = each.input_tokens, each.output_tokens
        rates[lengths] = rates.get(lengths, 0.0) + each.peak_per_s
    total = sum(sorted(rates.values()))
    found = (Population(rate / total, *lengths) for lengths, rate in rates.items())
    return tuple(sorted(found, key=lambda p: (p.input_tokens.mean, p.output_tokens.mean, repr(p.input_tokens))))


def population_of(classes: Sequence[TrafficClass], chances: Column) -> Codes:
    """Which of the populations a request is of, by a number between 0 and 1 for each."""
    upto = np.cumsum([p.share for p in populations(classes)])[:-1]
    return np.searchsorted(column(upto), chances, side="right").astype(np.int64)


def mixed_burstiness(classes: Sequence[TrafficClass]) -> float:
    """Coefficient of variation of the times between arrivals of all classes: squares add by share, as of kinds that do
    not depend on one another (Whitt 1982, asymptotic method).
    """
    rates, squares = column([c.peak_per_s for c in classes]), column([c.burstiness for c in classes]) ** 2
    return float(np.sqrt(np.average(squares, weights=rates)))


def common_slo(classes: Sequence[TrafficClass]) -> Slo:
    """The tightest limit of each kind, at the highest percentile: what is read of the mixture as a whole."""

    def least(values: Iterable[float | None]) -> float | None:
        return min((value for value in values if value is not None), default=None)

    return Slo(
        least(c.slo.ttft_s for c in classes),
        least(c.slo.tpot_s for c in classes),
        least(c.slo.e2e_s for c in classes),
        max(c.slo.percentile for c in classes),
    )
