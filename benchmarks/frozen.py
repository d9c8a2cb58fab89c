"""`python -m benchmarks.frozen`: stops every process of a PostgreSQL server (SIGSTOP) for a while under a service.

During and after the stop, one client per kind of request sends one request at a time. `longest_ms` is the longest
answer of a request sent during the stop. `back_s` is the time from the restart of the database until a kind is answered
as before.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.databases import prepare_database
from benchmarks.load import ROOT, varied_chat_request
from benchmarks.overload import timed_exchange
from benchmarks.served import ServiceProcess

BODIES = ROOT / "tests" / "api" / "bodies"
QUIET_S, AFTER_S, GIVE_UP_S = 5.0, 8.0, 60.0


@dataclass
class Client:
    """A client that repeats one kind of request; `right` states whether an answer is as in normal operation."""

    name: str
    made: Callable[[int], tuple[str, bytes]]
    pause_s: float
    # (time sent, seconds, status, whether the answer is as in normal operation)
    seen: list[tuple[float, float, int, bool]] = field(default_factory=list)

    async def ask_repeatedly(self, port: int, until: Callable[[], bool]) -> None:
        number = int(time.monotonic())
        while not until():
            number += 1
            line, body = self.made(number)
            head = f"{line} HTTP/1.1\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
            sent = time.monotonic()
            try:
                async with asyncio.timeout(GIVE_UP_S):
                    status, headers, took = await timed_exchange(port, head, body)
            except (OSError, TimeoutError, asyncio.IncompleteReadError):
                status, headers, took = 0, {}, GIVE_UP_S
            self.seen.append((sent, took, status, status == 200 and "headroom-stored" not in headers))
            await asyncio.sleep(self.pause_s)

    def figures(self, begin: float, end: float) -> dict[str, Any]:
        """The answers to requests sent between two moments, and the seconds until normal operation after them."""
        sent = [s for s in self.seen if begin <= s[0] < end]
        before = [s[1] for s in self.seen if s[0] < begin - 1]
        kinds = Counter("200" if s[3] else "200 not stored" if s[2] == 200 else str(s[2]) for s in sent)
        wrong = [s[0] + s[1] for s in self.seen if s[0] >= begin and not s[3]]
        since = max(wrong, default=end)
        back = next((s[0] + s[1] - end for s in self.seen if s[3] and s[0] + s[1] >= max(end, since)), None)
        return {
            "before_ms": round(max(before, default=0.0) * 1e3),
            "longest_ms": round(max((s[1] for s in sent), default=0.0) * 1e3),
            "back_s": None if back is None else round(max(back, 0.0), 1),
            "answers": dict(kinds),
        }


def make_clients(stored: str) -> list[Client]:
    """Clients for a known question, a new one, an estimate, health, a list, a status, and a stored answer."""
    estimate = (BODIES / "estimate-llama-70b-8xh100.json").read_bytes()
    return [
        Client("/livez", lambda _: ("GET /livez", b""), 0.05),
        Client("known question", lambda _: ("POST /recommend", varied_chat_request(1)), 0.2),
        Client("new question", lambda number: ("POST /recommend", varied_chat_request(number)), 0.5),
        Client("/estimate", lambda _: ("POST /estimate", estimate), 0.2),
        Client("list", lambda number: (f"GET /catalog/systems?limit={number % 300 + 1}", b""), 0.2),
        Client("status", lambda _: (f"GET /recommendations/{stored}/status", b""), 0.2),
        Client("stored answer", lambda _: (f"GET /recommendations/{stored}", b""), 0.2),
    ]


def database_processes(data: Path) -> list[int]:
    """IDs of the database's main process and of its child processes."""
    first = int((data / "postmaster.pid").read_text().split()[0])
    stats = {p: p.read_text().rsplit(")", 1)[1].split() for p in Path("/proc").glob("[0-9]*/stat") if p.exists()}
    return [first, *(int(p.parent.name) for p, stat in stats.items() if int(stat[1]) == first)]


async def watch_outage(
    server: ServiceProcess, found: list[Client], during: Callable[[], Awaitable[None]]
) -> tuple[float, float]:
    """(begin, end) of the outage, while all clients send requests."""
    over = False
    asking = [asyncio.create_task(client.ask_repeatedly(server.port, lambda: over)) for client in found]
    await asyncio.sleep(QUIET_S)
    begin = time.monotonic()
    await during()
    end = time.monotonic()
    await asyncio.sleep(AFTER_S)
    over = True
    await asyncio.gather(*asking)
    return begin, end


async def stored_id(port: int) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    raw = varied_chat_request(1)
    head = f"POST /recommend HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {len(raw)}\r\n"
    writer.write(head.encode() + b"content-type: application/json\r\n\r\n" + raw)
    answer = (await reader.read()).split(b"\r\n\r\n", 1)[1]
    writer.close()
    return str(json.loads(answer)["id"])


async def measure_outage(server: ServiceProcess, during: Callable[[], Awaitable[None]]) -> dict[str, Any]:
    """Figures of each kind of request, and the memory of the service before and after."""
    found, before = make_clients(await stored_id(server.port)), server.rss_mib()
    begin, end = await watch_outage(server, found, during)
    kinds = {client.name: client.figures(begin, end) for client in found}
    return {"seconds": round(end - begin), "mib": [round(before), round(server.rss_mib())], "kinds": kinds}


def measure_frozen(*, workers: int = 1, seconds: float = 30.0) -> dict[str, Any]:
    """Freezes PostgreSQL under a service for some seconds."""
    with ExitStack() as stack:
        environment, data = stack.enter_context(prepare_database("postgresql"))
        server = ServiceProcess("here", ROOT, environment, workers=workers)
        stack.callback(server.close)

        async def freeze_database() -> None:
            stopped = database_processes(data)
            for process in stopped:
                os.kill(process, signal.SIGSTOP)
            try:
                await asyncio.sleep(seconds)
            finally:
                for process in stopped:
                    os.kill(process, signal.SIGCONT)

        return asyncio.run(measure_outage(server, freeze_database))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.frozen", description=__doc__)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=30.0)
    options = parser.parse_args()
    print(json.dumps(measure_frozen(workers=options.workers, seconds=options.seconds), indent=1))


if __name__ == "__main__":
    main()
