"""prepare: migrates the database and loads the catalogue, whoever else does the same at the same time."""

from __future__ import annotations

import typer
from alembic import command
from alembic.util import CommandError
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from app.catalog.seed import seed
from app.causes import cause
from app.command.reach import Exit, settings
from app.compiled import compile_simulation, engine_version
from app.db import UNHURRIED, make_engine
from app.migrating import alembic_config

HELD = ("LockNotAvailable", "database is locked")


def prepare() -> None:
    """Migrate the database, load the curated catalogue, compile the simulation; does nothing where all are current."""
    found = settings()
    compile_simulation(found.cache_dir)
    engine_version(found.cache_dir)
    try:
        changed = prepared(found.database_url)
    except (SQLAlchemyError, CommandError, OSError) as error:
        typer.echo(f"The database was not prepared: {why(error)}.", err=True)
        raise typer.Exit(Exit.FAILED) from error
    typer.echo("Catalogue loaded." if changed else "Catalogue is current.")


def prepared(url: str) -> bool:
    """Whether anything was to be loaded. Raises what the database raises."""
    config = alembic_config()
    config.attributes["database_url"] = url
    command.upgrade(config, "head")
    engine = make_engine(url, UNHURRIED)
    try:
        with Session(engine) as session:
            return seed(session)
    finally:
        engine.dispose()


def why(error: Exception) -> str:
    """What stood in the way, in the database's own words where they say it."""
    told = cause(error)
    if any(sign in f"{told['error']} {told['message']}" for sign in HELD):
        return "another process is changing it; look what that is, then try again"
    if isinstance(error, CommandError):
        return f"{told['message'].rstrip('.')}. It may be of a newer release"
    return told["message"].rstrip(".")
