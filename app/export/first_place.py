"""Explains why the first rank of an old answer differs from that of today's answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.export.lines import clean_text
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
    def price_text(self) -> str:
        return "an unknown price" if self.amount is None else f"{self.amount:,.2f} {self.unit}"


def ranked_options(answer: Document, names: Mapping[str, str]) -> list[RankedOption]:
    """Summaries of all ranks of an answer.

    Parameters:
        names: display names of accelerators by slug.
    """
    return [_ranked_option(ranked, names) for ranked in answer["recommendations"]]


def _ranked_option(ranked: Document, names: Mapping[str, str]) -> RankedOption:
    deployment, cost = ranked["deployment"], ranked.get("cost") or {}
    parts = list((deployment.get("pools") or {}).values()) or [deployment]
    types = [part.get("accelerator", deployment["accelerator"]) for part in parts]
    counted = [f"{part['total_accelerators']} x {names.get(t, t)}" for part, t in zip(parts, types, strict=True)]
    ends = cost.get("usd_total") is not None
    return RankedOption(
        rank=ranked["rank"],
        types=tuple(dict.fromkeys(types)),
        names=clean_text(" and ".join(names.get(t, t) for t in dict.fromkeys(types))),
        text=clean_text(" and ".join(counted)),
        amount=cost.get("usd_total" if ends else "usd_per_hour"),
        unit="USD" if ends else "USD/h",
        provider=(deployment.get("offer") or {}).get("provider", SEVERAL_SELLERS),
    )


def has_same_first(then: Sequence[RankedOption], now: Sequence[RankedOption]) -> bool:
    """True if the same accelerators rank first in both answers, or if neither has a first rank."""
    return [place.types for place in then[:1]] == [place.types for place in now[:1]]


def explain_first(then: Document, now: Document, names: Mapping[str, str]) -> Iterator[str]:
    """Sentences that compare the first ranks of two answers."""
    before, after = ranked_options(then, names), ranked_options(now, names)
    if not before or not after:
        yield from _explain_infeasible(before, after, now)
    elif has_same_first(before, after):
        yield from _explain_same_first(before[0], after[0])
    else:
        yield from _explain_new_first(before, after, then, now)


def _explain_infeasible(before: Sequence[RankedOption], after: Sequence[RankedOption], now: Document) -> Iterator[str]:
    """Sentences for two answers of which at least one recommends nothing."""
    if after:
        yield f"Originally no option met the limits. Today {after[0].text} does, at {after[0].price_text}."
    elif before:
        yield f"{before[0].text} originally ranked first. Today no option meets the limits."
        yield _explain_unranked(before[0], now, "is", "today")
    else:
        yield "No option met the limits originally, and none does today."


def _explain_same_first(first: RankedOption, taken: RankedOption) -> Iterator[str]:
    if (first.text, first.price_text) == (taken.text, taken.price_text):
        yield f"{taken.text} still ranks first: {taken.price_text}, unchanged."
    else:
        prices = f"{first.text} at {first.price_text} originally, {taken.text} at {taken.price_text} today"
        yield f"{taken.names} still ranks first: {prices}{_price_change(first, taken)}."
    if first.provider != taken.provider:
        yield f"The seller is now {provider_name(taken.provider)} instead of {provider_name(first.provider)}."


def _explain_new_first(
    before: Sequence[RankedOption], after: Sequence[RankedOption], then: Document, now: Document
) -> Iterator[str]:
    """Sentences about the old and the new first rank: where each ranks in the other answer."""
    first, taken = before[0], after[0]
    yield (
        f"{taken.text} ranks first today at {taken.price_text}; {first.text} originally ranked first at "
        f"{first.price_text}."
    )
    fell = next((place for place in after if place.types == first.types), None)
    rose = next((place for place in before if place.types == taken.types), None)
    if fell is None:
        yield _explain_unranked(first, now, "is", "today")
    else:
        yield f"{first.names} is rank {fell.rank} today: {fell.text} at {fell.price_text}{_price_change(first, fell)}."
    if rose is None:
        yield _explain_unranked(taken, then, "was", "originally")
    else:
        yield (
            f"{taken.names} was originally rank {rose.rank}: {rose.text} at "
            f"{rose.price_text}{_price_change(rose, taken)}."
        )
    if then["catalog"]["snapshot"] == now["catalog"]["snapshot"]:
        yield "The catalog has not changed: prices have aged, or the service now calculates differently."


def _price_change(then: RankedOption, now: RankedOption) -> str:
    """Relative price change of the same accelerators; empty if it cannot be compared."""
    if not then.amount or not now.amount or then.unit != now.unit:
        return ""
    return f" ({100 * (now.amount / then.amount - 1):+.1f} % since then)"


def _explain_unranked(place: RankedOption, answer: Document, verb: str, when: str) -> str:
    """Why an option has no rank in the other answer, if that answer gives a reason."""
    for miss in answer["rejected"]:
        if (miss["accelerator"],) == place.types:
            return f"{place.names} {verb} rejected {when}: {miss['text']}"
    return f"{place.names} {verb} not ranked {when}."
