"""Tables as frozen dataclasses of NumPy columns: every formula is applied to whole columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Self, TypeVar

import numpy as np
from numpy.typing import NDArray

Column = NDArray[np.float64]
Codes = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Columns:
    """A table: every field that is an array, or a table itself, has one entry per row."""

    def take(self, rows: Codes | Mask) -> Self:
        """The same table with some rows, in the order given."""
        taken: dict[str, object] = {}
        for f in fields(self):
            value = getattr(self, f.name)
            if isinstance(value, np.ndarray):
                taken[f.name] = value[rows]
            elif isinstance(value, Columns):
                taken[f.name] = value.take(rows)
        return replace(self, **taken)

    def __len__(self) -> int:
        for f in fields(self):
            value = getattr(self, f.name)
            if isinstance(value, np.ndarray | Columns):
                return len(value)
        raise TypeError(f"{type(self).__name__} has no columns")


Table = TypeVar("Table", bound=Columns)


def names_of(table: type[Columns]) -> tuple[str, ...]:
    """The columns of a kind of table."""
    return tuple(f.name for f in fields(table))


def column(values: object) -> Column:
    """A float64 column; None becomes NaN, which every comparison treats as false."""
    return np.array(values, dtype=np.float64)


def stacked(tables: Sequence[Table]) -> Table:
    """Tables of one type, one under another."""
    joined: dict[str, object] = {}
    for f in fields(tables[0]):
        parts = [getattr(t, f.name) for t in tables]
        if isinstance(parts[0], np.ndarray):
            joined[f.name] = np.concatenate(parts)
        elif isinstance(parts[0], Columns):
            joined[f.name] = stacked(parts)
    return replace(tables[0], **joined)


def one(values: Column) -> float:
    """The only entry of a one-row column."""
    return float(values[0])
