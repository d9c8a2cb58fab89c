"""Names of hardware, providers and regions as people write them find their entry, the choices or the nearest one.
A catalog is loaded and replaced in the background; requests use the current one whatever the database does.
"""

from __future__ import annotations

import re
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sqlalchemy import Engine, text
from sqlalchemy.orm import Session, sessionmaker

from app.catalog import snapshot as catalog_store
from app.catalog.names import NAME_TABLES, countries_named
from app.catalog.queries import load_snapshot
from app.catalog.seed import model_entries
from app.catalog.snapshot import (
    CatalogIndex,
    CatalogNotReady,
    CatalogStore,
    EmptyCatalog,
    closest_names,
    compact_name,
    load_newest,
    normalize_name,
)
from app.db import DatabaseError, make_engine
from app.garbage import paused_collection
from app.sizing.snapshot import Catalog
from tests.catalog.spellings import AMBIGUOUS, SPELLINGS
from tests.conftest import copied
from tests.outages import Outage

TABLE = [(name, slug) for slug, names in SPELLINGS.items() for name in names]


@pytest.fixture(scope="module")
def catalog_index(catalog_store: CatalogStore) -> CatalogIndex:
    return catalog_store.directory()


def test_the_table_is_large() -> None:
    assert len(TABLE) >= 250
    assert len(AMBIGUOUS) >= 30


@pytest.mark.parametrize(("name", "slug"), TABLE, ids=[name for name, _ in TABLE])
def test_a_name_finds_the_accelerator_meant(catalog_index: CatalogIndex, name: str, slug: str) -> None:
    assert catalog_index.resolve_name(name).accelerators == (slug,)
    assert catalog_index.resolve_name(f"  {name.upper()} ").accelerators == (slug,)


@pytest.mark.parametrize("name", AMBIGUOUS)
def test_a_name_of_several_gives_the_choices(catalog_index: CatalogIndex, name: str) -> None:
    assert catalog_index.resolve_name(name).accelerators == AMBIGUOUS[name]
    assert catalog_index.resolve_name(name.lower()).accelerators == AMBIGUOUS[name]


def test_everything_in_the_catalogue_finds_itself(catalog_index: CatalogIndex) -> None:
    for accelerator in catalog_index.catalog.accelerators:
        own = re.sub(r" *\(.*\)", "", accelerator.name)
        assert catalog_index.resolve_name(accelerator.slug).accelerators == (accelerator.slug,)
        assert accelerator.slug in catalog_index.resolve_name(own).accelerators, own
        assert accelerator.slug in catalog_index.resolve_name(accelerator.name).accelerators
    for system in catalog_index.catalog.systems.values():
        if system.provider == "generic":
            continue  # "4x RTX 4090 workstation" is four of them
        assert catalog_index.resolve_name(system.slug).accelerators == (system.accelerator,), system.slug
    for offer in catalog_index.catalog.offers:
        found = catalog_index.resolve_name(offer.instance_type)
        assert offer.accelerator in found.accelerators, offer.instance_type


@pytest.mark.parametrize(
    ("name", "system"),
    [
        ("p5.48xlarge", "aws-p5-48xlarge"),
        ("Standard_ND96isr_H100_v5", "azure-nd96isr-h100-v5"),
        ("a3-highgpu-8g", "gcp-a3-highgpu-8g"),
        ("BM.GPU.H100.8", "oci-bm-gpu-h100-8"),
        ("v5litepod-8", "gcp-tpu-v5e-8"),
        ("dgx h100", "dgx-h100"),
        ("H100 SXM", None),
        ("p5", None),
    ],
)
def test_a_named_machine_is_recognized(catalog_index: CatalogIndex, name: str, system: str | None) -> None:
    assert catalog_index.resolve_name(name).system == system


COUNTED = [
    ("8x L40S", 8),
    ("8xL40S", 8),
    ("L40S x 4", 4),
    ("7900xtx", None),
    ("2x3090", 2),
    ("3090x2", 2),
    ("RTX 3090 (x2)", 2),
    ("8 L40S", 8),
    ("4 RTX A6000s", 4),
    ("dual RTX 4090", 2),
    ("24 GB 3090", None),
]


@pytest.mark.parametrize(("name", "count"), COUNTED)
def test_a_number_before_a_name_is_recognized(catalog_index: CatalogIndex, name: str, count: int | None) -> None:
    assert catalog_index.resolve_name(name).count == count
    assert len(catalog_index.resolve_name(name).accelerators) == 1


@pytest.mark.parametrize(
    ("pattern", "slugs"),
    [
        ("nvidia-h100-*", 3),
        ("H100*", 3),
        ("RTX 40?0", 4),
        ("*4090*", 1),
        ("MI3*", 7),
        ("NVIDIA GeForce RTX 50*", 5),
        ("zz*", 0),
        ("[a-z]*", 0),
    ],
)
def test_patterns_fit_slugs_and_names(catalog_index: CatalogIndex, pattern: str, slugs: int) -> None:
    assert len(catalog_index.match_pattern(pattern)) == slugs


def test_the_nearest_are_offered(catalog_index: CatalogIndex) -> None:
    assert catalog_index.nearest_accelerators("RTX 4095")[0] == "nvidia-rtx-4090"
    assert "nvidia-h100-sxm5-80gb" in catalog_index.nearest_accelerators("nvidia-h100-sxm6-80gb")
    assert closest_names("lamda", catalog_index.providers.values())[0] == "lambda"
    assert closest_names("NVDIA", catalog_index.vendors.values()) == ("nvidia",)


def test_regions_are_taken_by_name_pattern_country_and_area(catalog_index: CatalogIndex) -> None:
    assert catalog_index.find_regions("US-East-1") == ("us-east-1",)
    assert catalog_index.find_regions("us-east1") == ("us-east1",)
    assert catalog_index.find_regions("US East 1") == ("us-east-1", "us-east1")
    assert {"eu-central-1", "europe-west3", "germanywestcentral"} <= {*catalog_index.find_regions("Germany")}
    assert catalog_index.find_regions("DE") == catalog_index.find_regions("germany")
    eu, europe = ({*catalog_index.find_regions(name)} for name in ("EU", "europe"))
    assert "uksouth" in europe - eu
    assert {"eu-west-1", "westeurope", "europe-west4"} <= eu < europe
    assert all(r.startswith("eu-") for r in catalog_index.find_regions("eu-*"))
    assert catalog_index.find_regions("atlantis") == ()


def test_every_curated_word_is_of_something_in_the_catalogue(catalog_index: CatalogIndex) -> None:
    for each in NAME_TABLES.extra_words:
        assert each.words
        assert any(slug.startswith(each.prefix) for slug in catalog_index.slugs) or each.prefix == "intel-gaudi-hl205"
    assert {*NAME_TABLES.titles.values()} <= catalog_index.slugs
    assert {*NAME_TABLES.providers.values()} <= {*catalog_index.providers.values()}
    assert {*NAME_TABLES.vendors.values()} <= {*catalog_index.vendors.values()}
    for codes in NAME_TABLES.areas.values():
        assert {*codes.split()} <= {*NAME_TABLES.countries}
    assert countries_named("atlantis") == frozenset()


NAMES = st.one_of(
    st.text(max_size=200),
    st.lists(st.sampled_from([*"xX8*?[]()+-_. 0", "h100", "rtx", "4090", "gpu", "ti", "80 GB", "٣", "nvidia"])).map(
        "".join
    ),
    st.sampled_from([name for name, _ in TABLE]).flatmap(
        lambda name: st.integers(0, len(name)).map(lambda cut: name[:cut] + name[cut + 1 :])
    ),
)


@pytest.mark.slow
@given(name=NAMES)
@example(name="8" * 120 + "x")
@example(name="h100" * 50)
def test_no_name_breaks_anything(catalog_index: CatalogIndex, name: str) -> None:
    found = catalog_index.resolve_name(name)
    assert {*found.accelerators} <= catalog_index.slugs
    assert {*catalog_index.match_pattern(name)} <= catalog_index.slugs
    assert {*catalog_index.nearest_accelerators(name)} <= catalog_index.slugs
    assert {*catalog_index.find_regions(name)} <= {*catalog_index.regions}
    assert {*closest_names(name, catalog_index.providers.values())} <= {*catalog_index.providers.values()}
    assert compact_name(normalize_name(name)).isascii()


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


@pytest.mark.slow
def test_an_inherited_catalog_is_used_until_a_newer_one_is_published(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Session(engine) as session:
        loaded = load_newest(session)
    with Session(engine) as session:
        assert loaded is not None and load_newest(session, loaded) is None
    heir = CatalogStore(sessionmaker(engine), check_s=3600, loaded=loaded)
    monkeypatch.setattr(catalog_store, "load_snapshot", None)  # nothing is loaded again
    assert heir.catalog() is loaded.catalog_index.catalog
    monkeypatch.undo()
    publish(engine, "f" * 64)
    assert heir.catalog() is loaded.catalog_index.catalog  # checked less than an hour ago
    replacement = CatalogStore(sessionmaker(engine), check_s=3600, loaded=loaded)
    assert replacement.catalog().version == "f" * 16  # the first question already


def test_a_replaced_catalog_is_freed_at_once(engine: Engine) -> None:
    """A cycle of references would keep catalogs of 25 MiB each until the next full garbage collection."""
    with sessionmaker(engine)() as session, paused_collection():
        loaded = load_newest(session)
        assert loaded is not None
        loaded.catalog_index.resolve_name("h100")
        freed = weakref.ref(loaded.catalog_index)
        loaded = None
        assert freed() is None


def test_a_catalog_that_is_still_loading_is_not_called_empty(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog_store, "FIRST_LOAD_WAIT_S", 0.0)
    store = CatalogStore(sessionmaker(engine), check_s=0.0)
    with store._check_lock, pytest.raises(CatalogNotReady):  # as while another thread loads
        store.catalog()
    assert store.catalog().accelerators


def test_an_empty_database_says_what_to_do(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(text("delete from catalog_versions"))
    store = CatalogStore(sessionmaker(engine), check_s=0.0)
    with pytest.raises(EmptyCatalog):
        store.catalog()
    assert "headroom prepare" in store.catalog_status().problem
