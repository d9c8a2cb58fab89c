"""The `mcp` command: MCP tools on standard input and output, as MCP clients start them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Annotated

import httpx2
import typer

from app.agents.asking import Service
from app.agents.mount import in_process_service
from app.command.reach import UNPREPARED, Exit, load_settings, logs_to_stderr
from app.main import create_app

TIMEOUT_S = 120.0


def mcp(
    url: Annotated[
        str | None,
        typer.Option(
            "--url", envvar="HEADROOM_URL", help="URL of a Headroom service. Default: answer in this process."
        ),
    ] = None,
) -> None:
    """Serve the tools for agents (Model Context Protocol) on standard input and output."""
    with logs_to_stderr():  # standard output carries protocol messages only
        asyncio.run(serve_client(url))


async def serve_client(url: str | None) -> None:
    """Serve one client after checking that the service is ready."""
    async with open_service(url) as service:
        problem = await service.readiness_problem()
        if problem is not None:
            typer.echo(UNPREPARED if url is None else problem, err=True)
            raise typer.Exit(Exit.FAILED)
        await import_module("app.agents.server").on_standard_input(service)


@asynccontextmanager
async def open_service(url: str | None) -> AsyncIterator[Service]:
    """The service at a URL, or one in this process if there is no URL."""
    if url is not None:
        async with httpx2.AsyncClient(base_url=url, timeout=TIMEOUT_S) as http:
            yield Service(http)
        return
    app = create_app(load_settings())
    async with app.router.lifespan_context(app):
        yield in_process_service(app)
