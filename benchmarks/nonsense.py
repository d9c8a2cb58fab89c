"""`python -m benchmarks.nonsense`: sends thousands of bad requests and checks the answers.

The requests are single fields of every worked request at 43 extreme values, corrupted, cut or duplicated bodies, absurd
configurations, and odd query strings, sent to an application in this process. The output lists statuses, broken rules,
the slowest and most expensive requests, and whether every stored answer is complete. Rules: no server error; every
rejection is a short problem document that does not repeat the request or contain invisible characters; no answer is
slow or contains a value that is not a number.
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
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import text
from starlette.testclient import TestClient

from app.api.problems import problem_kinds
from app.config import Settings
from app.db import make_engine
from app.main import create_app
from benchmarks.databases import prepare_database

BODIES = Path(__file__).resolve().parent.parent / "tests" / "api" / "bodies"
EXTREMES: tuple[Any, ...] = (
    *(0, 1, -1, 0.5, -0.5, 2, 3, 7, 1e-9, 1e-300, 5e-324, 2.2250738585072014e-308, -5e-324, -0.0, 1e3, 1e6, 1e9),
    *(2**31, 2**53, 2**63 - 1, 2**63, 2**64, 10**30, -(2**63), -(10**30), 1e15, 1e18, 1e100, 1.7976931348623157e308),
    *(True, False, None, "", " ", "0", "NaN", "\u0000", "a" * 5000, "\u202e", [], {}, [[]], {"a": 1}),
)
UNSEEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]")
LONG = "a" * 300  # part of some requests; no answer may repeat it
MOST_REFUSED_BYTES, MOST_ERRORS, MOST_S = 8192, 20, 2.0
QUERIES = (
    "limit",
    "cursor",
    "q",
    "vendor",
    "provider",
    "accelerator",
    "model",
    "label",
    "created_after",
    "status",
    "x",
)
LISTS = ("accelerators", "systems", "offers", "prices", "models", "engines", "providers", "regions", "assumptions")
COUNTED = ("num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads", "vocab_size", "head_dim")

Sent = tuple[str, str, bytes | None]


def value_paths(node: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Path of every value in a document."""
    if way:
        yield way
    for key, held in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        yield from value_paths(held, (*way, key))


def with_value(document: Any, way: tuple[Any, ...], value: Any) -> Any:
    made = copy.deepcopy(document)
    node = made
    for step in way[:-1]:
        node = node[step]
    node[way[-1]] = value
    return made


def extreme_fields(chance: random.Random) -> Iterator[Sent]:
    """Requests with a single field at an extreme value."""
    every = []
    for path in sorted(BODIES.glob("*.json")):
        document = json.loads(path.read_text())
        every += [(path, document, way, value) for way in value_paths(document) for value in EXTREMES]
    chance.shuffle(every)
    for path, document, way, value in every:
        yield "POST", "/" + path.stem.split("-")[0], json.dumps(with_value(document, way, value)).encode()


def corrupt_bytes(raw: bytes, chance: random.Random) -> bytes:
    """A text with one to eight places overwritten, removed, repeated or filled with another token."""
    made = bytearray(raw)
    for _ in range(chance.choice((1, 1, 2, 8))):
        if not made:
            break
        at = chance.randrange(len(made))
        kind = chance.randrange(4)
        if kind == 0:
            made[at] = chance.randrange(256)
        elif kind == 1:
            del made[at : at + chance.randrange(1, 40)]
        elif kind == 2:
            made[at:at] = made[at : at + chance.randrange(1, 40)]
        else:
            made[at:at] = chance.choice((b"{", b"]", b'"', b"\\u0000", b"NaN", b"1e999", b"-", LONG.encode()))
    return bytes(made)


def corrupted_bodies(chance: random.Random) -> Iterator[Sent]:
    raws = [(p.stem.split("-")[0], p.read_bytes()) for p in sorted(BODIES.glob("*.json"))]
    while True:
        name, raw = chance.choice(raws)
        yield "POST", f"/{name}", corrupt_bytes(raw, chance)


def absurd_configurations(chance: random.Random) -> Iterator[Sent]:
    """Requests with randomly altered model configurations."""
    from app.catalog.seed import model_entries  # noqa: PLC0415

    configs = [entry["config"] for entry in model_entries()]
    while True:
        config = copy.deepcopy(chance.choice(configs))
        for _ in range(chance.choice((1, 2, 5))):
            way = chance.choice([*value_paths(config), *((name,) for name in COUNTED)])
            config = with_value(config, way, chance.choice(EXTREMES))
        yield "POST", "/catalog/models/inspect", json.dumps({"model": {"huggingface_config": config}}).encode()


def odd_queries(chance: random.Random) -> Iterator[Sent]:
    """Lists and IDs with odd query strings and paths."""
    words = [str(e) for e in EXTREMES] + ["%00", "%FF%FE", "..%2F", "AGFi", "2026-99-99", LONG]
    while True:
        said = "&".join(f"{chance.choice(QUERIES)}={quote(chance.choice(words), safe='%')[:300]}" for _ in range(2))
        path = chance.choice((*(f"/catalog/{name}" for name in LISTS), "/recommendations", "/catalog/support"))
        own = f"/recommendations/{quote(chance.choice(words), safe='%')[:80]}"
        yield chance.choice(("GET", "GET", "HEAD", "PUT")), chance.choice((f"{path}?{said}", own)), None


def all_strings(node: Any) -> Iterator[str]:
    """Every string in a document."""
    if isinstance(node, str):
        yield node
    elif isinstance(node, dict | list):
        for held in node.values() if isinstance(node, dict) else node:
            yield from all_strings(held)


def broken_rules(status: int, headers: Any, body: bytes, took_s: float) -> list[str]:
    """The rules that an answer breaks."""
    found = []
    if status >= 500 and not (status == 503 and "retry-after" in headers):
        found.append(f"{status}")
    if took_s > MOST_S:
        found.append("slow")
    if status >= 400 and body:
        problem = json.loads(body) if headers.get("content-type") == "application/problem+json" else None
        if problem is None or problem["type"].rpartition("/")[2] not in problem_kinds():
            found.append("no problem document")
        elif len(body) > MOST_REFUSED_BYTES or len(problem.get("errors", ())) > MOST_ERRORS:
            found.append("long problem document")
        if LONG.encode() in body:
            found.append("repeats the request")
        if any(UNSEEN.search(said) for said in all_strings(problem)):
            found.append("contains invisible characters")
    elif status == 200 and headers.get("content-type") == "application/json":
        found += [f"says {word.decode()}" for word in (b":NaN", b":Infinity", b" nan ", b" inf ") if word in body]
    return found


def run_campaign(client: TestClient, count: int, seed: int) -> bool:
    """Sends the requests and prints the results; True if no rule was broken."""
    chance = random.Random(seed)
    shares = {
        "fields": (extreme_fields, 0.6),
        "bodies": (corrupted_bodies, 0.15),
        "configurations": (absurd_configurations, 0.15),
    }
    well = True
    for name, (kind, share) in {**shares, "queries": (odd_queries, 0.1)}.items():
        statuses: Counter[int] = Counter()
        worst: list[tuple[float, float, str]] = []
        slowest = 0.0
        for i, (method, path, raw) in enumerate(kind(chance)):
            if i >= count * share:
                break
            began, cpu = time.perf_counter(), time.process_time()
            answer = client.request(method, path, content=raw, headers={"content-type": "application/json"})
            took, cpu = time.perf_counter() - began, time.process_time() - cpu
            slowest = max(slowest, took)
            statuses[answer.status_code] += 1
            worst = sorted([*worst, (cpu, took, f"{method} {path} {(raw or b'')[:0].decode()}")], reverse=True)[:3]
            for fault in broken_rules(answer.status_code, answer.headers, answer.content, cpu):
                well = False
                print(f"BROKEN {fault}: {method} {path} {(raw or b'').decode(errors='replace')}"[:1500], flush=True)
        print(f"{name}: {sum(statuses.values())} requests, {dict(sorted(statuses.items()))}")
        print(f"  slowest: {slowest:.2f} s")
        print("  most expensive: " + "; ".join(f"{cpu:.2f} CPU s {path[:40]}" for cpu, _, path in worst), flush=True)
    return well


def half_written(client: TestClient, url: str) -> tuple[int, int]:
    """(answers in the database, incomplete answers among them)."""
    engine = make_engine(url)
    with engine.connect() as connection:
        names = [str(name) for name in connection.scalars(text("SELECT id FROM recommendations"))]
    engine.dispose()
    read = {name: client.get(f"/recommendations/{name}") for name in names}
    return len(names), sum(answer.status_code != 200 or answer.json()["id"] != n for n, answer in read.items())


def main() -> None:
    """Runs the campaign; the exit status is 1 if a rule was broken."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.nonsense", description=__doc__)
    parser.add_argument("--count", type=int, default=30_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--database", help="URL of a prepared database; default: a temporary SQLite database")
    asked = parser.parse_args()
    with ExitStack() as stack:
        url = asked.database
        if url is None:
            environment, _ = stack.enter_context(prepare_database("sqlite"))
            url = environment["HEADROOM_DATABASE_URL"]
        app = create_app(Settings(database_url=url, log_level="error"))
        client = stack.enter_context(TestClient(app, raise_server_exceptions=False))
        client.get("/readyz")
        well = run_campaign(client, asked.count, asked.seed)
        stored, broken = half_written(client, url)
        print(f"{stored} answers stored, {broken} of them incomplete")
        sys.exit(broken > 0 or not well)


if __name__ == "__main__":
    main()
