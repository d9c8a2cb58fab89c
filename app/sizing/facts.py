"""Reads facts from the data files of the core and turns their rows and tables into records.

A fact is read in release notes, documentation or source text, not computed: a default, a flag, a name. Its row states
where and when it was read: `source` and `read` may stand in every table, and records without these fields skip them.
"""

from __future__ import annotations

import csv
import io
import re
import tomllib
from collections.abc import Hashable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import StrEnum
from functools import cache
from importlib import resources
from pathlib import Path
from types import MappingProxyType, NoneType, UnionType
from typing import Any, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

Record = TypeVar("Record", bound=Hashable)
SOURCE_KEYS, DATE_KEYS = ("source", "sources"), ("read", "as_of")
SKIPPED_KEYS = frozenset(("source", "read"))
# Fields of text that no record leaves empty.
STATED_KEYS = ("source", "as_of")
DATE = re.compile(r"20\d\d-(?:0[1-9]|1[0-2])(?:-[0-3]\d)?")
# In a cell of a CSV file: what separates the items of a list, and a key from its value.
ITEM, PAIR = "|", ":"
FLAGS: Mapping[str, bool] = MappingProxyType({"true": True, "false": False})


class InvalidFact(ValueError):
    """A row of a data file that does not fit its record. The message names the file, the row and the key."""


@cache
def read_toml(name: str | Path) -> dict[str, Any]:
    """A TOML file of `app/sizing/data`, or of another folder by its full path, parsed once."""
    try:
        return tomllib.loads(_read_text(name))
    except tomllib.TOMLDecodeError as wrong:
        raise InvalidFact(f"{name}: {wrong}") from wrong


@cache
def read_rows(name: str) -> list[dict[str, str]]:
    """The rows of a CSV file of `app/sizing/data`, parsed once. Every row has one cell per column."""
    rows = list(csv.DictReader(io.StringIO(_read_text(name))))
    for line, row in enumerate(rows, start=2):
        if None in row or None in row.values():
            raise InvalidFact(f"{name}, row {line}: the number of cells is not the number of columns.")
    return rows


def read_tables(name: str | Path, key: str) -> list[tuple[str, dict[str, Any]]]:
    """The tables `[[key]]` of a TOML file that has no others, each with its place for error messages."""
    found, file = read_toml(name), Path(name).name
    if [*found] != [key]:
        raise InvalidFact(f"{file}: unknown tables {', '.join(found)}. Known tables: [[{key}]].")
    return [(f"{file}, {key} {place}", table) for place, table in enumerate(found[key], start=1)]


def build_tables(cls: type[Record], name: str | Path, key: str) -> tuple[Record, ...]:
    """The records of a TOML file, one per table `[[key]]`."""
    return tuple(build(cls, table, where=where) for where, table in read_tables(name, key))


def build_rows(cls: type[Record], name: str) -> tuple[Record, ...]:
    """The records of a CSV file, one per row.

    An empty cell is left out. `|` separates the items of a list, `:` a key from its value.
    """
    kinds = _kinds_of(cls)
    records = []
    for line, row in enumerate(read_rows(name), start=2):
        where = f"{name}, row {line}"
        table = {key: _parse_cell(cell, kinds.get(key, str), f"{where}, {key}") for key, cell in row.items() if cell}
        records.append(build(cls, table, where=where))
    return tuple(records)


def _read_text(name: str | Path) -> str:
    return resources.files("app.sizing").joinpath("data", str(name)).read_text(encoding="utf-8")


def parse_number(text: str, *, where: str) -> float:
    """The number in a cell."""
    try:
        return float(text)
    except ValueError:
        raise InvalidFact(f"{where}: {text!r} is not a number.") from None


def require_source(table: Mapping[str, Any], *, where: str) -> None:
    """Raises InvalidFact unless a table states a source and the month or day when it was read."""
    for keys in (SOURCE_KEYS, DATE_KEYS):
        if not any(table.get(key) for key in keys):
            raise InvalidFact(f"{where}: {' or '.join(map(repr, keys))} is missing.")
    for key in table.keys() & {*DATE_KEYS}:
        _check_provenance(key, table[key], where)


def build(cls: type[Record], table: Mapping[str, Any], *, where: str) -> Record:
    """The record of a table: lists become tuples, texts members of a StrEnum, and inner tables records.

    `where` names the file and the row. Raises InvalidFact for an unknown or missing key, a wrong type, an empty source
    and a date that is neither YYYY-MM nor YYYY-MM-DD.
    """
    kinds = _kinds_of(cls)
    table = {key: value for key, value in table.items() if key in kinds or key not in SKIPPED_KEYS}
    if unknown := sorted(table.keys() - kinds.keys()):
        raise InvalidFact(f"{where}: unknown key {unknown[0]!r}. Known keys: {', '.join(kinds)}.")
    for name in _required_of(cls):
        if name not in table:
            raise InvalidFact(f"{where}: {name!r} is missing.")
    values = {name: _convert(value, kinds[name], f"{where}, {name}") for name, value in table.items()}
    for name, value in values.items():
        _check_provenance(name, value, where)
    return cls(**values)


@cache
def _kinds_of(cls: type) -> Mapping[str, Any]:
    """Types of the fields of a dataclass, by name."""
    types = get_type_hints(cls)
    return {f.name: types[f.name] for f in fields(cls) if f.init}


@cache
def _required_of(cls: type) -> tuple[str, ...]:
    """Fields that a table states: those without a default, and a source and its date wherever they are text."""
    kinds = _kinds_of(cls)
    bare = {f.name for f in fields(cls) if f.default is MISSING and f.default_factory is MISSING}
    return tuple(name for name, kind in kinds.items() if name in bare or (name in STATED_KEYS and kind is str))


def _check_provenance(name: str, value: object, where: str) -> None:
    if name == SOURCE_KEYS[0] and not value:
        raise InvalidFact(f"{where}: {name!r} is empty.")
    if name in DATE_KEYS and not DATE.fullmatch(str(value)):
        raise InvalidFact(f"{where}: {name!r} must be a date as YYYY-MM or YYYY-MM-DD, not {value!r}.")


@cache
def _parts_of(kind: Any, *, is_list: bool) -> tuple[Any, Any, tuple[Any, ...]]:
    """A type, its origin and its arguments; of a union the part that a list or another value can be."""
    if get_origin(kind) is UnionType:
        parts = [each for each in get_args(kind) if each is not NoneType]
        kind = next((each for each in parts if (get_origin(each) is tuple) is is_list), parts[0])
    return kind, get_origin(kind), get_args(kind)


def _convert(value: Any, kind: Any, where: str) -> Any:
    """A value of a data file as the type of its field."""
    if value is None and get_origin(kind) is UnionType:
        return None
    kind, origin, inner = _parts_of(kind, is_list=isinstance(value, list))
    if origin is tuple and isinstance(value, list):
        kinds = (inner[0],) * len(value) if inner[1:] == (...,) else inner
        if len(kinds) != len(value):
            raise InvalidFact(f"{where}: {value!r} must have {len(kinds)} items.")
        return tuple(_convert(value[place], each, f"{where}[{place}]") for place, each in enumerate(kinds))
    if origin is not None and origin is not tuple and isinstance(value, Mapping):
        return {key: _convert(each, inner[1], f"{where}.{key}") for key, each in value.items()}
    if kind in (Any, object) or (isinstance(kind, type) and type(value) is kind):
        return value
    if is_dataclass(kind) and isinstance(value, Mapping):
        return build(cast(Any, kind), value, where=where)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        if value in list(kind):
            return kind(value)
        raise InvalidFact(f"{where}: {value!r} is not one of {', '.join(kind)}.")
    if (kind is float and type(value) is int) or (origin is Literal and value in inner):
        return value
    raise InvalidFact(f"{where}: {value!r} is not of type {kind}.")


def _parse_cell(cell: str, kind: Any, where: str) -> Any:
    """A cell of a CSV file as a TOML file would hold it."""
    kind, origin, inner = _parts_of(kind, is_list=False)
    if origin is tuple:
        return [_parse_cell(item, inner[0], where) for item in cell.split(ITEM)]
    if origin is not None:
        pairs = (item.partition(PAIR) for item in cell.split(ITEM))
        return {key: _parse_cell(value, inner[1], where) for key, _, value in pairs}
    if kind is int and cell.isdecimal():
        return int(cell)
    return parse_number(cell, where=where) if kind is float else FLAGS.get(cell, cell) if kind is bool else cell
