"""A comparison in a few sentences that a buyer reads first."""

from __future__ import annotations

from collections.abc import Sequence

from app.sizing.comparing.causes import Difference
from app.sizing.comparing.months import Spending
from app.sizing.comparing.outcomes import Outcome
from app.sizing.comparing.phases import Elsewhere
from app.sizing.words import figure

ABOUT_AS_MUCH = 0.005
DEAREST = 1.005


def cheapest(outcomes: Sequence[Outcome]) -> Outcome | None:
    """The first of the cheapest that do what was asked, of those with the reserve that is planned for where any has."""
    priced = [o for o in outcomes if o.does_it and o.usd is not None]
    return min(priced, key=lambda o: (o.reserve is not None, o.usd or 0.0), default=None)


def told(outcomes: Sequence[Outcome], differences: Sequence[Difference], spent: Sequence[Spending]) -> str:
    """Which is cheapest of those that do what was asked, why the others cost more, and which do not do it."""
    best = cheapest(outcomes)
    if best is None:
        sentences = ["None of these does what was asked at a known price."]
    else:
        sentences = [f"{best.name} costs the least: {hardware(best)} for {money(best)}."]
    by_name = {o.name: o for o in outcomes}
    sentences += [_more(d, by_name[d.name]) for d in differences]
    sentences += [f"{o.name}: {o.why_not}" for o in outcomes if not o.does_it]
    sentences += [_over_months(s) for s in spent if best is not None and s.name == best.name]
    return " ".join(sentences)


def _over_months(s: Spending) -> str:
    """Which way to have the cheapest option costs the least in the end."""
    first, months = s.paths[0], len(s.paths[0].usd) - 1
    way = f"{first.way.replace('_', ' ')} ({first.provider})"
    text = f"Over {months} months {way} is its cheapest way to be had: {figure(first.net_usd)} USD"
    return f"{text}." if len(s.paths) == 1 else f"{text}, the next {figure(s.paths[1].net_usd)} USD."


def _more(d: Difference, o: Outcome) -> str:
    """What one costs over the cheapest, and the cause that matters most."""
    if abs(d.ratio - 1) <= ABOUT_AS_MUCH:
        return f"{d.name} costs as much."
    times = f"costs {figure(d.ratio)} times as much" if d.ratio > 1 else f"would cost {1 - d.ratio:.0%} less"
    pulling = [c for c in d.causes if (c.ratio > 1) == (d.ratio > 1)]
    why = f", above all because {pulling[0].text}" if pulling else ""
    unable = "" if o.does_it else " and does not do what was asked"
    if o.reserve is None:
        return f"{d.name} {times}{unable}{why}."
    sized = f"{o.reserve.total_accelerators:,} accelerators"
    usd = "" if o.reserve.usd_per_hour is None else f" for {figure(o.reserve.usd_per_hour)} USD per hour"
    return f"{d.name} {times}, with less in reserve than is planned for: with as much it takes {sized}{usd}."


def phases_told(outcomes: Sequence[Outcome], others: Sequence[Elsewhere]) -> str:
    """What each phase takes, and what taking one machine for all would cost most."""
    sentences = [
        f"{o.name} takes {hardware(o)} for {money(o)}."
        if o.does_it and o.usd is not None
        else f"{o.name}: {o.why_not or 'no price is known.'}"
        for o in outcomes
    ]
    dear = max(others, key=lambda e: float("inf") if e.times is None else e.times, default=None)
    if dear is not None and (dear.times is None or dear.times > DEAREST):
        sentences.append(dear.text)
    elif len({o.accelerator.slug for o in outcomes if o.accelerator is not None}) == 1:
        sentences.append("The same accelerator is best for all of them.")
    return " ".join(sentences)


def hardware(o: Outcome) -> str:
    """So many of which accelerator."""
    assert o.estimate is not None and o.accelerator is not None
    d = o.estimate.deployment
    sides = (
        [o.accelerator.slug] if d.pools is None else sorted({d.pools.prefill.accelerator, d.pools.decode.accelerator})
    )
    named = o.accelerator.name if len(sides) == 1 else " and ".join(sides)
    return f"{d.total_accelerators or 0:,} x {named}"


def money(o: Outcome) -> str:
    """What it costs, in words."""
    assert o.usd is not None
    return f"{figure(o.usd)} USD in all" if o.ends else f"{figure(o.usd)} USD per hour"
