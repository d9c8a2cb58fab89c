"""The package's data files, read as they are: rows of text, and figures in base units."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from importlib import resources

Row = Mapping[str, str]


def data_text(name: str) -> str:
    """One of the package's data files."""
    return resources.files("app.catalog").joinpath("data", name).read_text(encoding="utf-8")


def rows_of(name: str) -> Iterator[Row]:
    return csv.DictReader(io.StringIO(data_text(name)))


def number(text: str, factor: float = 1.0) -> float | None:
    """A figure in base units; empty means unknown, never zero."""
    return None if text == "" else float(text) * factor


def integer(text: str) -> int | None:
    return None if text == "" else int(float(text))


def words(text: str) -> str | None:
    return text or None
