"""GET /metrics: counters of all workers in the Prometheus format."""

from __future__ import annotations

import asyncio

from fastapi import FastAPI
from fastapi.responses import Response
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from app import telemetry

NOT_KEPT = {"Cache-Control": "no-store"}


async def get_metrics() -> Response:
    """Returns the metrics of all workers, whichever worker answers. A separate thread reads them, so requests do not
    wait.
    """
    text = await asyncio.to_thread(telemetry.prometheus_text)
    return Response(text, media_type=CONTENT_TYPE_PLAIN_0_0_4, headers=NOT_KEPT)


def install(app: FastAPI, *, on: bool) -> None:
    """Serves /metrics if the settings enable it. It is for operators and not part of the API document."""
    if on:
        app.get("/metrics", include_in_schema=False)(get_metrics)
