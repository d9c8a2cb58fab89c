"""Compares an old bill with the same machines at today's prices, line by line, with the cause of each difference.

The causes of a line add up to its difference, and the differences of the lines add up to the difference of the
bills.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from itertools import zip_longest

from app.export.lines import Bill, Line, Unit
from app.export.money import CENT, format_decimal, round_half_up
from app.sizing.hardware.prices import PriceKind

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
