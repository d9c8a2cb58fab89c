"""prune: deletes stored answers that need not be kept, or says which would go."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from app.catalog.retention import Keeping, Pruner, Some
from app.command.prepare import why
from app.command.reach import Exit, settings
from app.db import DatabaseError, make_engine


def prune(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would go, delete nothing.")] = False,
) -> None:
    """Delete stored answers that nobody filed and that are too old or too much; a running service does so by itself."""
    found = settings()
    engine = make_engine(found.database_url)
    pruner = Pruner(engine, Keeping(found.keep_days, found.keep_bytes))
    now = datetime.now(UTC)
    try:
        going = pruner.surplus(now=now) if dry_run else pruner.prune(now=now, pause_s=0)
        left = pruner.unfiled()
    except DatabaseError as error:
        typer.echo(f"Nothing more was pruned: {why(error)}.", err=True)
        raise typer.Exit(Exit.FAILED) from error
    finally:
        engine.dispose()
    stay = Some(left.answers - going.answers, left.bytes - going.bytes) if dry_run else left
    typer.echo(
        f"{'Would delete' if dry_run else 'Deleted'} {told(going)}; of those that nobody filed stay {told(stay)}."
    )


def told(some: Some) -> str:
    return f"{some.answers:,} {'answer' if some.answers == 1 else 'answers'} ({some.bytes / 1e6:,.1f} MB)"
