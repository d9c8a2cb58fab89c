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
import json
import signal
import time
from collections import Counter
from typing import Any

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


def measure_stops(kind: str, *, workers: int = 2, clients: int = 32, rounds: int = 10) -> dict[str, Any]:
    """Answers, lost requests, seconds until the service ended and its exit statuses, over several stops."""
    answers: Counter[str] = Counter()
    seconds, statuses = [], []
    with prepare_database(kind) as (environment, _):
        for _ in range(rounds):
            server = ServiceProcess("here", ROOT, environment, workers=workers)
            try:
                found, took, status = asyncio.run(stop_under_load(server, clients))
            finally:
                server.process.kill()
            answers.update(found)
            seconds.append(round(took, 1))
            statuses.append(status)
    lost = sum(n for what, n in answers.items() if what.startswith("lost"))
    return {
        "workers": workers,
        "clients": clients,
        "rounds": rounds,
        "database": kind,
        "ended_s": [min(seconds), max(seconds)],
        "exit_statuses": statuses,
        "lost": lost,
        "answers": dict(answers),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stopping", description=__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--database", choices=KINDS, default="sqlite")
    options = parser.parse_args()
    found = measure_stops(options.database, workers=options.workers, clients=options.clients, rounds=options.rounds)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
