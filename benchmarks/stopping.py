"""`python -m benchmarks.stopping`: SIGTERM under load, several times; what becomes of requests that were accepted.

Half of the clients make a connection for each request, half use theirs again; some ask new questions, some look at
/livez. `lost` had a connection and no whole answer; `refused` had no connection, and asks somebody else.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import signal
import time
from collections import Counter

from benchmarks.databases import KINDS, prepared
from benchmarks.load import ROOT, asked_at
from benchmarks.served import Served
from benchmarks.wire import heard, request

LOAD_S, NOBODY_S = 3.0, 30.0
NUMBERS = itertools.count(5_000_000)


async def client(port: int, number: int, found: Counter[str]) -> None:
    """Asks until no connection is to be had."""
    again, asks = number % 2 == 0, number % 4 < 2
    while True:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            found["refused"] += 1
            return
        try:
            goes_on = True
            while goes_on:
                body = asked_at(next(NUMBERS)) if asks else b""
                writer.write(request("POST /recommend" if asks else "GET /livez", body, close=not again))
                answer = await asyncio.wait_for(heard(reader), NOBODY_S)
                found[str(answer.status)] += 1
                goes_on = answer.headers.get("connection") != "close"
        except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
            found[f"lost: {type(error).__name__}"] += 1
        finally:
            writer.close()


async def stopped(server: Served, clients: int) -> tuple[Counter[str], float, int]:
    """What the clients heard, the seconds from the signal to the end, and its status."""
    found: Counter[str] = Counter()
    asking = [asyncio.create_task(client(server.port, i, found)) for i in range(clients)]
    await asyncio.sleep(LOAD_S)
    began = time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    status = await asyncio.to_thread(server.process.wait)
    took = time.monotonic() - began
    await asyncio.gather(*asking)
    return found, took, status


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stopping", description=__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--database", choices=KINDS, default="sqlite")
    told = parser.parse_args()
    print(f"{told.workers} worker(s), {told.clients} clients, SIGTERM after {LOAD_S:.0f} s, on {told.database}")
    print(f"{'round':>5} {'ended s':>8} {'status':>6} {'lost':>5}  answers")
    lost = 0
    with prepared(told.database) as (environment, _):
        for i in range(told.rounds):
            server = Served("here", ROOT, environment, workers=told.workers)
            try:
                found, took, status = asyncio.run(stopped(server, told.clients))
            finally:
                server.process.kill()
            gone = sum(n for what, n in found.items() if what.startswith("lost"))
            lost += gone
            print(f"{i + 1:5} {took:8.2f} {status:6} {gone:5}  {dict(sorted(found.items()))}", flush=True)
    print(f"lost in all: {lost}")


if __name__ == "__main__":
    main()
