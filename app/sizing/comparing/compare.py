"""Builds a comparison of outcomes: the table, the causes of cost differences, spending by month, and the summary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.sizing.assumptions import Assumed
from app.sizing.comparing.causes import Difference, explain_difference
from app.sizing.comparing.figures import TableLine, build_table
from app.sizing.comparing.months import Spending, spending_by_month
from app.sizing.comparing.outcomes import Outcome
from app.sizing.comparing.phases import OtherHardware, Priority, compare_hardware, hardware_priority
from app.sizing.comparing.told import cheapest_outcome, summarize_comparison, summarize_phases
from app.sizing.snapshot import Catalog

SPENDING_ASSUMPTIONS = ("rent_decline_per_year", "resale_decline_per_year")


@dataclass(frozen=True, slots=True)
class Comparison:
    """Options compared with each other; `priorities` and `on_other_hardware` only if phases of one model are."""

    summary: str
    outcomes: tuple[Outcome, ...]
    table: tuple[TableLine, ...]
    differences: tuple[Difference, ...]
    spending: tuple[Spending, ...]
    assumptions: tuple[Assumed, ...]
    priorities: tuple[Priority, ...] = ()
    on_other_hardware: tuple[OtherHardware, ...] = ()


def compare_outcomes(outcomes: Sequence[Outcome], catalog: Catalog, *, phases: bool = False) -> Comparison:
    """Compare outcomes. With `phases`, the outcomes are different phases of work on one model."""
    outcomes = tuple(outcomes)
    lines = build_table(outcomes, judged=not phases)
    spending_of_each = tuple(found for o in outcomes if (found := spending_by_month(o)) is not None)
    if phases:
        on_other_hardware = compare_hardware(outcomes, catalog)
        priorities = tuple(p for o in outcomes if (p := hardware_priority(o)) is not None)
        summary = summarize_phases(outcomes, on_other_hardware)
        return Comparison(
            summary,
            outcomes,
            lines,
            (),
            spending_of_each,
            _spending_assumptions(outcomes),
            priorities,
            on_other_hardware,
        )
    differences = _differences_from_cheapest(outcomes)
    return Comparison(
        summarize_comparison(outcomes, differences, spending_of_each),
        outcomes,
        lines,
        differences,
        spending_of_each,
        _spending_assumptions(outcomes),
    )


def _differences_from_cheapest(outcomes: Sequence[Outcome]) -> tuple[Difference, ...]:
    """Each outcome compared with the cheapest one, the cheapest first."""
    best = cheapest_outcome(outcomes)
    if best is None:
        return ()
    found = (explain_difference(o, best) for o in outcomes if o is not best)
    return tuple(sorted((d for d in found if d is not None), key=lambda d: (d.ratio, d.name)))


def _spending_assumptions(outcomes: Sequence[Outcome]) -> tuple[Assumed, ...]:
    """Assumptions behind the spending by month. The answer of each option lists its other assumptions."""
    read = (
        a
        for o in outcomes
        for a in o.question.assumptions.with_recording().used_assumptions()
        if a.name in SPENDING_ASSUMPTIONS
    )
    return tuple({a.name: a for a in read}.values())
