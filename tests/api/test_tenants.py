"""Tenants: what belongs to one is invisible to the others, in the API and, on PostgreSQL, in the database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import Engine, event, text
from sqlalchemy.exc import DBAPIError
from starlette.testclient import TestClient

from app.catalog.filing import Filing, Visibility
from app.catalog.keys import Scope, create_key
from app.catalog.outbox import Outbox
from app.catalog.recommendations import AnswerStore
from app.catalog.snapshot import LoadedCatalog
from app.db import EVERY_TENANT, acting_for, make_engine
from tests.conftest import copied, serving

NOW = datetime.now(UTC)
FILING = Filing(None, None, None, "m", None, None)
ASKED: dict[str, Any] = {
    "workload": {"phase": "inference", "model": "llama-3.1-8b", "traffic": {"peak_requests_per_s": 1}},
    "constraints": {"accelerators": ["nvidia-l4"]},
    "include": [],
    "limit": 1,
}


class Service:
    """A service, and a key of each of two tenants."""

    def __init__(self, client: TestClient, engine: Engine) -> None:
        self.client, self.engine = client, engine
        with engine.begin() as connection:
            self.keys = {
                tenant: create_key(connection, tenant=tenant, name=tenant, scopes={Scope.ADMIN}, now=NOW)[0]
                for tenant in ("acme", "other")
            }

    def call(self, method: str, path: str, tenant: str | None = None, **sent: Any) -> Any:
        headers = {} if tenant is None else {"Authorization": f"Bearer {self.keys[tenant]}"}
        return self.client.request(method, path, headers={**headers, **sent.pop("headers", {})}, **sent)


@pytest.fixture(scope="module")
def service(loaded: LoadedCatalog, sqlite_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    url = copied(sqlite_url, tmp_path_factory.mktemp("tenants") / "t.sqlite3")
    engine = make_engine(url)
    with serving(url, loaded) as made:
        yield Service(made, engine)
    engine.dispose()


def test_an_answer_belongs_to_the_tenant_that_asked(service: Service) -> None:
    """The same question has another id for each tenant, and the same figures."""
    answers = {tenant: service.call("POST", "/recommend", tenant, json=ASKED).json() for tenant in ("acme", "other")}
    answers["public"] = service.call("POST", "/recommend", json=ASKED).json()
    ids = {tenant: answer.pop("id") for tenant, answer in answers.items()}
    assert len(set(ids.values())) == 3
    assert answers["acme"] == answers["other"] == answers["public"]
    for owner, identity in ids.items():
        for reader in ("acme", "other", None):
            mine = owner == (reader or "public")
            path = f"/recommendations/{identity}"
            for below in ("", "/status", "/bill-of-materials", "/deployment"):
                answer = service.call("GET", path + below, reader)
                assert answer.status_code == (200 if mine else 404), (owner, reader, below)
                assert "Authorization" in answer.headers["vary"]  # so that no cache mixes them up
            listed = [item["id"] for item in service.call("GET", "/recommendations", reader).json()["items"]]
            assert (identity in listed) is mine
    again = service.call("POST", "/recommend", "acme", json=ASKED).json()
    assert again["id"] == ids["acme"]


def test_only_its_tenant_changes_an_answer(service: Service) -> None:
    identity = service.call("POST", "/recommend", "acme", json={**ASKED, "label": "mine"}).json()["id"]
    theirs = service.call("POST", "/recommend", "other", json=ASKED).json()["id"]
    path, change = f"/recommendations/{identity}", {"status": "approved", "by": "someone"}
    sent: dict[str, Any] = {"json": change, "headers": {"If-Match": "*"}}
    assert service.call("PATCH", path, "other", **sent).status_code == 404
    assert service.call("DELETE", path, "other", headers={"If-Match": "*"}).status_code == 404
    assert service.call("PATCH", path, **sent).status_code == 401
    foreign = {"status": "superseded", "by": "someone", "superseded_by": theirs}
    assert service.call("PATCH", path, "acme", json=foreign, headers={"If-Match": "*"}).status_code == 404
    assert service.call("PATCH", path, "acme", **sent).status_code == 200


def test_webhooks_and_buyers_see_the_answers_of_their_tenant(service: Service) -> None:
    outbox = Outbox({"ours": ("kind",), "theirs": ("kind",)}, {"theirs": "other"})
    with service.engine.begin() as connection:
        outbox.record_event(connection, "kind", {}, now=NOW, tenant="other")
        outbox.record_event(connection, "kind", {}, now=NOW)
        rows = connection.execute(text("SELECT endpoint, tenant FROM deliveries ORDER BY id")).all()
    assert rows == [("theirs", "other"), ("ours", "public")]
    everything = str(Visibility(everything=True, tenant="acme").condition())
    assert "filings.tenant" in everything
    assert "filings.tenant" in str(Visibility(ids=("a",), tenant="acme").condition())


@pytest.fixture(scope="module")
def limited(prepared_postgres: Callable[[str], str]) -> Iterator[tuple[Engine, Engine]]:
    """Engines of a role without privileges beyond the tables, as a service has, and of the owner, of a database of
    their own.
    """
    postgres_url = prepared_postgres("tenants_test")
    owner = make_engine(postgres_url)
    role = "headroom_service"
    with owner.begin() as connection:
        connection.execute(text(f"DROP ROLE IF EXISTS {role}"))
        connection.execute(text(f"CREATE ROLE {role} NOSUPERUSER"))
        connection.execute(text(f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {role}"))
        connection.execute(text(f"GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO {role}"))
    service = make_engine(postgres_url)

    @event.listens_for(service, "connect")
    def act_as_role(connection: Any, _record: object) -> None:
        connection.execute(f"SET ROLE {role}")
        connection.commit()

    yield service, owner
    service.dispose()
    with owner.begin() as connection:
        connection.execute(text(f"DROP OWNED BY {role}"))
        connection.execute(text(f"DROP ROLE {role}"))
    owner.dispose()


def test_postgresql_hides_the_rows_of_others_from_a_query_without_a_condition(limited: tuple[Engine, Engine]) -> None:
    service, _ = limited
    store = AnswerStore(service)
    parts: dict[str, Any] = {"snapshot": "s", "request": b"{}", "body": b"{}", "supply": b"{}"}
    ids = {tenant: f"rec_{i:028x}" for i, tenant in enumerate(("public", "acme", "other"))}
    for tenant, identity in ids.items():
        with acting_for(tenant):
            assert store.store_answer(identity, **parts, filing=FILING, tenant=tenant).stored
    tables = ("recommendations", "filings")
    for tenant, identity in ids.items():
        with acting_for(tenant), service.begin() as connection:
            for table, column in zip(tables, ("id", "recommendation"), strict=True):
                rows = connection.execute(text(f"SELECT {column} FROM {table} WHERE {column} LIKE 'rec_00000%'"))
                assert rows.scalars().all() == [identity], (tenant, table)
            changed = connection.execute(text("UPDATE filings SET label = 'seen'"))
            assert changed.rowcount == 1
    with acting_for("acme"), pytest.raises(DBAPIError, match="row-level security"), service.begin() as connection:
        connection.execute(text("UPDATE filings SET tenant = 'other'"))
    with service.begin() as connection:  # a transaction that says nothing sees what callers without a key see
        assert connection.execute(text("SELECT count(*) FROM filings WHERE label = 'seen'")).scalar_one() == 1
    with acting_for(EVERY_TENANT), service.begin() as connection:
        assert connection.execute(text("SELECT count(*) FROM filings WHERE label = 'seen'")).scalar_one() == 3
        connection.execute(text("DELETE FROM filings WHERE label = 'seen'"))
        connection.execute(text("DELETE FROM recommendations WHERE snapshot = 's'"))


def test_the_owner_of_the_tables_is_limited_too(limited: tuple[Engine, Engine]) -> None:
    _, owner = limited
    query = "SELECT relname FROM pg_class WHERE relrowsecurity AND relforcerowsecurity ORDER BY relname"
    with owner.connect() as connection:
        assert connection.execute(text(query)).scalars().all() == [
            "audit_log",
            "deliveries",
            "filings",
            "idempotency_keys",
            "own_measurements",
            "private_records",
            "recommendations",
            "status_changes",
        ]
