"""The `prune` command: deletes stored answers past their retention, or lists how many it would delete."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from app.catalog.retention import AnswerTotals, Pruner, RetentionPolicy
from app.command.prepare import describe_cause
from app.command.reach import Exit, load_settings
from app.db import DatabaseError, make_engine


def prune(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show how many answers would be deleted, and delete nothing.")
    ] = False,
) -> None:
    """Delete stored answers that are unfiled and too old or too large in total. A running service does this by
    itself.
    """
    configured = load_settings()
    engine = make_engine(configured.database_url)
    pruner = Pruner(engine, RetentionPolicy(configured.keep_days, configured.keep_bytes))
    now = datetime.now(UTC)
    try:
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
    """Number of answers with their size."""
    return f"{some.answers:,} {'answer' if some.answers == 1 else 'answers'} ({some.bytes / 1e6:,.1f} MB)"
