"""Observed prices: added and never changed, published in one transaction, and answered for past days."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta

import pytest
from sqlalchemy import Engine, event, func, insert, inspect, select, text
from sqlalchemy.orm import Session, sessionmaker

from app.catalog.files import read_rows
from app.catalog.observations import (
    OfferKey,
    PriceObservationRow,
    QuarantineRow,
    Suspicion,
    decide,
    latest_prices,
    list_availability,
    list_quarantine,
    store_keys,
    store_observations,
    take_lease,
)
from app.catalog.partitions import PARTITIONED, add_partitions
from app.catalog.queries import newest_version
from app.catalog.seed import StaleCatalog, check_loaded, curated_digest, publish_observations, seed_catalog
from app.catalog.snapshot import CatalogStore
from app.catalog.tables import CatalogVersionRow, OfferRow
from app.db import make_engine
from app.sizing.hardware.parts import Offer
from tests.catalog.observed import L4, NEW, moment, observed, publish

ELSEWHERE = NEW._replace(region="us-nowhere2")
FIRST, SECOND = "2026-10-01", "2026-11-10"


def offer_of(store: CatalogStore, key: tuple[object, ...], day: str | None = None) -> Offer | None:
    directory = store.directory() if day is None else store.directory().on_day(day)
    return next((o for o in directory.catalog.offers if o.key == key), None)


def price_of(store: CatalogStore, key: tuple[object, ...], day: str | None = None) -> float:
    offer = offer_of(store, key, day)
    assert offer is not None
    return offer.usd_per_hour


def listed_price(engine: Engine, key: OfferKey) -> float:
    """The price of an offer as a reader of the database sees it now."""
    matching = (getattr(OfferRow, name) == value for name, value in key._asdict().items())
    with Session(engine) as session:
        return session.scalars(select(OfferRow.usd_per_hour).where(*matching)).one()


def check_market(engine: Engine) -> None:
    """Two syncs, two versions: each day is answered with the observation in force on it."""
    store = CatalogStore(sessionmaker(engine), check_s=0)
    shipped, version = offer_of(store, L4), store.catalog().version
    assert shipped is not None
    with Session(engine) as session:
        assert publish(session, FIRST, [observed(L4, 0.80), observed(NEW, 0.90, "available")])
        assert publish(session, SECOND, [observed(L4, 0.60), observed(NEW, 0.90, "none")])
        assert len(session.scalars(select(PriceObservationRow)).all()) == 4
        check_loaded(session)
    newest = store.catalog()
    assert newest.version != version
    assert newest.prices_as_of == SECOND
    now, added = offer_of(store, L4), offer_of(store, NEW)
    assert now is not None
    assert added is not None
    assert (now.usd_per_hour, now.as_of, now.system) == (0.60, SECOND, shipped.system)
    assert now.source == "gcp feed@v1"
    assert now.trend_30d == pytest.approx(0.60 / 0.80 - 1)
    assert (added.usd_per_hour, added.system, added.vcpus) == (0.90, shipped.system, shipped.vcpus)
    assert added.availability is not None
    assert (added.availability.state, added.availability.seen_at) == ("none", f"{SECOND}T12:00:00Z")
    assert price_of(store, L4, "2026-11-09") == 0.80
    assert price_of(store, L4, FIRST) == 0.80
    assert price_of(store, L4, "2026-09-30") == shipped.usd_per_hour
    assert offer_of(store, NEW, "2026-09-30") is None
    dated = offer_of(store, NEW, "2026-11-09")
    assert dated is not None
    assert dated.availability is None


def test_each_day_is_answered_with_the_observation_in_force(engine: Engine) -> None:
    check_market(engine)


@pytest.mark.parametrize(
    ("provider", "region", "country"),
    [
        ("gcp", "us-central1", "US"),
        ("lambda", "us-south-1", "US"),
        ("lambda", "europe-central-1", "DE"),
        ("nebius", "eu-north2", "IS"),
        ("vast", "DE", "DE"),
        ("runpod", "DE", None),
        ("lambda", "europe-south-1", None),
    ],
)
def test_an_offer_that_only_a_feed_has_is_in_the_country_of_its_region(
    engine: Engine, provider: str, region: str, country: str | None
) -> None:
    key = L4._replace(provider=provider, region=region, instance_type="of a feed")
    with Session(engine) as session:
        assert publish(session, FIRST, [observed(key, 0.80)])
        assert session.scalars(select(OfferRow.country).where(OfferRow.instance_type == "of a feed")).one() == country


def test_the_country_of_a_region_is_one_of_its_provider_and_contradicts_no_price_list() -> None:
    rows = [*read_rows("region_countries.csv")]
    centers = {r["provider"]: r["countries"].split() for r in read_rows("provider_places.csv") if r["fact"] != "seat"}
    listed = {(r["provider"], r["region"]): r["country_or_geo"] for r in read_rows("offers.csv")}
    assert len({(r["provider"], r["region"]) for r in rows}) == len(rows)
    for row in rows:
        assert row["country"] in centers[row["provider"]], row
        assert listed.get((row["provider"], row["region"]), row["country"]) == row["country"]


@pytest.mark.slow
def test_postgresql_answers_as_sqlite_does(prepared_postgres: Callable[[str], str]) -> None:
    engine = make_engine(prepared_postgres("headroom_market"))
    check_market(engine)
    months = {f"y{day:%Ym%m}" for day in (moment(FIRST), moment(SECOND), moment("2026-12-01"))}
    for table in PARTITIONED:
        assert months <= {name.removeprefix(f"{table}_") for name in inspect(engine).get_table_names()}
    with Session(engine) as session:
        found = select(func.count()).select_from(text("price_observations_y2026m10"))
        assert session.scalar(found) == 2
    check_readers_do_not_wait(engine)
    check_sold_out(engine)
    check_leases(engine)
    engine.dispose()


def check_readers_do_not_wait(engine: Engine) -> None:
    with Session(engine) as adding, Session(engine) as reading:
        add_partitions(adding, [moment("2030-01-01")])
        reading.execute(text("SET LOCAL lock_timeout = '100ms'"))
        assert reading.scalar(select(func.count()).select_from(PriceObservationRow)) == 4


def test_without_observations_the_version_is_that_of_the_files(engine: Engine) -> None:
    with Session(engine) as session:
        before = newest_version(session)
        assert before is not None
        assert before[1] == curated_digest()
        assert publish_observations(session) is False
        assert newest_version(session) == before


@pytest.mark.slow
def test_loading_the_files_again_keeps_the_observations(engine: Engine) -> None:
    with Session(engine) as session:
        publish(session, FIRST, [observed(L4, 0.80)])
        version = newest_version(session)
    with Session(engine) as session:
        assert seed_catalog(session) is False
        session.add(CatalogVersionRow(digest="", published_at="", loaded_at=moment(FIRST)))
        session.commit()
        assert seed_catalog(session) is True
        again = newest_version(session)
        assert version is not None
        assert again is not None
        assert again[1] == version[1]
        known = session.scalars(select(OfferRow).where(OfferRow.source == "gcp feed@v1")).one()
        assert known.usd_per_hour == 0.80


def test_a_catalog_of_other_files_is_not_changed(engine: Engine) -> None:
    with Session(engine) as session:
        session.add(CatalogVersionRow(digest="other", published_at="", loaded_at=moment(FIRST)))
        session.flush()
        with pytest.raises(StaleCatalog, match="headroom prepare"):
            check_loaded(session)


def test_readers_see_the_old_version_until_the_commit(engine: Engine) -> None:
    before = listed_price(engine, L4)
    with Session(engine) as session:
        store_observations(session, [observed(L4, 0.80)], [], at=moment(FIRST), aggregate=False)
        assert publish_observations(session)
        assert listed_price(engine, L4) == before
        session.rollback()
    assert listed_price(engine, L4) == before


def test_a_repeated_price_is_stored_once_a_day_and_an_aggregate_yields_to_the_providers_own_feed(
    engine: Engine,
) -> None:
    def stored(usd: float, day: str, feed: str = "gcp", hour: int = 12) -> int:
        with Session(engine) as session:
            aggregate = feed == "gpuhunt"
            (count, _) = store_observations(
                session, [observed(L4, usd, feed=feed)], [], at=moment(day, hour), aggregate=aggregate
            )
            session.commit()
            return count

    assert [stored(0.8, FIRST), stored(0.8, FIRST, hour=13), stored(0.9, FIRST, hour=14)] == [1, 0, 1]
    assert stored(0.9, "2026-10-02") == 1
    assert stored(0.7, "2026-10-08", "gpuhunt") == 0
    assert stored(0.7, "2026-10-10", "gpuhunt") == 1


def test_a_price_in_quarantine_counts_once_it_is_accepted(engine: Engine) -> None:
    odd = Suspicion(observed(L4, 9.0), "day_change", "")
    with Session(engine) as session:
        publish(session, FIRST, [observed(L4, 0.80)])
        publish(session, SECOND, [], [odd])
        publish(session, "2026-11-11", [], [odd])  # still the same: it waits once
        ((row, _),) = list_quarantine(session)
        assert listed_price(engine, L4) == 0.80
        assert decide(session, [row.id], "accepted", by="me", at=moment("2026-11-12")) == 1
        assert decide(session, [row.id], "rejected", by="me", at=moment("2026-11-12")) == 0
        assert publish_observations(session)
        session.commit()
        assert list_quarantine(session) == []
        kept = session.scalars(select(QuarantineRow)).one()
        assert (kept.decision, kept.decided_by) == ("accepted", "me")
    assert listed_price(engine, L4) == 9.0


def test_a_rejected_price_does_not_return(engine: Engine) -> None:
    odd = Suspicion(observed(L4, 9.0), "day_change", "")
    with Session(engine) as session:
        publish(session, FIRST, [], [odd])
        assert decide(session, [list_quarantine(session)[0][0].id], "rejected", by="me", at=moment(FIRST)) == 1
        publish(session, SECOND, [], [odd])
        assert list_quarantine(session) == []
        publish(session, SECOND, [], [Suspicion(observed(L4, 9.5), "day_change", "")], hour=13)
        assert len(list_quarantine(session)) == 1


def test_an_offer_is_sold_out_since_the_first_of_its_newest_observations_without_capacity(engine: Engine) -> None:
    check_sold_out(engine)


def check_sold_out(engine: Engine) -> None:
    with Session(engine) as session:
        for day, state in (
            ("2026-10-01", "none"),
            ("2026-10-02", "low"),
            ("2026-10-03", "none"),
            ("2026-10-11", "none"),
        ):
            publish(session, day, [observed(ELSEWHERE, 0.9, state)])
        seen = list_availability(session)[ELSEWHERE]
        assert (seen.state, seen.sold_out_days) == ("none", 8.0)
        publish(session, "2026-10-12", [observed(ELSEWHERE, 0.9, "available")])
        assert list_availability(session)[ELSEWHERE].sold_out_days == 0.0


def test_of_two_prices_of_one_moment_the_last_counts(engine: Engine) -> None:
    with Session(engine) as session:
        rows = [{"key": 0, "observed_at": moment(FIRST), "usd_per_hour": usd} for usd in (0.8, 0.7)]
        key = store_keys(session, [observed(L4, 0.8)])[L4]
        fixed = {"native_amount": 1.0, "native_currency": "USD", "basis": "instance_hour"}
        fixed |= {"feed": "gcp", "feed_version": "v1", "payload_sha256": "0" * 64}
        session.execute(insert(PriceObservationRow), [{**row, **fixed, "key": key} for row in rows])
        assert latest_prices(session)[L4][0].usd_per_hour == 0.7


def test_no_reading_of_the_newest_observations_scans_them(engine: Engine) -> None:
    with Session(engine) as session:
        publish(session, FIRST, [observed(L4, 0.80, "none")])
        statements = list[tuple[str, tuple[object, ...]]]()
        event.listen(
            engine, "before_cursor_execute", lambda _c, _u, query, values, *_: statements.append((query, values))
        )
        latest_prices(session, moment(SECOND))
        list_availability(session)
        assert len(statements) == 3
        for query, values in statements.copy():
            plan = session.connection().exec_driver_sql(f"EXPLAIN QUERY PLAN {query}", values)
            assert not any(re.match(r"SCAN (price|availability)_observations", row[3]) for row in plan)


def check_leases(engine: Engine) -> None:
    now, lasts = moment(FIRST), timedelta(hours=1)
    assert take_lease(engine, "sync", "a", lasts=lasts, now=now)
    assert not take_lease(engine, "sync", "b", lasts=lasts, now=now)
    assert take_lease(engine, "sync", "a", lasts=lasts, now=now + lasts / 2)
    assert not take_lease(engine, "sync", "b", lasts=lasts, now=now + lasts)
    assert take_lease(engine, "sync", "b", lasts=lasts, now=now + 2 * lasts)


def test_one_process_holds_a_lease_until_it_expires(engine: Engine) -> None:
    check_leases(engine)
