"""The /mcp endpoint: MCP tools over HTTP. The MCP SDK is imported on the first request."""

from __future__ import annotations

from importlib import import_module
from urllib.parse import urlsplit

import httpx2
from fastapi import FastAPI
from fastapi.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.agents import llms
from app.agents.asking import Service
from app.api.body import JSON, read_raw
from app.api.front import forwarded_headers

PATH = "/mcp"
OWN_HOSTS = ("localhost", "127.0.0.1", "[::1]")
ENVELOPE_BYTES = 4096  # size allowed for the MCP message around a tool's arguments


def allowed_hosts(hosts: tuple[str, ...], public_url: str | None) -> tuple[str, ...]:
    """Host names under which clients may call this service.

    Check:
        >>> allowed_hosts(("a.example",), "https://b.example/headroom")
        ('localhost', '127.0.0.1', '[::1]', 'a.example', 'b.example')
    """
    public = urlsplit(public_url or "").hostname
    return (*OWN_HOSTS, *hosts, *([public] if public else []))


def in_process_service(app: ASGIApp) -> Service:
    """A client of the API of an application in this process."""
    transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)

    async def forward_headers(request: httpx2.Request) -> None:
        request.headers.update(forwarded_headers())

    return Service(
        httpx2.AsyncClient(transport=transport, base_url="http://localhost", event_hooks={"request": [forward_headers]})
    )


class AgentsEndpoint:
    """ASGI endpoint for POST /mcp. It reads a message under the same time and size limits as any request body."""

    def __init__(self, app: FastAPI, hosts: tuple[str, ...]) -> None:
        self._app, self._hosts = app, hosts
        self._served: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        limit = self._app.state.settings.max_body_bytes + ENVELOPE_BYTES
        raw = await read_raw(Request(scope, receive), JSON, limit)
        unread: list[Message] = [{"type": "http.request", "body": raw, "more_body": False}]

        async def replay_body() -> Message:
            return unread.pop() if unread else await receive()

        await (await self._load_server())(scope, replay_body, send)

    async def _load_server(self) -> ASGIApp:
        if self._served is None:
            module = await run_in_threadpool(import_module, "app.agents.server")
            self._served = module.OverHttp(in_process_service(self._app), self._hosts)
        return self._served


def install(app: FastAPI, *, hosts: tuple[str, ...], public_url: str | None) -> None:
    """Add /mcp and /llms.txt to the application."""
    llms.install(app)
    app.router.routes.append(Route(PATH, AgentsEndpoint(app, allowed_hosts(hosts, public_url)), methods=["POST"]))
