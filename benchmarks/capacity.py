"""`python -m benchmarks.capacity`: cost of each kind of request for a worker, and requests per second.

Each client sends one request after another on a persistent connection. If clients and workers share the machine, plan
with the CPU time per answer: the request rate then only reflects the CPU that was left for the workers.
"""

from __future__ import annotations

import argparse
import asyncio

from benchmarks.databases import KINDS as DATABASES
from benchmarks.databases import prepare_database
from benchmarks.kinds import KINDS, run_clients
from benchmarks.load import ROOT
from benchmarks.overload import quantile_ms
from benchmarks.served import ServiceProcess


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.capacity", description=__doc__)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=8.0, help="seconds per kind of request")
    parser.add_argument("--database", choices=DATABASES, default="sqlite")
    options = parser.parse_args()
    with prepare_database(options.database) as (environment, _):
        server = ServiceProcess("here", ROOT, environment, workers=options.workers)
        try:
            asyncio.run(run_clients(server.port, KINDS["recommendation, new"], clients=2, seconds=3.0, first=8_000_000))
            print(f"{options.workers} worker(s), {options.clients} clients, {options.database}")
            print(f"{'':26}{'requests/s':>11}{'CPU ms each':>13}{'p50 ms':>8}{'p99 ms':>8}{'MiB':>6}  not 200")
            for i, (name, made) in enumerate(KINDS.items()):
                before = server.cpu_s()
                found = asyncio.run(
                    run_clients(
                        server.port, made, clients=options.clients, seconds=options.seconds, first=1_000_000 * (i + 1)
                    )
                )
                many = len(found.took_s)
                each_ms = (server.cpu_s() - before) / many * 1e3
                print(
                    f"{name:26}{many / found.seconds:11.1f}{each_ms:13.2f}{quantile_ms(found.took_s, 0.5):8.1f}"
                    f"{quantile_ms(found.took_s, 0.99):8.1f}{server.rss_mib():6.0f}  {found.wrong or ''}",
                    flush=True,
                )
        finally:
            server.close()


if __name__ == "__main__":
    main()
