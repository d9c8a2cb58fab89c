"""Addresses of the open internet, by a list that no version of Python changes. Configurations fetched from a hub:
within limits, never from a private address, kept with their date.
"""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Callable, Iterator
from ipaddress import ip_network
from pathlib import Path

import httpx2
import pytest
from sqlalchemy import select, update
from sqlalchemy.orm import Session, sessionmaker

from app.api.admission import Clock
from app.catalog import hub as hubs
from app.catalog.hub import (
    SPECIAL_PURPOSE_NETWORKS,
    GatedModel,
    HubUnavailable,
    MissingModel,
    ModelHub,
    is_public,
    is_within,
)
from app.catalog.queries import count_rows
from app.catalog.seed import model_entries, seed_catalog
from app.catalog.snapshot import CatalogStore
from app.catalog.tables import CatalogVersionRow, ModelAliasRow, ModelRow
from app.db import make_engine
from app.errors import UnknownModel, UnreadableConfiguration
from app.work import AwaitExternal, report_stages_to
from tests.conftest import copied
from tests.examples import LLAMA_8B, LLAMA_8B_CONFIG


@pytest.mark.parametrize(
    "address",
    [
        *(str(network[0]) for network in SPECIAL_PURPOSE_NETWORKS),
        *(str(network[-1]) for network in SPECIAL_PURPOSE_NETWORKS),
        "168.63.129.16",
        "169.254.169.254",
        "0.0.0.0",
        "255.255.255.255",
        "::",
        "::1",
        "::ffff:127.0.0.1",
        "::ffff:8.8.8.8",
        "64:ff9b::7f00:1",
        "64:ff9b:1::1",
        "100::1",
        "5f00::1",
        "fc00::1",
        "fd00::1",
        "fe80::1",
        "fe80::1%lo",
        "2606:4700::1111%lo",
        "fec0::1",
        "ff02::1",
        "4000::1",
        "2130706433",
        "0x7f.1",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "fd00:ec2::254",
        "not-an-address",
        "",
    ],
)
def test_special_addresses_are_not_public(address: str) -> None:
    assert not is_public(address)


def test_neighbors_of_special_addresses_are_public() -> None:
    for address in ("1.0.0.0", "9.255.255.255", "11.0.0.0", "172.15.255.255", "172.32.0.0", "192.169.0.0", "223.0.0.1"):
        assert is_public(address)
    assert is_public("2001:200::1")
    assert is_public("2606:4700::1111")


def test_networks_of_both_kinds_are_distinguished() -> None:
    networks = [ip_network("10.0.0.0/8"), ip_network("fd00::/8")]
    assert is_within("10.1.2.3", networks)
    assert is_within("fd12::1", networks)
    assert not is_within("11.1.2.3", networks)
    assert not is_within("::a00:1", networks)
    assert not is_within("name", networks)


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

    fetched = hub_of(handler).fetch_model("acme/llama-x")
    assert fetched.config == LLAMA_8B_CONFIG
    assert str(seen[0].url) == f"https://{PUBLIC}/acme/llama-x/resolve/main/config.json"
    assert seen[0].headers["host"] == "hub.example"
    assert seen[0].extensions["sni_hostname"] == "hub.example"
    assert "authorization" not in seen[0].headers


def contacted(_: httpx2.Request) -> httpx2.Response:
    raise AssertionError("contacted")


def test_a_host_with_one_address_that_is_not_public_is_not_contacted() -> None:
    for address in ("127.0.0.1", "169.254.169.254", "fd00::1", "::ffff:10.0.0.1", "64:ff9b::7f00:1"):
        with pytest.raises(HubUnavailable, match="not public"):
            hub_of(contacted, addresses=[PUBLIC, address]).fetch_model("acme/m")


def test_an_unknown_host_is_reported() -> None:
    def unknown(*_: object) -> list[str]:
        raise OSError("no such host")

    with pytest.raises(HubUnavailable, match="could not be looked up"):
        ModelHub("https://hub.example", transport=httpx2.MockTransport(contacted), resolve=unknown).fetch_model(
            "acme/m"
        )


@pytest.mark.parametrize(
    "host", ["2130706433", "0x7f000001", "0177.0.0.1", "127.1", "localhost", "[::1]", "[::ffff:7f00:1]"]
)
def test_a_loopback_address_in_disguise_is_not_contacted(host: str) -> None:
    with pytest.raises(HubUnavailable, match=r"not public|could not be looked up"):
        ModelHub(f"http://{host}", transport=httpx2.MockTransport(contacted)).fetch_model("acme/m")


def test_a_mirror_in_a_network_that_is_allowed_is_asked() -> None:
    def hub(address: str) -> ModelHub:
        transport, networks = httpx2.MockTransport(gives(LLAMA_8B_CONFIG)), [ip_network("10.20.0.0/16")]
        return ModelHub("https://mirror", networks=networks, transport=transport, resolve=lambda *_: [address])

    assert hub("10.20.3.4").fetch_model("acme/m").config == LLAMA_8B_CONFIG
    with pytest.raises(HubUnavailable, match="not public"):
        hub("10.21.3.4").fetch_model("acme/m")


@pytest.mark.parametrize(
    ("location", "says"),
    [
        ("", "without a location"),
        ("https://[::1", "no address"),
        ("https://hub.example:99999/x", "no address"),
        ("https://hub.example:port/x", "no address"),
        ("https://hub.example/\x00", "no address|answered"),
        ("https://hub.example:22/x", "port 22"),
        ("https://a:b@hub.example/x", "not plain http"),
        ("gopher://hub.example/x", "unencrypted"),
        ("file:///etc/passwd", "unencrypted"),
        ("https://" + "a" * 70 + ".example/", "no address|looked up|not public|more than 3"),
    ],
)
def test_a_redirect_that_leads_nowhere_is_reported(location: str, says: str) -> None:
    with pytest.raises(HubUnavailable, match=says):
        hub_of(lambda _: httpx2.Response(302, headers={"location": location} if location else {})).fetch_model("acme/m")


def test_a_redirect_is_followed_and_its_target_checked() -> None:
    def moved(to: str) -> Handler:
        def handler(request: httpx2.Request) -> httpx2.Response:
            if "resolve/main" in request.url.path:
                return httpx2.Response(307, headers={"location": to})
            return httpx2.Response(200, json=LLAMA_8B_CONFIG)

        return handler

    assert hub_of(moved("/cache/config.json")).fetch_model("acme/m").url == "https://hub.example/cache/config.json"
    with pytest.raises(HubUnavailable, match="unencrypted"):
        hub_of(moved("http://hub.example/config.json")).fetch_model("acme/m")
    with pytest.raises(HubUnavailable, match="not plain http"):
        hub_of(moved("file:///etc/passwd"), url="http://hub.example").fetch_model("acme/m")
    inside = ModelHub(
        "https://hub.example",
        transport=httpx2.MockTransport(moved("https://metadata.example/config.json")),
        resolve=lambda host, _: [PUBLIC] if host == "hub.example" else ["169.254.169.254"],
    )
    with pytest.raises(HubUnavailable, match="not public"):
        inside.fetch_model("acme/m")


def test_endless_redirects_end() -> None:
    with pytest.raises(HubUnavailable, match="more than 3 times"):
        hub_of(lambda _: httpx2.Response(302, headers={"location": "/again"})).fetch_model("acme/m")


@pytest.mark.parametrize(
    ("handler", "error", "says"),
    [
        (gives({}, 404), MissingModel, "Neither the catalog nor the model hub"),
        (gives({}, 401, **{"x-error-code": "RepoNotFound"}), MissingModel, "Neither"),
        (gives({}, 401, **{"x-error-code": "GatedRepo"}), GatedModel, "accepted its terms"),
        (gives({}, 403), GatedModel, "accepted its terms"),
        (gives({}, 500), HubUnavailable, "answered 500"),
        (gives([1]), HubUnavailable, "not a JSON object"),
        (lambda _: httpx2.Response(200, content=b"<html>"), HubUnavailable, "not a JSON object"),
        (lambda _: httpx2.Response(200, content=b"[" * 100_000), HubUnavailable, "not a JSON object"),
        (lambda _: httpx2.Response(200, content=b" " * (hubs.MAX_BYTES + 1)), HubUnavailable, "larger than 6 MiB"),
        (
            lambda _: httpx2.Response(
                200, content=gzip.compress(b" " * 20_000_000), headers={"content-encoding": "gzip"}
            ),
            HubUnavailable,
            "asked not to",
        ),
    ],
)
def test_what_the_hub_does_not_give_says_so(handler: Handler, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        hub_of(handler).fetch_model("acme/m")


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
        hub_of(gives({})).fetch_model(name)


def test_a_missing_model_is_not_asked_for_again_and_again() -> None:
    asked: list[str] = []

    def handler(request: httpx2.Request) -> httpx2.Response:
        asked.append(request.url.path)
        return httpx2.Response(404)

    hub = hub_of(handler)
    for _ in range(3):
        with pytest.raises(MissingModel):
            hub.fetch_model("acme/m")
    assert len(asked) == 1


def test_a_model_that_the_hub_failed_at_is_left_alone_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def handler(request: httpx2.Request) -> httpx2.Response:
        asked.append(request.url.path)
        return httpx2.Response(500)

    for kept_s, times in ((30.0, 1), (-1.0, 3)):
        asked.clear()
        monkeypatch.setattr(hubs, "KEPT_S", {**hubs.KEPT_S, HubUnavailable: kept_s})
        hub = hub_of(handler)
        for _ in range(3):
            with pytest.raises(HubUnavailable, match="answered 500"):
                hub.fetch_model("acme/m")
        assert len(asked) == times


def test_a_hub_that_is_down_costs_one_timeout_not_one_for_each_model() -> None:
    asked: list[str] = []

    def handler(request: httpx2.Request) -> httpx2.Response:
        asked.append(request.url.path)
        raise httpx2.ConnectTimeout("too long")

    hub = hub_of(handler)
    with pytest.raises(HubUnavailable, match=r"did not answer \(ConnectTimeout"):
        hub.fetch_model("acme/a")
    with pytest.raises(HubUnavailable, match="a moment ago"):
        hub.fetch_model("acme/b")
    assert len(asked) == 1


def test_the_cache_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hubs, "MOST_KEPT", 2)
    asked: list[str] = []

    def handler(request: httpx2.Request) -> httpx2.Response:
        asked.append(request.url.path)
        return httpx2.Response(404)

    hub = hub_of(handler)
    for name in ("acme/a", "acme/b", "acme/c", "acme/d", "acme/a"):
        with pytest.raises(MissingModel):
            hub.fetch_model(name)
    assert len(asked) == 5


def test_a_look_up_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hubs, "DEADLINE_S", 0.1)
    ended = threading.Event()

    def stuck(*_: object) -> list[str]:
        ended.wait(10)
        return [PUBLIC]

    with pytest.raises(HubUnavailable, match="took longer"):
        ModelHub("https://hub.example", transport=httpx2.MockTransport(contacted), resolve=stuck).fetch_model("acme/m")
    ended.set()


@pytest.mark.slow
def test_work_that_somebody_listens_to_is_begun_anew_once_the_hub_answered(sessions: sessionmaker[Session]) -> None:
    """While the hub is asked no turn passes, and no connection is held."""
    engine, going = sessions.kw["bind"], threading.Event()

    def handler(_: httpx2.Request) -> httpx2.Response:
        going.wait(10)
        return httpx2.Response(200, json=LLAMA_8B_CONFIG)

    store = CatalogStore(sessions, check_s=0.0, hub=hub_of(handler))
    with report_stages_to(Clock(10.0)):
        with pytest.raises(AwaitExternal) as wanted:
            store.find_model("acme/Llama-Own")
        assert engine.pool.checkedout() == 0
        going.set()
        wanted.value.awaited.result(10)
        assert store.find_model("acme/Llama-Own").total_params == LLAMA_8B.total_params


@pytest.fixture
def sessions(sqlite_url: str, tmp_path: Path) -> Iterator[sessionmaker[Session]]:
    engine = make_engine(copied(sqlite_url, tmp_path / "s.sqlite3"))
    yield sessionmaker(engine)
    engine.dispose()


@pytest.mark.slow
def test_a_fetched_model_is_kept_with_its_date_and_survives_a_reload(sessions: sessionmaker[Session]) -> None:
    asked: list[str] = []

    def handler(request: httpx2.Request) -> httpx2.Response:
        asked.append(request.url.path)
        return httpx2.Response(200, json=LLAMA_8B_CONFIG)

    for _ in range(2):
        store = CatalogStore(sessions, check_s=0.0, hub=hub_of(handler))
        assert store.find_model("acme/Llama-Own").total_params == LLAMA_8B.total_params
    assert len(asked) == 1
    with sessions() as session:
        row = session.scalars(select(ModelRow).where(ModelRow.origin == "hub")).one()
        assert row.id == "acme/Llama-Own"
        assert row.source == "https://hub.example/acme/Llama-Own/resolve/main/config.json"
        assert row.as_of >= "2026-01-01"
        session.execute(update(CatalogVersionRow).values(digest="older"))
        session.commit()
        assert seed_catalog(session) is True
        assert count_rows(session, ModelRow) == len(model_entries()) + 1
        assert session.scalars(select(ModelAliasRow.model).where(ModelAliasRow.alias == "acme-llama-own")).all() == [
            "acme/Llama-Own"
        ]


@pytest.mark.slow
def test_a_model_that_cannot_be_counted_is_not_kept(sessions: sessionmaker[Session]) -> None:
    store = CatalogStore(sessions, check_s=0.0, hub=hub_of(gives({"model_type": "quantum"})))
    with pytest.raises(UnreadableConfiguration, match="quantum"):
        store.find_model("acme/strange")
    with sessions() as session:
        assert count_rows(session, ModelRow) == len(model_entries())


@pytest.mark.slow
def test_the_catalogue_is_asked_before_the_hub_and_similar_names_after(sessions: sessionmaker[Session]) -> None:
    def handler(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(404)

    store = CatalogStore(sessions, check_s=0.0, hub=hub_of(handler))
    assert store.find_model("meta-llama/Llama-3.1-8B").total_params == LLAMA_8B.total_params
    repackaged = store.find_model("somebody/Llama-3.1-8B-Instruct-AWQ")
    assert repackaged.total_params == LLAMA_8B.total_params
    assert any("was read as meta-llama/Llama-3.1-8B-Instruct" in a for a in repackaged.assumed)
    with pytest.raises(UnknownModel, match="nor the model hub") as caught:
        store.find_model("acme/nothing-like-it")
    assert "nearest" in caught.value.facts


@pytest.mark.slow
def test_without_a_hub_nothing_is_asked(sessions: sessionmaker[Session]) -> None:
    with pytest.raises(UnknownModel, match="in the catalog"):
        CatalogStore(sessions, check_s=0.0).find_model("acme/nothing-like-it")
