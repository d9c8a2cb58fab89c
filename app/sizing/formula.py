"""Formulas that describe themselves: a trace line is read from the code that computes the number.

A function under `@formula` is one expression over its arguments and over fields of arguments that are tables, with
intermediate names where they help. A call computes the value. While a `record_trace` context is open, the call also
notes its inputs and its value. The text of the line is the source of the function, written with min, max, ceil, sqrt
and so on, so a change of a formula changes its line.
"""

from __future__ import annotations

import ast
import inspect
import math
import textwrap
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property, update_wrapper
from typing import Any, Generic, ParamSpec, TypeVar

import numpy as np

P = ParamSpec("P")
R = TypeVar("R")

# Functions in trace lines, by their name in the code.
FUNCTION_NAMES = {
    "maximum": "max",
    "minimum": "min",
    "abs": "abs",
    "ceil": "ceil",
    "floor": "floor",
    "sqrt": "sqrt",
    "cbrt": "cbrt",
    "log": "log",
    "log2": "log2",
    "log1p": "log1p",
    "exp": "exp",
    "exp2": "exp2",
    "expm1": "expm1",
    "hypot": "hypot",
}


@dataclass(frozen=True, slots=True)
class Step:
    """One line of arithmetic that can be recomputed from what it shows.

    `formula` is an expression over the names in `inputs`, with the functions of `FUNCTION_NAMES`, comparisons, and
    `a if condition else b`.
    """

    name: str  # name of the formula, with a label
    formula: str  # its arithmetic
    inputs: Mapping[str, float]  # value of each name in the arithmetic
    value: float  # result
    unit: str  # unit of the result
    source: str  # citation or rule


class Formula(Generic[P, R]):
    """A function that can print itself: `text` is its arithmetic, `inputs` the names in it."""

    def __init__(self, function: Callable[P, R], *, unit: str, source: str) -> None:
        self.function, self.unit, self.source = function, unit, source
        self.name = function.__name__
        update_wrapper(self, function)
        FORMULAS[f"{function.__module__}.{function.__qualname__}"] = self

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        trace = _open.get()
        if trace is None:
            return self.function(*args, **kwargs)
        token = _open.set(None)  # the line of this formula includes the formulas that it calls
        try:
            value = self.function(*args, **kwargs)
        finally:
            _open.reset(token)
        trace.add_record(self, args, kwargs, value)
        return value

    @cached_property
    def _text_and_inputs(self) -> tuple[str, dict[str, tuple[str, str | None]]]:
        return _ExpressionReader(self.function).read_formula()

    @cached_property
    def _names_and_defaults(self) -> tuple[tuple[str, ...], dict[str, Any]]:
        """Names of the arguments in order, and the defaults of those that have one; read once."""
        found = inspect.signature(self.function).parameters
        return tuple(found), {n: p.default for n, p in found.items() if p.default is not inspect.Parameter.empty}

    @property
    def text(self) -> str:
        """The arithmetic as a trace shows it."""
        return self._text_and_inputs[0]

    @property
    def inputs(self) -> Mapping[str, tuple[str, str | None]]:
        """For each name in the text, its argument, and the field of that argument where it is a table."""
        return self._text_and_inputs[1]

    @cached_property
    def _input_positions(self) -> tuple[tuple[str, int, str | None], ...]:
        """For each name in the text, the position of its argument, and the field."""
        names = self._names_and_defaults[0]
        return tuple((name, names.index(argument), attribute) for name, (argument, attribute) in self.inputs.items())

    def bind_inputs(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The value that a call gives to each name in the text."""
        names, defaults = self._names_and_defaults
        if len(args) < len(names):
            args = (*args, *(kwargs[n] if n in kwargs else defaults[n] for n in names[len(args) :]))
        return {
            name: args[place] if attribute is None else getattr(args[place], attribute)
            for name, place, attribute in self._input_positions
        }


# Every formula by its full name, for documentation and tests.
FORMULAS: dict[str, Formula[Any, Any]] = {}


def formula(*, unit: str, source: str = "definition") -> Callable[[Callable[P, R]], Formula[P, R]]:
    """Decorator that makes a function a formula.

    Parameters:
        unit: unit of the value.
        source: citation or rule that a reader can look up.
    """

    def wrap_function(function: Callable[P, R]) -> Formula[P, R]:
        return Formula(function, unit=unit, source=source)

    return wrap_function


class _ExpressionReader(ast.NodeTransformer):
    """Turns the source of a function into one expression over plain names."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.arguments = set(inspect.signature(function).parameters)
        self.inputs: dict[str, tuple[str, str | None]] = {}
        self.local: dict[str, ast.expr] = {}

    def read_formula(self) -> tuple[str, dict[str, tuple[str, str | None]]]:
        expression = self.build_expression()
        return ast.unparse(expression), self.inputs

    def build_expression(self) -> ast.expr:
        """The returned expression, with intermediate names substituted."""
        tree = ast.parse(textwrap.dedent(inspect.getsource(self.function))).body[0]
        assert isinstance(tree, ast.FunctionDef)
        body = [inner for s in tree.body for inner in (s.body if isinstance(s, ast.With) else [s])]
        for statement in body:
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                continue  # the docstring
            if isinstance(statement, ast.AnnAssign) and statement.value is not None:
                statement = ast.Assign([statement.target], statement.value)  # noqa: PLW2901
            if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                self.local[statement.targets[0].id] = self.visit(statement.value)
            elif isinstance(statement, ast.Return) and statement.value is not None:
                found: ast.expr = self.visit(statement.value)
                return found
            else:
                raise TypeError(f"{self.function.__qualname__}: a formula may contain assignments and one return only")
        raise TypeError(f"{self.function.__qualname__} returns nothing")

    def record_input(self, name: str, argument: str, attribute: str | None) -> ast.expr:
        if self.inputs.setdefault(name, (argument, attribute)) != (argument, attribute):
            raise TypeError(f"{self.function.__qualname__}: two inputs are called {name}")
        return ast.Name(name)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self.local:
            return self.local[node.id]
        if node.id in self.arguments:
            return self.record_input(node.id, node.id, None)
        value = self.function.__globals__[node.id]
        if not isinstance(value, int | float):
            raise TypeError(f"{self.function.__qualname__}: {node.id} is not a number")
        return ast.Constant(int(value) if float(value).is_integer() else value)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        if isinstance(node.value, ast.Name) and node.value.id in self.arguments:
            return self.record_input(node.attr, node.value.id, node.attr)
        if ast.unparse(node) == "np.inf":
            return ast.Name("inf")
        raise TypeError(f"{self.function.__qualname__}: {ast.unparse(node)} is not an input")

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        left, right = self.visit(node.left), self.visit(node.right)
        if isinstance(node.op, ast.BitAnd | ast.BitOr):
            return ast.BoolOp(ast.And() if isinstance(node.op, ast.BitAnd) else ast.Or(), [left, right])
        return ast.BinOp(left, node.op, right)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        operand = self.visit(node.operand)
        return ast.UnaryOp(ast.Not() if isinstance(node.op, ast.Invert) else node.op, operand)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if isinstance(node.func, ast.Name):
            if node.func.id == "float":
                inner: ast.expr = self.visit(node.args[0])
                return inner
            other = self.function.__globals__.get(node.func.id)
            if isinstance(other, Formula):
                return self.inline_formula(other, node)
            raise TypeError(f"{self.function.__qualname__}: {node.func.id} is not a formula")
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        args = [self.visit(a) for a in node.args]
        if name == "where":
            return ast.IfExp(args[0], args[1], args[2])
        if name == "clip":
            return ast.Call(ast.Name("min"), [ast.Call(ast.Name("max"), args[:2], []), args[2]], [])
        return ast.Call(ast.Name(FUNCTION_NAMES[name]), args, [])

    def inline_formula(self, other: Formula[..., Any], node: ast.Call) -> ast.expr:
        """The expression of another formula in the names of this one."""
        reader = _ExpressionReader(other.function)
        names = list(inspect.signature(other.function).parameters)
        given: dict[str, ast.expr] = dict(zip(names, (self.visit(a) for a in node.args), strict=False))
        given |= {k.arg: self.visit(k.value) for k in node.keywords if k.arg is not None}
        reader.local, reader.arguments = given, set()
        return reader.build_expression()


@dataclass(slots=True)
class Trace:
    """Values that formulas computed while the trace was open, as whole columns; `row_steps` reads one row."""

    records: list[tuple[str, Formula[Any, Any], dict[str, Any], Any]] = field(default_factory=list)

    def add_record(self, of: Formula[Any, Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], value: Any) -> None:
        label = _label.get()
        self.records.append((f"{of.name} ({label})" if label else of.name, of, of.bind_inputs(args, kwargs), value))

    def row_steps(self, row: int) -> tuple[Step, ...]:
        """The steps of one row, each once; steps with a value or an input that is not finite are omitted."""
        steps: dict[tuple[str, tuple[tuple[str, float], ...]], Step] = {}
        for name, of, arguments, result in self.records:
            inputs = {n: _row_value(v, row) for n, v in arguments.items()}
            value = _row_value(result, row)
            if math.isfinite(value) and all(map(math.isfinite, inputs.values())):
                steps.setdefault((name, tuple(inputs.items())), Step(name, of.text, inputs, value, of.unit, of.source))
        return tuple(steps.values())


def _row_value(values: Any, row: int) -> float:
    return float(values.item(row)) if isinstance(values, np.ndarray) and values.ndim else float(values)


_open: ContextVar[Trace | None] = ContextVar("trace", default=None)
_label: ContextVar[str] = ContextVar("label", default="")


@contextmanager
def record_trace(*, wanted: bool = True) -> Iterator[Trace]:
    """Record what formulas compute within this context."""
    trace = Trace()
    token = _open.set(trace if wanted else None)
    try:
        yield trace
    finally:
        _open.reset(token)


def is_recording() -> bool:
    """Whether a trace is open; work that only a trace needs can be skipped otherwise."""
    return _open.get() is not None


class _VariableWithin(Generic[R]):
    """Gives a context variable a value within a `with` block."""

    __slots__ = ("token", "value", "variable")

    def __init__(self, variable: ContextVar[R], value: R) -> None:
        self.variable, self.value = variable, value

    def __enter__(self) -> None:
        self.token = self.variable.set(self.value)

    def __exit__(self, *raised: object) -> None:
        self.variable.reset(self.token)


def suspend_recording() -> AbstractContextManager[None]:
    """Suspend recording, for numeric searches that evaluate formulas many times."""
    return _VariableWithin(_open, None)


def trace_label(label: str) -> AbstractContextManager[None]:
    """Add a label to the lines within this context, such as a load, a prompt or a percentile; nested labels are
    joined.
    """
    outer = _label.get()
    return _VariableWithin(_label, f"{outer}, {label}" if outer and label else label or outer)
