"""Steps in any order: requests, stored answers, lists, statuses and catalogs stay consistent."""

from __future__ import annotations

import itertools
import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, precondition, rule, run_state_machine_as_test
from sqlalchemy import Engine, text
from starlette.testclient import TestClient

from app.catalog.filing import ALLOWED_TRANSITIONS, Status
from app.config import Settings
from app.db import make_engine
from app.main import create_app
from artefacts.service import DAY
from tests.conftest import copied
from tests.examples import body

NUMBERS = itertools.count()
LOADS = st.integers(1, 4)
SERVED_S = 30.0


class Steps(RuleBasedStateMachine):
    """Clients of one service on one database, and somebody who publishes newer catalogues there."""

    client: TestClient
    engine: Engine
    most_published = 1
    stored = Bundle("stored")

    def __init__(self) -> None:
        super().__init__()
        self.label = f"steps {next(NUMBERS)}"
        self.bodies: dict[str, bytes] = {}
        self.statuses: dict[str, Status] = {}
        self.asked: dict[tuple[str, int], str] = {}
        self.published = 0

    @rule(target=stored, load=LOADS)
    def ask(self, load: int) -> str:
        """The same question of the same catalogue is the same answer, whatever came between."""
        question = body("recommend-inference-chat-70b")
        question["workload"]["traffic"] |= {"peak_requests_per_s": load, "average_requests_per_s": load / 2}
        answer = self.client.post("/recommend", json={**question, "limit": 1, "label": self.label})
        assert answer.status_code == 200
        assert "headroom-stored" not in answer.headers
        shown = answer.json()
        known = self.asked.setdefault((shown["catalog"]["snapshot"], load), shown["id"])
        assert shown["id"] == known
        assert self.bodies.setdefault(known, answer.content) == answer.content
        self.statuses.setdefault(known, Status.DRAFT)
        return known

    @rule(identity=stored)
    def read(self, identity: str) -> None:
        assert self.client.get(f"/recommendations/{identity}").content == self.bodies[identity]

    @rule(identity=stored)
    def estimate(self, identity: str) -> None:
        """What was recommended, judged by itself, costs the same: catalogues here differ in their version alone."""
        answer = json.loads(self.bodies[identity])
        asked = {"workload": answer["request"]["workload"], "deployment": answer["recommendations"][0]["deployment"]}
        estimated = self.client.post("/estimate", json=asked)
        assert estimated.status_code == 200
        assert estimated.json()["cost"]["usd_per_hour"] == answer["recommendations"][0]["cost"]["usd_per_hour"]

    @rule(identity=stored, status=st.sampled_from(Status), stale=st.booleans())
    def move(self, identity: str, status: Status, stale: bool) -> None:
        """A status moves by the ways there are, for who knows what it is now."""
        path = f"/recommendations/{identity}"
        tag = '"status-999"' if stale else self.client.get(f"{path}/status").headers["etag"]
        moved = self.client.patch(path, json={"status": status, "by": "J. Doe"}, headers={"If-Match": tag})
        if stale:
            assert moved.status_code == 412
        elif status in ALLOWED_TRANSITIONS[self.statuses[identity]]:
            assert moved.status_code == 200
            self.statuses[identity] = status
        else:
            assert moved.status_code == 409

    @rule()
    def list_all(self) -> None:
        found: dict[str, str] = {}
        sought: dict[str, Any] = {"label": self.label, "limit": 2}
        while True:
            page = self.client.get("/recommendations", params=sought).json()
            assert not found.keys() & {item["id"] for item in page["items"]}
            found |= {item["id"]: item["status"] for item in page["items"]}
            if page["next_cursor"] is None:
                break
            sought["cursor"] = page["next_cursor"]
        assert found == self.statuses

    @rule(wrong=st.sampled_from([{"limit": 0}, {"workload": {}}, {"label": " "}, {"objective": "luck"}]))
    def refuse(self, wrong: dict[str, Any]) -> None:
        """A refusal leaves nothing behind: what follows is as it was."""
        asked = {**body("recommend-inference-chat-70b"), "label": self.label, **wrong}
        assert self.client.post("/recommend", json=asked).status_code == 422

    @precondition(lambda self: self.published < self.most_published)
    @rule()
    def publish(self) -> None:
        """A newer catalogue is served soon; what was stored stays."""
        self.published += 1
        digest = f"{next(NUMBERS):064x}"[::-1]
        with self.engine.begin() as connection:
            connection.execute(text("UPDATE catalog_versions SET digest = :digest"), {"digest": digest})
        until = time.monotonic() + SERVED_S
        while self.client.get("/readyz").json()["snapshot"] != digest[:16]:
            assert time.monotonic() < until
            time.sleep(0.02)

    def teardown(self) -> None:
        for identity in self.bodies:
            self.read(identity)
        self.list_all()


def walk(url: str, *, runs: int, steps: int, most_published: int) -> None:
    """Run `runs` random sequences of `steps` steps against a service on a prepared database."""
    app = create_app(Settings(database_url=url, today=DAY, access_log="off", log_level="error", snapshot_check_s=0.1))
    engine = make_engine(url)
    chance = settings(
        max_examples=runs,
        stateful_step_count=steps,
        phases=[Phase.generate],  # a run takes seconds, and a shorter one is not worth minutes
    )
    with TestClient(app, raise_server_exceptions=False) as client:
        given = {"client": client, "engine": engine, "most_published": most_published}
        run_state_machine_as_test(type("Walk", (Steps,), given), settings=chance)
    for each in (engine, app.state.sessions.kw["bind"]):
        each.dispose()


@pytest.mark.slow
def test_steps_in_any_order(sqlite_url: str, tmp_path: Path) -> None:
    walk(copied(sqlite_url, tmp_path / "steps.sqlite3"), runs=4, steps=15, most_published=1)
