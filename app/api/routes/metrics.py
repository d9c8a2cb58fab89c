"""GET /metrics: what the workers counted, for Prometheus."""

from __future__ import annotations

import asyncio

from fastapi import FastAPI
from fastapi.responses import Response
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from app import telemetry

NOT_KEPT = {"Cache-Control": "no-store"}


async def metrics() -> Response:
    """All of them, whichever worker answers; read in a thread that requests do not wait for."""
    text = await asyncio.to_thread(telemetry.exposition)
    return Response(text, media_type=CONTENT_TYPE_PLAIN_0_0_4, headers=NOT_KEPT)


def install(app: FastAPI, *, on: bool) -> None:
    """Serve it where settings say so. No part of the API: it is for whoever runs the service."""
    if on:
        app.get("/metrics", include_in_schema=False)(metrics)
