"""`python -m benchmarks.overload`: far more is asked than can be computed; what is answered, how soon the rest is told.

The best goodput is that of a few busy connections. Then requests are sent at a multiple of it, whether or not those
before were answered, as many clients do that know nothing of one another, while /livez is asked twenty times a second.
Each request asks at another electricity price, so none is answered from the store. As a program with an address it is
one of the clients, in a process of its own, and prints JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.load import ROOT, asked_at
from benchmarks.served import Served

NOBODY_S = 30.0  # after which a client gives up
PROBES_PER_S = 20.0


async def exchange(port: int, head: str, body: bytes = b"") -> tuple[int, dict[str, str], float]:
    """Status, headers and seconds of one request on a connection of its own."""
    sent = time.perf_counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(head.encode() + b"host: x\r\nconnection: close\r\n\r\n" + body)
        status, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        await reader.read()
    finally:
        writer.close()
    headers = dict(line.lower().split(": ", 1) for line in lines if ": " in line)
    return int(status.split()[1]), headers, time.perf_counter() - sent


async def flood(port: int, rate_per_s: float, seconds: float, first: int) -> list[dict[str, Any]]:
    """Requests at a rate, answered or not."""
    found: list[dict[str, Any]] = []

    async def one(number: int) -> None:
        raw = asked_at(number)
        head = f"POST /recommend HTTP/1.1\r\ncontent-type: application/json\r\ncontent-length: {len(raw)}\r\n"
        try:
            async with asyncio.timeout(NOBODY_S):
                status, headers, took = await exchange(port, head, raw)
            found.append({"status": status, "s": took, "again": "retry-after" in headers})
        except (OSError, TimeoutError, asyncio.IncompleteReadError, IndexError):
            found.append({"status": 0, "s": NOBODY_S, "again": False})

    start, tasks = time.perf_counter(), []
    for i in range(int(rate_per_s * seconds)):
        await asyncio.sleep(max(0.0, start + i / rate_per_s - time.perf_counter()))
        tasks.append(asyncio.create_task(one(first + i)))
    await asyncio.gather(*tasks)
    return found


async def probe(port: int, path: str, seconds: float) -> list[float]:
    """Seconds that each look at a path took."""
    took, start = [], time.perf_counter()
    while time.perf_counter() - start < seconds:
        status, _, s = await exchange(port, f"GET {path} HTTP/1.1\r\n")
        took.append(s if status == 200 else NOBODY_S)
        await asyncio.sleep(1 / PROBES_PER_S)
    return took


def at(took: list[float], share: float) -> float:
    """A percentile, in milliseconds."""
    return sorted(took)[min(len(took) - 1, int(share * len(took)))] * 1e3 if took else float("nan")


def client(*words: object) -> subprocess.Popen[str]:
    """A client in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.overload", *(str(w) for w in words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)


def told(process: subprocess.Popen[str]) -> Any:
    return json.loads(process.communicate()[0])


def print_overload(server: Served, times: float, seconds: float) -> None:
    """Goodput before, during and after."""
    told(client("flood", server.port, 5, 3, 1_000_000))  # warm-up
    best = max(goodput(server, in_flight, 6.0) for in_flight in (2, 4))
    quiet = told(client("probe", server.port, 3))
    print(f"{server.workers} worker(s): best goodput {best:.1f} requests/s, /livez p99 {at(quiet, 0.99):.0f} ms idle")
    before = server.rss_mib()
    flooding = client("flood", server.port, best * times, seconds, 2_000_000)
    probing = client("probe", server.port, seconds)
    found, livez = told(flooding), told(probing)
    taken = [f["s"] for f in found if f["status"] == 200]
    refused = [f for f in found if f["status"] in (429, 503)]
    others = Counter(f["status"] for f in found if f["status"] not in (200, 429, 503))
    print(f"{times:.0f} times as much for {seconds:.0f} s: {len(found)} requests")
    print(f"  answered {len(taken) / seconds:.1f}/s, {len(taken) / seconds / best:.0%} of the best;", end=" ")
    print(f"p50 {at(taken, 0.5):.0f} ms, p99 {at(taken, 0.99):.0f} ms")
    slowest = [f["s"] for f in refused]
    print(f"  refused {len(refused)}, all with Retry-After: {all(f['again'] for f in refused)};", end=" ")
    print(f"p50 {at(slowest, 0.5):.0f} ms, p99 {at(slowest, 0.99):.0f} ms, slowest {at(slowest, 1.0):.0f} ms")
    print(f"  anything else: {dict(others)}; memory {before:.0f} to {server.rss_mib():.0f} MiB")
    print(f"  /livez p50 {at(livez, 0.5):.0f} ms, p99 {at(livez, 0.99):.0f} ms, slowest {at(livez, 1.0):.0f} ms")
    began = time.perf_counter()
    alone = told(client("flood", server.port, 1, 3, 3_000_000))
    print(
        f"right after: {Counter(f['status'] for f in alone)}, slowest {at([f['s'] for f in alone], 1.0):.0f} ms",
        end=" ",
    )
    print(f"({time.perf_counter() - began:.1f} s)")


def goodput(server: Served, connections: int, seconds: float) -> float:
    """Answers a second of a few connections that are always busy."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.load",
        *map(str, (server.port, connections, seconds, 4_000_000 + 100_000 * connections)),
    ]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout)
    return len(found["took_ms"]) / float(found["seconds"])


def main() -> None:
    """The figures, or one client."""
    if len(sys.argv) > 1 and sys.argv[1] in ("flood", "probe"):
        kind, port, *numbers = sys.argv[1:]
        asked = [float(n) for n in numbers]
        job = (
            flood(int(port), asked[0], asked[1], int(asked[2]))
            if kind == "flood"
            else probe(int(port), "/livez", asked[0])
        )
        print(json.dumps(asyncio.run(job)))
        return
    parser = argparse.ArgumentParser(prog="python -m benchmarks.overload", description=__doc__)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--times", type=float, default=10.0, help="as much as the best goodput")
    parser.add_argument("--seconds", type=float, default=20.0)
    asked_for = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "HEADROOM_DATABASE_URL": f"sqlite:///{folder}/load.sqlite3",
        }
        prepare = [sys.executable, "-m", "app", "prepare"]
        subprocess.run(prepare, check=True, capture_output=True, cwd=ROOT, env=environment)
        server = Served("here", ROOT, environment, workers=asked_for.workers)
        stack.callback(server.close)
        print_overload(server, asked_for.times, asked_for.seconds)


if __name__ == "__main__":
    main()
