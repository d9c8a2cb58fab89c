"""What goes round every request: its ids, its line in the log, and what becomes of what breaks. Answers on their
way out: compressed where that is taken, readable from the origins that settings name.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import structlog
from fastapi import FastAPI
from pydantic import ValidationError
from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse
from starlette.testclient import TestClient
from starlette.types import Message, Receive, Scope, Send

from app import logs, telemetry
from app.api import middleware, problems
from app.api.middleware import RequestMiddleware, parse_traceparent
from app.catalog.filing import Filing
from app.catalog.recommendations import AnswerStore
from app.catalog.snapshot import LoadedCatalog
from app.config import Settings
from app.db import make_engine
from app.main import create_app
from artefacts.running import serve_app
from tests.examples import body
from tests.test_telemetry import scraped, value

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


def broken_app(access_log: str = middleware.ALL) -> FastAPI:
    """An application of which every route breaks in another way."""
    app = FastAPI()

    @app.get("/breaks/{how}")
    async def breaks(how: str) -> StreamingResponse:
        if how == "midway":
            return StreamingResponse(halves(), media_type="text/plain")
        if how == "gone":
            raise ClientDisconnect
        if how == "well":
            return StreamingResponse(iter([b"good"]), media_type="text/plain")
        raise ValueError(f"postgresql://headroom:s3cret@db/x refused\nwith a second line about {how}")

    @app.get("/livez")
    @app.get("/readyz")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/of/{token}")
    async def of(token: str) -> str:
        return token[:1]

    problems.install(app)
    middleware.install_request_middleware(app, access_log=access_log)
    return app


async def halves() -> AsyncIterator[bytes]:
    yield b"half of it"
    raise ValueError("the other half is gone")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with serve_app(broken_app(middleware.OFF)) as url:
        yield urlsplit(url).netloc


@pytest.fixture
def asked() -> TestClient:
    logs.configure_json_logging("info")
    return TestClient(broken_app())


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_what_breaks_is_a_problem_and_the_connection_takes_the_next_request(address: str) -> None:
    connection = http.client.HTTPConnection(address)
    connection.request("GET", "/breaks/badly")
    socket = connection.sock
    answer = connection.getresponse()
    problem = json.loads(answer.read())
    assert (answer.status, problem["type"]) == (500, "/problems/internal-error")
    assert problem["request_id"] == answer.headers["x-request-id"]
    connection.request("GET", "/breaks/well")
    assert connection.getresponse().read() == b"good"
    assert connection.sock is socket
    connection.close()


def test_an_answer_that_breaks_midway_ends_the_connection_so_that_no_client_takes_it_for_whole(address: str) -> None:
    connection = http.client.HTTPConnection(address)
    connection.request("GET", "/breaks/midway")
    answer = connection.getresponse()
    with pytest.raises(http.client.IncompleteRead):
        answer.read()
    connection.close()


def test_what_breaks_is_one_line_with_its_cause_and_no_secret(
    asked: TestClient, capsys: pytest.CaptureFixture[str]
) -> None:
    before = value("headroom_unexpected_errors_total")
    asked.get("/breaks/it%22%0a", headers={"x-request-id": "of-this-test"})
    error, request = lines(capsys)
    assert error["event"] == "unexpected_error" and error["route"] == "/breaks/{how}"
    assert (error["error"], error["message"]) == ("ValueError", "postgresql://***@db/x refused")
    assert error["request_id"] == request["request_id"] == "of-this-test"
    assert "test_middleware.py" in error["at"] and len(json.dumps(error)) < 1000
    assert (request["event"], request["status"]) == ("request", 500)
    assert value("headroom_unexpected_errors_total") == before + 1


def test_a_client_that_has_gone_is_no_error(asked: TestClient, capsys: pytest.CaptureFixture[str]) -> None:
    asked.get("/breaks/gone")
    (request,) = lines(capsys)
    assert (request["event"], request["status"]) == ("request", 499)


@pytest.mark.parametrize("sent", ["of-a_client.1", "0" * 64])
def test_an_id_that_is_one_is_taken(asked: TestClient, sent: str) -> None:
    assert asked.get("/livez", headers={"x-request-id": sent}).headers["x-request-id"] == sent


@pytest.mark.parametrize("sent", ["", "short", "0" * 65, "with space", 'quo"te-quote', "a\tb-c-d-e-f", "\xff" * 8])
def test_any_other_is_not(asked: TestClient, sent: str) -> None:
    given = asked.get("/livez", headers={b"x-request-id": sent.encode("latin-1")}).headers.get_list("x-request-id")
    assert len(given) == 1 and given[0] != sent and len(given[0]) == 32


def test_an_id_sent_twice_is_none_and_every_request_has_one_of_its_own(asked: TestClient) -> None:
    twice = asked.get("/livez", headers=[("x-request-id", "first-one"), ("x-request-id", "second-one")])
    ids = {twice.headers["x-request-id"], *(asked.get("/nowhere").headers["x-request-id"] for _ in range(3))}
    assert len(ids) == 4 and not ids & {"first-one", "second-one"}


@pytest.mark.parametrize(
    ("sent", "flags"),
    [
        (f"00-{TRACE}-{SPAN}-01", "01"),
        (f"00-{TRACE}-{SPAN}-ff", "01"),
        (f"00-{TRACE}-{SPAN}-00", "00"),
        (f"cc-{TRACE}-{SPAN}-01-what-comes-later", "01"),
    ],
)
def test_a_trace_goes_on(asked: TestClient, sent: str, flags: str) -> None:
    version, trace, span, sampled = (
        asked.get("/livez", headers={"traceparent": sent}).headers["traceresponse"].split("-")
    )
    assert (version, trace, sampled) == ("00", TRACE, flags) and span != SPAN


@pytest.mark.parametrize(
    "sent",
    [
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-{SPAN}-01-more",
        f"00-{TRACE}-{SPAN}-1",
        f" 00-{TRACE}-{SPAN}-01",
        f"01-{TRACE}-{SPAN}-01.more",
    ],
)
def test_an_invalid_trace_header_starts_a_new_trace(sent: str) -> None:
    assert parse_traceparent(sent.encode()) is None


def test_a_request_is_a_line_without_its_query(asked: TestClient, capsys: pytest.CaptureFixture[str]) -> None:
    asked.get("/breaks/well?PASSWORD=s3cret", headers={"traceparent": f"00-{TRACE}-{SPAN}-01", "cookie": "s3cret"})
    (line,) = lines(capsys)
    assert 0 <= line.pop("ms") < 1000 and line.pop("timestamp").endswith("Z")
    assert len(line.pop("request_id")) == 32
    assert line == {
        "event": "request",
        "level": "info",
        "method": "GET",
        "route": "/breaks/{how}",
        "path": "/breaks/well",
        "status": 200,
        "bytes": 4,
        "client": "testclient",
        "trace_id": TRACE,
    }


def test_a_token_in_a_path_and_line_breaks_are_not_logged(
    asked: TestClient, capsys: pytest.CaptureFixture[str]
) -> None:
    asked.get("/of/s3cret-token")
    asked.get("/nowhere%0a%7b%22event%22:%22request%22%7d")
    of, nowhere = lines(capsys)
    assert of["path"] == of["route"] == "/of/{token}"
    assert nowhere["route"] == "unmatched" and nowhere["status"] == 404


@pytest.mark.parametrize(
    ("access_log", "logged"), [("off", []), ("on", ["/breaks/{how}"]), ("all", ["/livez", "/breaks/{how}"])]
)
def test_health_checks_are_left_out_unless_all_is_asked_for(
    access_log: str, logged: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    logs.configure_json_logging("info")
    client = TestClient(broken_app(access_log))
    client.get("/livez")
    client.get("/breaks/well")
    assert [line["route"] for line in lines(capsys)] == logged


def test_unknown_paths_are_one_label_and_odd_methods_another(asked: TestClient) -> None:
    labels = {"method": "other", "route": "unmatched", "status": "4xx"}
    for path in ("/a", "/b"):
        asked.request("BREW", path)
    assert value("headroom_request_seconds_count", **labels) >= 2
    assert b'/a"' not in telemetry.prometheus_text()


def test_every_route_of_the_service_counts_under_its_template(client: TestClient) -> None:
    answer = client.get("/recommendations/none?x=1")
    assert answer.headers["x-request-id"]
    assert value("headroom_request_seconds_count", method="GET", route="/recommendations/{id}", status="4xx") >= 1
    client.get("/static/docs.css")
    client.put("/catalog/models")
    client.post("/mcp", json={})
    assert value("headroom_request_seconds_count", method="PUT", route="/catalog/models", status="4xx") >= 1
    samples = scraped(telemetry.prometheus_text())
    shown = {dict(labels)["route"] for name, labels in samples if name == "headroom_request_seconds_count"}
    assert {"/static", "/mcp"} <= shown


@pytest.mark.parametrize("kind", ["lifespan", "websocket"])
def test_messages_other_than_requests_pass_untouched(kind: str) -> None:
    sent: list[Message] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        assert scope == {"type": kind}
        await send(await receive())

    async def receive() -> Message:
        return {"type": "there"}

    async def send(message: Message) -> None:
        sent.append(message)

    asyncio.run(RequestMiddleware(app, access_log="all")({"type": kind}, receive, send))
    assert sent == [{"type": "there"}]


def test_lines_about_keeping_an_answer_name_the_request_that_asked_for_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logs.configure_json_logging("info")
    engine = make_engine(f"sqlite:///{tmp_path}/empty.sqlite3")
    filed = Filing(label=None, reference=None, cost_centre=None, model="a", accelerators=None, option=None)
    with structlog.contextvars.bound_contextvars(request_id="of-this-answer"):
        kept = AnswerStore(engine).store_answer(
            "rec_1", snapshot="s", request=b"", body=b"{}", supply=b"", filing=filed
        )
    engine.dispose()
    (line,) = lines(capsys)
    assert not kept.stored and line["event"] == "recommendation_not_stored"
    assert line["request_id"] == "of-this-answer" and line["message"] == "no such table: recommendations"


def test_an_unreachable_database_is_logged_with_the_cause_and_without_its_password(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"postgresql+psycopg://headroom:s3cret@127.0.0.1:{unused.getsockname()[1]}/headroom"
        app = create_app(Settings(database_url=url))
        answer = TestClient(app).get("/recommendations/rec_0000000000000000000000000000")
        app.state.sessions.kw["bind"].dispose()
    said = capsys.readouterr().out
    (error, request) = [json.loads(line) for line in said.splitlines()]
    assert answer.status_code == 503 and "s3cret" not in answer.text + said
    assert error["event"] == "database_unavailable" and "refused" in error["message"]
    assert error["request_id"] == request["request_id"] == answer.headers["x-request-id"]


HOME = "https://tools.example"
LARGE, SMALL = "/catalog/accelerators", "/livez"


@pytest.fixture(scope="module")
def open_to_home(sqlite_url: str, loaded: LoadedCatalog) -> Iterator[TestClient]:
    with TestClient(create_app(Settings(database_url=sqlite_url, cors_origins=(HOME,)), loaded)) as client:
        yield client


def test_a_large_answer_is_compressed_for_who_takes_it(client: TestClient) -> None:
    whole = client.get(LARGE, headers={"Accept-Encoding": "identity"})
    small = client.get(LARGE, headers={"Accept-Encoding": "gzip"})
    assert "content-encoding" not in whole.headers
    assert small.headers["content-encoding"] == "gzip"
    assert small.headers["vary"] == "Accept-Encoding, Authorization"
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


def test_paths_are_the_same_with_the_version(client: TestClient) -> None:
    for path in ("/catalog/accelerators?limit=2", "/readyz", "/recommendations/rec_123", "/docs", "/nowhere"):
        plain, versioned = client.get(path), client.get(f"/v1{path}")
        assert (plain.status_code, plain.content) == (versioned.status_code, versioned.content), path
    assert client.get("/v1").status_code == 404
    assert client.get("/v1/v1/readyz").status_code == 404
    assert client.get("/v1x/readyz").status_code == 404
