"""Tables as frozen dataclasses of NumPy columns: every formula applies to whole columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Generic, Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

Column = NDArray[np.float64]
Codes = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Columns:
    """A table: every field that is an array or a table has one entry per row."""

    def take(self, rows: Codes | Mask) -> Self:
        """A table with the given rows, in the given order."""
        if rows.dtype == bool:
            rows = np.flatnonzero(rows)
            if len(rows) == len(self):
                return self
        taken = object.__new__(type(self))
        for name in column_names(type(self)):
            value = getattr(self, name)
            if isinstance(value, np.ndarray):
                value = value[rows]
            elif isinstance(value, TABLE_TYPES):
                value = value.take(rows)
            object.__setattr__(taken, name, value)
        return taken

    def __len__(self) -> int:
        for name in column_names(type(self)):
            value = getattr(self, name)
            if isinstance(value, (np.ndarray, *TABLE_TYPES)):
                return len(value)
        raise TypeError(f"{type(self).__name__} has no columns")


Table = TypeVar("Table", bound=Columns)


@dataclass(frozen=True, slots=True)
class Indexed(Generic[Table]):
    """Rows of a shared table, looked up lazily: selecting rows moves row numbers instead of columns."""

    table: Table  # the shared table
    rows: Codes  # row numbers in it

    def take(self, rows: Codes | Mask) -> Indexed[Table]:
        """The given rows, in the given order."""
        return Indexed(self.table, self.rows[rows])

    def materialize(self) -> Table:
        """The rows as a table whose columns are looked up on first use."""
        return lazy_rows(self.table, self.rows)

    def __len__(self) -> int:
        return len(self.rows)


class _LazyTable(Indexed[Table]):
    """Rows of a shared table that read like the table itself: each column is looked up on first use, then cached."""

    def __init__(self, table: Table, rows: Codes) -> None:
        for name, value in (("table", table), ("rows", rows)):
            object.__setattr__(self, name, value)

    def take(self, rows: Codes | Mask) -> _LazyTable[Table]:
        return _LazyTable(self.table, self.rows[rows])

    def __getattr__(self, name: str) -> object:
        value = getattr(self.table, name)
        if isinstance(value, np.ndarray):
            value = value[self.rows]
        elif isinstance(value, Columns | _LazyTable):
            value = _LazyTable(value, self.rows)
        self.__dict__[name] = value
        return value


def lazy_rows(table: Table, rows: Codes) -> Table:
    """Rows of a table whose columns are looked up on first use."""
    return cast(Table, _LazyTable(table, rows))


def materialize_as(table_type: type[Table], table: Table) -> Table:
    """A table with columns of its own, copied from a table that may be lazy."""
    return table_type(**{name: getattr(table, name) for name in column_names(table_type)})


# Types of fields that are tables themselves.
TABLE_TYPES = (Columns, Indexed)

_COLUMN_NAMES: dict[type, tuple[str, ...]] = {}


def column_names(table: type[Columns]) -> tuple[str, ...]:
    """Names of the columns of a table type."""
    known = _COLUMN_NAMES.get(table)
    if known is None:
        known = _COLUMN_NAMES[table] = tuple(f.name for f in fields(table))
    return known


def distinct_rows(key: Codes) -> tuple[Codes, Codes]:
    """First row of each distinct key in order of appearance, and for every row the index of its key."""
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    fresh = np.zeros(len(key), bool)
    fresh[first] = True
    rank = np.cumsum(fresh) - 1
    return np.flatnonzero(fresh), rank[first][inverse]


def column(values: object) -> Column:
    """A float64 column; None becomes NaN, for which every comparison is false."""
    return np.array(values, dtype=np.float64)


def concat_tables(tables: Sequence[Table]) -> Table:
    """Tables of one type, concatenated."""
    joined: dict[str, object] = {}
    for f in fields(tables[0]):
        parts = [getattr(t, f.name) for t in tables]
        if isinstance(parts[0], np.ndarray):
            joined[f.name] = np.concatenate(parts)
        elif isinstance(parts[0], Columns):
            joined[f.name] = concat_tables(parts)
    return replace(tables[0], **joined)


def with_rows(table: Table, rows: Codes, changed: Table) -> Table:
    """A table of plain columns with some rows replaced by those of `changed`."""
    merged: dict[str, object] = {}
    for name in column_names(type(table)):
        column = getattr(table, name).copy()
        column[rows] = getattr(changed, name)
        merged[name] = column
    return replace(table, **merged)


def choose_rows(mask: Mask, first: Table, second: Table) -> Table:
    """Rows of the first table where the mask is true, else those of the second."""
    chosen: dict[str, object] = {}
    for name in column_names(type(first)):
        of_first, of_second = getattr(first, name), getattr(second, name)
        if isinstance(of_first, np.ndarray):
            chosen[name] = np.where(mask, of_first, of_second)
        elif isinstance(of_first, Columns):
            chosen[name] = choose_rows(mask, of_first, of_second)
    return replace(first, **chosen)


def at(values: Column, row: int) -> float:
    """One entry of a column."""
    return float(values[row])


def one(values: Column) -> float:
    """The only entry of a one-row column."""
    return float(values[0])
