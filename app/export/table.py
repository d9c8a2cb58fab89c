"""A bill as a table: CSV after RFC 4180, safe to open in a spreadsheet; and the rows every table shows."""

from __future__ import annotations

import csv
import io
from decimal import Decimal

from app.export.lines import OWN_WORDS, Bill, Line
from app.export.money import plainly

COLUMNS = (
    "line_no",
    "option",
    "kind",
    "sku",
    "supplier",
    "supplier_part_id",
    "manufacturer",
    "manufacturer_part_number",
    "short_description",
    "description",
    "quantity",
    "unit",
    "unit_price",
    "currency",
    "line_total",
    "paid",
    "term_months",
    "price_kind",
    "price_source",
    "price_observed",
    "price_age_days",
    "price_confidence",
    "unspsc",
    "unspsc_version",
    "cpv",
    "hs_code",
    "quote_reference",
    "snapshot",
    *OWN_WORDS,
    "notes",
)
NUMBERS = frozenset(("line_no", "option", "quantity", "unit_price", "line_total", "term_months", "price_age_days"))
# What a spreadsheet would take for the beginning of a formula, whatever white space stands before it.
BEGINS_FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")

Cell = str | int | Decimal | None


def row_of(bill: Bill, line: Line) -> dict[str, Cell]:
    """A line's cells by their column."""
    price = line.price
    return {
        "line_no": line.number,
        "option": bill.rank,
        "kind": line.kind,
        "sku": line.sku,
        "supplier": line.supplier,
        "supplier_part_id": line.supplier_part_id,
        "manufacturer": line.manufacturer,
        "manufacturer_part_number": line.part_number,
        "short_description": line.short,
        "description": line.description,
        "quantity": line.quantity,
        "unit": line.unit.value,
        "unit_price": line.unit_price,
        "currency": bill.settlement.currency,
        "line_total": line.total,
        "paid": line.paid,
        "term_months": line.term_months,
        **({} if price is None else {"price_kind": price.kind, "price_source": price.source}),
        **({} if price is None else {"price_observed": price.observed, "price_confidence": price.confidence}),
        "price_age_days": None if price is None else price.age_days,
        **line.codes,
        "quote_reference": bill.reference,
        "snapshot": bill.snapshot,
        **bill.own_words,
        "notes": line.notes,
    }


def guarded(text: str) -> str:
    """Text that no spreadsheet takes for a formula.

    Check:
        >>> guarded("=1+1"), guarded("H100")
        ("'=1+1", 'H100')
    """
    return f"'{text}" if text.lstrip(" ").startswith(BEGINS_FORMULAS) else text


def csv_bytes(bill: Bill) -> bytes:
    """A row per line below the names of the columns; sums are left to who reads it."""
    out = io.StringIO(newline="")
    written = csv.writer(out, lineterminator="\r\n")
    written.writerow(COLUMNS)
    for line in bill.lines:
        cells = row_of(bill, line)
        written.writerow([_text(cells.get(column)) for column in COLUMNS])
    return out.getvalue().encode("utf-8")


def _text(cell: Cell) -> str:
    if cell is None:
        return ""
    return guarded(cell) if isinstance(cell, str) else plainly(Decimal(cell))
