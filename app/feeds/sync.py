"""Syncs price feeds: fetches every part, checks it at the gate, and publishes a feed's prices in one transaction."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import structlog
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from app.catalog.filing import to_utc
from app.catalog.hub import Network
from app.catalog.observations import (
    Observation,
    Suspicion,
    SyncRecord,
    last_sync,
    latest_prices,
    record_sync,
    store_observations,
    take_lease,
)
from app.catalog.queries import list_offers
from app.catalog.seed import StaleCatalog, check_loaded, publish_observations
from app.catalog.snapshot import CatalogIndex, EmptyCatalog, load_newest
from app.db import UNHURRIED, DatabaseError, make_engine
from app.errors import describe_error
from app.feeds import aws, aws_spot, azure, gcp, gpuhunt, lambda_cloud, nebius, oci, runpod, shadeform, skypilot, vast
from app.feeds.client import FeedClient, FeedError
from app.feeds.gate import KnownPrices, check_prices, lost_too_many
from app.feeds.naming import FeedNames
from app.feeds.prices import Feed, FetchedPart, Source
from app.migrating import lock_database

log = structlog.get_logger("headroom")

MODULES = (gpuhunt, skypilot, azure, aws, aws_spot, gcp, oci, lambda_cloud, runpod, vast, shadeform, nebius)
FEEDS: Mapping[str, Feed] = {module.FEED.name: module.FEED for module in MODULES}
Report = Callable[[str], None]
MAX_UNMAPPED = 1_000  # names of a part that are recorded


@dataclass(frozen=True, slots=True)
class FeedAccess:
    """How feeds are reached: other base addresses, keys and private networks, from the settings."""

    urls: Mapping[str, str] = field(default_factory=dict)
    keys: Mapping[str, str] = field(default_factory=dict)
    networks: Sequence[Network] = ()

    def usable_feeds(self) -> list[str]:
        """Returns the names of the feeds that need no key or have one."""
        return [name for name, feed in FEEDS.items() if not feed.needs_key or name in self.keys]


class PriceSync:
    """Syncs feeds into one database. `directory` holds the names of its catalog; without it, they are loaded."""

    def __init__(
        self, engine: Engine, access: FeedAccess, client: FeedClient, directory: CatalogIndex | None = None
    ) -> None:
        self._engine, self._access, self._client = engine, access, client
        self._names = None if directory is None else FeedNames(directory)

    def sync_feed(
        self, name: str, report: Report, *, allow_fewer: bool = False, now: datetime | None = None
    ) -> list[SyncRecord]:
        """Syncs one feed and returns the outcome of each part. A part that fails does not hold back the others.

        With `allow_fewer`, a part may lose any number of prices. Raises StaleCatalog, EmptyCatalog and the errors of
        the database.
        """
        feed, at = FEEDS[name], now or datetime.now(UTC)
        names = self._names = self._names or self._load_names()
        fetched = [self._fetch_part(feed, part, names, report) for part in feed.parts]
        return self._store(feed, fetched, names, at=at, allow_fewer=allow_fewer, report=report)

    def _load_names(self) -> FeedNames:
        with Session(self._engine) as session:
            loaded = load_newest(session)
        if loaded is None:
            raise EmptyCatalog("The catalog is empty. Run `headroom prepare`.")
        return FeedNames(loaded.catalog_index)

    def _fetch_part(
        self, feed: Feed, part: str, names: FeedNames, report: Report
    ) -> tuple[str, FetchedPart | FeedError | None]:
        """Returns the prices of a part, None if it has not changed, or why it could not be read."""
        with Session(self._engine) as session:
            last = last_sync(session, feed.name, part)
        source = Source(
            self._client,
            self._access.urls.get(feed.name, feed.url).rstrip("/"),
            part,
            key=self._access.keys.get(feed.name, ""),
            etag=None if last is None else last.validator,
            version="" if last is None else last.feed_version,
            machines=names.machines_of(feed.provider) if feed.provider else (),
        )
        report(f"{feed.name} {part}: reading")
        try:
            return part, feed.read(source)
        except FeedError as error:
            return part, error

    def _store(
        self,
        feed: Feed,
        fetched: Sequence[tuple[str, FetchedPart | FeedError | None]],
        names: FeedNames,
        *,
        at: datetime,
        allow_fewer: bool,
        report: Report,
    ) -> list[SyncRecord]:
        """Stores all parts and publishes the next catalog version, in one transaction."""
        records = list[SyncRecord]()
        with Session(self._engine) as session:
            lock_database(session.connection())
            check_loaded(session)
            midnight = at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
            yesterday = {
                key: (row.usd_per_hour, to_utc(row.observed_at).date().isoformat())
                for key, (row, _) in latest_prices(session, midnight).items()
            }
            known = KnownPrices.from_offers(list_offers(session), yesterday)
            for part, outcome in fetched:
                record, accepted, suspicions = self._judge_part(
                    session, feed, part, outcome, names, known, at=at, allow_fewer=allow_fewer
                )
                stored, held = store_observations(session, accepted, suspicions, at=at, aggregate=feed.aggregate)
                record = replace(record, accepted=stored, quarantined=held)
                record_sync(session, record, at=at)
                records.append(record)
                report(describe_record(record))
            publish_observations(session)
            session.commit()
        return records

    def _judge_part(
        self,
        session: Session,
        feed: Feed,
        part: str,
        outcome: FetchedPart | FeedError | None,
        names: FeedNames,
        known: KnownPrices,
        *,
        at: datetime,
        allow_fewer: bool,
    ) -> tuple[SyncRecord, list[Observation], list[Suspicion]]:
        """Returns what happened to a part, its plausible prices and the others."""
        last = last_sync(session, feed.name, part)
        if isinstance(outcome, FeedError):
            return SyncRecord(feed.name, part, "failed", problem=str(outcome)), [], []
        if outcome is None:
            kept = (0, "", None) if last is None else (last.rows, last.feed_version, last.validator)
            record = SyncRecord(feed.name, part, "unchanged", rows=kept[0], feed_version=kept[1], validator=kept[2])
            return record, [], []
        observations, unmapped = names.to_observations(feed, outcome)
        rows, shown = len(outcome.prices), tuple(unmapped[:MAX_UNMAPPED])
        record = SyncRecord(feed.name, part, "stored", outcome.version, outcome.etag, rows, unmapped=shown)
        if last is not None and lost_too_many(rows, last.rows) and not allow_fewer:
            problem = f"The part has {rows:,} prices instead of {last.rows:,}."
            return replace(record, state="held", problem=problem), [], []
        accepted, suspicions = check_prices(observations, known, at.date())
        return record, accepted, suspicions


def describe_record(record: SyncRecord) -> str:
    """Returns the outcome of one part as a line of progress."""
    of = f"{record.feed} {record.part}: "
    if record.state == "unchanged":
        return f"{of}unchanged"
    if record.state == "failed":
        return f"{of}FAILED. {record.problem}"
    if record.state == "held":
        return f"{of}HELD. {record.problem} To accept, run `headroom prices sync {record.feed} --allow-fewer`."
    names = f", {len(record.unmapped):,} unknown names" if record.unmapped else ""
    return (
        f"{of}{record.rows:,} prices, {record.accepted:,} new observations, {record.quarantined:,} in quarantine{names}"
    )


POLL_S = 30.0


class PriceSyncRunner:
    """Syncs all usable feeds at an interval. Of all processes on one database, the one that takes the lease does so."""

    def __init__(self, database_url: str, access: FeedAccess, interval_hours: float, *, poll_s: float = POLL_S) -> None:
        self._url, self._access, self._poll_s = database_url, access, poll_s
        self._interval = timedelta(hours=interval_hours)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run_loop, name="prices", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stops the runner. A sync in progress changes nothing."""
        self._stopped.set()
        self._thread.join(timeout=self._poll_s)

    def _run_loop(self) -> None:
        engine = make_engine(self._url, UNHURRIED)
        try:
            while not self._stopped.wait(self._poll_s):
                try:
                    self.run_if_due(engine, now=datetime.now(UTC))
                except Exception as error:
                    _log_failure(error)
        finally:
            engine.dispose()

    def run_if_due(self, engine: Engine, *, now: datetime) -> bool:
        """Syncs all usable feeds if the interval has passed and no other process does so. Returns whether it did.

        The lease lasts for the interval and is not given back, so it also says when the next sync is due.
        """
        holder = secrets.token_hex(8)
        if not take_lease(engine, "price_sync", holder, lasts=self._interval, now=now):
            return False
        with closing(FeedClient(networks=self._access.networks, stopped=self._stopped)) as client:
            sync = PriceSync(engine, self._access, client)
            for name in self._access.usable_feeds():
                if not self._stopped.is_set():
                    self._sync_feed(sync, name)
        return True

    def _sync_feed(self, sync: PriceSync, name: str) -> None:
        """Syncs one feed. A failure is logged and does not hold back the other feeds."""
        try:
            records = sync.sync_feed(name, lambda _: None)
        except Exception as error:
            _log_failure(error, feed=name)
            return
        for record in records:
            if record.state in ("stored", "unchanged"):
                log.info("prices_synced", outcome=describe_record(record))
            else:
                log.warning("prices_synced", outcome=describe_record(record))


def _log_failure(error: Exception, **about: str) -> None:
    """Logs why nothing was synced: a state of the database that passes or an operator changes, or a fault."""
    if isinstance(error, (DatabaseError, StaleCatalog, EmptyCatalog)):
        log.warning("prices_not_synced", **about, **describe_error(error))
    else:
        log.error("prices_sync_failed", exc_info=error, **about, **describe_error(error))
