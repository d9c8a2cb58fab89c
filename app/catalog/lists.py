"""Paged lists of catalog rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from sqlalchemy import false, func, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from app.catalog.names import split_name_words
from app.catalog.order import ordered_by
from app.catalog.tables import (
    AcceleratorRow,
    EngineSupportRow,
    ModelAliasRow,
    ModelRow,
    OfferRow,
    PriceRow,
    SystemRow,
)
from app.db import Base


@dataclass(frozen=True, slots=True)
class Listing:
    """One list: its table and the column that orders it."""

    table: type[Base]
    key: InstrumentedAttribute[Any]

    @property
    def counts(self) -> bool:
        """Whether the keys are integers."""
        return self.key.type.python_type is int


LISTS: Mapping[str, Listing] = MappingProxyType(
    {
        "accelerators": Listing(AcceleratorRow, AcceleratorRow.slug),
        "systems": Listing(SystemRow, SystemRow.slug),
        "offers": Listing(OfferRow, OfferRow.id),
        "prices": Listing(PriceRow, PriceRow.id),
        "models": Listing(ModelRow, ModelRow.id),
        "engines": Listing(EngineSupportRow, EngineSupportRow.id),
    }
)


def column_values(session: Session, what: str, column: str) -> Sequence[str]:
    """Returns the distinct values of a column of a list, sorted."""
    values = getattr(LISTS[what].table, column)
    return sorted(session.scalars(select(values).where(values.is_not(None)).distinct()).all())


def page(
    session: Session, what: str, *, among: Mapping[str, Sequence[str]], named: str | None, after: Any, limit: int
) -> tuple[Sequence[Any], str | None]:
    """Returns one page of a list in key order, and the cursor of the next page (None at the end).

    `allowed_values` maps columns to their allowed values. `name_query` holds words of a model's id or alias, in any
    order.
    """
    listing = LISTS[what]
    order = ordered_by(listing.key)
    wanted = select(listing.table).order_by(order)
    for name, values in among.items():
        wanted = wanted.where(getattr(listing.table, name).in_(values))
    if named is not None:
        typed = [ModelAliasRow.alias.contains(w, autoescape=True) for w in sorted(split_name_words(named))]
        aliased = select(ModelAliasRow.model).where(*(typed or [false()]))  # punctuation alone matches nothing
        wanted = wanted.where(listing.key.in_(aliased))
    if after is not None:
        wanted = wanted.where(order > after)
    rows = session.scalars(wanted.limit(limit + 1)).all()
    shown = rows[:limit]
    return shown, str(getattr(shown[-1], listing.key.key)) if len(rows) > limit else None


def fetched_models(session: Session) -> int:
    """Returns the number of models fetched on request, the only models that can be added within one catalog version."""
    return session.scalar(select(func.count()).select_from(ModelRow).where(ModelRow.origin == "hub")) or 0
