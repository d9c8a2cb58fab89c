"""In-process service for `benchmarks`: reads a request as one line of JSON and writes its timing as one line
to the file descriptor of its argument: the service logs to the standard streams.

It runs inside the checkout that is first on the path, so it uses no other module of its package.
"""

from __future__ import annotations

import json
import sys
import time

from fastapi import Request
from fastapi.responses import Response
from starlette.testclient import TestClient

from app.main import create_app


def main() -> None:
    """Answers lines until the end of input."""
    app = create_app()
    answer = b""

    @app.post("/idle")
    async def idle_endpoint(request: Request) -> Response:
        """Receives and returns the same sizes without computing anything."""
        await request.body()
        return Response(answer, media_type="application/json")

    def time_post(endpoint: str, raw: bytes) -> tuple[float, float, bytes]:
        """(milliseconds, CPU milliseconds, answer) of one request."""
        start, cpu = time.perf_counter(), time.process_time()
        response = client.post(endpoint, content=raw, headers={"content-type": "application/json"})
        took, worked = time.perf_counter() - start, time.process_time() - cpu
        response.raise_for_status()
        return took * 1e3, worked * 1e3, response.content

    with TestClient(app) as client, open(int(sys.argv[1]), "w") as results:  # noqa: PTH123
        for line in sys.stdin:
            wanted = json.loads(line)
            raw = json.dumps(wanted["body"]).encode()
            busy_ms, busy_cpu_ms, answer = time_post(wanted["endpoint"], raw)
            idle_ms, idle_cpu_ms, _ = time_post("/idle", raw)
            found = {"busy_ms": busy_ms, "idle_ms": idle_ms, "busy_cpu_ms": busy_cpu_ms, "idle_cpu_ms": idle_cpu_ms}
            print(json.dumps(found), file=results, flush=True)


if __name__ == "__main__":
    main()
