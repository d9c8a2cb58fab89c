"""The order of texts: by their bytes, on every database, whatever language it was set up to sort by."""

from __future__ import annotations

from typing import Any

from sqlalchemy import String
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.orm import InstrumentedAttribute
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import GenericFunction


class bytewise(GenericFunction[str]):  # noqa: N801
    """A column of text to order by and to compare with; SQLite compares bytes as it is."""

    type = String()
    inherit_cache = True


@compiles(bytewise)
def _as_it_is(element: bytewise, compiler: SQLCompiler, **how: Any) -> str:
    return compiler.process(element.clauses, **how)


@compiles(bytewise, "postgresql")
def _by_bytes(element: bytewise, compiler: SQLCompiler, **how: Any) -> str:
    return f'({compiler.process(element.clauses, **how)} COLLATE "C")'


def ordered_by(column: InstrumentedAttribute[Any]) -> bytewise | InstrumentedAttribute[Any]:
    """What a list is ordered by: numbers as they are, texts by their bytes."""
    return bytewise(column) if column.type.python_type is str else column
