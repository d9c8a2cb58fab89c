"""Configurations fetched from a hub: within limits, never from a private address, kept with their date."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx2
import pytest
from sqlalchemy import select, update
from sqlalchemy.orm import Session, sessionmaker

from app.catalog import hub as hubs
from app.catalog.hub import GatedModel, HubUnavailable, MissingModel, ModelHub, is_public
from app.catalog.queries import count
from app.catalog.seed import model_entries, seed
from app.catalog.snapshot import SnapshotStore
from app.catalog.tables import CatalogVersionRow, ModelAliasRow, ModelRow
from app.db import Base, make_engine
from app.errors import UnknownModel, UnreadableConfiguration
from tests.examples import LLAMA_8B, LLAMA_8B_CONFIG

PUBLIC = "93.184.215.14"
Handler = Callable[[httpx2.Request], httpx2.Response]


def hub_of(handler: Handler, *, addresses: list[str] | None = None, url: str = "https://hub.example") -> ModelHub:
    return ModelHub(url, transport=httpx2.MockTransport(handler), resolve=lambda *_: addresses or [PUBLIC])


def gives(config: object, status: int = 200, **headers: str) -> Handler:
    return lambda _: httpx2.Response(status, content=json.dumps(config).encode(), headers=headers)


def test_the_request_goes_to_the_checked_address_under_the_hosts_name() -> None:
    seen: list[httpx2.Request] = []

    def handler(request: httpx2.Request) -> httpx2.Response:
        seen.append(request)
        return httpx2.Response(200, json=LLAMA_8B_CONFIG)

    fetched = hub_of(handler).fetch("acme/llama-x")
    assert fetched.config == LLAMA_8B_CONFIG
    assert str(seen[0].url) == f"https://{PUBLIC}/acme/llama-x/resolve/main/config.json"
    assert seen[0].headers["host"] == "hub.example"
    assert seen[0].extensions["sni_hostname"] == "hub.example"
    assert "authorization" not in seen[0].headers


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.0.0.8",
        "172.16.4.4",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "::1",
        "fd00::1",
        "fe80::1",
        "::ffff:127.0.0.1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "224.0.0.1",
        "240.0.0.1",
        "not-an-address",
    ],
)
def test_private_addresses_are_never_contacted(address: str) -> None:
    def handler(_: httpx2.Request) -> httpx2.Response:
        raise AssertionError("contacted")

    assert not is_public(address)
    with pytest.raises(HubUnavailable, match="not public"):
        hub_of(handler, addresses=[PUBLIC, address]).fetch("acme/m")


def test_a_redirect_is_followed_and_its_target_checked() -> None:
    def moved(to: str) -> Handler:
        def handler(request: httpx2.Request) -> httpx2.Response:
            if "resolve/main" in request.url.path:
                return httpx2.Response(307, headers={"location": to})
            return httpx2.Response(200, json=LLAMA_8B_CONFIG)

        return handler

    assert hub_of(moved("/cache/config.json")).fetch("acme/m").url == "https://hub.example/cache/config.json"
    with pytest.raises(HubUnavailable, match="unencrypted"):
        hub_of(moved("http://hub.example/config.json")).fetch("acme/m")
    with pytest.raises(HubUnavailable, match="not plain http"):
        hub_of(moved("file:///etc/passwd"), url="http://hub.example").fetch("acme/m")
    inside = ModelHub(
        "https://hub.example",
        transport=httpx2.MockTransport(moved("https://metadata.example/config.json")),
        resolve=lambda host, _: [PUBLIC] if host == "hub.example" else ["169.254.169.254"],
    )
    with pytest.raises(HubUnavailable, match="not public"):
        inside.fetch("acme/m")


def test_endless_redirects_end() -> None:
    with pytest.raises(HubUnavailable, match="more than 3 times"):
        hub_of(lambda _: httpx2.Response(302, headers={"location": "/again"})).fetch("acme/m")


@pytest.mark.parametrize(
    ("handler", "error", "says"),
    [
        (gives({}, 404), MissingModel, "Neither the catalogue nor the model hub"),
        (gives({}, 401, **{"x-error-code": "RepoNotFound"}), MissingModel, "Neither"),
        (gives({}, 401, **{"x-error-code": "GatedRepo"}), GatedModel, "accepted its terms"),
        (gives({}, 403), GatedModel, "accepted its terms"),
        (gives({}, 500), HubUnavailable, "answered 500"),
        (gives([1]), HubUnavailable, "not a JSON object"),
        (lambda _: httpx2.Response(200, content=b'{"hidden_size": NaN}'), HubUnavailable, "not a JSON object"),
        (lambda _: httpx2.Response(200, content=b"<html>"), HubUnavailable, "not a JSON object"),
        (lambda _: httpx2.Response(200, content=b"[" * 100_000), HubUnavailable, "not a JSON object"),
        (lambda _: httpx2.Response(200, content=b" " * (hubs.MAX_BYTES + 1)), HubUnavailable, "larger than 2 MiB"),
        (
            lambda _: httpx2.Response(
                200, content=gzip.compress(b" " * 20_000_000), headers={"content-encoding": "gzip"}
            ),
            HubUnavailable,
            "larger than 2 MiB",
        ),
    ],
)
def test_what_the_hub_does_not_give_says_so(handler: Handler, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        hub_of(handler).fetch("acme/m")


@pytest.mark.parametrize(
    "name",
    [
        "acme",
        "acme/m/x",
        "../etc",
        "a/..",
        "acme/m?x=1",
        "acme/%2e%2e",
        "https://x/y",
        "acme/m\n",
        "a" * 90 + "/" + "b" * 90,
    ],
)
def test_only_ids_are_asked_for(name: str) -> None:
    with pytest.raises(MissingModel, match="not an id"):
        hub_of(gives({})).fetch(name)


def test_a_missing_model_is_not_asked_for_again_and_again() -> None:
    asked: list[str] = []

    def handler(request: httpx2.Request) -> httpx2.Response:
        asked.append(request.url.path)
        return httpx2.Response(404)

    hub = hub_of(handler)
    for _ in range(3):
        with pytest.raises(MissingModel):
            hub.fetch("acme/m")
    assert len(asked) == 1


class _Slow(BaseHTTPRequestHandler):
    """Sends a byte now and then, for ever."""

    stop = threading.Event()

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        while not self.stop.wait(0.02):
            self.wfile.write(b" ")

    def log_message(self, *_: object) -> None:
        pass


def test_a_slow_hub_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hubs, "DEADLINE_S", 0.3)
    monkeypatch.setattr(hubs, "is_public", lambda _: True)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Slow)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with pytest.raises(HubUnavailable, match="took longer"):
        ModelHub(f"http://127.0.0.1:{server.server_port}").fetch("acme/m")
    _Slow.stop.set()
    server.shutdown()
    server.server_close()


@pytest.fixture
def sessions(tmp_path: Path) -> Iterator[sessionmaker[Session]]:
    engine = make_engine(f"sqlite:///{tmp_path}/s.sqlite3")
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        seed(session)
    yield sessionmaker(engine)
    engine.dispose()


def test_a_fetched_model_is_kept_with_its_date_and_survives_a_reload(sessions: sessionmaker[Session]) -> None:
    asked: list[str] = []

    def handler(request: httpx2.Request) -> httpx2.Response:
        asked.append(request.url.path)
        return httpx2.Response(200, json=LLAMA_8B_CONFIG)

    for _ in range(2):
        store = SnapshotStore(sessions, check_s=0.0, hub=hub_of(handler))
        assert store.model("acme/Llama-Own").total_params == LLAMA_8B.total_params
    assert len(asked) == 1
    with sessions() as session:
        row = session.scalars(select(ModelRow).where(ModelRow.origin == "hub")).one()
        assert row.id == "acme/Llama-Own"
        assert row.source == "https://hub.example/acme/Llama-Own/resolve/main/config.json"
        assert row.as_of >= "2026-01-01"
        session.execute(update(CatalogVersionRow).values(digest="older"))
        session.commit()
        assert seed(session) is True
        assert count(session, ModelRow) == len(model_entries()) + 1
        assert session.scalars(select(ModelAliasRow.model).where(ModelAliasRow.alias == "acme-llama-own")).all() == [
            "acme/Llama-Own"
        ]


def test_a_model_that_cannot_be_counted_is_not_kept(sessions: sessionmaker[Session]) -> None:
    store = SnapshotStore(sessions, check_s=0.0, hub=hub_of(gives({"model_type": "quantum"})))
    with pytest.raises(UnreadableConfiguration, match="quantum"):
        store.model("acme/strange")
    with sessions() as session:
        assert count(session, ModelRow) == len(model_entries())


def test_the_catalogue_is_asked_before_the_hub_and_similar_names_after(sessions: sessionmaker[Session]) -> None:
    def handler(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(404)

    store = SnapshotStore(sessions, check_s=0.0, hub=hub_of(handler))
    assert store.model("meta-llama/Llama-3.1-8B").total_params == LLAMA_8B.total_params
    repackaged = store.model("somebody/Llama-3.1-8B-Instruct-AWQ")
    assert repackaged.total_params == LLAMA_8B.total_params
    assert any("was read as meta-llama/Llama-3.1-8B-Instruct" in a for a in repackaged.assumed)
    with pytest.raises(UnknownModel, match="nor the model hub") as caught:
        store.model("acme/nothing-like-it")
    assert "nearest" in caught.value.facts


def test_without_a_hub_nothing_is_asked(sessions: sessionmaker[Session]) -> None:
    with pytest.raises(UnknownModel, match="in the catalogue"):
        SnapshotStore(sessions, check_s=0.0).model("acme/nothing-like-it")
