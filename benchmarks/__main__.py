"""`make bench`: POST /recommend and /estimate in process against an endpoint of the same sizes that computes nothing.

Machines differ and are noisy, so the figure to compare over time is the ratio of the two in one
run. Every request differs a little from the last, so none is answered from the store.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import orjson
from fastapi import Request
from fastapi.responses import Response
from starlette.testclient import TestClient

from app.main import create_app

BODIES = Path(__file__).resolve().parent.parent / "tests" / "api" / "bodies"
ROUNDS = 40
WARM_UP = 3


def timed(call: Callable[[], int]) -> float:
    """Milliseconds of one call, which must answer 200."""
    start = time.perf_counter()
    status = call()
    took = (time.perf_counter() - start) * 1e3
    if status != 200:
        raise RuntimeError(f"answered {status}")
    return took


def quantiles(values: list[float]) -> tuple[float, float]:
    """(p50, p99) by rank."""
    ordered = sorted(values)
    return statistics.median(ordered), ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]


def variant(body: dict[str, Any], i: int) -> dict[str, Any]:
    """The same question with an electricity price a hair apart: a new answer of the same work."""
    return {**body, "economics": {"electricity_usd_per_kwh": 0.12 + i * 1e-6}}


def posted(client: TestClient, endpoint: str, raw: bytes) -> int:
    """Status of one request."""
    return client.post(endpoint, content=raw, headers={"content-type": "application/json"}).status_code


def measure() -> list[tuple[str, float, float, float]]:
    """(body, p50 ms, p99 ms, p50 over that of the idle endpoint) of each worked request."""
    sizes: dict[str, bytes] = {}
    app = create_app()

    @app.post("/idle")
    async def idle(request: Request) -> Response:
        """The same sizes in and out, nothing computed."""
        await request.body()
        return Response(sizes["answer"], media_type="application/json")

    rows = []
    with TestClient(app) as client:
        for path in sorted(BODIES.glob("*.json")):
            body, endpoint = json.loads(path.read_text()), "/" + path.stem.split("-")[0]
            sizes["answer"] = client.post(endpoint, json=body).content
            busy, calm = [], []
            for i in range(1, ROUNDS + WARM_UP + 1):
                raw = orjson.dumps(variant(body, i))
                one = timed(partial(posted, client, endpoint, raw))
                other = timed(partial(posted, client, "/idle", raw))
                if i > WARM_UP:
                    busy.append(one)
                    calm.append(other)
            p50, p99 = quantiles(busy)
            rows.append((path.stem, p50, p99, p50 / quantiles(calm)[0]))
    return rows


def server_peak_mib() -> float:
    """Peak memory of a serving process that answers every worked request."""
    script = (
        "import resource, sys, pathlib\n"
        "from starlette.testclient import TestClient\n"
        "from app.main import create_app\n"
        "with TestClient(create_app()) as client:\n"
        "    for path in sorted(pathlib.Path(sys.argv[1]).glob('recommend*.json')):\n"
        "        headers = {'content-type': 'application/json'}\n"
        "        client.post('/recommend', content=path.read_bytes(), headers=headers).raise_for_status()\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(BODIES)], capture_output=True, text=True, check=True)
    return float(done.stdout)


def main() -> None:
    """Print a table; nothing is asserted, because a timing on a shared machine proves nothing by itself."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HEADROOM_DATABASE_URL"] = f"sqlite:///{folder}/bench.sqlite3"
        subprocess.run([sys.executable, "-m", "app.cli", "prepare"], check=True, capture_output=True)
        print(f"{'request':44} {'p50 ms':>8} {'p99 ms':>8} {'x idle':>8}")
        for name, p50, p99, ratio in measure():
            print(f"{name:44} {p50:8.1f} {p99:8.1f} {ratio:8.1f}")
        print(f"peak memory of a server: {server_peak_mib():.0f} MiB")


if __name__ == "__main__":
    main()
