"""Answers on their way out: compressed where that is taken, readable from the origins that settings name."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient
from pydantic import ValidationError

from app.config import Settings
from app.main import create_app
from tests.examples import body

HOME = "https://tools.example"
LARGE, SMALL = "/catalog/accelerators", "/livez"


@pytest.fixture(scope="module")
def open_to_home(sqlite_url: str) -> Iterator[TestClient]:
    with TestClient(create_app(Settings(database_url=sqlite_url, cors_origins=(HOME,)))) as client:
        yield client


def test_a_large_answer_is_compressed_for_who_takes_it(client: TestClient) -> None:
    whole = client.get(LARGE, headers={"Accept-Encoding": "identity"})
    small = client.get(LARGE, headers={"Accept-Encoding": "gzip"})
    assert "content-encoding" not in whole.headers
    assert small.headers["content-encoding"] == "gzip"
    assert small.headers["vary"] == "Accept-Encoding"
    assert int(small.headers["content-length"]) < len(whole.content) / 3
    assert small.json() == whole.json()


def test_a_short_answer_goes_as_it_is(client: TestClient) -> None:
    assert "content-encoding" not in client.get(SMALL, headers={"Accept-Encoding": "gzip"}).headers


def test_no_page_of_another_origin_reads_an_answer_unless_settings_say_so(client: TestClient) -> None:
    assert "access-control-allow-origin" not in client.get(SMALL, headers={"Origin": HOME}).headers


def test_a_page_of_a_named_origin_may_ask(open_to_home: TestClient) -> None:
    asked = {"Origin": HOME, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"}
    leave = open_to_home.options("/recommend", headers=asked)
    assert leave.status_code == 200
    assert leave.headers["access-control-allow-origin"] == HOME
    answer = open_to_home.post("/recommend", json={}, headers={"Origin": HOME})
    assert answer.status_code == 422
    assert answer.headers["access-control-allow-origin"] == HOME
    assert "ETag" in answer.headers["access-control-expose-headers"]
    other = open_to_home.get(SMALL, headers={"Origin": "https://elsewhere.example"})
    assert "access-control-allow-origin" not in other.headers


@pytest.mark.parametrize("origin", ["tools.example", "https://tools.example/path", "https://a@b", ""])
def test_an_origin_is_scheme_and_host(origin: str) -> None:
    with pytest.raises(ValidationError):
        Settings(cors_origins=(origin,))


PATHS = ("/livez", "/catalog/offers?limit=3", "/openapi.json", "/docs", "/", "/accuracy", "/problems")


@pytest.mark.parametrize("path", PATHS)
def test_head_is_get_without_the_body(client: TestClient, path: str) -> None:
    whole, head = client.get(path), client.head(path)
    assert head.status_code == whole.status_code == 200
    assert head.content == b""
    for name in ("content-type", "etag", "content-length"):
        assert head.headers.get(name) == whole.headers.get(name)


def test_head_of_what_takes_none_is_refused(client: TestClient) -> None:
    assert client.head("/recommend").status_code == 405
    assert client.head("/recommendations/rec_0").status_code == 422


@pytest.mark.parametrize("path", PATHS)
def test_what_a_client_has_is_not_sent_again(client: TestClient, path: str) -> None:
    whole = client.get(path)
    again = client.get(path, headers={"If-None-Match": f'"other", {whole.headers["etag"]}'})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["etag"] == whole.headers["etag"]
    assert "content-type" not in again.headers
    assert client.get(path, headers={"If-None-Match": '"other"'}).status_code == 200


def test_what_may_not_be_kept_is_sent_each_time(client: TestClient) -> None:
    for known in ({}, {"If-None-Match": "*"}, {"If-None-Match": ""}):
        whole = client.get("/metrics", headers=known)
        assert (whole.status_code, "etag" in whole.headers) == (200, False)
        assert whole.content


def test_a_stored_answer_is_not_sent_again(client: TestClient) -> None:
    stored = client.post("/recommend", json=body("recommend-inference-chat-70b")).json()["id"]
    for path in (f"/recommendations/{stored}", f"/recommendations/{stored}/bill-of-materials?format=csv"):
        whole = client.get(path)
        assert whole.status_code == 200
        assert client.get(path, headers={"If-None-Match": whole.headers["etag"]}).status_code == 304


@pytest.mark.parametrize("path", [*PATHS, "/nothing", "/static/page.css"])
def test_no_answer_is_taken_for_another_type(client: TestClient, path: str) -> None:
    assert client.get(path).headers["x-content-type-options"] == "nosniff"
    assert client.post(path, content=b"{").headers["x-content-type-options"] == "nosniff"
