"""The command line: prepare the database, serve, show the accuracy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
import uvicorn
from alembic import command
from alembic.config import Config
from sqlalchemy.orm import Session

from app.calibration.report import DIMENSIONS, report_on
from app.catalog.queries import list_compared
from app.catalog.seed import seed
from app.config import Settings
from app.db import make_engine

cli = typer.Typer(no_args_is_help=True, add_completion=False, help="Headroom sizes hardware for AI work.")


def alembic_config() -> Config:
    """The migrations beside the package, wherever it is installed and started from."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).resolve().parent.parent / "migrations"))
    return config


@cli.command()
def prepare() -> None:
    """Migrate the database and load the curated catalogue; does nothing where both are current."""
    settings = Settings()
    command.upgrade(alembic_config(), "head")
    engine = make_engine(settings.database_url)
    with Session(engine) as session:
        changed = seed(session)
    engine.dispose()
    typer.echo("Catalogue loaded." if changed else "Catalogue is current.")


@cli.command()
def accuracy(
    by: Annotated[
        str, typer.Option(help="engine, accelerator_family, format, model_size, load, source or nearness.")
    ] = "engine",
) -> None:
    """Errors of the engine's predictions against published results, overall and by one dimension."""
    if by not in DIMENSIONS:
        raise typer.BadParameter(f"{by!r} is none of {', '.join(DIMENSIONS)}.")
    engine = make_engine(Settings().database_url)
    with Session(engine) as session:
        report = report_on(list_compared(session))
    engine.dispose()
    typer.echo(
        f"{'':40} {'rows':>6} {'sources':>8}   {'unseen source: median':>22} {'p90':>6} {'bias':>6} "
        f"{'covered':>8} {'width':>6} {'kept':>6}   {'in sample':>10}"
    )
    for s in (*report.overall, *report.by[by]):
        h = s.held_out
        typer.echo(
            f"{s.metric + ', ' + s.value:40} {s.rows:6} {s.sources:8}   "
            f"{h.median:22.0%} {h.p90:6.0%} {h.bias:6.2f} {s.intervals.coverage:8.0%} "
            f"{s.intervals.width:6.2f} {s.intervals.kept:6.0%}   {s.in_sample.median:10.0%}"
        )


@cli.command()
def serve(
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen on.", envvar="PORT")] = 8000,
    workers: Annotated[
        int | None, typer.Option(min=1, max=64, help="Processes; default HEADROOM_WORKERS, or 1.", show_default=False)
    ] = None,
) -> None:
    """Serve the API, its documentation and the page."""
    settings = Settings()
    shown = "localhost" if settings.host in ("0.0.0.0", "127.0.0.1", "::") else settings.host
    typer.echo(f"Headroom: page http://{shown}:{port}/  docs http://{shown}:{port}/docs")
    uvicorn.run(
        "app.main:create_app",
        factory=True,
        host=settings.host,
        port=port,
        workers=workers or settings.workers,
        access_log=False,
        log_level=settings.log_level,
        timeout_graceful_shutdown=20,
        timeout_keep_alive=10,
        limit_concurrency=512,
        server_header=False,
    )


def main() -> None:
    cli()


if __name__ == "__main__":
    main()
