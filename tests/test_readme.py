"""README's worked example is what the running service answers, and what it tells to type is there."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from app.cli import cli

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text()
POSTED = re.findall(r"curl -s localhost:8000(/[\w/]+) .*? -d (?:@(\S+)|'(.*?)')", TEXT, flags=re.DOTALL)


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
    request, answer = (json.loads(block) for block in re.findall(r"```json\n(.*?)```", TEXT, flags=re.DOTALL))
    real = client.post("/recommend", json=request)
    assert real.status_code == 200
    contained(answer, real.json())


@pytest.mark.parametrize(("path", "file", "body"), POSTED)
def test_every_request_it_shows_is_answered(client: TestClient, path: str, file: str, body: str) -> None:
    request = json.loads((ROOT / file).read_text() if file else body)
    assert client.post(path, json=request).status_code == 200


def test_every_file_it_names_exists() -> None:
    for name in re.findall(r"`((?:app|tests|docs|migrations|benchmarks|artefacts)/[\w./-]+)`", TEXT):
        assert (ROOT / name).exists(), name


def test_every_command_it_names_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    commands = {c.name or getattr(c.callback, "__name__", "").replace("_", "-") for c in cli.registered_commands}
    assert set(re.findall(r"(?:`|^ +)make ([a-z-]+)", TEXT, flags=re.MULTILINE)) <= targets
    assert set(re.findall(r"`headroom ([a-z-]+)", TEXT)) <= commands


def test_every_endpoint_is_in_its_table(client: TestClient) -> None:
    paths = set(client.get("/openapi.json").json()["paths"])
    named = {n if n in paths else f"/catalog{n}" for n in re.findall(r"`(?:GET |POST )?(/[\w/{}.-]+)`", TEXT)}
    assert paths <= named
