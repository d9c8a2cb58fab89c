"""Mutated bodies of every operation that takes one: none is a server error."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

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
    assert run_mutations(service, count=150, seed=3) == []


@pytest.mark.slow
def test_no_mutated_body_of_a_longer_run_is_a_server_error(service: TestClient) -> None:
    assert run_mutations(service, count=1100, seed=4) == []


def test_a_seed_gives_the_same_bodies(known: Operations) -> None:
    first, second = (mutated_requests(known, random.Random(7)) for _ in range(2))
    assert [next(first) for _ in range(50)] == [next(second) for _ in range(50)]
