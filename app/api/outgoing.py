"""What every answer passes on its way out: HEAD, ETag, compression, and leave for pages of other origins to read it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware
from fastapi.middleware.gzip import GZipMiddleware
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COMPRESSION = 4  # of gzip
EXPOSED = ("ETag", "Location", "Retry-After", "X-Request-ID")  # what a page of another origin may read beside the body
OF_A_BODY = ("content-length", "content-type", "content-encoding")


class Headed:
    """HEAD is asked like GET; the body is left out."""

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
            scope.update({**asked, "method": "HEAD"})  # with the route that was found


class Conditional:
    """What is read has an ETag, and is not sent to who has it already."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            known = Headers(scope=scope).get("if-none-match", "") if scope["method"] == "GET" else None
            send = Answer(send, known)
        await self._app(scope, receive, send)


class Answer:
    """One answer: its beginning waits for the body that its ETag is made of, where it comes whole.

    `known` are the ETags that the client has; None where none is asked for.
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
        """Whether the client has this; its headers are then those of a 304."""
        if "etag" not in headers:
            if first.get("more_body") or "no-store" in headers.get("cache-control", ""):
                return False
            headers["ETag"] = f'W/"{hashlib.sha256(first.get("body", b"")).hexdigest()[:24]}"'
        told = [tag.strip().removeprefix("W/") for tag in (self._known or "").split(",")]
        if headers["etag"].removeprefix("W/") not in told and told != ["*"]:
            return False
        for name in OF_A_BODY:
            del headers[name]
        return True


def install(app: FastAPI, origins: Sequence[str], compress_from_bytes: int) -> None:
    """Compress answers of at least so many bytes for clients that take gzip; let pages of these origins call."""
    app.add_middleware(Conditional)  # an ETag is of what is not compressed yet
    app.add_middleware(GZipMiddleware, minimum_size=compress_from_bytes, compresslevel=COMPRESSION)
    if origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=["GET", "POST", "PATCH"],
            allow_headers=["*"],
            expose_headers=EXPOSED,
        )
    app.add_middleware(Headed)
