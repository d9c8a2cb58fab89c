"""The kinds of requests that measurements send to a service."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from benchmarks.load import ROOT, chat_request, varied_chat_request
from benchmarks.wire import HttpAnswer, read_answer, request_bytes

WAIT_S = 30.0
RANKED_TYPES = ["gh200-96gb", "h100-nvl", "h200-nvl", "h200-sxm", "b200-sxm"]  # of the 70B chat request


def post_request(path: str, asked: object) -> bytes:
    return request_bytes(f"POST {path}", json.dumps(asked).encode())


def estimate_request(number: int) -> bytes:
    """A known deployment with its own traffic."""
    asked = json.loads((ROOT / "tests" / "api" / "bodies" / "estimate-llama-70b-8xh100.json").read_text())
    asked["workload"]["traffic"]["input_tokens"] = 512 + number % 1024
    return post_request("/estimate", asked)


def comparison_request(number: int) -> bytes:
    """A comparison of one question at two loads."""
    asked = json.loads(varied_chat_request(number))
    rate = asked["workload"]["traffic"]["peak_requests_per_s"]
    twice = {"workload": {"traffic": {"peak_requests_per_s": 2 * rate}}}
    kept = {name: asked[name] for name in ("workload", "constraints", "economics") if name in asked}
    return post_request("/compare", {**kept, "options": [{"name": "once"}, {"name": "twice", **twice}]})


def slider_request(number: int) -> bytes:
    """What the page requests while a slider moves: a preview, of five types of the answer before."""
    asked = json.loads(varied_chat_request(number))
    among = {**asked.get("constraints", {}), "accelerators": RANKED_TYPES}
    preview = {**asked, "constraints": among, "limit": 1, "rejected_limit": 0, "include": []}
    return post_request("/recommend?store=false", preview)


def inspection_request(_: int) -> bytes:
    return post_request("/catalog/models/inspect", {"model": chat_request()["workload"]["model"]})


KINDS: dict[str, Callable[[int], bytes]] = {
    "health": lambda _: request_bytes("GET /livez"),
    "page of the catalog": lambda _: request_bytes("GET /catalog/offers?limit=50"),
    "model inspected": inspection_request,
    "recommendation, known": lambda _: request_bytes("POST /recommend", varied_chat_request(1)),
    "recommendation, new": lambda number: request_bytes("POST /recommend", varied_chat_request(number)),
    "slider of the page, new": slider_request,
    "estimate": estimate_request,
    "comparison of two, new": comparison_request,
}


@dataclass
class Measurement:
    """Result of a measurement: seconds per answer, and answers with a status other than 200."""

    took_s: list[float] = field(default_factory=list)
    wrong: dict[int, int] = field(default_factory=dict)
    seconds: float = 0.0


async def run_clients(
    port: int, made: Callable[[int], bytes], *, clients: int, seconds: float, first: int
) -> Measurement:
    """Runs clients for some seconds; each sends one request after another on a persistent connection."""
    found, began = Measurement(), time.monotonic()
    numbers = iter(range(first, first + 10_000_000))

    async def run_client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while time.monotonic() - began < seconds:
            sent = time.monotonic()
            writer.write(made(next(numbers)))
            async with asyncio.timeout(WAIT_S):
                answer: HttpAnswer = await read_answer(reader)
            found.took_s.append(time.monotonic() - sent)
            if answer.status != 200:
                found.wrong[answer.status] = found.wrong.get(answer.status, 0) + 1
        writer.close()

    await asyncio.gather(*(run_client() for _ in range(clients)))
    found.seconds = time.monotonic() - began
    return found
