"""`python -m benchmarks.overload`: sends far more requests than the service can compute, and times answers and
rejections.

The best goodput is that of a few busy connections. Requests then arrive at a multiple of it, independent of earlier
answers, as from many independent clients; /livez is probed twenty times per second. Each request is about a workload
of another size, so no answer comes from the store. With a port as argument, the program is one client in a separate
process and prints JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections import Counter
from typing import Any

from benchmarks.databases import prepare_database
from benchmarks.load import ROOT, varied_chat_request
from benchmarks.served import ServiceProcess

GIVE_UP_S = 30.0  # time after which a client gives up
PROBES_PER_S = 20.0


async def timed_exchange(port: int, head: str, body: bytes = b"") -> tuple[int, dict[str, str], float]:
    """(status, headers, seconds) of one request on a new connection."""
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


async def flood_service(port: int, rate_per_s: float, seconds: float, first: int) -> list[dict[str, Any]]:
    """Sends requests at a rate, independent of their answers."""
    found: list[dict[str, Any]] = []

    async def send_one(number: int) -> None:
        raw = varied_chat_request(number)
        head = f"POST /recommend HTTP/1.1\r\ncontent-type: application/json\r\ncontent-length: {len(raw)}\r\n"
        try:
            async with asyncio.timeout(GIVE_UP_S):
                status, headers, took = await timed_exchange(port, head, raw)
            found.append({"status": status, "s": took, "again": "retry-after" in headers})
        except (OSError, TimeoutError, asyncio.IncompleteReadError, IndexError):
            found.append({"status": 0, "s": GIVE_UP_S, "again": False})

    start, tasks = time.perf_counter(), []
    for i in range(int(rate_per_s * seconds)):
        await asyncio.sleep(max(0.0, start + i / rate_per_s - time.perf_counter()))
        tasks.append(asyncio.create_task(send_one(first + i)))
    await asyncio.gather(*tasks)
    return found


async def probe_path(port: int, path: str, seconds: float) -> list[float]:
    """Seconds of each request to a path."""
    took, start = [], time.perf_counter()
    while time.perf_counter() - start < seconds:
        status, _, s = await timed_exchange(port, f"GET {path} HTTP/1.1\r\n")
        took.append(s if status == 200 else GIVE_UP_S)
        await asyncio.sleep(1 / PROBES_PER_S)
    return took


def quantile_ms(took: list[float], share: float) -> float:
    return sorted(took)[min(len(took) - 1, int(share * len(took)))] * 1e3 if took else float("nan")


def latencies_ms(took: list[float]) -> dict[str, int]:
    """p50, p99 and longest of times in seconds, in whole milliseconds."""
    return {name: round(quantile_ms(took, share)) for name, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0))}


def start_client(*words: object) -> subprocess.Popen[str]:
    """Starts a client in a separate process."""
    command = [sys.executable, "-m", "benchmarks.overload", *(str(w) for w in words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)


def read_output(process: subprocess.Popen[str]) -> Any:
    return json.loads(process.communicate()[0])


def measure_overload(server: ServiceProcess, times: float, seconds: float) -> dict[str, Any]:
    """Goodput, latencies and memory before, during and after an overload."""
    read_output(start_client("flood", server.port, 5, 3, 1_000_000))  # warm-up
    best = max(measure_goodput(server, in_flight, 6.0) for in_flight in (2, 4))
    before = server.rss_mib()
    flooding = start_client("flood", server.port, best * times, seconds, 2_000_000)
    probing = start_client("probe", server.port, seconds)
    found, livez = read_output(flooding), read_output(probing)
    answered = [f["s"] for f in found if f["status"] == 200]
    rejected = [f for f in found if f["status"] in (429, 503)]
    after = read_output(start_client("flood", server.port, 1, 3, 3_000_000))
    return {
        "times": times,
        "seconds": seconds,
        "best_per_s": round(best, 1),
        "sent": len(found),
        "answered_ms": latencies_ms(answered),
        "rejected": len(rejected),
        "rejected_with_retry_after": sum(f["again"] for f in rejected),
        "rejected_ms": latencies_ms([f["s"] for f in rejected]),
        "other_statuses": dict(Counter(str(f["status"]) for f in found if f["status"] not in (200, 429, 503))),
        "livez_ms": latencies_ms(livez),
        "mib": [round(before), round(server.rss_mib())],
        "answered_right_after": [sum(f["status"] == 200 for f in after), len(after)],
    }


def measure_goodput(server: ServiceProcess, connections: int, seconds: float) -> float:
    """Answers per second of a few connections that are always busy."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.load",
        *map(str, (server.port, connections, seconds, 4_000_000 + 100_000 * connections)),
    ]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout)
    return len(found["took_ms"]) / float(found["seconds"])


def main() -> None:
    """Prints the figures, or runs one client."""
    if len(sys.argv) > 1 and sys.argv[1] in ("flood", "probe"):
        kind, port, *numbers = sys.argv[1:]
        asked = [float(n) for n in numbers]
        job = (
            flood_service(int(port), asked[0], asked[1], int(asked[2]))
            if kind == "flood"
            else probe_path(int(port), "/livez", asked[0])
        )
        print(json.dumps(asyncio.run(job)))
        return
    parser = argparse.ArgumentParser(prog="python -m benchmarks.overload", description=__doc__)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--times", type=float, default=10.0, help="load as a multiple of the best goodput")
    parser.add_argument("--seconds", type=float, default=20.0)
    asked_for = parser.parse_args()
    with prepare_database("sqlite") as (environment, _):
        server = ServiceProcess("here", ROOT, environment, workers=asked_for.workers)
        try:
            print(json.dumps(measure_overload(server, asked_for.times, asked_for.seconds), indent=1))
        finally:
            server.close()


if __name__ == "__main__":
    main()
