"""How loaded adapters change an answer: the stated memory and compute, the cost and the supported engines."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from app.sizing.answer.adapters import adapter_reasons, adapter_settings
from app.sizing.estimate import estimate_deployment
from app.sizing.model.adapted import with_adapters
from app.sizing.question import Deployment, Question
from app.sizing.recommend import recommend_hardware
from app.sizing.result import Estimate
from app.sizing.snapshot import Catalog
from app.sizing.workload import InferenceWorkload
from tests.examples import CHAT, LLAMA_8B

H100 = "nvidia-h100-sxm5-80gb"
ON_ONE = Deployment(H100, engine="vllm", weight_format="bf16", accelerators_per_replica=1, replicas=1)


def served(loaded: int, rank: int = 16) -> InferenceWorkload:
    return replace(CHAT, model=with_adapters(LLAMA_8B, rank=rank, loaded=loaded))


def figures(found: Estimate) -> tuple[float, float, float]:
    assert found.memory is not None
    assert found.performance is not None
    assert found.performance.tpot is not None
    capacity = found.performance.requests_per_s_capacity or 0.0
    return found.memory.weights_bytes, found.performance.tpot.p50_s or 0.0, -capacity


def test_each_adapter_more_takes_memory_and_time(catalog: Catalog) -> None:
    found = [
        figures(estimate_deployment(Question(w), ON_ONE, catalog)) for w in (CHAT, served(1), served(8), served(32))
    ]
    for fewer, more in pairwise(found):
        assert all(a < b for a, b in zip(fewer, more, strict=True))


def test_adapters_never_cost_less(catalog: Catalog) -> None:
    usd = []
    for workload in (CHAT, served(8), served(64), served(64, 64)):
        cost = recommend_hardware(Question(workload, limit=1), catalog).recommendations[0].estimate.cost
        assert cost is not None
        usd.append(cost.usd_per_hour or 0.0)
    assert usd == sorted(usd)


def test_an_engine_without_a_record_of_adapters_is_refused_them(catalog: Catalog) -> None:
    found = estimate_deployment(Question(served(4)), replace(ON_ONE, engine="llama.cpp", weight_format=None), catalog)
    assert not found.fits
    assert "known to serve its adapters" in found.explanation[0].text


def test_the_answer_states_memory_and_compute_of_adapters() -> None:
    (why,) = adapter_reasons(served(8).model)
    assert why.text.startswith("With 8 adapters loaded, each replica needs 0.62 GiB more memory and 0.6 % more compute")
    assert why.value == pytest.approx(8 * 2 * 41_943_040 / 2**30)
    assert not list(adapter_reasons(LLAMA_8B))


@pytest.mark.parametrize(("rank", "room"), [(16, 16), (20, 32), (1, 1)])
def test_engine_flags_use_a_supported_adapter_rank(rank: int, room: int) -> None:
    assert adapter_settings(served(8, rank).model) == {"adapters": 8, "adapter_rank": room}
    assert adapter_settings(LLAMA_8B) == {}
