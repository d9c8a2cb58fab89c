"""The worked bodies through the real application, and what an answer promises."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from starlette.testclient import TestClient

from app.api.schemas.answers import EstimateShown, RecommendResponse
from app.catalog import recommendations
from app.config import Settings
from app.main import create_app
from app.sizing.hardware.licenses import find_licenses
from tests.examples import BODIES, answer_of, body, body_names, rows_in


def recommend(client: TestClient, name: str, **changes: Any) -> dict[str, Any]:
    return answer_of(client.post("/recommend", json={**body(name), **changes}))


@pytest.mark.parametrize("name", body_names("recommend"))
def test_every_worked_request_is_answered(client: TestClient, name: str) -> None:
    response = client.post("/recommend", json=body(name))
    assert response.status_code == 200
    options = max(5, body(name).get("limit", 5))
    assert len(response.content) < 30_000 * options / 5
    answer = RecommendResponse.model_validate(response.json())
    assert answer.considered.feasible_accelerators + sum(answer.rejected_by_code.values()) == rows_in(
        "accelerators.csv"
    )
    if name == "recommend-inference-infeasible":
        return
    assert answer.recommendations
    if len(answer.recommendations) <= 5:  # the nearest misses have room before all that the last in rank could say
        assert len(answer.rejected) >= min(8, sum(answer.rejected_by_code.values()))
    assert len(answer.recommendations[0].explanation) > 3
    assert [r.rank for r in answer.recommendations] == list(range(1, len(answer.recommendations) + 1))
    credited = {each.name for each in answer.licenses or ()}
    for r in answer.recommendations:
        assert {each.name for each in find_licenses(near.source for near in r.nearest_measurements)} <= credited
        assert r.fits
        assert r.memory is not None
        parts = r.memory.per_accelerator_gib
        whole = parts.weights + parts.kv_cache + parts.activations + parts.overhead + parts.gradients + parts.optimizer
        assert whole == pytest.approx(parts.total, abs=1e-3)
        assert parts.total <= parts.usable * 1.0001
        assert len(r.explanation) >= 2
        assert r.cost is not None
        assert r.cost.price is not None
        assert r.performance is not None
        assert r.performance.interval.low < r.performance.interval.high


@pytest.mark.parametrize("name", body_names("estimate"))
def test_every_worked_estimate_is_answered(client: TestClient, name: str) -> None:
    estimate = EstimateShown.model_validate(answer_of(client.post("/estimate", json=body(name))))
    assert estimate.fits
    asked = body(name)["deployment"]
    for key in ("tensor_parallel", "zero_stage", "micro_batch_sequences", "engine", "framework", "weight_format"):
        if key in asked:
            assert getattr(estimate.deployment, key) == asked[key]


def test_the_infeasible_request_says_what_would_have_to_give(client: TestClient) -> None:
    answer = recommend(client, "recommend-inference-infeasible")
    assert answer["recommendations"] == []
    nearest = answer["rejected"][0]
    assert nearest["accelerator"] == "nvidia-l4"
    assert nearest["code"] == "out_of_memory"
    assert nearest["needed"] > nearest["available"] > 0
    assert nearest["unit"] == "gib"
    changes = {c["change"]: c["effect"] for c in answer["sensitivity"]}
    assert "raise max_accelerators (now 8)" in changes
    assert any("USD/h" in effect for effect in changes.values())
    assert "Closest option" in answer["summary"]


def test_what_a_large_model_for_little_money_would_take(client: TestClient) -> None:
    """DeepSeek-R1 on own hardware for 100,000 USD: more money, or four bits on a machine to be quoted."""
    traffic = {"peak_requests_per_s": 0.1, "input_tokens": {"mean": 1024, "p95": 3000}, "output_tokens": 256}
    asked: dict[str, Any] = {
        "workload": {
            "phase": "inference",
            "model": "deepseek-ai/DeepSeek-R1",
            "traffic": traffic,
            "slo": {"ttft_ms": 2000, "tpot_ms": 100},
        },
        "constraints": {"max_purchase_usd": 100_000, "pricing_models": ["owned"]},
    }
    answer = client.post("/recommend", json=asked).json()
    assert answer["recommendations"] == []
    changes = {c["change"]: c["effect"] for c in answer["sensitivity"]}
    more = re.match(r"feasible at ([\d,]+) USD: ", changes["raise max_purchase_usd (now 100,000)"])
    assert more
    needed = int(more[1].replace(",", ""))
    four_bits = changes["allow 4-bit weights, broker and estimated prices"]
    price = re.search(r"([\d,]+) USD purchase price", four_bits)
    assert price
    assert int(price[1].replace(",", "")) <= 100_000
    assert "check accuracy" in four_bits
    for most, enough in ((needed, True), (needed * 0.98, False)):
        asked["constraints"]["max_purchase_usd"] = most
        assert bool(client.post("/recommend", json=asked).json()["recommendations"]) == enough


def test_pools_have_a_bill_and_another_service_at_a_level_beyond_their_reach(client: TestClient) -> None:
    """Two pools of H200 at 80 %: their layout reaches no 90 %, one pool does, at more cost."""
    traffic = {"peak_requests_per_s": 20, "input_tokens": 8000, "output_tokens": 500}
    workload = {"phase": "inference", "model": "deepseek-v3", "traffic": traffic}
    asked = {"workload": workload, "constraints": {"accelerators": ["h200 sxm"]}, "limit": 1}
    (first,) = client.post("/recommend", json=asked).json()["recommendations"]
    assert first["deployment"]["pools"]
    bill, levels = first["confidence"]["bill"], {v["confidence"]: v for v in first["confidence"]["by_level"]}
    predicted, total = bill[0]["total_accelerators"], first["deployment"]["total_accelerators"]
    assert math.prod(line["multiplier"] for line in bill) * predicted == pytest.approx(total, rel=1e-4)
    assert bill[-1]["usd_per_hour"] == pytest.approx(first["cost"]["usd_per_hour"], rel=1e-4)
    assert levels[0.9]["deployment"]["accelerator"] == first["deployment"]["accelerator"]
    assert total < levels[0.9]["total_accelerators"] and levels[0.8]["usd_per_hour"] < levels[0.9]["usd_per_hour"]


SIMULATED = ("simulation", "load_curve")


@pytest.mark.parametrize("name", [n for n in body_names("recommend") if "infeasible" not in n])
def test_a_recommended_deployment_posted_back_gives_the_same_numbers(client: TestClient, name: str) -> None:
    answer = client.post("/recommend", json={**body(name), "rejected_limit": 10}).json()  # all of it, whatever its size
    for ranked in answer["recommendations"]:
        again = client.post(
            "/estimate", json={"workload": body(name)["workload"], "deployment": ranked["deployment"]}
        ).json()
        if ranked["cost"]["parts"] is None:  # said of the first ranks only
            again["cost"]["parts"] = None
        if ranked["rank"] > 1:  # said of the first rank only
            again["performance"] = {k: v for k, v in again["performance"].items() if k not in SIMULATED}
        for part in ("deployment", "fits", "memory", "performance", "bottleneck", "cost"):
            assert again[part] == ranked[part], part


def test_constraints_are_kept(client: TestClient) -> None:
    answer = recommend(client, "recommend-inference-eu-on-demand-only")
    for r in answer["recommendations"]:
        offer = r["deployment"]["offer"]
        assert offer["pricing_model"] == "on_demand"
        assert offer["region"].startswith(("eu-", "europe-")) or offer["region"] in (
            "westeurope",
            "northeurope",
            "francecentral",
            "germanywestcentral",
            "swedencentral",
        )
    desktop = recommend(client, "recommend-inference-personal-70b-desktop")
    for r in desktop["recommendations"]:
        assert r["deployment"]["offer"]["pricing_model"] == "owned"
        assert r["cost"]["purchase_usd"] <= 12000


def test_redundancy_over_two_zones_doubles_the_replicas(client: TestClient) -> None:
    for r in recommend(client, "recommend-inference-eu-on-demand-only")["recommendations"]:
        assert r["deployment"]["spare_replicas"] == r["deployment"]["replicas"]


def test_zones_and_failure_domains_are_asked_for_in_words_that_are_checked(client: TestClient) -> None:
    def asked(**availability: Any) -> Any:
        request = body("recommend-inference-chat-70b")
        request["workload"]["availability"] = availability
        request["constraints"] = {"environments": ["cloud"]}
        return client.post("/recommend", json=request)

    three = asked(redundancy="n+1", zones=3).json()
    first = three["recommendations"][0]
    assert first["deployment"]["offer"]["region"] not in ("unspecified", "global")
    assert "zones_not_verified" in [w["code"] for w in three["warnings"]]
    (placement,) = [e["text"] for e in first["explanation"] if e["code"] == "placement"]
    assert "3 zones" in placement
    assert "Losing any one zone leaves" in placement
    assert three["rejected_by_code"]["no_zones"] > 0
    refused = answer_of(asked(redundancy="n+2", zones=2, failure_domain="zone"), 422)
    assert "Set zones to at least 3" in refused["detail"]
    again = client.post("/estimate", json={"workload": three["request"]["workload"], "deployment": first["deployment"]})
    assert again.json()["deployment"] == first["deployment"]
    few = {"accelerator": first["deployment"]["accelerator"], "nodes": 1, "replicas": 100}
    assert (
        client.post("/estimate", json={"workload": three["request"]["workload"], "deployment": few}).status_code == 422
    )


def test_the_answer_is_stored_and_read_back_byte_for_byte(client: TestClient) -> None:
    first = client.post("/recommend", json=body("recommend-inference-chat-70b"))
    second = client.post("/recommend", json=body("recommend-inference-chat-70b"))
    assert first.content == second.content
    stored = client.get(f"/recommendations/{first.json()['id']}")
    assert stored.content == first.content
    assert "GMT" in stored.headers["last-modified"]
    assert stored.json()["request"] == body("recommend-inference-chat-70b")
    assert client.post("/recommend", json=stored.json()["request"]).content == first.content


def test_a_preview_is_the_same_answer_but_in_no_list_and_in_no_limit_of_filed_answers(client: TestClient) -> None:
    request = {**body("recommend-inference-embeddings"), "label": "preview", "limit": 1}
    preview = client.post("/recommend?store=false", json=request)
    assert preview.headers["headroom-stored"] == "false"
    answer = preview.json()
    assert client.get(f"/recommendations/{answer['id']}").status_code == 404
    assert client.get("/recommendations?label=preview").json()["items"] == []
    assert client.post("/recommend", json=request).content == preview.content
    [filed] = client.get("/recommendations?label=preview").json()["items"]
    assert filed["id"] == answer["id"]


def test_key_order_and_defaults_do_not_change_the_answer(client: TestClient) -> None:
    plain = body("recommend-inference-embeddings")
    spelled = {"trace": False, "limit": 5, "objective": "cost", **plain}
    spelled["workload"] = dict(reversed(list(plain["workload"].items())))
    assert client.post("/recommend", json=plain).content == client.post("/recommend", json=spelled).content


def test_an_unknown_recommendation_is_a_problem(client: TestClient) -> None:
    response = client.get("/recommendations/rec_" + "0" * 28)
    assert response.status_code == 404
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["type"] == "/problems/unknown-recommendation"


SCRIPT = """
import hashlib, json, sys
from starlette.testclient import TestClient
from app.config import Settings
from app.main import create_app
with TestClient(create_app(Settings(database_url=sys.argv[1], log_level="error", access_log="off"))) as client:
    for path in sys.argv[2:]:
        raw = open(path, "rb").read()
        answer = client.post("/recommend", content=raw, headers={"content-type": "application/json"})
        print(hashlib.sha256(answer.content).hexdigest())
"""


@pytest.mark.slow
def test_two_processes_and_both_databases_give_the_same_bytes(sqlite_url: str, postgres_url: str) -> None:
    paths = [str(BODIES / f"{name}.json") for name in body_names("recommend")]
    found = []
    for url, seed in ((sqlite_url, "1"), (postgres_url, "2")):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(__file__).parents[2])}
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, url, *paths], env=environment, capture_output=True, text=True, check=True
        )
        found.append(done.stdout.split())
    assert len(found[0]) == len(paths)
    assert found[0] == found[1]


def test_a_database_that_cannot_be_written_still_answers(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recommendations, "KEEP", text("INSERT INTO full_disk VALUES (:id)"))
    with TestClient(create_app(Settings(database_url=sqlite_url))) as client:
        response = client.post("/recommend", json={**body("recommend-inference-chat-70b"), "limit": 7})
    assert response.status_code == 200
    assert response.headers["headroom-stored"] == "false"
    assert RecommendResponse.model_validate(response.json()).recommendations


def test_a_size_alone_is_enough_and_the_answer_says_what_was_assumed(client: TestClient) -> None:
    request = body("recommend-inference-8b-small-team")
    request["workload"]["model"] = {"parameters_billion": 13}
    answer = client.post("/recommend", json=request).json()
    assert any(a["name"] == "model_shape" for a in answer["assumptions"])
    assert any(w["code"] == "model_shape_assumed" for w in answer["warnings"])
    request["workload"]["model"] = {"parameters_billion": 0.03, "gflops_per_sample": 8.2}
    request["workload"]["traffic"] = {"samples_per_s": 100}
    request["workload"]["slo"] = {"e2e_ms": 50}
    assert client.post("/recommend", json=request).json()["recommendations"]


def test_users_become_requests_by_the_busy_hour_rule(client: TestClient) -> None:
    answer = recommend(client, "recommend-inference-8b-small-team")
    peak = next(a for a in answer["assumptions"] if a["name"] == "peak_requests_per_s")
    assert peak["value"] == pytest.approx(40 * 12 / 3600 * 3)


def test_assumptions_can_be_replaced_and_are_echoed(client: TestClient) -> None:
    answer = recommend(client, "recommend-inference-chat-70b", assumptions={"load_power_fraction": 0.5})
    assert next(a for a in answer["assumptions"] if a["name"] == "load_power_fraction")["value"] == 0.5


def test_the_default_answer_has_no_trace_and_an_asked_one_has(client: TestClient) -> None:
    assert "trace" not in recommend(client, "recommend-training-7b-1t-tokens")["recommendations"][0]
    assert recommend(client, "recommend-training-7b-1t-tokens", trace=True)["recommendations"][0]["trace"]


def test_what_is_left_out_changes_nothing_else(client: TestClient) -> None:
    name = "recommend-inference-chat-70b"
    # three options: an answer of bounded size would leave out points of its curves
    whole, brief = recommend(client, name, limit=3), recommend(client, name, limit=3, include=[])
    assert whole["sensitivity"] and whole["cheaper_if"]
    assert not brief["sensitivity"] and "cheaper_if" not in brief
    every, less = whole["recommendations"][0], brief["recommendations"][0]
    assert every["alternatives"] and not less.get("alternatives")
    assert every["performance"]["load_curve"]
    assert less["performance"] == {**every["performance"], "load_curve": None}
    for kept in every.keys() - {"performance", "alternatives"}:
        assert less[kept] == every[kept], kept
    for every, less in zip(whole["recommendations"], brief["recommendations"], strict=True):
        assert (less["deployment"], less["score"]) == (every["deployment"], every["score"])
    parts = ["sensitivity", "cheaper_if", "load_curve", "alternatives", "day"]
    named = recommend(client, name, limit=3, include=parts)
    assert named["recommendations"] == whole["recommendations"] and named["sensitivity"] == whole["sensitivity"]
    assert recommend(client, name, limit=3, include=["cheaper_if"])["cheaper_if"] == whole["cheaper_if"]
    impossible = recommend(client, "recommend-inference-infeasible", include=[])
    assert not impossible["recommendations"] and not impossible["sensitivity"] and impossible["rejected"]
    run = recommend(client, "recommend-training-7b-1t-tokens", include=[])
    assert not run["sensitivity"] and "cheaper_if" not in run and run["recommendations"]


def test_the_trace_is_included_by_either_name(client: TestClient) -> None:
    name = "recommend-inference-embeddings"
    asked, included = recommend(client, name, trace=True), recommend(client, name, include=["trace"])
    assert asked["recommendations"][0]["trace"] == included["recommendations"][0]["trace"] != []


def test_an_unknown_part_is_a_problem_with_all_names(client: TestClient) -> None:
    wrong = answer_of(
        client.post("/recommend", json={**body("recommend-inference-embeddings"), "include": ["curves"]}), 422
    )
    assert wrong["errors"][0]["pointer"] == "#/include/0"
    for extra in ("sensitivity", "cheaper_if", "load_curve", "alternatives", "day", "trace"):
        assert extra in wrong["errors"][0]["detail"]


def test_the_day_is_left_out_but_not_its_cost(client: TestClient) -> None:
    asked = body("recommend-inference-chat-70b")
    asked["workload"]["traffic"] = {**asked["workload"]["traffic"], "hourly_factors": [1] * 12 + [3] * 12}
    del asked["workload"]["traffic"]["average_requests_per_s"]
    whole = client.post("/recommend", json=asked).json()
    brief = client.post("/recommend", json={**asked, "include": []}).json()
    first, less = whole["recommendations"][0], brief["recommendations"][0]
    assert first["day"] and "day" not in less
    assert first["cost"]["usd_per_day"] == less["cost"]["usd_per_day"]


def test_what_does_not_run_together_does_not_fit(client: TestClient) -> None:
    request = body("estimate-llama-70b-8xh100")
    request["deployment"] = {"accelerator": "google-tpu-v5e", "engine": "tensorrt-llm"}
    answer = client.post("/estimate", json=request).json()
    assert answer["fits"] is False
    assert answer["rule"] == "TensorRT-LLM has no known build for TPU."
    assert answer["rule"] in answer["explanation"][0]["text"]
    assert json.dumps(answer)


def test_ambiguous_deployments_are_refused_with_a_reason(client: TestClient) -> None:
    request = body("estimate-7b-64xa100")
    request["deployment"] = {"accelerator": "nvidia-a100-sxm4-80gb", "total_accelerators": 63, "data_parallel": 2}
    problem = answer_of(client.post("/estimate", json=request), 422)
    assert "data_parallel" in problem["detail"]
    request = body("estimate-llama-70b-8xh100")
    request["deployment"]["expert_parallel"] = 3
    problem = answer_of(client.post("/estimate", json=request), 422)
    assert "expert_parallel" in problem["detail"]


@pytest.mark.slow
def test_every_accelerator_can_be_estimated(client: TestClient) -> None:
    """Sold or not, known or not, alone or by four, in turn for chat, training and embeddings: an estimate or a reason,
    never a failure.
    """
    slugs = [a["slug"] for a in client.get("/catalog/accelerators", params={"limit": 1000}).json()["items"]]
    small = {"model": "Qwen/Qwen2.5-7B-Instruct"}
    workloads = [
        {**body("estimate-llama-70b-8xh100")["workload"], **small},
        {**body("estimate-7b-64xa100")["workload"], **small},
        body("recommend-inference-embeddings")["workload"],
    ]
    for place, slug in enumerate(slugs):
        asked = {
            "workload": workloads[place % 3],
            "deployment": {"accelerator": slug, **({"total_accelerators": 4} if place % 2 else {})},
            "trace": not place % 2,
            "assumptions": {"simulated_requests": 1000},
        }
        response = client.post("/estimate", json=asked)
        assert response.status_code in (200, 422), (slug, response.text)
        if response.status_code == 200:
            estimate = EstimateShown.model_validate(response.json())
            assert estimate.performance is not None or not estimate.fits, slug
            assert estimate.explanation, slug


def test_machines_asked_for_are_filled(client: TestClient) -> None:
    request = body("estimate-llama-70b-8xh100")
    request["deployment"] = {
        "accelerator": "nvidia-h100-sxm5-80gb",
        "tensor_parallel": 4,
        "accelerators_per_replica": 4,
        "nodes": 2,
        "system": "dgx-h100",
    }
    request["deployment"]["weight_format"] = "fp8"
    answer = client.post("/estimate", json=request).json()
    assert answer["deployment"]["replicas"] == 4
    assert answer["deployment"]["nodes"] == 2
    assert answer["deployment"]["total_accelerators"] == 16


@pytest.mark.parametrize(("accelerator", "in_parts"), [("amd-mi300x", True), ("nvidia-h200-sxm-141gb", False)])
def test_a_purchase_price_derived_from_parts_is_marked(client: TestClient, accelerator: str, in_parts: bool) -> None:
    limits = {"accelerators": [accelerator], "pricing_models": ["owned"]}
    answer = recommend(client, "recommend-inference-chat-70b", constraints=limits)
    said = next(r["text"] for r in answer["recommendations"][0]["explanation"] if r["code"] == "price")
    assert ("Ask for a quote" in said) is in_parts
    assumed = {a["name"] for a in answer["assumptions"]}
    for name in ("large_chassis_usd", "server_memory_usd_per_gib", "list_price_position"):
        assert (name in assumed) is in_parts  # an assumption without effect on a price is not shown
    assert "host_power_fraction" in assumed


@pytest.mark.parametrize("slug", ["nvidia-h100-sxm5-80gb", "nvidia-h200-sxm-141gb"])
def test_what_one_type_does_by_itself_is_done_among_all(client: TestClient, slug: str) -> None:
    """The first layouts of every type fail this limit; that is no reason to say that nothing meets it."""
    asked = body("recommend-inference-eu-on-demand-only")
    asked["workload"]["slo"]["tpot_ms"] = 7
    alone = {**asked, "constraints": {**asked["constraints"], "accelerators": [slug]}}
    best, only = (client.post("/recommend", json=each).json()["recommendations"][0] for each in (asked, alone))
    assert best["cost"]["usd_per_hour"] <= only["cost"]["usd_per_hour"]


def test_an_engine_is_a_near_tie_only_if_it_was_not_found_to_miss_the_limits(client: TestClient) -> None:
    """On one Strix Halo, vLLM reads a prompt within 30 s; llama.cpp and Ollama cost the same and need longer."""
    traffic = {"concurrent_requests": 1, "input_tokens": 3000, "output_tokens": 600}
    slo = {"ttft_ms": 30_000, "tpot_ms": 600}
    workload = {"phase": "inference", "model": "qwen3-32b", "traffic": traffic, "slo": slo}

    def ask(**constraints: Any) -> list[dict[str, Any]]:
        limits = {"accelerators": ["amd-ryzen-ai-max-395"], **constraints}
        request = {"workload": workload, "constraints": limits}
        ranked: list[dict[str, Any]] = answer_of(client.post("/recommend", json=request))["recommendations"]
        return ranked

    (first,) = ask()
    assert not ask(engines=["ollama"]) and not ask(engines=["llama.cpp"])
    texts = {reason["code"]: reason["text"] for reason in first["explanation"]}
    assert "near_tie" not in texts
    assert texts["published_use"].endswith("no option with published recipes meets the limits.")


@pytest.mark.parametrize("limited", ["max_accelerators", "max_usd_per_hour", "inventory"])
def test_an_option_is_within_limits_of_what_it_takes(client: TestClient, limited: str) -> None:
    """Formulas find that these cards carry less than their simulation does, which decides."""
    traffic = {"peak_requests_per_s": 4, "input_tokens": 1500, "output_tokens": 300}
    slo = {"ttft_ms": 2000, "tpot_ms": 60}
    workload = {"phase": "inference", "model": "llama-3.3-70b-instruct", "traffic": traffic, "slo": slo}
    owned = {"accelerator": "l40s", "accelerators_per_machine": 4}

    def ask(most: float) -> list[dict[str, Any]]:
        request: dict[str, Any] = {"constraints": {"accelerators": ["l40s"], limited: most}, "workload": workload}
        if limited == "inventory":
            request |= {"inventory": [{**owned, "count": most}], "constraints": {"inventory": "only"}}
        ranked: list[dict[str, Any]] = answer_of(client.post("/recommend", json=request))["recommendations"]
        return ranked

    (first,) = ask(1000)
    usd, accelerators = first["cost"]["usd_per_hour"], first["deployment"]["total_accelerators"]
    (again,) = ask(usd if limited == "max_usd_per_hour" else accelerators)
    assert again["deployment"]["total_accelerators"] == accelerators and again["cost"]["usd_per_hour"] == usd
