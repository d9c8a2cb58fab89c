"""What docstrings of the core claim: each worked example runs, each formula says its unit and where it is from."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import app.sizing
from app.sizing.assumptions import Assumptions
from app.sizing.columns import GIB, one
from app.sizing.formula import FORMULAS, Formula
from app.sizing.model.formats import WEIGHT_FORMATS
from tests import examples
from tests.catalogued import catalogued

PLAIN_TYPES = {"Column", "Column | float", "Mask", "Codes", "float", "int", "bool", "str"}  # without a meaning
MODULES = [
    app.sizing,
    *(importlib.import_module(m.name) for m in pkgutil.walk_packages(app.sizing.__path__, "app.sizing.")),
]
NAMES: dict[str, Any] = {
    **{name: value for name, value in vars(examples).items() if not name.startswith("_")},
    "catalogued": catalogued,
    "np": np,
    "one": one,
    "GIB": GIB,
    "Assumptions": Assumptions,
    "WEIGHT_FORMATS": WEIGHT_FORMATS,
}


@dataclass(frozen=True, slots=True)
class Documented:
    name: str
    text: str


def plain(value: object) -> object:
    """The function or class that carries the docstring."""
    if isinstance(value, Formula | classmethod | staticmethod):
        wrapped: object = getattr(value, "function", None) or getattr(value, "__func__", None)
        return wrapped
    if isinstance(value, property):
        return value.fget
    return value.func if isinstance(value, cached_property) else value


def documented(module: ModuleType) -> Iterator[Documented]:
    """A module's own docstring and those of what it defines, methods and properties included."""

    def of(owner: object, path: str) -> Iterator[Documented]:
        for name, value in vars(owner).items():
            found = plain(value)
            if not (inspect.isfunction(found) or inspect.isclass(found)) or found.__module__ != module.__name__:
                continue
            yield Documented(f"{path}.{name}", found.__doc__ or "")
            if inspect.isclass(found):
                yield from of(found, f"{path}.{name}")

    yield Documented(module.__name__, module.__doc__ or "")
    yield from of(module, module.__name__)


DOCUMENTED = [d for module in MODULES for d in documented(module)]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_a_worked_example_gives_what_it_says(module: ModuleType) -> None:
    said: list[str] = []
    for found in documented(module):
        if ">>>" in found.text:
            names = {**NAMES, **vars(module)}
            example = doctest.DocTestParser().get_doctest(found.text, names, found.name, module.__file__, 0)
            doctest.DocTestRunner(verbose=False).run(example, out=said.append)
    assert not said, "".join(said)


def test_every_check_is_a_worked_example() -> None:
    prose = [d.name for d in DOCUMENTED if "Check:" in d.text and ">>>" not in d.text]
    assert prose == []


def test_a_formula_says_its_unit_and_its_source() -> None:
    assert FORMULAS
    assert [f.name for f in FORMULAS.values() if not (f.function.__doc__ and f.unit and f.source and f.text)] == []


def test_every_parameter_of_a_formula_is_documented_in_one_place() -> None:
    """By the class of its records, by the formula of its name in the package, or by a line in signature order."""
    assert MODULES
    packages = [formula.function.__module__.split(".")[2] for formula in FORMULAS.values()]
    made = set(zip(packages, (formula.name for formula in FORMULAS.values()), strict=True))
    for package, formula in zip(packages, FORMULAS.values(), strict=True):
        text = inspect.getdoc(formula.function) or ""
        section = re.search(r"^Parameters:\n((?: {4}.*\n?)+)", text, re.MULTILINE)
        listed = re.findall(r"^ {4}(\w+): \S", section[1] if section else "", re.MULTILINE)
        parameters = inspect.signature(formula.function).parameters
        elsewhere = {p for p in parameters if (package, p) in made or str(parameters[p].annotation) not in PLAIN_TYPES}
        assert listed == [p for p in parameters if p in listed or p not in elsewhere], formula.name
        assert "Source:" not in text, formula.name
