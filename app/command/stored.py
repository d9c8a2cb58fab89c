"""The commands on stored answers: list, status, approve, reprice and sensitivity; and diagnose."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from app.command.asking import build_request, open_client, show_progress
from app.command.lists import Filters, Limit, parse_filters, print_rows
from app.command.sizing import AsCsv, AsJson, AsMarkdown, Settings, Sort, Url
from app.export.tables import json_text, select_columns, select_format

Identity = Annotated[str, typer.Argument(help="Id of a stored answer: rec_...", show_default=False)]
COLUMNS = ("id", "stored_at", "status", "option", "model", "label", "reference")


def list_answers(
    label: Annotated[str | None, typer.Option(help="Only answers with this label.", show_default=False)] = None,
    status: Annotated[
        str | None, typer.Option(help="Only this status: draft, approved, ordered or superseded.", show_default=False)
    ] = None,
    model: Annotated[str | None, typer.Option(help="Only answers for this model.", show_default=False)] = None,
    accelerator: Annotated[
        str | None, typer.Option(help="Only answers whose first option uses this accelerator.", show_default=False)
    ] = None,
    where: Filters = None,
    limit: Limit = 20,
    sort: Sort = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    as_markdown: AsMarkdown = False,
    url: Url = None,
) -> None:
    """List stored answers, newest first."""
    filters = parse_filters(where, label=label, status=status, model=model, accelerator=accelerator)
    with open_client(url) as client:
        items: list[dict[str, Any]] = list(islice(client.recommendations(**filters), limit + 1))
    rows = items if as_json else select_columns(items, tuple(name for name in COLUMNS if any(name in i for i in items)))
    print_rows(rows, select_format(as_json=as_json, as_csv=as_csv, as_markdown=as_markdown), limit=limit, sort=sort)


def status(identity: Identity, as_json: AsJson = False, url: Url = None) -> None:
    """Show the approval status of a stored answer, its history and the next possible statuses."""
    with open_client(url) as client:
        print_status(client.status(identity), as_json=as_json)


def print_status(found: Any, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json_text(found))
        return
    typer.echo(f"{found['id']}: {found['status']}. {found.get('option') or 'Nothing was feasible.'}")
    for change in found["history"]:
        note = f": {change['note']}" if change.get("note") else ""
        typer.echo(f"- {change['at']} {change['status']} by {change['by']}{note}")
    typer.echo(f"Next: {', '.join(found['next']) or 'none'}.")


def approve(
    identity: Identity,
    by: Annotated[str, typer.Option(help="Who approves: a name or a mail address.", show_default=False)],
    note: Annotated[str | None, typer.Option(help="Note to keep with the approval.", show_default=False)] = None,
    to: Annotated[str, typer.Option(help="Status to set instead: draft, ordered or superseded.")] = "approved",
    superseded_by: Annotated[
        str | None, typer.Option(help="With --to superseded: id of the newer answer.", show_default=False)
    ] = None,
    as_json: AsJson = False,
    url: Url = None,
) -> None:
    """Approve a stored answer, or set another status."""
    with open_client(url) as client:
        print_status(client.set_status(identity, to, by=by, note=note, superseded_by=superseded_by), as_json=as_json)


def reprice(
    identity: Identity,
    rank: Annotated[int | None, typer.Option(min=0, help="Rank of the option; 0 is the mixed fleet.")] = None,
    as_json: AsJson = False,
    url: Url = None,
) -> None:
    """Compare a stored answer with current prices."""
    with open_client(url) as client, show_progress("Repricing..."):
        found: Any = client.reprice(identity, rank=rank)
    if as_json:
        typer.echo(json_text(found))
        return
    prices, machines = found["catalog"]["now"]["prices_as_of"], found.get("machines")
    if machines is not None:
        typer.echo(f"{machines['option']}, prices up to {prices}: {machines['text']}")
    typer.echo(f"Answer at today's prices: {found['today']['id']}.")
    for text in found["today"]["why"]:
        typer.echo(f"- {text}")


def sensitivity(identity: Identity, as_json: AsJson = False, url: Url = None) -> None:
    """Show which changes rank other hardware first, which do not, and which options cost less."""
    with open_client(url) as client, show_progress("Varying the request..."):
        found: Any = client.sensitivity(identity)
    if as_json:
        typer.echo(json_text(found))
        return
    titles = {"flips": "These changes rank other hardware first", "savings": "These options cost less"}
    titles["holds"] = "These changes keep the first option first"
    for name, title in titles.items():
        if found[name]:
            typer.echo(f"{title}:")
            for each in found[name]:
                typer.echo(f"- {each['text']}")


def diagnose(
    source: Annotated[Path, typer.Argument(help="File with a body of POST /diagnose; - reads standard input.")],
    also: Settings = None,
    as_json: AsJson = False,
    url: Url = None,
) -> None:
    """Find out why a running deployment is slow, and what to change; the most expensive finding is first."""
    request = build_request(source, {}, also or [])
    with open_client(url) as client, show_progress("Diagnosing..."):
        found: Any = client.diagnose(request)
    if as_json:
        typer.echo(json_text(found))
        return
    typer.echo(found["summary"])
    for each in found["findings"]:
        typer.echo(f"{each['rank']}. {each['text']}\n   Cause: {each['cause']}\n   Change: {each['change']['text']}")
    for text in found["not_to_buy"]:
        typer.echo(f"- {text}")
