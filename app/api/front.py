"""Outermost middleware: assigns request ids, counts, logs and traces every request, and handles every unexpected error.

Each response carries X-Request-ID, taken from the request if valid, and the W3C trace context. A log line contains
the
route template and the path, never the query, a body or a token.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import structlog
from fastapi import FastAPI
from opentelemetry.trace import Span, Tracer
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app import telemetry
from app.api.traces import request_span, annotate_span
from app.causes import cause

METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
UNMATCHED = "unmatched"
PROBES = frozenset(("/livez", "/readyz", "/metrics"))
GONE = 499  # status that proxies log when the client closed the connection before the response
OFF, ON, ALL = "off", "on", "all"

_ID = re.compile(rb"[A-Za-z0-9._-]{8,64}")
_PARENT = re.compile(rb"(?!ff)([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")

log = structlog.get_logger("headroom")
_current: ContextVar[Seen | None] = ContextVar("request", default=None)


@dataclass(slots=True)
class Seen:
    """Ids, trace context and response state of one request."""

    request_id: str
    trace_id: str
    span_id: str
    flags: str
    parent: tuple[str, str, str] | None
    began: float = field(default_factory=time.perf_counter)
    status: int = 0
    sent_bytes: int = 0
    complete: bool = False

    def is_part_of(self, span: Span) -> None:
        """Takes over the ids of the span that is exported."""
        own = span.get_span_context()
        self.trace_id, self.span_id = f"{own.trace_id:032x}", f"{own.span_id:016x}"
        self.flags = f"{own.trace_flags:02x}"

    @property
    def trace(self) -> str:
        """Returns the trace context in the format of the traceparent and traceresponse headers."""
        return f"00-{self.trace_id}-{self.span_id}-{self.flags}"

    def headers(self) -> list[tuple[bytes, bytes]]:
        """Returns the headers that every response carries: request id, trace, and no content sniffing."""
        return [
            (b"x-request-id", self.request_id.encode()),
            (b"traceresponse", self.trace.encode()),
            (b"x-content-type-options", b"nosniff"),
        ]


def seen(headers: Iterable[tuple[bytes, bytes]]) -> Seen:
    """Creates the record of a request from its headers. An invalid or repeated id or traceparent is ignored."""
    ids, parents = [], []
    for name, value in headers:
        if name == b"x-request-id":
            ids.append(value)
        elif name == b"traceparent":
            parents.append(value)
    sent = ids[0].decode() if len(ids) == 1 and _ID.fullmatch(ids[0]) else None
    parent = parent_of(parents[0]) if len(parents) == 1 else None
    trace_id, _, flags = parent or (f"{random.getrandbits(128) or 1:032x}", "", "00")
    span_id = f"{random.getrandbits(64) or 1:016x}"
    return Seen(sent or f"{random.getrandbits(128):032x}", trace_id, span_id, flags, parent)


def parent_of(sent: bytes) -> tuple[str, str, str] | None:
    """Returns trace id, span id and flags of a traceparent header; None if it is invalid (W3C Trace Context, section
    3.2).

    Check:
        >>> parent_of(b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
        ('4bf92f3577b34da6a3ce929d0e0e4736', '00f067aa0ba902b7', '01')
        >>> parent_of(b"00-00000000000000000000000000000000-00f067aa0ba902b7-01") is None
        True
    """
    match = _PARENT.fullmatch(sent)
    if match is None:
        return None
    version, trace, span, flags, further = match.groups()
    if (version == b"00" and further) or not int(trace, 16) or not int(span, 16):
        return None
    return trace.decode(), span.decode(), f"{int(flags, 16) & 1:02x}"


def passed_on() -> dict[str, str]:
    """Returns the headers for outgoing calls made on behalf of the current request: its id and its trace context."""
    request = _current.get()
    return {} if request is None else {"X-Request-ID": request.request_id, "traceparent": request.trace}


def route_of(scope: Scope) -> str:
    """Returns the route template of a request, such as /recommendations/{id}, or the folder of a static file."""
    if (route := scope.get("route")) is not None:
        return str(getattr(route, "path", UNMATCHED))
    above = scope.get("app_root_path")  # set for mounted static folders
    if above is not None:
        return str(scope["root_path"]).removeprefix(above)
    plain = "endpoint" in scope and not scope.get("path_params")
    return str(scope["path"]) if plain else UNMATCHED


def broke(scope: Scope, error: Exception) -> None:
    """Counts an unexpected error and logs it in one line."""
    telemetry.broke()
    log.error("unexpected_error", route=route_of(scope), **cause(error))


def method_of(scope: Scope) -> str:
    """Returns the HTTP method, or `other` for an unknown one."""
    return scope["method"] if scope["method"] in METHODS else "other"


class Front:
    """ASGI middleware around the whole application."""

    def __init__(self, app: ASGIApp, *, access_log: str, tracer: Tracer | None = None) -> None:
        self._app, self._access_log, self._tracer = app, access_log, tracer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = seen(scope["headers"])
        if self._tracer is None or scope["path"] in PROBES:
            await self._handled(request, scope, receive, send)
            return
        with request_span(self._tracer, request.parent) as span:
            request.is_part_of(span)
            await self._handled(request, scope, receive, send)
            annotate_span(
                span,
                method=method_of(scope),
                route=route_of(scope),
                status=request.status,
                request_id=request.request_id,
            )

    async def _handled(self, request: Seen, scope: Scope, receive: Receive, send: Send) -> None:
        _current.set(request)
        scope.setdefault("state", {})["request_id"] = request.request_id
        structlog.contextvars.bind_contextvars(request_id=request.request_id, trace_id=request.trace_id)
        try:
            with telemetry.in_flight():
                await self._answered(request, scope, receive, send)
        finally:
            self._noted(request, scope)
            structlog.contextvars.unbind_contextvars("request_id", "trace_id")

    async def _answered(self, request: Seen, scope: Scope, receive: Receive, send: Send) -> None:
        """Runs the application and records status and size of the response.

        An exception that reaches this layer is logged in one line and goes no further. If no response had started,
        an error
        response was already sent and the connection stays open. If the response was cut off, the server closes the
        connection.
        """

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                request.status = message["status"]
                message = {**message, "headers": [*message.get("headers", ()), *request.headers()]}
            elif message["type"] == "http.response.body":
                request.sent_bytes += len(message.get("body", b""))
                request.complete = not message.get("more_body", False)
            await send(message)

        try:
            await self._app(scope, receive, sending)
        except ClientDisconnect:
            request.status = GONE
        except Exception as error:
            broke(scope, error)

    def _noted(self, request: Seen, scope: Scope) -> None:
        """Counts and logs a request that has ended."""
        seconds = time.perf_counter() - request.began
        method, route = method_of(scope), route_of(scope)
        request.status = request.status or GONE
        telemetry.answered(method, route, request.status, seconds)
        if self._access_log == OFF or (self._access_log == ON and route in PROBES):
            return
        log.info(
            "request",
            method=method,
            route=route,
            path=route if "{token}" in route else scope["path"][:300],
            status=request.status,
            bytes=request.sent_bytes,
            ms=round(seconds * 1000, 1),
            client=(scope.get("client") or ("",))[0],
        )


def install(app: FastAPI, *, access_log: str, tracer: Tracer | None = None) -> None:
    """Puts this layer around all others, including the one that turns unexpected errors into problem responses."""
    build: Any = app.build_middleware_stack
    app.build_middleware_stack = lambda: Front(build(), access_log=access_log, tracer=tracer)  # type: ignore[method-assign]
