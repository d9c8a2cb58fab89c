"""Renders rows as a table, CSV, Markdown or JSON."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

import orjson

from app.export.table import guard_formula

Row = Mapping[str, Any]
# Columns of a ranking that a narrow table keeps, the most decisive first.
COLUMN_PRIORITY = (
    "hardware",
    "rank",
    "usd_per_hour",
    "usd_total",
    "ttft_p95_ms",
    "days",
    "from",
    "tpot_p95_ms",
    "runs",
)


class OutputFormat(StrEnum):
    """Output format of an answer."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    MARKDOWN = "markdown"


def select_format(*, as_json: bool, as_csv: bool, as_markdown: bool) -> OutputFormat:
    """Output format that the command-line flags select."""
    return (
        OutputFormat.JSON
        if as_json
        else OutputFormat.CSV
        if as_csv
        else OutputFormat.MARKDOWN
        if as_markdown
        else OutputFormat.TABLE
    )


def render_rows(rows: Sequence[Row], form: OutputFormat) -> str:
    """Rows of the same keys in an output format; tables align numbers to the right."""
    if form is OutputFormat.JSON:
        return json_text(list(rows))
    names = list(rows[0]) if rows else []
    if form is OutputFormat.CSV:
        return render_csv(names, rows)
    cells = [[table_cell(name, row.get(name)) for name in names] for row in rows]
    right = [all(isinstance(row.get(name), int | float | None) for row in rows) for name in names]
    widths = [max(len(name), *(len(line[at]) for line in cells)) for at, name in enumerate(names)]
    edge = "| " if form is OutputFormat.MARKDOWN else ""
    between = " | " if form is OutputFormat.MARKDOWN else "  "

    def render_line(values: Sequence[str]) -> str:
        parts = [v.rjust(w) if r else v.ljust(w) for v, w, r in zip(values, widths, right, strict=True)]
        return f"{edge}{between.join(parts)}{edge[::-1]}".rstrip()

    rule = [f"{'-' * (w - 1)}:" if r else "-" * w for w, r in zip(widths, right, strict=True)]
    head = [render_line(names), render_line(rule)] if form is OutputFormat.MARKDOWN else [render_line(names)]
    return "\n".join([*head, *(render_line(each) for each in cells)])


def fit_columns(rows: Sequence[Row], width: int) -> list[Row]:
    """Rows reduced to the most decisive columns that fit a width, in their original order, without empty columns.

    Check:
        >>> fit_columns([{"hardware": "1 x nvidia-l4", "layout": "1 replicas", "usd_per_hour": 0.8}], 30)
        [{'hardware': '1 x nvidia-l4', 'usd_per_hour': 0.8}]
    """
    remaining, chosen = width, set[str]()
    for name in sorted(
        rows[0], key=lambda name: COLUMN_PRIORITY.index(name) if name in COLUMN_PRIORITY else len(COLUMN_PRIORITY)
    ):
        cells = [format_value(row.get(name)) for row in rows]
        needed = max(map(len, (name, *cells))) + 2
        if any(cells) and (needed <= remaining or name in COLUMN_PRIORITY[:2]):
            remaining -= needed
            chosen.add(name)
    return [{name: value for name, value in row.items() if name in chosen} for row in rows]


def render_csv(names: Sequence[str], rows: Sequence[Row]) -> str:
    """CSV (RFC 4180) that is safe to open in a spreadsheet."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([csv_cell(row.get(name)) for name in names] for row in rows)
    return out.getvalue().rstrip("\n")


def csv_cell(value: Any) -> str:
    """A CSV cell: numbers as they are, text guarded against formulas."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return repr(value)
    return guard_formula(format_value(value))


def table_cell(name: str, value: Any) -> str:
    """A table cell; years have no thousands separator."""
    return str(value) if name.endswith("_year") and value is not None else format_value(value)


def format_value(value: Any) -> str:
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
        return ", ".join(format_value(each) for each in value)
    return str(value)


def json_text(value: Any) -> str:
    """Indented JSON."""
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
