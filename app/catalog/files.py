"""Reads the data files of the package: rows of text, and figures converted to base units."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from importlib import resources

Row = Mapping[str, str]
# Tables that the sizing core has, because its sentences name what they list.
CORE_FILES = ("providers.csv",)


def read_data_file(name: str) -> str:
    package = "app.sizing" if name in CORE_FILES else "app.catalog"
    return resources.files(package).joinpath("data", name).read_text(encoding="utf-8")


def read_rows(name: str) -> Iterator[Row]:
    return csv.DictReader(io.StringIO(read_data_file(name)))


def parse_number(text: str, factor: float = 1.0) -> float | None:
    """Returns a figure in base units; None for empty text, which means unknown rather than zero."""
    return None if text == "" else float(text) * factor


def parse_integer(text: str) -> int | None:
    return None if text == "" else int(float(text))


def text_or_none(text: str) -> str | None:
    return text or None
