"""What a program that reads finds: every call, every document, and that each link leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from app.agents import llms
from app.agents.tools import TOOLS
from app.api import guide

DOCS = Path(__file__).parents[2] / "docs"


def test_it_names_every_call_every_document_and_every_tool(client: TestClient) -> None:
    answer = client.get("/llms.txt")
    assert answer.headers["content-type"].startswith("text/plain")
    text = answer.text
    assert text.startswith("# Headroom\n\n> ")
    for path, operations in client.get("/openapi.json").json()["paths"].items():
        for method, operation in operations.items():
            assert f"[{method.upper()} {path}](/docs#/{operation['tags'][0]}/{operation['operationId']})" in text
    assert set(re.findall(r"\]\(/docs/([\w.]+)\)", text)) == {path.name for path in DOCS.glob("*.md")}
    for tool in TOOLS:
        assert tool.name in text


def test_every_link_of_it_leads_somewhere_and_documents_come_as_they_are(client: TestClient) -> None:
    for target in set(re.findall(r"\]\((/[^)#]*)", client.get("/llms.txt").text)) - {"/mcp"}:
        assert client.get(target).status_code == 200, target
    page = client.get("/docs/cli.md")
    assert page.headers["content-type"].startswith("text/markdown")
    assert page.text == (DOCS / "cli.md").read_text()


@pytest.mark.parametrize("name", ["nothing.md", "..%2FREADME.md", "accuracy"])
def test_nothing_but_documents_of_the_index_is_given(client: TestClient, name: str) -> None:
    assert client.get(f"/docs/{name}").status_code == 404


def test_llms_txt_lists_the_calls_even_without_documents(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(guide, "FOLDERS", (tmp_path,))
    app = FastAPI(title="Headroom", description="What it does.")

    @app.get("/one", tags=["sizing"], operation_id="one", summary="One thing")
    def one() -> None:
        """Nothing."""

    llms.install(app)
    text = TestClient(app).get("/llms.txt").text
    assert "## Documents" not in text
    assert "- [GET /one](/docs#/sizing/one): One thing" in text
    assert TestClient(app).get("/docs/cli.md").status_code == 404
