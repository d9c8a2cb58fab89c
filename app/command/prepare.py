"""The command prepare: migrates the database and loads the catalog; and the exit of commands that cannot go on."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import typer
from alembic import command
from alembic.util import CommandError
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from app.catalog.seed import seed_catalog
from app.command.asking import Exit, load_settings
from app.compiled import NOT_COMPILED, compile_simulation, engine_version
from app.db import UNHURRIED, DatabaseError, make_engine
from app.errors import describe_error
from app.extras import MissingExtra
from app.migrating import alembic_config

LOCK_SIGNS = ("LockNotAvailable", "database is locked")  # signs of a lock that another process holds


def prepare() -> None:
    """Migrate the database, load the catalog and compile the simulation. Changes nothing if all are up to date."""
    configured = load_settings()
    if not compile_simulation(configured.cache_dir):
        typer.echo(NOT_COMPILED, err=True)
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


BROKEN_PIPE = 141  # exit status that a shell reports for a program ended by SIGPIPE


def run_command(command: Callable[[], object]) -> int:
    """Run a command and return its exit status. Reports a missing extra, a database or a file error on standard
    error.
    """
    try:
        command()
    except SystemExit as exit_request:
        if isinstance(exit_request.__context__, BrokenPipeError):  # the reader closed the pipe
            discard_output()
            return BROKEN_PIPE
        return exit_request.code if isinstance(exit_request.code, int) else int(exit_request.code is not None)
    except MissingExtra as error:
        return report_failure(error.detail)
    except DatabaseError as error:
        return report_failure(f"Database error: {describe_cause(error)}. Run `headroom doctor` to find the cause.")
    except OSError as error:
        if error.filename is None:  # an error without a file name concerns standard output
            discard_output()
        return report_failure(f"{error.filename or 'The output'} cannot be used: {error.strerror or error}.")
    return 0


def report_failure(sentence: str) -> int:
    """Print a sentence on standard error and return the exit status of a failure."""
    typer.echo(sentence, err=True)
    return Exit.FAILED


def discard_output() -> None:
    """Redirect standard output to the null device. Otherwise the interpreter would retry the write at exit and print an
    error.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
