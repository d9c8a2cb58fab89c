"""Sorts text by bytes on every database, independent of its collation."""

from __future__ import annotations

from typing import Any

from sqlalchemy import String
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.orm import InstrumentedAttribute
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import GenericFunction


class bytewise(GenericFunction[str]):  # noqa: N801
    """A text column that sorts and compares by bytes. SQLite does so by default; PostgreSQL needs COLLATE "C"."""

    type = String()
    inherit_cache = True


@compiles(bytewise)
def _compile_default(element: bytewise, compiler: SQLCompiler, **how: Any) -> str:
    return compiler.process(element.clauses, **how)


@compiles(bytewise, "postgresql")
def _compile_postgresql(element: bytewise, compiler: SQLCompiler, **how: Any) -> str:
    return f'({compiler.process(element.clauses, **how)} COLLATE "C")'


def sort_key(column: InstrumentedAttribute[Any]) -> bytewise | InstrumentedAttribute[Any]:
    """Returns the sort key of a list: numbers as they are, text by bytes."""
    return bytewise(column) if column.type.python_type is str else column
