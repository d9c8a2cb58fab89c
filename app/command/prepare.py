"""The `prepare` command: migrates the database and loads the catalog. Several processes may run it at the same time."""

from __future__ import annotations

import typer
from alembic import command
from alembic.util import CommandError
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from app.catalog.seed import seed_catalog
from app.causes import describe_error
from app.command.reach import Exit, load_settings
from app.compiled import compile_simulation, engine_version
from app.db import UNHURRIED, make_engine
from app.migrating import alembic_config

LOCK_SIGNS = ("LockNotAvailable", "database is locked")  # signs of a lock that another process holds


def prepare() -> None:
    """Migrate the database, load the catalog and compile the simulation. Changes nothing if all are up to date."""
    configured = load_settings()
    compile_simulation(configured.cache_dir)
    engine_version(configured.cache_dir)
    try:
        changed = prepare_database(configured.database_url)
    except (SQLAlchemyError, CommandError, OSError) as error:
        typer.echo(f"The database was not prepared: {describe_cause(error)}.", err=True)
        raise typer.Exit(Exit.FAILED) from error
    typer.echo("Catalog loaded." if changed else "Catalog is up to date.")


def prepare_database(url: str) -> bool:
    """Migrate and load the database; True if the catalog was loaded. Raises the errors of the database."""
    config = alembic_config()
    config.attributes["database_url"] = url
    command.upgrade(config, "head")
    engine = make_engine(url, UNHURRIED)
    try:
        with Session(engine) as session:
            return seed_catalog(session)
    finally:
        engine.dispose()


def describe_cause(error: Exception) -> str:
    """Cause of a database error, in the database's own words where it gives them."""
    details = describe_error(error)
    if any(sign in f"{details['error']} {details['message']}" for sign in LOCK_SIGNS):
        return "another process is changing it; wait for that process to finish, then run the command again"
    if isinstance(error, CommandError):
        return f"{details['message'].rstrip('.')}. The database may belong to a newer release"
    return details["message"].rstrip(".")
