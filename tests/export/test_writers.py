"""Every writer says what the lines say: tables and workbooks are read back and added up again."""

from __future__ import annotations

import csv
import io
import re
import zipfile
from dataclasses import replace
from datetime import date
from decimal import Decimal

import pytest
from python_calamine import CalamineWorkbook

from app.export.columns import COLUMNS, csv_bytes
from app.export.lines import SHORT_TEXT_LENGTH, Bill, Settlement, build_bill, clean_text
from app.export.sheet import LINES, TOTALS, xlsx_bytes
from app.export.tables import guard_formula
from tests.export import stored

EURO = Settlement("EUR", Decimal("0.92"), date(2026, 11, 20), "VAT", Decimal("19"))
RANKS = range(1, len(stored.RANKS) + 1)
DANGEROUS = ('=HYPERLINK("http://x")', "+1", "-1", "@SUM(A1)", " =1", '"quoted", comma\nline')


def bill(rank: int, settlement: Settlement = EURO) -> Bill:
    return build_bill(stored.answer(), stored.supply(), rank, settlement)


def dangerous() -> Bill:
    found = bill(1)
    lines = [replace(line, notes=text, description=text) for line, text in zip(found.lines, DANGEROUS, strict=False)]
    return replace(found, lines=tuple(lines))


@pytest.mark.parametrize("rank", RANKS)
def test_a_table_read_back_adds_up_to_the_cent(rank: int) -> None:
    found = bill(rank)
    rows = list(csv.DictReader(io.StringIO(csv_bytes(found).decode(), newline=""), strict=True))
    assert len(rows) == len(found.lines)
    assert sum(Decimal(row["line_total"]) for row in rows if row["line_total"]) == found.subtotal
    for row, line in zip(rows, found.lines, strict=True):
        assert Decimal(row["quantity"]) == line.quantity
        assert row["manufacturer_part_number"] == (line.part_number or "")


def test_a_table_is_of_rfc_4180_and_no_cell_begins_a_formula() -> None:
    body = csv_bytes(dangerous())
    assert body.count(b"\r\n") == len(dangerous().lines) + 1  # line breaks within cells are not its own
    rows = list(csv.reader(io.StringIO(body.decode(), newline=""), strict=True))
    assert {len(row) for row in rows} == {len(COLUMNS)}
    cells = [cell for row in rows[1:] for cell in row]
    assert not [cell for cell in cells if cell.lstrip(" ")[:1] in tuple("=+-@\t\r")]
    for text in DANGEROUS:
        assert guard_formula(text) in cells


@pytest.mark.parametrize("rank", RANKS)
def test_a_workbook_read_back_adds_up_to_the_cent(rank: int) -> None:
    found = bill(rank)
    book = CalamineWorkbook.from_filelike(io.BytesIO(xlsx_bytes(found)))
    head, *rows = book.get_sheet_by_name(LINES).to_python()
    totals = {str(row[0]): row[1] for row in book.get_sheet_by_name(TOTALS).to_python()}
    column = head.index("Total, EUR")
    cells = [Decimal(str(row[column])) for row in rows if row[column] != ""]
    assert sum(cells) == found.subtotal == Decimal(str(totals["Subtotal"])).quantize(Decimal("0.01"))
    assert Decimal(str(totals["Total"])).quantize(Decimal("0.01")) == found.total
    assert all(isinstance(row[head.index("Quantity")], float) for row in rows)
    assert totals["Currency"] == "EUR"


def test_formulas_of_a_workbook_yield_their_stored_values() -> None:
    found = bill(1)
    head, *rows = CalamineWorkbook.from_filelike(io.BytesIO(xlsx_bytes(found))).get_sheet_by_name(LINES).to_python()
    names = {"quantity": "Quantity", "unit_usd": "Unit price, USD", "unit_price": "Unit price, EUR"}
    at = {name: head.index(heading) for name, heading in {**names, "line_total": "Total, EUR"}.items()}
    for row in rows:
        if row[at["unit_price"]] == "":
            continue
        figures = {name: float(str(row[place])) for name, place in at.items()}
        assert figures["unit_price"] == pytest.approx(figures["unit_usd"] * 0.92, abs=0.005)
        assert figures["line_total"] == pytest.approx(figures["quantity"] * figures["unit_price"], abs=0.005)


def test_text_of_a_workbook_stays_text() -> None:
    rows = CalamineWorkbook.from_filelike(io.BytesIO(xlsx_bytes(dangerous()))).get_sheet_by_name(LINES).to_python()
    place = rows[0].index("Notes")
    assert [row[place] for row in rows[1:]] == list(DANGEROUS)


def test_the_same_bill_is_the_same_bytes() -> None:
    assert (xlsx_bytes(bill(1)), csv_bytes(bill(1))) == (xlsx_bytes(bill(1)), csv_bytes(bill(1)))


def test_short_descriptions_fit_every_tool() -> None:
    assert all(len(line.short_description) <= SHORT_TEXT_LENGTH for rank in RANKS for line in bill(rank).lines)
    assert len(bill(1).reference) <= 35
    assert clean_text("a\r\n\x00b") == "a b"


def test_only_the_head_of_a_workbook_stays_in_view() -> None:
    book = zipfile.ZipFile(io.BytesIO(xlsx_bytes(bill(1))))
    sheet = book.read("xl/worksheets/sheet1.xml").decode()
    assert re.findall(r"<pane ([^>]*)/>", sheet) == [
        'ySplit="1" topLeftCell="A2" activePane="bottomLeft" state="frozen"'
    ]


def test_a_workbook_prints_its_lines_on_one_wide_page_and_its_totals_on_another() -> None:
    book = zipfile.ZipFile(io.BytesIO(xlsx_bytes(bill(1))))
    lines, totals = (book.read(f"xl/worksheets/sheet{number}.xml").decode() for number in (1, 2))
    assert 'fitToPage="1"' in lines and 'fitToPage="1"' in totals
    assert re.search(r'<pageSetup paperSize="9"[^>]* fitToHeight="0" orientation="landscape"/>', lines)
    names = dict(
        re.findall(r'<definedName name="_xlnm.(\w+)" localSheetId="0">([^<]*)<', book.read("xl/workbook.xml").decode())
    )
    assert names["Print_Area"] == "'Bill of materials'!$A$1:$N$10"  # the heading and nine lines
    assert names["Print_Titles"] == "'Bill of materials'!$1:$1"


def test_headings_of_a_workbook_are_words_with_units_and_amounts_have_their_currency() -> None:
    body = xlsx_bytes(bill(1))
    head = [
        str(cell) for cell in CalamineWorkbook.from_filelike(io.BytesIO(body)).get_sheet_by_name(LINES).to_python()[0]
    ]
    assert len(set(head)) == len(head) and not [text for text in head if "_" in text]
    assert {"Unit price, EUR", "Total, EUR", "Term, months"} <= set(head)
    styles = zipfile.ZipFile(io.BytesIO(body)).read("xl/styles.xml").decode()
    assert "#,##0.00 &quot;EUR&quot;" in styles
    assert "#,##0.00 &quot;USD&quot;" in styles


@pytest.mark.parametrize("rank", RANKS)
def test_a_row_of_a_workbook_is_as_high_as_its_text(rank: int) -> None:
    found = bill(rank)
    sheet = zipfile.ZipFile(io.BytesIO(xlsx_bytes(found))).read("xl/worksheets/sheet1.xml").decode()
    heights = {int(row): float(height) for row, height in re.findall(r'<row r="(\d+)"[^>]* ht="([\d.]+)"', sheet)}
    for row, line in enumerate(found.lines, start=2):
        assert heights.get(row, 15.0) / 15 * 44 >= len(line.description)  # 44 characters to a row
