"""The MCP server, built on the MCP SDK. Other modules import it on first use, because the import takes time and
memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from starlette.types import Receive, Scope, Send

from app.agents.mount import Service
from app.agents.tools import BY_NAME, INSTRUCTIONS, TOOLS, Tool


def make_tool(tool: Tool, document: Mapping[str, Any]) -> types.Tool:
    """A tool as MCP clients list it. One that only reads cannot destroy, and repeating it changes nothing."""
    writing = {"destructive_hint": False, "idempotent_hint": True} if tool.stores_answer else {}
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.input_schema(document),
        output_schema=tool.output_schema(document),
        annotations=types.ToolAnnotations(read_only_hint=not tool.stores_answer, **writing),
    )


def make_server(service: Service) -> Server[Any]:
    """An MCP server whose tools call a service."""
    listed: list[types.Tool] = []

    async def list_tools(_: Any, __: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        if not listed:
            document = await service.openapi_document()
            listed[:] = [make_tool(tool, document) for tool in TOOLS]
        return types.ListToolsResult(tools=listed)

    async def call_tool(_: Any, call: types.CallToolRequestParams) -> types.CallToolResult:
        if call.name not in BY_NAME:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool. Available tools: {', '.join(BY_NAME)}.")
        result = await service.call_tool(call.name, call.arguments or {})
        text = types.TextContent(type="text", text=result.text)
        return types.CallToolResult(content=[text], structured_content=result.content, is_error=result.is_error)

    return Server(
        "headroom",
        title="Headroom",
        version=version("headroom"),
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


ANY_HOST = "*"


def transport_security(hosts: tuple[str, ...]) -> TransportSecuritySettings:
    """Protection against DNS rebinding: Host and Origin must name one of these hosts, on any port; "*" is any host."""
    origins = [f"{scheme}://{host}" for scheme in ("http", "https") for host in hosts]
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=ANY_HOST not in hosts,
        allowed_hosts=[*hosts, *(f"{host}:*" for host in hosts)],
        allowed_origins=[*origins, *(f"{origin}:*" for origin in origins)],
    )


class OverHttp:
    """Serves MCP over HTTP without sessions, so any worker process can answer any request."""

    def __init__(self, service: Service, hosts: tuple[str, ...]) -> None:
        self._server, self._guard = make_server(service), transport_security(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        manager = StreamableHTTPSessionManager(
            self._server, json_response=True, stateless=True, security_settings=self._guard
        )
        async with manager.run():
            await manager.handle_request(scope, receive, send)


async def on_standard_input(service: Service) -> None:
    """Serve one client on standard input and output until it closes the stream."""
    server = make_server(service)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())
