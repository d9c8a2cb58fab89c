"""The formulas of the core as a reader looks for them: what each says of itself, where it is, which test holds it."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import app.sizing
from app.sizing.formula import FORMULAS, Formula

ROOT = Path(__file__).resolve().parents[1]
# Reading order of rooms and of the files in them; a file that is not named here follows by name.
ROOMS = ("model", "hardware", "decisions", "serving", "training", "answer")
READ_FIRST = (
    *("tensors", "formats", "architecture", "parts", "links", "engines", "support", "achieved"),
    *("machines", "ownership", "cost", "placement", "ranking", "rejections"),
    *("plans", "recipes", "ranks", "counts", "work", "traffic", "activations", "memory"),
    *("communication", "step", "prefill", "load", "single_pass", "run", "scaling", "maximum", "search"),
)
SECTION = re.compile(r"\b(Source|Limits|Check):")


@dataclass(frozen=True, slots=True)
class Told:
    """A formula with the parts of its docstring."""

    formula: Formula[Any, Any]
    summary: str
    source: str
    limits: str
    check: str

    @property
    def name(self) -> str:
        return self.formula.name

    @property
    def module(self) -> str:
        return self.formula.function.__module__

    @property
    def room(self) -> str:
        return self.module.split(".")[2]

    @property
    def path(self) -> str:
        return self.module.replace(".", "/") + ".py"

    @property
    def line(self) -> int:
        """Where it stands in its file."""
        return self.formula.function.__code__.co_firstlineno


def told(formula: Formula[Any, Any]) -> Told:
    """Its docstring, taken apart."""
    text = inspect.getdoc(formula.function) or ""
    parts = SECTION.split(text)
    found = {name: body.strip() for name, body in zip(parts[1::2], parts[2::2], strict=True)}
    source, limits = (" ".join(found.get(name, "").split()) for name in ("Source", "Limits"))
    return Told(formula, " ".join(parts[0].split()), source.rstrip("."), limits.rstrip("."), found.get("Check", ""))


@cache
def modules() -> tuple[str, ...]:
    """Every module of the core in reading order, the ground last; importing them registers their formulas."""
    names = [m.name for m in pkgutil.walk_packages(app.sizing.__path__, "app.sizing.")]
    for name in names:
        importlib.import_module(name)
    return tuple(sorted(names, key=reading_order))


def reading_order(module: str) -> tuple[int, int, str]:
    room, _, file = module.removeprefix("app.sizing.").partition(".")
    last = file.rpartition(".")[2]
    place = -1 if not file else READ_FIRST.index(last) if last in READ_FIRST else len(READ_FIRST)
    return ROOMS.index(room) if room in ROOMS else len(ROOMS), place, file or room


@cache
def all_told() -> tuple[Told, ...]:
    """Every formula, in reading order of the files and in the order that each file has them."""
    modules()
    found = [told(f) for f in FORMULAS.values() if f.function.__module__.startswith("app.sizing.")]
    return tuple(sorted(found, key=lambda t: (reading_order(t.module), t.line)))


@dataclass(frozen=True, slots=True)
class Test:
    """One test of the core: where it is, and what it names of which module."""

    path: str
    name: str
    names: frozenset[str]
    attributes: frozenset[str]
    imported: frozenset[tuple[str, str]]

    def is_of(self, formula: Told) -> bool:
        """Whether it calls the formula, or reads what is called so from an answer of the formula's room."""
        called = formula.name in self.names and (formula.module, formula.name) in self.imported
        return called or (self.path.startswith(f"tests/sizing/{formula.room}/") and formula.name in self.attributes)


@cache
def tests() -> tuple[Test, ...]:
    """Every test function of the core."""
    found = []
    for path in sorted((ROOT / "tests" / "sizing").rglob("test_*.py")):
        tree = ast.parse(path.read_text())
        imports = [n for n in tree.body if isinstance(n, ast.ImportFrom)]
        imported = frozenset((n.module or "", a.name) for n in imports for a in n.names)
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                names = frozenset(n.id for n in ast.walk(node) if isinstance(n, ast.Name))
                attributes = frozenset(n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute))
                found.append(Test(path.relative_to(ROOT).as_posix(), node.name, names, attributes, imported))
    return tuple(found)


def tests_of(formula: Told) -> list[str]:
    """Tests of its own room first; then the worked example of its docstring, which runs as one."""
    naming = [t for t in tests() if t.is_of(formula)]
    naming.sort(key=lambda t: (not t.path.startswith(f"tests/sizing/{formula.room}/"), formula.name not in t.names))
    worked = ["tests/sizing/test_checks.py (the worked example)"] if ">>>" in formula.check else []
    return [f"{t.path}::{t.name}" for t in naming] + worked


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a table or record, and what stands beside it."""

    name: str
    owner: str
    owner_words: str
    type: str
    words: str
    path: str


@cache
def columns() -> tuple[Field, ...]:
    """Every field and property of the core's tables and records, in reading order."""
    found: list[Field] = []
    for module in modules():
        path = Path(module.replace(".", "/"))
        file = path / "__init__.py" if (ROOT / path).is_dir() else path.with_suffix(".py")
        found.extend(fields_of(file))
    return tuple(found)


def fields_of(file: Path) -> Iterator[Field]:
    """The fields of a file's classes: words are the comment on the field's line, or a property's docstring."""
    text = (ROOT / file).read_text()
    lines = text.splitlines()
    for owner in (n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.ClassDef)):
        about = " ".join((ast.get_docstring(owner) or "").partition("\n\n")[0].split())
        for node in owner.body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                words = lines[(node.end_lineno or 1) - 1][node.end_col_offset or 0 :].partition("#")[2].strip()
                yield Field(node.target.id, owner.name, about, ast.unparse(node.annotation), words, file.as_posix())
            elif isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                words = " ".join((ast.get_docstring(node) or "").partition("\n\n")[0].split())
                returns = ast.unparse(node.returns) if node.returns else ""
                yield Field(node.name, owner.name, about, returns, words, file.as_posix())


@cache
def owners() -> dict[str, frozenset[str]]:
    """The tables and records that formulas read a name from, by the name."""
    found: dict[str, set[str]] = {}
    for formula in all_told():
        parameters = inspect.signature(formula.formula.function).parameters
        for name, (argument, attribute) in formula.formula.inputs.items():
            if attribute is not None:
                found.setdefault(name, set()).add(str(parameters[argument].annotation))
    return {name: frozenset(types) for name, types in found.items()}


def field_named(name: str) -> Field | None:
    """What a name is a field of: of what formulas read it from, else of anything, the one that says most first."""
    same = [f for f in columns() if f.name == name]
    same.sort(key=lambda f: (f.owner not in owners().get(name, frozenset()), not f.words))
    return same[0] if same else None
