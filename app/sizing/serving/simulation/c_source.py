"""Translates the loops of the simulation, which are written in Python, to C: the same operations on the same 64-bit
numbers.

The functions that `run_events` and `dispatch_requests` reach use a part of Python that means the same in C: numbers,
arrays in records, loops and conditions. Anything else is refused with its line, so the compiled loop cannot differ from
the one in Python.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator, Mapping
from types import FunctionType, MappingProxyType
from typing import Any

from app.sizing.serving.simulation.record import Counts, Dispatch, Replica, Requests, Routed, Seconds, field_types
from app.sizing.serving.simulation.state import State

INT, DOUBLE, TRIPLE = "int64", "double", "triple"
RECORDS: Mapping[str, Any] = MappingProxyType(
    {record.__name__: record for record in (Replica, Requests, State, Routed, Dispatch)}
)
SCALARS: Mapping[str, str] = MappingProxyType({"int": INT, "bool": INT, "float": DOUBLE})
RETURNS: Mapping[str, str] = MappingProxyType({**SCALARS, "None": "void", "tuple[float, float, float]": TRIPLE})
ELEMENTS: Mapping[Any, str] = MappingProxyType({Seconds: DOUBLE, Counts: INT})
BINARY: Mapping[type[ast.operator], str] = MappingProxyType(
    {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.LShift: "<<", ast.RShift: ">>"}
)
COMPARED: Mapping[type[ast.cmpop], str] = MappingProxyType(
    {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
)
# No header is included: a compiler without the C library's files will do.
PRELUDE = """\
typedef __INT64_TYPE__ int64;
typedef struct { double item[3]; } triple;
static inline int64 floor_div(int64 a, int64 b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }
static inline int64 floor_mod(int64 a, int64 b) { return a - b * floor_div(a, b); }
static inline int64 min_int64(int64 a, int64 b) { return b < a ? b : a; }
static inline int64 max_int64(int64 a, int64 b) { return b > a ? b : a; }
static inline double min_double(double a, double b) { return b < a ? b : a; }
static inline double max_double(double a, double b) { return b > a ? b : a; }
static inline int64 bit_length(int64 a) { return a == 0 ? 0 : 64 - __builtin_clzll(a); }
static inline int64 ceiling(double a) { int64 whole = (int64)a; return whole + ((double)whole < a); }
"""

Typed = tuple[str, str]  # C text of an expression, and its type


class UntranslatableError(Exception):
    """Python that has no equal in C here."""


def c_source(*entries: FunctionType) -> str:
    """C text of functions and of all functions that they call; the entries alone are visible from outside.

    Raises UntranslatableError.
    """
    seen: dict[FunctionType, None] = {}
    functions = [function for entry in entries for function in _called_functions(entry, seen)]
    records = [_record_text(name, record) for name, record in RECORDS.items()]
    return "\n".join([PRELUDE, *records, *(_Translator(f, visible=f in entries).text() for f in functions)])


def _record_text(name: str, record: Any) -> str:
    """The C declaration of a record: 8 bytes for each number, and a pointer and a length for each array."""
    fields = [
        f"    {ELEMENTS[kind]} *{field}; int64 {field}_len;" if kind in ELEMENTS else f"    {_scalar(kind)} {field};"
        for field, kind in field_types(record).items()
    ]
    return "\n".join(["typedef struct {", *fields, f"}} {name};\n"])


def _scalar(kind: type) -> str:
    return SCALARS[kind.__name__]


def _called_functions(function: FunctionType, seen: dict[FunctionType, None]) -> Iterator[FunctionType]:
    """Every function below one, those that are called before those that call them."""
    seen[function] = None
    for node in ast.walk(_parsed(function)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            called = function.__globals__.get(node.func.id)
            if isinstance(called, FunctionType) and called not in seen:
                yield from _called_functions(called, seen)
    yield function


def _parsed(function: FunctionType) -> ast.FunctionDef:
    (found,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    assert isinstance(found, ast.FunctionDef)
    return found


class _Translator:
    """Translates one function. A local variable is an integer unless a value that is not one is assigned to it."""

    def __init__(self, function: FunctionType, *, visible: bool) -> None:
        self.function, self.visible, self.node = function, visible, _parsed(function)
        self.parameters = {a.arg: ast.unparse(a.annotation) if a.annotation else "" for a in self.node.args.args}
        self.returns = RETURNS[ast.unparse(self.node.returns) if self.node.returns else ""]
        self.locals: dict[str, str] = {}
        self.lines: list[str] = []
        self.temporaries = 0

    def text(self) -> str:
        """C text of the function."""
        known: dict[str, str] | None = None
        while known != self.locals:  # types of variables settle in a few rounds
            known, self.lines, self.temporaries = dict(self.locals), [], 0
            self._block(self.node.body[1:])  # after the docstring
        given = ", ".join(
            f"const {kind} *{name}" if kind in RECORDS else f"{SCALARS[kind]} {name}"
            for name, kind in self.parameters.items()
        )
        declared = "".join(f"{kind} {name} = 0;\n" for name, kind in self.locals.items())
        head = f"{'' if self.visible else 'static inline '}{self.returns} {self.node.name}({given}) {{\n"
        return head + declared + "\n".join(self.lines) + "\n}\n"

    def _refuse(self, node: ast.AST) -> UntranslatableError:
        line = self.function.__code__.co_firstlineno + getattr(node, "lineno", 1) - 1
        return UntranslatableError(f"{self.function.__code__.co_filename}:{line}: no C for {ast.unparse(node)}")

    # Statements

    def _block(self, body: list[ast.stmt]) -> None:
        for statement in body:
            self._statement(statement)

    def _statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                held = [self._hold(self._expression(value)) for value in values]
                for target, value in zip(targets, held, strict=True):
                    self._assign(target, value)
            case ast.Assign(targets=[target], value=value):
                self._assign(target, self._expression(value))
            case ast.AugAssign(target=target, op=op, value=value):
                self._assign(target, self._binary(node, op, self._expression(target), self._expression(value)))
            case ast.Return(value=None):
                self.lines.append("return;")
            case ast.Return(value=ast.Tuple(elts=values)):
                parts = ", ".join(self._expression(value)[0] for value in values)
                self.lines.append(f"return (triple){{{{{parts}}}}};")
            case ast.Return(value=value) if value is not None:
                self.lines.append(f"return {self._expression(value)[0]};")
            case ast.Expr(value=ast.Call() as call):
                self.lines.append(f"{self._expression(call)[0]};")
            case ast.Break() | ast.Continue():
                self.lines.append(f"{ast.unparse(node)};")
            case ast.If() | ast.While() | ast.For():
                self._compound(node)
            case _:
                raise self._refuse(node)

    def _compound(self, node: ast.If | ast.While | ast.For) -> None:
        if isinstance(node, ast.For):
            self._open_range(node)
        else:
            word = "if" if isinstance(node, ast.If) else "while"
            self.lines.append(f"{word} ({self._expression(node.test)[0]}) {{")
        self._block(node.body)
        if node.orelse and isinstance(node, ast.If):
            self.lines.append("} else {")
            self._block(node.orelse)
        elif node.orelse:
            raise self._refuse(node)
        self.lines.append("}")

    def _open_range(self, node: ast.For) -> None:
        match node:
            case ast.For(target=ast.Name(), iter=ast.Call(func=ast.Name(id="range"), args=[*given], keywords=[])):
                bounds = [self._expression(bound)[0] for bound in given]
            case _:
                raise self._refuse(node)
        if len(bounds) > 2:
            raise self._refuse(node)
        at, start, end = self._temporary(), "0" if len(bounds) == 1 else bounds[0], bounds[-1]
        self.lines.append(f"for (int64 {at} = {start}, {at}_end = {end}; {at} < {at}_end; ++{at}) {{")
        self._assign(node.target, (at, INT))

    def _temporary(self) -> str:
        self.temporaries += 1
        return f"t{self.temporaries}"

    def _hold(self, value: Typed) -> Typed:
        """Keep a value until all values of one assignment are known."""
        name = self._temporary()
        self.lines.append(f"{value[1]} {name} = {value[0]};")
        return name, value[1]

    def _assign(self, target: ast.expr, value: Typed) -> None:
        if isinstance(target, ast.Name):
            if target.id not in self.parameters:
                before = self.locals.get(target.id, value[1])
                self.locals[target.id] = before if before == value[1] else DOUBLE
            elif SCALARS.get(self.parameters[target.id]) != value[1]:
                raise self._refuse(target)
        self.lines.append(f"{self._expression(target)[0]} = {value[0]};")

    # Expressions

    def _expression(self, node: ast.expr) -> Typed:
        match node:
            case ast.Constant(value=bool() | int() | float() as value):
                return (repr(value), DOUBLE) if isinstance(value, float) else (str(int(value)), INT)
            case ast.Name(id=name):
                return self._name(node, name)
            case ast.Attribute(value=ast.Name(id=record), attr=field) if self.parameters.get(record) in RECORDS:
                kind = field_types(RECORDS[self.parameters[record]])[field]
                return (f"{record}->{field}", _scalar(kind)) if kind not in ELEMENTS else (f"{record}->{field}", "")
            case ast.Subscript(value=ast.Attribute(), slice=index):
                return self._element(node, index)
            case ast.Subscript(value=ast.Call() as call, slice=ast.Constant(value=int(index))):
                return f"{self._expression(call)[0]}.item[{index}]", DOUBLE
            case ast.BinOp(left=left, op=op, right=right):
                return self._binary(node, op, self._expression(left), self._expression(right))
            case ast.UnaryOp(op=ast.USub() | ast.Not() as op, operand=operand):
                text, kind = self._expression(operand)
                return f"({'-' if isinstance(op, ast.USub) else '!'}{text})", kind if isinstance(op, ast.USub) else INT
            case ast.BoolOp(op=op, values=values):
                joint = " && " if isinstance(op, ast.And) else " || "
                return f"({joint.join(self._expression(value)[0] for value in values)})", INT
            case ast.Compare():
                return self._comparison(node)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                (yes, one), (no, other) = self._expression(body), self._expression(orelse)
                return f"({self._expression(test)[0]} ? {yes} : {no})", one if one == other else DOUBLE
            case ast.Call(keywords=[]):
                return self._call(node)
        raise self._refuse(node)

    def _name(self, node: ast.expr, name: str) -> Typed:
        if name in self.parameters:
            return name, SCALARS.get(self.parameters[name], "")
        if name in self.locals:
            return name, self.locals[name]
        value = self.function.__globals__.get(name)
        if isinstance(value, int):
            return str(int(value)), INT
        raise self._refuse(node)

    def _element(self, node: ast.Subscript, index: ast.expr) -> Typed:
        array = node.value
        assert isinstance(array, ast.Attribute)
        (text, _), (at, kind) = self._expression(array), self._expression(index)
        if not isinstance(array.value, ast.Name) or kind != INT:
            raise self._refuse(node)
        return f"{text}[{at}]", ELEMENTS[field_types(RECORDS[self.parameters[array.value.id]])[array.attr]]

    def _binary(self, node: ast.AST, op: ast.operator, left: Typed, right: Typed) -> Typed:
        kind = INT if left[1] == right[1] == INT else DOUBLE
        if isinstance(op, ast.Div):
            return f"((double){left[0]} / (double){right[0]})", DOUBLE
        if isinstance(op, ast.FloorDiv | ast.Mod) and kind == INT:
            return f"floor_{'div' if isinstance(op, ast.FloorDiv) else 'mod'}({left[0]}, {right[0]})", INT
        if type(op) not in BINARY:
            raise self._refuse(node)
        return f"({left[0]} {BINARY[type(op)]} {right[0]})", kind

    def _comparison(self, node: ast.Compare) -> Typed:
        values = [self._expression(value)[0] for value in (node.left, *node.comparators)]
        if any(type(op) not in COMPARED for op in node.ops):
            raise self._refuse(node)
        pairs = zip(values, node.ops, values[1:], strict=False)
        return f"({' && '.join(f'{a} {COMPARED[type(op)]} {b}' for a, op, b in pairs)})", INT

    def _call(self, node: ast.Call) -> Typed:
        if isinstance(node.func, ast.Attribute) and node.func.attr == "bit_length":
            return f"bit_length({self._expression(node.func.value)[0]})", INT
        name, values = ast.unparse(node.func), [self._expression(each) for each in node.args]
        match name, values:
            case (("int" | "float"), [(text, _)]):
                kind = SCALARS[name]
                return f"(({kind}){text})", kind
            case "len", [(text, "")]:
                return f"{text}_len", INT
            case (("min" | "max"), [first, *others]) if others:
                return self._extreme(name, first, others)
            case "math.sqrt", [(text, _)]:
                return f"__builtin_sqrt({text})", DOUBLE
            case "math.ceil", [(text, _)]:
                return f"ceiling({text})", INT
        called = self.function.__globals__.get(name)
        if not isinstance(called, FunctionType):
            raise self._refuse(node)
        found = _parsed(called).returns
        return f"{name}({', '.join(text for text, _ in values)})", RETURNS[ast.unparse(found) if found else ""]

    def _extreme(self, name: str, first: Typed, others: list[Typed]) -> Typed:
        """The least or greatest of several values; of equal ones the first, as in Python."""
        text, kind = first
        for value, other in others:
            kind = kind if kind == other else DOUBLE
            text = f"{name}_{kind}({text}, {value})"
        return text, kind
