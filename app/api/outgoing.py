"""Middleware for responses: HEAD, ETag, compression and CORS."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware
from fastapi.middleware.gzip import GZipMiddleware
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COMPRESSION = 4  # gzip level
EXPOSED = ("ETag", "Location", "Retry-After", "X-Request-ID")  # headers that pages of other origins may read
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


def install(app: FastAPI, origins: Sequence[str], compress_from_bytes: int) -> None:
    """Compresses responses of at least `compress_from_bytes` for clients that accept gzip, and allows CORS calls from
    `origins`.
    """
    app.add_middleware(ConditionalGet)  # innermost: the ETag is that of the uncompressed body
    app.add_middleware(GZipMiddleware, minimum_size=compress_from_bytes, compresslevel=COMPRESSION)
    if origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=["GET", "POST", "PATCH"],
            allow_headers=["*"],
            expose_headers=EXPOSED,
        )
    app.add_middleware(HeadAsGet)
