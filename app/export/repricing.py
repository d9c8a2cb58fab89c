"""A bill of then beside the same machines at prices of today: line by line what moved, by how much, and by what cause.

The causes of a line add up to its difference, and the lines to that of the bills.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from itertools import zip_longest

from app.export.lines import Bill, Line, Unit
from app.export.money import CENT, plainly, rounded
from app.sizing.hardware.prices import PriceKind

PRICE, SELLER, RECKONED, QUANTITY = "price", "seller", "reckoned", "quantity"
ADDED, GONE, UNPRICED, PRICED = "added", "gone", "unpriced", "priced"
OWN_FIGURES = (PriceKind.RECKONED.value, "asked")


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a line comes to another amount, and what of the difference is due to that; None where it has no amount."""

    cause: str
    amount: Decimal | None
    text: str


@dataclass(frozen=True, slots=True)
class Moved:
    """A line of then and the same of today; one of them is None where the other bill has none."""

    then: Line | None
    now: Line | None

    @property
    def difference(self) -> Decimal | None:
        """Today's amount less that of then; None where one of them has no price."""
        amounts = [Decimal(0) if line is None else line.total for line in (self.then, self.now)]
        before, after = amounts
        return None if before is None or after is None else after - before

    @property
    def causes(self) -> tuple[Cause, ...]:
        """What the difference is due to; nothing where there is none."""
        return tuple(_causes(self))


def line_by_line(then: Bill, now: Bill) -> tuple[Moved, ...]:
    """The lines of both, those for the same goods of the same machines side by side, in the order of the bills."""
    found: dict[tuple[int, str, Unit], tuple[list[Line], list[Line]]] = defaultdict(lambda: ([], []))
    for place, bill in enumerate((then, now)):
        for line in bill.lines:
            found[line.lot, line.goods, line.unit][place].append(line)
    return tuple(Moved(*pair) for pairs in found.values() for pair in zip_longest(*pairs))


def difference(moved: tuple[Moved, ...]) -> Decimal | None:
    """What the whole moved by; None where a line lost its price or got one."""
    found = [pair.difference for pair in moved if not _never_priced(pair)]
    return None if None in found else sum((d for d in found if d is not None), Decimal("0.00"))


def _never_priced(pair: Moved) -> bool:
    return all(line is None or line.total is None for line in (pair.then, pair.now))


def _causes(pair: Moved) -> Iterator[Cause]:
    then, now = pair.then, pair.now
    if then is None or now is None:
        cause, day = (ADDED, "then") if then is None else (GONE, "today")
        yield Cause(cause, pair.difference, f"The bill of {day} has no such line.")
    elif then.total is None or now.total is None:
        if then.total is not None or now.total is not None:
            lost = now.total is None
            yield (
                Cause(UNPRICED, None, "Nobody prices it today.") if lost else Cause(PRICED, None, "It has a price now.")
            )
    else:
        yield from _of_price_and_quantity(then, now)


def _of_price_and_quantity(then: Line, now: Line) -> Iterator[Cause]:
    """Another seller, of machines that may be larger; or a price that moved, at the quantity of then, and what is more
    or less of it.
    """
    whole = (now.total or Decimal(0)) - (then.total or Decimal(0))
    if (then.supplier, then.supplier_part_id) != (now.supplier, now.supplier_part_id):
        yield Cause(SELLER, whole, f"{_sold(then)} then; {_sold(now)} is the least today.")
        return
    by_price = (now.unit_price or Decimal(0)) - (then.unit_price or Decimal(0))
    due = whole if then.quantity == now.quantity else rounded(by_price * then.quantity, CENT)
    if by_price:
        yield Cause(*_of_price(then, now, due))
    if then.quantity != now.quantity:
        amounts = f"{plainly(then.quantity)} {then.unit.value} then, {plainly(now.quantity)} today"
        yield Cause(QUANTITY, whole - due, f"Another quantity is needed: {amounts}.")


def _of_price(then: Line, now: Line, amount: Decimal) -> tuple[str, Decimal, str]:
    """By whom and by how much a price moved."""
    if now.price is not None and now.price.kind in OWN_FIGURES:
        return RECKONED, amount, f"It is reckoned, of other lines or with this service's figures: {_prices(then, now)}."
    return PRICE, amount, f"{_prices(then, now)}."


def _sold(line: Line) -> str:
    """Who sells how much of what at which price."""
    seller = " ".join(text for text in (line.supplier, line.supplier_part_id) if text) or "nobody named"
    return f"{seller}, {plainly(line.quantity)} at {_seen(line)}"


def _prices(then: Line, now: Line) -> str:
    """Both prices with their change, and where each was seen if that is somewhere else."""
    before, after = then.unit_price or Decimal(0), now.unit_price or Decimal(0)
    share = f", {100 * (after / before - 1):+.1f} %" if before else ""
    return f"{_seen(then)}, {_seen(now)}{share}"


def _seen(line: Line) -> str:
    amount = f"{line.unit_price:,f} per {line.unit.value}"
    return amount if line.price is None else f"{amount} ({line.price.kind}, {line.price.observed})"
