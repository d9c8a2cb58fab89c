"""Builds a comparison of outcomes: the table, the causes of cost differences, spending by month, and the summary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.sizing.assumptions import Assumed
from app.sizing.comparing.causes import Difference, difference
from app.sizing.comparing.figures import Line, table
from app.sizing.comparing.months import Spending, spending
from app.sizing.comparing.outcomes import Outcome
from app.sizing.comparing.phases import OtherHardware, Priority, elsewhere, priority
from app.sizing.comparing.told import cheapest, phases_told, summarize_comparison
from app.sizing.snapshot import Catalog

OF_MONTHS = ("rent_decline_per_year", "resale_decline_per_year")


@dataclass(frozen=True, slots=True)
class Comparison:
    """Options compared with each other. `priorities` and `elsewhere` are set where phases of one model are compared."""

    summary: str
    outcomes: tuple[Outcome, ...]
    table: tuple[Line, ...]
    differences: tuple[Difference, ...]
    spending: tuple[Spending, ...]
    assumptions: tuple[Assumed, ...]
    priorities: tuple[Priority, ...] = ()
    elsewhere: tuple[OtherHardware, ...] = ()


def compare(outcomes: Sequence[Outcome], market: Catalog, *, phases: bool = False) -> Comparison:
    """Compare outcomes. With `phases`, the outcomes are different phases of work on one model."""
    outcomes = tuple(outcomes)
    lines = table(outcomes, judged=not phases)
    spent = tuple(found for o in outcomes if (found := spending(o)) is not None)
    if phases:
        others = elsewhere(outcomes, market)
        priorities = tuple(p for o in outcomes if (p := priority(o)) is not None)
        summary = phases_told(outcomes, others)
        return Comparison(summary, outcomes, lines, (), spent, _assumed(outcomes), priorities, others)
    differences = _differences(outcomes)
    return Comparison(summarize_comparison(outcomes, differences, spent), outcomes, lines, differences, spent, _assumed(outcomes))


def _differences(outcomes: Sequence[Outcome]) -> tuple[Difference, ...]:
    """Each outcome compared with the cheapest one, the cheapest first."""
    best = cheapest(outcomes)
    if best is None:
        return ()
    found = (difference(o, best) for o in outcomes if o is not best)
    return tuple(sorted((d for d in found if d is not None), key=lambda d: (d.ratio, d.name)))


def _assumed(outcomes: Sequence[Outcome]) -> tuple[Assumed, ...]:
    """Assumptions behind the spending by month. The answer of each option lists its other assumptions."""
    read = (a for o in outcomes for a in o.question.assumptions.noted().touched() if a.name in OF_MONTHS)
    return tuple({a.name: a for a in read}.values())
