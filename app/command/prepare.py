"""The command prepare: migrates the database, loads the catalog and compiles the simulation."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import typer

from app.command.ending import RESTORE, Exit, describe_cause

if TYPE_CHECKING:
    from sqlalchemy import Engine


def prepare() -> None:
    """Migrate the database, load the catalog, compare measurements with its predictions and compile the simulation.
    Changes nothing if all are up to date.
    """
    from alembic.util import CommandError
    from sqlalchemy.exc import SQLAlchemyError

    from app.command.settings import load_settings
    from app.compiled import NOT_COMPILED, compile_simulation, engine_version

    configured = load_settings()
    if not compile_simulation(configured.cache_dir):
        typer.echo(NOT_COMPILED, err=True)
    engine_version(configured.cache_dir)
    try:
        refuse_damaged_database(find_damage(configured.database_url))
        changed = prepare_database(configured.database_url)
    except (SQLAlchemyError, CommandError, OSError) as error:
        typer.echo(f"The database was not prepared: {describe_cause(error)}.", err=True)
        raise typer.Exit(Exit.FAILED) from error
    typer.echo("Catalog loaded." if changed else "Catalog is up to date.")


def refuse_damaged_database(damage: str | None) -> None:
    """End the command with a sentence if there is damage."""
    if damage is not None:
        typer.echo(f"The database is damaged: {damage}. {RESTORE}", err=True)
        raise typer.Exit(Exit.FAILED)


def find_damage(url: str) -> str | None:
    """First fault that SQLite finds in its file; None if it finds none. Raises the errors of the database."""
    from app.db import make_engine, sqlite_damage

    engine = make_engine(url)
    try:
        return sqlite_damage(engine)
    finally:
        engine.dispose()


def prepare_database(url: str) -> bool:
    """Migrate and load the database; True if the catalog was loaded. Raises the errors of the database."""
    from alembic import command
    from sqlalchemy.orm import Session

    from app.catalog.measuring import list_outdated_tenants
    from app.catalog.seed import seed_catalog
    from app.db import EVERY_TENANT, UNHURRIED, acting_for, make_engine
    from app.migrating import alembic_config

    config = alembic_config()
    config.attributes["database_url"] = url
    command.upgrade(config, "head")
    engine = make_engine(url, UNHURRIED)
    try:
        with Session(engine) as session:
            changed = seed_catalog(session)
        with acting_for(EVERY_TENANT), Session(engine) as session:
            has_measurements = bool(list_outdated_tenants(session, ""))
        if has_measurements:
            compare_measurements(engine)
        return changed
    finally:
        engine.dispose()


def compare_measurements(engine: Engine) -> None:
    """Compare the stored measurements with predictions of the newest catalog, which takes 0.1 s for each."""
    from sqlalchemy.orm import sessionmaker

    from app.api.measuring import compare_again
    from app.catalog.snapshot import CatalogStore

    sessions = sessionmaker(engine, expire_on_commit=False)
    store = CatalogStore(sessions, check_s=math.inf)
    compare_again(sessions, store.published(), store)
