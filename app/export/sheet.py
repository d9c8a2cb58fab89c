"""Writes a bill as an XLSX workbook whose totals are formulas of quantity, price, rate and tax.

The workbook also stores the computed values.
"""

from __future__ import annotations

import io
from datetime import datetime
from typing import Any

from app.export.columns import COLUMNS, NUMBERS, line_cells
from app.export.lines import FILING_LABELS, Bill
from app.extras import defer_import

xlsxwriter = defer_import("xlsxwriter", "export", "The format xlsx")

LINES, TOTALS = "Bill of materials", "Totals"
RATE, TAX = f"{TOTALS}!$B$8", f"{TOTALS}!$B$4"
COLUMN_WIDTHS = {
    "description": 60,
    "price_source": 40,
    "short_description": 34,
    "sku": 26,
    "quote_reference": 34,
    "notes": 30,
}
WORKBOOK_OPTIONS = {
    "in_memory": True,
    "strings_to_formulas": False,
    "strings_to_urls": False,
    "strings_to_numbers": False,
}
USD_COLUMN = "unit_usd"
SHEET_COLUMNS = tuple(
    name for column in COLUMNS for name in ((USD_COLUMN, column) if column == "unit_price" else (column,))
)


def xlsx_bytes(bill: Bill) -> bytes:
    """Workbook with two sheets: the lines and the totals. The same bill gives the same bytes."""
    out = io.BytesIO()
    book = xlsxwriter.Workbook(out, WORKBOOK_OPTIONS)
    made = datetime.fromisoformat(bill.created_at).replace(tzinfo=None)
    book.set_properties({"title": f"Bill of materials {bill.reference}", "created": made})
    bold = book.add_format({"bold": True})
    lines, totals = book.add_worksheet(LINES), book.add_worksheet(TOTALS)
    for place, name in enumerate(SHEET_COLUMNS):
        lines.write_string(0, place, name, bold)
        lines.set_column(place, place, COLUMN_WIDTHS.get(name, 14))
    lines.freeze_panes(1, 0)
    for row, line in enumerate(bill.lines, start=1):
        _write_line(lines, row, {**line_cells(bill, line), USD_COLUMN: line.usd})
    _write_totals(totals, bill)
    book.close()
    return out.getvalue()


def column_letters(column: str) -> str:
    """Letters of a column in formulas."""
    place = SHEET_COLUMNS.index(column)
    return (chr(64 + place // 26) if place >= 26 else "") + chr(65 + place % 26)


def _write_line(sheet: Any, row: int, cells: dict[str, Any]) -> None:
    """Writes one row: numbers as numbers, text as text, unit price and line total as formulas."""
    of = {name: f"{column_letters(name)}{row + 1}" for name in ("quantity", USD_COLUMN, "unit_price")}
    price = cells["unit_price"]
    for place, name in enumerate(SHEET_COLUMNS):
        value = cells.get(name)
        if value is None:
            continue
        if name == "unit_price":
            places = max(0, -price.as_tuple().exponent)
            sheet.write_formula(row, place, f"=ROUND({of[USD_COLUMN]}*{RATE},{places})", None, float(value))
        elif name == "line_total":
            sheet.write_formula(row, place, f"=ROUND({of['quantity']}*{of['unit_price']},2)", None, float(value))
        elif name in NUMBERS or name == USD_COLUMN:
            sheet.write_number(row, place, float(value))
        else:
            sheet.write_string(row, place, str(value))


def _write_totals(sheet: Any, bill: Bill) -> None:
    """Writes the amounts paid once and over the term, the tax and the total, then the sources of the figures."""
    settled = bill.settlement
    paid, total = (f"'{LINES}'!${column_letters(name)}:${column_letters(name)}" for name in ("paid", "line_total"))
    sheet.set_column(0, 0, 34)
    sheet.set_column(1, 1, 44)
    rows: tuple[tuple[str, str | None, Any], ...] = (
        ("Paid once", f'=ROUND(SUMIF({paid},"once",{total}),2)', bill.once),
        ("Paid over the term", f'=ROUND(SUMIF({paid},"over_term",{total}),2)', bill.over_term),
        ("Subtotal", "=ROUND(B1+B2,2)", bill.subtotal),
        (f"{settled.tax_name or 'Tax'} rate, percent", None, settled.tax_percent),
        ("Tax", "=ROUND(B3*B4/100,2)", bill.tax),
        ("Total", "=ROUND(B3+B5,2)", bill.total),
        ("Currency", None, settled.currency),
        ("Exchange rate (currency per USD)", None, settled.per_usd),
        ("Exchange rate date", None, "" if settled.rate_date is None else settled.rate_date.isoformat()),
        ("Option", None, f"rank {bill.rank}: {bill.title}"),
        ("Recommendation", None, bill.answer),
        ("Catalog snapshot", None, bill.snapshot),
        ("Price ages as of", None, bill.as_of.isoformat()),
        ("Lines without a price", None, len(bill.lines) - len(bill.priced_lines)),
        *((FILING_LABELS[name], None, text) for name, text in bill.filing_values.items()),
    )
    for row, (name, formula, value) in enumerate(rows):
        sheet.write_string(row, 0, name)
        if formula is not None:
            sheet.write_formula(row, 1, formula, None, float(value))
        elif isinstance(value, str):
            sheet.write_string(row, 1, value)
        else:
            sheet.write_number(row, 1, float(value))
