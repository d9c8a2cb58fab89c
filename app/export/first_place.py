"""What was first in an answer of then, what is in one of today, and why that differs: both read side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.export.lines import plain

Document = Mapping[str, Any]
NOBODY = "several sellers"


@dataclass(frozen=True, slots=True)
class Place:
    """An option in a few words: its types, how many of each, from whom, at what price."""

    rank: int
    types: tuple[str, ...]
    names: str
    text: str
    amount: float | None  # of a run the whole, of a service the hour
    unit: str
    provider: str

    @property
    def price(self) -> str:
        return "no price" if self.amount is None else f"{self.amount:,.2f} {self.unit}"


def places(answer: Document, names: Mapping[str, str]) -> list[Place]:
    """Every rank of an answer; types by the names that they are known by."""
    return [_place(ranked, names) for ranked in answer["recommendations"]]


def _place(ranked: Document, names: Mapping[str, str]) -> Place:
    deployment, cost = ranked["deployment"], ranked.get("cost") or {}
    parts = list((deployment.get("pools") or {}).values()) or [deployment]
    types = [part.get("accelerator", deployment["accelerator"]) for part in parts]
    counted = [f"{part['total_accelerators']} x {names.get(t, t)}" for part, t in zip(parts, types, strict=True)]
    ends = cost.get("usd_total") is not None
    return Place(
        rank=ranked["rank"],
        types=tuple(dict.fromkeys(types)),
        names=plain(" and ".join(names.get(t, t) for t in dict.fromkeys(types))),
        text=plain(" and ".join(counted)),
        amount=cost.get("usd_total" if ends else "usd_per_hour"),
        unit="USD" if ends else "USD/h",
        provider=(deployment.get("offer") or {}).get("provider", NOBODY),
    )


def stays(then: Sequence[Place], now: Sequence[Place]) -> bool:
    """Whether the same types are first; nothing twice is the same."""
    return [place.types for place in then[:1]] == [place.types for place in now[:1]]


def why(then: Document, now: Document, names: Mapping[str, str]) -> Iterator[str]:
    """What is to be said of the first place, in sentences."""
    before, after = places(then, names), places(now, names)
    if not before or not after:
        yield from _nothing(before, after, now)
    elif stays(before, after):
        yield from _stayed(before[0], after[0])
    else:
        yield from _changed(before, after, then, now)


def _nothing(before: Sequence[Place], after: Sequence[Place], now: Document) -> Iterator[str]:
    """Where one of the answers has no first place."""
    if after:
        yield f"Nothing did what was asked then; today {after[0].text} does, at {after[0].price}."
    elif before:
        yield f"{before[0].text} was first then; nothing does what is asked today."
        yield _unranked(before[0], now, "is", "today")
    else:
        yield "Nothing did what was asked then; nothing does today."


def _stayed(first: Place, taken: Place) -> Iterator[str]:
    if (first.text, first.price) == (taken.text, taken.price):
        yield f"{taken.text} stays first: {taken.price} then and today."
    else:
        told = f"{first.text} at {first.price} then, {taken.text} at {taken.price} today"
        yield f"{taken.names} stays first: {told}{_moved(first, taken)}."
    if first.provider != taken.provider:
        yield f"It is had from {taken.provider} now, not from {first.provider}."


def _changed(before: Sequence[Place], after: Sequence[Place], then: Document, now: Document) -> Iterator[str]:
    """Where what was first stands today, and where what is first stood then."""
    first, taken = before[0], after[0]
    yield f"{taken.text} is first today at {taken.price}; {first.text} was first then at {first.price}."
    fell = next((place for place in after if place.types == first.types), None)
    rose = next((place for place in before if place.types == taken.types), None)
    if fell is None:
        yield _unranked(first, now, "is", "today")
    else:
        yield f"{first.names} is rank {fell.rank} today, {fell.text} at {fell.price}{_moved(first, fell)}."
    if rose is None:
        yield _unranked(taken, then, "was", "then")
    else:
        yield f"{taken.names} was rank {rose.rank} then, {rose.text} at {rose.price}{_moved(rose, taken)}."
    if then["catalog"]["snapshot"] == now["catalog"]["snapshot"]:
        yield "The catalogue is the same: its prices have aged, or the service reckons otherwise by now."


def _moved(then: Place, now: Place) -> str:
    """By what share the price of the same types moved."""
    if not then.amount or not now.amount or then.unit != now.unit:
        return ""
    return f" ({100 * (now.amount / then.amount - 1):+.1f} % since then)"


def _unranked(place: Place, answer: Document, verb: str, when: str) -> str:
    """Why the types of a place are among no ranks of the other answer, where it says so."""
    for miss in answer["rejected"]:
        if (miss["accelerator"],) == place.types:
            return f"{place.names} {verb} turned down {when}: {miss['text']}"
    return f"{place.names} {verb} not among the ranks of {when}."
