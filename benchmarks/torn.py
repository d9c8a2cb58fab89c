"""`python -m benchmarks.torn`: kills (SIGKILL) a process at a random moment while it publishes a catalog.

Before each kill, the database holds a catalog without the last row of several tables. After the kill it must hold that
catalog or the curated one, row by row, and no mixture. With `--sync`, it kills `headroom prices sync` of 400 prices,
after which observations, offers and version must belong together.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.orm import Session

import app.main  # noqa: F401  (registers every table)
from app.db import Base, make_engine, read_consistently
from benchmarks.databases import KINDS, prepare_database
from benchmarks.load import ROOT
from tests.conftest import copied
from tests.feeds.formats import serve
from tests.feeds.test_sync import MANY_PRICES, check_one_version, kill_in_sync

PUBLISH = """
import sys
from sqlalchemy.orm import Session
from app.catalog.seed import seed_catalog
from app.db import make_engine
with Session(make_engine(sys.argv[1])) as session:
    print("begun", flush=True)
    seed_catalog(session)
"""
SYNC_S = 2.0  # within which a sync that has begun to read is killed
OTHER = "0" * 64
# Tables that publishing does not replace, or writes with the current time.
NOT_REPLACED = {"catalog_versions", "recommendations", "filings", "status_changes", "deliveries", "punchout_sessions"}


def replaced_tables() -> list[sa.Table]:
    return [table for table in Base.metadata.sorted_tables if table.name not in NOT_REPLACED]


def database_state(engine: sa.Engine) -> tuple[str, str]:
    """(catalog version in the database, digest of every row of the catalog)."""
    digest = hashlib.sha256()
    with Session(engine) as connection:
        read_consistently(connection)  # the killed process may have started a commit that the server is still executing
        newest = sa.text("SELECT digest FROM catalog_versions ORDER BY id DESC LIMIT 1")
        version = str(connection.scalar(newest))
        for table in replaced_tables():
            kept = [c for c in table.columns if not (c.primary_key and isinstance(c.type, sa.Integer))]
            for row in sorted(repr(tuple(row)) for row in connection.execute(sa.select(*kept))):
                digest.update(row.encode())
    return version, digest.hexdigest()


def change_catalog(engine: sa.Engine) -> None:
    """Makes the database hold another catalog: fewer rows, under its own version."""
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE catalog_versions SET digest = :digest"), {"digest": OTHER})
        for name in ("prices", "offers", "predictions", "model_aliases", "factors", "hosted_prices"):
            table = Base.metadata.tables[name]
            key = next(iter(table.primary_key.columns))
            connection.execute(table.delete().where(key == sa.select(sa.func.max(key)).scalar_subquery()))


def publish_catalog(url: str, kill_after_s: float | None) -> float:
    """Seconds until publishing ended or was killed."""
    process = subprocess.Popen([sys.executable, "-c", PUBLISH, url], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    began = time.monotonic()
    if kill_after_s is not None:
        time.sleep(kill_after_s)
        process.kill()
    process.wait()
    return time.monotonic() - began


def kill_syncs(kills: int) -> Counter[str]:
    """The catalogs that killed syncs left, each in a copy of one database. Raises AssertionError for a mixture."""
    found: Counter[str] = Counter()
    with prepare_database("sqlite") as (environment, _), serve(MANY_PRICES) as server:
        for _ in range(kills):
            with tempfile.TemporaryDirectory() as folder:
                engine = make_engine(copied(environment["HEADROOM_DATABASE_URL"], Path(folder) / "copy.sqlite3"))
                kill_in_sync(engine, server, random.uniform(0, SYNC_S))
                found["new catalog" if check_one_version(engine) else "old catalog"] += 1
                engine.dispose()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.torn", description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--database", choices=KINDS, default="sqlite")
    parser.add_argument("--sync", action="store_true", help="kill syncs of price feeds, on SQLite")
    options = parser.parse_args()
    if options.sync:
        print(f"{options.kills} kills of syncs on sqlite: {dict(kill_syncs(options.kills))}")
        return
    with prepare_database(options.database) as (environment, _):
        url = environment["HEADROOM_DATABASE_URL"]
        engine = sa.create_engine(url)
        curated = database_state(engine)
        change_catalog(engine)
        before = database_state(engine)
        assert before[1] != curated[1]
        whole_s = publish_catalog(url, None)
        assert database_state(engine) == curated
        found: Counter[str] = Counter()
        for _ in range(options.kills):
            change_catalog(engine)
            assert database_state(engine) == before
            publish_catalog(url, random.uniform(0, 1.2 * whole_s))
            now = database_state(engine)
            found["old catalog" if now == before else "new catalog" if now == curated else "torn"] += 1
            publish_catalog(url, None)
        engine.dispose()
    print(f"{options.kills} kills of publishing ({whole_s:.1f} s each) on {options.database}: {dict(found)}")
    sys.exit(found["torn"] > 0)


if __name__ == "__main__":
    main()
