"""Columns of a bill of materials in CSV and spreadsheets, and the bill as CSV."""

from __future__ import annotations

import csv
import io
from decimal import Decimal

from app.export.lines import FILING_FIELDS, Bill, Line, format_decimal
from app.export.tables import guard_formula

# Details of the order that each row repeats, because a table has no header for them.
ORDER_COLUMNS = (
    "buyer",
    "delivery_address",
    "incoterm",
    "payment_terms",
    "lead_time_days",
    "due_date",
    "valid_until",
)
COLUMNS = (
    "line_no",
    "option",
    "kind",
    "sku",
    "supplier",
    "supplier_kind",
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
    *FILING_FIELDS,
    *ORDER_COLUMNS,
    "notes",
)
NUMBERS = frozenset(("line_no", "option", "quantity", "unit_price", "line_total", "term_months", "price_age_days"))

Cell = str | int | Decimal | None


def line_cells(bill: Bill, line: Line) -> dict[str, Cell]:
    price = line.price
    return {
        "line_no": line.number,
        "option": bill.rank,
        "kind": line.kind,
        "sku": line.sku,
        "supplier": line.supplier,
        "supplier_kind": line.trade.value,
        "supplier_part_id": line.supplier_part_id,
        "manufacturer": line.manufacturer,
        "manufacturer_part_number": line.part_number,
        "short_description": line.short_description,
        "description": line.description,
        "quantity": line.quantity,
        "unit": line.unit.value,
        "unit_price": line.unit_price,
        "currency": bill.settlement.currency,
        "line_total": line.total,
        "paid": line.payment_timing,
        "term_months": line.term_months,
        **({} if price is None else {"price_kind": price.kind, "price_source": price.source}),
        **({} if price is None else {"price_observed": price.observed, "price_confidence": price.confidence}),
        "price_age_days": None if price is None else price.age_days,
        **line.codes,
        "quote_reference": bill.reference,
        "snapshot": bill.snapshot,
        **bill.filing_values,
        **{name: text for name, text in bill.order.stated() if name in ORDER_COLUMNS},
        "notes": line.notes,
    }


def csv_bytes(bill: Bill) -> bytes:
    """CSV with a header row and one row per line; it has no totals."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    for line in bill.lines:
        cells = line_cells(bill, line)
        writer.writerow([_cell_text(cells.get(column)) for column in COLUMNS])
    return out.getvalue().encode("utf-8")


def _cell_text(cell: Cell) -> str:
    if cell is None:
        return ""
    return guard_formula(cell) if isinstance(cell, str) else format_decimal(Decimal(cell))
