"""Middleware around every request and response: ids, logs, metrics, traces, errors, HEAD, ETag, compression and CORS.

Each response carries X-Request-ID, taken from the request if valid, and the W3C trace context. A log line contains the
route template and the path, never the query, a body or a token.
"""

from __future__ import annotations

import hashlib
import random
import re
import time
from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import structlog
from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware
from fastapi.middleware.gzip import GZipMiddleware
from opentelemetry.trace import Span, Tracer
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app import telemetry
from app.api.traces import annotate_span, request_span
from app.errors import describe_error

METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
UNMATCHED = "unmatched"
PROBES = frozenset(("/livez", "/readyz", "/metrics"))
VERSION_PREFIX = "/v1"  # optional: the paths of this version of the API are the same with and without it
CLIENT_CLOSED = 499  # status that proxies log when the client closed the connection before the response
OFF, ON, ALL = "off", "on", "all"

_ID = re.compile(rb"[A-Za-z0-9._-]{8,64}")
_PARENT = re.compile(rb"(?!ff)([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")

log = structlog.get_logger("headroom")
_current: ContextVar[RequestRecord | None] = ContextVar("request", default=None)


@dataclass(slots=True)
class RequestRecord:
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
    further_headers: dict[bytes, bytes] = field(default_factory=dict)

    def adopt_span(self, span: Span) -> None:
        """Takes over the ids of the span that is exported."""
        own = span.get_span_context()
        self.trace_id, self.span_id = f"{own.trace_id:032x}", f"{own.span_id:016x}"
        self.flags = f"{own.trace_flags:02x}"

    @property
    def traceparent(self) -> str:
        """Returns the trace context in the format of the traceparent and traceresponse headers."""
        return f"00-{self.trace_id}-{self.span_id}-{self.flags}"

    def response_headers(self) -> list[tuple[bytes, bytes]]:
        """Returns the headers of every response (request id, trace, no content sniffing) and those of this request."""
        return [
            (b"x-request-id", self.request_id.encode()),
            (b"traceresponse", self.traceparent.encode()),
            (b"x-content-type-options", b"nosniff"),
            *self.further_headers.items(),
        ]


def record_request(headers: Iterable[tuple[bytes, bytes]]) -> RequestRecord:
    """Creates the record of a request from its headers. An invalid or repeated id or traceparent is ignored."""
    ids, parents = [], []
    for name, value in headers:
        if name == b"x-request-id":
            ids.append(value)
        elif name == b"traceparent":
            parents.append(value)
    sent = ids[0].decode() if len(ids) == 1 and _ID.fullmatch(ids[0]) else None
    parent = parse_traceparent(parents[0]) if len(parents) == 1 else None
    trace_id, _, flags = parent or (f"{random.getrandbits(128) or 1:032x}", "", "00")
    span_id = f"{random.getrandbits(64) or 1:016x}"
    return RequestRecord(sent or f"{random.getrandbits(128):032x}", trace_id, span_id, flags, parent)


def parse_traceparent(sent: bytes) -> tuple[str, str, str] | None:
    """Returns trace id, span id and flags of a traceparent header; None if it is invalid (W3C Trace Context, section
    3.2).

    Check:
        >>> parse_traceparent(b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
        ('4bf92f3577b34da6a3ce929d0e0e4736', '00f067aa0ba902b7', '01')
        >>> parse_traceparent(b"00-00000000000000000000000000000000-00f067aa0ba902b7-01") is None
        True
    """
    match = _PARENT.fullmatch(sent)
    if match is None:
        return None
    version, trace, span, flags, further = match.groups()
    if (version == b"00" and further) or not int(trace, 16) or not int(span, 16):
        return None
    return trace.decode(), span.decode(), f"{int(flags, 16) & 1:02x}"


def set_response_headers(headers: dict[str, str]) -> None:
    """Sets headers of the response to the current request, whatever answers it. A later call replaces its own names."""
    if (request := _current.get()) is not None:
        request.further_headers |= {name.lower().encode(): value.encode() for name, value in headers.items()}


def forwarded_headers() -> dict[str, str]:
    """Returns the headers for outgoing calls made on behalf of the current request: its id and its trace context."""
    request = _current.get()
    return {} if request is None else {"X-Request-ID": request.request_id, "traceparent": request.traceparent}


def route_template(scope: Scope) -> str:
    """Returns the route template of a request, such as /recommendations/{id}, or the folder of a static file."""
    if (route := scope.get("route")) is not None:
        return str(getattr(route, "path", UNMATCHED))
    above = scope.get("app_root_path")  # set for mounted static folders
    if above is not None:
        return str(scope["root_path"]).removeprefix(above)
    plain = "endpoint" in scope and not scope.get("path_params")
    return str(scope["path"]) if plain else UNMATCHED


def log_unexpected_error(scope: Scope, error: Exception) -> None:
    """Counts an unexpected error and logs it in one line. If memory is short, the server replaces the process."""
    telemetry.record_unexpected_error()
    report_memory_error = scope.get("state", {}).get("report_memory_error")
    if isinstance(error, MemoryError) and report_memory_error is not None:
        report_memory_error()
    log.error("unexpected_error", route=route_template(scope), **describe_error(error))


def method_label(scope: Scope) -> str:
    """Returns the HTTP method, or `other` for an unknown one."""
    return scope["method"] if scope["method"] in METHODS else "other"


def without_version(scope: Scope) -> Scope:
    """Returns the scope of a request to /v1/path as that of a request to /path. Other scopes are returned unchanged."""
    if not scope["path"].startswith(f"{VERSION_PREFIX}/"):
        return scope
    raw = scope.get("raw_path")
    plain = {"path": scope["path"].removeprefix(VERSION_PREFIX)}
    if raw is not None:
        plain["raw_path"] = raw.removeprefix(VERSION_PREFIX.encode())
    return {**scope, **plain}


class RequestMiddleware:
    """ASGI middleware around the whole application."""

    def __init__(self, app: ASGIApp, *, access_log: str, tracer: Tracer | None = None) -> None:
        self._app, self._access_log, self._tracer = app, access_log, tracer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope = without_version(scope)
        request = record_request(scope["headers"])
        if self._tracer is None or scope["path"] in PROBES:
            await self._handle_request(request, scope, receive, send)
            return
        with request_span(self._tracer, request.parent) as span:
            request.adopt_span(span)
            await self._handle_request(request, scope, receive, send)
            annotate_span(
                span,
                method=method_label(scope),
                route=route_template(scope),
                status=request.status,
                request_id=request.request_id,
            )

    async def _handle_request(self, request: RequestRecord, scope: Scope, receive: Receive, send: Send) -> None:
        _current.set(request)
        scope.setdefault("state", {})["request_id"] = request.request_id
        structlog.contextvars.bind_contextvars(request_id=request.request_id, trace_id=request.trace_id)
        try:
            with telemetry.in_flight():
                await self._run_application(request, scope, receive, send)
        finally:
            self._log_request(request, scope)
            structlog.contextvars.unbind_contextvars("request_id", "trace_id")

    async def _run_application(self, request: RequestRecord, scope: Scope, receive: Receive, send: Send) -> None:
        """Runs the application and records status and size of the response.

        An exception that reaches this layer is logged in one line and goes no further. If no response had started, an
        error response was already sent and the connection stays open. If the response was cut off, the server closes
        the connection.
        """

        async def record_and_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                request.status = message["status"]
                message = {**message, "headers": [*message.get("headers", ()), *request.response_headers()]}
            elif message["type"] == "http.response.body":
                request.sent_bytes += len(message.get("body", b""))
                request.complete = not message.get("more_body", False)
            await send(message)

        try:
            await self._app(scope, receive, record_and_send)
        except ClientDisconnect:
            request.status = CLIENT_CLOSED
        except Exception as error:
            log_unexpected_error(scope, error)

    def _log_request(self, request: RequestRecord, scope: Scope) -> None:
        """Counts and logs a request that has ended."""
        seconds = time.perf_counter() - request.began
        method, route = method_label(scope), route_template(scope)
        request.status = request.status or CLIENT_CLOSED
        telemetry.record_request(method, route, request.status, seconds)
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


def install_request_middleware(app: FastAPI, *, access_log: str, tracer: Tracer | None = None) -> None:
    """Puts this layer around all others, including the one that turns unexpected errors into problem responses."""
    build: Any = app.build_middleware_stack
    app.build_middleware_stack = lambda: RequestMiddleware(build(), access_log=access_log, tracer=tracer)  # type: ignore[method-assign]


COMPRESSION = 4  # gzip level
EXPOSED = (
    "ETag",
    "Location",
    "RateLimit",
    "RateLimit-Policy",
    "Retry-After",
    "X-Request-ID",
)  # headers that pages of other origins may read
OF_A_BODY = ("content-length", "content-type", "content-encoding")


class HeadAsGet:
    """Answers HEAD like GET, without the body."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return

        async def send_without_body(message: Message) -> None:
            await send({**message, "body": b""} if message["type"] == "http.response.body" else message)

        asked = {**scope, "method": "GET"}
        try:
            await self._app(asked, receive, send_without_body)
        finally:
            scope.update({**asked, "method": "HEAD"})  # includes the matched route


class ConditionalGet:
    """Adds an ETag to GET responses and answers 304 if the client already has this version."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            known = Headers(scope=scope).get("if-none-match", "") if scope["method"] == "GET" else None
            send = ConditionalResponse(send, known)
        await self._app(scope, receive, send)


class ConditionalResponse:
    """One response. Its start is delayed until the first part of the body is available for the ETag.

    `known` are the ETags that the client sent; None if the method is not GET.
    """

    def __init__(self, send: Send, known: str | None) -> None:
        self._send, self._known = send, known
        self._start: Message | None = None
        self._same = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._start = message
            return
        if self._start is not None:
            start, self._start = self._start, None
            if self._known is not None and start["status"] == 200:
                self._same = self._is_known(MutableHeaders(raw=start["headers"]), message)
            if self._same:
                start["status"] = 304
            await self._send(start)
        await self._send({**message, "body": b""} if self._same else message)

    def _is_known(self, headers: MutableHeaders, first: Message) -> bool:
        """True if the client already has this version. The headers then become those of a 304."""
        if "etag" not in headers:
            if first.get("more_body") or "no-store" in headers.get("cache-control", ""):
                return False
            headers["ETag"] = f'W/"{hashlib.sha256(first.get("body", b"")).hexdigest()[:24]}"'
        known = [tag.strip().removeprefix("W/") for tag in (self._known or "").split(",")]
        if headers["etag"].removeprefix("W/") not in known and known != ["*"]:
            return False
        for name in OF_A_BODY:
            del headers[name]
        return True


def install_response_middleware(app: FastAPI, origins: Sequence[str], compress_from_bytes: int) -> None:
    """Compresses responses of at least `compress_from_bytes`, and allows CORS calls from `origins`."""
    app.add_middleware(ConditionalGet)  # innermost: the ETag is that of the uncompressed body
    app.add_middleware(GZipMiddleware, minimum_size=compress_from_bytes, compresslevel=COMPRESSION)
    if origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=["GET", "POST", "PATCH", "DELETE"],
            allow_headers=["*"],
            expose_headers=EXPOSED,
        )
    app.add_middleware(HeadAsGet)
