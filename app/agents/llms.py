"""Serves /llms.txt and the documentation pages as Markdown, for programs that read documentation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fastapi import FastAPI
from fastapi.responses import PlainTextResponse
from starlette.exceptions import HTTPException

from app.agents.tools import TOOLS
from app.api.guide import INDEX, docs_folder, list_pages


def operation_lines(document: Mapping[str, Any]) -> Iterator[str]:
    """Markdown lines of the API's operations, grouped by tag."""
    by_tag: dict[str, list[str]] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            tag, name = operation["tags"][0], operation["operationId"]
            line = f"- [{method.upper()} {path}](/docs#/{tag}/{name}): {operation['summary']}"
            by_tag.setdefault(tag, []).append(line)
    for tag, lines in by_tag.items():
        yield from ("", f"## {tag.capitalize()}", "", *lines)


def render_llms_txt(document: Mapping[str, Any], documents: Mapping[str, str]) -> str:
    """Text of /llms.txt in the format of llmstxt.org: name, description, lists of links."""
    first, *more = document["info"]["description"].strip().split("\n\n")
    tools = ", ".join(tool.name for tool in TOOLS)
    lines = [
        f"# {document['info']['title']}",
        "",
        f"> {' '.join(first.split())}",
        "",
        *("\n\n".join(" ".join(each.split()) for each in more), ""),
        "## Ways to ask",
        "",
        f"- [/mcp](/mcp): Model Context Protocol over streamable HTTP, without sessions; tools: {tools}",
        "- [OpenAPI](/openapi.json): every operation with its fields, units and examples",
        "- [API documentation](/docs): for people, with forms to try; the page at / shows answers and charts",
    ]
    if documents:
        lines += ["", "## Documents", "", f"- [Index](/docs/{INDEX}): the question that each page answers"]
        lines += [f"- [{name}](/docs/{name}): {question}" for name, question in documents.items()]
    return "\n".join([*lines, *operation_lines(document), ""])


def install(app: FastAPI) -> None:
    """Add the routes of /llms.txt and of every page of the index."""
    where = docs_folder()
    known = list_pages((where / INDEX).read_text(encoding="utf-8")) if where else {}

    @app.get("/llms.txt", include_in_schema=False)
    def get_llms_txt() -> PlainTextResponse:
        return PlainTextResponse(render_llms_txt(app.openapi(), known))

    @app.get("/docs/{name}", include_in_schema=False)
    def get_page(name: str) -> PlainTextResponse:
        if where is None or name not in {INDEX, *known}:
            raise HTTPException(404)
        return PlainTextResponse((where / name).read_text(encoding="utf-8"), media_type="text/markdown")
