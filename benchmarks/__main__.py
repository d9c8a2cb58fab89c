"""`make bench`: time of answers, as ratios to an endpoint with the same request and response sizes that computes
nothing.

Machines differ and are noisy, so compare the ratio within one run over time. `--against REVISION` (or a directory)
measures another checkout in turn with this one, request by request: `make bench AGAINST=HEAD~1`. Each request is about
a workload of another size, so no answer and no simulation of an earlier one is used again. Nothing is asserted: a
timing on a shared machine proves nothing by itself. Counts are asserted by tests/api/test_budgets.py.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.load import print_load
from benchmarks.served import ServiceProcess
from benchmarks.varied import vary_request

HERE = Path(__file__).resolve().parent
BODIES = HERE.parent / "tests" / "api" / "bodies"
WARM_UP = 3


class Checkout:
    """A checkout under measurement: its own database, and a process that answers one request at a time."""

    def __init__(self, tree: Path, folder: Path) -> None:
        self.tree, self.name = tree, tree.name
        url = f"sqlite:///{folder}/bench.sqlite3"
        self.environment = {**os.environ, "PYTHONPATH": str(tree), "HEADROOM_DATABASE_URL": url}
        prepare = [sys.executable, "-m", "app", "prepare"]
        subprocess.run(prepare, check=True, capture_output=True, cwd=tree, env=self.environment)
        reading, writing = os.pipe()
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "one_by_one.py"), str(writing)],
            cwd=tree,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=(writing,),
            text=True,
        )
        os.close(writing)
        self._results = os.fdopen(reading)

    def time_request(self, endpoint: str, body: dict[str, Any]) -> dict[str, float]:
        """Milliseconds of one request, and of the idle endpoint after it."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"endpoint": endpoint, "body": body}) + "\n")
        self._process.stdin.flush()
        found: dict[str, float] = json.loads(self._results.readline())
        return found

    def peak_mib(self) -> float:
        """Peak memory of the process so far, MiB."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) / 1024

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()
        self._results.close()


@contextmanager
def check_out(revision: str) -> Iterator[Path]:
    """The tree of a directory or of a revision of this repository."""
    if Path(revision).is_dir():
        yield Path(revision).resolve()
        return
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / revision.replace("/", "-")
        git = ["git", "-C", str(HERE.parent), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(tree), revision], check=True)
        try:
            yield tree
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)


def median_figures(rows: list[dict[str, float]]) -> dict[str, float]:
    return {name: statistics.median(r[name] for r in rows) for name in rows[0]}


def print_ratios(checkouts: list[Checkout], rounds: int, only: str) -> None:
    """Prints each worked request relative to the idle endpoint, by wall-clock time and by CPU time, per checkout.

    Other processes on the machine affect the CPU time least.
    """
    print(" " * 42 + "".join(f"{c.name:>37}" for c in checkouts))
    print(f"{'request':42}" + f"{'p50 ms':>10}{'p99 ms':>8}{'x idle':>8}{'x cpu':>11}" * len(checkouts))
    for path in sorted(BODIES.glob("*.json")):
        if only not in path.stem:
            continue
        body, endpoint = json.loads(path.read_text()), "/" + path.stem.split("-")[0]
        taken: list[list[dict[str, float]]] = [[] for _ in checkouts]
        for i in range(rounds + WARM_UP):
            for c, rows in zip(checkouts, taken, strict=True):
                rows.append(c.time_request(endpoint, vary_request(body, i)))
        line = f"{path.stem:42}"
        for rows in taken:
            busy, p50 = sorted(r["busy_ms"] for r in rows[WARM_UP:]), median_figures(rows[WARM_UP:])
            line += f"{p50['busy_ms']:10.1f}{busy[min(len(busy) - 1, int(0.99 * len(busy)))]:8.1f}"
            line += f"{p50['busy_ms'] / p50['idle_ms']:8.1f}{p50['busy_cpu_ms'] / p50['idle_cpu_ms']:11.1f}"
        print(line, flush=True)
    for c in checkouts:
        print(f"peak memory after all requests, {c.name}: {c.peak_mib():.0f} MiB")


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--against", help="a revision or another checkout, measured alternately with this one")
    parser.add_argument("--rounds", type=int, default=40, help="requests per body")
    parser.add_argument("--only", default="", help="only bodies whose name contains this text")
    parser.add_argument("--load-s", type=float, default=10.0, help="seconds of load per checkout; 0 for none")
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--workers", type=int, default=2)
    asked = parser.parse_args()
    with ExitStack() as stack:
        trees = [*([stack.enter_context(check_out(asked.against))] if asked.against else []), HERE.parent]
        checkouts = []
        for tree in trees:
            checkouts.append(Checkout(tree, Path(stack.enter_context(tempfile.TemporaryDirectory()))))
            stack.callback(checkouts[-1].close)
        if asked.rounds:
            print_ratios(checkouts, asked.rounds, asked.only)
        if asked.load_s > 0:
            servers = [ServiceProcess(c.name, c.tree, c.environment, workers=asked.workers) for c in checkouts]
            for server in servers:
                stack.callback(server.close)
            print_load(servers, seconds=asked.load_s, connections=asked.connections)


if __name__ == "__main__":
    main()
