"""docs/walk.md: ten random formulas with their file, their test, and a request whose trace shows them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from starlette.testclient import TestClient

from artefacts.formulas import ROOT, FormulaDoc, all_formulas, tests_of
from artefacts.service import worked_requests

SEED, TEN = 10, 10
HEAD = """# From a formula to its test and its trace line

`make artefacts` writes this page: ten random formulas from [engine.md](engine.md), drawn with a fixed seed. The name of
a formula leads to its file, its test and its trace line:

1. **File.** A formula is in the package of its topic, in the file of its noun: the time of a training step is in
   `app/sizing/training/step.py`. Serving and training use the same file names. The contents of
   [engine.md](engine.md#contents) list the formulas of every file. The formula is the function of that name with the
   decorator `@formula`, which states unit and source. Its docstring lists parameters, limits and a worked example.
2. **Test.** `tests/` mirrors `app/`: `app/sizing/training/step.py` is tested in `tests/sizing/training/test_step.py`,
   or in another file of the same package. `tests/sizing/test_checks.py` runs the worked example of every docstring.
3. **Trace line.** The line has the name of the formula. Add `"trace": true` to the request, send it, and search for the
   name:

       python -c "import json; b = json.load(open('REQUEST')); print(json.dumps({**b, 'trace': True}))" |
         curl -s localhost:8000/recommend -H 'content-type: application/json' -d @- | grep -o '"name":"NAME[^}]*}[^}]*}'

"""


def lines_of(answer: Any) -> Iterator[str]:
    """Names of the trace lines of an answer, without labels."""
    for part in answer.get("recommendations", [answer]):
        yield from (line["name"].partition(" (")[0] for line in part.get("trace") or ())


def traced_formulas(client: TestClient) -> dict[str, str]:
    """For each formula, the first worked request whose trace shows it."""
    found: dict[str, str] = {}
    for name, body in worked_requests().items():
        answer = client.post("/" + name.partition("-")[0], json={**body, "trace": True}).json()
        for line in lines_of(answer):
            found.setdefault(line, f"tests/api/bodies/{name}.json")
    return found


def draw_formulas(shown: dict[str, str]) -> list[FormulaDoc]:
    """Ten random formulas with a test and a trace line, in the order of the page."""
    ready = [t for t in all_formulas() if t.name in shown and tests_of(t)]
    chosen = random.Random(SEED).sample(range(len(ready)), min(TEN, len(ready)))
    return [ready[i] for i in sorted(chosen)]


def table_row(doc: FormulaDoc, shown: dict[str, str]) -> str:
    test = tests_of(doc)[0]
    return f"| `{doc.name}` | `{doc.path}` | `{test}` | `{doc.name}` in `{shown[doc.name]}` |"


def write_walk(client: TestClient) -> None:
    shown = traced_formulas(client)
    head = "| formula | file | test | trace line |\n| --- | --- | --- | --- |"
    (ROOT / "docs" / "walk.md").write_text(
        "\n".join([HEAD.rstrip(), "", head, *(table_row(t, shown) for t in draw_formulas(shown))]) + "\n"
    )
