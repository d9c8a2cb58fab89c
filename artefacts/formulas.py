"""Reads the formulas of `app/sizing` for the documentation: docstrings, locations, tests, and fields of tables."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import app.sizing
from app.sizing.formula import FORMULAS, Formula, _ExpressionReader

ROOT = Path(__file__).resolve().parents[1]
# Reading order of the packages of `app/sizing` and of the files in them; files that are not listed follow by name.
ROOMS = ("model", "hardware", "decisions", "serving", "training", "answer")
READ_FIRST = (
    *("tensors", "formats", "architecture", "parts", "engines", "support", "achieved"),
    *("machines", "ownership", "cost", "placement", "ranking", "rejections"),
    *("plans", "recipes", "counts", "work", "traffic", "layer", "activations", "loss", "offload", "memory"),
    *(
        "host_weights",
        "collectives",
        "step",
        "prefill",
        "continuous_batching",
        "steady_state",
        "capacity",
        "load_curves",
    ),
    *("single_pass", "run", "scaling", "search"),
)
SECTION = re.compile(r"^(Parameters|Limits|Check):", re.MULTILINE)
PARAMETER = re.compile(r"^(\w+): ")


class NamedConstantReader(_ExpressionReader):
    """Reads the expression of a formula, with the names of constants instead of their values."""

    def __init__(self, function: Callable[..., Any], constants: dict[str, float]) -> None:
        super().__init__(function)
        self.constants = constants

    def visit_Name(self, node: ast.Name) -> ast.expr:  # noqa: N802  (a name of `ast.NodeTransformer`)
        value = self.function.__globals__.get(node.id)
        if node.id in self.local or node.id in self.arguments or not isinstance(value, int | float):
            return super().visit_Name(node)
        if self.constants.setdefault(node.id, value) != value:
            raise TypeError(f"{self.function.__qualname__}: two constants are called {node.id}")
        return node

    def inline_formula(self, other: Formula[..., Any], node: ast.Call) -> ast.expr:
        reader = NamedConstantReader(other.function, self.constants)
        names = list(inspect.signature(other.function).parameters)
        given: dict[str, ast.expr] = dict(zip(names, (self.visit(a) for a in node.args), strict=False))
        given |= {k.arg: self.visit(k.value) for k in node.keywords if k.arg is not None}
        reader.local, reader.arguments = given, set()
        return reader.build_expression()


@dataclass(frozen=True, slots=True)
class FormulaDoc:
    """A formula with the sections of its docstring."""

    formula: Formula[Any, Any]
    text: str  # its arithmetic, with the names of constants
    constants: Mapping[str, float]  # their values
    summary: str
    parameters: Mapping[
        str, str
    ]  # meaning of each parameter that is documented here, with its unit after the last comma
    limits: str
    check: str

    @property
    def name(self) -> str:
        return self.formula.name

    @property
    def source(self) -> str:
        """Citation or rule, as the decorator states it."""
        return self.formula.source.rstrip(".")

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
        """Line number in its file."""
        return self.formula.function.__code__.co_firstlineno


def read_docstring(formula: Formula[Any, Any]) -> FormulaDoc:
    """Splits the docstring of a formula into its sections."""
    text = inspect.getdoc(formula.function) or ""
    parts = SECTION.split(text)
    sections = {name: body.strip("\n") for name, body in zip(parts[1::2], parts[2::2], strict=True)}
    limits = " ".join(sections.get("Limits", "").split()).rstrip(".")
    check = textwrap.dedent(sections.get("Check", "").lstrip(" ")).strip()
    constants: dict[str, float] = {}
    return FormulaDoc(
        formula=formula,
        text=NamedConstantReader(formula.function, constants).read_formula()[0],
        constants=constants,
        summary=" ".join(parts[0].split()),
        parameters=parameters_in(sections.get("Parameters", "")),
        limits=limits,
        check=check,
    )


def parameters_in(section: str) -> dict[str, str]:
    """Meaning of each parameter from a `Parameters:` section; indented lines continue the one above."""
    meanings: dict[str, str] = {}
    name = ""
    for line in textwrap.dedent(section).splitlines():
        if start := PARAMETER.match(line):
            name = start[1]
            meanings[name] = line[start.end() :].strip()
        elif line.strip() and name:
            meanings[name] += f" {line.strip()}"
    return {name: meaning.rstrip(".") for name, meaning in meanings.items()}


@cache
def core_modules() -> tuple[str, ...]:
    """Every module of `app/sizing` in reading order; importing them registers their formulas."""
    names = [m.name for m in pkgutil.walk_packages(app.sizing.__path__, "app.sizing.")]
    for name in names:
        importlib.import_module(name)
    return tuple(sorted(names, key=reading_order))


def reading_order(module: str) -> tuple[int, int, str]:
    """Sort key of a module: its package, its listed position, its name."""
    room, _, file = module.removeprefix("app.sizing.").partition(".")
    last = file.rpartition(".")[2]
    place = -1 if not file else READ_FIRST.index(last) if last in READ_FIRST else len(READ_FIRST)
    return ROOMS.index(room) if room in ROOMS else len(ROOMS), place, file or room


@cache
def all_formulas() -> tuple[FormulaDoc, ...]:
    """Every formula, in the reading order of the files and the order of definition within a file."""
    core_modules()
    docs = [read_docstring(f) for f in FORMULAS.values() if f.function.__module__.startswith("app.sizing.")]
    return tuple(sorted(docs, key=lambda t: (reading_order(t.module), t.line)))


@dataclass(frozen=True, slots=True)
class Test:
    """One test of the core: its file, and the names, attributes and imports that it uses."""

    path: str
    name: str
    names: frozenset[str]
    attributes: frozenset[str]
    imported: frozenset[tuple[str, str]]

    def is_of(self, formula: FormulaDoc) -> bool:
        """True if it calls the formula, or is in the same package and reads an attribute of that name."""
        called = formula.name in self.names and (formula.module, formula.name) in self.imported
        return called or (self.path.startswith(f"tests/sizing/{formula.room}/") and formula.name in self.attributes)


@cache
def core_tests() -> tuple[Test, ...]:
    """Every test function under `tests/sizing`."""
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


def tests_of(formula: FormulaDoc) -> list[str]:
    """Tests that use a formula, those of its own package first; last the doctest of its docstring."""
    naming = [t for t in core_tests() if t.is_of(formula)]
    naming.sort(key=lambda t: (not t.path.startswith(f"tests/sizing/{formula.room}/"), formula.name not in t.names))
    worked = ["tests/sizing/test_checks.py (the worked example)"] if ">>>" in formula.check else []
    return [f"{t.path}::{t.name}" for t in naming] + worked


@dataclass(frozen=True, slots=True)
class Field:
    """A field or property of a table or record."""

    name: str
    owner: str  # class
    type: str  # annotation
    words: str  # comment on the field's line, or first paragraph of a property's docstring
    path: str


@cache
def all_fields() -> tuple[Field, ...]:
    """Every field and property of the classes of `app/sizing`, in reading order."""
    fields: list[Field] = []
    for module in core_modules():
        path = Path(module.replace(".", "/"))
        file = path / "__init__.py" if (ROOT / path).is_dir() else path.with_suffix(".py")
        fields.extend(fields_of(file))
    return tuple(fields)


def fields_of(file: Path) -> Iterator[Field]:
    """The fields and properties of the classes in a file."""
    text = (ROOT / file).read_text()
    lines = text.splitlines()
    for owner in (n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.ClassDef)):
        for node in owner.body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                words = lines[(node.end_lineno or 1) - 1][node.end_col_offset or 0 :].partition("#")[2].strip()
                yield Field(node.target.id, owner.name, ast.unparse(node.annotation), words, file.as_posix())
            elif isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                words = " ".join((ast.get_docstring(node) or "").partition("\n\n")[0].split())
                returns = ast.unparse(node.returns) if node.returns else ""
                yield Field(node.name, owner.name, returns, words, file.as_posix())


@cache
def owners_by_name() -> dict[str, frozenset[str]]:
    """For each name, the tables and records from which formulas read it."""
    found: dict[str, set[str]] = {}
    for formula in all_formulas():
        parameters = inspect.signature(formula.formula.function).parameters
        for name, (argument, attribute) in formula.formula.inputs.items():
            if attribute is not None:
                found.setdefault(name, set()).add(str(parameters[argument].annotation))
    return {name: frozenset(types) for name, types in found.items()}


def field_named(name: str) -> Field | None:
    """The field of that name: of a table that formulas read, else of any class; one with a comment first."""
    same = [f for f in all_fields() if f.name == name]
    same.sort(key=lambda f: (f.owner not in owners_by_name().get(name, frozenset()), not f.words))
    return same[0] if same else None
