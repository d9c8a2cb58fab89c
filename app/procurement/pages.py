"""Pages of a punch-out session; they need no script, no other host and no cookie."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any
from urllib.parse import urlsplit

from app.catalog.filing import FilingRow
from app.catalog.purchasing import PunchoutVisit
from app.export.lines import FILING_LABELS, Bill, format_decimal
from app.procurement.desk import BrowserForm
from app.sizing.words import format_count

STYLE = """
body { font: 16px/1.45 system-ui, sans-serif; max-width: 60rem; margin: 1rem auto; padding: 0 1rem; color: #1a1a1a }
h1 { font-size: 1.4rem } h2 { font-size: 1.1rem } small { color: #555 }
section { border: 1px solid #bbb; border-radius: .4rem; padding: .6rem 1rem; margin: .8rem 0 }
section.chosen { border-color: #06c } table { border-collapse: collapse; width: 100% }
th, td { text-align: left; padding: .2rem .5rem; border-bottom: 1px solid #ddd; vertical-align: top }
td.n { text-align: right; white-space: nowrap } label { display: inline-block; margin: .2rem 1rem .2rem 0 }
button { font: inherit; padding: .4rem 1rem } p.wrong { color: #a00 }
@media (prefers-color-scheme: dark) { body { background: #16181b; color: #e6e6e6 } small { color: #aaa } }
"""
SIZING_FORM = """<form method="post" action="{path}"><h2>Or size a new workload</h2>
<label>Model <input name="model" required maxlength="120" value="{model}"></label>
<label>Users <input name="users" type="number" min="1" required value="{users}"></label>
<label>Requests per hour per user
<input name="requests" type="number" min="0.1" step="any" required value="{requests}"></label>
<label>Objective <select name="objective"><option>cost<option>latency<option>throughput<option>energy</select></label>
<button>Find hardware</button></form>"""
DEFAULT_INPUTS = {"model": "meta-llama/Llama-3.1-8B-Instruct", "users": "40", "requests": "12"}


def page_policy(hosts: Iterable[str], address: str | None) -> str:
    """Content security policy of a page: only the buyer's own hosts may frame it and receive its forms."""
    scheme = urlsplit(address or "https:").scheme
    own = " ".join(f"{scheme}://{host}:*" for host in hosts)
    return (
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'self'; img-src data:; base-uri 'none'; "
        f"form-action 'self' {own}; frame-ancestors 'self' {own}"
    )


def render_page(title: str, *body: str) -> str:
    return (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{_escape_text(title)}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f"<style>{STYLE}</style></head><body><h1>{_escape_text(title)}</h1>{''.join(body)}</body></html>\n"
    )


def refused_page(title: str, detail: str) -> str:
    return render_page(title, f'<p class="wrong">{_escape_text(detail)}</p>')


def start_page(
    visit: PunchoutVisit,
    path: str,
    stored_answers: Iterable[FilingRow],
    *,
    wrong: str = "",
    submitted: Mapping[str, str] | None = None,
) -> str:
    """Page with the stored answers, newest first, with search fields and a form to size a new workload."""
    typed = submitted or {}
    search_fields = "".join(
        f'<label>{text} <input name="{name}" maxlength="200" value="{_escape_text(typed.get(name, ""))}"></label>'
        for name, text in FILING_LABELS.items()
    )
    inputs = {name: _escape_text(typed.get(name) or usual) for name, usual in DEFAULT_INPUTS.items()}
    return render_page(
        "Choose what to buy",
        f'<p class="wrong">{_escape_text(wrong)}</p>' if wrong else "",
        f'<form method="get" action="{path}">{search_fields}<input type="hidden" name="all" value="1">',
        "<button>Find</button></form>",
        "".join(_stored_answer(path, row) for row in stored_answers) or "<p>No stored answer matches.</p>",
        SIZING_FORM.format(path=path, **inputs),
        _leave_form(visit, path),
    )


def _stored_answer(path: str, row: FilingRow) -> str:
    names = " &middot; ".join(_escape_text(name) for name in (row.label, row.reference, row.cost_centre) if name)
    return (
        f"<section>{f'<p><b>{names}</b></p>' if names else ''}<p>{_escape_text(row.model or 'Custom model')}: "
        f"{_escape_text(row.option or 'no feasible option')}</p><p><small>{_escape_text(row.status)}, stored on "
        f'{row.stored_at:%Y-%m-%d}</small></p><form method="get" action="{path}"><input type="hidden" '
        f'name="recommendation" value="{_escape_text(row.recommendation)}"><button>Show '
        "options</button></form></section>"
    )


def options_page(
    visit: PunchoutVisit, path: str, answer: Mapping[str, Any], bills: Sequence[Bill], basket: tuple[str, int] | None
) -> str:
    """Page with the ranked options of one answer, their lines, and a button that transfers one of them."""
    read_only = visit.facts["operation"] == "inspect"
    shown = [bill for bill in bills if not read_only or basket is None or bill.rank == basket[1]]
    return render_page(
        "Your order" if read_only else "Options, best first",
        f"<p>{_escape_text(answer['summary'])}</p>",
        *(
            _option_section(path, bill, chosen=basket == (bill.answer, bill.rank), read_only=read_only)
            for bill in shown
        ),
        "" if read_only else f'<p><a href="{path}?all=1">All stored answers</a></p>',
        _leave_form(visit, path),
    )


def _option_section(path: str, bill: Bill, *, chosen: bool, read_only: bool) -> str:
    currency = bill.settlement.currency
    rows = "".join(
        f'<tr><td>{_escape_text(line.description)}</td><td class="n">{format_decimal(line.quantity)} '
        f"{line.unit.value}</td>"
        f'<td class="n">{"to be quoted" if line.total is None else f"{line.total:,.2f}"}</td></tr>'
        for line in bill.lines
    )
    sums = f"{bill.once:,.2f} {currency} paid once, {bill.over_term:,.2f} {currency} over the term"
    unpriced = len(bill.lines) - len(bill.priced_lines)
    if unpriced:
        sums += f"; {format_count(unpriced, 'line')} without a price, not in the basket"
    form = (
        f'<form method="post" action="{path}"><input type="hidden" name="recommendation" '
        f'value="{_escape_text(bill.answer)}">'
        f'<input type="hidden" name="rank" value="{bill.rank}">'
        f"<button>Transfer {bill.name} to your system</button></form>"
    )
    if read_only:
        form = ""
    elif not bill.priced_lines:
        form = "<p>No line of this option has a price. Request a quote.</p>"
    mark = ' class="chosen"' if chosen else ""
    return (
        f"<section{mark}><h2>{bill.rank}. {_escape_text(bill.title)}</h2><p>{_escape_text(sums)}"
        f"{', in your basket' if chosen else ''}</p><details{' open' if read_only else ''}><summary>Lines</summary>"
        f"<table><tr><th>Item<th>Quantity<th>{_escape_text(currency)}</tr>{rows}</table></details>{form}</section>"
    )


def _leave_form(visit: PunchoutVisit, path: str) -> str:
    if visit.facts["address"] is None:
        return "<p>Close this window to go back.</p>"
    return (
        f'<form method="post" action="{path}"><input type="hidden" name="leave" value="1">'
        "<button>Return without a basket</button></form>"
    )


def handover_page(form: BrowserForm) -> str:
    """Form that returns the basket to the buyer's system; a script submits it at once if scripts are enabled."""
    host = urlsplit(form.address).hostname or ""
    inputs = "".join(
        f'<input type="hidden" name="{_escape_text(name)}" value="{_escape_text(value)}">'
        for name, value in form.fields
    )
    return render_page(
        f"Transferring the basket to {host}",
        f'<form id="home" method="post" action="{_escape_text(form.address)}" target="{_escape_text(form.target)}" '
        f'accept-charset="UTF-8">{inputs}<p>If nothing happens: <button>Transfer the basket</button></p></form>'
        '<script src="../../static/handover.js"></script>',
    )


def _escape_text(text: str) -> str:
    return escape(str(text), quote=True)
