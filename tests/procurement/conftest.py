"""A service that two buyers may punch out to, and an answer that it has stored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from app.catalog.snapshot import LoadedCatalog
from app.config import Settings
from app.main import create_app
from app.procurement.desk import GuessLimit
from artefacts.service import DAY
from tests.examples import body
from tests.export.conftest import cxml_dtd, schemas
from tests.procurement.buyer import ACME, HERE, OTHER

__all__ = ["cxml_dtd", "schemas"]


class Patient(GuessLimit):
    """Takes any number of wrong secrets: all tests have one address, and some send hundreds."""

    def check(self, address: str) -> None:
        pass


@pytest.fixture(scope="session")
def service(sqlite_url: str, loaded: LoadedCatalog) -> Iterator[TestClient]:
    settings = Settings(database_url=sqlite_url, today=DAY, public_url=HERE, punchout_buyers=(ACME, OTHER))
    app = create_app(settings, loaded)
    app.state.desk._guesses = Patient()
    with TestClient(app, base_url=HERE, follow_redirects=False) as made:
        yield made


@pytest.fixture(scope="session")
def stored(service: TestClient) -> dict[str, Any]:
    """Under a label of its own: other tests store answers too, and a list shows the newest."""
    asked = body("recommend-inference-deepseek-v3") | {"label": "punch-out"}
    answer: dict[str, Any] = service.post("/recommend", json=asked).json()
    return answer
