"""Mutated bodies of every operation that takes one: none is a server error."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from app.api.access import SCOPE_OF
from benchmarks.mutated import HERE, Operation, authorize, make_app, mutated_requests, operations, run_mutations
from tests.conftest import copied

Operations = dict[tuple[str, str], tuple[Operation, ...]]


@pytest.fixture(scope="module")
def service(sqlite_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    url = copied(sqlite_url, tmp_path_factory.mktemp("mutated") / "m.sqlite3")
    app = make_app(url)
    with TestClient(app, base_url=HERE, raise_server_exceptions=False, follow_redirects=False) as made:
        authorize(made, url)
        yield made
    app.state.sessions.kw["bind"].dispose()


@pytest.fixture(scope="module")
def known(service: TestClient) -> Operations:
    return operations(service)


def test_every_operation_with_a_body_is_among_them(service: TestClient, known: Operations) -> None:
    """The document lists every operation but the forms of a session and the agents' endpoint."""
    paths = service.get("/openapi.json").json()["paths"]
    methods = [(method, path, operation) for path, item in paths.items() for method, operation in item.items()]
    assert {operation["operationId"] for *_, operation in methods} >= SCOPE_OF.keys()
    taken = {(method.upper(), path) for method, path, _ in methods if method in ("post", "put", "patch")}
    assert taken | {("POST", "/mcp"), ("POST", "/procurement/sessions/{token}")} == set(known)


def test_the_bodies_that_are_mutated_are_accepted(service: TestClient, known: Operations) -> None:
    for template, operation in [(path, each) for (_, path), forms in known.items() for each in forms]:
        if template in ("/recommendations/{id}/reprice", "/procurement/sessions/{token}"):  # no body; ends the session
            continue
        for body in (*map(json.dumps, operation.documents), *operation.texts):
            headers = {"content-type": operation.media_type, "if-match": "*", "accept": "application/json"}
            headers["accept"] += ", text/event-stream"
            where = f"{operation.path}?{operation.query}"
            answer = service.request(operation.method, where, content=body, headers=headers)
            assert answer.status_code in (200, 201, 303) and '"isError":true' not in answer.text, (
                template,
                answer.text,
            )


def test_no_mutated_body_is_a_server_error(service: TestClient) -> None:
    assert run_mutations(service, count=150, seed=3)[0] == []


def raw_scope(client: TestClient, operation: Operation) -> dict[str, Any]:
    """The ASGI scope of a request to an operation."""
    headers = {"host": "headroom.example", "accept": "application/json, text/event-stream", "if-match": "*"}
    headers |= {"content-type": operation.media_type, "authorization": client.headers["authorization"]}
    return {
        "type": "http",
        "http_version": "1.1",
        "method": operation.method,
        "scheme": "https",
        "path": operation.path,
        "raw_path": operation.path.encode(),
        "root_path": "",
        "query_string": operation.query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("203.0.113.9", 40000),
        "server": ("headroom.example", 443),
        "state": dict(client.app_state),
    }


BODY_DEADLINE_S = 0.2
CLIENTS = ("drips", "leaves", "leaves after its body")


@pytest.mark.parametrize("client", CLIENTS)
def test_every_operation_ends_when_its_client_does_not(
    service: TestClient, known: Operations, client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A body that never ends is given up at its deadline, and work without a client at its next stage."""
    app: Any = service.app
    hurried = app.state.settings.model_copy(update={"body_deadline_s": BODY_DEADLINE_S})
    monkeypatch.setitem(app.state._state, "settings", hurried)

    async def call(operation: Operation) -> list[int]:
        raw = operation.texts[0].encode() if operation.texts else json.dumps(operation.documents[0]).encode()
        sent = [{"type": "http.request", "body": raw, "more_body": False}]
        if client != "leaves after its body":
            sent = [{"type": "http.request", "body": raw[:20], "more_body": True}]
        statuses: list[int] = []

        async def receive() -> Any:
            if sent:
                return sent.pop()
            if client == "drips":
                await asyncio.sleep(0.05)
                return {"type": "http.request", "body": b" ", "more_body": True}
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                statuses.append(message["status"])

        async with asyncio.timeout(BODY_DEADLINE_S + 3):
            await app(raw_scope(service, operation), receive, send)
        return statuses

    assert service.portal is not None
    for path, operation in [(path, each) for (_, path), forms in known.items() for each in forms]:
        (status,) = service.portal.call(call, operation)
        refused = status >= 400 or path == "/procurement/punchout"  # whose status is in its document
        assert status < 500 and (refused or client == "leaves after its body"), path
    queues = (app.state.admission, app.state.long_admission)
    until = time.monotonic() + 2
    while any(queue._running or queue.queue_length for queue in queues):
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.mark.slow
def test_no_mutated_body_of_a_longer_run_is_a_server_error(service: TestClient) -> None:
    assert run_mutations(service, count=500, seed=4)[0] == []


def test_a_seed_gives_the_same_bodies(known: Operations) -> None:
    first, second = (mutated_requests(known, random.Random(7)) for _ in range(2))
    assert [next(first) for _ in range(50)] == [next(second) for _ in range(50)]
