"""Filing of stored answers: labels and references to find them by, approval status, and the history of status changes.

A stored answer never changes; everything about it that can change is stored here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import (
    ColumnElement,
    DateTime,
    ForeignKey,
    Index,
    String,
    and_,
    insert,
    or_,
    select,
    text,
    tuple_,
    update,
)
from sqlalchemy.orm import InstrumentedAttribute, Mapped, Session, mapped_column

from app.catalog.tables import Slug, Text
from app.db import PUBLIC, Base
from app.errors import ChangedMeanwhile, NotAllowed, UnknownRecommendation

Identity = String(40)
# Condition of answers without filing data. Its text must equal the index condition, so that databases use the index.
UNFILED = text("status = 'draft' AND version = 0 AND label IS NULL AND reference IS NULL AND cost_centre IS NULL")


class Status(StrEnum):
    """Approval status of a stored answer."""

    DRAFT = "draft"
    APPROVED = "approved"
    ORDERED = "ordered"
    SUPERSEDED = "superseded"


ALLOWED_TRANSITIONS: Mapping[Status, tuple[Status, ...]] = {
    Status.DRAFT: (Status.APPROVED, Status.SUPERSEDED),
    Status.APPROVED: (Status.DRAFT, Status.ORDERED, Status.SUPERSEDED),
    Status.ORDERED: (Status.SUPERSEDED,),
    Status.SUPERSEDED: (),
}


class FilingRow(Base):
    """Labels, references and approval status of a stored answer."""

    __tablename__ = "filings"
    __table_args__ = (
        Index("ix_filings_stored_at", "stored_at", "recommendation"),
        Index("ix_filings_tenant", "tenant", "stored_at", "recommendation"),
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
    accelerators: Mapped[str | None] = mapped_column(
        Text, doc="slugs of the first rank's accelerators, one or two, separated by a space"
    )
    option: Mapped[str | None] = mapped_column(
        Text, doc="description of the first rank; none if no option was feasible"
    )
    status: Mapped[str] = mapped_column(String(20))
    version: Mapped[int] = mapped_column(doc="number of status changes")
    superseded_by: Mapped[str | None] = mapped_column(Identity, ForeignKey("recommendations.id"), index=True)
    size_bytes: Mapped[int] = mapped_column(
        server_default="0", doc="size of the answer, its request and its supply data"
    )
    tenant: Mapped[str] = mapped_column(Slug, server_default=PUBLIC)


class StatusChangeRow(Base):
    """One status change: the new status, the time and the person."""

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
    """Fields to find an answer by: label, reference and cost center, and the answer's model and hardware."""

    label: str | None
    reference: str | None
    cost_centre: str | None
    model: str
    accelerators: str | None
    option: str | None

    @property
    def is_filed(self) -> bool:
        """True if the caller wants the answer kept."""
        return any(each is not None for each in (self.label, self.reference, self.cost_centre))


@dataclass(frozen=True, slots=True)
class Visibility:
    """Which stored answers a buyer sees: these ids, labels that begin with one of `labels`, and these cost centers.
    `everything` overrides them. All of them are answers of the buyer's tenant.
    """

    ids: Collection[str] = ()
    labels: Collection[str] = ()
    cost_centres: Collection[str] = ()
    everything: bool = False
    tenant: str = PUBLIC

    def condition(self) -> ColumnElement[bool]:
        """Returns the SQL condition of a visible answer."""
        mine = FilingRow.tenant == self.tenant
        if self.everything:
            return mine
        named = or_(
            FilingRow.recommendation.in_(self.ids),
            FilingRow.cost_centre.in_(self.cost_centres),
            *(FilingRow.label.startswith(beginning, autoescape=True) for beginning in self.labels),
        )
        return and_(mine, named)


@dataclass(frozen=True, slots=True)
class FilingFilter:
    """Filters for a list of stored answers; None means no filter."""

    label: str | None = None
    reference: str | None = None
    cost_centre: str | None = None
    status: str | None = None
    models: Collection[str] | None = None
    accelerators: Collection[str] | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    visible: Visibility | None = None
    tenant: str = PUBLIC
    in_use: bool = False  # only answers with filing data that no other one supersedes


@dataclass(frozen=True, slots=True)
class StatusUpdate:
    """A requested status change and the person who makes it."""

    status: Status
    changed_by: str
    note: str | None = None
    superseded_by: str | None = None


def to_utc(moment: datetime) -> datetime:
    """Returns a time in UTC. SQLite stores no time zone; a time without one is UTC."""
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def filing_values(
    identity: str, stored_at: datetime, filing: Filing, *, size_bytes: int, tenant: str = PUBLIC
) -> dict[str, Any]:
    """Returns the filing row of a newly stored answer."""
    return {
        "recommendation": identity,
        "stored_at": stored_at,
        **asdict(filing),
        "status": Status.DRAFT.value,
        "version": 0,
        "size_bytes": size_bytes,
        "tenant": tenant,
    }


def list_filings(
    session: Session, sought: FilingFilter, *, after: tuple[datetime, str] | None, limit: int
) -> tuple[Sequence[FilingRow], bool]:
    """Returns one page of stored answers, newest first, starting after the key `after`; and whether more follow."""
    order = (FilingRow.stored_at, FilingRow.recommendation)
    wanted = select(FilingRow).where(*_filter_conditions(sought)).order_by(*(key.desc() for key in order))
    if after is not None:
        wanted = wanted.where(tuple_(*order) < after)
    rows = session.scalars(wanted.limit(limit + 1)).all()
    return rows[:limit], len(rows) > limit


def _filter_conditions(sought: FilingFilter) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = [FilingRow.tenant == sought.tenant]
    if sought.in_use:
        filed = (FilingRow.label, FilingRow.reference, FilingRow.cost_centre)
        conditions.append(or_(FilingRow.version != 0, *(column.is_not(None) for column in filed)))
        conditions.append(FilingRow.status != Status.SUPERSEDED)
    if sought.label is not None:
        conditions += [FilingRow.label.icontains(word, autoescape=True) for word in sought.label.split()]
    for name in ("reference", "cost_centre", "status"):
        if getattr(sought, name) is not None:
            conditions.append(getattr(FilingRow, name) == getattr(sought, name))
    if sought.models is not None:
        conditions.append(FilingRow.model.in_(sought.models))
    if sought.accelerators is not None:
        conditions.append(or_(*(_contains_slug(FilingRow.accelerators, slug) for slug in sought.accelerators)))
    if sought.visible is not None:
        conditions.append(sought.visible.condition())
    if sought.created_after is not None:
        conditions.append(FilingRow.stored_at >= sought.created_after)
    if sought.created_before is not None:
        conditions.append(FilingRow.stored_at < sought.created_before)
    return conditions


def _contains_slug(column: InstrumentedAttribute[str | None], slug: str) -> ColumnElement[bool]:
    """Returns the condition that a column of space-separated slugs contains a slug."""
    return or_(
        column == slug, column.startswith(f"{slug} ", autoescape=True), column.endswith(f" {slug}", autoescape=True)
    )


def unknown_recommendation() -> UnknownRecommendation:
    """Returns the error for an id under which no answer is stored, or no longer."""
    return UnknownRecommendation(
        "No answer is stored under this id. It may have been deleted: send its request again to get a current answer."
    )


def get_filing(session: Session, identity: str, tenant: str = PUBLIC) -> FilingRow:
    """Returns the filing of a tenant's stored answer. Raises UnknownRecommendation."""
    row = session.get(FilingRow, identity)
    if row is None or row.tenant != tenant:
        raise unknown_recommendation()
    return row


def check_visible(session: Session, identity: str, visible: Visibility) -> None:
    """Raises UnknownRecommendation for an answer that does not exist or is not visible."""
    found = select(FilingRow.recommendation).where(FilingRow.recommendation == identity, visible.condition())
    if session.execute(found).first() is None:
        raise unknown_recommendation()


def list_changes(session: Session, identity: str) -> Sequence[StatusChangeRow]:
    """Returns all status changes of an answer, oldest first."""
    rows = StatusChangeRow
    return session.scalars(select(rows).where(rows.recommendation == identity).order_by(rows.version)).all()


def change_status(session: Session, row: FilingRow, change: StatusUpdate) -> None:
    """Changes the status of a stored answer and records who did it.

    Raises NotAllowed if the status cannot follow the current one, and ChangedMeanwhile if another request changed it
    since `row` was read.
    """
    now, allowed = Status(row.status), ALLOWED_TRANSITIONS[Status(row.status)]
    if change.status not in allowed:
        ways = f"Allowed next: {' or '.join(allowed)}" if allowed else "This status is final"
        raise NotAllowed(f"The status cannot change from {now} to {change.status}. {ways}.", allowed=allowed)
    if change.superseded_by is not None:
        _check_successor(session, row, change.superseded_by)
    version, moved = row.version + 1, {"status": change.status.value, "superseded_by": change.superseded_by}
    guarded = update(FilingRow).where(FilingRow.recommendation == row.recommendation, FilingRow.version == row.version)
    if not session.execute(guarded.values(version=version, **moved)).rowcount:  # type: ignore[attr-defined]
        raise ChangedMeanwhile(
            "Another request has changed the status in the meantime. Read the filing again, then retry."
        )
    author = {"changed_by": change.changed_by, "note": change.note, "changed_at": datetime.now(UTC)}
    session.execute(
        insert(StatusChangeRow), {"recommendation": row.recommendation, "version": version, **moved, **author}
    )


def _check_successor(session: Session, row: FilingRow, successor: str) -> None:
    """Checks that a successor is another stored answer that is not superseded, so that links form no cycle."""
    where = [
        {"pointer": "#/superseded_by", "detail": "must be the id of the stored recommendation that replaces this one"}
    ]
    following = session.get(FilingRow, successor)
    if following is None or following.tenant != row.tenant:
        raise UnknownRecommendation("No recommendation is stored under the id in superseded_by.", errors=where)
    if successor == row.recommendation or following.status == Status.SUPERSEDED:
        target = "itself" if successor == row.recommendation else "a recommendation that is itself superseded"
        raise NotAllowed(f"A recommendation cannot be superseded by {target}.", errors=where)
