"""What two pools cannot be asked for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from app.errors import Conflict
from app.sizing.workload import Load
from tests.sizing.pools.given import ONE, pools_of, split
from tests.sizing.serving.given import STEADY
from tests.sizing.test_across import LATENT, MODEL

OPEN: dict[str, Any] = {"tensor_parallel": 1}


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"replicas": 3}, "set replicas in prefill and in decode"),
        ({"engine": "llama.cpp"}, "one of: vllm, sglang, tensorrt-llm"),
        ({"total_accelerators": 16}, "Set it in prefill and in decode"),
    ],
)
def test_what_belongs_to_a_pool_is_not_said_of_both(said: dict[str, Any], words: str) -> None:
    with pytest.raises(Conflict, match=words):
        split(pools_of(), **said)


@pytest.mark.parametrize(
    "changes",
    [
        {"load": Load.OFFLINE},
        {"load": Load.BATCH, "in_flight": 8.0},
        {"load": Load.CLOSED, "in_flight": 8.0},
        {"load": Load.CLOSED, "in_flight": 8.0, "requests": 100.0},
    ],
)
def test_what_no_rate_sizes_asks_for_pools_of_a_size(changes: dict[str, Any]) -> None:
    with pytest.raises(Conflict, match="Set replicas and accelerators_per_replica of decode"):
        split(pools_of(decode=OPEN), workload=replace(STEADY, **changes))


def test_a_cache_has_one_format_on_both_sides() -> None:
    with pytest.raises(Conflict, match="the same kv_format"):
        split(pools_of({**ONE, "kv_format": "fp8"}, {**ONE, "kv_format": "bf16"}))


def test_contexts_are_shared_by_ranks_as_engines_send_them_between_pools() -> None:
    eight, shared = {"tensor_parallel": 8, "pipeline_parallel": 1, "replicas": 1}, {"context_parallel": 8}
    latent, steady = replace(STEADY, model=LATENT), replace(STEADY, model=MODEL)
    for prefill in (eight, eight | shared):
        found = split(pools_of(prefill, eight | shared), workload=latent)
        assert found.fits
        assert found.deployment.pools is not None
        assert found.deployment.pools.decode.context_parallel == 8
    with pytest.raises(Conflict, match="Set the same context_parallel"):
        split(pools_of(eight | shared, eight), workload=latent)
    with pytest.raises(Conflict, match="MLA latents split over ranks"):
        split(pools_of(eight, eight | {"context_parallel": 2}), workload=steady)
