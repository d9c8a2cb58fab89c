"""`python -m benchmarks.kills`: kills (SIGKILL) workers, and now and then the whole service, while it answers.

Each client sends new questions and keeps the ID and the digest of each complete answer that is marked as stored. At the
end, a new service is asked for each of them, and for every other answer in the database.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import itertools
import json
import os
import random
import signal
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from benchmarks.databases import KINDS, prepare_database
from benchmarks.load import ROOT, varied_chat_request
from benchmarks.served import ServiceProcess
from benchmarks.wire import exchange_once, request_bytes

WHOLE_EVERY = 10  # one of this many kills hits the whole service
MOST_BETWEEN = 20  # most answers between two kills
GIVE_UP_S = 20.0
CLIENTS = 8
NUMBERS = itertools.count(6_000_000)


@dataclass
class ReceivedAnswers:
    """Digests of the answers that clients received, by ID, and the outcomes of all requests."""

    digests: dict[str, str] = field(default_factory=dict)
    answers: Counter[str] = field(default_factory=Counter)
    differ: int = 0
    kills: int = 0

    def record_answer(self, body: bytes) -> None:
        name, digest = str(json.loads(body)["id"]), hashlib.sha256(body).hexdigest()
        self.differ += self.digests.setdefault(name, digest) != digest


@dataclass
class Service:
    """The running service."""

    environment: dict[str, str]
    workers: int
    server: ServiceProcess = field(init=False)

    def start_server(self) -> None:
        self.server = ServiceProcess("here", ROOT, self.environment, workers=self.workers)

    def kill_all(self) -> None:
        """Kills the parent process and its workers at once."""
        for pid in (self.server.process.pid, *self.worker_pids()):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.server.process.wait()

    def worker_pids(self) -> list[int]:
        return [int(path.name) for path in self.server.worker_processes()]


async def ask_endlessly(service: Service, heard: ReceivedAnswers) -> None:
    """Sends new questions in an endless loop."""
    while True:
        try:
            sent = request_bytes("POST /recommend", varied_chat_request(next(NUMBERS)))
            answer = await exchange_once(service.server.port, sent, GIVE_UP_S)
        except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
            heard.answers[type(error).__name__] += 1
            await asyncio.sleep(0.1)
            continue
        stored = "headroom-stored" not in answer.headers
        heard.answers[str(answer.status) if stored else f"{answer.status} not stored"] += 1
        if answer.status == 200 and stored:
            heard.record_answer(answer.body)


async def kill_repeatedly(service: Service, many: int, seconds: float) -> ReceivedAnswers:
    """The answers received until the requested number of kills, or until time is up."""
    heard, end = ReceivedAnswers(), time.monotonic() + seconds
    asking = [asyncio.create_task(ask_endlessly(service, heard)) for _ in range(CLIENTS)]
    while heard.kills < many and time.monotonic() < end:
        enough = heard.answers["200"] + random.randint(1, MOST_BETWEEN)
        until = time.monotonic() + GIVE_UP_S
        while heard.answers["200"] < enough and time.monotonic() < until:
            await asyncio.sleep(0.01)
        heard.kills += 1
        if heard.kills % WHOLE_EVERY == 0:
            service.kill_all()
            await asyncio.to_thread(service.start_server)
        else:
            os.kill(random.choice(service.worker_pids()), signal.SIGKILL)
    for task in asking:
        task.cancel()
    await asyncio.gather(*asking, return_exceptions=True)
    return heard


async def check_stored_answers(port: int, heard: ReceivedAnswers, stored: list[str]) -> Counter[str]:
    """Outcomes of a new request for every answer."""
    found: Counter[str] = Counter()
    for name in {*heard.digests, *stored}:
        answer = await exchange_once(port, request_bytes(f"GET /recommendations/{name}"), GIVE_UP_S)
        digest = heard.digests.get(name)
        if answer.status != 200:
            found["missing" if digest else "incomplete"] += 1
        elif digest is None:
            found["not received, complete" if json.loads(answer.body)["id"] == name else "incomplete"] += 1
        else:
            found["unchanged" if hashlib.sha256(answer.body).hexdigest() == digest else "changed"] += 1
    return found


def stored_ids(environment: dict[str, str]) -> list[str]:
    """IDs of all answers in the database, after an integrity check."""
    engine = sa.create_engine(environment["HEADROOM_DATABASE_URL"])
    with engine.connect() as connection:
        if engine.dialect.name == "sqlite":
            assert connection.scalar(sa.text("PRAGMA integrity_check")) == "ok"
        names = [str(name) for name in connection.scalars(sa.text("SELECT id FROM recommendations"))]
    engine.dispose()
    return names


def measure_kills(kind: str, *, kills: int = 100, seconds: float = 600.0, workers: int = 2) -> dict[str, Any]:
    """Kills, answers by status, and what was found of the received and the stored answers afterwards."""
    with prepare_database(kind) as (environment, _):
        service = Service(environment, workers)
        service.start_server()
        try:
            heard = asyncio.run(kill_repeatedly(service, kills, seconds))
            service.kill_all()
            service.start_server()
            stored = stored_ids(environment)
            found = asyncio.run(check_stored_answers(service.server.port, heard, stored))
        finally:
            service.kill_all()
    return {
        "database": kind,
        "kills": heard.kills,
        "workers": workers,
        "whole_every": WHOLE_EVERY,
        "received": len(heard.digests),
        "in_two_versions": heard.differ,
        "stored": len(stored),
        "again": dict(found),
        "answers": dict(heard.answers),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=600.0, help="time limit, seconds")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--database", choices=KINDS, default="sqlite")
    options = parser.parse_args()
    found = measure_kills(options.database, kills=options.kills, seconds=options.seconds, workers=options.workers)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
