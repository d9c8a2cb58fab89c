"""Command line: `serve`, `prepare`, `doctor`, `accuracy`, `trace-memory`, `deliver` and the sizing commands of
app.command.
"""

from __future__ import annotations

from datetime import UTC, datetime
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
from sqlalchemy.orm import Session, sessionmaker

from app import server
from app.api.problems import InvalidBody, MalformedRequest
from app.api.routes.recommendations import compute_estimate
from app.calibration.report import DIMENSIONS, report_on
from app.calibration.tracing.report import comparison_lines
from app.calibration.tracing.requests import setup_of
from app.calibration.tracing.setups import Setup, Traced
from app.catalog.outbox import DeliveryStore
from app.catalog.queries import list_compared
from app.catalog.snapshot import CatalogStore
from app.catalog.tables import ModelRow
from app.command import lists, sizing
from app.command.asking import UNPREPARED, load_settings
from app.command.lists import mcp
from app.command.maintenance import doctor, prune
from app.command.prepare import prepare
from app.db import DatabaseError, make_engine
from app.errors import AppError
from app.procurement.webhooks import WebhookSender
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
def trace_memory(
    request: Annotated[
        Path, typer.Argument(help="File with a body of POST /estimate: a training workload and its deployment.")
    ],
) -> None:
    """Trace the peak memory of a training step with PyTorch and compare it with the estimate, by component and
    phase.
    """
    if find_spec("torch") is None:
        typer.echo("PyTorch is not installed. Install the extra `trace`: pip install -e '.[trace]'", err=True)
        raise typer.Exit(1)
    engine = make_engine(load_settings().database_url)
    sessions = sessionmaker(engine)
    try:
        answer, setup = estimate_and_setup(request.read_bytes(), sessions)
    except (AppError, MalformedRequest) as error:
        typer.echo(error.detail, err=True)
        raise typer.Exit(1) from error
    except InvalidBody as error:
        typer.echo(str(error.error), err=True)
        raise typer.Exit(1) from error
    finally:
        engine.dispose()
    traced: Traced = import_module("app.calibration.tracing.step").trace(setup)
    for line in comparison_lines(answer["memory"], traced):
        typer.echo(line)


def estimate_and_setup(raw: bytes, sessions: sessionmaker[Session]) -> tuple[dict[str, Any], Setup]:
    """Returns the estimate for a request body, and the training setup to trace with its full deployment."""
    catalog_store = CatalogStore(sessions, check_s=3600)
    answer: dict[str, Any] = orjson.loads(compute_estimate(raw, catalog_store, datetime.now(UTC).date()).body)
    request = orjson.loads(raw)
    model = request["workload"]["model"]
    if isinstance(model, dict):
        config = model.get("huggingface_config", {})
    else:
        with sessions() as session:
            row = session.get(ModelRow, catalog_store.find_model(model).name)
            config = {} if row is None else row.facts["config"]
    return answer, setup_of({**request, "deployment": answer["deployment"]}, config)


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
    shown = "localhost" if configured.host in ("0.0.0.0", "127.0.0.1", "::") else configured.host
    typer.echo(f"Headroom: page http://{shown}:{port}/  docs http://{shown}:{port}/docs")
    raise typer.Exit(server.serve(configured, port, workers or configured.workers))
