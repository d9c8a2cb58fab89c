"""The outermost layer: every request gets an id, is counted, logged and traced, and whatever breaks under it ends here.

Ids go out with the answer: X-Request-ID, taken from the request where it is one, and the trace of the W3C's
traceparent. A line of the log has the template of the route and the path, never the query, a body or a token.
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
from app.api.traces import request_span, told
from app.causes import cause

METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
UNMATCHED = "unmatched"
PROBES = frozenset(("/livez", "/readyz", "/metrics"))
GONE = 499  # what proxies call an answer that nobody was there for
OFF, ON, ALL = "off", "on", "all"

_ID = re.compile(rb"[A-Za-z0-9._-]{8,64}")
_PARENT = re.compile(rb"(?!ff)([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")

log = structlog.get_logger("headroom")
_current: ContextVar[Seen | None] = ContextVar("request", default=None)


@dataclass(slots=True)
class Seen:
    """One request and what was answered."""

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
        """Its ids are those of the span that is exported."""
        own = span.get_span_context()
        self.trace_id, self.span_id = f"{own.trace_id:032x}", f"{own.span_id:016x}"
        self.flags = f"{own.trace_flags:02x}"

    @property
    def trace(self) -> str:
        """As traceparent and traceresponse tell it."""
        return f"00-{self.trace_id}-{self.span_id}-{self.flags}"

    def headers(self) -> list[tuple[bytes, bytes]]:
        """What every answer has: what names the request, and that its type is the one it says."""
        return [
            (b"x-request-id", self.request_id.encode()),
            (b"traceresponse", self.trace.encode()),
            (b"x-content-type-options", b"nosniff"),
        ]


def seen(headers: Iterable[tuple[bytes, bytes]]) -> Seen:
    """A request by its headers: an id or a trace that is none, or that is sent twice, is as if it were not there."""
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
    """Trace, span and flags of a traceparent; None where it is not one (W3C Trace Context, 3.2).

    Check:
        >>> parent_of(b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
        ('4bf92f3577b34da6a3ce929d0e0e4736', '00f067aa0ba902b7', '01')
        >>> parent_of(b"00-00000000000000000000000000000000-00f067aa0ba902b7-01") is None
        True
    """
    found = _PARENT.fullmatch(sent)
    if found is None:
        return None
    version, trace, span, flags, further = found.groups()
    if (version == b"00" and further) or not int(trace, 16) or not int(span, 16):
        return None
    return trace.decode(), span.decode(), f"{int(flags, 16) & 1:02x}"


def passed_on() -> dict[str, str]:
    """Headers of what is asked on behalf of the request that is being answered: its id, and its place in the trace."""
    request = _current.get()
    return {} if request is None else {"X-Request-ID": request.request_id, "traceparent": request.trace}


def route_of(scope: Scope) -> str:
    """The template of the path that was asked, as /recommendations/{id}; of files the folder they are served from."""
    if (route := scope.get("route")) is not None:
        return str(getattr(route, "path", UNMATCHED))
    above = scope.get("app_root_path")  # set where a path leads into a folder
    if above is not None:
        return str(scope["root_path"]).removeprefix(above)
    plain = "endpoint" in scope and not scope.get("path_params")
    return str(scope["path"]) if plain else UNMATCHED


def broke(scope: Scope, error: Exception) -> None:
    """Count what nobody expected, and tell of it in one line."""
    telemetry.broke()
    log.error("unexpected_error", route=route_of(scope), **cause(error))


def method_of(scope: Scope) -> str:
    """The method; one that nobody knows is `other`."""
    return scope["method"] if scope["method"] in METHODS else "other"


class Front:
    """Wraps the whole application."""

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
            told(
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
        """The answer of the application. What it raises is told in one line, and goes no further: where nothing was
        sent yet a problem was, and the connection stays; where an answer is left half-way the server ends it.
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
        """Count and log a request that has ended."""
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
    """Put the layer around all others, that which makes a problem of what nobody expected among them."""
    build: Any = app.build_middleware_stack
    app.build_middleware_stack = lambda: Front(build(), access_log=access_log, tracer=tracer)  # type: ignore[method-assign]
