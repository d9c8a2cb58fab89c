"""`python -m benchmarks.mutated`: sends mutated bodies to every operation that takes one, and checks the answers.

Each body starts from a valid one of its operation: JSON documents get other values, lose, gain or exchange parts, or
are corrupted as text; forms and cXML documents are corrupted too. Rules: no server error, every rejection is a problem
document or the page or cXML status of its operation, none repeats the request, and none takes more than MOST_CPU_S.
The service has no deadline, so that other programs on the machine cause no 503. `--minutes` ends the run earlier.
"""

from __future__ import annotations

import argparse
import copy
import json
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from fastapi import FastAPI
from starlette.testclient import TestClient

from app.api.schemas.private import HARDWARE, OFFER, SYSTEM
from app.catalog.keys import Scope, create_key
from app.config import Settings
from app.db import make_engine
from app.main import create_app
from benchmarks.databases import KINDS, prepare_database
from benchmarks.nonsense import EXTREMES, LONG, broken_rules, corrupt_bytes, value_paths, with_value

JSON, FORM, XML = "application/json", "application/x-www-form-urlencoded", "text/xml"
EXAMPLES = Path(__file__).resolve().parent.parent / "app" / "api" / "examples"
HERE = "https://headroom.example"
MOST_CPU_S = 5.0  # of one request
CORRUPTED = 0.2  # share of JSON bodies that are corrupted as text
PARAMETER = re.compile(r"rec_[0-9a-f]+|(?<=sessions/)[\w-]+")
FACTORS = (1e-6, 0.01, 0.5, 2, 3, 10, 1000, 1e9)  # of numbers

Json = Any


@dataclass(frozen=True, slots=True)
class Sent:
    """One request."""

    method: str
    path: str
    raw: bytes
    media_type: str


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation that takes a body: where it is sent to, and valid bodies, as JSON documents or as text."""

    method: str
    path: str
    documents: tuple[Json, ...] = ()
    texts: tuple[str, ...] = ()
    media_type: str = JSON
    query: str = ""


def example(name: str) -> Json:
    """The example of a component of the API document."""
    return json.loads((EXAMPLES / "schemas.json").read_text())[name]


def sizing_documents() -> dict[str, tuple[Json, ...]]:
    """Small valid requests of the sizing operations by path, cheap to answer."""
    traffic = {"peak_requests_per_s": 2, "input_tokens": {"mean": 900, "p95": 2000}, "output_tokens": 200}
    serving = {"phase": "inference", "model": "meta-llama/Llama-3.1-8B", "traffic": traffic, "slo": {"ttft_ms": 2000}}
    tuning = {
        "phase": "fine_tuning",
        "model": "meta-llama/Llama-3.1-8B",
        "method": "lora",
        "training_tokens": 5e7,
        "sequence_length": 4096,
        "deadline_hours": 24,
    }
    few = {"accelerators": ["nvidia-l4", "nvidia-l40s"], "pricing_models": ["on_demand"], "max_accelerators": 8}
    economics = {"horizon_months": 36, "electricity_usd_per_kwh": 0.1, "pue": 1.3}
    question = {"workload": serving, "constraints": few, "objective": "cost", "economics": economics, "limit": 2}
    question |= {"label": "punch-out"}
    options = [{"name": "a", "constraints": few}, {"name": "b", "deployment": {"accelerator": "nvidia-l4"}}]
    phases = {"inference": {"traffic": traffic}, "training": {"training_tokens": 1e10, "deadline_days": 30}}
    log = "\n".join(f"iteration {i}/ 100 | elapsed time per iteration (ms): 210.5 | lm loss: 2.5 |" for i in range(4))
    observed = {"exposition": 'vllm:num_requests_running{model_name="m"} 3\n', "service": {"requests_per_s": 2}}
    training = {"workload": tuning, "deployment": {"accelerator": "nvidia-h100-sxm5-80gb"}, "observed": {"log": log}}
    return {
        "/recommend": (question, {"workload": tuning, "constraints": few, "limit": 1, "label": "mutated"}),
        "/estimate": (
            {"workload": serving, "deployment": {"accelerator": "nvidia-l4", "replicas": 2}, "economics": economics},
            {"workload": tuning, "deployment": {"accelerator": "nvidia-h100-sxm5-80gb", "total_accelerators": 2}},
        ),
        "/compare": (
            {"workload": serving, "options": options},
            {"model": "meta-llama/Llama-3.1-8B", "phases": phases, "constraints": few},
        ),
        "/diagnose": (
            example("DiagnoseRequest"),
            {"workload": serving, "deployment": {"accelerator": "nvidia-l4"}, "observed": observed},
            training,
        ),
        "/catalog/models/inspect": (
            example("InspectRequest"),
            {"model": "meta-llama/Llama-3.1-8B", "lora": {"rank": 8}},
        ),
    }


def private_operations() -> Iterator[Operation]:
    """Writes of private records, as documents and as tables, and an upload of a result file."""
    from tests.observed.result_files import SCREEN, VLLM  # noqa: PLC0415

    for path, record in (("inventory", HARDWARE), ("offers", OFFER), ("systems", SYSTEM)):
        other = {**record, "name": "other", "note": "second"}
        tables = tuple(f"{','.join(each)}\n{','.join(map(str, each.values()))}\n" for each in (record, other))
        yield Operation("POST", f"/catalog/{path}", (record, {"items": [record, other]}))
        yield Operation("POST", f"/catalog/{path}", texts=tables, media_type="text/csv")
    served = "accelerator=nvidia-l4&accelerators=1&engine=vllm&engine_version=0.10.0&weight_format=bf16"
    yield Operation("POST", "/measurements", (VLLM,), query=f"{served}&input_tokens=1024&output_tokens=256")
    text_query = f"{served.replace('accelerators=1', 'accelerators=2')}&tensor_parallel=2"
    yield Operation("POST", "/measurements", texts=(f"{SCREEN}\n",), media_type="text/plain", query=text_query)


def tool_calls(documents: Mapping[str, tuple[Json, ...]]) -> tuple[Json, ...]:
    """The same requests as calls of the tools for agents."""
    return tuple(
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": path.rpartition("/")[2], "arguments": each},
        }
        for path, found in documents.items()
        for each in found
    )


def operations(client: TestClient) -> dict[tuple[str, str], tuple[Operation, ...]]:
    """Every operation that takes a body, in each form that it takes, by method and path template. Stores an answer and
    opens a session first.
    """
    from tests.procurement.buyer import ACME, HOOK, PASSWORD, parsed, setup_request  # noqa: PLC0415

    documents = sizing_documents()
    identity = client.post("/recommend", json=documents["/recommend"][0]).json()["id"]
    opened = client.post("/procurement/punchout", content=setup_request(), headers={"content-type": XML})
    session = parsed(opened.content).findtext(".//StartPage/URL").removeprefix(HERE)
    oci = {"USERNAME": str(ACME.username), "PASSWORD": PASSWORD, "HOOK_URL": HOOK, "~OkCode": "ADDI", "~TARGET": "_top"}
    forms = (
        {"recommendation": identity, "rank": "1"},
        {"model": "meta-llama/Llama-3.1-8B", "requests_per_s": "2", "input_tokens": "500", "output_tokens": "100"},
        {"leave": "1"},
    )
    statuses = ({"status": "approved", "by": "somebody", "note": "checked"}, {"status": "draft", "by": "somebody"})
    found = [
        *(Operation("POST", path, each) for path, each in documents.items()),
        Operation("POST", "/catalog/models/runnable", ({"inventory": [{"accelerator": "a6000", "count": 4}]},)),
        Operation("POST", "/mcp", tool_calls(documents)),
        Operation("PATCH", f"/recommendations/{identity}", statuses),
        Operation("POST", f"/recommendations/{identity}/reprice", ({}, {"rank": 1})),
        Operation("POST", "/procurement/punchout", texts=(setup_request(), setup_request("edit")), media_type=XML),
        Operation("POST", "/procurement/oci", texts=(urlencode(oci),), media_type=FORM),
        Operation("POST", session, texts=tuple(urlencode(each) for each in forms), media_type=FORM),
        *private_operations(),
    ]
    token = session.rpartition("/")[2]
    known: dict[tuple[str, str], tuple[Operation, ...]] = {}
    for each in found:
        name = (each.method, each.path.replace(identity, "{id}").replace(token, "{token}"))
        known[name] = (*known.get(name, ()), each)
    return known


def value_at(node: Json, way: tuple[Any, ...]) -> Json:
    """The value at a path of a document."""
    for step in way:
        node = node[step]
    return node


def mutate_document(document: Json, pool: list[Json], chance: random.Random) -> Json:
    """A document with one to three changes: another value, a part of another document, or a part less or more."""
    made = copy.deepcopy(document)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        ways = list(value_paths(made))
        if not ways:
            return chance.choice(pool)
        way, kind = chance.choice(ways), chance.randrange(6)
        numbers = [each for each in ways if isinstance(value_at(made, each), int | float)]
        if kind >= 4 and numbers:
            way = chance.choice(numbers)
            made = with_value(made, way, value_at(made, way) * chance.choice(FACTORS))
        elif kind in (0, 4, 5):
            made = with_value(made, way, chance.choice(EXTREMES))
        elif kind == 1:
            made = with_value(made, way, copy.deepcopy(chance.choice(pool)))
        else:
            holder = value_at(made, way[:-1])
            if kind == 2:
                del holder[way[-1]]
            elif isinstance(holder, dict):
                holder[chance.choice(("confidence", "trace", "maximize", "day", "classes", LONG))] = copy.deepcopy(
                    chance.choice(pool)
                )
            else:
                holder.extend(holder[:1] * chance.choice((1, 40)))
    return made


def mutated_requests(known: Mapping[tuple[str, str], tuple[Operation, ...]], chance: random.Random) -> Iterator[Sent]:
    """Requests to all operations in turn, without an end."""
    every = [operation for forms in known.values() for operation in forms]
    pool = [value for operation in every for each in operation.documents for value in _values(each)]
    while True:
        for operation in every:
            if operation.texts:
                raw = corrupt_bytes(chance.choice(operation.texts).encode(), chance)
            else:
                raw = json.dumps(mutate_document(chance.choice(operation.documents), pool, chance)).encode()
                raw = corrupt_bytes(raw, chance) if chance.random() < CORRUPTED else raw
            query = operation.query
            if query and chance.random() < CORRUPTED:
                query = "&".join(part for part in query.split("&") if chance.random() < 0.8)
            yield Sent(
                operation.method, f"{operation.path}?{query}" if query else operation.path, raw, operation.media_type
            )


def _values(node: Json) -> Iterator[Json]:
    yield node
    for below in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from _values(below)


def faults(sent: Sent, answer: Any) -> list[str]:
    """The rules that an answer breaks."""
    if sent.path.startswith(("/procurement", "/mcp")):  # pages, cXML and JSON-RPC have forms of their own
        broken = [f"{answer.status_code}"] if answer.status_code >= 500 else []
        if b"internal error" in answer.content.lower() or b'code="500"' in answer.content:
            broken.append("internal error")
        return broken
    return broken_rules(answer.status_code, answer.headers, answer.content, 0.0)


def run_mutations(
    client: TestClient, *, count: int, seed: int, until: float = float("inf")
) -> tuple[list[str], dict[str, Counter[int]]]:
    """Sends `count` requests, or as many as fit before `until`; returns a line for each broken rule, and the statuses
    of each operation.
    """
    known = operations(client)
    broken, statuses = [], dict[str, Counter[int]]()
    headers = {"accept": "application/json, text/event-stream", "if-match": "*"}
    for number, sent in enumerate(mutated_requests(known, random.Random(seed))):
        if number >= count or time.monotonic() > until:
            break
        began = time.process_time()
        answer = client.request(
            sent.method, sent.path, content=sent.raw, headers={**headers, "content-type": sent.media_type}
        )
        cpu_s = time.process_time() - began
        operation = f"{sent.method} {PARAMETER.sub('{id}', sent.path.partition('?')[0])} {sent.media_type}"
        statuses.setdefault(operation, Counter())[int(answer.status_code)] += 1
        slow = [f"{cpu_s:.1f} CPU seconds"] if cpu_s > MOST_CPU_S else []
        for fault in (*faults(sent, answer), *slow):
            broken.append(f"{fault}: {sent.method} {sent.path} {sent.raw.decode(errors='replace')}"[:1500])
            print(f"BROKEN {broken[-1]}", flush=True)
    for operation, counts in statuses.items():
        print(f"{operation}: {sum(counts.values())} requests, {dict(sorted(counts.items()))}")
    return broken, statuses


def make_app(url: str) -> FastAPI:
    """The application with buyers, whose desk takes any number of wrong secrets."""
    from app.procurement.desk import GuessLimit  # noqa: PLC0415
    from tests.procurement.buyer import ACME  # noqa: PLC0415

    class Patient(GuessLimit):
        def check(self, address: str) -> None:
            """Accepts every attempt."""

    settings = Settings(
        database_url=url,
        log_level="error",
        access_log="off",
        request_deadline_s=600,
        public_url=HERE,
        punchout_buyers=(ACME,),
        mcp_hosts=("*",),
    )
    app = create_app(settings)
    app.state.desk._guesses = Patient()
    return app


def authorize(client: TestClient, url: str) -> None:
    """Creates a key with every scope and sends it with each request of the client."""
    engine = make_engine(url)
    with engine.begin() as connection:
        key, _ = create_key(connection, tenant="public", name="mutated", scopes={Scope.ADMIN}, now=datetime.now(UTC))
    engine.dispose()
    client.headers["authorization"] = f"Bearer {key}"


def measure_mutations(kind: str, *, count: int, minutes: float, seed: int = 1) -> dict[str, Any]:
    """Requests by status over all operations, and the broken rules."""
    until = time.monotonic() + 60 * minutes
    with ExitStack() as stack:
        environment, _ = stack.enter_context(prepare_database(kind))
        url = environment["HEADROOM_DATABASE_URL"]
        client = stack.enter_context(TestClient(make_app(url), base_url=HERE, raise_server_exceptions=False))
        client.follow_redirects = False
        while client.get("/readyz").status_code != 200:  # the catalog is loaded in the background
            time.sleep(0.1)
        authorize(client, url)
        broken, by_operation = run_mutations(client, count=count, seed=seed, until=until)
    statuses = sum(by_operation.values(), Counter[int]())
    return {
        "seed": seed,
        "operations": len(by_operation),
        "requests": statuses.total(),
        "statuses": {str(status): statuses[status] for status in sorted(statuses)},
        "broken": broken,
    }


def main() -> None:
    """Runs the campaign; the exit status is 1 if a rule was broken."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mutated", description=__doc__)
    parser.add_argument("--count", type=int, default=30_000)
    parser.add_argument("--minutes", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--database", choices=KINDS, default="sqlite")
    asked = parser.parse_args()
    found = measure_mutations(asked.database, count=asked.count, minutes=asked.minutes, seed=asked.seed)
    print(f"{len(found['broken'])} broken rules")
    sys.exit(bool(found["broken"]))


if __name__ == "__main__":
    main()
