"""What would have to give, gathered: single changes first, two only where no single one does."""

from __future__ import annotations

from collections.abc import Sequence

from app.sizing.columns import one
from app.sizing.question import Constraints, Question
from app.sizing.relaxations.allowed import alternatives
from app.sizing.relaxations.times import of_times, without_latencies
from app.sizing.relaxations.tried import least_that_does, that_does
from app.sizing.relaxations.ways import Size, Ways, keeping, named, sizes_asked, ways_of
from app.sizing.result import Change, Reached, Rejection
from app.sizing.snapshot import Snapshot

NOTHING = "still nothing fits"


def relaxations(question: Question, market: Snapshot, rejected: Sequence[Rejection]) -> tuple[Change, ...]:
    """For an answer without a recommendation: what would have to give, by the smallest change that does."""
    sizes = sizes_asked(question.constraints)
    judged = [r for r in rejected if r.reached is not Reached.LEFT_OUT]
    enough = of_sizes(question, sizes, ways_of(question, market, helped_by_size(question.constraints, judged)), market)
    single = [Change(size.label, enough.get(size.name, NOTHING)) for size in sizes]
    single += of_times(question, market, judged, sizes)
    double: list[Change] = []
    for other in alternatives(question, judged):
        ways = ways_of(other.question, market)
        kept = ways.take(keeping(sizes, ways))
        does = that_does(other.question, market, kept) if len(kept) else None
        if does is not None:
            single.append(Change(other.label, f"{named(does, market)} would do{other.owed}"))
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


def of_sizes(question: Question, sizes: Sequence[Size], ways: Ways, market: Snapshot) -> dict[str, str]:
    """By the name of each limit that alone would have to give: how little, and what that is spent on."""
    enough: dict[str, str] = {}
    for size in sizes:
        rest = ways.take(keeping([other for other in sizes if other is not size], ways))
        if len(rest):
            least = size.least(rest)
            does = least_that_does(question, market, size.allowing, one(size.needed(least)), least)
            if does is not None:
                told = min(does[0], one(size.needed(does[1])))  # tried by steps, which may go beyond what it takes
                enough[size.name] = f"{size.words(told)} would do: {named(does[1], market)}"
    return enough


def helped_by_size(limits: Constraints, judged: Sequence[Rejection]) -> tuple[str, ...]:
    """Types that more accelerators, money or power may help; some machines and layouts are not even tried without."""
    if limits.max_accelerators is None and limits.max_purchase_usd is None:
        return tuple(r.accelerator for r in judged if r.reached is Reached.LIMITS)
    return tuple(r.accelerator for r in judged if r.reached >= Reached.MEMORY or r.code in ("no_layout", "over_budget"))


def of_everything(question: Question, market: Snapshot, sizes: Sequence[Size]) -> list[Change]:
    """What two changes do not do: every limit of latency lifted, beside one of number, money and power, or all."""
    question = without_latencies(question)
    ways = ways_of(question, market)
    if not len(ways):
        return []
    kept = ways.take(keeping(sizes, ways))
    does = that_does(question, market, kept) if len(kept) else None
    if does is not None:
        return [Change("lift every latency limit", f"{named(does, market)} would do")]
    enough = of_sizes(question, sizes, ways, market)
    beside = [Change(f"lift every latency limit, {s.label}", enough[s.name]) for s in sizes if s.name in enough]
    every = Change("lift every limit of latency, number, money and power", f"{named(ways, market)} would do")
    return beside or [every]
