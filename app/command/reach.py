"""Where questions go: to the service at an address, or to one in this process over the local catalogue."""

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

NOTES = Console(stderr=True, highlight=False)
UNPREPARED = "The local database is not prepared: run `headroom prepare`, or name a service with --url."


class Exit(IntEnum):
    """What a command ends with, beside 0."""

    FAILED = 1  # no answer: no service, no database, a setting
    REFUSED = 2  # the question is none: what would be accepted is told
    INFEASIBLE = 3  # an answer: nothing does what was asked


@contextmanager
def service(url: str | None) -> Iterator[Headroom]:
    """A client of the service at `url`, else of one in this process; what goes wrong is told in a sentence."""
    try:
        if url is not None:
            with Headroom(url, retries=2) as client:
                yield client
            return
        app = create_app(quiet())
        with logs_beside(), TestClient(app, raise_server_exceptions=False) as http:
            yield Headroom(http=http, retries=0)
    except HeadroomError as error:
        told(error, local=url is None)
        raise typer.Exit(Exit.REFUSED if 400 <= error.status < 500 else Exit.FAILED) from error
    except NotReached as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(Exit.FAILED) from error


@contextmanager
def logs_beside() -> Iterator[None]:
    """What a service in this process logs goes to standard error: standard output is the answer's."""
    before = structlog.get_config()["logger_factory"]
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    try:
        yield
    finally:
        structlog.configure(logger_factory=before)


def quiet() -> Settings:
    """The settings for one question: nobody asks who asked."""
    return settings().model_copy(update={"access_log": "off"})


def settings() -> Settings:
    """The settings of the environment; which of them is wrong is told by its name there, without its value."""
    try:
        found = Settings()
        make_url(found.database_url).get_dialect()
    except ValidationError as error:
        for each in error.errors():
            name, *within = each["loc"] or ("webhooks",)  # what is wrong with several together is said of these alone
            place = "".join(f" {step}" for step in within)
            wrong(f"{name}{place}", each["msg"].removeprefix("Value error, "))
        raise typer.Exit(Exit.FAILED) from error
    except SettingsError as error:
        field = next(iter(re.findall(r'field "(\w+)"', str(error))), "setting")
        wrong(field, "is not JSON")
        raise typer.Exit(Exit.FAILED) from error
    except ArgumentError as error:
        wrong("database_url", "is not the address of an SQLite or PostgreSQL database")
        raise typer.Exit(Exit.FAILED) from error
    return found


def wrong(place: str, why: str) -> None:
    """Tell what is wrong with a setting."""
    name, _, within = place.partition(" ")
    typer.echo(f"HEADROOM_{name.upper()}{' ' + within if within else ''}: {why}.", err=True)


def told(error: HeadroomError, *, local: bool) -> None:
    """A problem: its sentence, and each further place in the request that it points to."""
    if local and error.status == 503:
        typer.echo(UNPREPARED, err=True)
        return
    typer.echo(error.detail, err=True)
    for each in error.others:
        typer.echo(f"  {each.get('pointer', '')}: {each.get('detail', '')}", err=True)


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Shows on a terminal that something takes its time."""
    if not sys.stderr.isatty():
        yield
        return
    with NOTES.status(what):
        yield
