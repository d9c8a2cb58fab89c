"""Table of the slices into which a driver can partition an accelerator (NVIDIA MIG)."""

from __future__ import annotations

from typing import Any

from sqlalchemy import CheckConstraint, ForeignKey, String, select
from sqlalchemy.orm import Mapped, Session, mapped_column

from app.catalog.files import Row
from app.catalog.tables import Text
from app.db import Base
from app.sizing.hardware.slices import Profile, Slice


class SliceRow(Base):
    """A slice that an accelerator's driver offers: its share of compute and memory."""

    __tablename__ = "slices"
    __table_args__ = (CheckConstraint("compute_parts > 0 AND memory_parts > 0", name="positive"),)

    accelerator: Mapped[str] = mapped_column(ForeignKey("accelerators.slug"), primary_key=True)
    name: Mapped[str] = mapped_column(String(20), primary_key=True, doc="as the driver calls it: 1g.10gb")
    compute_parts: Mapped[int]
    memory_parts: Mapped[int]
    starts: Mapped[str] = mapped_column(String(40), doc="parts of memory that it may begin at, joined by |")
    source: Mapped[str] = mapped_column(Text)
    as_of: Mapped[str] = mapped_column(String(10))


def slice_values(row: Row) -> dict[str, Any]:
    """A row of slices.csv."""
    return {
        "accelerator": row["accelerator"],
        "name": row["slice"],
        "compute_parts": int(row["compute_parts"]),
        "memory_parts": int(row["memory_parts"]),
        "starts": row["starts"],
        "source": row["source_ref"],
        "as_of": row["as_of"],
    }


def list_slices(session: Session) -> list[Profile]:
    """Returns every slice of every accelerator, unordered."""
    return [
        Profile(
            row.accelerator,
            row.name,
            Slice(row.compute_parts, row.memory_parts, tuple(int(part) for part in row.starts.split("|"))),
        )
        for row in session.scalars(select(SliceRow))
    ]
