"""Keys: who may call what, at which rate, and how fast a revocation counts."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from fastapi.routing import APIRoute
from sqlalchemy import Engine
from starlette.testclient import TestClient
from structlog.testing import capture_logs

from app.api.access import OPEN_SCOPES, SCOPE_OF, UNITS, tenant_of_identity
from app.catalog.filing import Filing
from app.catalog.keys import FRESH_S, Caller, KeyStore, Scope, create_key, generate_key, key_identity, revoke_key
from app.catalog.recommendations import AnswerStore
from app.catalog.snapshot import LoadedCatalog
from app.catalog.tokens import FLOOR_S, STALE_S, TokenIssuer, TokenVerifier
from app.catalog.tokens import FRESH_S as KEYS_FRESH_S
from app.config import Settings
from app.db import PUBLIC, acting_for, make_engine
from app.errors import InvalidKey, Unavailable, redact_secrets
from app.main import ROUTERS, create_app
from artefacts.service import DAY
from tests.conftest import copied

NOW = datetime.now(UTC)
REC = "rec_" + 28 * "0"
OF_ACME = "rec_" + 28 * "1"
# A call of each operation that reaches the check of its key. Those that pass it end in 404, 422 or 428, at little cost.
CALLS: dict[str, tuple[str, str]] = {
    "recommend": ("POST", "/recommend"),
    "estimate": ("POST", "/estimate"),
    "compare": ("POST", "/compare"),
    "diagnose": ("POST", "/diagnose"),
    "inspectModel": ("POST", "/catalog/models/inspect"),
    "runnableModels": ("POST", "/catalog/models/runnable"),
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


ISSUER = TokenIssuer(
    issuer="https://login.example",
    audience="headroom",
    jwks_url="https://login.example/keys",
    tenant_claim="org",
    scopes_claim="realm.roles",
)


class IdentityProvider:
    """An issuer of tokens, with one key that it publishes."""

    def __init__(self) -> None:
        self.private, self.fetches, self.answers = ec.generate_private_key(ec.SECP256R1()), 0, True
        public = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(self.private.public_key()))
        self.published = [{**public, "kid": "k1", "use": "sig"}]

    def answer(self, _request: httpx2.Request) -> httpx2.Response:
        self.fetches += 1
        return httpx2.Response(200 if self.answers else 503, json={"keys": self.published})

    def verifier(self, issuer: TokenIssuer = ISSUER) -> TokenVerifier:
        return TokenVerifier([issuer], transport=httpx2.MockTransport(self.answer))

    def claims(self, *scopes: str, **changed: Any) -> dict[str, Any]:
        lasts = {"iat": time.time(), "exp": time.time() + 300}
        usual = {"iss": "https://login.example", "aud": "headroom", "sub": "ann", "org": "acme", **lasts}
        return {**usual, "realm": {"roles": [*scopes, "unrelated"]}, **changed}

    def token(self, *scopes: str, key: Any = None, kid: str = "k1", **changed: Any) -> str:
        return jwt.encode(self.claims(*scopes, **changed), key or self.private, "ES256", headers={"kid": kid})

    def forged(self, header: dict[str, str], secret: bytes | None) -> str:
        """A token of an administrator with a header of the forger's choice, signed with HMAC or not at all."""
        parts = [json.dumps(each).encode() for each in ({**header, "kid": "k1"}, self.claims("admin"))]
        body = b".".join(base64.urlsafe_b64encode(part).rstrip(b"=") for part in parts)
        signature = b"" if secret is None else hmac.new(secret, body, hashlib.sha256).digest()
        return (body + b"." + base64.urlsafe_b64encode(signature).rstrip(b"=")).decode()

    def wrong_tokens(self) -> dict[str, str]:
        """Tokens of an administrator that must not count, by their fault."""
        pem = self.private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        return {
            "alg none": self.forged({"alg": "none"}, None),
            "alg None": self.forged({"alg": "None"}, None),
            "public key as HMAC secret": self.forged({"alg": "HS256"}, pem),
            "JWK as HMAC secret": self.forged({"alg": "HS256"}, json.dumps(self.published[0]).encode()),
            "HMAC called ES256": self.forged({"alg": "ES256"}, pem),
            "own key": self.token("admin", key=ec.generate_private_key(ec.SECP256R1())),
            "unpublished key": self.token("admin", kid="k2"),
            "expired": self.token("admin", exp=time.time() - 120),
            "not yet valid": self.token("admin", nbf=time.time() + 120),
            "no end": self.token("admin", exp=None),
            "other audience": self.token("admin", aud="payroll"),
            "other issuer": self.token("admin", iss="https://evil.example"),
            "no tenant": self.token("admin", org=None),
            "no subject": self.token("admin", sub=None),
            "no token": "eyJhbGciOiJFUzI1NiJ9.e30.",
        }


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
        self.provider = IdentityProvider()
        closed.app.state.tokens = self.provider.verifier()  # type: ignore[attr-defined]
        self.wrong = {
            "revoked": self.revoked,
            "expired key": self.expired,
            "unknown": generate_key()[0],
            "damaged": self.by_scope[Scope.ADMIN][:-1] + "g",
            "cut": "hr_",
        }
        parts: dict[str, Any] = {"snapshot": "s", "request": b"{}", "body": b"{}", "supply": b"{}"}
        with acting_for("acme"):
            filing = Filing(None, None, None, "m", None, None)
            assert AnswerStore(engine).store_answer(OF_ACME, **parts, filing=filing, tenant="acme").stored


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


def call(client: TestClient, operation: str, key: str | None, identity: str = REC) -> tuple[int, str]:
    """Status and problem of a call about an answer."""
    method, path = CALLS[operation]
    path = path.replace(REC, identity)
    headers = {"If-Match": "*", **({} if key is None else {"Authorization": f"Bearer {key}"})}
    body: dict[str, Any] = {"json": {}} if method == "POST" and "reprice" not in path else {}
    if method == "PATCH":
        body = {"json": {"status": "approved", "by": "ann"}}
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
    """No key, a key of each scope, wrong keys and the key of another tenant, on an open and on a closed service; and
    tokens of each scope and wrong tokens on the one that accepts them.
    """
    monkeypatch.setattr("app.api.routes.catalog.accuracy_body", lambda _: b"{}")  # takes seconds
    needed = SCOPE_OF[operation]
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
        for wrong, key in keys.wrong.items():
            assert call(client, operation, key) == (401, "invalid-key"), wrong
        if REC in CALLS[operation][1]:
            assert call(client, operation, keys.others, OF_ACME)[0] == 404
    for scope in Scope:
        status, problem = call(keys.closed, operation, keys.provider.token(scope))
        assert status in (200, 404, 422, 428) if scope in (needed, Scope.ADMIN) else problem == "missing-scope", scope
    for wrong, token in keys.provider.wrong_tokens().items():
        assert call(keys.closed, operation, token) == (401, "invalid-key"), wrong


def test_the_answer_of_the_table_exists_for_its_tenant(keys: Keys) -> None:
    for key in (keys.by_scope[Scope.READ], keys.provider.token("read")):
        assert call(keys.closed, "getRecommendation", key, OF_ACME) == (200, "")


def test_claims_become_tenant_and_scopes_by_the_settings() -> None:
    provider = IdentityProvider()
    roles: dict[str, Any] = {"tenants": {"acme": "sales"}, "scopes": {"buyer": ("read", "procure")}}
    mapped = provider.verifier(TokenIssuer(**{**ISSUER.model_dump(), **roles}))
    assert mapped.read(provider.token("buyer", "admin")) == Caller(
        "sales", frozenset((Scope.READ, Scope.PROCURE)), "jwt:ann"
    )
    with pytest.raises(InvalidKey, match="names no tenant"):
        mapped.read(provider.token("buyer", org="other"))
    whole = provider.verifier(ISSUER.model_copy(update={"tenant_claim": None, "scopes_claim": "scope"}))
    token = provider.token(scope="read size openid")
    assert whole.read(token) == Caller("public", frozenset((Scope.READ, Scope.SIZE)), "jwt:ann")
    assert token.split(".")[2] not in redact_secrets(f"Bearer {token}")


def test_keys_of_an_issuer_are_read_rarely_and_outlive_its_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    now, provider = [1e6], IdentityProvider()
    monkeypatch.setattr("app.catalog.tokens.time.monotonic", lambda: now[0])
    verifier = provider.verifier()
    for _ in range(20):
        verifier.read(provider.token())
        with pytest.raises(InvalidKey, match="not published"):
            verifier.read(provider.token(kid="k2"))
    assert provider.fetches == 1
    now[0] += FLOOR_S
    provider.published.append({**provider.published[0], "kid": "k2"})
    assert verifier.read(provider.token(kid="k2")).tenant == "acme"
    provider.answers = False
    now[0] += KEYS_FRESH_S
    assert verifier.read(provider.token()).tenant == "acme"
    assert provider.fetches == 3
    now[0] += STALE_S
    with pytest.raises(Unavailable):
        verifier.read(provider.token())


def test_the_first_tokens_wait_for_the_keys_of_their_issuer() -> None:
    provider = IdentityProvider()

    def answer_slowly(request: httpx2.Request) -> httpx2.Response:
        time.sleep(0.1)
        return provider.answer(request)

    verifier = TokenVerifier([ISSUER], transport=httpx2.MockTransport(answer_slowly))
    with ThreadPoolExecutor(4) as pool:
        callers = list(pool.map(verifier.read, [provider.token() for _ in range(4)]))
    assert {caller.tenant for caller in callers} == {"acme"} and provider.fetches == 1


def test_only_public_keys_for_signatures_are_accepted_from_an_issuer() -> None:
    provider = IdentityProvider()
    secret = {"kty": "oct", "k": "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3JldA", "kid": "k1", "alg": "HS256"}
    provider.published = [secret, {**provider.published[0], "kid": "e", "use": "enc"}, {"kty": "RSA", "kid": "bad"}]
    with pytest.raises(Unavailable):
        provider.verifier().read(provider.forged({"alg": "HS256"}, b"secret-secret-secret-secret-secret"))
    with pytest.raises(ValueError, match="https"):
        Settings(token_issuers=(ISSUER.model_copy(update={"jwks_url": "http://login.example/keys"}),))


def test_health_checks_and_documents_need_no_key(keys: Keys) -> None:
    for path in ("/livez", "/readyz", "/metrics", "/docs", "/", "/openapi.json", "/problems/key-required"):
        assert keys.closed.get(path).status_code == 200, path


def test_the_header_of_a_proxy_is_not_a_key(keys: Keys) -> None:
    for header in ("Basic dXNlcjpwYXNz", "Bearer eyJhbGciOiJub25lIn0.e30."):
        headers = {"Authorization": header}
        assert keys.open.get("/catalog/models?limit=1", headers=headers).status_code == 200
        refused = keys.closed.get("/catalog/models?limit=1", headers=headers)
        assert (refused.status_code, refused.headers["www-authenticate"]) == (401, 'Bearer realm="headroom"')


@pytest.mark.parametrize(
    ("peer", "named", "status", "tenant"),
    [
        ("10.1.2.3", ["acme"], 200, "acme"),
        ("::ffff:10.1.2.3", ["bob"], 404, "bob"),
        ("10.1.2.3", [], 404, PUBLIC),
        ("10.1.2.3", ["public"], 404, tenant_of_identity("public")),
        ("10.1.2.3", ["Ann@acme.example"], 404, tenant_of_identity("Ann@acme.example")),
        ("10.1.2.3", ["acme", "bob"], 401, None),
        ("10.1.2.3", [" "], 401, None),
        ("192.0.2.7", ["acme"], 404, PUBLIC),
    ],
)
def test_a_trusted_proxy_names_the_caller_who_sees_what_is_its_own(
    keys: Keys, peer: str, named: list[str], status: int, tenant: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = keys.open.app
    settings = Settings(proxies=("10.0.0.0/8",), identity_header="X-Forwarded-User", access_log="off")
    monkeypatch.setitem(app.state._state, "settings", settings)  # type: ignore[attr-defined]
    stands_for: list[str] = []
    monkeypatch.setattr("app.api.access.act_for", stands_for.append)
    caller = TestClient(app, client=(peer, 1), raise_server_exceptions=False)
    headers = [("X-Forwarded-User", each) for each in named]
    answer = caller.get(f"/recommendations/{OF_ACME}", headers=headers)
    assert answer.status_code == status
    assert stands_for == ([] if tenant is None else [tenant])
    assert "X-Forwarded-User" in answer.headers["vary"]
    listed = caller.get("/recommendations?limit=1", headers=headers)
    assert listed.status_code == 401 or (OF_ACME in {each["id"] for each in listed.json()["items"]}) == (status == 200)
    deletion = caller.delete(f"/recommendations/{REC}", headers=[*headers, ("If-Match", "*")])
    assert deletion.status_code == (401 if tenant in (None, PUBLIC) else 404)  # also a service of this machine alone
    tool = {"name": "market", "arguments": {"by": "accelerator"}}
    caller.post(
        "/mcp",
        json={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": tool},
        headers=[*headers, ("Host", "localhost"), ("Accept", "application/json, text/event-stream")],
    )
    assert set(stands_for) == ({tenant} if tenant else set())
    assert len(stands_for) in (0, 4 if tenant != PUBLIC else 3)  # a deletion without a tenant ends before


CHANGES = sorted(operation for operation in PROTECTED if SCOPE_OF[operation] not in OPEN_SCOPES)


@pytest.mark.parametrize(
    ("host", "may_change"), [("127.0.0.1", True), ("::1", True), ("localhost.a", False), ("", False)]
)
def test_without_keys_only_a_service_of_this_machine_accepts_changes(
    client: TestClient, host: str, may_change: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = client.app.state._state  # type: ignore[attr-defined]
    monkeypatch.setitem(state, "settings", state["settings"].model_copy(update={"host": host}))
    assert len(CHANGES) == 10
    for operation in CHANGES:
        status, problem = call(client, operation, None)
        assert status in (404, 422, 428) if may_change else problem == "key-required", operation


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
