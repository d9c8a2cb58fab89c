"""The commands serve and deliver."""

from __future__ import annotations

import multiprocessing
import os
from contextlib import nullcontext
from typing import Annotated

import typer

CHECK_S = 10.0  # longest check of a SQLite file before the start, so that a large one does not delay it for minutes


def find_damage_within(limit_s: float, url: str) -> str | None:
    """First fault of a SQLite file that a process of its own finds in that time; then it is killed."""
    from app.command.prepare import find_damage

    fork = multiprocessing.get_context("fork")
    receiving, sending = fork.Pipe(duplex=False)
    child = fork.Process(target=lambda: sending.send(find_damage(url)))
    child.start()
    sending.close()  # else the end of the child would not be noticed
    try:
        damage: str | None = receiving.recv() if receiving.poll(limit_s) else None
    except EOFError:  # the database does not answer; the service reports that itself
        damage = None
    finally:
        child.kill()
        child.join()
    return damage


def serve(
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen on.", envvar="PORT")] = 8000,
    workers: Annotated[
        int | None,
        typer.Option(min=1, max=64, help="Worker processes. Default: HEADROOM_WORKERS, or 1.", show_default=False),
    ] = None,
) -> None:
    """Serve the API, its documentation and the page."""
    from app.command.prepare import refuse_damaged_database
    from app.command.settings import load_settings
    from app.garbage import paused_collection
    from app.metrics_folder import share_metrics

    configured = load_settings()
    processes = workers or configured.workers
    shown = "localhost" if configured.host in ("0.0.0.0", "127.0.0.1", "::") else configured.host
    typer.echo(f"Headroom: page http://{shown}:{port}/  docs http://{shown}:{port}/docs")
    with share_metrics() if processes > 1 else nullcontext():
        # NumPy would start threads for matrix products, which are not used here, and a parent of workers has none.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        with paused_collection(keeps_all=True):
            from app import server  # counts into the shared folder
            from app.db import ended_uncleanly

        if ended_uncleanly(configured.database_url):
            refuse_damaged_database(find_damage_within(CHECK_S, configured.database_url))
        raise typer.Exit(server.serve(configured, port, processes))


def deliver(
    dead: Annotated[bool, typer.Option("--dead", help="Also retry deliveries that were given up.")] = False,
) -> None:
    """Post all due webhook notifications once. A running service does this by itself."""
    from datetime import UTC, datetime

    from app.catalog.outbox import DeliveryStore
    from app.command.settings import load_settings
    from app.db import make_engine
    from app.procurement.webhooks import WebhookSender

    configured = load_settings()
    engine = make_engine(configured.database_url)
    store = DeliveryStore(engine)
    if dead:
        store.revive_dead(now=datetime.now(UTC))
    delivered, down = WebhookSender(configured.webhooks, store).deliver_due()
    waiting, given_up = store.count_pending()
    engine.dispose()
    typer.echo(f"{delivered} delivered, {waiting} waiting, {given_up} given up. {down} endpoints failed.")
    if down:
        raise typer.Exit(1)
