"""Renders a decision memo and the quote request that goes with it.

Both are printable HTML pages without scripts or external resources. The memo has the requirement, the options, the
reasons, the risks and the verification, then the lines that a supplier quotes. Its sentences come from the stored
answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from html import escape
from typing import Any

from app.export.lines import FILING_LABELS, Bill, Line, Unit
from app.export.money import plainly
from app.sizing.hardware.prices import FIRM
from app.sizing.product_names import provider_name
from app.sizing.words import format_count, percent

Document = Mapping[str, Any]
OPTIONS, REASONS, CHANGES, OTHERS = 3, 6, 3, 3
SCHEMES = {"unspsc": "UNSPSC", "cpv": "CPV", "hs_code": "HS"}
UNITS = {
    Unit.EACH: "each",
    Unit.HOUR: "hours",
    Unit.MONTH: "months",
    Unit.KILOWATT: "kW",
    Unit.GBIT_PER_S: "Gbit/s",
    Unit.GIBIBYTE: "GiB",
    Unit.TERABYTE: "TB",
}
# Codes of the reasons that decide a choice; the memo shows them in this order.
DECIDING = (
    "choice",
    "comparison",
    "near_tie",
    "ttft_ms",
    "tpot_ms",
    "deadline",
    "bottleneck",
    "memory",
    "utilization",
    "storage",
    "price",
)
# Kinds of prices that a seller has published or quoted, or that the request states.
BACKED = frozenset(("asked", *(kind.value for kind in FIRM)))
STYLE = """
@page { size: A4; margin: 13mm }
body { font: 9pt/1.3 Helvetica, Arial, sans-serif; color: #111; max-width: 184mm; margin: 0 auto }
h1 { font-size: 14pt; margin: 0 0 2mm } h2 { font-size: 10.5pt; margin: 3mm 0 1mm }
p, ul { margin: 1mm 0 } ul { padding-left: 5mm }
table { border-collapse: collapse; width: 100%; margin: 1mm 0 } tr { break-inside: avoid }
th, td { border: .2mm solid #999; padding: .8mm 1.2mm; text-align: left; vertical-align: top }
th, td.n { white-space: nowrap } td.n { text-align: right } td.blank { min-width: 20mm } tr.chosen { background: #eef }
code { font-size: 7pt; overflow-wrap: anywhere } small { color: #444 } .quote { break-before: page }
"""


def options_shown(answer: Document, rank: int) -> tuple[int, ...]:
    """Ranks that the memo compares: the chosen one and the best of the others."""
    ranked = [option["rank"] for option in answer["recommendations"]]
    others = [other for other in ranked if other != rank][: OPTIONS - 1]
    return tuple(sorted((rank, *others)))


def html_bytes(answer: Document, bills: Sequence[Bill], chosen: Bill) -> bytes:
    """HTML of the memo about the chosen option.

    Parameters:
        answer: the stored answer.
        bills: the bills of the compared options, in the order of their ranks.
        chosen: the bill of the chosen option.
    """
    option = answer["recommendations"][chosen.rank - 1]
    title = f"Decision and quote request: {chosen.title}"
    body = [
        f"<h1>{_said(title)}</h1>",
        f"<p><small>{_said(_origin(chosen))}</small></p>",
        "<h2>Requirement</h2>",
        f"<p>{_said(answer['summary'].partition('. Recommended: ')[0].partition('. Take ')[0])}.</p>",
        "<h2>Options</h2>",
        _options(answer, bills, chosen),
        f"<p>{_said(_sums(chosen))}</p>",
        f"<h2>Why rank {chosen.rank}</h2>",
        _list(_reasons(option)),
        "<h2>Risks</h2>",
        _list(_risks(answer, option, chosen)),
        f"<h2>Verification and sensitivity{'' if chosen.rank == 1 else ' of rank 1'}</h2>",
        _list(_settles(answer)),
        _command(answer),
        _quote_request(chosen),
    ]
    page = (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{_said(title)}</title>'
        f"<style>{STYLE}</style></head><body>{''.join(body)}</body></html>\n"
    )
    return page.encode("utf-8", "replace")


def _origin(bill: Bill) -> str:
    source = f"Recommendation {bill.answer}, rank {bill.rank}; catalog snapshot {bill.snapshot}; price ages as of "
    settled = bill.settlement
    rate = "" if settled.rate_date is None else f"; 1 USD = {plainly(settled.per_usd)} {settled.currency} on "
    own = "".join(f" {FILING_LABELS[name]}: {text}." for name, text in bill.own_words.items())
    return f"{source}{bill.as_of.isoformat()}{rate}{settled.rate_date or ''}.{own}"


def _options(answer: Document, bills: Sequence[Bill], chosen: Bill) -> str:
    """Table that compares the options: seller, cost, power, likelihood of meeting the limits, performance."""
    currency = chosen.settlement.currency
    names = (
        "Rank",
        "Option",
        "Seller",
        f"Paid once, {currency}",
        f"Over term, {currency}",
        "USD/h",
        "kW",
        "Meets limits",
        "Performance",
    )
    rows = []
    for bill in bills:
        option = answer["recommendations"][bill.rank - 1]
        cost = option.get("cost") or {}
        cells = (
            str(bill.rank),
            bill.title,
            _had_from(option["deployment"]),
            f"{bill.once:,.2f}",
            f"{bill.over_term:,.2f}",
            _figure(cost.get("usd_per_hour")),
            _figure(cost.get("power_kw")),
            _sure(option),
            _does(option),
        )
        mark = ' class="chosen"' if bill.rank == chosen.rank else ""
        rows.append(f"<tr{mark}>{''.join(_cell(text, place in range(3, 8)) for place, text in enumerate(cells))}</tr>")
    head = "".join(f"<th>{_said(name)}</th>" for name in names)
    return f"<table><tr>{head}</tr>{''.join(rows)}</table>"


def _had_from(deployment: Document) -> str:
    """Sellers and pricing models of a deployment; both sellers if it has two pools."""
    each = deployment.get("pools", {"whole": deployment}).values()
    offers = (part["offer"] for part in each if "offer" in part)
    sellers = dict.fromkeys(
        f"{provider_name(offer['provider'])}, {offer['pricing_model'].replace('_', ' ')}" for offer in offers
    )
    return " and ".join(sellers) or "no seller yet: request a quote"


def _sure(option: Document) -> str:
    """Probability that the option meets its limits."""
    confidence = option.get("confidence", {})
    meets = confidence.get("meets_slo", confidence.get("meets_deadline"))
    return "" if meets is None else f"{percent(meets)} likely"


def _does(option: Document) -> str:
    """Main performance figure: days of a run, or the throughput of a service."""
    speed = option.get("performance", {})
    if "days" in speed:
        return f"{speed['days']:,.3g} days"
    for name, unit in (
        ("output_tokens_per_s", "tokens/s"),
        ("samples_per_s", "samples/s"),
        ("tokens_per_s", "tokens/s"),
    ):
        if speed.get(name):
            return f"{speed[name]:,.0f} {unit}"
    return ""


def _reasons(option: Document) -> Iterator[str]:
    texts = {reason["code"]: reason["text"] for reason in option["explanation"]}
    yield from [texts[code] for code in DECIDING if code in texts][:REASONS]
    packing = option.get("packing", {})
    if packing.get("cheaper") == "together":  # if "apart" is cheaper, a warning says so
        yield packing["why"]


def _risks(answer: Document, option: Document, bill: Bill) -> Iterator[str]:
    """Warnings, the cost of a higher confidence, prices that are not firm, and cheaper alternatives."""
    yield from (warning["text"] for warning in answer["warnings"])
    confidence = option.get("confidence", {})
    for level in confidence.get("by_level", []):
        if level["confidence"] > confidence["asked"] and level["total_accelerators"] is not None:
            money = level.get("usd_per_hour", level.get("usd_total"))
            unit = "USD/h" if "usd_per_hour" in level else "USD for the run"
            cost = "" if money is None else f" at {_figure(money)} {unit}"
            needed = f"{level['total_accelerators']} accelerators{cost}"
            yield f"{percent(level['confidence'])} confidence of meeting the limits needs {needed}."
            break
    unbacked = sum(
        (line.total for line in bill.priced if line.total and line.price and line.price.kind not in BACKED),
        Decimal(0),
    )
    if unbacked:
        share = percent(float(unbacked / bill.subtotal))
        yield f"{share} of the total is estimated or from a marketplace, not a firm price from a seller."
    yield from _oldest(bill)
    for cheaper in answer.get("cheaper_if", [])[:OTHERS] if bill.rank == 1 else ():
        yield f"{percent(cheaper['saves_share'])} cheaper with {cheaper['if']}: {cheaper['risk']}."


def _oldest(bill: Bill) -> Iterator[str]:
    """Sentence about the line with the oldest price."""
    ages = {line.number: line.price.age_days for line in bill.priced if line.price and line.price.age_days is not None}
    if ages:
        number = max(ages, key=lambda place: ages[place])
        yield f"The oldest price is on line {number}: {format_count(ages[number], 'day')} old. Get a quote before you order."


def _settles(answer: Document) -> Iterator[str]:
    """The benchmark that verifies the choice, and the changes that would alter the answer."""
    check = answer.get("verification")
    if check is not None:
        cost = "" if check["usd"] is None else f" and costs about {_figure(check['usd'])} USD"
        where = f"{check['accelerators']} x {check['accelerator']}"
        yield f"{check['decides']} The benchmark below takes {check['minutes']:g} minutes on {where}{cost}."
    for change in answer["sensitivity"][:CHANGES]:
        yield f"{change['change'][:1].upper()}{change['change'][1:]}: {change['effect']}."


def _command(answer: Document) -> str:
    check = answer.get("verification")
    return "" if check is None else f"<p><code>{_said(check['command'])}</code></p>"


def _sums(bill: Bill) -> str:
    """Totals of the option, with tax."""
    settled = bill.settlement
    currency = settled.currency
    amounts = f"{bill.once:,.2f} {currency} paid once and {bill.over_term:,.2f} {currency} over the term"
    if settled.tax_name is not None:
        amounts += f", plus {bill.tax:,.2f} {currency} {settled.tax_name} ({plainly(settled.tax_percent)} %)"
    unpriced = len(bill.lines) - len(bill.priced)
    excluded = f" The total excludes {format_count(unpriced, 'line')} without a price." if unpriced else ""
    return f"Rank {bill.rank}: {amounts}. Total: {bill.total:,.2f} {currency}.{excluded}"


def _quote_request(bill: Bill) -> str:
    """Form that a supplier fills in: price and lead time of each line. It shows no expected price."""
    head = "".join(f"<th>{name}</th>" for name in ("No.", "Item", "Quantity", "Unit price", "Total price", "Lead time"))
    rows = "".join(_row(line) for line in bill.lines)
    return (
        f'<div class="quote"><h1>Request for quotation</h1><p><small>Reference {_said(_references(bill))}</small></p>'
        "<p>Please quote every line that you can supply. State price, currency, validity, lead time, warranty and "
        "terms.</p>"
        f"<table><tr>{head}</tr>{rows}</table></div>"
    )


def _references(bill: Bill) -> str:
    """References that a supplier quotes: that of the option, and the buyer's own."""
    own = bill.own_words.get("reference")
    return bill.reference if own is None else f"{bill.reference} (our reference: {own})"


def _row(line: Line) -> str:
    maker = " ".join(text for text in (line.manufacturer, line.part_number) if text)
    codes = ", ".join(f"{SCHEMES[name]} {code}" for name, code in line.codes.items() if name in SCHEMES)
    below = "; ".join(text for text in (maker, codes) if text)
    item = f"{_said(line.description)}<br><small>{_said(below)}</small>"
    quantity = _cell(f"{plainly(line.quantity)} {UNITS[line.unit]}", number=True)
    return f"<tr>{_cell(str(line.number), number=True)}<td>{item}</td>{quantity}{'<td class=blank></td>' * 3}</tr>"


def _figure(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.2f}"


def _list(texts: Iterable[str]) -> str:
    items = "".join(f"<li>{_said(text)}</li>" for text in texts)
    return f"<ul>{items}</ul>" if items else "<p>None known.</p>"


def _cell(text: str, number: bool) -> str:
    return f'<td class="n">{_said(text)}</td>' if number else f"<td>{_said(text)}</td>"


def _said(text: str) -> str:
    return escape(text, quote=True)
