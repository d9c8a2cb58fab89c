"""A call of a tool, made as a call of the API, and what came back: an answer, or a problem that says what to mend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx2
import orjson

from app.agents.parts import shortened
from app.agents.tools import BY_NAME, FIRST, Tool
from app.api.problems import unprocessable
from headroom_client import HeadroomError

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Told:
    """What a tool gives: a text for readers, the members of the answer for programs."""

    text: str
    content: Json
    wrong: bool = False


class Service:
    """The API, in this process or at an address."""

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self._http = http
        self._document: Json | None = None
        self._taken: dict[str, Json] = {}

    async def ready(self) -> str | None:
        """None where the service answers, else why not."""
        try:
            found = await self._http.get("/readyz")
        except httpx2.TransportError as error:
            return f"{self._http.base_url} does not answer: {error}"
        return None if found.is_success else problem_told(found).text

    async def document(self) -> Json:
        """The OpenAPI document of the service."""
        if self._document is None:
            found = await self._http.get("/openapi.json")
            self._document = found.raise_for_status().json()
        return self._document

    async def takes(self, tool: Tool) -> Json:
        """The schema of a tool's arguments."""
        if tool.name not in self._taken:
            self._taken[tool.name] = tool.takes(await self.document())
        return self._taken[tool.name]

    async def ask(self, name: str, arguments: Mapping[str, Any]) -> Told:
        """A tool's answer; a problem, also that no service answers, is told as one."""
        try:
            return await self._asked(BY_NAME[name], dict(arguments))
        except httpx2.HTTPError as error:
            detail = f"The service at {self._http.base_url} does not answer as Headroom does: {error}"
            return wrong({"type": "about:blank", "title": "Not reached", "detail": detail})

    async def _asked(self, tool: Tool, said: Json) -> Told:
        asked = said.pop("parts", [])
        known = (await self.takes(tool))["properties"]["parts"]["items"]["enum"]
        if not isinstance(asked, list) or not set(map(str, asked)) <= set(known):
            return refused("#/parts", f"A list of names is taken: {', '.join(known)}.")
        if tool.request is None:
            return await self._stored(tool, said, asked)
        if tool.name == "recommend":
            said.setdefault("limit", FIRST)
        answer = await self._http.request(tool.method, tool.path, json=said)
        return told(tool, answer, asked)

    async def _stored(self, tool: Tool, said: Json, asked: list[str]) -> Told:
        """What is stored under an id, of its options the one that is meant."""
        strange = said.keys() - {"id", "rank"}
        if strange:
            return refused(f"#/{min(strange)}", "no such field here; id, rank and parts are taken")
        rank = said.get("rank", 1)
        if not isinstance(said.get("id"), str):
            return refused("#/id", "The id of a stored answer is needed, as recommend gives it: rec_...")
        answer = await self._http.get(f"/recommendations/{quote(said['id'], safe='')}")
        if not answer.is_success:
            return told(tool, answer, asked)
        found = answer.json()
        options = [each for each in found["recommendations"] if each["rank"] == rank]
        if found["recommendations"] and not options:
            return refused("#/rank", f"The answer has ranks 1 to {len(found['recommendations'])}.")
        return given(tool, {**found, "recommendations": options}, [*asked, "explanation"])


def told(tool: Tool, answer: httpx2.Response, asked: list[str]) -> Told:
    """What came back over HTTP."""
    if not answer.is_success:
        return problem_told(answer)
    return given(tool, answer.json(), asked)


def given(tool: Tool, answer: Json, asked: list[str]) -> Told:
    """An answer, shortened to what is usual and what was asked for."""
    return Told(tool.text(answer), shortened(answer, tool.usual, asked))


def problem_told(answer: httpx2.Response) -> Told:
    """A problem document as an error: its sentence, and each place in the arguments that it points to."""
    try:
        found = answer.json()
    except ValueError:
        found = {"type": "about:blank", "title": f"HTTP {answer.status_code}", "detail": answer.text[:500]}
    return wrong(found)


def wrong(problem: Json) -> Told:
    """A problem, told."""
    error = HeadroomError(problem.get("status", 0), problem)
    lines = [f"{problem.get('title')}: {error.detail}"]
    lines += [f"{each['pointer']}: {each['detail']}" for each in error.others]
    return Told("\n".join(lines), problem, wrong=True)


def refused(pointer: str, detail: str) -> Told:
    """Arguments that are the tool's own and are not taken: the problem that the service tells of any other."""
    problem: Json = orjson.loads(unprocessable([{"pointer": pointer, "detail": detail}], 1).body)
    return wrong(problem)
