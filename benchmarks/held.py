"""`python -m benchmarks.held [section ...]`: runs the load and fault-injection tests and writes docs/held.md.

Each section replaces its figures in artefacts/held.json. All sections take about an hour on two cores.
"""

from __future__ import annotations

import argparse
import json
import os
import tomllib
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from artefacts.held import RESULTS, SECTIONS, read_results, write
from benchmarks.databases import KINDS, prepare_database
from benchmarks.dearest import measure_dearest
from benchmarks.frozen import measure_frozen
from benchmarks.kills import measure_kills
from benchmarks.load import ROOT
from benchmarks.mutated import measure_mutations
from benchmarks.overload import measure_overload
from benchmarks.served import ServiceProcess
from benchmarks.sockets import measure_attacks
from benchmarks.stopping import measure_stops


def measure_served(measure: Callable[[ServiceProcess], dict[str, Any]]) -> dict[str, Any]:
    """Measures a service with one worker and a database of its own."""
    with prepare_database("sqlite") as (environment, _):
        server = ServiceProcess("here", ROOT, environment, workers=1)
        try:
            return measure(server)
        finally:
            server.close()


def measure_section(name: str, minutes: float) -> dict[str, Any]:
    """The figures of one section. `minutes` bounds the search and the mutations of each database."""
    match name:
        case "dearest":
            return measure_dearest(minutes=minutes)
        case "sockets":
            return measure_served(lambda server: measure_attacks(server, server.port, 15.0))
        case "overload":
            return measure_served(lambda server: measure_overload(server, 10.0, 20.0))
        case "stopping":
            return measure_stops("sqlite")
        case "kills":
            return measure_kills("sqlite", kills=30)
        case "frozen":
            return measure_frozen()
        case _:
            return {kind: measure_mutations(kind, count=30_000, minutes=minutes) for kind in KINDS}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.held", description=__doc__)
    parser.add_argument("sections", nargs="*", choices=[*SECTIONS, []], help=f"default: {' '.join(SECTIONS)}")
    parser.add_argument("--minutes", type=float, default=30.0, help="of the search, and of the mutations per database")
    options = parser.parse_args()
    release = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    for name in options.sections or SECTIONS:
        print(name, flush=True)
        ran = {"release": release, "day": datetime.now(UTC).date().isoformat(), "cores": os.cpu_count()}
        ran |= {"load_average": round(os.getloadavg()[0], 1), "figures": measure_section(name, options.minutes)}
        RESULTS.write_text(json.dumps({**read_results(), name: ran}, indent=1) + "\n")
    write()


if __name__ == "__main__":
    main()
