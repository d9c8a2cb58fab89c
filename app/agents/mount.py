"""The /mcp endpoint over HTTP, and tool calls as API calls. The MCP SDK is imported on the first request."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

import httpx2
import orjson
from fastapi import FastAPI
from fastapi.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.agents import llms
from app.agents.tools import BY_NAME, DEFAULT_LIMIT, Tool, describe_fields, shorten_answer
from app.api.body import JSON, read_raw
from app.api.middleware import forwarded_headers
from app.api.problems import MalformedRequest, invalid_request_response
from app.extras import import_extra
from headroom_client import HeadroomError

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ToolResult:
    """Result of a tool: text for readers, and the members of the answer for programs."""

    text: str
    content: Json
    is_error: bool = False


class Service:
    """The API, in this process or at a URL."""

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self._http = http
        self._document: Json | None = None

    async def readiness_problem(self) -> str | None:
        """None if the service is ready, else the reason why it is not."""
        try:
            response = await self._http.get("/readyz")
        except httpx2.TransportError as error:
            return f"{self._http.base_url} does not answer: {error}"
        return None if response.is_success else result_from_problem_response(response).text

    async def openapi_document(self) -> Json:
        """OpenAPI document of the service, fetched once."""
        if self._document is None:
            response = await self._http.get("/openapi.json")
            self._document = response.raise_for_status().json()
        return self._document

    async def call_tool(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Call a tool and return its result. For a problem, or an unreachable service, `is_error` is set."""
        try:
            return await self._call_api(BY_NAME[name], dict(arguments))
        except httpx2.HTTPError as error:
            detail = f"The service at {self._http.base_url} did not respond like Headroom: {error}"
            return result_from_problem({"type": "about:blank", "title": "Service not reached", "detail": detail})

    async def _call_api(self, tool: Tool, arguments: Json) -> ToolResult:
        requested = arguments.pop("parts", [])
        if not isinstance(requested, list) or not all(isinstance(part, str) for part in requested):
            return invalid_argument("#/parts", "must be a list of names.")
        if tool.arguments and (refused := refused_arguments(tool, arguments)) is not None:
            return refused
        if tool.name == "describe":
            return await self._describe(tool, arguments)
        if tool.method == "GET":
            return await self._get(tool, arguments, requested)
        body = arguments if tool.to_request is None else tool.to_request(arguments)
        if tool.path == "/recommend":
            body.setdefault("limit", DEFAULT_LIMIT)
        # As the message has them: NaN is refused by the API, which takes it in configurations, and not by httpx2.
        content, headers = json.dumps(body), {"Content-Type": JSON[0]}
        response = await self._http.request(tool.method, tool.path, content=content, headers=headers)
        return result_from_response(tool, response, requested)

    async def _describe(self, tool: Tool, arguments: Json) -> ToolResult:
        """The fields at a path of a request."""
        described, path = BY_NAME[str(arguments["tool"])], str(arguments.get("path", ""))
        found = describe_fields(await self.openapi_document(), described.request or "", path)
        if found is None:
            return invalid_argument("#/path", "no fields are there. An empty path lists the fields at the top.")
        return result_from_answer(tool, {"fields": found}, [])

    async def _get(self, tool: Tool, arguments: Json, requested: list[str]) -> ToolResult:
        """Answer of a GET call, whose arguments go into its path and query."""
        if tool.name == "explain":
            return await self._explain_stored(tool, arguments, requested)
        path = tool.path.replace("{id}", quote(str(arguments.pop("id", "")), safe=""))
        response = await self._http.get(path, params=arguments)
        return result_from_response(tool, response, requested)

    async def _explain_stored(self, tool: Tool, arguments: Json, requested: list[str]) -> ToolResult:
        """Fetch a stored answer by its id, with the option of the requested rank only."""
        rank = arguments.get("rank", 1)
        response = await self._http.get(f"/recommendations/{quote(arguments['id'], safe='')}")
        if not response.is_success:
            return result_from_response(tool, response, requested)
        answer = response.json()
        options = [each for each in answer["recommendations"] if each["rank"] == rank]
        if answer["recommendations"] and not options:
            return invalid_argument("#/rank", f"The answer has ranks 1 to {len(answer['recommendations'])}.")
        return result_from_answer(tool, {**answer, "recommendations": options}, [*requested, "explanation"])


def refused_arguments(tool: Tool, arguments: Json) -> ToolResult | None:
    """The error for an unknown, a missing or a mistyped argument of a tool; None if all are accepted."""
    unknown = arguments.keys() - tool.arguments.keys()
    if unknown:
        name, accepted = min(unknown), ", ".join(tool.arguments)
        return invalid_argument(f"#/{name}", f"Unknown field #/{name}. Accepted fields: {accepted} and parts.")
    for name in tool.required:
        if not isinstance(arguments.get(name), str):
            return invalid_argument(f"#/{name}", "required, as text.")
    for name, value in arguments.items():
        choices = tool.arguments[name].get("enum")
        if choices and value not in choices:
            return invalid_argument(f"#/{name}", f"must be one of {', '.join(choices)}.")
    return None


def result_from_response(tool: Tool, response: httpx2.Response, requested: list[str]) -> ToolResult:
    if not response.is_success:
        return result_from_problem_response(response)
    return result_from_answer(tool, response.json(), requested)


def result_from_answer(tool: Tool, answer: Json, requested: list[str]) -> ToolResult:
    """Tool result of an answer, reduced to the default members and the requested ones."""
    return ToolResult(tool.render_text(answer), shorten_answer(answer, tool.default_members, requested))


def result_from_problem_response(response: httpx2.Response) -> ToolResult:
    """Error result of a problem response; text that is not JSON becomes the detail, cut to 500 characters."""
    try:
        problem = response.json()
    except ValueError:
        problem = {"type": "about:blank", "title": f"HTTP {response.status_code}", "detail": response.text[:500]}
    return result_from_problem(problem)


def result_from_problem(problem: Json) -> ToolResult:
    """Error result of a problem document: its title and detail, then each further error with its JSON pointer."""
    error = HeadroomError(problem.get("status", 0), problem)
    lines = [f"{problem.get('title')}: {error.detail}"]
    lines += [f"{each['pointer']}: {each['detail']}" for each in error.others]
    return ToolResult("\n".join(lines), problem, is_error=True)


def invalid_argument(pointer: str, detail: str) -> ToolResult:
    """Error result for an invalid argument of the tool itself, in the form of the service's own 422 problem."""
    problem: Json = orjson.loads(invalid_request_response([{"pointer": pointer, "detail": detail}], 1).body)
    return result_from_problem(problem)


def load_server() -> Any:
    """Module with the MCP server. Raises MissingExtra if the MCP SDK is not installed."""
    return import_extra("app.agents.server", "mcp", "The Model Context Protocol")


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


# The request to /mcp on whose behalf the API is called: its scope, and what reports that its client has gone.
_outer: ContextVar[tuple[Scope, Receive] | None] = ContextVar("outer", default=None)


def on_behalf_of_caller(app: ASGIApp) -> ASGIApp:
    """The application as called by the client of the current request to /mcp: calls carry that client's address and
    key, and stop when it has gone.
    """

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        outer = _outer.get()
        if outer is None:
            await app(scope, receive, send)
            return
        outer_scope, outer_receive = outer
        unread = True

        async def receive_body_or_disconnect() -> Message:
            nonlocal unread
            if unread:
                message = await receive()
                unread = bool(message.get("more_body"))
                return message
            return await outer_receive()

        names = (b"authorization", (outer_scope["app"].state.settings.identity_header or "").lower().encode())
        inner = {
            **scope,
            "client": outer_scope.get("client"),
            "headers": [*scope["headers"], *[each for each in outer_scope["headers"] if each[0] in names]],
            "state": {"peer": outer_scope.get("state", {}).get("peer")},
        }
        await app(inner, receive_body_or_disconnect, send)

    return call


def in_process_service(app: ASGIApp) -> Service:
    """A client of the API of an application in this process."""
    transport = httpx2.ASGITransport(app=on_behalf_of_caller(app), raise_app_exceptions=False)

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
        if raw.lstrip().startswith(b"["):
            raise MalformedRequest(400, "malformed-json", "Send one message per request: batches are not accepted.")
        unread: list[Message] = [{"type": "http.request", "body": raw, "more_body": False}]

        async def replay_body() -> Message:
            return unread.pop() if unread else await receive()

        server = await self._load_server()
        token = _outer.set((scope, receive))
        try:
            await server(scope, replay_body, send)
        finally:
            _outer.reset(token)

    async def _load_server(self) -> ASGIApp:
        if self._served is None:
            module = await run_in_threadpool(load_server)
            self._served = module.OverHttp(in_process_service(self._app), self._hosts)
        return self._served


def install(app: FastAPI, *, hosts: tuple[str, ...], public_url: str | None) -> None:
    """Add /mcp and /llms.txt to the application."""
    llms.install(app)
    app.router.routes.append(Route(PATH, AgentsEndpoint(app, allowed_hosts(hosts, public_url)), methods=["POST"]))
