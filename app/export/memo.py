"""A decision memo and the quote request that follows from it, as two pages to print: no script, nothing from elsewhere.

Question, options, why, risk, what settles it; then the lines a supplier is asked to price. Every sentence is the stored
answer's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from html import escape
from typing import Any

from app.export.lines import Bill, Line, Unit
from app.export.money import plainly
from app.sizing.hardware.prices import FIRM
from app.sizing.words import counted

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
# Of the reasons an answer gives those that decide, in this order.
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
OWN = {"label": "Label", "reference": "Reference", "cost_centre": "Cost centre"}
BACKED = frozenset(("asked", *(kind.value for kind in FIRM)))  # by a seller, or by who asks
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
    """The option asked for and the best beside it."""
    ranked = [option["rank"] for option in answer["recommendations"]]
    others = [other for other in ranked if other != rank][: OPTIONS - 1]
    return tuple(sorted((rank, *others)))


def html_bytes(answer: Document, bills: Sequence[Bill], chosen: Bill) -> bytes:
    """The memo on one option beside others, whose bills are given in the order of their ranks."""
    option = answer["recommendations"][chosen.rank - 1]
    title = f"Decision and quote request: {chosen.title}"
    body = [
        f"<h1>{_said(title)}</h1>",
        f"<p><small>{_said(_origin(chosen))}</small></p>",
        "<h2>Question</h2>",
        f"<p>{_said(answer['summary'].partition('. Take ')[0])}.</p>",
        "<h2>Options</h2>",
        _options(answer, bills, chosen),
        f"<p>{_said(_sums(chosen))}</p>",
        f"<h2>Why rank {chosen.rank}</h2>",
        _list(_reasons(option)),
        "<h2>Risk</h2>",
        _list(_risks(answer, option, chosen)),
        f"<h2>What settles it{'' if chosen.rank == 1 else ' for rank 1'}</h2>",
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
    told = f"Recommendation {bill.answer}, rank {bill.rank}; catalogue snapshot {bill.snapshot}; prices counted to "
    settled = bill.settlement
    rate = "" if settled.rate_date is None else f"; 1 USD = {plainly(settled.per_usd)} {settled.currency} on "
    own = "".join(f" {OWN[name]} {text}." for name, text in bill.own_words.items())
    return f"{told}{bill.as_of.isoformat()}{rate}{settled.rate_date or ''}.{own}"


def _options(answer: Document, bills: Sequence[Bill], chosen: Bill) -> str:
    """What each option is, costs and does, side by side."""
    currency = chosen.settlement.currency
    names = (
        "Rank",
        "Option",
        "Had from",
        f"Once, {currency}",
        f"Over term, {currency}",
        "USD/h",
        "kW",
        "Sure",
        "Does",
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
    """Who sells it and how; of two pools both."""
    each = deployment.get("pools", {"whole": deployment}).values()
    offers = (part["offer"] for part in each if "offer" in part)
    told = dict.fromkeys(f"{offer['provider']}, {offer['pricing_model'].replace('_', ' ')}" for offer in offers)
    return " and ".join(told) or "nobody: to be quoted"


def _sure(option: Document) -> str:
    """How surely it does what was asked."""
    sure = option.get("confidence", {})
    meets = sure.get("meets_slo", sure.get("meets_deadline"))
    return "" if meets is None else f"{100 * meets:.0f} %"


def _does(option: Document) -> str:
    """What it does, in the figure that its work is judged by."""
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
    told = {reason["code"]: reason["text"] for reason in option["explanation"]}
    yield from [told[code] for code in DECIDING if code in told][:REASONS]
    packing = option.get("packing", {})
    if packing.get("cheaper") == "together":  # apart is among the warnings
        yield packing["why"]


def _risks(answer: Document, option: Document, bill: Bill) -> Iterator[str]:
    """Warnings, what another confidence would take, and how much of the money nobody stands behind."""
    yield from (warning["text"] for warning in answer["warnings"])
    sure = option.get("confidence", {})
    for level in sure.get("by_level", []):
        if level["confidence"] > sure["asked"] and level["total_accelerators"] is not None:
            money = level.get("usd_per_hour", level.get("usd_total"))
            per = "an hour" if "usd_per_hour" in level else "for the run"
            cost = "" if money is None else f", {_figure(money)} USD {per}"
            yield f"For {100 * level['confidence']:.0f} % confidence: {level['total_accelerators']} accelerators{cost}."
            break
    unbacked = sum(
        (line.total for line in bill.priced if line.total and line.price and line.price.kind not in BACKED),
        Decimal(0),
    )
    if unbacked:
        share = 100 * unbacked / bill.subtotal
        yield f"{share:.0f} % of the sum rests on prices that no seller stands behind: reckoned, press or broker."
    yield from _oldest(bill)
    for cheaper in answer.get("cheaper_if", [])[:OTHERS] if bill.rank == 1 else ():
        yield f"{100 * cheaper['saves_share']:.0f} % less with {cheaper['if']}: {cheaper['risk']}."


def _oldest(bill: Bill) -> Iterator[str]:
    """Which of the prices is the first to be asked for again."""
    ages = {line.number: line.price.age_days for line in bill.priced if line.price and line.price.age_days is not None}
    if ages:
        number = max(ages, key=lambda place: ages[place])
        yield f"The oldest price is that of line {number}, {ages[number]} days old: quotes decide."


def _settles(answer: Document) -> Iterator[str]:
    """The measurement that decides, and what would change the answer."""
    check = answer.get("verification")
    if check is not None:
        cost = "" if check["usd"] is None else f", about {_figure(check['usd'])} USD"
        where = f"{check['accelerators']} x {check['accelerator']}"
        yield f"{check['decides']} Measured in {check['minutes']:g} minutes on {where}{cost}, with the command below."
    for change in answer["sensitivity"][:CHANGES]:
        yield f"{change['change'].capitalize()}: {change['effect']}."


def _command(answer: Document) -> str:
    check = answer.get("verification")
    return "" if check is None else f"<p><code>{_said(check['command'])}</code></p>"


def _sums(bill: Bill) -> str:
    """What the option comes to, with the tax as given."""
    settled = bill.settlement
    told = f"{bill.once:,.2f} once and {bill.over_term:,.2f} over the term"
    if settled.tax_name is not None:
        told += f", {bill.tax:,.2f} of {settled.tax_name} at {plainly(settled.tax_percent)} %"
    asked = len(bill.lines) - len(bill.priced)
    beside = "" if not asked else f"; {counted(asked, 'line')} to be quoted beside it"
    return f"Rank {bill.rank}: {told}: {bill.total:,.2f} {settled.currency}{beside}."


def _quote_request(bill: Bill) -> str:
    """What a supplier fills in: price and time of every line. It shows no expected price."""
    head = "".join(f"<th>{name}</th>" for name in ("No", "Item", "Quantity", "Price each", "Price", "Lead time"))
    rows = "".join(_row(line) for line in bill.lines)
    return (
        f'<div class="quote"><h1>Request for quotation</h1><p><small>Reference {_said(_references(bill))}</small></p>'
        "<p>Please quote the lines that you supply: price, currency, validity, lead time, warranty, terms.</p>"
        f"<table><tr>{head}</tr>{rows}</table></div>"
    )


def _references(bill: Bill) -> str:
    """What a supplier is to name: the quote's number, and our own."""
    own = bill.own_words.get("reference")
    return bill.reference if own is None else f"{bill.reference}; ours {own}"


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


def _list(told: Iterable[str]) -> str:
    items = "".join(f"<li>{_said(text)}</li>" for text in told)
    return f"<ul>{items}</ul>" if items else "<p>Nothing is known that would.</p>"


def _cell(text: str, number: bool) -> str:
    return f'<td class="n">{_said(text)}</td>' if number else f"<td>{_said(text)}</td>"


def _said(text: str) -> str:
    return escape(text, quote=True)
