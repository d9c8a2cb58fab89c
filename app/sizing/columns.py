"""Tables as frozen dataclasses of NumPy columns: every formula is applied to whole columns."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Self

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


def column(values: object) -> Column:
    """A float64 column; None becomes NaN, which every comparison treats as false."""
    return np.array(values, dtype=np.float64)
