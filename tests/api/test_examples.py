"""The examples of the documentation are what the service answers now."""

from __future__ import annotations

import json
from typing import Any

import pytest
from starlette.testclient import TestClient

from artefacts import examples

DATED = frozenset({"id", "snapshot", "created_at", "next_cursor"})  # of a catalogue, not of the engine


def undated(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: undated(v) for k, v in value.items() if k not in DATED}
    return [undated(v) for v in value] if isinstance(value, list) else value


@pytest.mark.slow
def test_every_schema_shows_an_example_answered_today(client: TestClient) -> None:
    assert undated(json.loads(examples.FILE.read_text())) == undated(examples.make_examples(client)), (
        "make artefacts PART=examples"
    )
