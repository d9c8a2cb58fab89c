"""Summary of a comparison in a few sentences."""

from __future__ import annotations

from collections.abc import Sequence

from app.sizing.answer.money import format_usd
from app.sizing.columns import SECONDS_PER_DAY
from app.sizing.comparing.causes import Difference
from app.sizing.comparing.months import HOSTED, Spending
from app.sizing.comparing.outcomes import Outcome
from app.sizing.comparing.phases import OtherHardware, phase_label
from app.sizing.words import format_count, format_duration, format_number, percent, provider_name

EQUAL_COST_TOLERANCE = 0.005  # cost ratios closer to 1 than this count as equal
MIN_EXTRA_COST = 1.005  # smaller extra costs of a shared accelerator are not mentioned
WAYS_IN_WORDS = {
    "on_demand": "on demand",
    "committed_1y": "one-year commitment",
    "committed_3y": "three-year commitment",
    "spot": "spot capacity",
    "owned": "purchase",
    HOSTED: "hosted API",
}


def cheapest_outcome(outcomes: Sequence[Outcome]) -> Outcome | None:
    """The cheapest outcome that meets the requirements; outcomes with the planned headroom come first."""
    priced = [o for o in outcomes if o.meets_requirements and o.usd is not None]
    return min(priced, key=lambda o: (o.level_with_reserve is not None, o.usd or 0.0), default=None)


def summarize_comparison(
    outcomes: Sequence[Outcome], differences: Sequence[Difference], spent: Sequence[Spending]
) -> str:
    """Summary: the cheapest option, why others cost more, and which options miss the requirements."""
    best = cheapest_outcome(outcomes)
    if best is None:
        sentences = ["None of the options meets the requirements at a known price."]
    else:
        sentences = [f"'{best.name}' costs the least: {format_hardware(best)} for {format_cost(best)}."]
    by_name = {o.name: o for o in outcomes}
    sentences += [_difference_sentence(d, by_name[d.name]) for d in differences]
    sentences += [
        f"'{o.name}' {late}."
        for o in outcomes
        if (o.level_with_reserve is None or o is best) and (late := _missed_deadline(o)) is not None
    ]
    sentences += [f"'{o.name}': {o.why_not}" for o in outcomes if not o.meets_requirements]
    sentences += [_months_sentence(s) for s in spent if best is not None and s.name == best.name]
    return " ".join(sentences)


def _months_sentence(s: Spending) -> str:
    """Sentence that names the cheapest way to acquire the cheapest option over the horizon."""
    first, months = s.paths[0], len(s.paths[0].usd) - 1
    way = f"{WAYS_IN_WORDS.get(first.way, first.way)} ({provider_name(first.provider)})"
    text = f"Cheapest over {months} months: {way}, {format_usd(first.net_usd)}"
    return f"{text}." if len(s.paths) == 1 else f"{text}; next best {format_usd(s.paths[1].net_usd)}."


def _difference_sentence(d: Difference, o: Outcome) -> str:
    """Sentence that compares an option with the cheapest one and names the main cause."""
    if abs(d.ratio - 1) <= EQUAL_COST_TOLERANCE:
        return f"'{d.name}' costs about the same."
    times = f"costs {format_number(d.ratio)} times as much" if d.ratio > 1 else f"costs {percent(1 - d.ratio)} less"
    pulling = [c for c in d.causes if (c.ratio > 1) == (d.ratio > 1)]
    why = f", mainly because {pulling[0].text}" if pulling else ""
    unable = "" if o.meets_requirements else "; it does not meet the requirements"
    if o.level_with_reserve is None:
        return f"'{d.name}' {times}{why}{unable}."
    if (late := _missed_deadline(o)) is not None:
        needed = format_count(o.level_with_reserve.total_accelerators or 0, "accelerator")
        return f"'{d.name}' {times} but {late}. To meet the deadline, it needs {needed}."
    sized = f"{o.level_with_reserve.total_accelerators:,} accelerators"
    usd = "" if o.level_with_reserve.usd_per_hour is None else f" for {format_usd(o.level_with_reserve.usd_per_hour)}/h"
    return f"'{d.name}' {times} but has less headroom than planned. With the planned headroom, it needs {sized}{usd}."


def _missed_deadline(o: Outcome) -> str | None:
    """How an expected duration misses the deadline, as text; None where it does not."""
    limit_s, p = o.question.workload.deadline_s, None if o.estimate is None else o.estimate.performance
    if limit_s is None or p is None or p.days is None or p.days * SECONDS_PER_DAY <= limit_s:
        return None
    return f"takes {format_duration(p.days)}, longer than the deadline of {format_duration(limit_s / SECONDS_PER_DAY)}"


def summarize_phases(outcomes: Sequence[Outcome], others: Sequence[OtherHardware]) -> str:
    """Summary: what each phase needs, and the largest extra cost of sharing one accelerator type."""
    sentences = [
        f"{phase_label(o.name)} needs {format_hardware(o)} for {format_cost(o)}."
        if o.meets_requirements and o.usd is not None
        else f"{phase_label(o.name)}: {o.why_not or 'no price is known.'}"
        for o in outcomes
    ]
    dear = max(others, key=lambda e: float("inf") if e.times is None else e.times, default=None)
    if dear is not None and (dear.times is None or dear.times > MIN_EXTRA_COST):
        sentences.append(dear.text)
    elif len({o.accelerator.slug for o in outcomes if o.accelerator is not None}) == 1:
        sentences.append("The same accelerator type is best for all phases.")
    return " ".join(sentences)


def format_hardware(o: Outcome) -> str:
    """Accelerators as text: "13 × NVIDIA GH200 96GB HBM3"."""
    assert o.estimate is not None and o.accelerator is not None
    d = o.estimate.deployment
    sides = (
        [o.accelerator.slug] if d.pools is None else sorted({d.pools.prefill.accelerator, d.pools.decode.accelerator})
    )
    named = o.accelerator.name if len(sides) == 1 else " and ".join(sides)
    return f"{d.total_accelerators or 0:,} × {named}"


def format_cost(o: Outcome) -> str:
    """Cost as text: "29.80 USD/h", or in total for work with an end."""
    assert o.usd is not None
    if not o.has_an_end:
        return f"{format_usd(o.usd)}/h"
    bought = None if o.estimate is None or o.estimate.cost is None else o.estimate.cost.purchase_usd
    share = "" if bought is None else f" (the run's share of a purchase of {format_usd(bought)})"
    return f"{format_usd(o.usd)} in total{share}"
