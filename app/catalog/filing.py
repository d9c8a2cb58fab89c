"""How stored answers are filed: under what each is found, how far it has come, and who moved it there.

The answers themselves never change; what does stands here, beside them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import ColumnElement, DateTime, ForeignKey, Index, String, insert, or_, select, text, tuple_, update
from sqlalchemy.orm import InstrumentedAttribute, Mapped, Session, mapped_column

from app.catalog.tables import Text
from app.db import Base
from app.errors import NotAllowed, Stale, UnknownRecommendation

Identity = String(40)
# Answers that nobody named, moved on or ordered by; in these very words, so that the databases find the index.
UNFILED = text("status = 'draft' AND version = 0 AND label IS NULL AND reference IS NULL AND cost_centre IS NULL")


class Status(StrEnum):
    """How far a stored answer has come."""

    DRAFT = "draft"
    APPROVED = "approved"
    ORDERED = "ordered"
    SUPERSEDED = "superseded"


NEXT: Mapping[Status, tuple[Status, ...]] = {
    Status.DRAFT: (Status.APPROVED, Status.SUPERSEDED),
    Status.APPROVED: (Status.DRAFT, Status.ORDERED, Status.SUPERSEDED),
    Status.ORDERED: (Status.SUPERSEDED,),
    Status.SUPERSEDED: (),
}


class FilingRow(Base):
    """Under what a stored answer is found, and how far it has come."""

    __tablename__ = "filings"
    __table_args__ = (
        Index("ix_filings_stored_at", "stored_at", "recommendation"),
        Index(
            "ix_filings_unfiled",
            "stored_at",
            "recommendation",
            "size_bytes",
            sqlite_where=UNFILED,
            postgresql_where=UNFILED,
        ),
    )

    recommendation: Mapped[str] = mapped_column(Identity, ForeignKey("recommendations.id"), primary_key=True)
    stored_at: Mapped[datetime] = mapped_column(DateTime(timezone=True))
    label: Mapped[str | None] = mapped_column(Text)
    reference: Mapped[str | None] = mapped_column(Text)
    cost_centre: Mapped[str | None] = mapped_column(Text)
    model: Mapped[str | None] = mapped_column(Text)
    accelerators: Mapped[str | None] = mapped_column(Text, doc="slugs of the first rank, one or two, apart by a blank")
    option: Mapped[str | None] = mapped_column(Text, doc="the first rank in words; none where nothing was feasible")
    status: Mapped[str] = mapped_column(String(20))
    version: Mapped[int] = mapped_column(doc="how often the status has changed")
    superseded_by: Mapped[str | None] = mapped_column(Identity, ForeignKey("recommendations.id"), index=True)
    size_bytes: Mapped[int] = mapped_column(server_default="0", doc="of the answer with what is kept beside it")


class StatusChangeRow(Base):
    """One change of status: to what, when, by whom."""

    __tablename__ = "status_changes"

    recommendation: Mapped[str] = mapped_column(Identity, ForeignKey("recommendations.id"), primary_key=True)
    version: Mapped[int] = mapped_column(primary_key=True)
    status: Mapped[str] = mapped_column(String(20))
    changed_at: Mapped[datetime] = mapped_column(DateTime(timezone=True))
    changed_by: Mapped[str] = mapped_column(Text)
    note: Mapped[str | None] = mapped_column(Text)
    superseded_by: Mapped[str | None] = mapped_column(Identity, index=True)


@dataclass(frozen=True, slots=True)
class Filing:
    """Under what an answer is found: the caller's own words, and what it is about."""

    label: str | None
    reference: str | None
    cost_centre: str | None
    model: str
    accelerators: str | None
    option: str | None


@dataclass(frozen=True, slots=True)
class Sought:
    """What a list of stored answers is narrowed to; None: by nothing."""

    label: str | None = None
    reference: str | None = None
    cost_centre: str | None = None
    status: str | None = None
    models: Collection[str] | None = None
    accelerators: Collection[str] | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """A change of status, and who makes it."""

    status: Status
    changed_by: str
    note: str | None = None
    superseded_by: str | None = None


def in_utc(moment: datetime) -> datetime:
    """A moment that names its zone; SQLite keeps none, and what is kept is UTC."""
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def filed(identity: str, stored_at: datetime, filing: Filing, *, size_bytes: int) -> dict[str, Any]:
    """The row of an answer that was just stored."""
    return {
        "recommendation": identity,
        "stored_at": stored_at,
        **asdict(filing),
        "status": Status.DRAFT.value,
        "version": 0,
        "size_bytes": size_bytes,
    }


def list_filings(
    session: Session, sought: Sought, *, after: tuple[datetime, str] | None, limit: int
) -> tuple[Sequence[FilingRow], bool]:
    """Stored answers, the newest first, after one of a page before; and whether there are more."""
    order = (FilingRow.stored_at, FilingRow.recommendation)
    wanted = select(FilingRow).where(*_narrowed(sought)).order_by(*(key.desc() for key in order))
    if after is not None:
        wanted = wanted.where(tuple_(*order) < after)
    rows = session.scalars(wanted.limit(limit + 1)).all()
    return rows[:limit], len(rows) > limit


def _narrowed(sought: Sought) -> list[ColumnElement[bool]]:
    """The conditions of a search."""
    found: list[ColumnElement[bool]] = []
    if sought.label is not None:
        found += [FilingRow.label.icontains(word, autoescape=True) for word in sought.label.split()]
    for name in ("reference", "cost_centre", "status"):
        if getattr(sought, name) is not None:
            found.append(getattr(FilingRow, name) == getattr(sought, name))
    if sought.models is not None:
        found.append(FilingRow.model.in_(sought.models))
    if sought.accelerators is not None:
        found.append(or_(*(_holds(FilingRow.accelerators, slug) for slug in sought.accelerators)))
    if sought.created_after is not None:
        found.append(FilingRow.stored_at >= sought.created_after)
    if sought.created_before is not None:
        found.append(FilingRow.stored_at < sought.created_before)
    return found


def _holds(column: InstrumentedAttribute[str | None], slug: str) -> ColumnElement[bool]:
    """Whether a slug is one of those that stand in a column, apart by a blank."""
    return or_(
        column == slug, column.startswith(f"{slug} ", autoescape=True), column.endswith(f" {slug}", autoescape=True)
    )


def unknown() -> UnknownRecommendation:
    """That there is no answer under an id, or none any more."""
    return UnknownRecommendation(
        "No recommendation is stored under this id. It may have been pruned: post its request again."
    )


def get_filing(session: Session, identity: str) -> FilingRow:
    """How a stored answer is filed. Raises UnknownRecommendation."""
    row = session.get(FilingRow, identity)
    if row is None:
        raise unknown()
    return row


def list_changes(session: Session, identity: str) -> Sequence[StatusChangeRow]:
    """Every change of status, the first before the last."""
    of = StatusChangeRow
    return session.scalars(select(of).where(of.recommendation == identity).order_by(of.version)).all()


def change_status(session: Session, row: FilingRow, change: Change) -> None:
    """Move a stored answer from the status that was read to another, and keep who did.

    Raises NotAllowed for a step that there is none of, Stale where somebody else moved it since it was read.
    """
    now, allowed = Status(row.status), NEXT[Status(row.status)]
    if change.status not in allowed:
        ways = f"From there it goes to {' or '.join(allowed)}" if allowed else "Nothing follows on that"
        raise NotAllowed(
            f"This recommendation is {now}, so it cannot be made {change.status}. {ways}.", allowed=allowed
        )
    if change.superseded_by is not None:
        _check_successor(session, row, change.superseded_by)
    version, moved = row.version + 1, {"status": change.status.value, "superseded_by": change.superseded_by}
    guarded = update(FilingRow).where(FilingRow.recommendation == row.recommendation, FilingRow.version == row.version)
    if not session.execute(guarded.values(version=version, **moved)).rowcount:  # type: ignore[attr-defined]
        raise Stale("Somebody else changed the status meanwhile; read it again.")
    kept = {"changed_by": change.changed_by, "note": change.note, "changed_at": datetime.now(UTC)}
    session.execute(
        insert(StatusChangeRow), {"recommendation": row.recommendation, "version": version, **moved, **kept}
    )


def _check_successor(session: Session, row: FilingRow, successor: str) -> None:
    """What takes an answer's place is another one that stands itself, so that links never go in a circle."""
    where = [{"pointer": "#/superseded_by", "detail": "names the stored recommendation that takes this one's place"}]
    following = session.get(FilingRow, successor)
    if following is None:
        raise UnknownRecommendation("No recommendation is stored under the id in superseded_by.", errors=where)
    if successor == row.recommendation or following.status == Status.SUPERSEDED:
        said = "itself" if successor == row.recommendation else "one that is superseded"
        raise NotAllowed(f"A recommendation cannot be superseded by {said}.", errors=where)
