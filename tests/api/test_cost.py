"""The estimated cost of an answer is within a factor of three of what it took, and grows with the request."""

from __future__ import annotations

from statistics import median
from typing import Any

import pytest

from app.api.cost import compare_cpu_s, estimate_cpu_s, is_compared_briefly, recommend_cpu_s
from app.api.merge_patch import apply_merge_patch
from app.api.schemas.compare import CompareRequest
from app.api.schemas.requests import EstimateRequest, RecommendRequest
from artefacts.held import read_results
from tests.examples import body

MEASURED: dict[str, float] = read_results()["dearest"]["figures"]["worked"]
CHAT = body("recommend-inference-chat-70b")
WITHIN = 3.0


def cost_of(asked: dict[str, Any]) -> float:
    return recommend_cpu_s(RecommendRequest.model_validate(asked))


def took_times(name: str) -> float:
    """CPU time that a worked request took, as a multiple of its estimate."""
    asked = body(name)
    is_estimate = name.startswith("estimate")
    expected = estimate_cpu_s(EstimateRequest.model_validate(asked)) if is_estimate else cost_of(asked)
    return MEASURED[name] / expected


@pytest.mark.parametrize("name", sorted(MEASURED))
def test_worked_requests_took_about_their_estimated_cost(name: str) -> None:
    machine = median(map(took_times, MEASURED))  # how slow the machine was that measured them
    assert machine / WITHIN < took_times(name) < machine * WITHIN


@pytest.mark.parametrize(
    ("patch", "sign"),
    [
        ({"limit": 50}, 1),
        ({"trace": True}, 1),
        ({"constraints": {"max_usd_per_hour": 1}}, 1),
        ({"maximize": "requests_per_s", "constraints": {"max_usd_per_hour": 1}}, 1),
        ({"include": []}, -1),
        ({"constraints": {"accelerators": ["nvidia-l4"]}}, -1),
        ({"workload": {"traffic": {"output_tokens": 0}, "slo": None}}, -1),
        ({"label": "Chat", "economics": {"pue": 1.2}}, 0),
    ],
    ids=str,
)
def test_what_is_asked_decides_the_cost(patch: dict[str, Any], sign: int) -> None:
    plain, changed = cost_of(CHAT), cost_of(apply_merge_patch(CHAT, patch))
    assert (changed > plain) - (changed < plain) == sign


def test_an_expensive_comparison_is_brief_and_costs_less_than_its_options() -> None:
    def request(count: int) -> CompareRequest:
        options = [{"name": f"{n}", "constraints": {"max_accelerators": 8 + n}} for n in range(count)]
        return CompareRequest.model_validate({"workload": CHAT["workload"], "options": options})

    two, eight = request(2), request(8)
    assert not is_compared_briefly(two) and is_compared_briefly(eight)
    assert compare_cpu_s(two) == pytest.approx(2 * cost_of({**CHAT, "constraints": {"max_accelerators": 8}}))
    assert compare_cpu_s(eight) < 4 * compare_cpu_s(two)
