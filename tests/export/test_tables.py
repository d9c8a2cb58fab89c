"""Tables of the command line and of agents' texts: rows read back are the rows written, whatever the format."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import fields
from decimal import Decimal
from typing import Any

import pytest

from app.export.columns import COLUMNS, NUMBERS, csv_bytes, line_cells
from app.export.lines import Settlement, build_bill
from app.export.tables import (
    COLUMN_PRIORITY,
    OutputFormat,
    comparison_rows,
    count_rows,
    csv_cell,
    deployment_row,
    describe_hardware,
    describe_layout,
    describe_seller,
    describe_software,
    fit_columns,
    format_value,
    guard_formula,
    ranking_rows,
    reason_lines,
    rejection_lines,
    render_rows,
    select_columns,
    select_format,
)
from tests.export import stored


def test_a_year_is_shown_as_one_and_other_numbers_grouped() -> None:
    table = render_rows(
        [{"name": "h100", "release_year": 2022, "memory_gb_per_s": 3350.0, "seen": None}], OutputFormat.TABLE
    )
    assert "2022" in table and "2,022" not in table and "3,350" in table


SERVICE: dict[str, Any] = {
    "accelerator": "h200",
    "total_accelerators": 8,
    "replicas": 3,
    "spare_replicas": 1,
    "tensor_parallel": 2,
    "pipeline_parallel": 1,
    "data_parallel": None,
    "engine": "vllm",
    "weight_format": "fp8",
    "offer": {"provider": "sky", "pricing_model": "on_demand"},
}
RUN: dict[str, Any] = {
    "accelerator": "b200",
    "total_accelerators": 64,
    "data_parallel": 8,
    "tensor_parallel": 4,
    "pipeline_parallel": 2,
    "expert_parallel": 16,
    "framework": "megatron",
    "precision": "bf16",
}


def test_a_deployment_is_described_by_its_own_fields() -> None:
    assert describe_hardware(SERVICE) == "8 x h200"
    assert describe_seller(SERVICE) == "sky on_demand"
    assert describe_layout(SERVICE) == "3+1 replicas tp2"  # degrees of one and unknown ones are left out
    assert describe_layout(SERVICE | {"spare_replicas": 0}) == "3 replicas tp2"
    assert describe_software(SERVICE) == "vllm fp8"
    assert describe_layout(RUN) == "dp8 tp4 pp2 ep16"
    assert describe_software(RUN) == "megatron bf16"
    assert describe_seller(RUN) is None
    assert describe_seller({"offer": {"provider": "sky"}}) == "sky"
    assert describe_layout({}) is None
    assert describe_software({}) is None


def test_two_pools_are_described_one_by_one() -> None:
    other = SERVICE | {"accelerator": "l4", "total_accelerators": 2, "weight_format": "bf16"}
    both = {"pools": {"prefill": SERVICE, "decode": other}}
    assert describe_hardware(both) == "8 x h200 (prefill) + 2 x l4 (decode)"
    assert describe_layout(both) == "two pools"
    assert describe_software(both) == "vllm bf16"  # the pool that writes
    assert describe_seller(both) == "sky on_demand"  # the same seller of both is named once
    other = other | {"offer": {"provider": "land", "pricing_model": "spot"}}
    assert describe_seller({"pools": {"prefill": SERVICE, "decode": other}}) == "sky on_demand + land spot"


def estimate(**changed: Any) -> dict[str, Any]:
    return {
        "deployment": SERVICE,
        "cost": {"usd_per_hour": 12.5, "power_kw": 7.0},
        "performance": {"ttft_ms": {"p50": 100.0, "p95": 200.0}, "tpot_ms": {"p95": 20.0}, "days": None, "mfu": 0.0},
        **changed,
    }


def test_a_row_has_what_is_known_and_work_that_ends_its_total() -> None:
    row = deployment_row(estimate())
    assert (row["usd_per_hour"], row["ttft_p95_ms"], row["tpot_p95_ms"], row["power_kw"]) == (12.5, 200.0, 20.0, 7.0)
    assert row["mfu"] == 0.0  # a zero is a figure; what has none has no column
    assert not {"days", "e2e_p95_ms", "usd_total"} & set(row)
    ended = deployment_row(estimate(cost={"usd_per_hour": 12.5, "usd_total": 900.0}))
    assert ended["usd_total"] == 900.0 and "usd_per_hour" not in ended
    free = deployment_row(estimate(cost={"usd_per_hour": 12.5, "usd_total": 0.0}))
    assert free["usd_total"] == 0.0
    assert deployment_row({"deployment": SERVICE})["usd_per_hour"] is None


def test_all_rows_of_a_ranking_have_the_columns_of_every_row() -> None:
    plain = {"deployment": SERVICE, "cost": {"usd_per_hour": 1.0}}
    rows = ranking_rows({"recommendations": [{"rank": 1, **plain}, {"rank": 2, **estimate()}]})
    assert [row["rank"] for row in rows] == [1, 2]
    assert list(rows[0]) == list(rows[1])
    assert rows[0]["ttft_p95_ms"] is None and rows[1]["ttft_p95_ms"] == 200.0


def test_a_comparison_has_a_row_per_figure_and_a_column_per_option() -> None:
    answer = {
        "options": [{"name": "a"}, {"name": "b"}],
        "table": [{"quantity": "cost", "values": [1.0, 2.0], "unit": "USD/h"}],
    }
    assert comparison_rows(answer) == [{"": "cost", "a": 1.0, "b": 2.0, "unit": "USD/h"}]
    with pytest.raises(ValueError, match="zip"):
        comparison_rows({**answer, "options": [{"name": "a"}]})


def test_counts_are_plain_values_and_lists_are_cut() -> None:
    assert [row[""] for row in count_rows({"a": 1, "b": 2.5, "c": "d", "e": True, "f": None, "g": []})] == list("abc")
    assert list(reason_lines({"explanation": [{"text": "One."}, {"text": "Two."}]})) == ["- One.", "- Two."]
    assert list(reason_lines({})) == list(rejection_lines({}, 3)) == []
    rejected = {"rejected": [{"accelerator": name, "text": "Too slow."} for name in "abc"]}
    assert list(rejection_lines(rejected, 2)) == ["- a: Too slow.", "- b: Too slow."]
    assert select_columns([{"a": 1, "b": 2}], ("b", "c")) == [{"b": 2, "c": None}]


ROWS: list[dict[str, Any]] = [
    {"name": "=1+1", "count": 1, "share": 0.12345, "note": None, "usd": 1000.0},
    {"name": "b", "count": 12345, "share": 7.0, "note": "x", "usd": -999.94},
    {"name": "long name", "count": None, "share": 100.0, "note": "", "usd": 999.4},
]


def test_rows_are_read_back_from_json_and_csv() -> None:
    assert json.loads(render_rows(ROWS, OutputFormat.JSON)) == ROWS
    read = list(csv.DictReader(io.StringIO(render_rows(ROWS, OutputFormat.CSV))))
    assert [row["name"] for row in read] == ["'=1+1", "b", "long name"]
    for written, row in zip(ROWS, read, strict=True):
        for name in ("count", "share", "usd"):
            assert row[name] == "" if written[name] is None else float(row[name]) == written[name]
    assert (csv_cell(True), csv_cell(0.1), csv_cell("-1"), csv_cell(["a", "b"])) == ("yes", "0.1", "'-1", "a, b")


@pytest.mark.parametrize("form", [OutputFormat.TABLE, OutputFormat.MARKDOWN])
def test_numbers_end_and_texts_begin_in_one_column(form: OutputFormat) -> None:
    lines = render_rows(ROWS, form).split("\n")
    if form is OutputFormat.MARKDOWN:
        rule = lines.pop(1)
        marks = [cell.strip() for cell in rule.strip("|").split("|")]
        assert [mark.endswith(":") for mark in marks] == [False, True, True, False, True]  # numbers are aligned right
        assert len({len(line) for line in [rule, *lines]}) == 1
        assert all(line.startswith("| ") and line.endswith(" |") for line in lines)
    at = lines[0].index("name")
    assert [line[at:].startswith(text) for line, text in zip(lines, ("name", "=1+1", "b", "long"), strict=True)]
    for name, texts in (("count", ("1", "12,345", "")), ("share", ("0.1235", "7", "100"))):
        end = lines[0].index(name) + len(name)
        assert [line[:end].split(" ")[-1] for line in lines[1:]] == list(texts)
    assert render_rows([], form).strip("| \n") == ""


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (True, "yes"),
        (False, "no"),
        (1000.0, "1,000"),
        (-1234.5, "-1,234"),
        (999.96, "1000"),
        (0.000123456, "0.0001235"),
        (1234567, "1,234,567"),
        (["a", 2.0, None], "a, 2, "),
        ("x", "x"),
    ],
)
def test_a_value_has_four_digits_or_no_decimals(value: Any, text: str) -> None:
    assert format_value(value) == text


def test_a_column_is_shown_where_more_decisive_ones_leave_room() -> None:
    rows = [{"rank": 1, "hardware": "8 x h200", "runs": "vllm", "usd_per_hour": 12.5, "other": "x", "empty": None}]
    shown = [list(fit_columns(rows, width)[0]) for width in range(80)]
    assert shown[0] == ["rank", "hardware"]  # the two that say which option it is, however narrow
    assert shown[-1] == ["rank", "hardware", "runs", "usd_per_hour", "other"]  # in their order, without empty ones
    needed = {name: max(len(name), len(format_value(value))) + 2 for name, value in rows[0].items() if name != "empty"}
    order = sorted(needed, key=[*COLUMN_PRIORITY, "other"].index)
    for width, columns in enumerate(shown):
        for at, name in enumerate(order[2:], start=2):
            room = width - sum(needed[earlier] for earlier in order[:at] if earlier in columns)
            assert (name in columns) == (needed[name] <= room)  # whatever more decisive columns leave is used
    assert COLUMN_PRIORITY[:2] == ("hardware", "rank")


def test_the_format_is_the_first_that_is_asked_for() -> None:
    flags = [(a, b, c) for a in (True, False) for b in (True, False) for c in (True, False)]
    names = [select_format(as_json=a, as_csv=b, as_markdown=c).value for a, b, c in flags]
    assert names == ["json"] * 4 + ["csv"] * 2 + ["markdown", "table"]


@pytest.mark.parametrize("rank", range(1, len(stored.RANKS) + 1))
def test_cells_of_a_line_are_its_own_fields_and_those_of_its_bill(rank: int) -> None:
    bill = build_bill(stored.answer(), stored.supply(), rank, Settlement())
    assert len({bill.reference, bill.snapshot, bill.answer}) == 3
    rows = list(csv.DictReader(io.StringIO(csv_bytes(bill).decode(), newline="")))
    for line, row in zip(bill.lines, rows, strict=True):
        cells = line_cells(bill, line)
        assert set(cells) <= set(COLUMNS)
        own = {f.name: getattr(line, f.name) for f in fields(line)}
        for name in ("kind", "sku", "supplier", "supplier_part_id", "manufacturer", "description", "notes"):
            assert cells[name] == own[name]
        assert (cells["line_no"], cells["manufacturer_part_number"]) == (line.number, line.part_number)
        assert (cells["quantity"], cells["unit_price"], cells["line_total"]) == (
            line.quantity,
            line.unit_price,
            line.total,
        )
        assert (cells["paid"], cells["term_months"], cells["unit"]) == (
            line.payment_timing,
            line.term_months,
            line.unit.value,
        )
        assert (cells["option"], cells["quote_reference"], cells["snapshot"]) == (rank, bill.reference, bill.snapshot)
        assert cells["currency"] == bill.settlement.currency
        if line.price is not None:
            price = tuple(cells[f"price_{name}"] for name in ("kind", "source", "observed", "confidence", "age_days"))
            assert price == tuple(
                getattr(line.price, n) for n in ("kind", "source", "observed", "confidence", "age_days")
            )
        for name in COLUMNS:
            value = cells.get(name)
            if value is None:
                assert row[name] == ""
            elif name in NUMBERS:
                assert Decimal(row[name]) == value
            else:
                assert row[name] == guard_formula(str(value))
