"""Posting a change listed as putting another type first does so; discounts are named, checked and counted."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from app.api import sensitivity
from app.api.merge_patch import apply_merge_patch, combine_merge_patches
from app.recent import RecentlyUsed
from tests.api.test_budgets import SPARE, counted_work
from tests.examples import answer_of

CHAT: dict[str, Any] = {
    "workload": {
        "phase": "inference",
        "model": "meta-llama/Llama-3.1-8B-Instruct",
        "traffic": {"peak_requests_per_s": 6, "input_tokens": {"mean": 800, "p95": 1600}, "output_tokens": 200},
        "slo": {"ttft_ms": 2000, "tpot_ms": 60},
    },
    "constraints": {
        "accelerators": ["nvidia-l40s", "nvidia-h100-sxm5-80gb"],
        "engines": ["vllm"],
        "pricing_models": ["on_demand"],
    },
    "assumptions": {"simulated_requests": 1000},
}
BUSY_CHAT = apply_merge_patch(CHAT, {"workload": {"traffic": {"peak_requests_per_s": 60}}})
BUSY_CHAT_BUDGET = {"searches": 112, "simulations": 361, "formula_calls": 86_283}  # work of its sensitivity
RUN: dict[str, Any] = {
    "workload": {
        "phase": "training",
        "model": "meta-llama/Llama-3.2-1B",
        "training_tokens": 2e10,
        "sequence_length": 4096,
        "deadline_days": 20,
    },
    "constraints": {"accelerators": ["nvidia-a100-sxm4-80gb", "nvidia-h100-sxm5-80gb", "amd-mi300x"]},
}
FULL: dict[str, Any] = {
    "workload": {
        "phase": "fine_tuning",
        "method": "full",
        "model": "meta-llama/Llama-3.1-70B",
        "training_tokens": 5e8,
        "deadline_days": 10,
    },
    "constraints": {"accelerators": ["nvidia-h100-sxm5-80gb", "nvidia-a100-sxm4-80gb"]},
}
BATCH: dict[str, Any] = {
    "workload": {
        "phase": "inference",
        "model": "bge-m3",
        "traffic": {"users": {"count": 5000, "requests_per_hour_each": 60}, "input_tokens": {"min": 100, "max": 400}},
    }
}


def answered(client: TestClient, body: dict[str, Any]) -> dict[str, Any]:
    return answer_of(client.post("/recommend", json=body))


def sensitivity_of(client: TestClient, answer: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = client.get(f"/recommendations/{answer['id']}/sensitivity").json()
    while (start := found.pop("next", None)) is not None:
        more = client.get(f"/recommendations/{answer['id']}/sensitivity?start={start}").json()
        found = {**more, **{name: found[name] + more[name] for name in ("flips", "holds", "savings")}}
    return found


def first_of(answer: dict[str, Any]) -> str:
    return str(answer["recommendations"][0]["deployment"]["accelerator"]) if answer["recommendations"] else "nothing"


@pytest.mark.slow
@pytest.mark.parametrize("body", [CHAT, RUN, BATCH], ids=["chat", "run", "batch"])
def test_every_flip_is_real(client: TestClient, body: dict[str, Any]) -> None:
    answer = answered(client, body)
    found = sensitivity_of(client, answer)
    assert found["first"] == first_of(answer) and found["flips"]
    for flip in found["flips"]:
        changed = answered(client, apply_merge_patch(body, flip["request"]))
        split = changed["recommendations"] and changed["recommendations"][0]["deployment"].get("pools")
        assert split or first_of(changed) == flip["first"], flip
        assert flip["first"] != found["first"] and flip["text"].endswith(".")
    assert {f["knob"] for f in found["flips"]} | {h["knob"] for h in found["holds"]} >= {"confidence"}
    assert sensitivity_of(client, answer) == found


def test_a_discount_is_counted_shown_and_round_trips(client: TestClient) -> None:
    plain = answered(client, CHAT)["recommendations"][0]
    off = {**CHAT, "economics": {"discounts": {"nvidia-*": 0.25}}}
    first = answered(client, off)["recommendations"][0]
    assert first["cost"]["usd_per_hour"] < plain["cost"]["usd_per_hour"]
    assert first["cost"]["price"]["discount"] == 0.25
    assert "minus your discount of 25 %" in next(e["text"] for e in first["explanation"] if e["code"] == "price")
    body = {k: off[k] for k in ("workload", "economics", "assumptions")} | {"deployment": first["deployment"]}
    judged = client.post("/estimate", json=body).json()
    assert judged["cost"]["usd_per_hour"] == first["cost"]["usd_per_hour"]


@pytest.mark.parametrize(("discounts", "status"), [({"nvidia-l5": 0.1}, 404), ({"h100": 0.1}, 422), ({"l4": 1.0}, 422)])
def test_a_discount_that_means_nothing_is_refused(client: TestClient, discounts: dict[str, float], status: int) -> None:
    response = client.post("/recommend", json={**CHAT, "economics": {"discounts": discounts}})
    assert response.status_code == status
    assert response.json()["errors"][0]["pointer"].startswith("#/economics/discounts/")


def test_a_client_that_follows_next_goes_on_where_no_call_finds_what_another_computed(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"/recommendations/{answered(client, FULL)['id']}/sensitivity"
    whole = client.get(path).json()
    monkeypatch.setattr(sensitivity, "MOST_CALL_WORK", 10.0)
    monkeypatch.setattr(sensitivity, "KEPT_OPTIONS", RecentlyUsed(0))
    starts = [0]
    while starts[-1] % sensitivity.MAX_SUBJECTS == 0:  # its savings
        found = client.get(f"{path}?start={starts[-1]}").json()
        starts.append(found["next"])
    assert starts[:3] == [0, 100, 200] and found["savings"] == whole["savings"] != []


def test_an_unknown_answer_has_no_sensitivity(client: TestClient) -> None:
    assert client.get(f"/recommendations/rec_{'0' * 28}/sensitivity").status_code == 404


def test_patches_are_merged_as_the_standard_says() -> None:
    assert apply_merge_patch({"a": 1, "b": {"c": 2}}, {"a": None, "b": {"d": 3}}) == {"b": {"c": 2, "d": 3}}
    assert apply_merge_patch({"a": [1]}, {"a": [2, 3]}) == {"a": [2, 3]}
    assert apply_merge_patch({"a": 1}, {"a": {"b": None, "c": 1}}) == {"a": {"c": 1}}
    first, second = {"a": {"b": None, "c": 1}, "e": None}, {"a": {"c": None, "d": 2}, "e": 3}
    both = combine_merge_patches(first, second)
    assert both == {"a": {"b": None, "c": None, "d": 2}, "e": 3}
    whole = {"a": {"b": 1, "c": 2}, "e": {"f": 1}}
    assert apply_merge_patch(whole, both) == apply_merge_patch(apply_merge_patch(whole, first), second)


@pytest.mark.parametrize("body", [BUSY_CHAT, FULL], ids=["chat", "full"])
def test_every_saving_is_real_and_names_what_it_owes(client: TestClient, body: dict[str, Any]) -> None:
    answer = answered(client, body)
    with counted_work() as work:
        savings = client.get(f"/recommendations/{answer['id']}/sensitivity").json()["savings"]
    assert body is FULL or all(work[what] <= SPARE * most for what, most in BUSY_CHAT_BUDGET.items()), work
    now = paid(answer)
    assert savings and [s["saves_share"] for s in savings] == sorted((s["saves_share"] for s in savings), reverse=True)
    for saving in savings:
        changed = answered(client, apply_merge_patch(body, saving["request"]))
        assert first_of(changed) == saving["first"]
        assert paid(changed) == pytest.approx(saving["usd"], rel=1e-5)
        assert (
            saving["saves_share"] == pytest.approx(1 - saving["usd"] / now, abs=1e-3) and saving["saves_share"] > 0.05
        )
        assert saving["owes"] in saving["text"]


def paid(answer: dict[str, Any]) -> float:
    cost = answer["recommendations"][0]["cost"]
    return float(cost["usd_per_hour"] if cost.get("usd_total") is None else cost["usd_total"])


def test_patterns_are_those_that_the_question_left_open(client: TestClient) -> None:
    traffic = {**CHAT["workload"]["traffic"], "cached_prefix_fraction": 0.0}
    settled = {
        "workload": {**CHAT["workload"], "traffic": traffic},
        "constraints": {**CHAT["constraints"], "weight_formats": ["bf16"], "kv_formats": ["bf16"]},
        "assumptions": CHAT["assumptions"],
    }
    open_savings = {s["pattern"]: s for s in sensitivity_of(client, answered(client, settled))["savings"]}
    assert {"speculative"} <= open_savings.keys() <= {"smaller_model", "speculative"}
    settled = apply_merge_patch(settled, open_savings["speculative"]["request"])
    found = sensitivity_of(client, answered(client, settled))
    assert {s["pattern"] for s in found["savings"]} <= {"smaller_model"}


def test_a_shared_prefix_and_deferred_bulk_work_are_patterns_of_a_service_that_states_neither(
    client: TestClient,
) -> None:
    traffic = {**CHAT["workload"]["traffic"], "average_requests_per_s": 2, "input_tokens": {"mean": 4000, "p95": 8000}}
    body = {**CHAT, "workload": {**CHAT["workload"], "traffic": {**traffic, "peak_requests_per_s": 48}}}
    found = client.get(f"/recommendations/{answered(client, body)['id']}/sensitivity").json()
    savings = {s["pattern"]: s for s in found["savings"]}
    assert savings["cache_prefixes"]["request"]["workload"]["traffic"] == {
        "cached_prefix_fraction": 0.5,
        "shared_prefix_fraction": 0.5,
    }
    assert savings["defer_bulk"]["request"]["workload"]["traffic"] == {"peak_requests_per_s": 36.0}
    for name in ("cache_prefixes", "defer_bulk"):
        then = answered(client, apply_merge_patch(body, savings[name]["request"]))
        assert paid(then) == pytest.approx(savings[name]["usd"], rel=1e-5)
