"""Renders a decision memo and the quote request that goes with it.

Both are printable HTML pages without scripts or external resources. The memo has the requirement, the options, the
reasons, the risks and the verification, then the lines that a supplier quotes. Its sentences come from the stored
answer.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from app.export.lines import (
    CENT,
    FILING_LABELS,
    MIXED_FLEET,
    Bill,
    Settlement,
    Unit,
    format_decimal,
    round_half_up,
    run_days,
    select_options,
)
from app.export.quotes import escape_text, render_page, render_quote_pages, signature_html
from app.sizing.columns import HOURS_PER_DAY, HOURS_PER_MONTH
from app.sizing.hardware.listings import GENERIC_PROVIDER, INVENTORY
from app.sizing.hardware.parts import FIRM, PricingModel
from app.sizing.words import describe_pricing, format_count, join_words, percent, provider_name

Document = Mapping[str, Any]
MAX_OPTIONS, MAX_REASONS, MAX_CHANGES, MAX_CHEAPER_OPTIONS = 3, 6, 3, 3
# Codes of the reasons that decide a choice; the memo shows them in this order.
DECIDING_CODES = (
    "choice",
    "comparison",
    "near_tie",
    "published_use",
    "ttft_ms",
    "tpot_ms",
    "deadline",
    "bottleneck",
    "memory",
    "utilization",
    "storage",
    "price",
)
# Amounts in texts of the answer: "9.16 USD/h", and two of them as "16.03 instead of 9.16 USD/h".
AMOUNT = re.compile(
    r"(?:(?P<other>\d[\d,]*(?:\.\d+)?)(?P<words> instead of | to ))?(?P<amount>\d[\d,]*(?:\.\d+)?) USD\b"
)
# Kinds of prices that a seller has published or quoted, or that the request states.
FIRM_KINDS = frozenset(("asked", *(kind.value for kind in FIRM)))


def select_ranks(answer: Document, supply: Document, rank: int) -> tuple[int, ...]:
    """Ranks that the memo compares: the chosen one and the best of the others, the mixed fleet first."""
    fleet = [MIXED_FLEET] if "mixed_fleet" in supply else []
    ranked = [*fleet, *(option["rank"] for option in answer["recommendations"])]
    others = [other for other in ranked if other != rank][: MAX_OPTIONS - 1]
    return tuple(sorted((rank, *others)))


def fleet_option(answer: Document, supply: Document) -> Document:
    """The groups of a mixed fleet as one option. It meets the limits if all of its groups do."""
    groups = [group.option for group in select_options(answer, supply, MIXED_FLEET)]
    speeds = [group["performance"].get("output_tokens_per_s") or 0.0 for group in groups]
    power_kw = sum(group["cost"].get("power_kw") or 0.0 for group in groups)
    likely = [(group.get("confidence") or {}).get("meets_slo") for group in groups]
    return {
        "deployment": {"pools": {str(place): group["deployment"] for place, group in enumerate(groups)}},
        "cost": {"power_kw": power_kw},
        "confidence": {"meets_slo": None if None in likely else math.prod(likely)},
        "performance": {"output_tokens_per_s": sum(speeds)},
        "explanation": [{"code": "choice", "text": answer["mixed_fleet"]["text"]}],
    }


def render_memo(answer: Document, supply: Document, bills: Sequence[Bill], chosen: Bill) -> bytes:
    """HTML of the memo about the chosen option.

    Parameters:
        answer: the stored answer.
        supply: what the answer stored for its exports.
        bills: the bills of the compared options, in the order of their ranks.
        chosen: the bill of the chosen option.
    """
    options = {option["rank"]: option for option in answer["recommendations"]}
    if "mixed_fleet" in supply:
        options[MIXED_FLEET] = fleet_option(answer, supply)
    option = options[chosen.rank]
    title = f"Decision and quote request: {chosen.title}"
    body = [
        f"<h1>{escape_text(title)}</h1>",
        f"<p><small>{escape_text(_origin_text(chosen))}</small></p>",
        "<h2>Requirement</h2>",
        f"<p>{escape_text(convert_amounts(_requirement_text(answer), chosen.settlement))}</p>",
        "<h2>Options</h2>",
        _options_table(options, bills, chosen),
        f"<p>{escape_text(_totals_text(chosen))}</p>",
        f"<h2>Why {chosen.name}</h2>",
        _list_html(_deciding_reasons(option), chosen.settlement),
        "<h2>Risks</h2>",
        _list_html(_list_risks(answer, option, chosen), chosen.settlement),
        f"<h2>Verification and sensitivity{'' if chosen.rank == 1 else ' of rank 1'}</h2>",
        _list_html(_list_verification(answer), chosen.settlement),
        _command_html(answer),
        f'<div class="approval"><h2>Approval</h2>{signature_html("Approved by")}</div>',
        render_quote_pages(chosen),
    ]
    return render_page(title, "".join(body))


def _requirement_text(answer: Document) -> str:
    """The question as the summary states it, without what the answer says about it."""
    text = answer["summary"].removeprefix((answer.get("mixed_fleet") or {}).get("text", "")).strip()
    text = text.removeprefix("Without your inventory: ").partition(". Recommended: ")[0].partition(". Take ")[0]
    return f"{text.removesuffix('.')}."


def _origin_text(bill: Bill) -> str:
    source = f"Recommendation {bill.answer}, {bill.name}; catalog snapshot {bill.snapshot}; price ages as of "
    settled = bill.settlement
    rate = "" if settled.rate_date is None else f"; 1 USD = {format_decimal(settled.per_usd)} {settled.currency} on "
    own = "".join(f" {FILING_LABELS[name]}: {text}." for name, text in bill.filing_values.items())
    return f"{source}{bill.as_of.isoformat()}{rate}{settled.rate_date or ''}.{own}"


def _options_table(options: Mapping[int, Document], bills: Sequence[Bill], chosen: Bill) -> str:
    """Table that compares the options: seller, cost, power, likelihood of meeting the limits, performance."""
    currency = chosen.settlement.currency
    names = (
        "Rank",
        "Option",
        "Seller",
        f"Paid once, {currency}",
        f"Per month, {currency}",
        f"Total cost, {currency}",
        "kW",
        "Meets limits",
        "Performance",
    )
    rows = []
    for bill in bills:
        option = options[bill.rank]
        cost = option.get("cost") or {}
        cells = (
            "mixed" if bill.rank == MIXED_FLEET else str(bill.rank),
            bill.title,
            _sellers_text(option["deployment"]),
            f"{bill.once:,.2f}",
            _monthly_text(bill),
            _total_cost_text(option, bill),
            _format_figure(cost.get("power_kw")),
            _probability_text(option),
            _performance_text(option),
        )
        mark = ' class="chosen"' if bill.rank == chosen.rank else ""
        rows.append(
            f"<tr{mark}>{''.join(_cell_html(text, place in range(3, 8)) for place, text in enumerate(cells))}</tr>"
        )
    head = "".join(f"<th>{escape_text(name)}</th>" for name in names)
    return f"<table><tr>{head}</tr>{''.join(rows)}</table>"


def _monthly_text(bill: Bill) -> str:
    """Monthly payments; empty for a run, which is paid for its duration."""
    months = [line.total / line.term_months for line in bill.priced_lines if line.total and line.term_months]
    paid = round_half_up(sum(months, Decimal(0)), CENT)
    return "" if not months or any(line.term_months and line.term_months < 1 for line in bill.lines) else f"{paid:,.2f}"


def _total_cost_text(option: Document, bill: Bill) -> str:
    """Cost over the horizon, from the lines of the bill. A run costs what its rentals come to, or the share of the
    horizon in which it uses bought machines.
    """
    if not bill.priced_lines or not bill.horizon_months:
        return ""
    horizon, days = Decimal(repr(bill.horizon_months)), run_days(option)
    total = bill.cost_over(horizon)
    if days is None:
        return f"{total:,.2f} in {bill.horizon_months:g} months"
    if all(line.unit is Unit.HOUR for line in bill.priced_lines):
        return f"{bill.subtotal:,.2f} for the run"
    months = Decimal(repr(days * HOURS_PER_DAY / HOURS_PER_MONTH))
    return f"{round_half_up(total * months / horizon, CENT):,.2f} for the run"


def _sellers_text(deployment: Document) -> str:
    """Sellers and pricing models of a deployment; both sellers if it has two pools."""
    each = deployment.get("pools", {"whole": deployment}).values()
    offers = (part["offer"] for part in each if "offer" in part)
    sellers = dict.fromkeys(_seller_text(offer) for offer in offers)
    return " and ".join(sellers) or "no seller yet: request a quote"


def _seller_text(offer: Document) -> str:
    """Seller and pricing model of an offer; the dealer of a generic host is not chosen yet."""
    if offer["provider"] == INVENTORY:
        return "already yours"
    if offer["provider"] == GENERIC_PROVIDER:
        return "purchase, dealer to be chosen"
    way = "purchase" if offer["pricing_model"] == PricingModel.OWNED else describe_pricing(offer["pricing_model"])
    return f"{provider_name(offer['provider'])}, {way}"


def _probability_text(option: Document) -> str:
    confidence = option.get("confidence", {})
    meets = confidence.get("meets_slo", confidence.get("meets_deadline"))
    return "" if meets is None else f"{percent(meets)} likely"


def _performance_text(option: Document) -> str:
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


def _deciding_reasons(option: Document) -> Iterator[str]:
    texts = {reason["code"]: reason["text"] for reason in option["explanation"]}
    yield from [texts[code] for code in DECIDING_CODES if code in texts][:MAX_REASONS]
    packing = option.get("packing", {})
    if packing.get("cheaper") == "together":  # if "apart" is cheaper, a warning says so
        yield packing["why"]


def _list_risks(answer: Document, option: Document, bill: Bill) -> Iterator[str]:
    """Warnings, the cost of a higher confidence, prices that are not firm, and cheaper alternatives."""
    yield from (warning["text"] for warning in answer["warnings"])
    if not any(warning["code"] == "thin_margin" for warning in answer["warnings"]) or bill.rank != 1:  # says the same
        levels = [each.get("confidence", {}).get("by_level", []) for each in answer["recommendations"][:1]]
        yield from _dearer_confidence(option.get("confidence", {}), *levels or [[]])
    unbacked = sum(
        (line.total for line in bill.priced_lines if line.total and line.price and line.price.kind not in FIRM_KINDS),
        Decimal(0),
    )
    if unbacked:
        share = percent(float(unbacked / bill.subtotal))
        yield f"{share} of the total is estimated, surveyed or from a marketplace, not a firm price from a seller."
    yield from _oldest_price(bill)
    for cheaper in answer.get("cheaper_if", [])[:MAX_CHEAPER_OPTIONS] if bill.rank == 1 else ():
        yield f"{percent(cheaper['saves_share'])} cheaper with {cheaper['if']}: {cheaper['risk']}."


def _dearer_confidence(confidence: Document, all_levels: Sequence[Document]) -> Iterator[str]:
    """The next confidence above the requested one that takes more accelerators or money; nothing where the answer
    leaves out a lower one of this option.

    Parameters:
        all_levels: levels of the first option, which has them all.
    """
    levels = [level for level in confidence.get("by_level", []) if level["total_accelerators"] is not None]
    here = next((level for level in levels if level["confidence"] == confidence["asked"]), None)
    for level in levels:
        same = here is not None and level["total_accelerators"] == here["total_accelerators"]
        if level["confidence"] <= confidence["asked"] or (same and "usd_total" not in level):
            continue
        below = {each["confidence"] for each in all_levels if each["confidence"] < level["confidence"]}
        if below - {each["confidence"] for each in confidence["by_level"]}:
            return
        sure, money = percent(level["confidence"]), level.get("usd_per_hour", level.get("usd_total"))
        figure = "" if money is None else _format_figure(money)
        if same:
            yield f"With {sure} confidence the run costs at most {figure} USD."
        else:
            cost = "" if money is None else f" at {figure} {'USD/h' if 'usd_per_hour' in level else 'USD for the run'}"
            needed = f"{format_count(level['total_accelerators'], 'accelerator')}{cost}"
            yield f"{sure} confidence of meeting the limits needs {needed}."
        return


def _oldest_price(bill: Bill) -> Iterator[str]:
    """Sentence about the line with the oldest price."""
    ages = {
        line.number: line.price.age_days for line in bill.priced_lines if line.price and line.price.age_days is not None
    }
    if ages:
        number = max(ages, key=lambda place: ages[place])
        yield (
            f"The oldest price is on line {number}: {format_count(ages[number], 'day')} old. Get a quote before you "
            "order."
        )


def _list_verification(answer: Document) -> Iterator[str]:
    """The benchmark that verifies the choice, and the changes that would alter the answer."""
    check = answer.get("verification")
    if check is not None:
        cost = "" if check["usd"] is None else f" and costs about {_format_figure(check['usd'])} USD"
        where = _benchmarked_hardware(answer, check)
        yield f"{check['decides']} The benchmark below takes {check['minutes']:g} minutes on {where}{cost}."
    for change in answer["sensitivity"][:MAX_CHANGES]:
        yield f"{change['change'][:1].upper()}{change['change'][1:]}: {change['effect']}."


def _benchmarked_hardware(answer: Document, check: Document) -> str:
    """Accelerators of a benchmark by the rank that uses them: "24 accelerators of rank 2"."""
    slug, options = check["accelerator"], answer["recommendations"]
    ranks = [option["rank"] for option in options if option["deployment"].get("accelerator") == slug]
    count = format_count(check["accelerators"], "accelerator")
    return f"{count} of rank {ranks[0]}" if ranks else f"{count} ({slug})"


def _command_html(answer: Document) -> str:
    check = answer.get("verification")
    return "" if check is None else f"<p><code>{escape_text(check['command'])}</code></p>"


def _totals_text(bill: Bill) -> str:
    """Totals of the option, with tax."""
    settled = bill.settlement
    currency = settled.currency
    amounts = f"{bill.once:,.2f} {currency} paid once and {bill.over_term:,.2f} {currency} over the term"
    if settled.tax_name is not None:
        amounts += f", plus {bill.tax:,.2f} {currency} {settled.tax_name} ({format_decimal(settled.tax_percent)} %)"
    left_out = [f"line {line.number} ({line.description.partition(', per ')[0]})" for line in bill.unpriced_lines]
    excluded = f" The total leaves out what must be quoted: {join_words(left_out)}." if left_out else ""
    return f"{bill.name.capitalize()}: {amounts}. Total: {bill.total:,.2f} {currency}.{excluded}"


def _format_figure(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.2f}"


def convert_amounts(text: str, settlement: Settlement) -> str:
    """Text whose amounts in USD are in the currency of the bill, with as many decimals.

    Check:
        >>> convert_amounts("16.03 instead of 9.16 USD/h", Settlement("EUR", Decimal("0.5")))
        '8.02 instead of 4.58 EUR/h'
    """

    def converted(figure: str) -> str:
        exact = Decimal(figure.replace(",", "")) * settlement.per_usd
        step = Decimal(1).scaleb(-len(figure.partition(".")[2]))
        return f"{round_half_up(exact, step):,}"

    def replaced(found: re.Match[str]) -> str:
        other = "" if found["other"] is None else f"{converted(found['other'])}{found['words']}"
        return f"{other}{converted(found['amount'])} {settlement.currency}"

    return text if settlement.currency == "USD" else AMOUNT.sub(replaced, text)


def _list_html(texts: Iterable[str], settlement: Settlement) -> str:
    items = "".join(f"<li>{escape_text(convert_amounts(text, settlement))}</li>" for text in texts)
    return f"<ul>{items}</ul>" if items else "<p>None known.</p>"


def _cell_html(text: str, number: bool) -> str:
    return f'<td class="n">{escape_text(text)}</td>' if number else f"<td>{escape_text(text)}</td>"
