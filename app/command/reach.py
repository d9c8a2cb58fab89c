"""Connects commands to a service: the one at a URL, or one in this process on the local catalog."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum

import structlog
import typer
from pydantic import ValidationError
from pydantic_settings import SettingsError
from rich.console import Console
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError
from starlette.testclient import TestClient

from app.config import Settings
from app.main import create_app
from headroom_client import Headroom, HeadroomError, NotReached

STDERR = Console(stderr=True, highlight=False)
UNPREPARED = "The local database is not prepared. Run `headroom prepare`, or set --url to the URL of a service."


class Exit(IntEnum):
    """Exit status of a command other than 0."""

    FAILED = 1  # no answer: the service or database failed, or a setting is invalid
    REFUSED = 2  # the request is invalid; the message names the accepted values
    INFEASIBLE = 3  # answered, but nothing meets the requirements


@contextmanager
def open_client(url: str | None) -> Iterator[Headroom]:
    """Open a client of the service at `url`, or of one in this process. Errors are printed as a sentence and exit the
    command.
    """
    try:
        if url is not None:
            with Headroom(url, retries=2) as client:
                yield client
            return
        app = create_app(quiet_settings())
        with logs_to_stderr(), TestClient(app, raise_server_exceptions=False) as http:
            yield Headroom(http=http, retries=0)
    except HeadroomError as error:
        report_problem(error, local=url is None)
        raise typer.Exit(Exit.REFUSED if 400 <= error.status < 500 else Exit.FAILED) from error
    except NotReached as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(Exit.FAILED) from error


@contextmanager
def logs_to_stderr() -> Iterator[None]:
    """Send the logs of a service in this process to standard error, so that standard output holds only the answer."""
    previous = structlog.get_config()["logger_factory"]
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    try:
        yield
    finally:
        structlog.configure(logger_factory=previous)


def quiet_settings() -> Settings:
    """Settings of the service for one command, without the access log."""
    return load_settings().model_copy(update={"access_log": "off"})


def load_settings() -> Settings:
    """Read the settings from the environment. An invalid one is reported by its variable's name, without its value."""
    try:
        configured = Settings()
        make_url(configured.database_url).get_dialect()
    except ValidationError as error:
        for each in error.errors():
            # The validator of all settings reports no location; it checks webhooks only.
            name, *inner = each["loc"] or ("webhooks",)
            place = "".join(f" {step}" for step in inner)
            report_setting(f"{name}{place}", each["msg"].removeprefix("Value error, "))
        raise typer.Exit(Exit.FAILED) from error
    except SettingsError as error:
        field = next(iter(re.findall(r'field "(\w+)"', str(error))), "setting")
        report_setting(field, "must be valid JSON")
        raise typer.Exit(Exit.FAILED) from error
    except ArgumentError as error:
        report_setting("database_url", "must be the URL of an SQLite or PostgreSQL database")
        raise typer.Exit(Exit.FAILED) from error
    return configured


def report_setting(place: str, reason: str) -> None:
    """Print why a setting is invalid."""
    name, _, inner = place.partition(" ")
    typer.echo(f"HEADROOM_{name.upper()}{' ' + inner if inner else ''}: {reason}.", err=True)


def report_problem(error: HeadroomError, *, local: bool) -> None:
    """Print a problem: its detail, then each further error with its JSON pointer."""
    if local and error.status == 503:
        typer.echo(UNPREPARED, err=True)
        return
    typer.echo(error.detail, err=True)
    for each in error.others:
        typer.echo(f"  {each.get('pointer', '')}: {each.get('detail', '')}", err=True)


@contextmanager
def show_progress(message: str) -> Iterator[None]:
    """Show a progress message while the block runs, if standard error is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    with STDERR.status(message):
        yield
