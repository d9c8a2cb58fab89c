"""The service with its own temporary catalog, for the answers that documents show."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any

from alembic import command
from sqlalchemy.orm import Session
from starlette.testclient import TestClient

from app.catalog.seed import seed_catalog
from app.config import Settings
from app.db import make_engine
from app.main import create_app
from app.migrating import alembic_config

ROOT = Path(__file__).resolve().parents[1]
# Fixed date of all documents and tests, so that the ages of prices do not change.
DAY = date(2026, 11, 20)
BODIES = ROOT / "tests" / "api" / "bodies"


@contextmanager
def service_client() -> Iterator[TestClient]:
    """A client of the service over the current data files."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/artefacts.sqlite3"
        config = alembic_config()
        config.attributes["database_url"] = url
        command.upgrade(config, "head")
        engine = make_engine(url)
        with Session(engine) as session:
            seed_catalog(session)
        engine.dispose()
        with TestClient(create_app(Settings(database_url=url, today=DAY, access_log="off"))) as client:
            yield client


def worked_requests() -> dict[str, dict[str, Any]]:
    """The worked requests by name; the first word of a name is the endpoint."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(BODIES.glob("*.json"))}
