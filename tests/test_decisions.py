"""docs/decisions.md: the answers are what their reasons say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from starlette.testclient import TestClient

from artefacts.decisions import buyer_questions, merge_requests, request_of
from tests.examples import answer_of, as_shown, levels_of_deployment

ASKED = {question["key"]: question for question in buyer_questions()}
SURE = 0.8
EU = {"AT", "BE", "DE", "DK", "ES", "FI", "FR", "GR", "IE", "IT", "NL", "PL", "PT", "SE"}
COUNTED = {"provider", "reseller", "quote", "survey", "list"}
SITUATIONS = (
    "eu-chat",
    "200-users",
    "tune-day",
    "405b",
    "desktop",
    "edge",
    "embed-cpu",
    "images",
    "deepseek-few",
    "gpt-oss",
)


def answered(client: TestClient, key: str, **changes: Any) -> dict[str, Any]:
    """Today's answer to a question, or to one that differs from it."""
    question = ASKED[key]
    return answer_of(client.post(question["call"], json=merge_requests(request_of(question), changes)))


def best(client: TestClient, key: str, **changes: Any) -> dict[str, Any]:
    """The first recommendation of an answer."""
    found: dict[str, Any] = answered(client, key, **changes)["recommendations"][0]
    return found


def codes(answer: Mapping[str, Any]) -> set[str]:
    return {notice["code"] for notice in answer["warnings"]}


IN_FLIGHT = {
    "phase": "inference",
    "model": "llama-3.1-8b-instruct",
    "traffic": {"concurrent_requests": 500, "input_tokens": 1000, "output_tokens": 300},
    "slo": {"ttft_ms": 2000, "tpot_ms": 25},
}
REQUESTS = {key: request_of(question) for key, question in ASKED.items() if question["call"] == "/recommend"}
REQUESTS["requests in flight"] = {"workload": IN_FLIGHT}


@pytest.mark.parametrize("key", REQUESTS)
def test_a_recommendation_matches_the_estimate_of_its_deployment(client: TestClient, key: str) -> None:
    body = merge_requests(REQUESTS[key], {"rejected_limit": 20})  # nothing is left out of a long answer
    for ranked in client.post("/recommend", json=body).json()["recommendations"][:3]:
        again = client.post("/estimate", json={"workload": body["workload"], "deployment": ranked["deployment"]}).json()
        again["performance"] = as_shown(again["performance"], ranked["performance"])
        again["confidence"] = levels_of_deployment(again, ranked)
        ranked["confidence"] = levels_of_deployment(ranked, ranked)
        for part in ("deployment", "memory", "performance", "cost", "confidence"):
            assert again[part] == ranked[part], (key, ranked["rank"], part)


def test_a_spare_stands_on_a_machine_of_its_own(client: TestClient) -> None:
    first = best(client, "chat-70b")
    d = first["deployment"]
    placed = d["replicas"] + d["spare_replicas"]
    assert placed - -(-placed // d["nodes"]) >= d["replicas"]
    assert first["confidence"]["meets_slo"] >= SURE
    assert "accuracy_check_owed" in codes(answered(client, "chat-70b"))


def test_any_zone_lost_leaves_what_the_peak_needs(client: TestClient) -> None:
    for ranked in answered(client, "chat-70b-zones")["recommendations"]:
        d = ranked["deployment"]
        placed = d["replicas"] + d["spare_replicas"]
        assert d["nodes"] >= 3
        assert placed - -(-placed // 3) >= d["replicas"]
        assert d["offer"]["region"] != "unspecified"
    assert "zones_not_verified" in codes(answered(client, "chat-70b-zones"))
    spread = best(client, "chat-70b-zones")["cost"]["usd_per_hour"]
    together = best(client, "chat-70b-zones", workload={"availability": {"redundancy": "n+1", "zones": 1}})
    assert together["cost"]["usd_per_hour"] <= spread


@pytest.mark.parametrize("key", ["405b", "7b", "7b-full", "qlora"])
def test_runs_are_in_time_and_more_accelerators_never_do_more_each(client: TestClient, key: str) -> None:
    answer = answered(client, key)
    for ranked in answer["recommendations"]:
        assert ranked["confidence"]["meets_deadline"] >= SURE
    efficiency = [point["efficiency"] for point in answer["scaling"]["points"]]
    assert max(efficiency) <= 1
    assert efficiency == sorted(efficiency, reverse=True)


@pytest.mark.parametrize("key", ["7b", "7b-full"])
def test_small_models_get_no_pipeline(client: TestClient, key: str) -> None:
    assert best(client, key)["deployment"]["pipeline_parallel"] == 1


def test_a_batch_that_was_not_given_is_shown_with_what_it_decides(client: TestClient) -> None:
    answer = answered(client, "405b-batch")
    (batch,) = (a for a in answer["assumptions"] if a["name"] == "global_batch_sequences")
    assert not batch["asked"]
    assert batch["value"] * 4096 >= 8e6
    assert any("batch" in change["change"] for change in answer["sensitivity"])


def test_seventy_billion_in_four_bits_fit_one_accelerator(client: TestClient) -> None:
    first = best(client, "qlora")
    assert first["deployment"]["total_accelerators"] == 1
    slow = next(i["high"] for i in first["performance"]["intervals"] if i["quantity"] == "days")
    assert slow <= 2


def test_a_team_gets_a_small_card(client: TestClient) -> None:
    answer = answered(client, "team")
    first = answer["recommendations"][0]
    assert first["deployment"]["total_accelerators"] == 1
    assert first["cost"]["usd_per_hour"] < 1
    assert "no_redundancy" in codes(answer)
    assert "overkill" not in "".join(codes(answer))


def test_one_person_reads_no_faster_than_it_writes(client: TestClient) -> None:
    for ranked in answered(client, "one-user")["recommendations"]:
        assert ranked["performance"]["tpot_ms"]["p95"] <= 200


def test_cached_prompts_take_memory(client: TestClient) -> None:
    answer = answered(client, "agents")
    assert "prefix_cache_must_survive" in codes(answer)
    first = answer["recommendations"][0]
    assert first["memory"]["prefix_cache_gib"] > 0
    slower = best(client, "agents", workload={"traffic": {"turn_gap_s": 1200}})["cost"]["usd_per_hour"]
    without = best(client, "agents", workload={"traffic": {"cached_prefix_fraction": 0}})["cost"]["usd_per_hour"]
    assert first["cost"]["usd_per_hour"] <= slower <= without


def test_prefixes_are_ignored_where_keeping_them_costs_more(client: TestClient) -> None:
    answer = answered(client, "agents", workload={"traffic": {"turn_gap_s": 1200}})
    assert "prefix_hits_not_counted" in codes(answer)
    assert "prefix_cache_must_survive" not in codes(answer)
    first = answer["recommendations"][0]
    workload = merge_requests(request_of(ASKED["agents"])["workload"], {"traffic": {"turn_gap_s": 1200}})
    again = client.post("/estimate", json={"workload": workload, "deployment": first["deployment"]}).json()
    assert again["deployment"] == first["deployment"]
    assert again["performance"]["ttft_ms"] == first["performance"]["ttft_ms"]
    assert "prefix_hits_not_counted" in codes(again)
    off = {**first["deployment"], "scheduler": {"prefix_cache": False}}
    assert "prefix_hits_not_counted" not in codes(
        client.post("/estimate", json={"workload": workload, "deployment": off}).json()
    )


def test_a_volume_is_done_in_time(client: TestClient) -> None:
    for ranked in answered(client, "volume")["recommendations"]:
        assert ranked["performance"]["days"] * 24 < 60
        assert ranked["confidence"]["meets_deadline"] >= SURE
        assert ranked["deployment"]["offer"]["pricing_model"] == "on_demand"


def test_sufficient_changes_are_named_where_nothing_is_feasible(client: TestClient) -> None:
    answer = answered(client, "r1-budget")
    assert answer["recommendations"] == []
    effects = {change["change"].split(" (")[0]: change["effect"] for change in answer["sensitivity"]}
    assert "feasible at 373,000 USD" in effects["raise max_purchase_usd"]
    assert "feasible with" in effects["allow every environment, provider, region and pricing model"]
    assert "check accuracy" in effects["allow 4-bit weights, broker and estimated prices"]
    enough = answered(client, "r1-budget", constraints={"max_purchase_usd": 373_000})
    assert enough["recommendations"]


def test_given_hardware_carries_the_same_whatever_is_asked(client: TestClient) -> None:
    most = answered(client, "405b-on-8")
    assert most["performance"]["overloaded"]
    less = answered(client, "405b-on-8", workload={"traffic": {"peak_requests_per_s": 3}})
    assert not less["performance"]["overloaded"]
    capacity = "requests_per_s_capacity"
    assert most["performance"][capacity] == less["performance"][capacity]


def test_no_layout_by_hand_carries_more(client: TestClient) -> None:
    first = answered(client, "70b-on-4")
    assert first["deployment"]["total_accelerators"] == 4
    for tensor, pipeline in ((1, 1), (2, 1), (4, 1), (1, 2), (2, 2), (1, 4)):
        split = {"tensor_parallel": tensor, "pipeline_parallel": pipeline}
        by_hand = answered(client, "70b-on-4", deployment={**split, "accelerators_per_replica": tensor * pipeline})
        capacity = by_hand["performance"]["requests_per_s_capacity"]
        assert capacity <= first["performance"]["requests_per_s_capacity"] * (1 + 1e-6), (tensor, pipeline)


def test_forty_accelerators_all_work(client: TestClient) -> None:
    found = answered(client, "40-gpus")
    d = found["deployment"]
    assert d["total_accelerators"] == 40
    assert d["tensor_parallel"] * d["pipeline_parallel"] * d["context_parallel"] * d["data_parallel"] == 40
    assert found["performance"]["scaling_efficiency"] <= 1
    assert "batch" in {reason["code"] for reason in found["explanation"]}


@pytest.mark.parametrize("key", SITUATIONS)
def test_the_first_three_rest_on_firm_prices(client: TestClient, key: str) -> None:
    ranked = answered(client, key)["recommendations"]
    assert ranked
    for one in ranked[:3]:
        price, offer = one["cost"]["price"], one["deployment"]["offer"]
        assert price["kind"] in COUNTED
        assert price["commitment"] == "none"
        assert price["source"] and price["observed"] and price["age_days"] is not None
        assert offer["pricing_model"] in ("on_demand", "owned")


def test_offers_rented_in_the_eu_are_in_the_eu(client: TestClient) -> None:
    ranked = answered(client, "eu-chat")["recommendations"]
    of_region = {r["region"]: [r["country"]] for r in client.get("/catalog/regions?limit=500").json()["items"]}
    places = [r["cost"]["price"].get("countries") or of_region[r["deployment"]["offer"]["region"]] for r in ranked]
    assert places and all({*countries} <= {*EU} for countries in places)


@pytest.mark.parametrize("key", ["200-users", "images", "gpt-oss"])
def test_no_service_is_put_on_hardware_other_than_servers(client: TestClient, key: str) -> None:
    answer = answered(client, key)
    parts = {a["slug"]: a["segment"] for a in client.get("/catalog/accelerators?limit=500").json()["items"]}
    assert {parts[r["deployment"]["accelerator"]] for r in answer["recommendations"]} <= {"datacenter", "workstation"}
    assert answer["rejected_by_code"]["not_for_servers"] > 0


def test_a_desk_gets_a_desktop_and_an_edge_box_stays_within_its_power(client: TestClient) -> None:
    for one in answered(client, "desktop")["recommendations"][:3]:
        assert one["cost"]["purchase_usd"] <= 5000
        assert "jetson" not in one["deployment"]["accelerator"]
    for one in answered(client, "edge")["recommendations"]:
        assert one["cost"]["power_kw"] <= 0.06


def test_processors_are_had_by_the_instance(client: TestClient) -> None:
    for one in answered(client, "embed-cpu")["recommendations"]:
        assert one["deployment"]["weight_format"] in ("bf16", "fp16", "fp32")
    assert best(client, "embed-cpu")["cost"]["usd_per_hour"] < 2


def test_a_run_of_a_day_is_done_in_a_day(client: TestClient) -> None:
    for one in answered(client, "tune-day")["recommendations"]:
        assert one["performance"]["days"] < 1
        assert one["confidence"]["meets_deadline"] >= SURE


def test_instances_of_processors_are_compared_as_what_they_are(client: TestClient) -> None:
    ranked = answered(client, "embed-cpu")["recommendations"]
    texts = [reason["text"] for one in ranked[:3] for reason in one["explanation"] if reason["code"] == "comparison"]
    assert texts and not any("TB/s" in text or "TFLOP/s" in text for text in texts)
    assert "c8i.xlarge" in texts[0]
