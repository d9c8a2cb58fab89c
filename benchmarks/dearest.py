"""`python -m benchmarks.dearest`: the most expensive requests that the service accepts, in seconds of CPU time.

Each kind of request is sent once, at or near the maximum of its schema, to an application in this process with its own
database. No request repeats, but parts of some do. Rejections are printed with their reason.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from app.config import Settings
from app.main import create_app

BODIES = Path(__file__).resolve().parent.parent / "tests" / "api" / "bodies"
Body = dict[str, Any]
Asked = tuple[str, str, str, Any]


def worked_request(name: str, **workload: Any) -> Body:
    """A worked request with fields of its workload replaced; None removes a field."""
    made: Body = json.loads((BODIES / f"{name}.json").read_text())
    made["workload"] = {k: v for k, v in {**made["workload"], **workload}.items() if v is not None}
    return made


def length_histogram(count: int, most: int) -> Body:
    return {"values": [1 + i * most // count for i in range(count)], "weights": [1 + i % 7 for i in range(count)]}


def kinds_of_attention(count: int, layers: int) -> Body:
    """A configuration whose layers differ in their compression."""
    from app.catalog.seed import model_entries  # noqa: PLC0415

    config = copy.deepcopy(next(e["config"] for e in model_entries() if "compress_ratios" in e["config"]))
    return {**config, "num_hidden_layers": layers, "compress_ratios": [4 + i % count for i in range(layers)]}


def extreme_traffics() -> Iterator[tuple[str, Body]]:
    """Loads at the limits of the schema."""
    drawn = {"input_tokens": length_histogram(1000, 100_000), "output_tokens": length_histogram(1000, 8000)}
    day: Body = {"hourly_factors": [1 + (7 * i) % 23 for i in range(24)]}
    yield "a histogram of 1000 lengths", {"peak_requests_per_s": 10, **drawn}
    yield "a histogram and a day", {"peak_requests_per_s": 10, **drawn, **day}
    yield "a million concurrent requests", {"concurrent_requests": 1_000_000}
    yield "a million requests per second", {"peak_requests_per_s": 1e6, "burstiness": 20, **day}
    trace = [
        {"at_s": i * 0.3, "input_tokens": 1 + i * 37 % 9000, "output_tokens": 1 + i * 11 % 900} for i in range(870)
    ]
    yield "a trace of 870", {"trace": trace}
    sized = {"input_tokens": length_histogram(200, 50_000), "output_tokens": length_histogram(200, 4000)}
    classes = [{"name": f"c{i}", "peak_requests_per_s": 5 + i, "burstiness": 3, **sized} for i in range(4)]
    yield "four classes", {"classes": classes}


def extreme_questions() -> Iterator[tuple[str, Body]]:
    """Requests of /recommend at the limits of the schema."""
    for name, traffic in extreme_traffics():
        own = {"slo": None} if "classes" in traffic else {}
        yield (
            name,
            {
                **worked_request("recommend-inference-chat-70b", traffic=traffic, **own),
                "limit": 50,
                "rejected_limit": 200,
            },
        )
    for path in sorted(BODIES.glob("recommend-*.json")):
        yield path.stem, {**json.loads(path.read_text()), "limit": 50, "rejected_limit": 200}
    for count, layers in ((8, 1024), (8, 128), (1, 1024)):
        model = {"name": f"odd-{count}-{layers}", "huggingface_config": kinds_of_attention(count, layers)}
        yield f"{count} kinds in {layers} layers", worked_request("recommend-inference-chat-70b", model=model)
    yield (
        "a long context",
        worked_request(
            "recommend-inference-deepseek-v3", traffic={"peak_requests_per_s": 100, "input_tokens": 10_000_000}
        ),
    )
    yield (
        "a batch of 10^9 tokens",
        {**worked_request("recommend-training-405b", global_batch_tokens=2**30, deadline_days=1), "limit": 50},
    )


def all_requests(client: TestClient) -> Iterator[Asked]:
    """(method, path, name, body) of every request; IDs are those of answers stored on the way."""
    most: dict[str, Body] = dict(extreme_questions())
    yield from (("POST", "/recommend", name, asked) for name, asked in most.items())
    for path in sorted(BODIES.glob("estimate-*.json")):
        yield "POST", "/estimate", path.stem, json.loads(path.read_text())
        for name, traffic in extreme_traffics():
            made = json.loads(path.read_text())
            made["workload"]["traffic"] = traffic
            if made["workload"]["phase"] == "inference":
                yield "POST", "/estimate", name, made
    named = (
        "four classes",
        "a histogram of 1000 lengths",
        "recommend-inference-deepseek-v3",
        "recommend-training-405b",
    )
    for name in named:
        options = [{"name": f"o{i}", "constraints": {"confidence": 0.6 + i / 40}} for i in range(8)]
        made = {"workload": most[name]["workload"], "options": options}
        yield "POST", "/compare", f"8 options, {name}", made
    for count, layers in ((8, 1024), (8, 200)):
        model = {"huggingface_config": kinds_of_attention(count, layers)}
        yield "POST", "/catalog/models/inspect", f"{count} kinds in {layers} layers", {"model": model}
    judged = json.loads((BODIES / "estimate-llama-70b-8xh100.json").read_text())
    for letters in ('vllm:x{a="', "a_b 1 1\n", 'a{b="c"} 1\n', "iteration 1 loss: 2 |" * 3, " ", "1", "{" * 9):
        for member in ("exposition", "log"):
            yield (
                "POST",
                "/diagnose",
                f"{member} of {letters[:12]!r}",
                {**judged, "observed": {member: (letters * 2_000_000)[:1_990_000]}},
            )
    for name in ("recommend-inference-chat-70b", "recommend-training-405b"):
        identity = client.post("/recommend", json=most[name]).json()["id"]
        for way in ("", "/sensitivity", "/bill-of-materials?format=csv", "/bill-of-materials"):
            yield "GET", f"/recommendations/{identity}{way}", name, None
        yield "POST", f"/recommendations/{identity}/reprice", name, None
    for name in ("accelerators", "systems", "offers", "prices", "models", "engines", "regions", "support"):
        yield "GET", f"/catalog/{name}" + ("" if name == "support" else "?limit=1000"), "", None


def measure_requests(client: TestClient, least_s: float) -> None:
    """Sends every request once and prints the expensive ones."""
    rows = []
    for method, path, name, asked in all_requests(client):
        began = time.process_time()
        answer = client.request(method, path, json=asked)
        took = time.process_time() - began
        row = f"{took:7.2f} CPU s  {answer.status_code}  {method} {path[:60]}: {name}"
        if answer.status_code >= 400:
            row += f" ({answer.json()['detail'][:120]})"
        rows.append((took, row))
        if took >= least_s:
            print(row, flush=True)
    print(f"{len(rows)} requests; the most expensive:")
    print("\n".join(row for _, row in sorted(rows, reverse=True)[:20]))


def main() -> None:
    """Runs the measurement."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dearest", description=__doc__)
    parser.add_argument("--least", type=float, default=0.5, help="CPU seconds from which a request is printed at once")
    asked = parser.parse_args()
    with ExitStack() as stack:
        url = f"sqlite:///{stack.enter_context(tempfile.TemporaryDirectory())}/dearest.sqlite3"
        environment = {**os.environ, "HEADROOM_DATABASE_URL": url}
        subprocess.run([sys.executable, "-m", "app", "prepare"], check=True, capture_output=True, env=environment)
        app = create_app(Settings(database_url=url, access_log="off", request_deadline_s=600))
        client = stack.enter_context(TestClient(app, raise_server_exceptions=False))
        client.get("/readyz")
        client.post("/recommend", json=worked_request("recommend-inference-8b-small-team"))
        measure_requests(client, asked.least)


if __name__ == "__main__":
    main()
