"""Load test with distinct requests over many connections: requests per second, latency, memory.

As a program it is the client in a separate process: `benchmarks.load PORT CONNECTIONS SECONDS FIRST` prints JSON.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.served import ServiceProcess
from benchmarks.varied import vary_request

ROOT = Path(__file__).resolve().parent.parent
BODY = ROOT / "tests" / "api" / "bodies" / "recommend-inference-chat-70b.json"
SLICE_S = 5.0


def measure_load(server: ServiceProcess, *, connections: int, seconds: float, first: int) -> dict[str, Any]:
    """One period of load by a client in a separate process."""
    command = [sys.executable, "-m", "benchmarks.load", str(server.port), str(connections), str(seconds), str(first)]
    before = server.cpu_s()
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    found: dict[str, Any] = json.loads(done.stdout)
    return {**found, "cpu_s": server.cpu_s() - before}


def print_load(servers: list[ServiceProcess], *, seconds: float, connections: int) -> None:
    """Prints requests per second and milliseconds of each server, measured in alternating slices."""
    found: list[list[dict[str, Any]]] = [[] for _ in servers]
    for server in servers:
        measure_load(server, connections=connections, seconds=2.0, first=9_000_000)  # warm-up
    for i in range(max(1, round(seconds / SLICE_S))):
        for server, rows in zip(servers, found, strict=True):
            rows.append(
                measure_load(server, connections=connections, seconds=min(SLICE_S, seconds), first=1_000_000 * i)
            )
    print(f"\n{servers[0].workers} workers, {connections} connections, distinct 70B chat requests")
    print(f"{'':20}{'requests/s':>12}{'p50 ms':>9}{'p99 ms':>9}{'CPU ms each':>13}   peak MiB of each worker")
    for server, rows in zip(servers, found, strict=True):
        took = sorted(ms for row in rows for ms in row["took_ms"])
        rate = sum(len(row["took_ms"]) for row in rows) / sum(row["seconds"] for row in rows)
        p99 = took[min(len(took) - 1, int(0.99 * len(took)))]
        peaks = ", ".join(f"{mib:.0f}" for mib in server.peak_mib())
        cpu_ms = sum(row["cpu_s"] for row in rows) / len(took) * 1e3
        print(f"{server.name:20}{rate:12.1f}{statistics.median(took):9.0f}{p99:9.0f}{cpu_ms:13.1f}   {peaks}")


@cache
def chat_request() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(BODY.read_text())
    return found


def varied_chat_request(number: int) -> bytes:
    """The 70B chat request about a workload of another size for every number."""
    return json.dumps(vary_request(chat_request(), number)).encode()


async def run_connections(port: int, connections: int, seconds: float, first: int) -> dict[str, Any]:
    """Keeps every connection busy; each request is about a workload of another size."""
    took: list[float] = []
    numbers = iter(range(first, first + 1_000_000))
    start = time.perf_counter()

    async def one_connection() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while time.perf_counter() - start < seconds:
            raw = varied_chat_request(next(numbers))
            head = (
                "POST /recommend HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
                f"content-length: {len(raw)}\r\n\r\n"
            )
            sent = time.perf_counter()
            writer.write(head.encode() + raw)
            answered = await reader.readuntil(b"\r\n\r\n")
            if not answered.startswith(b"HTTP/1.1 200"):
                raise RuntimeError(answered.decode())
            await reader.readexactly(int(answered.lower().split(b"content-length: ")[1].split(b"\r\n")[0]))
            took.append((time.perf_counter() - sent) * 1e3)
        writer.close()

    await asyncio.gather(*(one_connection() for _ in range(connections)))
    return {"took_ms": took, "seconds": time.perf_counter() - start}


if __name__ == "__main__":
    port, connections, seconds, first = sys.argv[1:]
    print(json.dumps(asyncio.run(run_connections(int(port), int(connections), float(seconds), int(first)))))
