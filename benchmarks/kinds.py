"""The kinds of requests that measurements send to a service."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from benchmarks.load import ROOT, asked_at, body
from benchmarks.wire import Heard, heard, request

WAIT_S = 30.0


def posted(path: str, asked: object) -> bytes:
    return request(f"POST {path}", json.dumps(asked).encode())


def estimate(number: int) -> bytes:
    """A known deployment with its own traffic."""
    asked = json.loads((ROOT / "tests" / "api" / "bodies" / "estimate-llama-70b-8xh100.json").read_text())
    asked["workload"]["traffic"]["input_tokens"] = 512 + number % 1024
    return posted("/estimate", asked)


def compared(number: int) -> bytes:
    """A comparison of one question at two loads."""
    asked = json.loads(asked_at(number))
    rate = asked["workload"]["traffic"]["peak_requests_per_s"]
    twice = {"workload": {"traffic": {"peak_requests_per_s": 2 * rate}}}
    kept = {name: asked[name] for name in ("workload", "constraints", "economics") if name in asked}
    return posted("/compare", {**kept, "options": [{"name": "once"}, {"name": "twice", **twice}]})


def inspected(_: int) -> bytes:
    return posted("/catalog/models/inspect", {"model": body()["workload"]["model"]})


KINDS: dict[str, Callable[[int], bytes]] = {
    "health": lambda _: request("GET /livez"),
    "page of the catalog": lambda _: request("GET /catalog/offers?limit=50"),
    "model inspected": inspected,
    "recommendation, known": lambda _: request("POST /recommend", asked_at(1)),
    "recommendation, new": lambda number: request("POST /recommend", asked_at(number)),
    "estimate": estimate,
    "comparison of two, new": compared,
}


@dataclass
class Asked:
    """Result of a measurement: seconds per answer, and answers with a status other than 200."""

    took_s: list[float] = field(default_factory=list)
    wrong: dict[int, int] = field(default_factory=dict)
    seconds: float = 0.0


async def ask(port: int, made: Callable[[int], bytes], *, clients: int, seconds: float, first: int) -> Asked:
    """Runs clients for some seconds; each sends one request after another on a persistent connection."""
    found, began = Asked(), time.monotonic()
    numbers = iter(range(first, first + 10_000_000))

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while time.monotonic() - began < seconds:
            sent = time.monotonic()
            writer.write(made(next(numbers)))
            async with asyncio.timeout(WAIT_S):
                answer: Heard = await heard(reader)
            found.took_s.append(time.monotonic() - sent)
            if answer.status != 200:
                found.wrong[answer.status] = found.wrong.get(answer.status, 0) + 1
        writer.close()

    await asyncio.gather(*(client() for _ in range(clients)))
    found.seconds = time.monotonic() - began
    return found
