"""Evaluates lines of a trace from what they show, with a strict little calculator of its own."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping, Sequence

import pytest

from app.sizing.formula import Step

BINARY: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
COMPARED: dict[type[ast.cmpop], Callable[[float, float], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
FUNCTIONS: dict[str, Callable[..., float]] = {
    "min": min,
    "max": max,
    "abs": abs,
    "ceil": math.ceil,
    "floor": math.floor,
    "sqrt": math.sqrt,
    "cbrt": math.cbrt,
    "log": math.log,
    "log2": math.log2,
    "log1p": math.log1p,
    "exp": math.exp,
    "exp2": math.exp2,
    "expm1": math.expm1,
    "hypot": math.hypot,
}


def evaluate(formula: str, inputs: Mapping[str, float]) -> float:
    """Arithmetic over the inputs, and nothing else; of a choice only the branch that is taken is computed."""

    def value(node: ast.expr) -> float:
        match node:
            case ast.Constant(value=int() | float() as number):
                return number
            case ast.Name(id="inf"):
                return math.inf
            case ast.Name(id=name):
                return inputs[name]
            case ast.BinOp(left=left, op=op, right=right):
                return BINARY[type(op)](value(left), value(right))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -value(operand)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return not value(operand)
            case ast.BoolOp(op=ast.And(), values=values):
                return all(value(v) for v in values)
            case ast.BoolOp(op=ast.Or(), values=values):
                return any(value(v) for v in values)
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return COMPARED[type(op)](value(left), value(right))
            case ast.IfExp(test=test, body=body, orelse=other):
                return value(body) if value(test) else value(other)
            case ast.Call(func=ast.Name(id=name), args=args):
                return FUNCTIONS[name](*(value(a) for a in args))
        raise AssertionError(ast.dump(node))

    return value(ast.parse(formula, mode="eval").body)


def label_of(name: str) -> tuple[str, str]:
    """A line's own name, and the label in brackets."""
    own, _, label = name.partition(" (")
    return own, label.removesuffix(")")


def lines_of(name: str, label: str) -> list[str]:
    """What an input's own line may be called, nearest first: under its labels, outer ones, none."""
    outer = label.split(", ") if label else []
    return [f"{name} ({', '.join(outer[:count])})" for count in range(len(outer), 0, -1)] + [name]


def check(steps: Sequence[Step]) -> dict[str, float]:
    """Every line from its own inputs, and every input that an earlier line computed from that line; values by name."""
    known: dict[str, float] = {}
    for step in steps:
        assert evaluate(step.formula, step.inputs) == pytest.approx(step.value, rel=1e-9, abs=1e-300), step
        assert step.unit
        assert step.source
        _, label = label_of(step.name)
        for name, given in step.inputs.items():
            earlier = next((known[line] for line in lines_of(name, label) if line in known), None)
            assert earlier is None or earlier == pytest.approx(given, rel=1e-12), (step, name)
        assert known.setdefault(step.name, step.value) == pytest.approx(step.value, rel=1e-12), step
    return known
