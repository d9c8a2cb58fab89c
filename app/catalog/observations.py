"""Observed prices and availability: rows that feeds add and nothing changes, the quarantine, and the log of syncs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import (
    CTE,
    JSON,
    BigInteger,
    CheckConstraint,
    Connection,
    DateTime,
    Engine,
    ForeignKey,
    Index,
    Integer,
    Select,
    String,
    UniqueConstraint,
    delete,
    func,
    insert,
    literal_column,
    select,
    text,
    update,
)
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.orm import Mapped, Session, aliased, mapped_column

from app.catalog.filing import to_utc
from app.catalog.partitions import add_partitions
from app.catalog.tables import Slug, Text
from app.db import Base
from app.sizing.hardware.parts import Availability

BigKey = BigInteger().with_variant(Integer, "sqlite")  # SQLite numbers rows by itself only in an INTEGER column
HAS_CAPACITY = text("state <> 'none'")  # or may have some; a literal, so that databases recognize the index
BEFORE_ALL = datetime(1970, 1, 1, tzinfo=UTC)
PREFERENCE_LASTS = timedelta(days=7)  # after which an aggregate replaces an observation of the provider's own feed


class OfferKeyRow(Base):
    """What an observation is about: a machine of a provider in a region under a pricing model."""

    __tablename__ = "offer_keys"
    __table_args__ = (
        UniqueConstraint(
            "provider",
            "region",
            "instance_type",
            "accelerator",
            "accelerator_count",
            "pricing_model",
            name="uq_offer_keys_key",
        ),
    )

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    provider: Mapped[str] = mapped_column(Slug)
    region: Mapped[str] = mapped_column(Slug)
    instance_type: Mapped[str] = mapped_column(Slug)
    accelerator: Mapped[str] = mapped_column(Slug)
    accelerator_count: Mapped[float]
    pricing_model: Mapped[str] = mapped_column(String(20))
    vcpus: Mapped[int | None]
    ram_bytes: Mapped[float | None]
    tier: Mapped[str] = mapped_column(String(12), doc="tier of an offer that the shipped price list does not have")


class StatedColumns:
    """Columns of a price as a feed stated it."""

    effective_from: Mapped[str | None] = mapped_column(String(10))
    native_amount: Mapped[float]
    native_currency: Mapped[str] = mapped_column(String(3))
    usd_per_hour: Mapped[float]
    fx_day: Mapped[str | None] = mapped_column(String(10), doc="day of the exchange rate; none for prices in USD")
    basis: Mapped[str] = mapped_column(String(20), doc="what the native amount buys: instance_hour, accelerator_hour")
    feed: Mapped[str] = mapped_column(Slug)
    feed_version: Mapped[str] = mapped_column(Text)
    payload_sha256: Mapped[str] = mapped_column(String(64))


class PriceObservationRow(StatedColumns, Base):
    """A price of an offer as a feed stated it. Observations are added, never changed. On PostgreSQL, each month is a
    partition, so the primary key there has `observed_at` too.
    """

    __tablename__ = "price_observations"
    __table_args__ = (
        CheckConstraint("usd_per_hour > 0", name="price_positive"),
        Index("ix_price_observations_key", "key", "observed_at"),
    )

    id: Mapped[int] = mapped_column(BigKey, primary_key=True, autoincrement=True)
    key: Mapped[int] = mapped_column(ForeignKey("offer_keys.id"))
    observed_at: Mapped[datetime] = mapped_column(DateTime(timezone=True))


class AvailabilityObservationRow(Base):
    """Capacity of an offer as a feed stated it. Observations are added, never changed. On PostgreSQL, each month is a
    partition, so the primary key there has `seen_at` too.
    """

    __tablename__ = "availability_observations"
    __table_args__ = (
        CheckConstraint("state IN ('available', 'low', 'none', 'unknown')", name="state_known"),
        Index("ix_availability_observations_key", "key", "seen_at"),
        Index(
            "ix_availability_observations_capacity",
            "key",
            "seen_at",
            postgresql_where=HAS_CAPACITY,
            sqlite_where=HAS_CAPACITY,
        ),
    )

    id: Mapped[int] = mapped_column(BigKey, primary_key=True, autoincrement=True)
    key: Mapped[int] = mapped_column(ForeignKey("offer_keys.id"))
    seen_at: Mapped[datetime] = mapped_column(DateTime(timezone=True))
    state: Mapped[str] = mapped_column(String(10))
    quantity: Mapped[int | None]
    source: Mapped[str] = mapped_column(Slug)


class QuarantineRow(StatedColumns, Base):
    """An implausible price. It counts only after an operator has accepted it."""

    __tablename__ = "price_quarantine"
    __table_args__ = (CheckConstraint("decision IN ('accepted', 'rejected')", name="decision_known"),)

    id: Mapped[int] = mapped_column(BigKey, primary_key=True, autoincrement=True)
    key: Mapped[int] = mapped_column(ForeignKey("offer_keys.id"), index=True)
    since: Mapped[datetime] = mapped_column(DateTime(timezone=True))
    rule: Mapped[str] = mapped_column(String(20))
    detail: Mapped[str] = mapped_column(Text)
    decision: Mapped[str | None] = mapped_column(String(10))
    decided_by: Mapped[str | None] = mapped_column(Slug)
    decided_at: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))


class SyncRow(Base):
    """One sync of one part of a feed."""

    __tablename__ = "price_syncs"
    __table_args__ = (Index("ix_price_syncs_part", "feed", "part", "id"), Index("ix_price_syncs_day", "state", "day"))

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    feed: Mapped[str] = mapped_column(Slug)
    part: Mapped[str] = mapped_column(Slug, doc="a provider or region whose prices the feed serves on their own")
    synced_at: Mapped[datetime] = mapped_column(DateTime(timezone=True))
    day: Mapped[str] = mapped_column(String(10), doc="UTC day of the sync")
    state: Mapped[str] = mapped_column(String(10), doc="stored, unchanged, held (in the quarantine) or failed")
    feed_version: Mapped[str] = mapped_column(Text)
    validator: Mapped[str | None] = mapped_column(Text, doc="ETag for the next conditional request")
    rows: Mapped[int] = mapped_column(doc="prices that the part has")
    accepted: Mapped[int]
    quarantined: Mapped[int]
    unmapped: Mapped[list[str]] = mapped_column(JSON, doc="names that no alias maps")
    problem: Mapped[str | None] = mapped_column(Text)


class LeaseRow(Base):
    """The right of one process to do recurring work for all, or the time that an allowance is used up."""

    __tablename__ = "leases"

    name: Mapped[str] = mapped_column(Slug, primary_key=True)
    holder: Mapped[str] = mapped_column(Slug)
    expires_at: Mapped[datetime] = mapped_column(DateTime(timezone=True))


class OfferKey(NamedTuple):
    """Identity of an offer; its prices on different days have equal keys."""

    provider: str
    region: str
    instance_type: str
    accelerator: str
    accelerator_count: float
    pricing_model: str


@dataclass(frozen=True, slots=True)
class Observation:
    """A price that a feed states, and its capacity if the feed states that."""

    key: OfferKey
    usd_per_hour: float
    native_amount: float
    native_currency: str
    basis: str
    feed: str
    feed_version: str
    payload_sha256: str
    effective_from: str | None = None
    fx_day: str | None = None
    vcpus: int | None = None
    ram_bytes: float | None = None
    tier: str = "standard"
    state: str | None = None  # available, low, none or unknown; None if the feed states no capacity
    quantity: int | None = None


@dataclass(frozen=True, slots=True)
class Suspicion:
    """An observation that failed a rule of the gate, and why."""

    observation: Observation
    rule: str
    detail: str


@dataclass(frozen=True, slots=True)
class SyncRecord:
    """The outcome of one sync of one part of a feed."""

    feed: str
    part: str
    state: str
    feed_version: str = ""
    validator: str | None = None
    rows: int = 0
    accepted: int = 0
    quarantined: int = 0
    unmapped: tuple[str, ...] = ()
    problem: str | None = None


KEY_COLUMNS = tuple(getattr(OfferKeyRow, name) for name in OfferKey._fields)
PRICE_COLUMNS = tuple(StatedColumns.__annotations__)


def observation_digest(session: Session, curated: str) -> str:
    """Returns the digest of a catalog version: of the shipped files alone, or of these and all observations."""
    ids = [session.scalar(select(func.max(rows.id))) or 0 for rows in (PriceObservationRow, AvailabilityObservationRow)]
    return hashlib.sha256(f"{curated}|{ids}".encode()).hexdigest() if any(ids) else curated


def latest_prices(session: Session, until: datetime | None = None) -> dict[OfferKey, tuple[Any, ...]]:
    """Returns the observation in force of each key: (observation, key) rows, of all time or until a moment."""
    rows = _newest_rows(session, PriceObservationRow, "observed_at", until)
    return {key_of(about): (price, about) for price, about in rows}


def _newest_rows(
    session: Session, table: Any, moment: str, until: datetime | None = None
) -> Iterable[tuple[Any, OfferKeyRow]]:
    """Returns the newest row of each key, with the key.

    Each key is one search of an index for its newest moment, and one for the row of that moment, in one partition each.
    """
    each = aliased(table)
    at = getattr(each, moment)
    before = () if until is None else (at < until,)
    newest = select(func.max(at)).where(each.key == OfferKeyRow.id, *before).correlate(OfferKeyRow).scalar_subquery()
    picked = _evaluated_first(select(OfferKeyRow.id, newest.label("moment")))
    rows = (
        select(table, OfferKeyRow)
        .join(picked, (table.key == picked.c.id) & (getattr(table, moment) == picked.c.moment))
        .join(OfferKeyRow, OfferKeyRow.id == picked.c.id)
    )
    # Of rows of one moment, the last counts. A query in this order would scan all rows on SQLite.
    ordered = sorted(session.execute(rows), key=lambda row: row[0].id)
    return {about.id: (row, about) for row, about in ordered}.values()


def _evaluated_first(query: Select[*tuple[Any, ...]]) -> CTE:
    """Returns a query that is evaluated before what it is joined with, because planners misjudge its number of rows."""
    return query.cte().prefix_with("MATERIALIZED")


def key_of(row: Any) -> OfferKey:
    return OfferKey(*(getattr(row, name) for name in OfferKey._fields))


def store_keys(session: Session, observations: Iterable[Observation]) -> dict[OfferKey, int]:
    """Returns the ids of the keys of observations, and stores those that are new."""
    wanted = {each.key: each for each in observations}
    known = {OfferKey(*row[1:]): row[0] for row in session.execute(select(OfferKeyRow.id, *KEY_COLUMNS))}
    if added := [each for key, each in wanted.items() if key not in known]:
        further = ("vcpus", "ram_bytes", "tier")
        rows = [{**each.key._asdict(), **{name: getattr(each, name) for name in further}} for each in added]
        session.execute(insert(OfferKeyRow), rows)
        known = {OfferKey(*row[1:]): row[0] for row in session.execute(select(OfferKeyRow.id, *KEY_COLUMNS))}
    return known


def _price_values(each: Observation) -> dict[str, Any]:
    return {name: getattr(each, name) for name in PRICE_COLUMNS}


def store_observations(
    session: Session, accepted: Sequence[Observation], suspicions: Sequence[Suspicion], *, at: datetime, aggregate: bool
) -> tuple[int, int]:
    """Adds observations and suspicions in the caller's transaction, and returns how many prices of each it added.

    A price that the same feed has already stated on that day is not repeated. A price of an aggregate is left out
    while the provider's own feed has a recent one. A suspicion that is waiting or was rejected is not repeated.
    """
    if not accepted and not suspicions:
        return 0, 0
    add_partitions(session, [at])
    held = [each.observation for each in suspicions]
    keys, latest = store_keys(session, (*accepted, *held)), latest_prices(session)

    def is_news(each: Observation) -> bool:
        row, _ = latest.get(each.key, (None, None))
        if row is None:
            return True
        seen = to_utc(row.observed_at)
        if aggregate and row.feed != each.feed and at - seen < PREFERENCE_LASTS:
            return False
        return bool(row.feed != each.feed or row.usd_per_hour != each.usd_per_hour or seen.date() < at.date())

    news = {each.key: each for each in accepted if is_news(each)}.values()
    if news:
        rows = [{"key": keys[each.key], "observed_at": at, **_price_values(each)} for each in news]
        session.execute(insert(PriceObservationRow), rows)
    _store_availability(session, (*accepted, *held), keys, at)
    columns = (QuarantineRow.key, QuarantineRow.feed, QuarantineRow.usd_per_hour)
    undecided = (QuarantineRow.decision.is_(None)) | (QuarantineRow.decision == "rejected")
    known = {tuple(row) for row in session.execute(select(*columns).where(undecided))}
    fresh = [
        {
            "key": keys[s.observation.key],
            "since": at,
            "rule": s.rule,
            "detail": s.detail,
            **_price_values(s.observation),
        }
        for s in suspicions
        if (keys[s.observation.key], s.observation.feed, s.observation.usd_per_hour) not in known
    ]
    if fresh:
        session.execute(insert(QuarantineRow), fresh)
    return len(news), len(fresh)


def _store_availability(
    session: Session, observations: Iterable[Observation], keys: Mapping[OfferKey, int], at: datetime
) -> None:
    rows = {
        each.key: {"key": keys[each.key], "seen_at": at, "state": each.state, "quantity": each.quantity}
        | {"source": each.feed}
        for each in observations
        if each.state is not None
    }
    if rows:
        session.execute(insert(AvailabilityObservationRow), list(rows.values()))


def record_sync(session: Session, record: SyncRecord, *, at: datetime) -> None:
    """Adds one row to the log of syncs in the caller's transaction."""
    row = {**asdict(record), "unmapped": list(record.unmapped), "synced_at": at, "day": at.date().isoformat()}
    session.execute(insert(SyncRow), [row])


def last_sync(session: Session, feed: str, part: str) -> SyncRow | None:
    """Returns the last sync of a part that succeeded; None before the first."""
    succeeded = SyncRow.state.in_(("stored", "unchanged"))
    query = select(SyncRow).where(SyncRow.feed == feed, SyncRow.part == part, succeeded)
    return session.scalars(query.order_by(SyncRow.id.desc()).limit(1)).first()


def list_quarantine(session: Session) -> list[tuple[QuarantineRow, OfferKeyRow]]:
    """Returns the prices in quarantine that wait for a decision, oldest first."""
    query = select(QuarantineRow, OfferKeyRow).where(
        QuarantineRow.key == OfferKeyRow.id, QuarantineRow.decision.is_(None)
    )
    return [(row[0], row[1]) for row in session.execute(query.order_by(QuarantineRow.id))]


def list_unmapped(session: Session) -> dict[str, list[str]]:
    """Returns the names that no alias maps, by feed, as the last sync of each part found them."""
    newest = select(func.max(SyncRow.id)).where(SyncRow.state == "stored").group_by(SyncRow.feed, SyncRow.part)
    names: dict[str, set[str]] = {}
    for row in session.scalars(select(SyncRow).where(SyncRow.id.in_(newest))):
        names.setdefault(row.feed, set()).update(row.unmapped)
    return {feed: sorted(of_feed) for feed, of_feed in sorted(names.items()) if of_feed}


def decide(session: Session, ids: Sequence[int], decision: str, *, by: str, at: datetime) -> int:
    """Accepts or rejects waiting prices in the caller's transaction, and returns their number.

    An accepted price becomes an observation of the moment at which it was put in quarantine.
    """
    waiting = (QuarantineRow.id.in_(ids), QuarantineRow.decision.is_(None))
    rows = session.scalars(select(QuarantineRow).where(*waiting).order_by(QuarantineRow.id).with_for_update()).all()
    if decision == "accepted" and rows:
        add_partitions(session, [to_utc(row.since) for row in rows])
        accepted = [
            {"key": row.key, "observed_at": row.since, **{name: getattr(row, name) for name in PRICE_COLUMNS}}
            for row in rows
        ]
        session.execute(insert(PriceObservationRow), accepted)
    done = [row.id for row in rows]
    session.execute(
        update(QuarantineRow)
        .where(QuarantineRow.id.in_(done))
        .values(decision=decision, decided_by=by, decided_at=at)
        .execution_options(synchronize_session=False)
    )
    return len(done)


def list_availability(session: Session) -> dict[OfferKey, Availability]:
    """Returns the newest availability of each key, with how long it has been sold out."""
    current = _newest_rows(session, AvailabilityObservationRow, "seen_at")
    since = _sold_out_since(session, [about.id for row, about in current if row.state == "none"])
    return {
        key_of(about): Availability(
            row.state,
            row.quantity,
            to_utc(row.seen_at).strftime("%Y-%m-%dT%H:%M:%SZ"),
            (to_utc(row.seen_at) - since[about.id]) / timedelta(days=1) if about.id in since else 0.0,
        )
        for row, about in current
    }


def _sold_out_since(session: Session, keys: Sequence[int]) -> dict[int, datetime]:
    """Returns the first of the newest observations of keys that have no capacity, which all say so."""
    if not keys:
        return {}
    other, rows = aliased(AvailabilityObservationRow), aliased(AvailabilityObservationRow)
    last_other = (
        select(func.max(other.seen_at))
        .where(other.key == OfferKeyRow.id, other.state != literal_column("'none'"))
        .correlate(OfferKeyRow)
        .scalar_subquery()
    )
    runs = _evaluated_first(select(OfferKeyRow.id, last_other.label("other")).where(OfferKeyRow.id.in_(keys)))
    after = (rows.key == runs.c.id, rows.seen_at > func.coalesce(runs.c.other, BEFORE_ALL))
    first = select(func.min(rows.seen_at)).where(*after).correlate(runs).scalar_subquery()
    return {key: to_utc(moment) for key, moment in session.execute(select(runs.c.id, first)) if moment is not None}


def sync_days(session: Session) -> tuple[str, ...]:
    """Returns the days on which a feed was stored or a price in quarantine was accepted, oldest first."""
    stored = session.scalars(select(SyncRow.day).where(SyncRow.state == "stored").distinct())
    accepted = session.scalars(select(QuarantineRow.since).where(QuarantineRow.decision == "accepted"))
    return tuple(sorted({*stored, *(to_utc(moment).date().isoformat() for moment in accepted)}))


EXPORT_COLUMNS = ("observed_at", *OfferKey._fields, *PRICE_COLUMNS)
EXPORT_BATCH = 10_000


def export_observations(
    session: Session, since: datetime | None, until: datetime | None
) -> Iterator[Sequence[tuple[Any, ...]]]:
    """Yields the price observations between two moments in batches, oldest first, in the order of EXPORT_COLUMNS.

    The first column is a moment in UTC.
    """
    rows = PriceObservationRow
    columns = (rows.observed_at, *KEY_COLUMNS, *(getattr(rows, name) for name in PRICE_COLUMNS))
    query = select(*columns).join(OfferKeyRow, rows.key == OfferKeyRow.id).order_by(rows.id)
    if since is not None:
        query = query.where(rows.observed_at >= since)
    if until is not None:
        query = query.where(rows.observed_at < until)
    found = session.execute(query.execution_options(yield_per=EXPORT_BATCH))
    for batch in found.partitions():
        yield [(to_utc(row[0]), *row[1:]) for row in batch]


def take_lease(engine: Engine, name: str, holder: str, *, lasts: timedelta, now: datetime) -> bool:
    """Returns whether the holder has the lease from now on: it is free, has expired, or was the holder's already."""
    values = {"name": name, "holder": holder, "expires_at": now + lasts}
    make = postgresql_insert if engine.dialect.name == "postgresql" else sqlite_insert
    taken = make(LeaseRow).values(values)
    free = (LeaseRow.expires_at <= now) | (LeaseRow.holder == holder)
    changes = {"holder": holder, "expires_at": now + lasts}
    statement = taken.on_conflict_do_update(index_elements=[LeaseRow.name], set_=changes, where=free)
    with engine.begin() as connection:
        return connection.execute(statement.returning(LeaseRow.name)).first() is not None


def extend_lease(connection: Connection, name: str, *, lasts: timedelta, now: datetime) -> datetime:
    """Adds to the time of a lease without a holder, from now on if it has expired, and returns its end. Others that
    extend it wait for the end of the transaction.
    """
    make = postgresql_insert if connection.dialect.name == "postgresql" else sqlite_insert
    taken = make(LeaseRow).values({"name": name, "holder": "", "expires_at": now})
    locked = taken.on_conflict_do_update(index_elements=[LeaseRow.name], set_={"holder": ""})
    ends = max(now, to_utc(connection.execute(locked.returning(LeaseRow.expires_at)).scalar_one())) + lasts
    connection.execute(update(LeaseRow).where(LeaseRow.name == name).values(expires_at=ends))
    return ends


def delete_expired_leases(connection: Connection, *, now: datetime) -> None:
    """Deletes leases that have expired: without a row, a lease is as free."""
    connection.execute(delete(LeaseRow).where(LeaseRow.expires_at < now))
