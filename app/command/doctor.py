"""doctor: whether everything that the service needs is there, each finding with what mends it."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

import typer
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine

from app.command.reach import Exit, service, settings
from app.config import Settings
from app.db import DatabaseError, make_engine
from app.migrating import alembic_config

OLD_DAYS = 180


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that was looked at; `mend` where it is not well."""

    what: str
    found: str
    mend: str | None = None


def doctor(
    url: Annotated[str | None, typer.Option("--url", envvar="HEADROOM_URL", help="A service to look at.")] = None,
    port: Annotated[int, typer.Option(min=1, max=65535, envvar="PORT")] = 8000,
) -> None:
    """Look at Python, settings, database, catalogue and port. Ends with 1 where something is to be mended."""
    findings = list(of_service(url) if url else of_here(settings(), port))
    for each in findings:
        typer.echo(f"{'ok  ' if each.mend is None else 'MEND'} {each.what}: {each.found}")
        if each.mend is not None:
            typer.echo(f"     {each.mend}")
    if any(each.mend for each in findings):
        raise typer.Exit(Exit.FAILED)


def of_here(found: Settings, port: int) -> Iterator[Finding]:
    """What a service on this machine would stand on."""
    version = ".".join(map(str, sys.version_info[:3]))
    yield Finding("Python", version, None if sys.version_info >= (3, 11) else "Install Python 3.11 or later.")
    yield Finding("settings", "read")
    engine = make_engine(found.database_url)
    try:
        yield of_schema(engine, found)
    except DatabaseError as error:
        yield Finding("database", f"does not answer: {str(error).splitlines()[0]}", "Check HEADROOM_DATABASE_URL.")
        return
    finally:
        engine.dispose()
    yield from of_service(None)
    with socket.socket() as tried:
        tried.settimeout(1)
        taken = tried.connect_ex((found.host if found.host != "0.0.0.0" else "127.0.0.1", port)) == 0
    yield Finding(f"port {port}", "taken" if taken else "free", "Another: headroom serve --port ..." if taken else None)


def of_schema(engine: Engine, found: Settings) -> Finding:
    """Whether the database is migrated as this version needs it."""
    with engine.connect() as connection:
        now = MigrationContext.configure(connection).get_current_revision()
    newest = ScriptDirectory.from_config(alembic_config()).get_current_head()
    name = found.database_url.partition(":")[0].partition("+")[0]
    return Finding("database", f"{name}, revision {now or 'none'}", None if now == newest else "Run headroom prepare.")


def of_service(url: str | None) -> Iterator[Finding]:
    """Whether a service answers, and how old its catalogue is."""
    try:
        with service(url) as client:
            ready = client.ready()
            newest = max((str(price) for price in [ready.get("prices_as_of")] if price), default=None)
    except typer.Exit:
        yield Finding("service", "does not answer questions", "Run headroom prepare, or check the address.")
        return
    yield Finding("service", "answers")
    if newest is not None:
        age = (datetime.now(UTC).date() - datetime.fromisoformat(newest).date()).days
        yield Finding("prices", f"as of {newest}, {age} days old", "Load newer ones." if age > OLD_DAYS else None)
