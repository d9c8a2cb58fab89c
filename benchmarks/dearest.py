"""`python -m benchmarks.dearest`: searches the most expensive requests that the service accepts, in CPU seconds.

The search starts from worked requests, from requests at the limits of the schema and from what the last search found.
It then mutates one of the most expensive requests of each operation in turn, and keeps what costs more, until the time
is used up. Everything is sent to an application in this process with its own database; the caches of the simulation are
emptied before each request.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from app.config import Settings
from app.main import create_app
from app.sizing.serving.load_curves import CURVE_CACHE, DRAWN_CACHE, POINT_CACHE, SATURATION_CACHE
from artefacts.held import read_results
from benchmarks.mutated import mutate_document, sizing_documents

BODIES = Path(__file__).resolve().parent.parent / "tests" / "api" / "bodies"
Body = dict[str, Any]
JSON_BODY = {"content-type": "application/json"}
PARENTS = 6  # most expensive requests of an operation that are mutated
LONGEST_PART = 2000  # bytes of JSON
ANSWERED = ("recommend-inference-chat-70b", "recommend-inference-deepseek-v3", "recommend-training-405b")


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
        if "classes" in traffic:
            small = worked_request("recommend-inference-chat-70b", model="llama-3.1-8b", traffic=traffic, **own)
            limits = {"max_usd_per_hour": 50}
            yield "the largest model", {**small, "maximize": "model", "constraints": limits, "limit": 50}
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


def long_observation() -> Body:
    """A log and two scrapes that are as long as the service reads."""
    status = "INFO metrics.py:486] Avg prompt throughput: 100.0 tokens/s, Avg generation throughput: 200.0 tokens/s, "
    status += "Running: 3 reqs, Swapped: 0 reqs, Pending: 0 reqs, GPU KV cache usage: 3.0%, CPU KV cache usage: 0.0%."
    scrape = "".join(f'vllm:num_requests_running{{engine="{i}"}} 1\n' for i in range(19_900))
    return {
        "log": f"{status}\n" * (1_990_000 // (len(status) + 1)),
        "expositions": [{"text": scrape, "at_s": at_s} for at_s in (1, 2)],
    }


def last_found() -> dict[str, list[tuple[str, Any]]]:
    """The most expensive request of each operation in the last results, without its long parts."""
    last = read_results().get("dearest", {"figures": {"search": {}}})["figures"]["search"]
    return {operation: [(f["origin"], f["document"])] for operation, f in last.items()}


def starts() -> dict[str, list[tuple[str, Any]]]:
    """Named requests by operation, from which the search starts."""
    most = dict(extreme_questions())
    estimates = [(path.stem, json.loads(path.read_text())) for path in sorted(BODIES.glob("estimate-*.json"))]
    served = estimates[1][1]
    varied = [
        (name, {**served, "workload": {**served["workload"], "traffic": traffic}})
        for name, traffic in extreme_traffics()
    ]
    compared = []
    for name in ("four classes", "a histogram of 1000 lengths", "recommend-inference-deepseek-v3"):
        options = [{"name": f"o{i}", "constraints": {"max_accelerators": 8 + i}} for i in range(8)]
        compared.append((f"8 options, {name}", {"workload": most[name]["workload"], "options": options}))
    pasted = [
        (f"{member} of {letters[:12]!r}", {**served, "observed": {member: (letters * 2_000_000)[:1_990_000]}})
        for letters in ('vllm:x{a="', "a_b 1 1\n", "iteration 1 loss: 2 |" * 3, "{" * 9)
        for member in ("exposition", "log")
    ]
    pasted.append(("a log and two scrapes", {**served, "observed": long_observation()}))
    odd = [
        (f"{count} kinds in {layers} layers", {"model": {"huggingface_config": kinds_of_attention(count, layers)}})
        for count, layers in ((8, 1024), (8, 200))
    ]
    small = sizing_documents()
    fresh = {
        "POST /recommend": [*most.items()],
        "POST /estimate": [*estimates, *varied],
        "POST /compare": [*compared, ("phases", small["/compare"][1])],
        "POST /diagnose": [*pasted, *(("worked", each) for each in small["/diagnose"])],
        "POST /catalog/models/inspect": [*odd, ("worked", small["/catalog/models/inspect"][1])],
        "POST /catalog/models/runnable": [
            ("worked", {"inventory": [{"accelerator": "a6000", "count": 4}]}),
            ("no model is fast enough", {"inventory": [{"accelerator": "l4", "count": 1}], "min_tokens_per_s": 1e5}),
            ("no offer is cheap enough", {"constraints": {"max_usd_per_hour": 0.01}, "limit": 50}),
            ("long sequences", {"constraints": {"max_usd_per_hour": 100}, "limit": 50, "sequence_length": 100_000}),
        ],
        "GET /recommendations/{id}/sensitivity": [(name, most[name]) for name in ANSWERED],
    }
    last = last_found()
    return {operation: [*documents, *last.get(operation, ())] for operation, documents in fresh.items()}


@dataclass(order=True)
class Found:
    """An accepted request, what it cost, and the request that it descends from."""

    cpu_s: float
    origin: str = field(compare=False)
    document: Any = field(compare=False)


class DearestSearch:
    """Search of one operation: the most expensive accepted requests so far, and counts of those sent."""

    def __init__(self, client: TestClient, operation: str) -> None:
        self._client, (self._method, self._path) = client, operation.split()
        self.sent, self.accepted = 0, 0
        self.most: list[Found] = []

    def try_request(self, origin: str, document: Any) -> None:
        """Sends a request, and keeps it if it is among the most expensive ones."""
        self.sent += 1
        cpu_s = self.cost_of(document)
        if cpu_s is not None:
            if self.most and cpu_s > self.most[0].cpu_s:  # other programs can only lengthen a measurement
                cpu_s = min(cpu_s, self.cost_of(document) or cpu_s)
            self.accepted += 1
            self.most = sorted([*self.most, Found(cpu_s, origin, document)], reverse=True)[:PARENTS]

    def cost_of(self, document: Any) -> float | None:
        """CPU seconds of a request; None if it is refused."""
        path, takes_reference = self._path, self._path in ("/recommend", "/compare") or "{id}" in self._path
        if takes_reference and isinstance(document, dict):  # a reference that no stored answer has
            document = {**document, "reference": f"search {time.monotonic()}"}
        content = json.dumps(document).encode()
        if "{id}" in path:
            answered = self._client.post("/recommend", content=content, headers=JSON_BODY)
            if answered.status_code != 200:
                return None
            path, content = path.replace("{id}", answered.json()["id"]), b""
        for cache in (CURVE_CACHE, SATURATION_CACHE, POINT_CACHE, DRAWN_CACHE):
            cache.clear()
        began = time.process_time()
        answer = self._client.request(self._method, path, content=content, headers=JSON_BODY if content else {})
        return time.process_time() - began if answer.status_code == 200 else None

    def figures(self) -> dict[str, Any]:
        """Counts, and the most expensive request without its long parts."""
        dearest = self.most[0]
        return {
            "sent": self.sent,
            "accepted": self.accepted,
            "cpu_s": round(dearest.cpu_s, 2),
            "origin": dearest.origin,
            "document": shortened(dearest.document),
        }

    def mutate_one(self, pool: list[Any], chance: random.Random) -> None:
        """Sends a mutation of one of the most expensive requests."""
        parent = chance.choice(self.most)
        self.try_request(parent.origin, mutate_document(parent.document, pool, chance))


def shortened(node: Any) -> Any:
    """A document without parts that are long as JSON."""
    if isinstance(node, dict):
        return {key: shortened(below) for key, below in node.items()}
    return node if len(json.dumps(node)) < LONGEST_PART else f"{len(json.dumps(node))} bytes"


def parts_of(node: Any) -> Iterator[Any]:
    """Every part of a document that is not itself long."""
    for below in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        if len(json.dumps(below)) < LONGEST_PART:
            yield below
        yield from parts_of(below) if isinstance(below, dict) else ()


def search_dearest(client: TestClient, minutes: float, seed: int) -> dict[str, dict[str, Any]]:
    """(requests sent, accepted, most expensive one) of each operation, after a number of minutes of CPU time."""
    known, chance, until = starts(), random.Random(seed), time.process_time() + 60 * minutes
    pool = [part for documents in known.values() for _, document in documents for part in parts_of(document)]
    searches = {operation: DearestSearch(client, operation) for operation in known}
    for operation, documents in known.items():
        for origin, document in documents:
            searches[operation].try_request(origin, document)
        print(f"{operation}: " + ", ".join(f"{m.cpu_s:.2f} {m.origin}" for m in searches[operation].most), flush=True)
    with suppress(KeyboardInterrupt):  # ends the search early
        while time.process_time() < until:
            for search in searches.values():
                search.mutate_one(pool, chance)
    return {operation: search.figures() for operation, search in searches.items()}


def worked_costs(client: TestClient) -> dict[str, float]:
    """CPU seconds of each worked request by name."""
    found = {}
    for path in sorted(BODIES.glob("*.json")):
        cost = DearestSearch(client, f"POST /{path.stem.partition('-')[0]}").cost_of(json.loads(path.read_text()))
        found[path.stem] = round(cost or 0.0, 3)
    return found


def measure_dearest(*, minutes: float, seed: int = 1) -> dict[str, Any]:
    """CPU seconds of the worked requests, and the most expensive request of each operation that a search found."""
    with measured_service() as client:
        worked, began = worked_costs(client), time.process_time()
        found = search_dearest(client, minutes, seed)
        return {"minutes": round((time.process_time() - began) / 60, 1), "worked": worked, "search": found}


@contextmanager
def measured_service() -> Iterator[TestClient]:
    """A client of an application in this process, with a database of its own and without a deadline."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/dearest.sqlite3"
        environment = {**os.environ, "HEADROOM_DATABASE_URL": url}
        subprocess.run([sys.executable, "-m", "app", "prepare"], check=True, capture_output=True, env=environment)
        app = create_app(Settings(database_url=url, access_log="off", log_level="error", request_deadline_s=600))
        with TestClient(app, raise_server_exceptions=False) as client:
            client.get("/readyz")
            client.post("/recommend", json=worked_request("recommend-inference-8b-small-team"))
            yield client


def main() -> None:
    """Runs the search and prints what it found."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dearest", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0, help="CPU time of the search")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    print(json.dumps(measure_dearest(minutes=asked.minutes, seed=asked.seed), indent=1))


if __name__ == "__main__":
    main()
