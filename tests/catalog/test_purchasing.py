"""Punch-out sessions on both databases: found by their token while they last, worth one order, the first.
Commodity codes and part numbers: well-formed, sourced, of things that exist, for every kind of line. The
curated slices of cards: named as the driver names them, of cards that exist, each with its source.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import text

from app.catalog.files import read_rows
from app.catalog.purchasing import RETENTION, PunchoutStore, SliceRow
from app.catalog.seed import row_values
from app.catalog.snapshot import CatalogStore
from app.db import Base, make_engine
from app.export.lines import MONTHLY_ITEMS, ONE_TIME_ITEMS
from app.sizing.hardware.parts import Profile, Slice, slicings_by_accelerator
from tests.catalogued import rows
from tests.conftest import new_postgres_database

NOW = datetime(2026, 11, 23, 9, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[PunchoutStore]:
    url = f"sqlite:///{tmp_path}/p.sqlite3"
    if request.param == "postgres":
        url = new_postgres_database(request.getfixturevalue("postgres_server"), "headroom_punchouts")
    engine = make_engine(url)
    Base.metadata.tables["punchout_sessions"].create(engine)
    made = PunchoutStore(engine)
    yield made
    engine.dispose()


def opened(store: PunchoutStore, payload: str = "1", now: datetime = NOW) -> str:
    token = store.open("acme", payload, {"protocol": "oci"}, now=now, lifetime=HOUR)
    assert token is not None
    return token


def test_a_session_lasts_its_time(store: PunchoutStore) -> None:
    token = opened(store)
    found = store.find(token, now=NOW + timedelta(minutes=59))
    assert found is not None
    assert (found.buyer, found.facts, found.chosen) == ("acme", {"protocol": "oci"}, None)
    assert token not in (found.key, "")
    assert store.find(token, now=NOW + HOUR) is None
    assert store.record_choice(token, "rec-1", now=NOW + HOUR) is None
    assert store.find(token[:-1], now=NOW) is None


def test_one_of_many_orders_stands(store: PunchoutStore) -> None:
    token, seen = opened(store), list[str | None]()

    def choose(chosen: str) -> None:
        after = store.record_choice(token, chosen, now=NOW)
        seen.append(None if after is None else after.chosen)

    threads = [threading.Thread(target=choose, args=(f"rec-{n}",)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 6
    assert len(set(seen)) == 1
    after = store.find(token, now=NOW)
    assert after is not None
    assert (after.chosen, after.chosen_at) == (seen[0], NOW)


def test_sessions_are_forgotten_some_time_after_their_end(store: PunchoutStore) -> None:
    token = opened(store)
    store.record_choice(token, "rec-1", now=NOW)
    assert store.open("acme", "1", {}, now=NOW, lifetime=HOUR) is None
    opened(store, "2", now=NOW + HOUR + RETENTION + timedelta(seconds=1))
    with store._engine.connect() as connection:
        assert connection.execute(text("SELECT payload FROM punchout_sessions")).scalars().all() == ["2"]


FORMS = {"unspsc": r"\d{8}", "cpv": r"\d{8}", "hs_code": r"\d{6}"}


def test_codes_are_of_their_form_and_sourced() -> None:
    for row in rows("commodity_codes.csv"):
        for name, form in FORMS.items():
            assert re.fullmatch(form, row[name]) or row[name] == ""
        assert row["unspsc_version"]
        assert row["source_ref"]
        assert row["as_of"]


def test_every_kind_of_line_has_codes(catalog_store: CatalogStore) -> None:
    known = catalog_store.directory().purchasing.codes
    kinds = {good.goods for good in (*ONE_TIME_ITEMS.values(), *MONTHLY_ITEMS.values())} | {
        "cloud",
        "egress",
        "installation",
        "licence",
        "power_distribution",
        "storage",
    }
    assert kinds <= known.keys()


def test_part_numbers_are_of_things_that_exist(catalog_store: CatalogStore) -> None:
    directory = catalog_store.directory()
    numbers = directory.purchasing.part_numbers
    assert len(numbers) == len(rows("part_numbers.csv")) > 0
    assert numbers.keys() <= directory.slugs | directory.catalog.systems.keys()


ROWS = [row_values(SliceRow, row) for row in read_rows("slices.csv")]
SLICINGS = slicings_by_accelerator(
    Profile(
        row["accelerator"],
        row["name"],
        Slice(row["compute_parts"], row["memory_parts"], tuple(map(int, row["starts"].split("|")))),
    )
    for row in ROWS
)


def test_every_row_has_a_source_a_date_and_the_name_of_its_parts() -> None:
    for row in ROWS:
        assert row["source"]
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", row["as_of"])
        assert row["name"].startswith(f"{row['compute_parts']}g.")


def test_every_card_that_is_cut_is_in_the_catalogue_and_its_whole_has_its_memory() -> None:
    memory_gb = {row["slug"]: float(row["memory_gb"] or 0) for row in read_rows("accelerators.csv")}
    for slug, slicing in SLICINGS.items():
        whole = next(s for s in slicing.slices if s.memory == slicing.memory)
        named_gb = float(slicing.profile_name(whole).split(".")[1].removesuffix("gb"))
        assert named_gb == pytest.approx(memory_gb[slug], rel=0.02)


def test_slices_lie_within_their_card() -> None:
    for slicing in SLICINGS.values():
        for each in slicing.slices:
            assert max(each.starts) + each.memory <= slicing.memory
            assert each.compute <= slicing.compute
