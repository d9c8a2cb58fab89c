"""`python -m benchmarks.front`: overhead of the outermost middleware per request and of a metrics scrape, microseconds.

The middleware wraps an application that answers at once, in this process and without a socket. Variants are timed in
turn, and the median of the rounds is shown. The log goes to its usual destination, here a file.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import redirect_stdout

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app import logs, telemetry
from app.api import middleware, traces
from app.api.middleware import RequestMiddleware

ROUNDS, EACH = 15, 2000
PARENT = (b"traceparent", b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")


class Route:
    path = "/catalog/models"


async def answer_at_once(scope: Scope, _: Receive, send: Send) -> None:
    """The smallest possible application."""
    scope["route"] = Route
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"{}"})


async def receive() -> Message:
    return {"type": "http.disconnect"}


async def send(_: Message) -> None:
    """Discards the message."""


async def time_round(app: ASGIApp) -> float:
    """Microseconds per request, over one round."""
    began = time.perf_counter()
    for _ in range(EACH):
        headers = [(b"host", b"localhost"), (b"accept", b"*/*"), PARENT]
        scope = {"type": "http", "method": "GET", "path": "/catalog/models", "headers": headers, "client": ("::1", 1)}
        await app(scope, receive, send)
    return (time.perf_counter() - began) / EACH * 1e6


async def measure_variants() -> dict[str, float]:
    """The median of the rounds, by variant."""
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(InMemorySpanExporter()))
    ways: dict[str, ASGIApp] = {
        "no middleware": answer_at_once,
        "IDs and counts": RequestMiddleware(answer_at_once, access_log=middleware.OFF),
        "plus a log line": RequestMiddleware(answer_at_once, access_log=middleware.ON),
        "plus a span": RequestMiddleware(
            answer_at_once, access_log=middleware.ON, tracer=traces.build_tracer(provider)
        ),
    }
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, app in ways.items():
            found[name].append(await time_round(app))
    provider.shutdown()
    return {name: statistics.median(each) for name, each in found.items()}


def time_scrape(scrape: Callable[[], bytes]) -> tuple[float, int]:
    """(milliseconds of a scrape as a median, its size in bytes)."""
    seconds = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        text = scrape()
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds) * 1e3, len(text)


def main() -> None:
    logs.configure_json_logging("info")
    with tempfile.TemporaryFile("w+") as lines, redirect_stdout(lines):
        found = asyncio.run(measure_variants())
        milliseconds, size = time_scrape(telemetry.prometheus_text)
    least = found["no middleware"]
    print(f"{'variant':24} {'us/request':>12} {'added':>8}")
    for name, each in found.items():
        print(f"{name:24} {each:12.1f} {each - least:8.1f}")
    print(f"scrape of one process: {milliseconds:.1f} ms, {size:,} bytes")


if __name__ == "__main__":
    main()
