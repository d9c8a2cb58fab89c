"""How much work the answer of a worked request may take, in counts that are the same on every machine.

`budgets.toml` states for every worked body the searches, simulated runs of a replica and formula calls. An answer that
takes more fails. One that takes less than half of its budget fails too, so that budgets follow improvements.
`python -m tests.api.test_budgets DATABASE_URL` prints the counts of today in the format of the file.
"""

from __future__ import annotations

import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from app.config import Settings
from app.main import create_app
from app.sizing.formula import Formula
from app.sizing.serving import load_curves
from app.sizing.serving.search import search_plans
from app.sizing.serving.simulation import simulate_replica
from artefacts.service import DAY
from tests.examples import body, body_names

BUDGETS = tomllib.loads(Path(__file__).with_name("budgets.toml").read_text())
COUNTED = {"searches": search_plans, "simulations": simulate_replica}
SPARE = 1.1  # a rounding in the last digit may change how often a search halves an interval
NAMES = [name for name in body_names("") if name.split("-")[0] in ("recommend", "estimate")]


@contextmanager
def counted_work() -> Iterator[Counter[str]]:
    """Counts of the calls while the context is open; nothing simulated before is used again."""
    found: Counter[str] = Counter(dict.fromkeys((*COUNTED, "formula_calls"), 0))
    load_curves.CURVE_CACHE.clear()
    load_curves.SATURATION_CACHE.clear()
    load_curves.POINT_CACHE.clear()
    load_curves.DRAWN_CACHE.clear()

    def counting(name: str, function: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            found[name] += 1
            return function(*args, **kwargs)

        return call

    with pytest.MonkeyPatch.context() as patched:
        for name, function in COUNTED.items():
            counter = counting(name, function)
            for module in [m for n, m in sys.modules.items() if n.startswith("app.")]:
                if getattr(module, function.__name__, None) is function:
                    patched.setattr(module, function.__name__, counter)
        patched.setattr(Formula, "__call__", counting("formula_calls", Formula.__call__))
        yield found


def work_of(client: TestClient, name: str) -> Counter[str]:
    """Counts of the work to answer a worked body."""
    with counted_work() as found:
        asked = {**body(name), "economics": {"electricity_usd_per_kwh": 0.12345}}  # no stored answer has this price
        response = client.post("/" + name.split("-", maxsplit=1)[0], json=asked)
    assert response.status_code == 200, response.text
    return found


@pytest.mark.parametrize("name", NAMES)
def test_an_answer_takes_no_more_than_its_budget(client: TestClient, name: str) -> None:
    taken, budget = work_of(client, name), BUDGETS[name]
    for what, count in taken.items():
        assert count <= SPARE * budget[what], what
        assert 2 * count >= budget[what], f"{what}: lower the budget"


def test_every_worked_body_has_a_budget() -> None:
    assert sorted(BUDGETS) == sorted(NAMES)


if __name__ == "__main__":
    app = create_app(Settings(database_url=sys.argv[1], today=DAY, access_log="off"))
    with TestClient(app) as made:
        for each in NAMES:
            counts = "".join(f"{what} = {count}\n" for what, count in work_of(made, each).items())
            sys.stdout.write(f"[{each}]\n{counts}\n")
