"""A sync from the feed to the answer: one transaction, one version, whatever fails on the way."""

from __future__ import annotations

import csv
import gzip
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, func, select
from sqlalchemy.orm import Session, sessionmaker
from starlette.testclient import TestClient
from typer.testing import CliRunner

from app.catalog.observations import (
    Observation,
    PriceObservationRow,
    SyncRecord,
    SyncRow,
    list_quarantine,
    list_unmapped,
)
from app.catalog.queries import newest_version
from app.catalog.seed import publish_observations
from app.catalog.snapshot import CatalogIndex, CatalogStore, LoadedCatalog
from app.catalog.tables import CatalogVersionRow, OfferRow
from app.cli import cli
from app.config import Settings
from app.db import make_engine
from app.feeds import gpuhunt, sync
from app.feeds.client import FeedError
from app.feeds.gate import KnownPrices, check_prices
from app.feeds.naming import FeedNames
from app.feeds.prices import Source
from app.feeds.sync import FEEDS, FeedAccess, PriceSync, PriceSyncRunner
from app.main import create_app
from tests.catalog.observed import moment
from tests.conftest import copied
from tests.feeds import formats
from tests.feeds.formats import LOOPBACK, FeedServer, Reply, Route, local_client, serve

FIRST, SECOND = moment("2026-11-10"), moment("2026-11-12")


@pytest.fixture
def server() -> Iterator[FeedServer]:
    with serve({}) as made:
        made.routes |= all_routes(made)
        yield made


def all_routes(server: FeedServer) -> dict[str, Route]:
    return {
        **formats.gpuhunt_routes(),
        **formats.skypilot_routes(),
        **formats.azure_routes(lambda: server.url),
        **formats.aws_routes(),
        **formats.aws_spot_routes(),
        **formats.gcp_routes(),
        **formats.oci_routes(),
        **formats.lambda_routes(),
        **formats.runpod_routes(),
        **formats.vast_routes(),
        **formats.shadeform_routes(),
    }


def access_to(server: FeedServer) -> FeedAccess:
    keyed = [name for name, feed in FEEDS.items() if feed.needs_key]
    return FeedAccess(dict.fromkeys(FEEDS, server.url), dict.fromkeys(keyed, "key:secret"), LOOPBACK)


PLAIN_FEEDS = [feed for feed in FEEDS.values() if feed.name != "nebius"]  # that one has a server of its own
Run = Callable[..., dict[str, SyncRecord]]


@pytest.fixture
def run(engine: Engine, server: FeedServer, catalog_store: CatalogStore) -> Run:
    """Syncs one feed and returns the outcome by part."""

    def sync_feed(feed: str, **how: Any) -> dict[str, SyncRecord]:
        with closing(local_client()) as client:
            one = PriceSync(engine, access_to(server), client, catalog_store.directory())
            return {record.part: record for record in one.sync_feed(feed, lambda _: None, **how)}

    return sync_feed


def prices_of(engine: Engine, instance_type: str, region: str) -> dict[str, float]:
    columns = (OfferRow.pricing_model, OfferRow.usd_per_hour)
    with Session(engine) as session:
        rows = session.execute(
            select(*columns).where(OfferRow.instance_type == instance_type, OfferRow.region == region)
        )
        return {row[0]: row[1] for row in rows}


def test_one_part_that_is_refused_does_not_hold_back_the_others(engine: Engine, server: FeedServer, run: Run) -> None:
    server.routes["/v3/azure/version"] = Reply(status=403)
    records = run("gpuhunt", now=FIRST)
    assert (records["aws"].state, records["aws"].accepted) == ("stored", 2)
    assert (records["azure"].state, records["azure"].problem) == ("failed", "The feed answered 403.")
    prices = prices_of(engine, "p5.48xlarge", "us-east-1")
    assert (prices["on_demand"], prices["spot"]) == (56.0, 21.5)
    assert run("gpuhunt", now=SECOND)["aws"].state == "unchanged"


def test_an_implausible_price_waits_while_the_old_one_stays(engine: Engine, server: FeedServer, run: Run) -> None:
    run("aws", now=FIRST)
    before = prices_of(engine, "g6.xlarge", "us-east-1")["on_demand"]
    server.routes |= formats.aws_routes(rows=({**formats.AWS_ROW, "PricePerUnit": "0.21"},) * 2)
    server.routes["/offers/v1.0/aws/AmazonEC2/current/us-east-1/index.csv"].headers = {}  # type: ignore[union-attr]
    record = run("aws", now=SECOND, allow_fewer=True)["us-east-1"]
    assert (record.accepted, record.quarantined) == (0, 1)
    assert prices_of(engine, "g6.xlarge", "us-east-1")["on_demand"] == before
    with Session(engine) as session:
        ((row, key),) = list_quarantine(session)
        assert (row.rule, key.instance_type, row.usd_per_hour) == ("day_change", "g6.xlarge", 0.21)


def test_a_part_that_lost_many_prices_is_held_until_that_is_allowed(
    engine: Engine, server: FeedServer, run: Run
) -> None:
    rows = [{**formats.GPUHUNT_ROW, "location": f"us-{i}"} for i in range(10)]
    server.routes |= formats.gpuhunt_routes(rows=rows)
    run("gpuhunt", now=FIRST)
    server.routes |= formats.gpuhunt_routes(rows=[{**rows[0], "price": "57.0"}], version="20261102-1")
    assert run("gpuhunt", now=SECOND)["aws"].state == "held"
    assert prices_of(engine, "p5.48xlarge", "us-0") == {"on_demand": 56.0}
    assert run("gpuhunt", now=SECOND, allow_fewer=True)["aws"].state == "stored"
    assert prices_of(engine, "p5.48xlarge", "us-0") == {"on_demand": 57.0}


def test_unknown_names_are_listed(engine: Engine, server: FeedServer, run: Run) -> None:
    server.routes |= formats.gpuhunt_routes(rows=[{**formats.GPUHUNT_ROW, "instance_name": "x", "gpu_name": "X900"}])
    assert run("gpuhunt", now=FIRST)["aws"].unmapped == ("X900 80GB",)
    with Session(engine) as session:
        assert list_unmapped(session) == {"gpuhunt": ["X900 80GB"]}


@pytest.mark.parametrize("when", ["after the observations", "after the offers"])
def test_a_failure_in_the_transaction_leaves_the_old_version(
    when: str, engine: Engine, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = prices_of(engine, "p5.48xlarge", "us-east-1")
    real = publish_observations

    def fail(session: Session) -> bool:
        if when == "after the offers":
            real(session)
        raise RuntimeError("disk")

    monkeypatch.setattr(sync, "publish_observations", fail)
    with pytest.raises(RuntimeError, match="disk"):
        run("gpuhunt", now=FIRST)
    assert prices_of(engine, "p5.48xlarge", "us-east-1") == before
    with Session(engine) as session:
        assert session.scalar(select(func.count()).select_from(PriceObservationRow)) == 0


def test_of_several_processes_one_syncs_in_an_interval(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = list[str]()

    def record(_self: PriceSync, name: str, _report: object) -> list[SyncRecord]:
        synced.append(name)
        return []

    monkeypatch.setattr(PriceSync, "sync_feed", record)
    access = FeedAccess({}, {}, LOOPBACK)
    runners = [PriceSyncRunner(str(engine.url), access, 6.0) for _ in range(3)]
    assert [runner.run_if_due(engine, now=FIRST) for runner in runners] == [True, False, False]
    assert synced == access.usable_feeds()
    assert [runner.run_if_due(engine, now=FIRST + timedelta(hours=5)) for runner in runners] == [False] * 3
    assert [runner.run_if_due(engine, now=FIRST + timedelta(hours=6)) for runner in runners] == [True, False, False]


def test_a_feed_that_fails_does_not_hold_back_the_others(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = list[str]()

    def fail_first(_self: PriceSync, name: str, _report: object) -> list[SyncRecord]:
        synced.append(name)
        if len(synced) == 1:
            raise RuntimeError("unforeseen")
        return []

    monkeypatch.setattr(PriceSync, "sync_feed", fail_first)
    access = FeedAccess({}, {}, LOOPBACK)
    assert PriceSyncRunner(str(engine.url), access, 6.0).run_if_due(engine, now=FIRST)
    assert synced == access.usable_feeds()


def test_the_runner_starts_syncs_and_stops(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    due = threading.Event()
    monkeypatch.setattr(PriceSyncRunner, "run_if_due", lambda *_, **__: due.set())
    runner = PriceSyncRunner(str(engine.url), FeedAccess(), 1.0, poll_s=0.01)
    runner.start()
    assert due.wait(10)
    runner.stop()
    assert not runner._thread.is_alive()


def environment(engine: Engine, server: FeedServer) -> dict[str, str]:
    return {
        "HEADROOM_DATABASE_URL": str(engine.url),
        "HEADROOM_PRICE_FEED_URLS": f'{{"gpuhunt": "{server.url}"}}',
        "HEADROOM_PRICE_FEED_NETWORKS": '["127.0.0.0/8"]',
    }


def test_the_commands(engine: Engine, server: FeedServer, tmp_path: Path) -> None:
    odd = {**formats.GPUHUNT_ROW, "location": "us-west-2", "price": "5.6"}
    server.routes |= formats.gpuhunt_routes(rows=[formats.GPUHUNT_ROW, odd])
    for provider in gpuhunt.FEED.parts[1:]:
        server.routes |= formats.gpuhunt_routes(provider)
    env = environment(engine, server)

    def invoke(*arguments: str, status: int = 0) -> str:
        result = CliRunner().invoke(cli, ["prices", *arguments], env=env)
        assert result.exit_code == status, result.output
        return result.output

    assert "gpuhunt aws: 2 prices, 1 new observations, 1 in quarantine" in invoke("sync", "gpuhunt")
    assert "far_from_median" in invoke("quarantine")
    assert "us-west-2 p5.48xlarge" in invoke("quarantine", "list")
    assert "Accepted: 1 price." in invoke("quarantine", "accept", "1")
    assert prices_of(engine, "p5.48xlarge", "us-west-2")["on_demand"] == 5.6
    assert "do not wait" in invoke("quarantine", "reject", "1", status=1)
    assert "needs a key" in invoke("sync", "gcp", status=2)
    assert "unknown feed" in invoke("sync", "nosuch", status=2)
    assert "--rule" in invoke("quarantine", "accept", status=2)
    target = tmp_path / "prices.csv.gz"
    invoke("export", str(target))
    with gzip.open(target, "rt") as file:
        rows = list(csv.DictReader(file))
    assert {row["usd_per_hour"] for row in rows} >= {"56.0", "5.6"}
    assert rows[0]["instance_type"] == "p5.48xlarge"
    assert "Wrote 0 observations" in invoke("export", str(target), "--before", "2026-01-01")
    assert f"Wrote {len(rows)} observations" in invoke("export", str(target), "--since", "2026-01-01")
    assert "was not written" in invoke("export", str(tmp_path), status=1)


def check_feed(engine: Engine, run: Run, feed: str) -> None:
    """Every part whose format the server speaks is stored, and the version is newer."""
    with Session(engine) as session:
        before = newest_version(session)
    records = run(feed, now=FIRST)
    served = [record for record in records.values() if record.state == "stored"]
    assert sum(record.accepted for record in served) > 0, records
    assert all(record.problem == "The feed answered 404." for record in records.values() if record not in served)
    with Session(engine) as session:
        assert newest_version(session) != before


# On-demand prices of the formats, by provider and machine.
STATED = {
    ("aws", "p5.48xlarge"): 56.0,
    ("aws", "g6.xlarge"): 0.81,
    ("azure", "Standard_NC24ads_A100_v4"): 3.7,
    ("oci", "B109479"): 3.6,
    ("vast", "1x RTX 4090"): 0.33,
}


def shown_today(client: TestClient) -> dict[tuple[str, str], float]:
    """The on-demand prices of the same machines that a service shows as observed today."""
    shown, today = dict[tuple[str, str], float](), datetime.now(UTC).date().isoformat()
    for provider in {provider for provider, _ in STATED}:
        query: dict[str, str | int] = {"provider": provider, "pricing_model": "on_demand", "limit": 1000}
        rows = client.get("/catalog/offers", params=query).json()["items"]
        shown |= {(provider, row["instance_type"]): row["usd_per_hour"] for row in rows if row["as_of"] == today}
    return shown


@pytest.mark.slow
def test_the_service_reads_every_keyless_feed_by_itself(
    engine: Engine, server: FeedServer, loaded: LoadedCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in the container: the service on a prepared database, with an interval and no command."""
    monkeypatch.setattr("app.feeds.sync.PriceSyncRunner", partial(PriceSyncRunner, poll_s=0.1))
    keyless = {feed.name for feed in FEEDS.values() if not feed.needs_key}
    settings = Settings(
        database_url=str(engine.url),
        price_feed_urls=dict.fromkeys(keyless, server.url),
        price_feed_networks=LOOPBACK,
        price_sync_interval_hours=1,
        snapshot_check_s=0.5,
        access_log="off",
    )
    app = create_app(settings, loaded)
    with TestClient(app) as client:
        synced, until = set[str](), time.monotonic() + 120
        while synced != keyless and time.monotonic() < until:
            time.sleep(0.1)
            with Session(engine) as session:
                synced = {*session.scalars(select(SyncRow.feed).where(SyncRow.state == "stored", SyncRow.accepted > 0))}
        assert synced == keyless
        while (shown := shown_today(client)) != STATED and time.monotonic() < until:
            time.sleep(0.1)
        assert shown == STATED
    app.state.sessions.kw["bind"].dispose()


@pytest.mark.slow
@pytest.mark.parametrize("feed", [feed.name for feed in PLAIN_FEEDS if feed.needs_key])
def test_every_feed_from_its_format_to_the_price_list(feed: str, engine: Engine, run: Run) -> None:
    check_feed(engine, run, feed)


def kill_in_sync(engine: Engine, server: FeedServer, after_s: float) -> None:
    """Starts a sync in a process of its own and kills it after a while."""
    process = subprocess.Popen(
        [sys.executable, "-m", "app", "prices", "sync", "gpuhunt"],
        env={**os.environ, **environment(engine, server)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    process.stdout.readline()  # the first part is being read: what follows is parsing and the transaction
    time.sleep(after_s)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()


def check_one_version(engine: Engine) -> bool:
    """Offers, observations and version belong together; returns whether the sync was stored."""
    columns = (OfferRow.pricing_model, OfferRow.usd_per_hour)
    with Session(engine) as session:
        stored = session.scalar(select(func.count()).select_from(PriceObservationRow))
        versions = session.scalar(select(func.count()).select_from(CatalogVersionRow))
        offers = session.execute(select(*columns).where(OfferRow.source.startswith("gpuhunt feed"))).all()
    assert (stored, versions, len(offers)) in {(0, 1, 0), (400, 2, 400)}
    return bool(stored)


MANY_PRICES = formats.gpuhunt_routes(rows=[{**formats.GPUHUNT_ROW, "location": f"us-{i}"} for i in range(400)])


@pytest.mark.slow
def test_a_killed_sync_leaves_the_old_or_the_new_version(engine: Engine, server: FeedServer, tmp_path: Path) -> None:
    server.routes |= MANY_PRICES
    for i in range(2):
        own = make_engine(copied(str(engine.url), tmp_path / f"{i}.sqlite3"))
        kill_in_sync(own, server, random.Random(i).uniform(0.0, 1.0))
        check_one_version(own)
        own.dispose()


def test_readers_see_one_version_while_syncs_follow_each_other(engine: Engine, server: FeedServer, run: Run) -> None:
    """All prices of a sync are equal, so two prices in one read would be a mixture of versions."""
    done, mixed, reads = threading.Event(), list[set[float]](), [0]

    def read() -> None:
        sessions = sessionmaker(engine)
        while not done.is_set():
            with sessions() as session:
                rows = session.scalars(select(OfferRow.usd_per_hour).where(OfferRow.region.startswith("read-")))
                prices = set(rows.all())
                reads[0] += 1
                if len(prices) > 1:
                    mixed.append(prices)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    try:
        for i in range(2):
            rows = [{**formats.GPUHUNT_ROW, "location": f"read-{n}", "price": f"{56 + i}"} for n in range(50)]
            server.routes |= formats.gpuhunt_routes(rows=rows, version=f"2026110{i + 1}-1")
            run("gpuhunt", now=FIRST + timedelta(days=i))
    finally:
        done.set()
        for reader in readers:
            reader.join()
    assert mixed == []
    assert reads[0] >= 1_000


TEXTS = (
    b"null",
    b"-1",
    b"0",
    b"1e999",
    b'"NaN"',
    b"[]",
    b"{}",
    b'""',
    b"\xff",
    b"\x00",
    b'"\\u0000"',
    b"1e300",
    b"true",
)


def mutate(body: bytes, draw: random.Random) -> bytes:
    """A body with a few bytes changed, removed or replaced by what parsers trip over."""
    changed = bytearray(body)
    for _ in range(draw.randint(1, 4)):
        at = draw.randrange(len(changed)) if changed else 0
        match draw.randrange(5):
            case 0:
                changed[at : at + 1] = bytes([draw.randrange(256)])
            case 1:
                del changed[at : at + draw.randint(1, 40)]
            case 2:
                changed[at:at] = draw.choice(TEXTS)
            case 3:
                colon = changed.find(b":", at) + 1
                changed[colon : colon + draw.randint(1, 6)] = draw.choice(TEXTS)
            case _:
                changed[at:at] = changed[at : at + draw.randint(1, 200)]
    return bytes(changed)


def check_accepted(each: Observation, known: KnownPrices) -> None:
    """What the gate lets through fits its columns, and is a plausible price of a machine."""
    low, high, _ = known.plausible_range(each.key)
    in_force = known.in_force.get(each.key, (None, ""))[0]
    assert each.usd_per_hour == in_force or low <= each.usd_per_hour / each.key.accelerator_count <= high
    assert all(0 < len(name) <= 120 and name.isprintable() for name in (*each.key[:4], each.key.pricing_model))
    assert 0 <= (each.vcpus or 0) <= 10**6
    assert 0 <= (each.ram_bytes or 0.0) <= 1e15
    assert each.effective_from is None or date.fromisoformat(each.effective_from)
    assert all(len(value) <= 4000 for value in (each.feed_version, each.basis, each.native_currency))


def check_mutated_pages(directory: CatalogIndex, count: int, seed: int) -> tuple[int, int]:
    """Reads mutated pages of every feed, and checks what the gate accepts; returns the number of pages that were read,
    and of accepted prices.
    """
    draw, read, accepted = random.Random(seed), 0, 0
    names, known = FeedNames(directory), KnownPrices.from_offers(directory.catalog.offers)
    machines = {feed.name: names.machines_of(feed.provider) if feed.provider else () for feed in PLAIN_FEEDS}

    def mutated(route: Route) -> Route:
        def reply(query: dict[str, list[str]]) -> Reply:
            made = route(query) if callable(route) else route[0] if isinstance(route, list) else route
            return Reply(mutate(made.body, draw), headers=made.headers)

        return reply

    with serve({}) as server, closing(local_client()) as client:
        server.routes |= {path: mutated(route) for path, route in all_routes(server).items()}
        for i in range(count):
            feed = PLAIN_FEEDS[i % len(PLAIN_FEEDS)]
            try:
                part = feed.read(
                    Source(client, server.url, feed.parts[0], key="key:secret", machines=machines[feed.name])
                )
            except FeedError:
                continue
            assert part is not None
            read += 1
            passed, _ = check_prices(names.to_observations(feed, part)[0], known, FIRST.date())
            accepted += len(passed)
            for each in passed:
                check_accepted(each, known)
    return read, accepted


@pytest.fixture
def few_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.feeds.client.MAX_PAGES", 10)


@pytest.mark.usefixtures("few_pages")
def test_mutated_pages_are_read_or_refused_with_a_reason(catalog_store: CatalogStore) -> None:
    read, accepted = check_mutated_pages(catalog_store.directory(), 300, seed=1)
    assert 20 < read < 300
    assert accepted > 20


@pytest.mark.slow
@pytest.mark.usefixtures("few_pages")
def test_many_mutated_pages(catalog_store: CatalogStore) -> None:
    read, accepted = check_mutated_pages(catalog_store.directory(), 10_000, seed=2)
    assert min(read, accepted) > 500
