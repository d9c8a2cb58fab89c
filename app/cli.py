"""Command line: `serve`, `prepare`, `doctor`, `accuracy`, `deliver` and the sizing commands of app.command."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.metadata import version
from typing import Annotated

import typer
from sqlalchemy.orm import Session

from app import server
from app.catalog.outbox import DeliveryStore
from app.catalog.queries import list_compared
from app.command import lists, sizing
from app.command.asking import UNPREPARED, load_settings
from app.command.lists import mcp
from app.command.maintenance import doctor, prune
from app.command.prepare import prepare
from app.db import DatabaseError, make_engine
from app.main import check_extras
from app.procurement.webhooks import WebhookSender
from app.sizing.accuracy import DIMENSIONS, report_on
from app.sizing.words import percent

cli = typer.Typer(no_args_is_help=True, help="Headroom sizes hardware for AI work.", pretty_exceptions_enable=False)
for sizing_command in (
    sizing.recommend,
    sizing.estimate,
    sizing.compare,
    sizing.inspect,
    sizing.explain,
    sizing.export,
):
    cli.command(rich_help_panel="Size")(sizing_command)
for list_command in (lists.models, lists.accelerators, lists.offers, lists.prices, lists.support):
    cli.command(rich_help_panel="Look up")(list_command)
cli.command()(doctor)
cli.command()(mcp)
cli.command()(prepare)
cli.command()(prune)


def print_version(requested: bool) -> None:
    """Prints the version and exits."""
    if requested:
        typer.echo(version("headroom"))
        raise typer.Exit


@cli.callback()
def root_options(
    version: Annotated[
        bool, typer.Option("--version", callback=print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Headroom sizes hardware for AI work."""


@cli.command()
def accuracy(
    by: Annotated[
        str, typer.Option(help="Dimension: engine, accelerator_family, format, model_size, load, source or nearness.")
    ] = "engine",
) -> None:
    """Show the errors of predictions against published results, overall and by one dimension."""
    if by not in DIMENSIONS:
        raise typer.BadParameter(f"unknown dimension {by!r}. Use one of: {', '.join(DIMENSIONS)}.")
    engine = make_engine(load_settings().database_url)
    try:
        with Session(engine) as session:
            report = report_on(list_compared(session))
    except DatabaseError as error:
        typer.echo(UNPREPARED, err=True)
        raise typer.Exit(1) from error
    finally:
        engine.dispose()
    typer.echo(
        f"{'':40} {'rows':>6} {'sources':>8}   {'unseen source: median':>22} {'p90':>6} {'bias':>6} "
        f"{'covered':>8} {'width':>6} {'kept':>6}   {'in sample':>10}"
    )
    for s in (*report.overall, *report.by[by]):
        h = s.held_out
        typer.echo(
            f"{s.metric + ', ' + s.value:40} {s.rows:6} {s.sources:8}   "
            f"{percent(h.median):>22} {percent(h.p90):>6} {h.bias:6.2f} {percent(s.intervals.coverage):>8} "
            f"{s.intervals.width:6.2f} {percent(s.intervals.kept):>6}   {percent(s.in_sample.median):>10}"
        )


@cli.command()
def deliver(
    dead: Annotated[bool, typer.Option("--dead", help="Also retry deliveries that were given up.")] = False,
) -> None:
    """Post all due webhook notifications once. A running service does this by itself."""
    configured = load_settings()
    engine = make_engine(configured.database_url)
    store = DeliveryStore(engine)
    if dead:
        store.revive_dead(now=datetime.now(UTC))
    delivered, down = WebhookSender(configured.webhooks, store).deliver_due()
    waiting, given_up = store.count_pending()
    engine.dispose()
    typer.echo(f"{delivered} delivered, {waiting} waiting, {given_up} given up. {down} endpoints failed.")
    if down:
        raise typer.Exit(1)


@cli.command()
def serve(
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen on.", envvar="PORT")] = 8000,
    workers: Annotated[
        int | None,
        typer.Option(min=1, max=64, help="Worker processes. Default: HEADROOM_WORKERS, or 1.", show_default=False),
    ] = None,
) -> None:
    """Serve the API, its documentation and the page."""
    configured = load_settings()
    check_extras(configured)
    shown = "localhost" if configured.host in ("0.0.0.0", "127.0.0.1", "::") else configured.host
    typer.echo(f"Headroom: page http://{shown}:{port}/  docs http://{shown}:{port}/docs")
    raise typer.Exit(server.serve(configured, port, workers or configured.workers))
