"""docs/engine.md: every formula by room and file, from the docstrings and the code itself."""

from __future__ import annotations

import inspect
import re
import sys
import textwrap
from collections.abc import Iterator

import app.calibration
from artefacts import nomenclature
from artefacts.formulas import ROOMS, ROOT, Told, all_told, modules, tests_of

WIDTH = 116
RECOMPUTED = "tests/sizing/test_trace.py (as a line of a trace)"
HEAD = """# The engine, formula by formula

Written by `make artefacts` from the docstrings and the code of `app/sizing`; a formula that changes changes this page.
Each formula stands under the file that holds it, with the unit of its value, the arithmetic read from its own source
(intermediate names written out), what it rests on, where it stops being true, and the tests that name it. Its line in a
trace (`"trace": true` in a request) carries its name. Symbols are explained in [nomenclature.md](nomenclature.md); ten
of these formulas, each with its test and its trace line, are walked to in [walk.md](walk.md); how far the whole is
from published results is in [accuracy.md](accuracy.md)."""


def wrapped(text: str, indent: str = "") -> str:
    """One paragraph in the page's width."""
    return textwrap.fill(
        text, WIDTH, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def paragraphs(docstring: str) -> str:
    """A module's docstring as it stands: paragraphs filled, lists and code kept."""
    found = []
    for block in docstring.split("\n\n"):
        keep = block.startswith((" ", "-", "|")) or "\n-" in block or "Check:" in block
        found.append(block if keep else wrapped(" ".join(block.split())))
    return "\n\n".join(found)


def arithmetic(told: Told) -> str:
    """Name and expression, broken at spaces."""
    return textwrap.fill(
        f"{told.name} = {told.formula.text}",
        WIDTH - 4,
        initial_indent="    ",
        subsequent_indent="        ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def checked(check: str) -> str:
    """The worked example, as code."""
    body = textwrap.dedent(re.sub(r"^(?=>>>)", "    ", check, count=1)) if not check.startswith(">>>") else check
    lines = [line.strip() for line in body.splitlines() if line.strip()]
    return "\n".join(f"    {line}" for line in lines)


def entry(told: Told) -> str:
    """One formula."""
    source = told.source if told.source else told.formula.source
    rests = f"Source: {source}." + (f" Limits: {told.limits}." if told.limits else "")
    tests = ", ".join(f"`{t}`" for t in tests_of(told)[:3] or [RECOMPUTED])
    where = wrapped(f"`{told.path}:{told.name}`; tests: {tests}")
    found = [f"### {told.name} [{told.formula.unit}]", wrapped(told.summary), arithmetic(told), wrapped(rests)]
    if ">>>" in told.check:
        found.append(checked(told.check))
    return "\n\n".join([*found, where])


def blocks() -> Iterator[str]:
    yield HEAD
    by_module: dict[str, list[Told]] = {}
    for told in all_told():
        by_module.setdefault(told.module, []).append(told)
    for module in modules():
        path, words = module.replace(".", "/"), inspect.getdoc(sys.modules[module]) or ""
        if module.removeprefix("app.sizing.") in ROOMS:
            yield f"# `{path}/`\n\n{paragraphs(words)}".rstrip()
        elif module in by_module:
            yield f"## `{path}.py`\n\n{paragraphs(words)}"
            yield from (entry(t) for t in by_module[module])
        elif module.split(".")[2] in ROOMS and words and not hasattr(sys.modules[module], "__path__"):
            first = words.partition("\n\n")[0]
            yield wrapped(f"`{path}.py`: {' '.join(first.split())}")
    yield f"# `app/calibration/`\n\n{paragraphs(inspect.getdoc(app.calibration) or '')}"


def page() -> str:
    return "\n\n".join(blocks()) + "\n"


def write() -> None:
    """Both pages of the docstrings."""
    (ROOT / "docs" / "engine.md").write_text(page())
    (ROOT / "docs" / "nomenclature.md").write_text(nomenclature.page())
