"""What a program is made of, as far as it can change a number: the definitions it reaches, without their words.

Starting from a few modules, every function, class and constant of the repository that they name is followed to where
it is defined. Comments, docstrings, annotations of arguments, formatting, and where a definition stands do not count.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
Definition = tuple[str, str]  # module, name
# Keywords of a record or a formula that only say where a number is from.
WORDS = frozenset({"source", "reason", "unit", "as_of", "description"})


@dataclass
class Module:
    """One file: what it defines at its top, and what it imports from the repository."""

    path: Path
    defined: dict[str, list[ast.stmt]] = field(default_factory=dict)
    imported: dict[str, Definition] = field(default_factory=dict)
    loose: list[ast.stmt] = field(default_factory=list)  # statements that run and define nothing

    @cached_property
    def names(self) -> dict[str, set[Definition]]:
        """What each definition names, resolved as far as this file says."""
        return {name: {found for node in nodes for found in self.named(node)} for name, nodes in self.defined.items()}

    def named(self, node: ast.AST) -> Iterator[Definition]:
        """(module, name) of everything of the repository that a piece of code names; "" is this module."""
        for part in ast.walk(node):
            if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id in self.imported:
                module, name = self.imported[part.value.id]
                yield f"{module}.{name}", part.attr
            if isinstance(part, ast.Name):
                yield self.imported.get(part.id, ("", part.id))
            elif isinstance(part, ast.Constant) and isinstance(part.value, str) and part.value.isidentifier():
                yield self.imported.get(part.value, ("", part.value))  # an annotation in quotes


def read(path: Path) -> Module:
    module = Module(path)
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            module.imported |= {a.asname or a.name: (node.module, a.name) for a in node.names}
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            module.defined.setdefault(node.name, []).append(node)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in (t for each in targets for t in ast.walk(each) if isinstance(t, ast.Name)):
                module.defined.setdefault(target.id, []).append(node)
        elif not isinstance(node, ast.Import | ast.Expr) or isinstance(getattr(node, "value", None), ast.Call):
            module.loose.append(node)
    return module


class Sources:
    """The repository's modules by their dotted names, read once."""

    def __init__(self, root: Path = ROOT) -> None:
        self.root = root
        self.modules: dict[str, Module | None] = {}

    def module(self, name: str) -> Module | None:
        if name not in self.modules:
            path = self.root.joinpath(*name.split("."))
            found = next((p for p in (path.with_suffix(".py"), path / "__init__.py") if p.is_file()), None)
            self.modules[name] = read(found) if found is not None else None
        return self.modules[name]

    def reached(self, roots: Iterable[str]) -> dict[Definition, list[ast.stmt]]:
        """Every definition that the roots' own lead to."""
        found: dict[Definition, list[ast.stmt]] = {}
        touched: set[str] = set()
        open_: list[Definition] = []
        for root in roots:
            module = self.module(root)
            assert module is not None, root
            open_.extend((root, name) for name in module.defined)
        while open_:
            where, name = open_.pop()
            module = self.module(where)
            if module is None or (where, name) in found:
                continue
            if where not in touched:
                touched.add(where)
                open_.extend((m or where, n) for node in module.loose for m, n in module.named(node))
                found[where, ""] = module.loose
            if name in module.imported:  # handed on
                open_.append(module.imported[name])
            elif name in module.defined:
                found[where, name] = module.defined[name]
                open_.extend((m or where, n) for m, n in module.names[name])
        return found

    def digest(self, roots: Iterable[str]) -> str:
        """Of what the roots compute; where a definition stands, and its words, do not enter."""
        return digest_of(node for nodes in self.reached(roots).values() for node in nodes)

    def own(self, modules: Iterable[str]) -> str:
        """Of what the modules define themselves, likewise."""
        found = [module for name in modules if (module := self.module(name)) is not None]
        return digest_of(node for module in found for nodes in module.defined.values() for node in nodes)


def digest_of(nodes: Iterable[ast.stmt]) -> str:
    dumps = {silent(node) for node in nodes}
    return hashlib.sha256("\n".join(sorted(dumps)).encode()).hexdigest()[:16]


@cache
def silent(node: ast.AST) -> str:
    """A piece of code without what cannot change a number: docstrings, annotations of a signature, where a number is
    from.
    """
    parts = [type(node).__name__]
    for name, value in ast.iter_fields(node):
        if name in ("ctx", "returns", "type_comment", "kind") or (name == "annotation" and isinstance(node, ast.arg)):
            continue
        if isinstance(value, list):
            parts.append(f"[{' '.join(silent(v) if isinstance(v, ast.AST) else str(v) for v in value if counts(v))}]")
        else:
            parts.append(silent(value) if isinstance(value, ast.AST) else repr(value))
    return f"({' '.join(parts)})"


def counts(node: object) -> bool:
    """Whether a piece of code can change a number."""
    if isinstance(node, ast.keyword):
        return node.arg not in WORDS or not isinstance(node.value, ast.Constant)
    return not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)) and not isinstance(node, ast.Pass)
