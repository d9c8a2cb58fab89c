"""Tables: answers as rows, and rows as text, CSV (safe to open in a spreadsheet), Markdown and JSON."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

import orjson

Json = Mapping[str, Any]


def describe_hardware(deployment: Json) -> str:
    """Accelerators of a deployment with their count.

    Check:
        >>> describe_hardware({"accelerator": "nvidia-l4", "total_accelerators": 2})
        '2 x nvidia-l4'
    """
    pools = deployment.get("pools")
    if pools:
        return " + ".join(f"{describe_hardware(pool)} ({name})" for name, pool in pools.items())
    return f"{deployment.get('total_accelerators')} x {deployment['accelerator']}"


def describe_seller(deployment: Json) -> str | None:
    """Provider and pricing model of a deployment; None if it has no offer."""
    offer = deployment.get("offer")
    if not offer:
        pools = deployment.get("pools") or {}
        return " + ".join(dict.fromkeys(s for pool in pools.values() if (s := describe_seller(pool)))) or None
    return " ".join(str(offer[name]) for name in ("provider", "pricing_model") if offer.get(name))


def describe_layout(deployment: Json) -> str | None:
    """Layout of a deployment: its replicas, or the parallel degrees of a run."""
    if deployment.get("pools"):
        return "two pools"
    degrees = {"dp": "data_parallel", "tp": "tensor_parallel", "pp": "pipeline_parallel", "ep": "expert_parallel"}
    parts = [f"{short}{deployment[name]}" for short, name in degrees.items() if (deployment.get(name) or 1) > 1]
    replicas = deployment.get("replicas")
    spare = f"+{deployment['spare_replicas']}" if deployment.get("spare_replicas") else ""
    return " ".join([*([f"{replicas}{spare} replicas"] if replicas else []), *parts]) or None


def describe_software(deployment: Json) -> str | None:
    """Engine or framework, with the weight format or the precision of the run."""
    pool = deployment["pools"]["decode"] if deployment.get("pools") else deployment
    parts = (pool.get(name) for name in ("engine", "framework", "weight_format", "precision"))
    return " ".join(str(part) for part in parts if part) or None


def deployment_row(answer: Json) -> dict[str, Any]:
    deployment, cost, speed = answer["deployment"], answer.get("cost") or {}, answer.get("performance") or {}
    price = "usd_total" if cost.get("usd_total") is not None else "usd_per_hour"
    row: dict[str, Any] = {
        "hardware": describe_hardware(deployment),
        "from": describe_seller(deployment),
        "layout": describe_layout(deployment),
        "runs": describe_software(deployment),
        price: cost.get(price),
    }
    for name in ("ttft_ms", "tpot_ms", "e2e_ms"):
        if speed.get(name):
            row[f"{name[:-3]}_p95_ms"] = speed[name].get("p95")
    for name in ("requests_per_s_capacity", "output_tokens_per_s", "tokens_per_s", "samples_per_s", "days", "mfu"):
        if speed.get(name) is not None:
            row[name] = speed[name]
    row["power_kw"] = cost.get("power_kw")
    return row


def ranking_rows(answer: Json) -> list[dict[str, Any]]:
    """Rows of the recommendations, all with the same columns."""
    rows = [{"rank": each["rank"], **deployment_row(each)} for each in answer["recommendations"]]
    names = list(dict.fromkeys(name for row in rows for name in row))
    return [{name: row.get(name) for name in names} for row in rows]


def comparison_rows(answer: Json) -> list[dict[str, Any]]:
    """Rows of a comparison: one figure per row, one option per column."""
    names = [each["name"] for each in answer["options"]]
    return [
        {"": line["quantity"], **dict(zip(names, line["values"], strict=True)), "unit": line["unit"]}
        for line in answer["table"]
    ]


def runnable_rows(items: Sequence[Json]) -> list[dict[str, Any]]:
    """A row per model that machines can run: the format of one stream, and tokens/s of each use."""
    uses = dict.fromkeys(each["use"] for item in items for each in item["uses"])
    rows = []
    for item in items:
        found = {each["use"]: each for each in item["uses"]}
        first = item["uses"][0]
        row = {
            "model": item["model"],
            "billion": round(item["parameters"] / 1e9, 1),
            "software": first["software"],
            "format": first.get("weight_format"),
        }
        rows.append(row | {use: round(found[use]["tokens_per_s"]) if use in found else None for use in uses})
    return rows


def count_rows(answer: Json) -> list[dict[str, Any]]:
    """Rows of the plain counts of a model.

    Check:
        >>> count_rows({"parameters": 8, "parts": {}, "mixture": False})
        [{'': 'parameters', 'value': 8}]
    """
    plain = {k: v for k, v in answer.items() if isinstance(v, str | int | float) and not isinstance(v, bool)}
    return [{"": name, "value": value} for name, value in plain.items()]


def reason_lines(each: Json) -> Iterator[str]:
    """Explanations of one option, as list items."""
    for reason in each.get("explanation", ()):
        yield f"- {reason['text']}"


def rejection_lines(answer: Json, most: int) -> Iterator[str]:
    """Rejected accelerators with the reason, as list items.

    Parameters:
        most: maximum number of items.
    """
    for each in answer.get("rejected", ())[:most]:
        yield f"- {each['accelerator']}: {each['text']}"


COST_UNITS = {"usd_per_hour": "USD/h", "usd_total": "USD for the run"}
CHANGES = "What would change the answer"


def change_lines(answer: Json) -> Iterator[str]:
    """Effects of nearby changes, as list items."""
    for each in answer.get("sensitivity", ()):
        yield f"- {each['change']}: {each['effect']}"


def size_text(level: Json) -> str:
    """Accelerators and cost of one confidence or of one outcome of a benchmark.

    Check:
        >>> size_text({"total_accelerators": 1, "usd_per_hour": 22.9, "deployment": None})
        '1 accelerator, 22.9 USD/h'
    """
    count, other = level["total_accelerators"], level.get("deployment")
    costs = [f"{level[name]} {unit}" for name, unit in COST_UNITS.items() if level.get(name) is not None]
    kind = f"x {other['accelerator']}" if other else "accelerator" if count == 1 else "accelerators"
    return ", ".join([f"{count:,} {kind}", *costs])


def confidence_lines(each: Json) -> Iterator[str]:
    """Hardware and cost of one option per confidence, or why no number is enough, as list items.

    Check:
        >>> level = {"confidence": 0.9, "total_accelerators": 10, "usd_per_hour": 22.9}
        >>> list(confidence_lines({"confidence": {"by_level": [level]}}))
        ['- 90 %: 10 accelerators, 22.9 USD/h']
    """
    for level in each.get("confidence", {}).get("by_level", ()):
        if reason := level.get("unreachable"):
            found = f"{reason['why']} {reason['instead']}"
        elif level["total_accelerators"] is not None:
            found = size_text(level)
        else:
            found = "another layout or accelerator"
        yield f"- {level['confidence'] * 100:g} %: {found}"


def benchmark_lines(answer: Json) -> Iterator[str]:
    """The benchmark that reduces the uncertainty most and what it decides, as list items."""
    if settle := answer.get("verification"):
        cost = "" if settle["usd"] is None else f", {settle['usd']} USD"
        yield f"- {settle['minutes']} minutes on {settle['accelerators']} x {settle['accelerator']}{cost}"
        yield f"- {settle['decides']}"


def titled(title: str, lines: Iterable[str]) -> list[str]:
    """Lines below an empty line and their title; none if there are no lines."""
    found = list(lines)
    return ["", title, *found] if found else []


def select_columns(items: list[dict[str, Any]], columns: tuple[str, ...]) -> list[dict[str, Any]]:
    """Rows reduced to the given columns."""
    return [{name: item.get(name) for name in columns} for item in items]


# Characters that start a formula in spreadsheets, with or without spaces before them.
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def guard_formula(text: str) -> str:
    """Text that spreadsheets do not execute as a formula.

    Check:
        >>> guard_formula("=1+1"), guard_formula("H100")
        ("'=1+1", 'H100')
    """
    return f"'{text}" if text.lstrip(" ").startswith(FORMULA_STARTS) else text


Row = Mapping[str, Any]
# Columns of a ranking that a narrow table keeps, the most decisive first.
COLUMN_PRIORITY = (
    "hardware",
    "rank",
    "usd_per_hour",
    "usd_total",
    "usd_per_accelerator_hour",
    "ttft_p95_ms",
    "days",
    "from",
    "tpot_p95_ms",
    "runs",
    "id",
    "status",
    "option",
)
LEAST_CUT = 24  # characters of a cell that is cut to fit


class OutputFormat(StrEnum):
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


def sort_rows(rows: Sequence[Row], by: str | None) -> list[Row]:
    """Rows sorted by a column; `-column` sorts from high to low. Rows without a value come last.

    Errors:
        ValueError: no row has this column.

    Check:
        >>> [row["a"] for row in sort_rows([{"a": 1}, {"a": None}, {"a": 2}], "-a")]
        [2, 1, None]
    """
    name = (by or "").removeprefix("-")
    if by is None or not rows:
        return list(rows)
    if name not in rows[0]:
        raise ValueError(f"No column {name!r}. Columns: {', '.join(rows[0])}.")
    known = sorted((row for row in rows if row[name] is not None), key=lambda row: row[name], reverse=by != name)
    return [*known, *(row for row in rows if row[name] is None)]


def fit_columns(rows: Sequence[Row], width: int) -> list[Row]:
    """Rows reduced to the most decisive columns that fit a width, in their original order, without empty columns. A
    decisive text that does not fit is cut.

    Check:
        >>> fit_columns([{"hardware": "1 x nvidia-l4", "layout": "1 replicas", "usd_per_hour": 0.8}], 30)
        [{'hardware': '1 x nvidia-l4', 'usd_per_hour': 0.8}]
    """
    remaining, chosen = width, dict[str, int]()
    for name in sorted(
        rows[0], key=lambda name: COLUMN_PRIORITY.index(name) if name in COLUMN_PRIORITY else len(COLUMN_PRIORITY)
    ):
        cells = [format_value(row.get(name)) for row in rows]
        needed = max(map(len, (name, *cells))) + 2
        if name in COLUMN_PRIORITY and remaining - 2 >= LEAST_CUT:
            needed = min(needed, remaining)
        if any(cells) and (needed <= remaining or name in COLUMN_PRIORITY[:2]):
            remaining -= needed
            chosen[name] = needed - 2
    return [{name: cut_text(row[name], chosen[name]) for name in row if name in chosen} for row in rows]


def cut_text(value: Any, length: int) -> Any:
    """A text of at most a length, its end replaced by an ellipsis; any other value as it is.

    Check:
        >>> cut_text("8 x NVIDIA H100 SXM5 80GB", 16), cut_text(0.8, 2)
        ('8 x NVIDIA H100…', 0.8)
    """
    return f"{value[: length - 1].rstrip()}…" if isinstance(value, str) and len(value) > length else value


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
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
