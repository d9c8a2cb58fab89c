"""`python -m benchmarks.publishing`: effect on clients while the service loads a new catalog in the background.

One client each sends health checks, an estimate, a known question and a new one, one after another. Every few seconds
the version in the database changes, so the service loads the whole catalog. The new question is computed each time, and
so is the known one after a change. `longest` is shown for the quiet period before and for the period of changes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sqlite3
import time
import urllib.request
from contextlib import ExitStack, closing
from pathlib import Path

from benchmarks.databases import prepare_database
from benchmarks.frozen import Client, make_clients, stored_id
from benchmarks.load import ROOT
from benchmarks.overload import quantile_ms
from benchmarks.served import ServiceProcess

QUIET_S, EVERY_S = 10.0, 5.0


def catalog_in_use(server: ServiceProcess) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/readyz", timeout=5) as answer:
        return str(json.load(answer)["snapshot"])


def publish_version(file: Path, digest: str) -> None:
    with closing(sqlite3.connect(file, timeout=10)) as connection, connection:
        connection.execute("update catalog_versions set digest = ?", (digest,))


async def wait_until_used(server: ServiceProcess, file: Path, number: int) -> float:
    """Seconds from publishing a version until the service uses it."""
    digest = f"{number:064x}"[::-1]
    began = time.monotonic()
    publish_version(file, digest)
    while await asyncio.to_thread(catalog_in_use, server) != digest[:16]:
        await asyncio.sleep(0.05)
    return time.monotonic() - began


async def print_publishing(server: ServiceProcess, file: Path, times: int) -> None:
    """Prints latencies of each kind without and with publishing."""
    found: list[Client] = make_clients(await stored_id(server.port))[:4]
    over = False
    asking = [asyncio.create_task(client.ask_repeatedly(server.port, lambda: over)) for client in found]
    await asyncio.sleep(QUIET_S)
    begin, before, seconds = time.monotonic(), server.rss_mib(), []
    for number in range(1, times + 1):
        seconds.append(await wait_until_used(server, file, number))
        await asyncio.sleep(EVERY_S)
    end, over = time.monotonic(), True
    await asyncio.gather(*asking)
    print(f"{times} catalogs, each in use {min(seconds):.1f} to {max(seconds):.1f} s after publishing", end="; ")
    print(f"memory {before:.0f} to {server.rss_mib():.0f} MiB")
    print(f"  {'kind':14} {'quiet p50':>9} {'longest':>8} {'publishing p50':>15} {'longest':>8} ms")
    for client in found:
        quiet = [s[1] for s in client.seen if begin - QUIET_S / 2 <= s[0] < begin - 1]
        loud = [s[1] for s in client.seen if begin <= s[0] < end]
        wrong = sum(not s[3] for s in client.seen if begin <= s[0] < end)
        print(f"  {client.name:14} {quantile_ms(quiet, 0.5):9.0f} {quantile_ms(quiet, 1.0):8.0f}", end=" ")
        print(
            f"{quantile_ms(loud, 0.5):15.0f} {quantile_ms(loud, 1.0):8.0f}    not answered or not stored: {wrong} of "
            f"{len(loud)}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.publishing", description=__doc__)
    parser.add_argument("--times", type=int, default=4)
    with ExitStack() as stack:
        options = parser.parse_args()
        environment, data = stack.enter_context(prepare_database("sqlite"))
        server = ServiceProcess("here", ROOT, environment, workers=1)
        stack.callback(server.close)
        asyncio.run(print_publishing(server, data / "headroom.sqlite3", options.times))


if __name__ == "__main__":
    main()
