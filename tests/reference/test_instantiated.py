"""The reference configurations counted on models that transformers instantiates; run by make test-traced."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from tests.reference.instantiate import RECORDED, instantiated

pytestmark = pytest.mark.torch
CASES = [json.loads(line) for line in RECORDED.read_text().splitlines()]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["config"]["model_type"])
def test_the_recorded_count_is_the_instantiated_one(case: dict[str, Any]) -> None:
    assert instantiated(copy.deepcopy(case["config"])) == case["parameters"]
