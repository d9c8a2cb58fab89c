"""House rules that no linter checks: how long files and functions may be."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROOMS = ("app", "calibration", "tests", "benchmarks", "artefacts")
FILES = sorted(p for room in ROOMS for p in (ROOT / room).rglob("*.py"))
MAX_FILE_LINES = 1000
MAX_FUNCTION_LINES = 54  # docstring not counted


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def lines_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function without its docstring."""
    first = function.body[0]
    is_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    docstring = (first.end_lineno or 0) - first.lineno + 1 if is_docstring else 0
    return (function.end_lineno or 0) - function.lineno + 1 - docstring


def test_no_file_is_longer_than_a_reader_holds() -> None:
    assert [named(p) for p in FILES if len(p.read_text().splitlines()) > MAX_FILE_LINES] == []


def test_no_function_is_longer_than_a_screen() -> None:
    assert [f"{named(p)}: {f.name}" for p in FILES for f in functions(p) if lines_of(f) > MAX_FUNCTION_LINES] == []


def test_nothing_is_postponed_and_the_formatter_is_never_switched_off() -> None:
    words = re.compile("|".join(("fmt: ?" + "skip", r"\bTO" + r"DO\b", r"\bFIX" + r"ME\b")))
    assert [named(p) for p in FILES if words.search(p.read_text())] == []
