"""The commands serve and deliver."""

from __future__ import annotations

import os
from contextlib import nullcontext
from typing import Annotated

import typer


def serve(
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen on.", envvar="PORT")] = 8000,
    workers: Annotated[
        int | None,
        typer.Option(min=1, max=64, help="Worker processes. Default: HEADROOM_WORKERS, or 1.", show_default=False),
    ] = None,
) -> None:
    """Serve the API, its documentation and the page."""
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
        with paused_collection():
            from app import server  # counts into the shared folder

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
