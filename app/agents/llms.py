"""/llms.txt and the documents as Markdown: what a program that reads finds here, from what there is."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.responses import PlainTextResponse
from starlette.exceptions import HTTPException

from app.agents.tools import TOOLS

# Beside the code, or where an installation puts them.
FOLDERS = (Path(__file__).parents[2] / "docs", Path(sys.prefix) / "share" / "headroom" / "docs")
INDEX = "README.md"
LINK = re.compile(r"\[([^\]]+)\]\((\w+\.md)\)(?: \| (.+) \|)?")


def folder() -> Path | None:
    """Where the documents are; None where they were not installed."""
    return next((path for path in FOLDERS if (path / INDEX).exists()), None)


def pages(index: str) -> dict[str, str]:
    """The documents of the index, each with the question that it answers, else with what the index calls it.

    Check:
        >>> pages("| [cli.md](cli.md) | How do I ask from a shell? |")
        {'cli.md': 'How do I ask from a shell?'}
    """
    return {name: question or called for called, name, question in LINK.findall(index)}


def calls(document: Mapping[str, Any]) -> Iterator[str]:
    """The calls of the API by what they are about."""
    by_tag: dict[str, list[str]] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            tag, name = operation["tags"][0], operation["operationId"]
            line = f"- [{method.upper()} {path}](/docs#/{tag}/{name}): {operation['summary']}"
            by_tag.setdefault(tag, []).append(line)
    for tag, lines in by_tag.items():
        yield from ("", f"## {tag.capitalize()}", "", *lines)


def told(document: Mapping[str, Any], documents: Mapping[str, str]) -> str:
    """The text of /llms.txt, after llmstxt.org: a name, what it is, lists of links."""
    what, *more = document["info"]["description"].strip().split("\n\n")
    tools = ", ".join(tool.name for tool in TOOLS)
    lines = [
        f"# {document['info']['title']}",
        "",
        f"> {' '.join(what.split())}",
        "",
        *("\n\n".join(" ".join(each.split()) for each in more), ""),
        "## Ask",
        "",
        f"- [/mcp](/mcp): the Model Context Protocol over streamable HTTP, without sessions; tools {tools}",
        "- [OpenAPI](/openapi.json): every call with its fields, units and examples",
        "- [Try it](/docs): the same for people; the page at / asks and draws",
    ]
    if documents:
        lines += ["", "## Documents", "", f"- [Index](/docs/{INDEX}): which page answers which question"]
        lines += [f"- [{name}](/docs/{name}): {question}" for name, question in documents.items()]
    return "\n".join([*lines, *calls(document), ""])


def install(app: FastAPI) -> None:
    """Serve /llms.txt and each document of the index."""
    where = folder()
    known = pages((where / INDEX).read_text(encoding="utf-8")) if where else {}

    @app.get("/llms.txt", include_in_schema=False)
    def llms() -> PlainTextResponse:
        return PlainTextResponse(told(app.openapi(), known))

    @app.get("/docs/{name}", include_in_schema=False)
    def page(name: str) -> PlainTextResponse:
        if where is None or name not in {INDEX, *known}:
            raise HTTPException(404)
        return PlainTextResponse((where / name).read_text(encoding="utf-8"), media_type="text/markdown")
