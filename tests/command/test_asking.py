"""Numbers and requests as people type them."""

from __future__ import annotations

import pytest
import typer

from app.command.asking import build_request, parse_number, parse_owned
from app.export.tables import OutputFormat, render_rows


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("70b", 70e9),
        ("1 trillion", 1e12),
        ("1,000,000,000", 1e9),
        ("1_000", 1000),
        ("0.5", 0.5),
        ("1.5e3", 1500),
        ("2K", 2000),
    ],
)
def test_numbers_are_read_as_they_are_typed(text: str, value: float) -> None:
    assert parse_number(text) == value


@pytest.mark.parametrize("text", ["", "b", "1 bn of them", "1.2.3", "nan", "1e"])
def test_text_that_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        parse_number(text)


@pytest.mark.parametrize(
    ("text", "name", "count"),
    [("8xh100", "h100", 8), ("4 x rtx a6000", "rtx a6000", 4), ("2×dgx spark", "dgx spark", 2)],
)
def test_owned_hardware_is_a_number_and_a_name(text: str, name: str, count: int) -> None:
    assert parse_owned(text) == {"accelerator": name, "count": count}


@pytest.mark.parametrize("text", ["h100", "8x", "x h100", "many x h100"])
def test_owned_hardware_without_a_number_or_a_name_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="is not a number and a name, such as 8xh100"):
        parse_owned(text)


def test_flags_go_before_the_file_and_settings_before_flags() -> None:
    flags = {"workload.traffic.peak_requests_per_s": 2, "limit": 3, "objective": None}
    found = build_request(None, flags, ["limit=5", "workload.slo.ttft_ms=9"])
    traffic, slo = {"peak_requests_per_s": 2}, {"ttft_ms": 9}
    assert found == {"workload": {"traffic": traffic, "slo": slo, "phase": "inference"}, "limit": 5}
    assert build_request(None, {"workload.training_tokens": 1}, [])["workload"]["phase"] == "training"
    assert build_request(None, {"workload.method": "lora"}, [])["workload"]["phase"] == "fine_tuning"


def test_tables_line_up_and_csv_is_safe() -> None:
    rows: list[dict[str, object]] = [{"name": "=1+1", "usd": 1234.5, "n": 2}, {"name": "b", "usd": None, "n": 10}]
    table = render_rows(rows, OutputFormat.TABLE).splitlines()
    assert [line.rstrip() for line in table] == ["name    usd   n", "=1+1  1,234   2", "b            10"]
    assert render_rows(rows, OutputFormat.CSV).splitlines()[1] == "'=1+1,1234.5,2"
    assert render_rows(rows, OutputFormat.MARKDOWN).splitlines()[1] == "| ---- | ----: | -: |"
