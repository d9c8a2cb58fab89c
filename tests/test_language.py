"""The word list: what a person reads is plain technical English, without the words of a private dialect."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

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
IN_NAMES = re.compile(r"(?<![^\W_])(?:told|reckoned|mended|beside|aside|whoever|nobody)(?![^\W_])", re.IGNORECASE)
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


def names_in(source: str) -> list[str]:
    """The names that a module defines or reads."""
    nodes = ast.walk(ast.parse(source))
    names = (getattr(n, "name", None) or getattr(n, "id", None) or getattr(n, "arg", None) for n in nodes)
    return [name for name in names if isinstance(name, str)]


def test_code_is_in_plain_english() -> None:
    """Strings, docstrings, comments and names."""
    found = []
    for path in CODE:
        source = path.read_text()
        if BANNED.search(source):
            found += [f"{named(path)}:{line}: {word}" for line, text in texts_of(path) for word in banned_in(text)]
        if IN_NAMES.search(source):
            found += [f"{named(path)}: the name {name}" for name in names_in(source) if IN_NAMES.search(name)]
    assert found == []


def test_the_words_are_found_in_texts_and_names(tmp_path: Path) -> None:
    path = tmp_path / "sample.py"
    path.write_text('def was_told(x):\n    """Do it.\n\n    Beside `told`."""\n    return x  # so many\n')
    assert [word for _, text in texts_of(path) for word in banned_in(text)] == ["Beside", "so many"]
    assert [name for name in names_in(path.read_text()) if IN_NAMES.search(name)] == ["was_told"]
    assert IN_NAMES.search(path.read_text())


def test_documents_and_the_page_are_in_plain_english() -> None:
    for path in (*PAGES, *SHOWN):
        text = QUOTED.sub("", path.read_text())
        assert BANNED.findall(text) + PLACEHOLDER.findall(text) == [], named(path)


def test_percent_is_written_one_way() -> None:
    """With a space before the sign, outside code."""
    for path in PAGES:
        text = re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL)
        assert PERCENT.findall(QUOTED.sub("", text)) == [], named(path)


def test_few_functions_are_named_by_one_word() -> None:
    defined = re.compile(r"^ *(?:async )?def (?!__)_*(\w+)", re.MULTILINE)
    names = [name for path in CODE if path.is_relative_to(ROOT / "app") for name in defined.findall(path.read_text())]
    assert sum("_" not in name for name in names) < 0.15 * len(names)
