"""The word list: what a person reads is plain technical English, without the words of a private dialect."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("app", "calibration", "headroom_client", "migrations", "benchmarks", "artefacts", "tests")
CODE = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py") if path != Path(__file__))
PAGES = sorted((*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "changelog.d").glob("*.md")))
SHOWN = sorted(
    path
    for room in ("api", "sizing")
    for suffix in ("js", "html", "css", "toml", "json", "csv")
    for path in (ROOT / "app" / room).rglob(f"*.{suffix}")
    if "swagger" not in path.name
)
WORDS = (
    *("told", "reckoned", "mended", "beside", "aside", "whoever", "nobody", "stands behind", "held to", "said so"),
    *("had from", "does it", "would do", "so many", "what is", "turned down", "at its best layout"),
    *("as predicted it would do", "with which all that is asked holds"),
)
BANNED = re.compile(rf"\b(?:{'|'.join(WORDS)})\b", re.IGNORECASE)
IN_NAMES = re.compile(r"(?:^|_)(?:told|reckoned|mended|beside|aside|whoever|nobody)(?:_|$)", re.IGNORECASE)
# Words of others: quoted lines of a page, and the deprecated value of the wire where it is named as such.
QUOTED = re.compile(r"^> .*$|`[^`]*`|[\"']reckoned[\"']", re.MULTILINE)
PLACEHOLDER = re.compile(r"(?<![\w.@/])@[A-Z]{3,}\b")
PERCENT = re.compile(r"\d%(?![\w(])")


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def banned_in(text: str) -> list[str]:
    """The words of the list in a text, quotations left out."""
    return BANNED.findall(QUOTED.sub("", text))


def texts_of(path: Path) -> Iterator[tuple[int, str]]:
    """Line and text of every string, docstring and comment of a module."""
    kinds = {tokenize.STRING, tokenize.COMMENT, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
    for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
        if token.type in kinds:
            yield token.start[0], token.string


@pytest.mark.parametrize("path", CODE, ids=named)
def test_code_is_in_plain_english(path: Path) -> None:
    """Strings, docstrings, comments and names."""
    found = [f"{line}: {word}" for line, text in texts_of(path) for word in banned_in(text)]
    for node in ast.walk(ast.parse(path.read_text())):
        name = getattr(node, "name", None) or getattr(node, "id", None) or getattr(node, "arg", None)
        if isinstance(name, str) and IN_NAMES.search(name):
            found.append(f"{getattr(node, 'lineno', 0)}: the name {name}")
    assert found == []


@pytest.mark.parametrize("path", [*PAGES, *SHOWN], ids=named)
def test_documents_and_the_page_are_in_plain_english(path: Path) -> None:
    text = path.read_text()
    assert banned_in(text) == []
    assert PLACEHOLDER.findall(QUOTED.sub("", text)) == []


@pytest.mark.parametrize("path", PAGES, ids=named)
def test_percent_is_written_one_way(path: Path) -> None:
    """With a space before the sign, outside code."""
    text = re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL)
    assert PERCENT.findall(QUOTED.sub("", text)) == []


def test_few_functions_are_named_by_one_word() -> None:
    names = [
        node.name.strip("_")
        for path in CODE
        if path.is_relative_to(ROOT / "app")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("__")
    ]
    assert sum("_" not in name for name in names) < 0.15 * len(names)
