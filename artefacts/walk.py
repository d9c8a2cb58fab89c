"""docs/walk.md: ten formulas drawn from the pages, each with its file, its tests and a request whose trace shows it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from starlette.testclient import TestClient

from artefacts.formulas import ROOT, Told, all_told, tests_of
from artefacts.service import bodies

SEED, TEN = 10, 10
HEAD = """# From a formula to its test and its trace line

Written by `make artefacts`: ten formulas drawn by a seeded die from [engine.md](engine.md). Names lead from one to the
next, so that none of it has to be searched for:

1. **File.** A formula stands in the room it is about, in the file of its noun: time of a training step is
   `app/sizing/training/step.py`. Serving and training have the same file names. It is the function of that name under
   `@formula`; its docstring says source, limits and a worked example.
2. **Test.** `tests/` mirrors `app/`: `app/sizing/training/step.py` is tested in `tests/sizing/training/test_step.py`,
   or in its room by what it is part of. Every worked example of a docstring runs in `tests/sizing/test_checks.py`.
3. **Trace line.** The line carries the formula's name. Add `"trace": true` to the request, post it, look for the name:

       python -c "import json; b = json.load(open('REQUEST')); print(json.dumps({**b, 'trace': True}))" |
         curl -s localhost:8000/recommend -H 'content-type: application/json' -d @- | grep -o '"name":"NAME[^}]*}[^}]*}'

"""


def lines_of(answer: Any) -> Iterator[str]:
    """Names of the trace lines of an answer, labels left out."""
    for part in answer.get("recommendations", [answer]):
        yield from (line["name"].partition(" (")[0] for line in part.get("trace") or ())


def traced(client: TestClient) -> dict[str, str]:
    """The first worked request whose trace shows a formula, by the formula's name."""
    found: dict[str, str] = {}
    for name, body in bodies().items():
        answer = client.post("/" + name.partition("-")[0], json={**body, "trace": True}).json()
        for line in lines_of(answer):
            found.setdefault(line, f"tests/api/bodies/{name}.json")
    return found


def drawn(shown: dict[str, str]) -> list[Told]:
    """Ten formulas that have a test and a line, by a seeded draw over the page's order."""
    ready = [t for t in all_told() if t.name in shown and tests_of(t)]
    chosen = random.Random(SEED).sample(range(len(ready)), min(TEN, len(ready)))
    return [ready[i] for i in sorted(chosen)]


def row(told: Told, shown: dict[str, str]) -> str:
    test = tests_of(told)[0]
    return f"| `{told.name}` | `{told.path}` | `{test}` | `{told.name}` in `{shown[told.name]}` |"


def write(client: TestClient) -> None:
    shown = traced(client)
    head = "| formula | file | test | trace line |\n| --- | --- | --- | --- |"
    (ROOT / "docs" / "walk.md").write_text(
        "\n".join([HEAD.rstrip(), "", head, *(row(t, shown) for t in drawn(shown))]) + "\n"
    )
