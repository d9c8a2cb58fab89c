"""The pages and the guide: every link leads somewhere, and every page has its module."""

from __future__ import annotations

import re
from importlib import resources
from typing import TYPE_CHECKING

import pytest

from app.api.guide import FILES, INDEX, Guide, docs_folder, page_address
from app.api.routes.pages import CONTENT_POLICY, PAGES
from tests.examples import answer_of

if TYPE_CHECKING:
    from starlette.testclient import TestClient

MODULES = resources.files("app.api").joinpath("static", "page", "pages")


@pytest.fixture(scope="module")
def guide() -> Guide:
    folder = docs_folder()
    assert folder is not None
    return Guide(folder)


def test_every_page_has_its_module_and_is_linked(client: TestClient) -> None:
    assert {file.name.removesuffix(".js") for file in MODULES.iterdir()} == set(PAGES)
    start = client.get("/").text
    for name, (title, purpose) in PAGES.items():
        page = client.get(f"/pages/{name}")
        assert f"<h1>{title}</h1>" in page.text
        assert page.headers["Content-Security-Policy"] == CONTENT_POLICY
        assert (f'href="/pages/{name}"' in start) == bool(purpose)
        for address in re.findall(r'(?:src|href)="(/static/[^"]+)"', page.text):
            file = client.get(address)
            assert file.status_code == 200, address
            assert file.headers["cache-control"] == "no-cache"  # never modules of two releases on one page


@pytest.mark.parametrize(("path", "known"), [("/pages/none", "compare, diagnose"), ("/guide/none", "/guide lists")])
def test_an_unknown_page_says_which_there_are(client: TestClient, path: str, known: str) -> None:
    assert known in answer_of(client.get(path), 404)["detail"]


def test_every_link_of_the_guide_leads_to_a_heading_or_a_file(guide: Guide) -> None:
    html = {page_address(name): guide.render(name)[1] for name in (INDEX, *guide.questions)}
    for path, text in html.items():
        for href in re.findall(r'href="((?:/guide|#)[^"]*)"', text):
            target, _, anchor = href.partition("#")
            assert not anchor or f'id="{anchor}"' in html[target or path], (path, href)
            assert (target or path) in html
        for source in re.findall(r'src="([^"]+)"', text):
            assert (guide.folder / source.removeprefix(f"{FILES}/")).is_file(), (path, source)
        assert "style=" not in text


def test_the_guide_finds_sections_with_all_words_those_in_headings_first(client: TestClient, guide: Guide) -> None:
    found = guide.search("hardware already")
    assert all(w in f"{s.heading} {s.text}".lower() for s in found for w in ("hardware", "already"))
    assert found[0].heading == "5. Hardware that you already have"
    assert client.get(found[0].address).status_code == 200
    assert f'href="{found[0].address}"' in client.get("/guide", params={"q": "Hardware already"}).text
    assert "<script>alert" not in client.get("/guide", params={"q": "<script>alert"}).text
    assert guide.search("xyzzy") == []
