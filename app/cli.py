"""The command line: prepare the database, serve."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
import uvicorn
from alembic import command
from alembic.config import Config
from sqlalchemy.orm import Session

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
def serve(
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen on.", envvar="PORT")] = 8000,
    workers: Annotated[int, typer.Option(min=1, max=64, help="Processes.")] = 1,
) -> None:
    """Serve the API, its documentation and the page."""
    settings = Settings()
    shown = "localhost" if settings.host in ("0.0.0.0", "127.0.0.1", "::") else settings.host
    typer.echo(f"Headroom: page http://{shown}:{port}/  docs http://{shown}:{port}/docs")
    uvicorn.run(
        "app.main:create_app", factory=True, host=settings.host, port=port, workers=workers, access_log=False,
        log_level=settings.log_level, timeout_graceful_shutdown=20, timeout_keep_alive=10, limit_concurrency=512,
        server_header=False,
    )  # fmt: skip


def main() -> None:
    cli()


if __name__ == "__main__":
    main()
