"""Renders requests for quotation: one printable page per supplier, with only the lines that this supplier sells.

No page shows an expected price. Details that the buyer did not state are empty lines to fill in by hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from html import escape

from app.export.lines import UNITS, Bill, Line, Trade, format_decimal
from app.export.order import ORDER_LABELS
from app.sizing.columns import HOURS_PER_DAY, HOURS_PER_MONTH
from app.sizing.words import format_quantity

SCHEMES = {"unspsc": "UNSPSC", "cpv": "CPV", "hs_code": "HS"}
# Details that a form shows, by column. Services are not shipped: they have no delivery address and no incoterm.
BUYER_FIELDS = ("buyer", "buyer_address", "buyer_contact", "buyer_tax_id")
DELIVERY_FIELDS = ("delivery_address", "incoterm", "lead_time_days")
DATE_FIELDS = ("payment_terms", "due_date", "valid_until")
SHIPPED = (Trade.HARDWARE,)
ANSWER_FIELDS = ("Quote number", "Quote valid until", "Payment terms")
INSTRUCTIONS = {
    Trade.HARDWARE: "Quote every line that you can supply, with lead time and warranty. Offer an equivalent if a part "
    "is not available, and name its part number.",
    Trade.CLOUD: "Quote every line for the stated term, with the earliest start date and the discount for a longer "
    "commitment.",
    Trade.DATA_CENTER: "Quote space, cooling and power for the stated term, with the earliest start date.",
    Trade.SOFTWARE: "Quote licenses and support for the stated term.",
    Trade.UTILITY: "Quote the tariff for the stated consumption.",
}
QUOTE_STYLE = """
.quote { break-before: page } .quote:first-child { break-before: auto }
.quote th, .quote td { padding: 1.2mm } table.facts td { width: 50%; border: 0; padding: 0 4mm 0 0 }
table.facts p { border-bottom: .2mm solid #999; min-height: 5mm; margin: 1mm 0 } td.blank { min-width: 22mm }
table.sign td { border: 0; border-bottom: .2mm solid #111; height: 10mm; width: 33% }
"""


@dataclass(frozen=True, slots=True)
class QuoteGroup:
    """Lines that one supplier is asked to quote."""

    trade: Trade
    supplier: str | None
    lines: tuple[Line, ...]


def quote_groups(bill: Bill) -> tuple[QuoteGroup, ...]:
    """The lines of a bill by supplier. The data center quotes electricity; a buyer's own site needs no quote."""
    hosted = any(line.trade is Trade.DATA_CENTER for line in bill.lines)
    groups: dict[tuple[Trade, str | None], list[Line]] = {}
    for line in bill.ordered_lines:
        trade = Trade.DATA_CENTER if line.trade is Trade.UTILITY else line.trade
        if line.trade is Trade.UTILITY and not hosted:
            continue
        own: tuple[Trade, str | None] = (trade, line.supplier)
        if line.supplier is None:  # goods without a supplier of their own are asked of the first dealer
            own = next((key for key in groups if key[0] is trade), own)
        groups.setdefault(own, []).append(line)
    return tuple(QuoteGroup(trade, supplier, tuple(lines)) for (trade, supplier), lines in groups.items())


def render_quote_requests(bill: Bill) -> bytes:
    """HTML with one page per supplier, to send without the memo."""
    title = f"Request for quotation {bill.reference}"
    return render_page(title, render_quote_pages(bill))


def render_quote_pages(bill: Bill) -> str:
    return "".join(_quote_page(bill, group) for group in quote_groups(bill))


def render_page(title: str, body: str, style: str = "") -> bytes:
    """A printable HTML page without scripts or external resources."""
    page = (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{escape_text(title)}</title>'
        f"<style>{PAGE_STYLE}{QUOTE_STYLE}{style}</style></head><body>{body}</body></html>\n"
    )
    return page.encode("utf-8", "replace")


PAGE_STYLE = """
@page { size: A4; margin: 11mm 13mm }
body { font: 9pt/1.22 Helvetica, Arial, sans-serif; color: #111; max-width: 184mm; margin: 0 auto }
h1 { font-size: 14pt; margin: 0 0 2mm } h2 { font-size: 10.5pt; margin: 2mm 0 .5mm; break-after: avoid }
.approval { break-inside: avoid }
p, ul { margin: .7mm 0 } ul { padding-left: 5mm }
table { border-collapse: collapse; width: 100%; margin: 1mm 0 } tr { break-inside: avoid }
th, td { border: .2mm solid #999; padding: .8mm 1.2mm; text-align: left; vertical-align: top }
th.n, td.n { white-space: nowrap; text-align: right } tr.chosen { background: #eef }
code { font-size: 7pt; overflow-wrap: anywhere } small { color: #444 }
"""


def _quote_page(bill: Bill, group: QuoteGroup) -> str:
    currency = bill.settlement.currency
    shipped = group.trade in SHIPPED
    begin = "Lead time" if shipped else "Start date"
    names = ("No.", "Item", "Quantity", f"Unit price, {currency}", f"Total, {currency}", begin)
    head = "".join(f"<th>{escape_text(name)}</th>" for name in names)
    rows = "".join(_line_row(line) for line in group.lines)
    answer = (*ANSWER_FIELDS, "Warranty and support" if shipped else "Service level")
    return (
        f'<div class="quote"><h1>Request for quotation</h1>{_facts_table(bill, group)}'
        f"<p>{escape_text(INSTRUCTIONS[group.trade])}</p>"
        f"<table><tr>{head}</tr>{rows}{_sum_rows(bill)}</table>"
        f"<h2>Supplier's answer</h2>{_columns_html([(name, '') for name in answer])}"
        f"{signature_html('Supplier')}</div>"
    )


def _facts_table(bill: Bill, group: QuoteGroup) -> str:
    """Parties, references, delivery and dates in two columns."""
    details = dict(replace(bill.order, supplier=group.supplier).stated())
    buyer = [(ORDER_LABELS[name], details.get(name, "")) for name in BUYER_FIELDS]
    delivery = DELIVERY_FIELDS if group.trade in SHIPPED else ()
    own = bill.filing_values.get("reference")
    ours = [
        (f"Supplier ({group.trade})", details.get("supplier", "")),
        ("Our reference", bill.reference if own is None else f"{own} / {bill.reference}"),
        ("Date of request", bill.as_of.isoformat()),
    ]
    terms = [(ORDER_LABELS[name], details.get(name, "")) for name in (*delivery, *DATE_FIELDS)]
    return _columns_html([*buyer, *ours, *terms])


def _columns_html(facts: Sequence[tuple[str, str]]) -> str:
    """Labelled lines in two columns; a line without a value is empty."""
    split = (len(facts) + 1) // 2
    cells = "".join(f"<td>{''.join(map(_fact_html, part))}</td>" for part in (facts[:split], facts[split:]))
    return f'<table class="facts"><tr>{cells}</tr></table>'


def _fact_html(fact: tuple[str, str]) -> str:
    name, text = fact
    return f"<p><small>{escape_text(name)}:</small> {escape_text(text)}</p>"


def signature_html(role: str) -> str:
    """A line for name, date and signature."""
    cells = "".join(f"<td><small>{escape_text(text)}</small></td>" for text in (f"{role}: name", "Date", "Signature"))
    return f'<table class="sign"><tr>{cells}</tr></table>'


def _line_row(line: Line) -> str:
    maker = " ".join(text for text in (line.manufacturer, line.part_number) if text)
    codes = ", ".join(f"{SCHEMES[name]} {code}" for name, code in line.codes.items() if name in SCHEMES)
    term = "" if line.term_months is None else f"term: {_term_text(line.term_months)}"
    below = "; ".join(text for text in (maker, line.supplier_part_id or "", term, codes) if text)
    item = f"{escape_text(line.description)}<br><small>{escape_text(below)}</small>"
    quantity = f'<td class="n">{format_decimal(line.quantity, ",")} {UNITS[line.unit]}</td>'
    return f'<tr><td class="n">{line.number}</td><td>{item}</td>{quantity}{"<td class=blank></td>" * 3}</tr>'


def _term_text(months: Decimal) -> str:
    """Term in months; in days if it is shorter, whose hours are the quantity."""
    if months < 1:
        return format_quantity(float(f"{float(months) * HOURS_PER_MONTH / HOURS_PER_DAY:.2g}"), "day")
    return f"{format_decimal(months, ',')} month{'' if months == 1 else 's'}"


def _sum_rows(bill: Bill) -> str:
    settled = bill.settlement
    tax = "Tax" if settled.tax_name is None else f"{settled.tax_name} {format_decimal(settled.tax_percent)} %"
    blank = "<td class=blank></td>"
    names = ("Subtotal", tax, "Total")
    return "".join(f'<tr><td colspan="4" class="n">{escape_text(name)}</td>{blank}{blank}</tr>' for name in names)


def escape_text(text: str) -> str:
    return escape(text, quote=True)
