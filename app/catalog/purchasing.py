"""Purchasing data of goods other than prices: commodity codes, part numbers and provider names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import String, select
from sqlalchemy.orm import Mapped, Session, mapped_column

from app.catalog.files import Row, text_or_none
from app.catalog.tables import ProviderRow, Slug, Text
from app.db import Base

CODES = ("unspsc", "unspsc_version", "cpv", "hs_code")


class CommodityCodeRow(Base):
    """Classification codes of one kind of bill line. Buyers can use their own codes: they are data, not code."""

    __tablename__ = "commodity_codes"

    goods: Mapped[str] = mapped_column(
        Slug, primary_key=True, doc="kind of bill line: accelerator, machine, cloud, ..."
    )
    unspsc: Mapped[str | None] = mapped_column(String(8))
    unspsc_version: Mapped[str | None] = mapped_column(String(10))
    cpv: Mapped[str | None] = mapped_column(String(10))
    hs_code: Mapped[str | None] = mapped_column(String(10))
    source: Mapped[str] = mapped_column(Text)
    as_of: Mapped[str] = mapped_column(String(10))


class PartNumberRow(Base):
    """The manufacturer's part number of an accelerator or a system, if known."""

    __tablename__ = "part_numbers"

    item: Mapped[str] = mapped_column(Slug, primary_key=True, doc="slug of an accelerator or a system")
    part_number: Mapped[str] = mapped_column(Slug)
    source: Mapped[str] = mapped_column(Text)
    as_of: Mapped[str] = mapped_column(String(10))


@dataclass(frozen=True, slots=True)
class Purchasing:
    """Purchasing data: codes by kind of bill line, part numbers by slug, provider names by slug."""

    codes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    part_numbers: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)


def code_values(row: Row) -> dict[str, Any]:
    """A row of commodity_codes.csv."""
    return {
        "goods": row["goods"],
        **{name: text_or_none(row[name]) for name in CODES},
        "source": row["source_ref"],
        "as_of": row["as_of"],
    }


def part_number_values(row: Row) -> dict[str, Any]:
    """A row of part_numbers.csv."""
    return {**{name: row[name] for name in ("item", "part_number", "as_of")}, "source": row["source_ref"]}


def load_purchasing(session: Session) -> Purchasing:
    """Returns all purchasing data in the database."""
    codes = {
        row.goods: {name: value for name in CODES if (value := getattr(row, name)) is not None}
        for row in session.scalars(select(CommodityCodeRow))
    }
    numbers = {row.item: row.part_number for row in session.scalars(select(PartNumberRow))}
    names = {row.slug: row.name for row in session.scalars(select(ProviderRow))}
    return Purchasing(codes, numbers, names)
