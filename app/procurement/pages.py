"""Pages of a punch-out session; they need no script, no other host and no cookie."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any
from urllib.parse import urlsplit

from app.catalog.filing import FilingRow
from app.catalog.punchouts import PunchoutVisit
from app.export.lines import FILING_LABELS, Bill
from app.export.money import plainly
from app.procurement.desk import Form
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
QUESTIONS = """<form method="post" action="{path}"><h2>Or size a new workload</h2>
<label>Model <input name="model" required maxlength="120" value="{model}"></label>
<label>Users <input name="users" type="number" min="1" required value="{users}"></label>
<label>Requests per hour per user
<input name="requests" type="number" min="0.1" step="any" required value="{requests}"></label>
<label>Objective <select name="objective"><option>cost<option>latency<option>throughput<option>energy</select></label>
<button>Find hardware</button></form>"""
ASKED = {"model": "meta-llama/Llama-3.1-8B-Instruct", "users": "40", "requests": "12"}


def policy(hosts: Iterable[str], address: str | None) -> str:
    """Content security policy of a page: only the buyer's own hosts may frame it and receive its forms."""
    scheme = urlsplit(address or "https:").scheme
    own = " ".join(f"{scheme}://{host}:*" for host in hosts)
    return (
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'self'; img-src data:; base-uri 'none'; "
        f"form-action 'self' {own}; frame-ancestors 'self' {own}"
    )


def page(title: str, *body: str) -> str:
    return (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{_said(title)}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f"<style>{STYLE}</style></head><body><h1>{_said(title)}</h1>{''.join(body)}</body></html>\n"
    )


def refused_page(title: str, detail: str) -> str:
    """Page that shows an error."""
    return page(title, f'<p class="wrong">{_said(detail)}</p>')


def start_page(
    visit: PunchoutVisit, path: str, filed: Iterable[FilingRow], *, wrong: str = "", submitted: Mapping[str, str] | None = None
) -> str:
    """Page with the stored answers, newest first, with search fields and a form to size a new workload."""
    typed = submitted or {}
    sought = "".join(
        f'<label>{text} <input name="{name}" maxlength="200" value="{_said(typed.get(name, ""))}"></label>'
        for name, text in FILING_LABELS.items()
    )
    inputs = {name: _said(typed.get(name) or usual) for name, usual in ASKED.items()}
    return page(
        "Choose what to buy",
        f'<p class="wrong">{_said(wrong)}</p>' if wrong else "",
        f'<form method="get" action="{path}">{sought}<input type="hidden" name="all" value="1">',
        "<button>Find</button></form>",
        "".join(_stored(path, row) for row in filed) or "<p>No stored answer matches.</p>",
        QUESTIONS.format(path=path, **inputs),
        _leaving(visit, path),
    )


def _stored(path: str, row: FilingRow) -> str:
    """Section of one stored answer."""
    names = " &middot; ".join(_said(name) for name in (row.label, row.reference, row.cost_centre) if name)
    return (
        f"<section>{f'<p><b>{names}</b></p>' if names else ''}<p>{_said(row.model or 'Custom model')}: "
        f"{_said(row.option or 'no feasible option')}</p><p><small>{_said(row.status)}, stored on "
        f'{row.stored_at:%Y-%m-%d}</small></p><form method="get" action="{path}"><input type="hidden" '
        f'name="recommendation" value="{_said(row.recommendation)}"><button>Show options</button></form></section>'
    )


def options_page(
    visit: PunchoutVisit, path: str, answer: Mapping[str, Any], bills: Sequence[Bill], basket: tuple[str, int] | None
) -> str:
    """Page with the ranked options of one answer, their lines, and a button that transfers one of them."""
    looks = visit.facts["operation"] == "inspect"
    shown = [bill for bill in bills if not looks or basket is None or bill.rank == basket[1]]
    return page(
        "Your order" if looks else "Options, best first",
        f"<p>{_said(answer['summary'])}</p>",
        *(_option(path, bill, chosen=basket == (bill.answer, bill.rank), looks=looks) for bill in shown),
        "" if looks else f'<p><a href="{path}?all=1">All stored answers</a></p>',
        _leaving(visit, path),
    )


def _option(path: str, bill: Bill, *, chosen: bool, looks: bool) -> str:
    currency = bill.settlement.currency
    rows = "".join(
        f'<tr><td>{_said(line.description)}</td><td class="n">{plainly(line.quantity)} {line.unit.value}</td>'
        f'<td class="n">{"to be quoted" if line.total is None else f"{line.total:,.2f}"}</td></tr>'
        for line in bill.lines
    )
    sums = f"{bill.once:,.2f} {currency} paid once, {bill.over_term:,.2f} {currency} over the term"
    asked_for = len(bill.lines) - len(bill.priced)
    if asked_for:
        sums += f"; {format_count(asked_for, 'line')} without a price, not in the basket"
    form = (
        f'<form method="post" action="{path}"><input type="hidden" name="recommendation" value="{_said(bill.answer)}">'
        f'<input type="hidden" name="rank" value="{bill.rank}">'
        f"<button>Transfer rank {bill.rank} to your system</button></form>"
    )
    if looks:
        form = ""
    elif not bill.priced:
        form = "<p>No line of this option has a price. Request a quote.</p>"
    mark = ' class="chosen"' if chosen else ""
    return (
        f"<section{mark}><h2>{bill.rank}. {_said(bill.title)}</h2><p>{_said(sums)}"
        f"{', in your basket' if chosen else ''}</p><details{' open' if looks else ''}><summary>Lines</summary>"
        f"<table><tr><th>Item<th>Quantity<th>{_said(currency)}</tr>{rows}</table></details>{form}</section>"
    )


def _leaving(visit: PunchoutVisit, path: str) -> str:
    if visit.facts["address"] is None:
        return "<p>Close this window to go back.</p>"
    return (
        f'<form method="post" action="{path}"><input type="hidden" name="leave" value="1">'
        "<button>Return without a basket</button></form>"
    )


def handover_page(form: Form) -> str:
    """Form that returns the basket to the buyer's system; a script submits it at once if scripts are enabled."""
    host = urlsplit(form.address).hostname or ""
    inputs = "".join(
        f'<input type="hidden" name="{_said(name)}" value="{_said(value)}">' for name, value in form.fields
    )
    return page(
        f"Transferring the basket to {host}",
        f'<form id="home" method="post" action="{_said(form.address)}" target="{_said(form.target)}" '
        f'accept-charset="UTF-8">{inputs}<p>If nothing happens: <button>Transfer the basket</button></p></form>'
        '<script src="../../static/handover.js"></script>',
    )


def _said(text: str) -> str:
    return escape(str(text), quote=True)
