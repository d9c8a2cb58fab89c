"""`python -m benchmarks.soak`: sends many requests of all kinds, and prints memory, open files and threads of the
service.
"""

from __future__ import annotations

import argparse
import asyncio
import random
from collections.abc import Callable
from pathlib import Path

from benchmarks.databases import prepare_database
from benchmarks.kinds import KINDS, run_clients
from benchmarks.load import ROOT
from benchmarks.served import ServiceProcess

# Percent of the requests: most are cheap, as from people and monitoring tools.
SHARES = {
    "health": 25,
    "page of the catalog": 20,
    "model inspected": 15,
    "recommendation, known": 20,
    "recommendation, new": 12,
    "estimate": 6,
    "comparison of two, new": 2,
}


def mixed_requests(seed: int) -> Callable[[int], bytes]:
    """Random requests of all kinds; the same number gives the same request."""
    names, weights = list(SHARES), list(SHARES.values())

    def request_of_number(number: int) -> bytes:
        (name,) = random.Random(seed * 10_000_000 + number).choices(names, weights)
        return KINDS[name](number)

    return request_of_number


def resource_usage(server: ServiceProcess) -> tuple[float, int, int]:
    """(MiB, open files, threads) of the workers."""
    paths: list[Path] = server.worker_processes()
    return (
        server.rss_mib(),
        sum(len(list((p / "fd").iterdir())) for p in paths),
        sum(len(list((p / "task").iterdir())) for p in paths),
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--longest", type=float, default=1500.0, help="time limit, seconds")
    options = parser.parse_args()
    step_s, spent_s, asked, wrong, printed_at = 10.0, 0.0, 0, 0, 0
    with prepare_database("sqlite") as (environment, _):
        server = ServiceProcess("here", ROOT, environment, workers=1)
        try:
            print(f"{'requests':>9}{'MiB':>7}{'files':>7}{'threads':>9}{'not 200':>9}")
            while asked < options.count and spent_s < options.longest:
                first = 2_000_000 + asked
                found = asyncio.run(
                    run_clients(server.port, mixed_requests(1), clients=options.clients, seconds=step_s, first=first)
                )
                asked, spent_s = asked + len(found.took_s), spent_s + found.seconds
                wrong += sum(found.wrong.values())
                if asked - printed_at >= options.count / 10 or printed_at == 0:
                    printed_at = asked
                    mib, files, threads = resource_usage(server)
                    print(f"{asked:9}{mib:7.0f}{files:7}{threads:9}{wrong:9}", flush=True)
            mib, files, threads = resource_usage(server)
            print(f"{asked:9}{mib:7.0f}{files:7}{threads:9}{wrong:9}   in {spent_s:.0f} s")
        finally:
            server.close()


if __name__ == "__main__":
    main()
