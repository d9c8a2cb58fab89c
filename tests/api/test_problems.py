"""Kinds of problems: each is raised somewhere, says what to do, and its type leads to a page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

import app.main
from app.api.problems import HTTP_CODES, STATUS, problem_index_page, problem_kinds, problem_page
from app.errors import AppError

SOURCE = Path(app.main.__file__).parent
ROOTS = {AppError, *(family for family, _ in STATUS)}


def raised(family: type[AppError]) -> Iterator[type[AppError]]:
    for kind in family.__subclasses__():
        yield kind
        yield from raised(kind)


def status_of(error: type[AppError]) -> int:
    return next((status for family, status in STATUS if issubclass(error, family)), 400)


def test_every_error_is_a_kind_with_its_status() -> None:
    errors = [error for error in raised(AppError) if error.__module__.startswith("app.")]
    assert len(errors) > 20
    for error in errors:
        if "code" in vars(error):
            assert problem_kinds()[error.code].status == status_of(error), error


def test_every_kind_is_raised_somewhere() -> None:
    """A code stands in the source as a class's own, or in the call that refuses."""
    text = "".join(path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py"))
    raised = set(re.findall(r'"([a-z]+(?:-[a-z]+)*)"', text))
    assert set(problem_kinds()) <= raised
    assert set(HTTP_CODES.values()) <= set(problem_kinds())


def test_a_kind_says_what_happened_and_what_to_do() -> None:
    for slug, kind in problem_kinds().items():
        assert kind.happened.endswith(".") and kind.remedy.endswith("."), slug
        assert kind.title in problem_page(slug)
        assert f"/problems/{slug}" in problem_index_page()


@pytest.mark.parametrize(
    ("method", "path", "body", "slug"),
    [
        ("POST", "/recommend", {}, "invalid-request"),
        ("GET", "/nowhere", None, "not-found"),
        ("PUT", "/recommend", None, "method-not-allowed"),
        ("GET", "/catalog/offers?cursor=none", None, "unknown-cursor"),
        ("GET", "/recommendations/rec_0123456789abcdef0123456789ab", None, "unknown-recommendation"),
    ],
)
def test_the_type_of_a_problem_leads_to_its_page(
    client: TestClient, method: str, path: str, body: object, slug: str
) -> None:
    problem = client.request(method, path, json=body).json()
    assert problem["type"] == f"/problems/{slug}"
    page = client.get(problem["type"])
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert f"<h1>{problem['title']}</h1>" in page.text
    assert problem_kinds()[slug].remedy.partition("'")[0] in page.text


def test_a_page_of_no_kind_is_a_problem_itself(client: TestClient) -> None:
    answer = client.get("/problems/nothing-like-it")
    assert (answer.status_code, answer.json()["type"]) == (404, "/problems/not-found")
    assert client.get("/problems").text.count("<tr>") == len(problem_kinds()) + 1


def test_the_detail_carries_the_first_error(client: TestClient) -> None:
    body = {"workload": {"phase": "inference", "model": "llama-3.1-8b", "traffic": {"peak_requests_per_s": -1}}}
    one = client.post("/recommend", json=body).json()
    assert one["detail"] == f"At {one['errors'][0]['pointer']}: {one['errors'][0]['detail']}."
    two = client.post("/recommend", json={**body, "limit": 0, "objectve": "cost"}).json()
    assert len(two["errors"]) == 3
    assert two["detail"].endswith(". (2 more errors)")
