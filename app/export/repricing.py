"""Compares an old answer with today's prices: every line of its bill, and why another option ranks first.

The causes of a line add up to its difference, and the differences of the lines add up to the difference of the
bills.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import zip_longest
from typing import Any

from app.export.lines import CENT, MIXED_FLEET, Bill, Line, Unit, clean_text, format_decimal, round_half_up
from app.sizing.hardware.parts import PriceKind
from app.sizing.words import provider_name

# Codes of the causes, as they appear in answers.
PRICE, SELLER, ESTIMATE, QUANTITY = "price", "seller", "estimate", "quantity"
ADDED, REMOVED, UNPRICED, PRICED = "added", "gone", "unpriced", "priced"
ESTIMATED_KINDS = (PriceKind.ESTIMATE.value, "asked")  # kinds of prices that no seller has stated


@dataclass(frozen=True, slots=True)
class Cause:
    """Cause of a difference and its amount; the amount is None if one side has no price."""

    cause: str
    amount: Decimal | None
    text: str


@dataclass(frozen=True, slots=True)
class LineChange:
    """A line of the old bill with its counterpart of today; None if a bill has no such line."""

    then: Line | None
    now: Line | None

    @property
    def difference(self) -> Decimal | None:
        """Today's amount minus the old one; None if one of them has no price."""
        amounts = [Decimal(0) if line is None else line.total for line in (self.then, self.now)]
        before, after = amounts
        return None if before is None or after is None else after - before

    @property
    def causes(self) -> tuple[Cause, ...]:
        """Causes of the difference; empty if there is no difference."""
        return tuple(_list_causes(self))


def match_lines(then: Bill, now: Bill) -> tuple[LineChange, ...]:
    """Pairs of lines for the same goods of the same machines, in the order of the bills."""
    pairs_by_goods: dict[tuple[int, str, Unit], tuple[list[Line], list[Line]]] = defaultdict(lambda: ([], []))
    for place, bill in enumerate((then, now)):
        for line in bill.lines:
            pairs_by_goods[line.lot, line.goods, line.unit][place].append(line)
    return tuple(LineChange(*pair) for pairs in pairs_by_goods.values() for pair in zip_longest(*pairs))


def total_difference(changes: tuple[LineChange, ...]) -> Decimal | None:
    """Difference of the totals; None if a line lost or gained a price."""
    differences = [pair.difference for pair in changes if not _never_priced(pair)]
    return None if None in differences else sum((d for d in differences if d is not None), Decimal("0.00"))


def _never_priced(pair: LineChange) -> bool:
    return all(line is None or line.total is None for line in (pair.then, pair.now))


def _list_causes(pair: LineChange) -> Iterator[Cause]:
    then, now = pair.then, pair.now
    if then is None or now is None:
        cause, owner = (ADDED, "The original") if then is None else (REMOVED, "Today's")
        yield Cause(cause, pair.difference, f"{owner} bill has no such line.")
    elif then.total is None or now.total is None:
        if then.total is not None or now.total is not None:
            lost = now.total is None
            yield (
                Cause(UNPRICED, None, "No seller lists a price today.")
                if lost
                else Cause(PRICED, None, "It has a price today.")
            )
    else:
        yield from _price_and_quantity_causes(then, now)


def _price_and_quantity_causes(then: Line, now: Line) -> Iterator[Cause]:
    """Causes for a line that has a price on both days.

    They are another seller, or a changed price at the old quantity plus a changed quantity.
    """
    whole = (now.total or Decimal(0)) - (then.total or Decimal(0))
    if (then.supplier, then.supplier_part_id) != (now.supplier, now.supplier_part_id):
        yield Cause(
            SELLER, whole, f"Originally {_describe_sale(then)}. The cheapest offer today: {_describe_sale(now)}."
        )
        return
    by_price = (now.unit_price or Decimal(0)) - (then.unit_price or Decimal(0))
    due = whole if then.quantity == now.quantity else round_half_up(by_price * then.quantity, CENT)
    if by_price:
        yield Cause(*_price_cause(then, now, due))
    if then.quantity != now.quantity:
        amounts = f"{format_decimal(then.quantity)} {then.unit.value} originally, {format_decimal(now.quantity)} today"
        yield Cause(QUANTITY, whole - due, f"The quantity changed: {amounts}.")


def _price_cause(then: Line, now: Line, amount: Decimal) -> tuple[str, Decimal, str]:
    """Code, amount and text of a price change."""
    if now.price is not None and now.price.kind in ESTIMATED_KINDS:
        return (
            ESTIMATE,
            amount,
            f"The price is estimated from other lines or from assumptions: {_describe_prices(then, now)}.",
        )
    return PRICE, amount, f"{_describe_prices(then, now)}."


def _describe_sale(line: Line) -> str:
    """Seller, quantity and price of a line."""
    seller = " ".join(text for text in (line.supplier, line.supplier_part_id) if text) or "an unnamed seller"
    return f"{seller}, {format_decimal(line.quantity)} at {_describe_price(line)}"


def _describe_prices(then: Line, now: Line) -> str:
    """Both prices with their sources and the relative change."""
    before, after = then.unit_price or Decimal(0), now.unit_price or Decimal(0)
    share = f" ({100 * (after / before - 1):+.1f} %)" if before else ""
    return f"{_describe_price(then)} originally, {_describe_price(now)} today{share}"


def _describe_price(line: Line) -> str:
    amount = f"{line.unit_price:,f} per {line.unit.value}"
    return amount if line.price is None else f"{amount} ({line.price.kind}, {line.price.observed})"


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
    """Summaries of all ranks of an answer, or of its mixed fleet if it has none.

    Parameters:
        names: display names of accelerators by slug.
    """
    fleet = answer.get("mixed_fleet")
    if fleet and not answer["recommendations"]:
        return [fleet_option(fleet, names)]
    return [_ranked_option(ranked, names) for ranked in answer["recommendations"]]


def fleet_option(fleet: Document, names: Mapping[str, str]) -> RankedOption:
    pools = {str(place): group["deployment"] for place, group in enumerate(fleet["groups"])}
    cost = {"usd_per_hour": fleet["usd_per_hour"]}
    return _ranked_option({"rank": MIXED_FLEET, "deployment": {"accelerator": "", "pools": pools}, "cost": cost}, names)


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
