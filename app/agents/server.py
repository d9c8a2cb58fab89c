"""The server of the Model Context Protocol, on the SDK: imported when somebody asks, as it costs time and memory."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from starlette.types import Receive, Scope, Send

from app.agents.asking import Service
from app.agents.tools import BY_NAME, INSTRUCTIONS, TOOLS, Tool


def described(tool: Tool, takes: dict[str, Any]) -> types.Tool:
    """A tool as clients list it."""
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=takes,
        annotations=types.ToolAnnotations(
            read_only_hint=not tool.keeps, destructive_hint=False, idempotent_hint=True, open_world_hint=False
        ),
    )


def server_of(service: Service) -> Server[Any]:
    """A server whose tools ask a service."""

    async def listed(_: Any, __: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[described(tool, await service.takes(tool)) for tool in TOOLS])

    async def called(_: Any, asked: types.CallToolRequestParams) -> types.CallToolResult:
        if asked.name not in BY_NAME:
            raise MCPError(types.INVALID_PARAMS, f"No tool of that name; there are {', '.join(BY_NAME)}.")
        told = await service.ask(asked.name, asked.arguments or {})
        text = types.TextContent(type="text", text=told.text)
        return types.CallToolResult(content=[text], structured_content=told.content, is_error=told.wrong)

    return Server(
        "headroom",
        title="Headroom",
        version=version("headroom"),
        instructions=INSTRUCTIONS,
        on_list_tools=listed,
        on_call_tool=called,
    )


ANY_HOST = "*"


def guarded_by(hosts: tuple[str, ...]) -> TransportSecuritySettings:
    """Which hosts a request may name, on any port: a page that has its own name point here is refused."""
    origins = [f"{scheme}://{host}" for scheme in ("http", "https") for host in hosts]
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=ANY_HOST not in hosts,
        allowed_hosts=[*hosts, *(f"{host}:*" for host in hosts)],
        allowed_origins=[*origins, *(f"{origin}:*" for origin in origins)],
    )


class OverHttp:
    """The server on requests of HTTP: none knows of another, so any process of a service answers any of them."""

    def __init__(self, service: Service, hosts: tuple[str, ...]) -> None:
        self._server, self._guard = server_of(service), guarded_by(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        manager = StreamableHTTPSessionManager(
            self._server, json_response=True, stateless=True, security_settings=self._guard
        )
        async with manager.run():
            await manager.handle_request(scope, receive, send)


async def on_standard_input(service: Service) -> None:
    """Serve one client until it closes its end."""
    server = server_of(service)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())
