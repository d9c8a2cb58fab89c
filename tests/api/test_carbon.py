"""Greenhouse gases of the electricity: figures, objective, limit, and the country of owned machines."""

from __future__ import annotations

import random
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.examples import answer_of

CHAT: dict[str, Any] = {
    "workload": {
        "phase": "inference",
        "model": "meta-llama/Llama-3.1-8B-Instruct",
        "traffic": {"peak_requests_per_s": 4, "input_tokens": 1000, "output_tokens": 200},
        "slo": {"ttft_ms": 2000, "tpot_ms": 60},
    },
    "include": [],
}
RUN: dict[str, Any] = {
    "workload": {
        "phase": "training",
        "model": "meta-llama/Llama-2-7b-hf",
        "training_tokens": 1e11,
        "sequence_length": 4096,
        "global_batch_tokens": 4194304,
        "deadline_days": 30,
    },
    "include": [],
}
JOB: dict[str, Any] = {
    "workload": {
        "phase": "inference",
        "model": "meta-llama/Llama-3.1-8B-Instruct",
        "traffic": {
            "offline": True,
            "volume_requests": 2e6,
            "deadline_hours": 60,
            "input_tokens": 1000,
            "output_tokens": 200,
        },
    },
    "include": [],
}
OWN = {"constraints": {"environments": ["on_prem"]}}
MONTH_H = 730.0


def recommend(client: TestClient, request: dict[str, Any], **changes: Any) -> Any:
    return answer_of(client.post("/recommend", json={**request, **changes}))


def costs(answer: Any) -> list[dict[str, Any]]:
    return [ranked["cost"] for ranked in answer["recommendations"]]


def text_of(ranked: Any) -> str:
    return next((reason["text"] for reason in ranked["explanation"] if reason["code"] == "carbon"), "")


@pytest.mark.parametrize("request_", [CHAT, RUN, JOB], ids=["service", "run", "job"])
def test_carbon_is_energy_times_pue_times_the_intensity_of_the_grid(client: TestClient, request_: Any) -> None:
    answer = recommend(client, request_, objective="carbon")
    for ranked, cost in zip(answer["recommendations"], costs(answer), strict=True):
        (grid,) = cost["carbon_sources"]
        per_kwh = 1.3 * grid["g_per_kwh"] / 1e3
        assert cost["carbon_kg_per_million_tokens"] == pytest.approx(cost["kwh_per_million_tokens"] * per_kwh, rel=1e-4)
        hours = MONTH_H if request_ is CHAT else ranked["performance"]["days"] * 24
        assert cost["carbon_period"] == ("month" if request_ is CHAT else "run")
        assert cost["carbon_kg_total"] == pytest.approx(cost["power_kw"] * hours * per_kwh, rel=1e-4)
        assert grid["source"] and grid["as_of"]
    first = answer["recommendations"][0]
    assert f"g/kWh in {costs(answer)[0]['carbon_sources'][0]['year']}" in text_of(first)


@pytest.mark.parametrize("request_", [CHAT, RUN, JOB], ids=["service", "run", "job"])
def test_the_carbon_objective_never_ranks_more_carbon_first(client: TestClient, request_: Any) -> None:
    answer = recommend(client, request_, objective="carbon", limit=20)
    carbon = [cost["carbon_kg_per_million_tokens"] for cost in costs(answer)]
    assert len(carbon) > 3 and carbon == sorted(carbon)
    cheapest = [c for c in costs(recommend(client, request_, limit=20)) if "carbon_kg_total" in c]
    assert all(carbon[0] <= cost["carbon_kg_per_million_tokens"] for cost in cheapest)


def test_the_same_machine_on_a_greener_grid_causes_less_carbon(client: TestClient) -> None:
    deployment = {"accelerator": "nvidia-l4", "accelerators_per_replica": 1, "engine": "vllm", "weight_format": "fp8"}
    found = {}
    for region in ("northamerica-northeast1", "europe-west1", "us-central1", "us-west3", "asia-south1"):
        offer = {"provider": "gcp", "region": region, "pricing_model": "on_demand", "instance_type": "g2-standard-4"}
        body = {"workload": CHAT["workload"], "deployment": {**deployment, "offer": offer}}
        response = client.post("/estimate", json=body)
        if response.status_code == 200:
            cost = response.json()["cost"]
            found[cost["carbon_sources"][0]["g_per_kwh"]] = cost["carbon_kg_total"], cost["power_kw"]
    assert len(found) > 3 and len({power for _, power in found.values()}) == 1
    assert [kg for _, (kg, _) in sorted(found.items())] == sorted(kg for kg, _ in found.values())


def test_a_limit_on_carbon_rejects_what_exceeds_it_and_says_by_how_much(client: TestClient) -> None:
    free = recommend(client, CHAT, objective="carbon")
    least, *others = (cost["carbon_kg_total"] for cost in costs(free))
    most = (least + others[0]) / 2
    limited = recommend(client, CHAT, constraints={"max_carbon_kg": most})
    assert costs(limited) and all(cost["carbon_kg_total"] <= most for cost in costs(limited))
    assert limited["rejected_by_code"]["over_carbon"] > 5
    closest = next(r for r in limited["rejected"] if r["code"] == "over_carbon")
    assert closest["needed"] > most == pytest.approx(closest["available"], rel=1e-5) and closest["unit"] == "kg"


def test_an_unreachable_limit_on_carbon_names_the_value_that_is_enough(client: TestClient) -> None:
    answer = recommend(client, CHAT, constraints={"max_carbon_kg": 1}, include=["sensitivity"])
    assert not answer["recommendations"]
    (effect,) = [e["effect"] for e in answer["sensitivity"] if e["change"].startswith("raise max_carbon_kg")]
    assert effect.startswith("feasible at ")
    least = costs(recommend(client, CHAT, objective="carbon"))[0]["carbon_kg_total"]
    assert float(effect.removeprefix("feasible at ").split(" kg")[0]) == pytest.approx(least, rel=0.01)


def test_a_run_is_limited_over_its_whole_duration(client: TestClient) -> None:
    least = costs(recommend(client, RUN, objective="carbon"))[0]["carbon_kg_total"]
    for most, feasible in ((least * 1.01, True), (least * 0.5, False)):
        assert bool(recommend(client, RUN, constraints={"max_carbon_kg": most})["recommendations"]) == feasible


def test_a_place_that_is_not_known_has_no_carbon_and_no_world_average(client: TestClient) -> None:
    answer = recommend(client, CHAT)
    unnamed = [r for r in answer["recommendations"] if len(r["cost"]["price"].get("countries", ())) > 1]
    assert unnamed
    for ranked in unnamed:
        assert not [name for name in ranked["cost"] if "carbon" in name] and not text_of(ranked)
    asked = recommend(client, CHAT, objective="carbon")
    assert asked["rejected_by_code"]["unknown_carbon"] > 5
    (runpod, *_) = [r["text"] for r in asked["rejected"] if r["code"] == "unknown_carbon"]
    assert "would stand is not known, so its carbon cannot be calculated" in runpod


def test_owned_machines_stand_in_the_country_of_the_request(client: TestClient) -> None:
    without = recommend(client, CHAT, **OWN)
    assert all("carbon_kg_total" not in cost for cost in costs(without))
    refused = recommend(client, CHAT, **OWN, objective="carbon")
    assert not refused["recommendations"] and "set `economics.country`" in refused["summary"]
    kg, usd = {}, {}
    for country in ("Sweden", "DE", "poland"):
        cost = costs(recommend(client, CHAT, **OWN, economics={"country": country}, limit=1))[0]
        kg[country], usd[country] = cost["carbon_kg_total"], cost["usd_per_hour"]
    assert kg["Sweden"] < kg["DE"] < kg["poland"]  # hydro and nuclear power, a mixture, mostly coal
    assert usd["Sweden"] < usd["poland"] < usd["DE"]  # 0.10, 0.20 and 0.22 USD/kWh


def test_a_stated_electricity_price_wins_over_that_of_the_country(client: TestClient) -> None:
    def electricity(**changes: Any) -> tuple[float, Any]:
        answer = recommend(client, CHAT, **OWN, limit=1, **changes)
        (price,) = [a for a in answer["assumptions"] if a["name"] == "electricity_usd_per_kwh"]
        return costs(answer)[0]["usd_per_hour"], price

    usd, assumed = electricity(economics={"country": "DE"})
    assert assumed["value"] == 0.2241 and "DE, 2025-S2" in assumed["reason"] and "Eurostat" in assumed["source"]
    stated, shown = electricity(economics={"country": "DE", "electricity_usd_per_kwh": 0.05})
    assert stated < usd and (shown["value"], shown["asked"]) == (0.05, True)
    by_name, _ = electricity(economics={"country": "DE"}, assumptions={"electricity_usd_per_kwh": 0.05})
    assert by_name == stated


def test_a_country_without_a_price_keeps_the_assumed_one_and_says_so(client: TestClient) -> None:
    answer = recommend(client, CHAT, **OWN, economics={"country": "KE"}, limit=1)
    (warning,) = [w["text"] for w in answer["warnings"] if w["code"] == "electricity_price"]
    assert warning.startswith("The industrial electricity price of KE is not known; 0.12 USD/kWh is assumed.")
    assert costs(answer)[0]["carbon_sources"][0]["country"] == "KE"


@pytest.mark.parametrize("name", ["Atlantis", "EU", "D*", "US-PJM"])
def test_only_one_country_is_accepted(client: TestClient, name: str) -> None:
    response = client.post("/recommend", json={**CHAT, "economics": {"country": name}})
    assert response.status_code == 422
    assert response.json()["errors"][0]["pointer"] == "#/economics/country"


def test_a_ranked_deployment_estimated_by_itself_has_the_same_carbon(client: TestClient) -> None:
    for changes in ({"objective": "carbon"}, {**OWN, "economics": {"country": "FR"}}):
        ranked = recommend(client, CHAT, **changes, limit=2)["recommendations"][-1]
        body = {"workload": CHAT["workload"], "deployment": ranked["deployment"]}
        body |= {"economics": changes["economics"]} if "economics" in changes else {}
        own = client.post("/estimate", json=body).json()
        assert own["cost"]["carbon_kg_total"] == ranked["cost"]["carbon_kg_total"]


@pytest.mark.slow
def test_the_relations_hold_for_random_services(client: TestClient) -> None:
    random.seed(20261127)
    for _ in range(6):
        traffic = {
            "peak_requests_per_s": random.choice([0.5, 3, 20]),
            "input_tokens": random.choice([200, 2000, 8000]),
            "output_tokens": random.choice([50, 500]),
        }
        model = random.choice(["meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-70B-Instruct", "qwen3-32b"])
        workload = {"phase": "inference", "model": model, "traffic": traffic}
        regions = random.choice([[], ["EU"], ["US"], ["asia"]])
        question = {"workload": workload, "include": [], "limit": 20, "constraints": {"regions": regions}}
        answer = recommend(client, question, objective="carbon")
        carbon = [cost["carbon_kg_per_million_tokens"] for cost in costs(answer)]
        assert carbon == sorted(carbon)
        known = [c for c in costs(recommend(client, question)) if "carbon_kg_total" in c]
        assert all(carbon[0] <= cost["carbon_kg_per_million_tokens"] * (1 + 1e-5) for cost in known)
        if carbon:
            most = costs(answer)[len(carbon) // 2]["carbon_kg_total"] * 1.001
            limits = {"regions": regions, "max_carbon_kg": most}
            kept = recommend(client, question, constraints=limits)
            assert costs(kept) and all(cost["carbon_kg_total"] <= most for cost in costs(kept))
