"""Explains why the first rank of an old answer differs from that of today's answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.export.lines import plain
from app.sizing.product_names import provider_name

Document = Mapping[str, Any]
SEVERAL_SELLERS = "several sellers"


@dataclass(frozen=True, slots=True)
class RankedOption:
    """Summary of a ranked option: accelerators, counts, seller and price."""

    rank: int
    types: tuple[str, ...]  # slugs of its accelerators
    names: str  # display names of its accelerators
    text: str  # counts and display names: "8 x NVIDIA L4"
    amount: float | None  # cost of the whole run, or of a service per hour
    unit: str  # unit of `amount`: USD or USD/h
    provider: str

    @property
    def price(self) -> str:
        return "an unknown price" if self.amount is None else f"{self.amount:,.2f} {self.unit}"


def places(answer: Document, names: Mapping[str, str]) -> list[RankedOption]:
    """Summaries of all ranks of an answer.

    Parameters:
        names: display names of accelerators by slug.
    """
    return [_place(ranked, names) for ranked in answer["recommendations"]]


def _place(ranked: Document, names: Mapping[str, str]) -> RankedOption:
    deployment, cost = ranked["deployment"], ranked.get("cost") or {}
    parts = list((deployment.get("pools") or {}).values()) or [deployment]
    types = [part.get("accelerator", deployment["accelerator"]) for part in parts]
    counted = [f"{part['total_accelerators']} x {names.get(t, t)}" for part, t in zip(parts, types, strict=True)]
    ends = cost.get("usd_total") is not None
    return RankedOption(
        rank=ranked["rank"],
        types=tuple(dict.fromkeys(types)),
        names=plain(" and ".join(names.get(t, t) for t in dict.fromkeys(types))),
        text=plain(" and ".join(counted)),
        amount=cost.get("usd_total" if ends else "usd_per_hour"),
        unit="USD" if ends else "USD/h",
        provider=(deployment.get("offer") or {}).get("provider", SEVERAL_SELLERS),
    )


def stays(then: Sequence[RankedOption], now: Sequence[RankedOption]) -> bool:
    """True if the same accelerators rank first in both answers, or if neither has a first rank."""
    return [place.types for place in then[:1]] == [place.types for place in now[:1]]


def why(then: Document, now: Document, names: Mapping[str, str]) -> Iterator[str]:
    """Sentences that compare the first ranks of two answers."""
    before, after = places(then, names), places(now, names)
    if not before or not after:
        yield from _nothing(before, after, now)
    elif stays(before, after):
        yield from _stayed(before[0], after[0])
    else:
        yield from _changed(before, after, then, now)


def _nothing(before: Sequence[RankedOption], after: Sequence[RankedOption], now: Document) -> Iterator[str]:
    """Sentences for two answers of which at least one recommends nothing."""
    if after:
        yield f"Originally no option met the limits. Today {after[0].text} does, at {after[0].price}."
    elif before:
        yield f"{before[0].text} originally ranked first. Today no option meets the limits."
        yield _unranked(before[0], now, "is", "today")
    else:
        yield "No option met the limits originally, and none does today."


def _stayed(first: RankedOption, taken: RankedOption) -> Iterator[str]:
    if (first.text, first.price) == (taken.text, taken.price):
        yield f"{taken.text} still ranks first: {taken.price}, unchanged."
    else:
        prices = f"{first.text} at {first.price} originally, {taken.text} at {taken.price} today"
        yield f"{taken.names} still ranks first: {prices}{_moved(first, taken)}."
    if first.provider != taken.provider:
        yield f"The seller is now {provider_name(taken.provider)} instead of {provider_name(first.provider)}."


def _changed(before: Sequence[RankedOption], after: Sequence[RankedOption], then: Document, now: Document) -> Iterator[str]:
    """Sentences about the old and the new first rank: where each ranks in the other answer."""
    first, taken = before[0], after[0]
    yield f"{taken.text} ranks first today at {taken.price}; {first.text} originally ranked first at {first.price}."
    fell = next((place for place in after if place.types == first.types), None)
    rose = next((place for place in before if place.types == taken.types), None)
    if fell is None:
        yield _unranked(first, now, "is", "today")
    else:
        yield f"{first.names} is rank {fell.rank} today: {fell.text} at {fell.price}{_moved(first, fell)}."
    if rose is None:
        yield _unranked(taken, then, "was", "originally")
    else:
        yield f"{taken.names} was originally rank {rose.rank}: {rose.text} at {rose.price}{_moved(rose, taken)}."
    if then["catalog"]["snapshot"] == now["catalog"]["snapshot"]:
        yield "The catalog has not changed: prices have aged, or the service now calculates differently."


def _moved(then: RankedOption, now: RankedOption) -> str:
    """Relative price change of the same accelerators; empty if it cannot be compared."""
    if not then.amount or not now.amount or then.unit != now.unit:
        return ""
    return f" ({100 * (now.amount / then.amount - 1):+.1f} % since then)"


def _unranked(place: RankedOption, answer: Document, verb: str, when: str) -> str:
    """Why an option has no rank in the other answer, if that answer gives a reason."""
    for miss in answer["rejected"]:
        if (miss["accelerator"],) == place.types:
            return f"{place.names} {verb} rejected {when}: {miss['text']}"
    return f"{place.names} {verb} not ranked {when}."
