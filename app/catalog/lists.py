"""Paged lists of catalog rows, sorted by bytes on every database, independent of its collation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from sqlalchemy import ColumnElement, String, and_, false, func, or_, select
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.orm import InstrumentedAttribute, Session
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import GenericFunction

from app.catalog.names import split_name_words
from app.catalog.tables import AcceleratorRow, EngineSupportRow, ModelAliasRow, ModelRow, OfferRow, PriceRow, SystemRow
from app.db import Base


class bytewise(GenericFunction[str]):  # noqa: N801
    """A text column that sorts and compares by bytes. SQLite does so by default; PostgreSQL needs COLLATE "C"."""

    type = String()
    inherit_cache = True


@compiles(bytewise)
def _compile_default(element: bytewise, compiler: SQLCompiler, **how: Any) -> str:
    return compiler.process(element.clauses, **how)


@compiles(bytewise, "postgresql")
def _compile_postgresql(element: bytewise, compiler: SQLCompiler, **how: Any) -> str:
    return f'({compiler.process(element.clauses, **how)} COLLATE "C")'


def sort_key(column: InstrumentedAttribute[Any]) -> bytewise | InstrumentedAttribute[Any]:
    """Returns the sort key of a list: numbers as they are, text by bytes."""
    return bytewise(column) if column.type.python_type is str else column


@dataclass(frozen=True, slots=True)
class Listing:
    """One list: its table and the column that orders it."""

    table: type[Base]
    key: InstrumentedAttribute[Any]
    prices: Mapping[str, ColumnElement[float]] = field(default_factory=dict)  # what the list can be sorted by instead

    @property
    def has_integer_keys(self) -> bool:
        return self.key.type.python_type is int


_ACCELERATORS = func.coalesce(func.nullif(OfferRow.accelerator_count, 0), 1)
OFFER_PRICES: Mapping[str, ColumnElement[float]] = {
    "usd_per_hour": cast("ColumnElement[float]", OfferRow.usd_per_hour),
    "usd_per_accelerator_hour": OfferRow.usd_per_hour / _ACCELERATORS,
}
LISTS: Mapping[str, Listing] = {
    "accelerators": Listing(AcceleratorRow, AcceleratorRow.slug),
    "systems": Listing(SystemRow, SystemRow.slug),
    "offers": Listing(OfferRow, OfferRow.id, OFFER_PRICES),
    "prices": Listing(PriceRow, PriceRow.id),
    "models": Listing(ModelRow, ModelRow.id),
    "engines": Listing(EngineSupportRow, EngineSupportRow.id),
}


def column_values(session: Session, list_name: str, column: str) -> Sequence[str]:
    values = getattr(LISTS[list_name].table, column)
    return sorted(session.scalars(select(values).where(values.is_not(None)).distinct()).all())


def list_page(
    session: Session,
    list_name: str,
    *,
    allowed_values: Mapping[str, Sequence[str]],
    name_query: str | None,
    after: Any,
    limit: int,
    sort: str | None = None,
) -> tuple[Sequence[Any], str | None]:
    """Returns one page of a list in key order or by a price, and the cursor of the next page (None at the end).

    `after` is the last key of the previous page; in a list by price, the last price and key.
    `allowed_values` maps columns to their allowed values. `name_query` holds words of a model's id or alias, in any
    order.
    """
    listing = LISTS[list_name]
    order = sort_key(listing.key)
    price = None if sort is None else listing.prices[sort]
    wanted = select(listing.table).order_by(*(() if price is None else (price,)), order)
    for name, values in allowed_values.items():
        wanted = wanted.where(getattr(listing.table, name).in_(values))
    if name_query is not None:
        typed = [ModelAliasRow.alias.contains(w, autoescape=True) for w in sorted(split_name_words(name_query))]
        aliased = select(ModelAliasRow.model).where(*(typed or [false()]))  # punctuation alone matches nothing
        wanted = wanted.where(listing.key.in_(aliased))
    if after is not None and price is None:
        wanted = wanted.where(order > after)
    elif after is not None and price is not None:
        wanted = wanted.where(or_(price > after[0], and_(price == after[0], order > after[1])))
    rows = session.scalars(wanted.limit(limit + 1)).all()
    shown = rows[:limit]
    if len(rows) <= limit:
        return shown, None
    last = str(getattr(shown[-1], listing.key.key))
    if price is None:
        return shown, last
    at = session.scalar(select(price).where(listing.key == getattr(shown[-1], listing.key.key)))
    return shown, f"{at!r} {last}"


def fetched_models(session: Session) -> int:
    """Returns the number of models fetched on request, the only models that can be added within one catalog version."""
    return session.scalar(select(func.count()).select_from(ModelRow).where(ModelRow.origin == "hub")) or 0
