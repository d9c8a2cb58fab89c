"""Writes a bill as fields of SAP's Open Catalog Interface, which a form posts to the buyer's HOOK_URL.

Names and lengths follow OCI 5 as SAP documents it (pCon's wiki and sap4tech.net, read 2026-11-23): numbers with a
decimal point and three decimals, up to eleven digits before it.
"""

from __future__ import annotations

from decimal import Decimal
from urllib.parse import urlencode

from app.errors import Unanswerable
from app.export.lines import SERVICE_KINDS, THOUSANDTH, Bill, Line, round_half_up

LENGTHS = {
    "DESCRIPTION": 40,
    "QUANTITY": 15,
    "UNIT": 3,
    "PRICE": 15,
    "PRICEUNIT": 5,
    "CURRENCY": 5,
    "LEADTIME": 5,
    "VENDORMAT": 40,
    "MANUFACTMAT": 40,
    "MATGROUP": 10,
    "SERVICE": 1,
    "EXT_QUOTE_ID": 35,
    "EXT_QUOTE_ITEM": 10,
    "EXT_PRODUCT_ID": 40,
    "EXT_SCHEMA_TYPE": 10,
    "EXT_CATEGORY_ID": 60,
}
# Fields that may be truncated: LONGTEXT carries the full description.
TRUNCATED_FIELDS = ("DESCRIPTION", "VENDORMAT", "MANUFACTMAT", "EXT_PRODUCT_ID")
PRICE_UNITS = (1, 10, 100, 1000)


class TooLarge(Unanswerable):
    """Raised for a figure that exceeds the length of its OCI field."""

    code = "figure-too-large"


def price_and_unit(price: Decimal) -> tuple[Decimal, int]:
    """A price with three decimals, and the price unit that keeps it exact.

    Check: 3.4568 per hour is 34.568 per 10 hours.
        >>> price_and_unit(Decimal("3.4568")), price_and_unit(Decimal("370000.00"))
        ((Decimal('34.568'), 10), (Decimal('370000.000'), 1))
    """
    unit = next((u for u in PRICE_UNITS if price * u == round_half_up(price * u, THOUSANDTH)), PRICE_UNITS[-1])
    return round_half_up(price * unit, THOUSANDTH), unit


def oci_fields(bill: Bill) -> list[tuple[str, str]]:
    """Names and values of the fields of all priced lines, numbered from 1. Raises NothingPriced and TooLarge."""
    return [
        field
        for place, line in enumerate(bill.require_priced_lines(), start=1)
        for field in _line_fields(bill, line, place)
    ]


def oci_bytes(bill: Bill) -> bytes:
    """The fields in URL encoding, as a form sends them."""
    return urlencode(oci_fields(bill)).encode("ascii")


def _line_fields(bill: Bill, line: Line, place: int) -> list[tuple[str, str]]:
    price, per = price_and_unit(line.unit_price or Decimal(0))
    category = line.codes.get("unspsc")
    values: dict[str, str | None] = {
        "DESCRIPTION": line.short_description,
        "QUANTITY": f"{round_half_up(line.quantity, THOUSANDTH):f}",
        "UNIT": line.unit.value,
        "PRICE": f"{price:f}",
        "PRICEUNIT": str(per),
        "CURRENCY": bill.settlement.currency,
        "LEADTIME": None if bill.order.lead_time_days is None else str(bill.order.lead_time_days),
        "VENDORMAT": line.supplier_part_id or line.sku,
        "MANUFACTMAT": line.part_number,
        "MATGROUP": category,
        "SERVICE": "X" if line.kind in SERVICE_KINDS else None,
        "EXT_QUOTE_ID": bill.reference,
        "EXT_QUOTE_ITEM": str(line.number),
        "EXT_PRODUCT_ID": line.sku,
        "EXT_SCHEMA_TYPE": None if category is None else "UNSPSC",
        "EXT_CATEGORY_ID": category,
    }
    fields = [
        (f"NEW_ITEM-{name}[{place}]", _fit_length(name, text)) for name, text in values.items() if text is not None
    ]
    return [*fields, (f"NEW_ITEM-LONGTEXT_{place}:132[]", line.description)]


def _fit_length(name: str, text: str) -> str:
    """A value within the length of its field: text is truncated, figures raise TooLarge."""
    if len(text) <= LENGTHS[name]:
        return text
    if name in TRUNCATED_FIELDS:
        return text[: LENGTHS[name]]
    raise TooLarge(f"{text} does not fit in the OCI field {name} ({LENGTHS[name]} characters). Choose another format.")
