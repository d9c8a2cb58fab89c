"""Keys: who may call what, at which rate, and how fast a revocation counts."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from fastapi.routing import APIRoute
from sqlalchemy import Engine
from starlette.testclient import TestClient
from structlog.testing import capture_logs

from app.api.access import OPEN_SCOPES, SCOPE_OF, UNITS
from app.catalog.keys import FRESH_S, KeyStore, Scope, create_key, generate_key, key_identity, revoke_key
from app.catalog.snapshot import LoadedCatalog
from app.config import Settings
from app.db import make_engine
from app.errors import InvalidKey, redact_secrets
from app.main import ROUTERS, create_app
from artefacts.service import DAY
from tests.conftest import copied

NOW = datetime.now(UTC)
REC = "rec_" + 28 * "0"
# A call of each operation that reaches the check of its key. Those that pass it end in 404, 422 or 428, at little cost.
CALLS: dict[str, tuple[str, str]] = {
    "recommend": ("POST", "/recommend"),
    "estimate": ("POST", "/estimate"),
    "compare": ("POST", "/compare"),
    "diagnose": ("POST", "/diagnose"),
    "inspectModel": ("POST", "/catalog/models/inspect"),
    "repriceRecommendation": ("POST", f"/recommendations/{REC}/reprice"),
    "getSensitivity": ("GET", f"/recommendations/{REC}/sensitivity"),
    "getStanding": ("GET", f"/recommendations/{REC}/standing"),
    "uploadMeasurement": ("POST", "/measurements"),
    "getMeasurement": ("GET", f"/measurements/meas_{28 * '0'}"),
    "deleteMeasurement": ("DELETE", f"/measurements/meas_{28 * '0'}"),
    "listRecommendations": ("GET", "/recommendations?limit=1"),
    "getRecommendation": ("GET", f"/recommendations/{REC}"),
    "getRecommendationStatus": ("GET", f"/recommendations/{REC}/status"),
    "getDeployment": ("GET", f"/recommendations/{REC}/deployment"),
    "getBillOfMaterials": ("GET", f"/recommendations/{REC}/bill-of-materials"),
    "listMeasurements": ("GET", "/measurements?limit=1"),
    "market": ("GET", "/catalog/market?by=accelerator"),
    "accuracy": ("GET", "/accuracy"),
    "support": ("GET", "/catalog/support?accelerator=none&engine=vllm"),
    **{
        f"{verb}{name}": (method, f"/catalog/{path}")
        for name, post, own in (
            ("Inventory", "inventory", "inventory"),
            ("OwnOffers", "offers", "offers/own"),
            ("OwnSystems", "systems", "systems/own"),
        )
        for verb, method, path in (("list", "GET", own), ("store", "POST", post), ("delete", "DELETE", f"{own}?name=x"))
    },
    **{
        operation: ("GET", f"/catalog/{operation.removeprefix('list').lower()}?limit=1")
        for operation in SCOPE_OF
        if operation.startswith("list")
        and operation not in ("listRecommendations", "listInventory", "listMeasurements")
        if not operation.startswith("listOwn")
    },
    "changeRecommendationStatus": ("PATCH", f"/recommendations/{REC}"),
    "deleteRecommendation": ("DELETE", f"/recommendations/{REC}"),
}
PROTECTED = sorted(operation for operation, scope in SCOPE_OF.items() if scope is not None)


class Keys:
    """Two services on one database, and a key of each kind."""

    def __init__(self, engine: Engine, open_service: TestClient, closed: TestClient) -> None:
        self.engine, self.open, self.closed = engine, open_service, closed
        with engine.begin() as connection:
            self.by_scope = {
                scope: create_key(connection, tenant="acme", name=scope, scopes={scope}, now=NOW)[0] for scope in Scope
            }
            every = frozenset(Scope) - {Scope.ADMIN}
            past = NOW - timedelta(days=1)
            self.revoked, identity = create_key(connection, tenant="acme", name="old", scopes=every, now=past)
            revoke_key(connection, identity, now=NOW)
            self.expired, _ = create_key(
                connection, tenant="acme", name="ended", scopes=every, now=past, expires_at=NOW - timedelta(seconds=1)
            )
            self.others, _ = create_key(connection, tenant="other", name="other", scopes=every, now=NOW)


@pytest.fixture(scope="module")
def keys(loaded: LoadedCatalog, sqlite_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keys]:
    url = copied(sqlite_url, tmp_path_factory.mktemp("keys") / "k.sqlite3")
    engine = make_engine(url)
    settings = Settings(database_url=url, today=DAY, access_log="off")
    apps = [create_app(settings.model_copy(update={"require_key": closed}), loaded) for closed in (False, True)]
    with (
        TestClient(apps[0], raise_server_exceptions=False) as one,
        TestClient(apps[1], raise_server_exceptions=False) as other,
    ):
        yield Keys(engine, one, other)
    for app in apps:
        app.state.sessions.kw["bind"].dispose()
    engine.dispose()


def call(client: TestClient, operation: str, key: str | None) -> tuple[int, str]:
    """Status and problem of a call."""
    method, path = CALLS[operation]
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    body: dict[str, Any] = {"json": {}} if method in ("POST", "PATCH") and "reprice" not in path else {}
    answer = client.request(method, path, headers=headers, **body)
    problem = answer.json().get("type", "") if answer.status_code >= 400 else ""
    return answer.status_code, problem.removeprefix("/problems/")


def test_every_operation_is_decided_about() -> None:
    operations = {r.operation_id for router in ROUTERS for r in router.routes if isinstance(r, APIRoute)} - {None}
    assert operations == set(SCOPE_OF)
    assert set(CALLS) == set(PROTECTED)
    sized = {operation for operation in SCOPE_OF if SCOPE_OF[operation] is Scope.SIZE}
    assert sized | {"uploadMeasurement"} == set(UNITS)  # an upload is compared with an estimate


@pytest.mark.parametrize("operation", PROTECTED)
def test_who_may_call_what(keys: Keys, operation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No key, each scope, a revoked, an expired, an unknown and a damaged key; on an open and on a closed service."""
    monkeypatch.setattr("app.api.routes.catalog.accuracy_body", lambda _: b"{}")  # takes seconds
    needed = SCOPE_OF[operation]
    unknown, _ = generate_key()
    for closed, client in ((False, keys.open), (True, keys.closed)):
        status, problem = call(client, operation, None)
        if closed or needed not in OPEN_SCOPES:
            assert (status, problem) == (401, "key-required"), closed
        else:
            assert status not in (401, 403)
        for scope, key in keys.by_scope.items():
            status, problem = call(client, operation, key)
            if scope in (needed, Scope.ADMIN):
                assert status in (200, 404, 422, 428), (scope, problem)
            else:
                assert (status, problem) == (403, "missing-scope"), scope
        for key in (keys.revoked, keys.expired, unknown, keys.by_scope[Scope.ADMIN][:-1] + "g", "hr_"):
            assert call(client, operation, key) == (401, "invalid-key")


def test_health_checks_and_documents_need_no_key(keys: Keys) -> None:
    for path in ("/livez", "/readyz", "/metrics", "/docs", "/", "/openapi.json", "/problems/key-required"):
        assert keys.closed.get(path).status_code == 200, path


def test_the_header_of_a_proxy_is_not_a_key(keys: Keys) -> None:
    for header in ("Basic dXNlcjpwYXNz", "Bearer eyJhbGciOiJub25lIn0.e30."):
        headers = {"Authorization": header}
        assert keys.open.get("/catalog/models?limit=1", headers=headers).status_code == 200
        refused = keys.closed.get("/catalog/models?limit=1", headers=headers)
        assert (refused.status_code, refused.headers["www-authenticate"]) == (401, 'Bearer realm="headroom"')


def test_until_the_first_key_exists_anyone_may_approve(client: TestClient) -> None:
    assert call(client, "changeRecommendationStatus", None)[0] in (404, 422)
    assert call(client, "deleteRecommendation", None)[0] == 404


def test_a_key_is_stored_as_a_digest_and_recognized_by_its_checksum(keys: Keys) -> None:
    key = keys.by_scope[Scope.READ]
    identity = key_identity(key)
    assert identity == key[3:11]
    assert key_identity(key[:-1] + ("0" if key[-1] != "0" else "1")) is None
    with keys.engine.connect() as connection:
        rows = connection.exec_driver_sql("SELECT * FROM api_keys").all()
    assert identity in {row[0] for row in rows}
    secret = key.split("_")[2]
    assert secret not in repr(rows)
    assert key not in redact_secrets(f"key {key} sent") and secret not in redact_secrets(f"key={key}")


def test_no_secret_reaches_the_log(keys: Keys, monkeypatch: pytest.MonkeyPatch) -> None:
    headers = {"Authorization": f"Bearer {keys.by_scope[Scope.READ]}"}
    with capture_logs() as lines:
        assert keys.closed.get("/catalog/models?limit=1", headers=headers).status_code == 200
        assert call(keys.closed, "listModels", f"{keys.by_scope[Scope.READ]}x")[0] == 401

        def fail(key: str, now: datetime) -> None:
            raise ValueError(f"{key} at {now}")

        monkeypatch.setattr(keys.closed.app.state.keys, "find_cached", fail)  # type: ignore[attr-defined]
        assert keys.closed.get("/catalog/models?limit=1", headers=headers).status_code == 500
    assert "unexpected_error" in {line["event"] for line in lines}
    assert keys.by_scope[Scope.READ].split("_")[2] not in repr(lines)


def test_a_key_pays_for_each_call_and_more_for_a_computed_answer(keys: Keys) -> None:
    limit = UNITS["inspectModel"] + 3
    with keys.engine.begin() as connection:
        key, _ = create_key(connection, tenant="acme", name="few", scopes=set(Scope), now=NOW, units_per_minute=limit)
    headers, client = {"Authorization": f"Bearer {key}"}, keys.open
    first = client.get("/catalog/models?limit=1", headers=headers)
    assert first.headers["ratelimit-policy"] == f'"key";q={limit};w=60'
    assert first.headers["ratelimit"].startswith(f'"key";r={limit - 1};')
    computed = client.post("/catalog/models/inspect", json={"model": "llama-3.1-8b"}, headers=headers)
    assert computed.headers["ratelimit"].startswith('"key";r=1;')
    assert client.get("/catalog/models?limit=1", headers=headers).status_code == 200
    refused = client.get("/catalog/models?limit=1", headers=headers)
    assert (refused.status_code, refused.json()["type"]) == (429, "/problems/rate-limited")
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    assert "ratelimit" not in client.get("/catalog/models?limit=1").headers  # others are not limited


def test_a_revocation_counts_within_two_seconds_and_an_outage_does_not_lock_out(keys: Keys) -> None:
    with keys.engine.begin() as connection:
        key, identity = create_key(connection, tenant="acme", name="short", scopes={Scope.READ}, now=NOW)
    store = KeyStore(keys.engine)
    assert store.find_cached(key, now=NOW) is None
    assert store.read(key, now=NOW).id == identity
    with keys.engine.begin() as connection:
        revoke_key(connection, identity, now=NOW)
    cached = store.find_cached(key, now=NOW)
    assert cached is not None and cached.id == identity
    record, read_at = store._read[identity]
    store._read[identity] = record, read_at - FRESH_S
    assert store.find_cached(key, now=NOW) is None
    with pytest.raises(InvalidKey, match="revoked"):
        store.read(key, now=NOW)
    with pytest.raises(InvalidKey, match="revoked"):
        store.find_cached(key, now=NOW)


@pytest.mark.slow
def test_a_thousand_revocations_under_load_are_all_refused(keys: Keys) -> None:
    """Readers use the keys all along; after its revocation and the two seconds of the cache, none is accepted."""
    with keys.engine.begin() as connection:
        made = [create_key(connection, tenant="acme", name=str(i), scopes={Scope.READ}, now=NOW) for i in range(1000)]
    store, revoked_at, wrong, done = KeyStore(keys.engine), dict[str, float](), list[str](), threading.Event()

    def use() -> None:
        while not done.is_set():
            for key, identity in made:
                before = revoked_at.get(identity)
                try:
                    if store.find_cached(key, now=NOW) is None:
                        store.read(key, now=NOW)
                except InvalidKey:
                    continue
                if before is not None and time.monotonic() - before > FRESH_S + 1:
                    wrong.append(identity)

    readers = [threading.Thread(target=use) for _ in range(4)]
    for reader in readers:
        reader.start()
    for _, identity in made:
        with keys.engine.begin() as connection:
            assert revoke_key(connection, identity, now=NOW)
        revoked_at[identity] = time.monotonic()
    time.sleep(FRESH_S + 0.5)
    done.set()
    for reader in readers:
        reader.join()
    assert wrong == []
    for key, _ in made:
        with pytest.raises(InvalidKey):
            store.read(key, now=NOW)
