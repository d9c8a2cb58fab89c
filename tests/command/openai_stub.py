"""Stands in for `vllm`: `serve` speaks the OpenAI protocol, and `bench serve` measures a server by it.

Only what the benchmark of an answer uses: streamed completions of a fixed number of tokens, a closed loop of requests,
and the result as vLLM prints it. PORT is the port of the server.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.request import Request, urlopen

PORT = int(os.environ["PORT"])
PROMPT_S, TOKEN_S = 0.01, 0.001


class Handler(BaseHTTPRequestHandler):
    """Answers /health, and /v1/completions as server-sent events."""

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/health" else 404)
        self.end_headers()

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        time.sleep(PROMPT_S)
        for _ in range(asked["max_tokens"]):
            self.wfile.write(b'data: {"choices": [{"text": " a"}]}\n\n')
            time.sleep(TOKEN_S)
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, *_: object) -> None:
        pass


def option(name: str) -> int:
    """Value of an option of the command line."""
    return int(sys.argv[sys.argv.index(f"--{name}") + 1])


def measure_request(_: int) -> tuple[float, float]:
    """Seconds to the first token and per further token of one streamed completion."""
    tokens = option("random-output-len")
    body = json.dumps({"prompt": "a " * option("random-input-len"), "max_tokens": tokens, "stream": True})
    began = time.perf_counter()
    sent = Request(f"http://127.0.0.1:{PORT}/v1/completions", body.encode(), {"Content-Type": "application/json"})
    with urlopen(sent) as answer:
        times = [time.perf_counter() for line in answer if line.startswith(b"data: {")]
    assert len(times) == tokens
    return times[0] - began, (times[-1] - times[0]) / (tokens - 1)


def bench() -> None:
    """Sends all requests in a closed loop and prints the result."""
    count, began = option("num-prompts"), time.perf_counter()
    with ThreadPoolExecutor(option("max-concurrency")) as pool:
        found = list(pool.map(measure_request, range(count)))
    took, tokens = time.perf_counter() - began, count * option("random-output-len")
    ttft, tpot = ([1e3 * value for value in column] for column in zip(*found, strict=True))
    sys.stdout.write(" Serving Benchmark Result ".center(50, "=") + "\n")
    for name, value in (
        ("Successful requests", count),
        ("Failed requests", 0),
        ("Maximum request concurrency", option("max-concurrency")),
        ("Benchmark duration (s)", took),
        ("Total input tokens", count * option("random-input-len")),
        ("Total generated tokens", tokens),
        ("Request throughput (req/s)", count / took),
        ("Output token throughput (tok/s)", tokens / took),
        ("Mean TTFT (ms)", statistics.mean(ttft)),
        ("Median TTFT (ms)", statistics.median(ttft)),
        ("Mean TPOT (ms)", statistics.mean(tpot)),
        ("Median TPOT (ms)", statistics.median(tpot)),
    ):
        sys.stdout.write(f"{name + ':':<40}{value if isinstance(value, int) else f'{value:.2f}'}\n")


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        ThreadingHTTPServer(("127.0.0.1", PORT), Handler).serve_forever()
    bench()
