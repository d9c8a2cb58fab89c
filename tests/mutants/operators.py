"""Small wrong changes: every mutant is a function with one node of its syntax tree replaced."""

from __future__ import annotations
import __future__

import ast
import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import CodeType

# Columns of every table by the table's name: (column, its annotation), in order.
Tables = Mapping[str, tuple[tuple[str, str], ...]]

SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.FloorDiv: ast.Div,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
TURNED: dict[type[ast.AST], type[ast.AST]] = {ast.Lt: ast.Gt, ast.LtE: ast.Gt, ast.Gt: ast.Lt, ast.GtE: ast.Lt}
OTHER_FUNCTION = {
    "maximum": "minimum",
    "minimum": "maximum",
    "max": "min",
    "min": "max",
    "ceil": "floor",
    "floor": "ceil",
    "any": "all",
    "all": "any",
    "ones": "zeros",
    "zeros": "ones",
    "argmin": "argmax",
    "argmax": "argmin",
    "sqrt": "square",
    "expm1": "exp",
    "log1p": "log",
}
# Smaller numbers only guard a division or a comparison.
LEAST_CONSTANT = 1e-6


@dataclass(frozen=True)
class Mutant:
    """One changed function; `before` and `after` are the statement that differs."""

    path: str
    where: str
    line: int
    before: str
    after: str
    tree: ast.FunctionDef
    statement: ast.stmt
    changed: ast.AST
    wrong: str = ""  # fault of such an engine; only of a planted mutant

    @property
    def name(self) -> str:
        """Stays the same while lines move."""
        return f"{self.path} {self.where}: {self.after}"

    def function(self) -> ast.FunctionDef:
        made = replaced(self.tree, self.statement, self.changed)
        assert isinstance(made, ast.FunctionDef)
        return made

    def code(self, filename: str) -> CodeType:
        """The changed function, compiled under its own name and lines."""
        function = copy.copy(self.function())
        function.decorator_list = []
        body: ast.stmt = function
        owner = self.where.rpartition(".")[0]
        if owner:
            body = ast.copy_location(ast.ClassDef(owner, [], [], [function], []), function)
        module = ast.fix_missing_locations(ast.Module([body], []))
        found: CodeType = compile(
            module, filename, "exec", flags=__future__.annotations.compiler_flag, dont_inherit=True
        )
        for name in self.where.split("."):
            found = next(c for c in found.co_consts if isinstance(c, CodeType) and c.co_name == name)
        return found


def tables_of(root: Path) -> Tables:
    """Fields of every class of the core."""
    found: dict[str, tuple[tuple[str, str], ...]] = {}
    for path in sorted(root.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                named = [s for s in node.body if isinstance(s, ast.AnnAssign) and isinstance(s.target, ast.Name)]
                found[node.name] = tuple((ast.unparse(s.target), ast.unparse(s.annotation)) for s in named)
    return found


class Changes:
    """What may go wrong in one function."""

    def __init__(self, function: ast.FunctionDef, tables: Tables, owner: str) -> None:
        self.tables = tables
        arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
        self.types = {a.arg: ast.unparse(a.annotation) for a in arguments if a.annotation is not None}
        if owner:
            self.types["self"] = owner
        for node in ast.walk(function):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and len(node.targets) == 1:
                made = ast.unparse(node.value.func)
                if made in tables and isinstance(node.targets[0], ast.Name):
                    self.types[node.targets[0].id] = made

    def of(self, node: ast.AST) -> Iterator[ast.AST]:
        match node:
            case ast.BinOp():
                yield from self.of_operation(node)
            case ast.Compare(ops=[op]):
                yield from (self.compared(node, to) for to in (SWAPPED.get(type(op)), TURNED.get(type(op))) if to)
            case ast.BoolOp():
                yield ast.BoolOp(SWAPPED[type(node.op)](), node.values)  # type: ignore[arg-type]
                if len(node.values) == 2:
                    yield from node.values
            case ast.UnaryOp():
                yield node.operand
            case ast.IfExp():
                yield ast.IfExp(node.test, node.orelse, node.body)
            case ast.If():
                yield ast.If(ast.UnaryOp(ast.Not(), node.test), node.body, node.orelse)
            case ast.Constant():
                yield from self.of_constant(node)
            case ast.Call():
                yield from self.of_call(node)
            case ast.Attribute(ctx=ast.Load()):
                yield from self.of_attribute(node)
            case ast.Expr(value=ast.Call()) | ast.AugAssign():
                yield ast.Pass()

    def of_operation(self, node: ast.BinOp) -> Iterator[ast.AST]:
        if type(node.op) in SWAPPED:
            yield ast.BinOp(node.left, SWAPPED[type(node.op)](), node.right)  # type: ignore[arg-type]
        yield node.left
        if isinstance(node.op, ast.Add | ast.Mult | ast.BitAnd | ast.BitOr):
            yield node.right

    def compared(self, node: ast.Compare, to: type[ast.AST]) -> ast.AST:
        return ast.Compare(node.left, [to()], node.comparators)  # type: ignore[list-item]

    def of_constant(self, node: ast.Constant) -> Iterator[ast.AST]:
        if isinstance(node.value, bool):
            yield ast.Constant(not node.value)
        elif isinstance(node.value, int | float) and (node.value == 0 or abs(node.value) >= LEAST_CONSTANT):
            yield ast.Constant(node.value + 1 if abs(node.value) <= 1 else node.value * 2)

    def of_call(self, node: ast.Call) -> Iterator[ast.AST]:
        function, arguments = node.func, node.args
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        if name in OTHER_FUNCTION:
            other = copy.copy(function)
            setattr(other, "attr" if isinstance(other, ast.Attribute) else "id", OTHER_FUNCTION[name])
            yield ast.Call(other, arguments, node.keywords)
        if name == "take" and isinstance(function, ast.Attribute):
            yield function.value
        if name in ("maximum", "minimum", "max", "min") and len(arguments) > 1:
            yield from (a for a in arguments if not isinstance(a, ast.Starred))
        if name in ("ceil", "floor", "abs", "sqrt", "nan_to_num", "copy") and arguments:
            yield arguments[0]
        if name == "where" and len(arguments) == 3:
            yield ast.Call(function, [arguments[0], arguments[2], arguments[1]], [])
            yield from arguments[1:]
        if name == "lexsort" and isinstance(arguments[0], ast.Tuple):
            yield from (ast.Call(function, [keys], []) for keys in self.reordered(arguments[0]))

    def reordered(self, keys: ast.Tuple) -> Iterator[ast.expr]:
        values = keys.elts
        yield ast.Tuple(values[:-1], ast.Load())
        yield ast.Tuple([*values[:-2], values[-1], values[-2]], ast.Load())

    def of_attribute(self, node: ast.Attribute) -> Iterator[ast.AST]:
        """A neighbouring column of the same table."""
        known = self.types.get(node.value.id, "") if isinstance(node.value, ast.Name) else ""
        owners = [known] if known in self.tables else [t for t, names in self.tables.items() if self.has(names, node)]
        if len(owners) != 1 or not self.has(self.tables[owners[0]], node):
            return
        columns = self.tables[owners[0]]
        alike = [n for n, kind in columns if kind == dict(columns)[node.attr]]
        other = alike[(alike.index(node.attr) + 1) % len(alike)]
        if other != node.attr:
            yield ast.Attribute(node.value, other, ast.Load())

    def has(self, columns: tuple[tuple[str, str], ...], node: ast.Attribute) -> bool:
        return node.attr in dict(columns)


def functions_of(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    """(class or nothing, function) of every function that is not inside another.

    Functions that the module calls when it is imported are left out: they have run before a mutant is in place.
    """
    assigned = [node for node in tree.body if isinstance(node, ast.Assign | ast.AnnAssign)]
    ran = {ast.unparse(n.func) for node in assigned for n in ast.walk(node) if isinstance(n, ast.Call)}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            if node.name not in ran:
                yield "", node
        elif isinstance(node, ast.ClassDef):
            yield from ((node.name, f) for f in node.body if isinstance(f, ast.FunctionDef))


def own_nodes(statement: ast.AST) -> Iterator[ast.AST]:
    """Nodes of a statement that are not statements within it; words, annotations and `strict` of zip left out."""
    yield statement
    for name, child in ast.iter_fields(statement):
        if name in ("annotation", "returns", "decorator_list", "context_expr"):
            continue
        for part in child if isinstance(child, list) else [child]:
            if isinstance(part, ast.keyword) and part.arg == "strict":
                continue
            if isinstance(part, ast.AST) and not isinstance(part, ast.stmt):
                yield from own_nodes(part)


def statements(function: ast.FunctionDef) -> Iterator[ast.stmt]:
    """Statements that compute something: assertions only tell the type checker what a caller guarantees."""
    left_out = ast.FunctionDef | ast.Raise | ast.Assert
    for node in ast.walk(function):
        if isinstance(node, ast.stmt) and node is not function and not isinstance(node, left_out):
            yield node


def shown(statement: ast.AST) -> str:
    """The first line of a compound statement, the whole of a simple one."""
    text = ast.unparse(ast.fix_missing_locations(statement))
    return text.splitlines()[0] if isinstance(statement, ast.If | ast.For | ast.While | ast.With) else text


def mutants_of(path: Path, root: Path, tables: Tables) -> list[Mutant]:
    """Every mutant of a file, each once."""
    found: dict[str, Mutant] = {}
    for owner, function in functions_of(ast.parse(path.read_text())):
        changes = Changes(function, tables, owner)
        where = f"{owner}.{function.name}" if owner else function.name
        for statement in statements(function):
            before = shown(statement)
            for node in own_nodes(statement):
                for by in changes.of(node):
                    changed = replaced(statement, node, by)
                    mutant = Mutant(
                        path=path.relative_to(root).as_posix(),
                        where=where,
                        line=statement.lineno,
                        before=before,
                        after=shown(changed),
                        tree=function,
                        statement=statement,
                        changed=changed,
                    )
                    if mutant.after != before:
                        found.setdefault(mutant.name, mutant)
    return list(found.values())


def replaced(tree: ast.AST, node: ast.AST, by: ast.AST) -> ast.AST:
    """A tree with one node exchanged; nodes that are no ancestors of it are shared."""
    if tree is node:
        return ast.copy_location(by, node) if hasattr(node, "lineno") else by
    made = copy.copy(tree)
    for name, child in ast.iter_fields(tree):
        if isinstance(child, list):
            setattr(made, name, [replaced(c, node, by) if isinstance(c, ast.AST) else c for c in child])
        elif isinstance(child, ast.AST):
            setattr(made, name, replaced(child, node, by))
    return made
