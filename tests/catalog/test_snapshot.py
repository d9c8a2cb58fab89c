"""A catalog is loaded and replaced in the background; requests use the current one whatever the database does."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.orm import Session, sessionmaker

from app.catalog import snapshot as catalog_store
from app.catalog.queries import load_snapshot
from app.catalog.seed import model_entries
from app.catalog.snapshot import CatalogStore, EmptyCatalog
from app.db import DatabaseError, make_engine
from app.sizing.snapshot import Catalog
from tests.conftest import copied
from tests.outages import Outage


@pytest.fixture
def engine(sqlite_url: str, tmp_path: Path) -> Iterator[Engine]:
    made = make_engine(copied(sqlite_url, tmp_path / "own.sqlite3"))
    yield made
    made.dispose()


def publish(engine: Engine, digest: str) -> None:
    """Another catalogue under the same row, as a restored backup has."""
    with engine.begin() as connection:
        connection.execute(text("update catalog_versions set digest = :digest"), {"digest": digest})


def soon(true: Callable[[], object], within_s: float = 10.0) -> bool:
    until = time.monotonic() + within_s
    while not true() and time.monotonic() < until:
        time.sleep(0.02)
    return bool(true())


@pytest.mark.slow
def test_a_first_catalogue_is_loaded_by_itself_once_there_is_one(sqlite_url: str, tmp_path: Path) -> None:
    folder = tmp_path / "later"
    engine = make_engine(f"sqlite:///{folder}/own.sqlite3")
    store = CatalogStore(sessionmaker(engine), check_s=0.1)
    keeping = threading.Thread(target=store.refresh_periodically)
    keeping.start()
    try:
        assert soon(lambda: not store.catalog_status().is_loading)
        assert store.catalog_status().catalog is None
        assert "does not answer" in store.catalog_status().problem
        with pytest.raises(DatabaseError):
            store.catalog()
        folder.mkdir()
        copied(sqlite_url, folder / "own.sqlite3")
        assert soon(lambda: store.catalog_status().catalog)
        assert store.catalog_status().problem == ""
    finally:
        store.stop_refreshing()
        keeping.join()
        engine.dispose()


@pytest.mark.slow
def test_a_newer_catalog_is_built_in_the_background(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    store = CatalogStore(sessionmaker(engine), check_s=0.0)
    old = store.catalog()
    building, go_on = threading.Event(), threading.Event()

    def slowly(session: Session, digest: str, published_at: str) -> Catalog:
        building.set()
        assert go_on.wait(10)
        return load_snapshot(session, digest, published_at)

    monkeypatch.setattr(catalog_store, "load_snapshot", slowly)
    publish(engine, "f" * 64)
    one = threading.Thread(target=store.catalog)
    one.start()
    try:
        assert building.wait(10)
        began = time.monotonic()
        assert store.catalog() is old
        assert store.find_model("llama-3.1-8b").name
        assert time.monotonic() - began < 0.5
    finally:
        go_on.set()
        one.join()
    assert store.catalog().version == "f" * 16  # of the same row


@pytest.mark.slow
@pytest.mark.parametrize("database", ["sqlite_url", "postgres_url"])
def test_a_catalog_is_of_one_moment_even_if_another_is_published_while_it_loads(
    database: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = request.getfixturevalue(database)
    engine = make_engine(copied(url, tmp_path / "own.sqlite3") if url.startswith("sqlite") else url)
    rename = text("update accelerators set name = :name where slug = 'nvidia-t4'")
    before = CatalogStore(sessionmaker(engine), check_s=0.0).catalog()

    def renamed(session: Session, digest: str, published_at: str) -> Catalog:
        with engine.begin() as publishing:
            publishing.execute(rename, {"name": "another"})
        return load_snapshot(session, digest, published_at)

    monkeypatch.setattr(catalog_store, "load_snapshot", renamed)
    try:
        catalog = CatalogStore(sessionmaker(engine), check_s=0.0).catalog()
    finally:
        with engine.begin() as connection:
            connection.execute(rename, {"name": of_t4(before)})
        engine.dispose()
    assert of_t4(catalog) == of_t4(before)


def of_t4(catalog: Catalog) -> str:
    return catalog.accelerators[catalog.accelerator_index["nvidia-t4"]].name


@pytest.mark.slow
def test_every_model_is_known_where_the_database_is_gone(engine: Engine) -> None:
    outage = Outage(engine)
    store = CatalogStore(sessionmaker(engine), check_s=0.0)
    catalog = store.catalog()
    with outage.refused():
        for entry in model_entries()[::25]:
            assert store.model_identity(entry["hf_id"]) == entry["hf_id"]
            store.find_model(entry["hf_id"])
        assert store.catalog() is catalog
        assert "does not answer" in store.catalog_status().problem
    store.catalog()
    assert store.catalog_status().problem == ""


def test_an_empty_database_says_what_to_do(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(text("delete from catalog_versions"))
    store = CatalogStore(sessionmaker(engine), check_s=0.0)
    with pytest.raises(EmptyCatalog):
        store.catalog()
    assert "headroom prepare" in store.catalog_status().problem
