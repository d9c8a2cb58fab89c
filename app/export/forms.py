"""Renders rows as a table, CSV, Markdown or JSON."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

import orjson

from app.export.table import guarded

Row = Mapping[str, Any]
# Columns of a ranking that a narrow table keeps, the most decisive first.
DECIDING = ("hardware", "rank", "usd_per_hour", "usd_total", "ttft_p95_ms", "days", "from", "tpot_p95_ms", "runs")


class Form(StrEnum):
    """Output format of an answer."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    MARKDOWN = "markdown"


def form_of(*, as_json: bool, as_csv: bool, as_markdown: bool) -> Form:
    """Output format that the command-line flags select."""
    return Form.JSON if as_json else Form.CSV if as_csv else Form.MARKDOWN if as_markdown else Form.TABLE


def render_rows(rows: Sequence[Row], form: Form) -> str:
    """Rows of the same keys in an output format; tables align numbers to the right."""
    if form is Form.JSON:
        return json_text(list(rows))
    names = list(rows[0]) if rows else []
    if form is Form.CSV:
        return as_csv(names, rows)
    cells = [[in_column(name, row.get(name)) for name in names] for row in rows]
    right = [all(isinstance(row.get(name), int | float | None) for row in rows) for name in names]
    widths = [max(len(name), *(len(line[at]) for line in cells)) for at, name in enumerate(names)]
    edge = "| " if form is Form.MARKDOWN else ""
    between = " | " if form is Form.MARKDOWN else "  "

    def line(values: Sequence[str]) -> str:
        parts = [v.rjust(w) if r else v.ljust(w) for v, w, r in zip(values, widths, right, strict=True)]
        return f"{edge}{between.join(parts)}{edge[::-1]}".rstrip()

    rule = [f"{'-' * (w - 1)}:" if r else "-" * w for w, r in zip(widths, right, strict=True)]
    head = [line(names), line(rule)] if form is Form.MARKDOWN else [line(names)]
    return "\n".join([*head, *(line(each) for each in cells)])


def fitting(rows: Sequence[Row], width: int) -> list[Row]:
    """Rows reduced to the most decisive columns that fit a width, in their original order, without empty columns.

    Check:
        >>> fitting([{"hardware": "1 x nvidia-l4", "layout": "1 replicas", "usd_per_hour": 0.8}], 30)
        [{'hardware': '1 x nvidia-l4', 'usd_per_hour': 0.8}]
    """
    remaining, chosen = width, set[str]()
    for name in sorted(rows[0], key=lambda name: DECIDING.index(name) if name in DECIDING else len(DECIDING)):
        cells = [shown(row.get(name)) for row in rows]
        needed = max(map(len, (name, *cells))) + 2
        if any(cells) and (needed <= remaining or name in DECIDING[:2]):
            remaining -= needed
            chosen.add(name)
    return [{name: value for name, value in row.items() if name in chosen} for row in rows]


def as_csv(names: Sequence[str], rows: Sequence[Row]) -> str:
    """CSV (RFC 4180) that is safe to open in a spreadsheet."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([cell(row.get(name)) for name in names] for row in rows)
    return out.getvalue().rstrip("\n")


def cell(value: Any) -> str:
    """A CSV cell: numbers as they are, text guarded against formulas."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return repr(value)
    return guarded(shown(value))


def in_column(name: str, value: Any) -> str:
    """A table cell; years have no thousands separator."""
    return str(value) if name.endswith("_year") and value is not None else shown(value)


def shown(value: Any) -> str:
    """A value as text.

    Floats have four significant digits, or no decimals from 1,000 up; lists are separated by commas.
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, list):
        return ", ".join(shown(each) for each in value)
    return str(value)


def json_text(value: Any) -> str:
    """Indented JSON."""
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
