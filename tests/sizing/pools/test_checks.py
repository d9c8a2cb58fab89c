"""What two pools cannot be asked for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from app.errors import Conflict
from app.sizing.workload import Load
from tests.sizing.pools.given import ONE, pools_of, split
from tests.sizing.serving.given import STEADY

OPEN: dict[str, Any] = {"tensor_parallel": 1}


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"replicas": 3}, "replicas is said of each pool"),
        ({"engine": "llama.cpp"}, "these engines do: vllm, sglang, tensorrt-llm"),
        ({"total_accelerators": 16}, "say it in prefill and in decode"),
    ],
)
def test_what_belongs_to_a_pool_is_not_said_of_both(said: dict[str, Any], words: str) -> None:
    with pytest.raises(Conflict, match=words):
        split(pools_of(), **said)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"load": Load.OFFLINE}, "traffic that goes on"),
        ({"load": Load.BATCH, "in_flight": 8.0}, "traffic that goes on"),
        ({"load": Load.CLOSED, "in_flight": 8.0, "requests": 100.0}, "traffic that goes on"),
    ],
)
def test_work_that_ends_has_no_pools(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(Conflict, match=words):
        split(pools_of(), workload=replace(STEADY, **changes))


def test_a_cache_has_one_format_on_both_sides() -> None:
    with pytest.raises(Conflict, match="one kv_format"):
        split(pools_of({**ONE, "kv_format": "fp8"}, {**ONE, "kv_format": "bf16"}))


def test_so_many_in_flight_ask_for_pools_of_a_size() -> None:
    with pytest.raises(Conflict, match="Say the replicas of decode"):
        split(pools_of(decode=OPEN), workload=replace(STEADY, load=Load.CLOSED, in_flight=8.0))
