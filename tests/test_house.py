"""House rules that a linter does not know: how long things may be, and where a module's tests are."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILES = sorted(p for room in ("app", "tests", "benchmarks", "artefacts") for p in (ROOT / room).rglob("*.py"))
MOST_LINES_OF_A_FILE = 400
MOST_LINES_OF_A_FUNCTION = 50

# What still has to be split; nothing may join, and at the end nothing is left.
LONG_FILES: set[str] = set()
LONG_FUNCTIONS: set[str] = set()


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_no_file_is_longer_than_a_reader_holds() -> None:
    long = {named(p) for p in FILES if len(p.read_text().splitlines()) > MOST_LINES_OF_A_FILE}
    assert long <= LONG_FILES


def test_no_function_is_longer_than_a_screen() -> None:
    long = {
        f.name for p in FILES for f in functions(p) if (f.end_lineno or 0) - f.lineno + 1 > MOST_LINES_OF_A_FUNCTION
    }
    assert long <= LONG_FUNCTIONS


def test_nothing_is_postponed_and_the_formatter_is_never_switched_off() -> None:
    words = re.compile("|".join(("fmt: ?" + "skip", r"\bTO" + r"DO\b", r"\bFIX" + r"ME\b")))
    assert [named(p) for p in FILES if words.search(p.read_text())] == []


ROOMS = ("answer", "day", "decisions", "hardware", "model", "pools", "serving", "training")


def test_every_module_of_a_room_has_its_tests_at_the_mirrored_place() -> None:
    missing = [
        named(path)
        for room in ROOMS
        for path in (ROOT / "app" / "sizing" / room).glob("*.py")
        if any(functions(path)) and not (ROOT / "tests" / "sizing" / room / f"test_{path.name}").exists()
    ]
    assert [path for path in missing if not path.endswith("__init__.py")] == []
