"""Writes a bill as an XLSX workbook of two printed pages, whose totals are formulas of quantity, price, rate and tax.

The workbook also stores the computed values. Columns beyond the printed ones serve scripts and filters.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from textwrap import wrap
from typing import Any

from app.export.columns import COLUMNS, NUMBERS, line_cells
from app.export.lines import FILING_LABELS, UNITS, Bill, Line
from app.export.order import ORDER_LABELS
from app.extras import defer_import

xlsxwriter = defer_import("xlsxwriter", "export", "The format xlsx")

LINES, TOTALS = "Bill of materials", "Totals"
RATE, TAX = f"{TOTALS}!$B$8", f"{TOTALS}!$B$4"
WORKBOOK_OPTIONS = {
    "in_memory": True,
    "strings_to_formulas": False,
    "strings_to_urls": False,
    "strings_to_numbers": False,
}
A4 = 9  # paper size in the file format
ROW_POINTS = 15.0  # height of a row of text
MARGIN_CHARACTERS = 2  # of a column's width, which text does not use
LABEL_WIDTH, TEXT_WIDTH = 34, 62  # columns of the totals, in characters
PAID = {"once": "once", "over_term": "over the term"}
USD_COLUMN, UNIT_NAME = "unit_usd", "unit_name"


@dataclass(frozen=True, slots=True)
class SheetColumn:
    """Heading and width of a column, in characters."""

    heading: str  # {currency} stands for the currency of the bill
    width: int = 14


PRINTED: Mapping[str, SheetColumn] = {
    "line_no": SheetColumn("No.", 5),
    "description": SheetColumn("Description", 44),
    "supplier": SheetColumn("Supplier", 14),
    "manufacturer": SheetColumn("Manufacturer", 16),
    "manufacturer_part_number": SheetColumn("Part number", 15),
    "quantity": SheetColumn("Quantity", 9),
    UNIT_NAME: SheetColumn("Unit", 8),
    "unit_price": SheetColumn("Unit price, {currency}", 16),
    "line_total": SheetColumn("Total, {currency}", 18),
    "paid": SheetColumn("Paid", 13),
    "term_months": SheetColumn("Term, months", 8),
    "price_kind": SheetColumn("Price basis", 10),
    "price_observed": SheetColumn("Price as of", 12),
    "notes": SheetColumn("Notes", 24),
}
OTHERS: Mapping[str, SheetColumn] = {
    "price_source": SheetColumn("Price source", 44),
    "price_confidence": SheetColumn("Confidence in the price"),
    "price_age_days": SheetColumn("Age of the price, days"),
    USD_COLUMN: SheetColumn("Unit price, USD", 18),
    "currency": SheetColumn("Currency"),
    "unit": SheetColumn("Unit code (UN/ECE Rec. 20)"),
    "kind": SheetColumn("Kind of line", 18),
    "supplier_kind": SheetColumn("Kind of supplier", 20),
    "supplier_part_id": SheetColumn("Supplier's part number", 22),
    "sku": SheetColumn("SKU", 28),
    "short_description": SheetColumn("Short description", 40),
    "unspsc": SheetColumn("UNSPSC code"),
    "unspsc_version": SheetColumn("UNSPSC version"),
    "cpv": SheetColumn("CPV code"),
    "hs_code": SheetColumn("HS code"),
    "option": SheetColumn("Rank of the option"),
    "quote_reference": SheetColumn("Quote reference", 36),
    "snapshot": SheetColumn("Catalog snapshot", 20),
    **{name: SheetColumn(text, 22) for name, text in (FILING_LABELS | ORDER_LABELS).items() if name in COLUMNS},
}
# The supplier of the order is that of the lines: its own column comes first.
SHEET_COLUMNS: Mapping[str, SheetColumn] = {**PRINTED, **{k: v for k, v in OTHERS.items() if k not in PRINTED}}
PLACES = {name: place for place, name in enumerate(SHEET_COLUMNS)}


def xlsx_bytes(bill: Bill) -> bytes:
    """Workbook with two sheets: the lines and the totals. The same bill gives the same bytes."""
    out = io.BytesIO()
    book = xlsxwriter.Workbook(out, WORKBOOK_OPTIONS)
    made = datetime.fromisoformat(bill.created_at).replace(tzinfo=None)
    book.set_properties({"title": f"Bill of materials {bill.reference}", "created": made})
    lines, totals = book.add_worksheet(LINES), book.add_worksheet(TOTALS)
    styles = Styles(book, bill.settlement.currency)
    for name, place in PLACES.items():
        column = SHEET_COLUMNS[name]
        lines.write_string(0, place, column.heading.format(currency=bill.settlement.currency), styles.head)
        lines.set_column(place, place, column.width)
    for row, line in enumerate(bill.lines, start=1):
        _write_line(lines, row, bill, line, styles)
    lines.set_row(0, 2 * ROW_POINTS)
    _set_up_lines(lines, bill)
    _write_totals(totals, bill, styles)
    book.close()
    return out.getvalue()


class Styles:
    """Cell formats of a workbook."""

    def __init__(self, book: Any, currency: str) -> None:
        text = {"text_wrap": True, "valign": "top", "align": "left", "indent": 1}
        self.head = book.add_format({**text, "bold": True, "bottom": 1, "bg_color": "#EEEEFF"})
        self.bold = book.add_format({"bold": True, "valign": "top"})
        self.text = book.add_format(text)
        self.plain = book.add_format({"valign": "top"})
        self.blank = book.add_format({**text, "bottom": 1})
        self.total = book.add_format({"bold": True, "num_format": f'#,##0.00 "{currency}"'})
        self._book, self._formats = book, dict[str, Any]()

    def number(self, pattern: str) -> Any:
        if pattern not in self._formats:
            self._formats[pattern] = self._book.add_format({"num_format": pattern, "valign": "top", "align": "right"})
        return self._formats[pattern]

    def money(self, amount: Decimal, currency: str) -> Any:
        return self.number(f'{number_pattern(amount, least=2)} "{currency}"')


def number_pattern(value: Decimal, least: int = 0) -> str:
    """Spreadsheet pattern with as many decimals as a value has.

    Check:
        >>> number_pattern(Decimal("36.000")), number_pattern(Decimal("1.25")), number_pattern(Decimal("2.2900"), 2)
        ('#,##0', '#,##0.00', '#,##0.00')
    """
    exponent = value.normalize().as_tuple().exponent
    places = max(least, -exponent if isinstance(exponent, int) else 0)
    return f"#,##0.{'0' * places}" if places > 0 else "#,##0"


def rows_of_text(text: str, width: int) -> int:
    """Rows that a text takes in a column of a width in characters, broken at spaces.

    Check:
        >>> rows_of_text("Delivery, installation", 14), rows_of_text("once", 14)
        (2, 1)
    """
    return max(1, len(wrap(text, max(1, width - MARGIN_CHARACTERS))))


def column_letters(column: str) -> str:
    place = PLACES[column]
    return (chr(64 + place // 26) if place >= 26 else "") + chr(65 + place % 26)


def _set_up_lines(sheet: Any, bill: Bill) -> None:
    """Page setup of the lines: landscape, one page wide, with the heading on every page."""
    sheet.freeze_panes(1, 0)
    sheet.set_landscape()
    sheet.set_paper(A4)
    sheet.repeat_rows(0)
    sheet.print_area(0, 0, len(bill.lines), len(PRINTED) - 1)
    sheet.fit_to_pages(1, 0)
    sheet.set_margins(left=0.4, right=0.4, top=0.6, bottom=0.6)
    sheet.set_header(f"&LBill of materials {bill.reference}&R&P of &N")


def _write_line(sheet: Any, row: int, bill: Bill, line: Line, styles: Styles) -> None:
    """Writes one row: numbers as numbers, text as text, unit price and line total as formulas."""
    cells: dict[str, Any] = {**line_cells(bill, line), USD_COLUMN: line.usd, UNIT_NAME: UNITS[line.unit]}
    cells["paid"] = PAID[cells["paid"]]
    of = {name: f"{column_letters(name)}{row + 1}" for name in ("quantity", USD_COLUMN, "unit_price")}
    currency = bill.settlement.currency
    texts = ((str(cells.get(name) or ""), column.width) for name, column in PRINTED.items())
    sheet.set_row(row, ROW_POINTS * max(rows_of_text(text, width) for text, width in texts))
    for name, place in PLACES.items():
        value = cells.get(name)
        if value is None:
            continue
        if name == "unit_price":
            places = max(0, -int(value.as_tuple().exponent))
            formula, style = f"=ROUND({of[USD_COLUMN]}*{RATE},{places})", styles.money(value, currency)
            sheet.write_formula(row, place, formula, style, float(value))
        elif name == "line_total":
            formula, style = f"=ROUND({of['quantity']}*{of['unit_price']},2)", styles.money(value, currency)
            sheet.write_formula(row, place, formula, style, float(value))
        elif name == USD_COLUMN:
            sheet.write_number(row, place, float(value), styles.money(value, "USD"))
        elif name in NUMBERS:
            sheet.write_number(row, place, float(value), styles.number(number_pattern(Decimal(value))))
        else:
            sheet.write_string(row, place, str(value), styles.text if name in PRINTED else styles.plain)


def _write_totals(sheet: Any, bill: Bill, styles: Styles) -> None:
    """Writes the amounts paid once and over the term, the tax and the total, then what they leave out, the sources of
    the figures, and the details of the order.
    """
    for row, (name, formula, value) in enumerate(_amount_rows(bill)):
        sheet.write_string(row, 0, name, styles.bold if formula else styles.plain)
        if formula is not None:
            sheet.write_formula(row, 1, formula, styles.total, float(value))
        elif isinstance(value, str):
            sheet.write_string(row, 1, value, styles.text)
        else:
            sheet.write_number(row, 1, float(value), styles.number(number_pattern(Decimal(value))))
    row = len(_amount_rows(bill))
    for name, text in _text_rows(bill):
        sheet.write_string(row, 0, name, styles.plain)
        sheet.write_string(row, 1, text, styles.text if text else styles.blank)
        sheet.set_row(row, ROW_POINTS * rows_of_text(text, TEXT_WIDTH))
        row += 1
    sheet.set_column(0, 0, LABEL_WIDTH)
    sheet.set_column(1, 1, TEXT_WIDTH)
    sheet.set_paper(A4)
    sheet.print_area(0, 0, row - 1, 1)
    sheet.fit_to_pages(1, 1)
    sheet.set_header(f"&LTotals {bill.reference}&R&P of &N")


def _amount_rows(bill: Bill) -> tuple[tuple[str, str | None, Any], ...]:
    """Names, formulas and values of the amounts; formulas refer to their rows."""
    settled = bill.settlement
    paid, total = (f"'{LINES}'!${column_letters(name)}:${column_letters(name)}" for name in ("paid", "line_total"))
    return (
        ("Paid once", f'=ROUND(SUMIF({paid},"{PAID["once"]}",{total}),2)', bill.once),
        ("Paid over the term", f'=ROUND(SUMIF({paid},"{PAID["over_term"]}",{total}),2)', bill.over_term),
        ("Subtotal", "=ROUND(B1+B2,2)", bill.subtotal),
        (f"{settled.tax_name or 'Tax'} rate, percent", None, settled.tax_percent),
        ("Tax", "=ROUND(B3*B4/100,2)", bill.tax),
        ("Total", "=ROUND(B3+B5,2)", bill.total),
        ("Currency", None, settled.currency),
        ("Exchange rate (currency per USD)", None, settled.per_usd),
        ("Exchange rate date", None, "" if settled.rate_date is None else settled.rate_date.isoformat()),
        ("Lines without a price", None, len(bill.unpriced_lines)),
    )


def _text_rows(bill: Bill) -> list[tuple[str, str]]:
    """Names and texts of the rows below the amounts; an empty text is a line to fill in."""
    left_out = [f"line {line.number}: {line.description}" for line in bill.unpriced_lines]
    details = dict(bill.order.stated())
    return [
        *(("Not in the total" if place == 0 else "", text) for place, text in enumerate(left_out)),
        ("Option", f"{bill.name}: {bill.title}"),
        ("Recommendation", bill.answer),
        ("Catalog snapshot", bill.snapshot),
        ("Price ages as of", bill.as_of.isoformat()),
        *((FILING_LABELS[name], text) for name, text in bill.filing_values.items()),
        *((label, details.get(name, "")) for name, label in ORDER_LABELS.items()),
        ("Approved by, date, signature", ""),
    ]
