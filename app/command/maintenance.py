"""The commands prune (deletes old answers past retention), standing (checks filed plans) and doctor (checks everything
that the service needs).
"""

from __future__ import annotations

import shutil
import socket
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.command.asking import open_client
from app.command.ending import RESTORE, Exit, describe_cause

if TYPE_CHECKING:
    from sqlalchemy import Engine
    from sqlalchemy.orm import Session, sessionmaker

    from app.catalog.outbox import Outbox
    from app.catalog.recommendations import AnswerTotals
    from app.config import Settings
    from headroom_client.answers import PlanFindingShown


def prune(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show how many answers would be deleted, and delete nothing.")
    ] = False,
    label: Annotated[
        str | None, typer.Option("--label", help="Delete the filed answers with exactly this label instead.")
    ] = None,
) -> None:
    """Delete stored answers that are unfiled and too old or too large in total. A running service does this by
    itself. With --label, delete filed answers that are neither approved nor ordered.
    """
    from app.catalog.recommendations import AnswerTotals, Pruner, RetentionPolicy
    from app.command.settings import load_settings
    from app.db import DatabaseError, make_engine

    configured = load_settings()
    engine = make_engine(configured.database_url)
    pruner = Pruner(engine, RetentionPolicy(configured.keep_days, configured.keep_bytes))
    now = datetime.now(UTC)
    try:
        if label is not None:
            done = pruner.delete_labelled(label, dry_run=dry_run)
            typer.echo(f"{'Would delete' if dry_run else 'Deleted'} {format_amount(done)} with this label.")
            return
        surplus = pruner.count_surplus(now=now) if dry_run else pruner.prune_all(now=now, pause_s=0)
        unfiled = pruner.count_unfiled()
    except DatabaseError as error:
        typer.echo(f"Pruning stopped: {describe_cause(error)}.", err=True)
        raise typer.Exit(Exit.FAILED) from error
    finally:
        engine.dispose()
    remaining = AnswerTotals(unfiled.answers - surplus.answers, unfiled.bytes - surplus.bytes) if dry_run else unfiled
    typer.echo(
        f"{'Would delete' if dry_run else 'Deleted'} {format_amount(surplus)}; unfiled answers that remain: "
        f"{format_amount(remaining)}."
    )


def format_amount(some: AnswerTotals) -> str:
    return f"{some.answers:,} {'answer' if some.answers == 1 else 'answers'} ({some.bytes / 1e6:,.1f} MB)"


PAGE = 100  # filed answers read at once


def standing(
    label: Annotated[
        str | None, typer.Option("--label", help="Check only plans with these words in their label.")
    ] = None,
) -> None:
    """Check whether filed plans still hold at today's catalog. Webhooks are notified of offers that have ended and of
    cheaper plans. Superseded answers, answers without a plan and those of other tenants are left out.
    """
    from app.command.local import open_local_service
    from headroom_client import HeadroomError

    counts = {"holds": 0, "changed": 0, "not checked": 0}
    with open_local_service() as (app, client):
        for identity in filed_answers(app.state.sessions, label):
            try:
                found = client.standing(identity)
            except HeadroomError as error:
                counts["not checked"] += 1
                typer.echo(f"{identity} not checked: {error.detail}")
                continue
            record_standing(app.state.sessions, app.state.outbox, identity, found["findings"])
            state = "holds" if found["holds"] else "changed"
            counts[state] += 1
            typer.echo(f"{identity} {state}: {' '.join(each['text'] for each in found['findings'])}")
    typer.echo(", ".join(f"{count} {state}" for state, count in counts.items()) + ".")


def filed_answers(sessions: sessionmaker[Session], label: str | None) -> Iterator[str]:
    """Ids of filed answers with a plan that no other answer supersedes, newest first."""
    from app.catalog.filing import FilingFilter, list_filings

    after, more = None, True
    while more:
        with sessions() as session:
            rows, more = list_filings(session, FilingFilter(label=label, in_use=True), after=after, limit=PAGE)
        if rows:
            after = (rows[-1].stored_at, rows[-1].recommendation)
        yield from (row.recommendation for row in rows if row.option is not None)


def record_standing(
    sessions: sessionmaker[Session], outbox: Outbox, identity: str, findings: Sequence[PlanFindingShown]
) -> None:
    """Record the event for webhooks where an offer has ended or a cheaper plan exists."""
    from app.catalog.filing import get_filing
    from app.export.standing import NOTIFIED

    worth = [finding for finding in findings if finding["code"] in NOTIFIED]
    if worth:
        with sessions.begin() as session:
            changes, note = [each["code"] for each in worth], " ".join(each["text"] for each in worth)
            outbox.record_standing(session, get_filing(session, identity), changes, note)


LEAST_FREE_BYTES = 50_000_000  # on the disk of a SQLite file
OLD_DAYS = 180  # age from which prices count as out of date


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of one check; `fix` is None if nothing is wrong."""

    item: str
    state: str
    fix: str | None = None  # suggested fix


def doctor(
    url: Annotated[
        str | None,
        typer.Option("--url", envvar="HEADROOM_URL", help="URL of a service to check. Default: check this machine."),
    ] = None,
    port: Annotated[int, typer.Option(min=1, max=65535, envvar="PORT", help="Port that the service would use.")] = 8000,
) -> None:
    """Check Python, settings, database, catalog and port, and suggest fixes. Exits with 1 if something needs fixing."""
    findings = list(check_service(url) if url else check_machine(port))
    for each in findings:
        typer.echo(f"{'ok ' if each.fix is None else 'FIX'} {each.item}: {each.state}")
        if each.fix is not None:
            typer.echo(f"    {each.fix}")
    if any(each.fix for each in findings):
        raise typer.Exit(Exit.FAILED)


def check_machine(port: int) -> Iterator[Finding]:
    """Check Python, settings, simulation, database, catalog and port on this machine."""
    from app.command.settings import load_settings
    from app.compiled import NOT_COMPILED, compile_simulation
    from app.db import DatabaseError, is_damaged, make_engine, storage_remedy

    configured = load_settings()
    version = ".".join(map(str, sys.version_info[:3]))
    yield Finding("Python", version, None if sys.version_info >= (3, 11) else "Install Python 3.11 or later.")
    yield Finding("settings", "valid")
    compiled = compile_simulation(configured.cache_dir)
    yield Finding("simulation", "compiled" if compiled else "in Python", None if compiled else NOT_COMPILED)
    engine = make_engine(configured.database_url)
    try:
        yield check_schema(engine, configured)
    except DatabaseError as error:
        if is_damaged(error):
            yield Finding("database", f"damaged: {error.orig}", RESTORE)
            return
        yield Finding(
            "database",
            f"does not answer: {str(error).splitlines()[0]}",
            storage_remedy(error) or "Start the database, or correct HEADROOM_DATABASE_URL.",
        )
        return
    finally:
        engine.dispose()
    yield from check_service(None)
    with socket.socket() as probe:
        probe.settimeout(1)
        taken = probe.connect_ex((configured.host if configured.host != "0.0.0.0" else "127.0.0.1", port)) == 0
    yield Finding(
        f"port {port}", "in use" if taken else "free", "Use another port: headroom serve --port ..." if taken else None
    )


def check_schema(engine: Engine, configured: Settings) -> Finding:
    """Check that a SQLite file is undamaged, and that the database schema is the one this release needs."""
    from alembic.runtime.migration import MigrationContext
    from alembic.script import ScriptDirectory

    from app.db import STORAGE_REMEDIES, sqlite_damage
    from app.migrating import alembic_config

    damage = sqlite_damage(engine)
    if damage is not None:
        return Finding("database", f"damaged: {damage}", RESTORE)
    with engine.connect() as connection:
        now = MigrationContext.configure(connection).get_current_revision()
    newest = ScriptDirectory.from_config(alembic_config()).get_current_head()
    name = configured.database_url.partition(":")[0].partition("+")[0]
    fix = None if now == newest else "Run headroom prepare."
    if name == "sqlite" and shutil.disk_usage(Path(engine.url.database or "").resolve().parent).free < LEAST_FREE_BYTES:
        fix = STORAGE_REMEDIES[sqlite3.SQLITE_FULL]
    return Finding("database", f"{name}, revision {now or 'none'}", fix)


def check_service(url: str | None) -> Iterator[Finding]:
    """Check that a service answers, and the age of its newest price."""
    try:
        with open_client(url) as client:
            ready = client.ready()
            newest = max((str(price) for price in [ready.get("prices_as_of")] if price), default=None)
    except typer.Exit:
        yield Finding("service", "not ready", "Run headroom prepare, or check the URL.")
        return
    yield Finding("service", "answers")
    if newest is not None:
        age = (datetime.now(UTC).date() - datetime.fromisoformat(newest).date()).days
        yield Finding(
            "prices",
            f"as of {newest}, {age} days old",
            "Load newer prices (docs/operating.md)." if age > OLD_DAYS else None,
        )
