"""docs/engine.md: every formula by package and file, from its docstring and its code."""

from __future__ import annotations

import inspect
import sys
import textwrap
from collections.abc import Iterator
from itertools import groupby

import calibration
from app.api.guide import anchor_of
from artefacts import nomenclature
from artefacts.formulas import ROOMS, ROOT, FormulaDoc, all_formulas, core_modules, tests_of

WIDTH = 116
RECOMPUTED = "tests/sizing/test_trace.py (as a line of a trace)"
HEAD = """# The engine, formula by formula

`make artefacts` writes this page from the docstrings and the code of `app/sizing`. Each formula is listed under its
file, with the unit of its value, the arithmetic read from its source code (intermediate names are expanded), its
parameters, source, validity limits, a worked example, and the tests that use it. A trace (`"trace": true` in a request)
shows each formula under the same name, with numbers in place of the constants. [nomenclature.md](nomenclature.md)
explains the symbols: search it for a word of the meaning. [accuracy.md](accuracy.md) compares predictions with
published results."""


def fill_paragraph(text: str) -> str:
    """One paragraph, filled to the width of the page."""
    return textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False)


def fill_docstring(docstring: str) -> str:
    """A module's docstring: paragraphs are filled, lists and code are kept as they are."""
    kept = []
    for block in docstring.split("\n\n"):
        keep = block.startswith((" ", "-", "|")) or "\n-" in block or "Check:" in block
        kept.append(block if keep else fill_paragraph(" ".join(block.split())))
    return "\n\n".join(kept)


def formula_text(doc: FormulaDoc) -> str:
    """Name and expression of a formula, broken at spaces."""
    return textwrap.fill(
        f"{doc.name} = {doc.text}",
        WIDTH - 4,
        initial_indent="    ",
        subsequent_indent="        ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def parameter_list(doc: FormulaDoc) -> str:
    names = inspect.signature(doc.formula.function).parameters
    return "\n".join(fill_item(f"- `{name}`: {parameter_meaning(doc, name)}") for name in names)


def parameter_meaning(doc: FormulaDoc, name: str) -> str:
    """What a parameter means: its own line, else the summary of the formula or of the record that it is."""
    if name in doc.parameters:
        return doc.parameters[name]
    formula = next((f for f in all_formulas() if f.name == name and f.room == doc.room), None)
    annotation = str(inspect.signature(doc.formula.function).parameters[name].annotation)
    summary = formula.summary if formula else doc.formula.function.__globals__[annotation].__doc__
    meaning = nomenclature.first_sentence(" ".join(summary.partition("\n\n")[0].split()))
    meaning = meaning[0].lower() + meaning[1:] if meaning[1:2].islower() else meaning
    return f"{meaning}, {formula.formula.unit}" if formula and formula.formula.unit != "1" else meaning


def fill_item(item: str) -> str:
    """One list item, filled to the width of the page."""
    return textwrap.fill(item, WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def check_text(check: str) -> str:
    """The worked example: its prose as a paragraph, its doctest as code."""
    lines = [line.strip() for line in check.splitlines() if line.strip()]
    start = next((i for i, line in enumerate(lines) if line.startswith(">>>")), len(lines))
    prose = fill_paragraph(" ".join(["Check:", *lines[:start]]))
    return "\n\n".join(filter(None, (prose, "\n".join(f"    {line}" for line in lines[start:]))))


def constant_values(doc: FormulaDoc) -> str:
    """The values of the constants in a formula, as a trace shows them."""
    pairs = (f"`{name}` = {int(v) if float(v).is_integer() else v}" for name, v in doc.constants.items())
    return fill_paragraph(f"Constants: {', '.join(pairs)}.") if doc.constants else ""


def formula_heading(doc: FormulaDoc) -> str:
    """Name and unit of a formula, with its file where another formula has the same name."""
    shared = sum(other.name == doc.name for other in all_formulas()) > 1
    file = doc.path.removeprefix("app/sizing/").removesuffix(".py")
    return f"{doc.name} ({file}) [{doc.formula.unit}]" if shared else f"{doc.name} [{doc.formula.unit}]"


def formula_index() -> str:
    """Links to all formulas, by package and file."""
    rows = ["## Contents", "| package | file | formulas |\n| --- | --- | --- |"]
    for path, docs in groupby(all_formulas(), key=lambda doc: doc.path):
        package, _, file = path.removeprefix("app/sizing/").rpartition("/")
        links = ", ".join(f"[{doc.name}](#{anchor_of(formula_heading(doc))})" for doc in docs)
        rows[-1] += f"\n| {package or 'sizing'} | {file} | {links} |"
    return "\n\n".join(rows)


def formula_section(doc: FormulaDoc) -> str:
    source = f"Source: {doc.source}." + (f" Limits: {doc.limits}." if doc.limits else "")
    tests = ", ".join(f"`{t}`" for t in tests_of(doc)[:3] or [RECOMPUTED])
    where = fill_paragraph(f"`{doc.path}:{doc.name}`; tests: {tests}")
    parts = [
        f"### {formula_heading(doc)}",
        fill_paragraph(doc.summary),
        formula_text(doc),
        constant_values(doc),
        parameter_list(doc),
    ]
    parts += [fill_paragraph(source), check_text(doc.check) if doc.check else "", where]
    return "\n\n".join(filter(None, parts))


def page_parts() -> Iterator[str]:
    yield HEAD
    yield formula_index()
    by_module: dict[str, list[FormulaDoc]] = {}
    for doc in all_formulas():
        by_module.setdefault(doc.module, []).append(doc)
    for module in core_modules():
        path, words = module.replace(".", "/"), inspect.getdoc(sys.modules[module]) or ""
        if module.removeprefix("app.sizing.") in ROOMS:
            yield f"# `{path}/`\n\n{fill_docstring(words)}".rstrip()
        elif module in by_module:
            yield f"## `{path}.py`\n\n{fill_docstring(words)}"
            yield from (formula_section(t) for t in by_module[module])
        elif module.split(".")[2] in ROOMS and words and not hasattr(sys.modules[module], "__path__"):
            first = words.partition("\n\n")[0]
            yield fill_paragraph(f"`{path}.py`: {' '.join(first.split())}")
    yield f"# `calibration/`\n\n{fill_docstring(inspect.getdoc(calibration) or '')}"


def page() -> str:
    return "\n\n".join(page_parts()) + "\n"


def write() -> None:
    """Writes docs/engine.md and docs/nomenclature.md."""
    (ROOT / "docs" / "engine.md").write_text(page())
    (ROOT / "docs" / "nomenclature.md").write_text(nomenclature.page())
