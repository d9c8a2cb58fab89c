"""`python -m benchmarks.stopping`: sends SIGTERM under load, several times, and counts what happens to accepted
requests.

Half of the clients open a connection per request, half reuse theirs. Some send new questions, some /livez. `lost`
requests had a connection but no complete answer. `refused` requests had no connection, so a client can try another
replica.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import signal
import time
from collections import Counter

from benchmarks.databases import KINDS, prepare_database
from benchmarks.load import ROOT, varied_chat_request
from benchmarks.served import ServiceProcess
from benchmarks.wire import read_answer, request_bytes

LOAD_S, GIVE_UP_S = 3.0, 30.0
NUMBERS = itertools.count(5_000_000)


async def ask_until_refused(port: int, number: int, found: Counter[str]) -> None:
    """Sends requests until the service refuses a connection."""
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
                body = varied_chat_request(next(NUMBERS)) if asks else b""
                writer.write(request_bytes("POST /recommend" if asks else "GET /livez", body, close=not again))
                answer = await asyncio.wait_for(read_answer(reader), GIVE_UP_S)
                found[str(answer.status)] += 1
                goes_on = answer.headers.get("connection") != "close"
        except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
            found[f"lost: {type(error).__name__}"] += 1
        finally:
            writer.close()


async def stop_under_load(server: ServiceProcess, clients: int) -> tuple[Counter[str], float, int]:
    """(answers by status, seconds from the signal to the end of the process, its exit status)."""
    found: Counter[str] = Counter()
    asking = [asyncio.create_task(ask_until_refused(server.port, i, found)) for i in range(clients)]
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
    options = parser.parse_args()
    print(f"{options.workers} worker(s), {options.clients} clients, {options.database}, SIGTERM after {LOAD_S:.0f} s")
    print(f"{'round':>5} {'ended s':>8} {'status':>6} {'lost':>5}  answers")
    lost = 0
    with prepare_database(options.database) as (environment, _):
        for i in range(options.rounds):
            server = ServiceProcess("here", ROOT, environment, workers=options.workers)
            try:
                found, took, status = asyncio.run(stop_under_load(server, options.clients))
            finally:
                server.process.kill()
            gone = sum(n for what, n in found.items() if what.startswith("lost"))
            lost += gone
            print(f"{i + 1:5} {took:8.2f} {status:6} {gone:5}  {dict(sorted(found.items()))}", flush=True)
    print(f"lost in total: {lost}")


if __name__ == "__main__":
    main()
