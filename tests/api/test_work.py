"""The work of one request is bounded, by counts that no earlier request changes; answers state what they leave out."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from starlette.testclient import TestClient

from app.api.routes import recommendations
from app.sizing import finalists, recommend
from app.sizing.outcomes import LEFT_OUT, WORK_PER_OPTION
from app.sizing.question import Question, find_within_longer_limits
from app.sizing.recommend import recommend_hardware
from app.sizing.serving.load_curves import CURVE_CACHE, DRAWN_CACHE, POINT_CACHE, SATURATION_CACHE
from app.sizing.workload import InferenceWorkload
from app.work import WorkLimitReached, add_shared_work, add_work, count_work, is_work_left
from tests.examples import CHAT, PRETRAIN
from tests.sizing import small

OPEN: dict[str, Any] = {
    "phase": "inference",
    "model": "meta-llama/Llama-3.3-70B-Instruct",
    "traffic": {"concurrent_requests": 1, "input_tokens": 2000, "output_tokens": 500},
}
DESK = {"max_purchase_usd": 6000, "pricing_models": ["owned"], "accelerators": ["apple-*", "nvidia-gb10*"]}
SMALL: dict[str, Any] = {
    "phase": "inference",
    "model": "meta-llama/Llama-3.1-8B-Instruct",
    "traffic": {"peak_requests_per_s": 20, "input_tokens": 800, "output_tokens": 200},
    "slo": {"ttft_ms": 1000, "tpot_ms": 50},
}
FEW = {"simulated_requests": 3000}


def test_work_counts_once_as_far_as_it_is_shared_in_every_account_around_it() -> None:
    with count_work(10) as outer:
        add_work(1, 5, "a")
        with count_work(10) as inner:
            add_work(1, 5, "a")
            assert not inner.is_used_up
            add_shared_work(outer.entries[:1])
    assert (outer.done, inner.done) == (1 + 5 + 1, 1 + 5 + 1)


def test_work_that_extends_what_is_shared_counts_as_far_as_it_is_longer() -> None:
    with count_work(10) as account:
        for units in (2, 5, 3, 5):
            add_work(0, units, "a curve")
        add_work(0, 1, "another")
    assert account.done == 5 + 1


def test_a_search_of_training_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finalists, "WORK_PER_ANSWERED_SEARCH", 0.0)
    with count_work(math.inf) as account:
        recommend_hardware(Question(PRETRAIN), small.SMALL)
    assert account.done > 0


def test_only_the_innermost_account_leaves_work_out_and_only_a_strict_one_stops() -> None:
    assert is_work_left("nothing counts")
    with count_work(5) as outer:
        add_work(5)
        with count_work(5) as inner:
            assert is_work_left("x")
            add_work(5)
            assert not is_work_left("y")
    assert (list(outer.left_out), list(inner.left_out)) == ([], ["y"])
    with pytest.raises(WorkLimitReached), count_work(5, stops=True):
        add_work(4)
        add_work(1)


@pytest.mark.parametrize(("most", "times", "searches"), [(math.inf, 3.0, 4), (1, 50.0, 1), (2, 50.0, 2), (0, None, 0)])
def test_the_search_for_longer_limits_ends_with_the_shortest_found(
    most: float, times: float | None, searches: int
) -> None:
    tried: list[float] = []

    def find(asked: Question) -> float:
        assert isinstance(asked.workload, InferenceWorkload) and asked.workload.assumed_times is not None
        add_work(1)
        tried.append(asked.workload.assumed_times)
        return tried[-1]

    question = Question(replace(CHAT, slo=replace(CHAT.slo, assumed_times=1.0)))
    with count_work(most) as account:
        assert find_within_longer_limits(question, find, lambda at: at >= 3) == times
    assert len(tried) == searches and bool(account.left_out) == (most < math.inf)


def test_an_answer_says_what_it_leaves_out(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recommend, "MOST_WORK", 0.0)
    response = client.post("/recommend", json={"workload": OPEN, "constraints": DESK, "rejected_limit": 7})
    assert response.status_code == 200, response.text
    longer = response.json()
    assert longer["recommendations"] == []
    (said,) = (w["text"] for w in longer["warnings"] if w["code"] == "work_limit")
    assert "limits longer than usual were not searched" in said
    cheap = {"workload": SMALL, "constraints": {"max_usd_per_hour": 0.01}, "assumptions": FEW}
    infeasible = client.post("/recommend", json=cheap).json()
    (said,) = (w["text"] for w in infeasible["warnings"] if w["code"] == "work_limit")
    assert said.endswith("further changes of its limits were not examined.")
    assert infeasible["sensitivity"] and infeasible["rejected"]


def test_a_comparison_leaves_out_what_it_has_no_work_for(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    options: list[dict[str, Any]] = [{"name": "first", "constraints": {"accelerators": ["nvidia-l4"]}}]
    options += [{"name": n, "workload": {"traffic": {"peak_requests_per_s": 30}}} for n in ("second", "third")]
    body = {"workload": SMALL, "options": options, "assumptions": FEW}
    whole = client.post("/compare", json=body).json()
    assert all(LEFT_OUT not in str(each) for each in (whole["summary"], *whole["options"]))
    alone = {"workload": SMALL, "constraints": options[0]["constraints"], "assumptions": FEW, "reference": "alone"}
    with count_work(math.inf) as account:
        client.post("/recommend", json=alone)
    monkeypatch.setattr(recommendations, "MOST_WORK", account.done + 2 * WORK_PER_OPTION)
    found = client.post("/compare", json=body)
    first, *others = found.json()["options"]
    assert first == whole["options"][0]
    for other in others:
        assert other["why_not"] == LEFT_OUT and not other["does_it"] and "id" not in other
    assert f"Left out: 'second' and 'third'. {LEFT_OUT}" in found.json()["summary"]
    for cache in (CURVE_CACHE, SATURATION_CACHE, POINT_CACHE, DRAWN_CACHE):
        cache.clear()
    assert client.post("/compare", json=body).content == found.content, "whatever a cache holds"
