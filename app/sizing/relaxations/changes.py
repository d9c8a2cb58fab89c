"""Collects the changes that make a question feasible: single changes first, pairs only where no single change is
enough.
"""

from __future__ import annotations

from collections.abc import Sequence

from app.sizing.columns import one
from app.sizing.question import Constraints, Question
from app.sizing.relaxations.allowed import alternatives
from app.sizing.relaxations.times import of_times, without_latencies
from app.sizing.relaxations.tried import least_that_does, that_does
from app.sizing.relaxations.ways import Size, Ways, keeping, named, sizes_asked, ways_of
from app.sizing.result import Change, Reached, Rejection
from app.sizing.snapshot import Catalog

NOTHING = "still not feasible"


def relaxations(question: Question, market: Catalog, rejected: Sequence[Rejection]) -> tuple[Change, ...]:
    """Changes that would make an infeasible question feasible, each with the smallest sufficient value."""
    sizes = sizes_asked(question.constraints)
    judged = [r for r in rejected if r.reached is not Reached.LEFT_OUT]
    enough = of_sizes(question, sizes, ways_of(question, market, helped_by_size(question.constraints, judged)), market)
    single = [Change(size.label, enough.get(size.name, NOTHING)) for size in sizes]
    single += of_times(question, market, judged, sizes)
    double: list[Change] = []
    for other in alternatives(question, judged):
        ways = ways_of(other.question, market)
        within_limits = ways.take(keeping(sizes, ways))
        confirmed = that_does(other.question, market, within_limits) if len(within_limits) else None
        if confirmed is not None:
            single.append(Change(other.label, f"feasible with {named(confirmed, market)}{other.owed}"))
            continue
        enough = of_sizes(other.question, sizes, ways, market)
        double += [
            Change(f"{other.label}, {size.label}", enough[size.name] + other.owed)
            for size in sizes
            if size.name in enough
        ]
    if all(change.effect == NOTHING for change in single):
        single += double or of_everything(question, market, sizes)
    return tuple(single)


def of_sizes(question: Question, sizes: Sequence[Size], ways: Ways, market: Catalog) -> dict[str, str]:
    """For each resource limit that is enough to relax alone: the smallest feasible value and the plan that uses it.

    The keys are the names of the limits.
    """
    enough: dict[str, str] = {}
    for size in sizes:
        rest = ways.take(keeping([other for other in sizes if other is not size], ways))
        if len(rest):
            least = size.least(rest)
            confirmed = least_that_does(question, market, size.allowing, one(size.needed(least)), least)
            if confirmed is not None:
                value = min(confirmed[0], one(size.needed(confirmed[1])))  # the steps of a trial may exceed the need
                enough[size.name] = f"feasible at {size.format_value(value)}: {named(confirmed[1], market)}"
    return enough


def helped_by_size(limits: Constraints, judged: Sequence[Rejection]) -> tuple[str, ...]:
    """Accelerator types that more accelerators, money or power may help.

    With a limit on accelerators or purchase price, some machines and layouts are not evaluated at all, so types that
    failed
    earlier count too.
    """
    if limits.max_accelerators is None and limits.max_purchase_usd is None:
        return tuple(r.accelerator for r in judged if r.reached is Reached.LIMITS)
    return tuple(r.accelerator for r in judged if r.reached >= Reached.MEMORY or r.code in ("no_layout", "over_budget"))


def of_everything(question: Question, market: Catalog, sizes: Sequence[Size]) -> list[Change]:
    """Last resort where two changes are not enough: remove every latency limit, then also relax one resource limit, or
    all.
    """
    question = without_latencies(question)
    ways = ways_of(question, market)
    if not len(ways):
        return []
    within_limits = ways.take(keeping(sizes, ways))
    confirmed = that_does(question, market, within_limits) if len(within_limits) else None
    if confirmed is not None:
        return [Change("remove every latency limit", f"feasible with {named(confirmed, market)}")]
    enough = of_sizes(question, sizes, ways, market)
    pairs = [Change(f"remove every latency limit, {s.label}", enough[s.name]) for s in sizes if s.name in enough]
    label = "remove every limit on latency, accelerators, money and power"
    return pairs or [Change(label, f"feasible with {named(ways, market)}")]
