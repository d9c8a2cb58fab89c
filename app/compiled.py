"""Prepares before the first request, and caches for later processes: the compiled simulation and the engine version.

Every definition that a few root modules reach (function, class, constant, loose statement) becomes a list of tokens
without names. A local name is its position in its scope; a global name is the digest of its definition; a field, method
or keyword is its position in the class or function that defines it. Where the type of `x` in `x.field` is not evident
(`self`, an annotated parameter, a class), the field stands for all classes that have one of that name, so that renaming
one of several fields of the same name does change the digest.
"""

from __future__ import annotations

import ast
import hashlib
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FunctionType
from typing import cast

from app.sizing.serving.simulation import kernel, native
from app.sizing.serving.simulation.c_source import c_source

ROOT = Path(__file__).resolve().parents[1]
# Rounds of replacing names by digests: functions that differ only this many calls deeper are distinguished.
ROUNDS = 4
# Keywords that only document.
DOCUMENTING = frozenset({"description"})

Definition = tuple[str, str]  # module, name; the name "" stands for a module's loose statements
Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Scope = dict[str, int]  # local name -> position


@dataclass(frozen=True, slots=True)
class Reference:
    """A token that stands for a definition, and for one of its members where `member` is a position."""

    definition: Definition
    member: int | None = None


@dataclass(frozen=True, slots=True)
class Member:
    """A token that stands for a field, method or keyword of a name, of whichever class or function."""

    name: str


Token = str | Reference | Member


@dataclass
class Module:
    """One file: what it defines at its top and what it imports."""

    name: str
    defined: dict[str, list[ast.stmt]] = field(default_factory=dict)
    imported: dict[str, tuple[str, str | None]] = field(default_factory=dict)
    loose: list[ast.stmt] = field(default_factory=list)

    @classmethod
    def parse_file(cls, name: str, path: Path) -> Module:
        module = cls(name)
        tree = ast.parse(path.read_text())
        for node in _walk_statements(tree.body):
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                module.imported |= {a.asname or a.name: (node.module, a.name) for a in node.names}
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    top = alias.name.partition(".")[0]
                    module.imported[alias.asname or top] = (alias.name if alias.asname else top, None)
        for statement in _executed_statements(tree.body):
            names = list(_defined_names(statement))
            for each in names:
                module.defined.setdefault(each, []).append(statement)
            if not names and not isinstance(statement, ast.Import | ast.ImportFrom) and not _is_docstring(statement):
                module.loose.append(statement)
        return module


class CodeBase:
    """The Python modules below a root folder, parsed when they are first needed."""

    def __init__(self, root: Path = ROOT) -> None:
        self.root = root
        self._modules: dict[str, Module | None] = {}
        self._tokens: dict[Definition, list[Token]] = {}
        self._annotated: dict[Definition, set[Definition]] = {}
        self._members: dict[Definition, tuple[str, ...]] = {}

    def find_module(self, name: str) -> Module | None:
        """A module of this code base; None for one from elsewhere."""
        if name not in self._modules:
            path = self.root.joinpath(*name.split("."))
            found = next((p for p in (path.with_suffix(".py"), path / "__init__.py") if p.is_file()), None)
            self._modules[name] = Module.parse_file(name, found) if found is not None else None
        return self._modules[name]

    def resolve_name(self, module: Module, name: str) -> Definition | str:
        """The definition that a global name refers to, or the name of something from elsewhere."""
        if name in module.defined:
            return module.name, name
        if name not in module.imported:
            return f"builtin {name}"
        source, original = module.imported[name]
        if original is None:
            return f"module {source}"
        below = self.find_module(source)
        if below is not None and (original in below.defined or original in below.imported):
            return self.resolve_name(below, original)
        return f"module {source}.{original}"

    def resolve_attribute(self, owner: str, name: str) -> Definition | str:
        """The same of `module.name`, the module given as `resolve_name` returns one."""
        below = self.find_module(owner.removeprefix("module "))
        if below is not None and name in {*below.defined, *below.imported}:
            return self.resolve_name(below, name)
        return f"{owner}.{name}"

    def class_node(self, definition: Definition) -> ast.ClassDef | None:
        """The class of a definition; None where it is something else."""
        module = self.find_module(definition[0])
        nodes = module.defined.get(definition[1], []) if module is not None else []
        return nodes[0] if nodes and isinstance(nodes[0], ast.ClassDef) else None

    def member_position(self, definition: Definition, name: str) -> Reference | None:
        """A member or parameter of a class or function by its position; inherited ones are looked up in the bases."""
        module = self.find_module(definition[0])
        if module is None or definition[1] not in module.defined:
            return None
        node = module.defined[definition[1]][0]
        if definition not in self._members:
            self._members[definition] = _member_names(node)
        names = self._members[definition]
        if name in names:
            return Reference(definition, names.index(name))
        if isinstance(node, ast.ClassDef):
            for base in node.bases:
                found = self.resolve_name(module, base.id) if isinstance(base, ast.Name) else None
                if isinstance(found, tuple) and (inherited := self.member_position(found, name)) is not None:
                    return inherited
        return None

    def tokens_of(self, definition: Definition) -> list[Token]:
        """A definition without its names."""
        if definition not in self._tokens:
            module = self.find_module(definition[0])
            assert module is not None
            nodes = module.defined[definition[1]] if definition[1] else module.loose
            writer = _Writer(self, module)
            for node in nodes:
                writer.write_node(node)
            self._tokens[definition] = writer.tokens
            self._annotated[definition] = writer.annotated
        return self._tokens[definition]

    def reached_from(self, roots: Iterable[str]) -> set[Definition]:
        """Every definition that the roots lead to: modules (`app.main`), or definitions (`app.main:create_app`)."""
        found: set[Definition] = set()
        waiting: list[Definition] = []
        for root in roots:
            name, _, chosen = root.partition(":")
            module = self.find_module(name)
            assert module is not None and (not chosen or chosen in module.defined), root
            waiting.extend((name, each) for each in ([chosen] if chosen else module.defined))
        while waiting:
            definition = waiting.pop()
            if definition in found:
                continue
            found.add(definition)
            tokens = self.tokens_of(definition)
            waiting.extend(token.definition for token in tokens if isinstance(token, Reference))
            waiting.extend(self._annotated[definition])
            if (module := self.find_module(definition[0])) is not None and module.loose:
                waiting.append((definition[0], ""))
        return found

    def digest_from(self, roots: Iterable[str]) -> str:
        """Digest of everything that the roots reach."""
        return self.digest_of(self.reached_from(roots))

    def digest_of_modules(self, modules: Iterable[str]) -> str:
        """Digest of what the modules define themselves."""
        known = [module for name in modules if (module := self.find_module(name)) is not None]
        return self.digest_of({(module.name, name) for module in known for name in module.defined})

    def digest_of(self, definitions: set[Definition]) -> str:
        """Digest of a set of definitions, whatever their names and order; equal definitions count once."""
        members: dict[str, set[tuple[Definition, int]]] = {}
        for definition in definitions:
            if (node := self.class_node(definition)) is not None:
                for place, name in enumerate(_member_names(node)):
                    members.setdefault(name, set()).add((definition, place))
        digests = dict.fromkeys(definitions, "")
        for _ in range(ROUNDS):
            named = {
                name: _hash_parts(sorted(f"{digests[d]}/{place}" for d, place in owners))
                for name, owners in members.items()
            }
            digests = {
                d: _hash_parts(_token_digest(token, digests, named) for token in self.tokens_of(d)) for d in definitions
            }
        return _hash_parts(sorted(set(digests.values())))[:16]


def _token_digest(token: Token, digests: dict[Definition, str], members: dict[str, str]) -> str:
    if isinstance(token, Reference):
        return f"{digests.get(token.definition, '')}/{token.member}"
    if isinstance(token, Member):
        return members.get(token.name, token.name)
    return token


def _hash_parts(parts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _executed_statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module; of `if TYPE_CHECKING` only the part that runs."""
    for statement in body:
        if isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING":
            yield from statement.orelse
        else:
            yield statement


def _defined_names(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield statement.name
    elif isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign):
        for target in statement.targets if isinstance(statement, ast.Assign) else [statement.target]:
            yield from (node.id for node in ast.walk(target) if isinstance(node, ast.Name))


def _member_names(node: ast.stmt) -> tuple[str, ...]:
    """Fields and methods of a class, or parameters of a function, in order."""
    if isinstance(node, ast.ClassDef):
        return tuple(name for statement in node.body for name in _defined_names(statement))
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return tuple(_parameter_names(node))
    return ()


def _parameter_names(node: Function) -> Iterator[str]:
    arguments = node.args
    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        yield argument.arg
    for rest in (arguments.vararg, arguments.kwarg):
        if rest is not None:
            yield rest.arg


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _walk_statements(body: Iterable[ast.stmt]) -> Iterator[ast.AST]:
    """Every statement, handler and match case, those inside others included."""
    for statement in body:
        yield statement
        for part in ("body", "orelse", "finalbody", "handlers", "cases"):
            inner = getattr(statement, part, None)
            if isinstance(inner, list):
                yield from _walk_statements(inner)


def _scope_of(node: ast.AST) -> Scope:
    """Names that a function or comprehension binds, by position."""
    if isinstance(node, ast.Lambda):
        return {name: index for index, name in enumerate(_parameter_names(node))}
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        generators: list[ast.comprehension] = node.generators  # type: ignore[attr-defined]
        names = [name for generator in generators for name in _bound_names(generator.target)]
    else:
        names = [*_parameter_names(node), *_bound_in(node.body)]
    return {name: index for index, name in enumerate(dict.fromkeys(names))}


def _bound_in(body: Iterable[ast.AST]) -> Iterator[str]:
    """Names that statements bind, in order; bodies of functions and classes are scopes of their own."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
            continue
        if isinstance(node, ast.ExceptHandler) and node.name is not None:
            yield node.name
        for name, value in ast.iter_fields(node):
            if name in ("body", "orelse", "finalbody", "handlers", "cases"):
                yield from _bound_in(value)
            elif name not in ("annotation", "iter"):
                yield from _bound_names(value)


def _bound_names(value: object) -> Iterator[str]:
    """Names that are stored to anywhere in targets, patterns and expressions."""
    if isinstance(value, list):
        for each in value:
            yield from _bound_names(each)
    elif isinstance(value, ast.Name):
        if isinstance(value.ctx, ast.Store):
            yield value.id
    elif isinstance(value, ast.NamedExpr | ast.Tuple | ast.List | ast.Starred | ast.withitem | ast.pattern):
        if isinstance(value, ast.MatchAs | ast.MatchStar) and value.name is not None:
            yield value.name
        for child in ast.iter_child_nodes(value):
            yield from _bound_names(child)
    elif isinstance(value, ast.BoolOp | ast.Compare | ast.UnaryOp | ast.Call | ast.IfExp | ast.BinOp):
        for child in ast.iter_child_nodes(value):  # may hold `name := value`
            yield from _bound_names(child)


class _Writer(ast.NodeVisitor):
    """Writes the tokens of one definition."""

    def __init__(self, code: CodeBase, module: Module) -> None:
        self.code, self.module = code, module
        self.tokens: list[Token] = []
        self.scopes: list[Scope] = []
        self.types: list[dict[str, Definition]] = []  # of parameters, a dictionary for each function
        self.within: Definition | None = None  # the class that is written
        self.annotated: set[Definition] = set()  # classes of arguments and results

    def write_node(self, node: object) -> None:
        if isinstance(node, list):
            self.tokens.append("[")
            for each in node:
                if not (isinstance(each, ast.AST) and (_is_docstring(each) or isinstance(each, ast.Pass))):
                    self.write_node(each)
            self.tokens.append("]")
        elif not isinstance(node, ast.AST):
            self.tokens.append(repr(node))
        else:
            special = getattr(self, f"visit_{type(node).__name__}", None)
            if special is None:
                self._write_fields(node)
            else:
                special(node)

    def _write_fields(self, node: ast.AST, *but: str) -> None:
        self.tokens.append(type(node).__name__)
        for name, value in ast.iter_fields(node):
            if name not in ("ctx", "type_comment", "kind", "returns", *but):
                self.write_node(value)

    def _local_token(self, name: str) -> str | None:
        for depth, scope in enumerate(reversed(self.scopes)):
            if name in scope:
                return f"local {depth} {scope[name]}"
        return None

    def visit_Constant(self, node: ast.Constant) -> None:
        self.tokens.append(f"{type(node.value).__name__} {node.value!r}")

    def visit_Name(self, node: ast.Name) -> None:
        local = self._local_token(node.id)
        if local is not None:
            self.tokens.append(local)
            return
        if self.within is not None and (own := self.code.member_position(self.within, node.id)) is not None:
            self.tokens.append(own)
            return
        found = self.code.resolve_name(self.module, node.id)
        self.tokens.append(found if isinstance(found, str) else Reference(found))

    def visit_Attribute(self, node: ast.Attribute) -> None:
        found = self._resolve_expression(node)
        if found is not None:
            self.tokens.append(found if isinstance(found, str) else Reference(found))
            return
        self.tokens.append("Attribute")
        self.write_node(node.value)
        owner = self._type_of(node.value)
        self.tokens.append((owner and self.code.member_position(owner, node.attr)) or Member(node.attr))

    def _resolve_expression(self, node: ast.expr) -> Definition | str | None:
        """What `name` or `module.name` refers to; None for anything else."""
        if isinstance(node, ast.Name) and self._local_token(node.id) is None:
            return self.code.resolve_name(self.module, node.id)
        if isinstance(node, ast.Attribute):
            owner = self._resolve_expression(node.value)
            if isinstance(owner, str) and owner.startswith("module "):
                return self.code.resolve_attribute(owner, node.attr)
        return None

    def _type_of(self, node: ast.expr) -> Definition | None:
        if isinstance(node, ast.Name) and self._local_token(node.id) is not None:
            return next((types[node.id] for types in reversed(self.types) if node.id in types), None)
        found = self._resolve_expression(node)
        return found if isinstance(found, tuple) and self.code.class_node(found) is not None else None

    def visit_Call(self, node: ast.Call) -> None:
        self.tokens.append("Call")
        self.write_node(node.func)
        self.write_node(node.args)
        called = self._resolve_expression(node.func)
        for keyword in node.keywords:
            if keyword.arg in DOCUMENTING:
                continue
            known = (
                self.code.member_position(called, keyword.arg) if isinstance(called, tuple) and keyword.arg else None
            )
            self.tokens.append(known or Member(keyword.arg or "**"))
            self.write_node(keyword.value)

    def visit_arg(self, node: ast.arg) -> None:
        """Parameters count by their positions alone; what they are annotated with is reached."""
        self._note_annotation(node.annotation)

    def _note_annotation(self, node: ast.expr | None) -> None:
        for name in ast.walk(node) if node is not None else ():
            found = self._resolve_expression(name) if isinstance(name, ast.Name | ast.Attribute) else None
            if isinstance(found, tuple):
                self.annotated.add(found)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        outer, self.within = self.within, self.within or (self.module.name, node.name)
        self._write_fields(node, "name")
        self.within = outer

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.tokens.append(type(node).__name__)
        self._note_annotation(node.returns)
        self.write_node(node.decorator_list)
        self.write_node(node.args)
        self.types.append(dict(self._parameter_types(node)))
        self._write_scope(node, node.body)
        self.types.pop()

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.visit_FunctionDef(node)

    def _parameter_types(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[tuple[str, Definition]]:
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        if arguments and self.within is not None and arguments[0].arg in ("self", "cls"):
            yield arguments[0].arg, self.within
        for argument in arguments:
            found = self._resolve_expression(argument.annotation) if argument.annotation is not None else None
            if isinstance(found, tuple):
                yield argument.arg, found

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self.write_node(node.args)
        self._write_scope(node, node.body)

    def _write_scope(self, node: ast.AST, *parts: object) -> None:
        self.scopes.append(_scope_of(node))
        for part in parts:
            self.write_node(part)
        self.scopes.pop()

    def _write_comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> None:
        self.tokens.append(type(node).__name__)
        self.write_node(node.generators[0].iter)
        values = (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,)
        self.scopes.append(_scope_of(node))
        for index, generator in enumerate(node.generators):
            self.write_node(generator.target)
            if index:
                self.write_node(generator.iter)
            self.write_node(generator.ifs)
        for value in values:
            self.write_node(value)
        self.scopes.pop()

    def visit_ListComp(self, node: ast.ListComp) -> None:
        self._write_comprehension(node)

    def visit_SetComp(self, node: ast.SetComp) -> None:
        self._write_comprehension(node)

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> None:
        self._write_comprehension(node)

    def visit_DictComp(self, node: ast.DictComp) -> None:
        self._write_comprehension(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.tokens.append("AnnAssign")
        self.write_node(node.target)
        if not self.scopes:  # of a class or module: a wire model checks what its annotations say
            self.write_node(node.annotation)
        self.write_node(node.value)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        self._write_fields(node, "name")

    def visit_Import(self, node: ast.Import) -> None:
        """Imports count where the imported names are used."""

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """Imports count where the imported names are used."""


DEFAULT_CACHE_FOLDER = Path("~/.cache/headroom")
# The engine is everything that these functions reach: the code that turns a request into an answer.
ENGINE_ROOTS = ("app.api.answering:find_or_compute_answer", "app.api.answering:with_input_warnings")
DATA_SUFFIXES = (".csv", ".json", ".toml")
NAME_FILES = ("catalog/data/names.toml", "catalog/data/machine_names.toml")  # part of no catalog version

# Every processor gives the same numbers: no fused multiply-add, and only instructions of the whole architecture.
COMPILER_FLAGS = (
    *("-O3", "-std=gnu11", "-w", "-ffp-contract=off", "-fno-math-errno", "-fPIC", "-shared"),
    *(() if sys.platform == "darwin" else ("-nostdlib",)),
)
NOT_COMPILED = (
    "The simulation is not compiled: a recommendation may take minutes instead of a second. Install a C compiler (cc, "
    "gcc or clang, or the Python package ziglang), then run `headroom prepare`."
)
COMPILER_S = 300.0  # longest time of a compilation, s

_engine_version: list[str] = []


def compile_simulation(folder: Path | None = None) -> bool:
    """Makes simulations fast: loads the library of their event loop from `folder` (default: the user's cache folder),
    or compiles it now and keeps it there. If the folder is not writable, it is compiled for this process only.

    Returns False if that is not possible, for example because there is no C compiler. Simulations then run in Python
    and give the same answers, some 200 times as slowly. The file is named by a digest of the source text, so it is
    never stale. It needs no other library, and runs on every processor of its architecture.
    """
    if native.is_compiled():
        return True
    kept = _cache_folder(folder) / library_name()
    with suppress(OSError):
        native.load_library(kept)
        return True
    with TemporaryDirectory(prefix="headroom") as made, suppress(OSError):
        library = Path(made) / kept.name
        if not _compile_library(library):
            return False
        try:
            _keep_file(kept, library.read_bytes())
            native.load_library(kept)
        except OSError:
            native.load_library(library)
        return True
    return False


def library_name() -> str:
    """Returns the file name of the library: a digest of its source, the compiler's flags and the kind of machine."""
    text = sha256()
    for module in sorted(Path(native.__file__).parent.glob("*.py")):
        text.update(module.read_bytes())
    text.update("\0".join((*COMPILER_FLAGS, sys.platform, platform.machine())).encode())
    return f"simulation-{text.hexdigest()[:16]}.so"


def c_compiler() -> tuple[str, ...]:
    """Returns the command of the machine's C compiler, or else of the package `ziglang`; empty if there is neither."""
    own = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if own is not None:
        return (own,)
    return (sys.executable, "-m", "ziglang", "cc", "-mcpu=baseline") if find_spec("ziglang") else ()


def _compile_library(library: Path) -> bool:
    """Compiles the library into an existing folder. Returns False if there is no compiler or it fails."""
    compiler, source = c_compiler(), library.with_suffix(".c")
    if not compiler:
        return False
    source.write_text(c_source(*(cast(FunctionType, loop) for loop in (kernel.run_events, kernel.dispatch_requests))))
    command = [*compiler, *COMPILER_FLAGS, "-o", str(library), str(source)]
    caches = {name: str(library.parent) for name in ("ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR")}
    done = subprocess.run(  # noqa: S603, the command has no part that a user gave
        command, check=False, capture_output=True, timeout=COMPILER_S, env={**os.environ, **caches}
    )
    return done.returncode == 0


def _cache_folder(folder: Path | None) -> Path:
    return DEFAULT_CACHE_FOLDER.expanduser() if folder is None else folder


def _keep_file(path: Path, content: bytes) -> None:
    """Writes a file as a whole: other processes see none of it or all. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    written = path.with_suffix(f".{os.getpid()}")
    written.write_bytes(content)
    written.replace(path)


def engine_version(folder: Path | None = None) -> str:
    """Digest of the code and the data files that turn a request into an answer.

    Comments, docstrings, renames and file moves leave it unchanged; a changed constant or expression does not.
    Computing it takes about two seconds, so it is cached in `folder` (default: the user's cache folder), keyed by the
    bytes of the files.
    """
    if not _engine_version:
        _engine_version.append(_cached_engine_version(_cache_folder(folder)))
    return _engine_version[0]


def _cached_engine_version(folder: Path) -> str:
    package = Path(str(resources.files("app")))
    text, data = sha256(), sha256()
    for file in sorted(package.rglob("*.py")):
        text.update(file.relative_to(package).as_posix().encode() + b"\0" + file.read_bytes())
    for file in (
        *sorted(f for f in (package / "sizing").rglob("*") if f.suffix in DATA_SUFFIXES),
        *(package / name for name in NAME_FILES),
    ):
        data.update(file.read_bytes())
    kept = folder / f"engine-{sha256(text.digest() + data.digest()).hexdigest()[:32]}"
    try:
        return kept.read_text()
    except OSError:
        found = f"{CodeBase(package.parent).digest_from(ENGINE_ROOTS)}-{data.hexdigest()[:16]}"
    with suppress(OSError):
        _keep_file(kept, found.encode())
    return found


if __name__ == "__main__":  # builds an image: python -m app.compiled FOLDER
    target = Path(sys.argv[1])
    engine_version(target)
    sys.exit(0 if compile_simulation(target) else NOT_COMPILED)
