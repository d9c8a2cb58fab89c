"""Mutated bodies of every operation that takes one: none is a server error."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

import pytest
from fastapi.routing import APIRoute
from starlette.testclient import TestClient

from app.api.routes import catalog, filing, procurement, recommendations
from benchmarks.mutated import HERE, Operation, make_app, mutated_requests, operations, run_mutations

Operations = dict[tuple[str, str], Operation]


@pytest.fixture(scope="module")
def service(sqlite_url: str) -> Iterator[TestClient]:
    app = make_app(sqlite_url)
    with TestClient(app, base_url=HERE, raise_server_exceptions=False, follow_redirects=False) as made:
        yield made
    app.state.sessions.kw["bind"].dispose()


@pytest.fixture(scope="module")
def known(service: TestClient) -> Operations:
    return operations(service)


def test_every_operation_with_a_body_is_among_them(known: Operations) -> None:
    routers = (recommendations.router, filing.router, catalog.router, procurement.router, procurement.exports_router)
    routes = [route for router in routers for route in router.routes if isinstance(route, APIRoute)]
    taken = {(method, route.path) for route in routes for method in (route.methods or set()) & {"POST", "PATCH", "PUT"}}
    assert taken | {("POST", "/mcp")} == set(known)


def test_the_bodies_that_are_mutated_are_accepted(service: TestClient, known: Operations) -> None:
    for (_, template), operation in known.items():
        if template in ("/recommendations/{id}/reprice", "/procurement/sessions/{token}"):  # no body; ends the session
            continue
        for body in (*map(json.dumps, operation.documents), *operation.texts):
            headers = {"content-type": operation.media_type, "if-match": "*", "accept": "application/json"}
            headers["accept"] += ", text/event-stream"
            answer = service.request(operation.method, operation.path, content=body, headers=headers)
            assert answer.status_code in (200, 303) and '"isError":true' not in answer.text, (template, answer.text)


def test_no_mutated_body_is_a_server_error(service: TestClient) -> None:
    assert run_mutations(service, count=150, seed=3) == []


@pytest.mark.slow
def test_no_mutated_body_of_a_longer_run_is_a_server_error(service: TestClient) -> None:
    assert run_mutations(service, count=1100, seed=4) == []


def test_a_seed_gives_the_same_bodies(known: Operations) -> None:
    first, second = (mutated_requests(known, random.Random(7)) for _ in range(2))
    assert [next(first) for _ in range(50)] == [next(second) for _ in range(50)]
