"""Tables as frozen dataclasses of NumPy columns: every formula applies to whole columns.

They use additions, products, quotients and roots only, which every processor rounds alike. Math libraries disagree on
the last digit of exp and log.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property
from typing import Generic, Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

MIB = 2**20
GIB = 2**30
KB = 1e3
MB = 1e6
GB = 1e9
GBIT = GB / 8
TB = 1e12

TERA = 1e12
GIGA = 1e9
MEGA = 1e6

SECONDS_PER_HOUR = 3600.0
SECONDS_PER_MINUTE = 60.0
TINY = 1e-12  # floor of a divisor that may be zero
LEAST_S = 1e-30  # floor of a time that is a divisor
ROUNDING = 1e-9  # share by which equal figures may differ in their last digits
LEAST_PER_S = 1e-12  # floor of a rate that is a divisor; prices and needs at this rate exceed every limit
LEAST_WORK_PER_S = 1e-6  # slowest rate of work with a price per million, units/s
HOURS_PER_DAY = 24.0
HOURS_PER_YEAR = 8760.0
HOURS_PER_MONTH = HOURS_PER_YEAR / 12
SECONDS_PER_DAY = SECONDS_PER_HOUR * HOURS_PER_DAY


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
    """Tables of one type, concatenated; lazy fields must have rows of the same shared table."""
    joined: dict[str, object] = {}
    for f in fields(tables[0]):
        parts = [getattr(t, f.name) for t in tables]
        if isinstance(parts[0], np.ndarray):
            joined[f.name] = np.concatenate(parts)
        elif isinstance(parts[0], _LazyTable):
            assert all(part.table is parts[0].table for part in parts)
            joined[f.name] = _LazyTable(parts[0].table, np.concatenate([part.rows for part in parts]))
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


LN_2 = 0.6931471805599453
ROOT_HALF = 0.7071067811865476
ROOT_TWO_PI = 2.5066282746310002
EXP_TERMS, LOG_TERMS, NORMAL_TERMS = 15, 13, 120  # further terms do not change a double
GRID_PER_SIGMA, WIDEST_SIGMA = 128, 6  # grid of the normal distribution


def exp_of(x: Column) -> Column:
    """e to the power of x.

    Check:
        >>> round(one(exp_of(col(1.0))), 12)
        2.718281828459
    """
    doublings = np.rint(x / LN_2)
    rest = x - doublings * LN_2
    found = np.ones_like(rest)
    for term in range(EXP_TERMS, 0, -1):
        found = 1 + rest / term * found
    return np.ldexp(found, doublings.astype(np.int64))


def log_of(x: Column) -> Column:
    """Natural logarithm of numbers above 0.

    Check:
        >>> round(one(log_of(col(10.0))), 12)
        2.302585092994
    """
    part, doublings = np.frexp(x)
    low = part < ROOT_HALF
    part, doublings = np.where(low, 2 * part, part), doublings - low
    ratio = (part - 1) / (part + 1)
    squared, found = ratio * ratio, np.zeros_like(ratio)
    for term in range(2 * LOG_TERMS + 1, 0, -2):
        found = 1 / term + squared * found
    logarithm: Column = doublings * LN_2 + 2 * ratio * found
    return logarithm


def normal_cdf(z: Column) -> Column:
    """Cumulative standard normal distribution within six sigma, after Marsaglia 2004, J. Stat. Softw. 11(4).

    Check:
        >>> round(one(normal_cdf(col(1.6448536269514722))), 12)
        0.95
    """
    term = found = z
    for factor in range(3, 2 * NORMAL_TERMS, 2):
        term = term * z * z / factor
        found = found + term
    return 0.5 + found * exp_of(-z * z / 2) / ROOT_TWO_PI


@cache
def normal_grid() -> tuple[Column, Column]:
    """Evenly spaced values and their cumulative standard normal probabilities."""
    z = np.arange(-WIDEST_SIGMA * GRID_PER_SIGMA, WIDEST_SIGMA * GRID_PER_SIGMA + 1) / GRID_PER_SIGMA
    return z, np.maximum.accumulate(normal_cdf(z))


@dataclass(frozen=True)
class Quantiles:
    """Shares from 0 to 1 at which distributions are read, and their place in the normal distribution, found once."""

    shares: Column

    @cached_property
    def normal_place(self) -> tuple[NDArray[np.int16], Column]:
        """For each share, the value of `normal_grid` below it, and the position between that value and the next."""
        _, grid = normal_grid()
        below = np.clip(np.searchsorted(grid, self.shares, side="right") - 1, 0, len(grid) - 2)
        width = np.maximum(grid[below + 1] - grid[below], np.finfo(float).tiny)
        return below.astype(np.int16), np.clip((self.shares - grid[below]) / width, 0.0, 1.0)

    def interpolate_normal(self, values: Column) -> Column:
        """A function of a normally distributed number at each share, from its values on `normal_grid`."""
        below, part = self.normal_place
        place = below.astype(np.intp)  # wide indices are read several times faster
        return values.take(place) + part * np.diff(values).take(place)
