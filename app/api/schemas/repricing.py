"""Schemas of POST /recommendations/{id}/reprice."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from app.api.schemas.answers import CatalogShown
from app.api.schemas.base import Component, ResponseModel, with_examples
from app.api.schemas.materials import LINE, TOTALS, BillLineShown, ExportedRank, MaterialsTotalsShown
from app.api.schemas.origins import WHOLE, From, ResultModel
from app.export.lines import Bill
from app.export.repricing import Cause, LineChange, match_lines, total_difference

CAUSE = {
    "cause": "price",
    "usd": -100000,
    "text": "370,000.00 per EA (quote, 2026-08), 350,000.00 per EA (quote, ...).",
}
REPRICED = {"goods": "machine", "then": LINE, "now": LINE, "difference": -100000, "causes": [CAUSE]}
MACHINES = {
    "rank": 1,
    "option": "40 x NVIDIA H200 SXM 141GB",
    "text": "2,443,200.45 USD today, 2,543,200.45 USD then: -3.9 %.",
    "lines": [REPRICED],
    "then": TOTALS,
    "now": TOTALS,
    "difference": -100000,
}
TODAY = {"id": "rec_ba9876543210ba9876543210ba98", "changed": False, "why": ["40 x NVIDIA H200 SXM 141GB is first ..."]}
CATALOG = {"snapshot": "614f6a1a7f1b2af2", "prices_as_of": "2026-08-22"}


@dataclass(frozen=True, slots=True)
class MachinesToday:
    """Today's bill for the machines of a stored answer; `bill` is None if they have no price, and `text` says why."""

    bill: Bill | None
    text: str


class RepriceQuery(BaseModel):
    """Rank of the option whose machines are priced again."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rank: ExportedRank = None


class MovedCauseShown(ResultModel, of=Cause):
    """Cause of a price difference."""

    model_config = with_examples(CAUSE)

    cause: Annotated[
        Literal["price", "seller", "estimate", "quantity", "added", "gone", "unpriced", "priced"],
        Component("PriceMove"),
    ] = Field(
        description="What changed. `estimate`: a line calculated from other lines, from an assumption or from the "
        "request.",
    )
    usd: Annotated[float | None, From("amount", convert=float)] = Field(
        None, description="Its part of the difference; absent for a line without a price on one of the days."
    )
    text: str


def _goods(pair: LineChange) -> str:
    line = pair.then or pair.now
    return "" if line is None else line.goods


class RepricedLineShown(ResultModel, of=LineChange):
    """A line of the stored bill with the same line today; absent if that bill does not have it."""

    model_config = with_examples(REPRICED)

    goods: Annotated[str, From(WHOLE, convert=_goods)]
    then: BillLineShown | None = None
    now: BillLineShown | None = None
    difference: Annotated[float | None, From(convert=float)] = Field(
        None, description="Difference of the line totals; absent if one of them has no price."
    )
    causes: list[MovedCauseShown] = Field(description="Causes that add up to the difference; empty if nothing changed.")


class RepricedShown(ResponseModel):
    """The machines of the stored answer at today's prices."""

    model_config = with_examples(MACHINES)

    rank: int
    option: str
    text: str
    lines: list[RepricedLineShown]
    then: MaterialsTotalsShown
    now: MaterialsTotalsShown | None = Field(
        None, description="Totals at today's prices; absent if the machines have no price today."
    )
    difference: float | None = Field(
        None, description="Difference of the totals; absent if a line lost or gained its price."
    )


class RecommendedTodayShown(ResponseModel):
    """Today's answer to the same request, stored like an answer of /recommend."""

    model_config = with_examples(TODAY)

    id: str = Field(description="ID of today's answer; the id of the stored answer if nothing changed.")
    changed: bool = Field(description="True if other accelerator types rank first.")
    why: list[str]


class RepriceResponse(ResponseModel):
    """A stored answer compared with today's catalog."""

    model_config = with_examples(
        {
            "id": "rec_0123456789abcdef0123456789ab",
            "as_of": {"then": "2026-08-25", "now": "2026-11-20"},
            "catalog": {"then": CATALOG, "now": CATALOG},
            "machines": MACHINES,
            "today": TODAY,
        }
    )

    id: str
    as_of: dict[Literal["then", "now"], str]
    catalog: dict[Literal["then", "now"], CatalogShown]
    machines: RepricedShown | None = Field(None, description="Absent if nothing was feasible then.")
    today: RecommendedTodayShown


def repriced_json(then: Bill, today: MachinesToday) -> dict[str, Any]:
    """The stored bill and today's bill, line by line, as JSON."""
    values: dict[str, Any] = {"rank": then.rank, "option": then.title}
    if today.bill is None:
        return {**values, "text": today.text, "lines": [], "then": MaterialsTotalsShown.as_json(then)}
    moved = match_lines(then, today.bill)
    by = total_difference(moved)
    return {
        **values,
        "text": f"{_difference_text(then, today.bill, by)} {today.text}".rstrip(),
        "lines": [RepricedLineShown.as_json(pair) for pair in moved],
        "then": MaterialsTotalsShown.as_json(then),
        "now": MaterialsTotalsShown.as_json(today.bill),
        **({} if by is None else {"difference": float(by)}),
    }


def _difference_text(then: Bill, now: Bill, by: Decimal | None) -> str:
    if by is None:
        return "Some lines lack a price on one of the two days, so the totals are not comparable."
    if not by:
        return f"{then.total:,.2f} USD, then and today."
    share = f": {100 * by / then.total:+.1f} %" if then.total else ""
    return f"{now.total:,.2f} USD today, {then.total:,.2f} USD then{share}."
