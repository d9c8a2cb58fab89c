"""README's worked example is what the running service answers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

README = Path(__file__).parents[1] / "README.md"


def contained(part: Any, whole: Any, where: str = "") -> None:
    """Everything in `part` stands in `whole`; lists may be cut short."""
    if isinstance(part, dict):
        for key, value in part.items():
            assert key in whole, f"{where}/{key}"
            contained(value, whole[key], f"{where}/{key}")
    elif isinstance(part, list):
        assert len(part) <= len(whole), where
        for i, value in enumerate(part):
            contained(value, whole[i], f"{where}/{i}")
    else:
        assert part == whole, where


def test_the_worked_example_is_real(client: TestClient) -> None:
    request, answer = (
        json.loads(block) for block in re.findall(r"```json\n(.*?)```", README.read_text(), flags=re.DOTALL)
    )
    real = client.post("/recommend", json=request)
    assert real.status_code == 200
    contained(answer, real.json())


def test_every_file_it_names_exists() -> None:
    text = README.read_text()
    root = README.parent
    for name in re.findall(r"`((?:app|tests|docs|migrations|benchmarks)/[\w./-]+)`", text):
        assert (root / name).exists(), name
    for name in re.findall(r"@([\w./-]+\.json)", text):
        assert (root / name).exists(), name
