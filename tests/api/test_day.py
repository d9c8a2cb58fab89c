"""Daily profiles in the API: accepted and refused requests, and the size limit of answers."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from app.api.answering import MAX_BYTES
from app.api.schemas.answers import EstimateShown
from tests.api.test_traffic import estimate, refused
from tests.examples import answer_of

FACTORS = [1, 0, 0, 0, 1, 2, 4, 6, 9, 12, 14, 15, 14, 14, 15, 16, 15, 13, 10, 8, 6, 4, 3, 2]
SHAPE: dict[str, Any] = {"hourly_factors": FACTORS, "input_tokens": 800, "output_tokens": 250}


def test_a_peak_and_an_average_give_each_other(client: TestClient) -> None:
    by_peak = estimate(client, peak_requests_per_s=40, **SHAPE)
    mean = 40 * sum(FACTORS) / 16 / 24
    by_mean = estimate(client, average_requests_per_s=mean, **SHAPE)
    assert by_peak["day"] == by_mean["day"]
    assert by_peak["day"]["hours"][15]["requests_per_s"] == 40
    assumptions = {a["name"]: a for a in by_peak["assumptions"]}
    assert assumptions["average_requests_per_s"]["value"] == pytest.approx(mean, rel=1e-4)
    assert "average_to_peak" not in assumptions
    EstimateShown.model_validate(by_peak)


def test_a_ratio_is_a_smooth_day(client: TestClient) -> None:
    found = estimate(client, users={"count": 4000, "requests_per_hour_each": 12}, peak_to_average=3)
    rates = [hour["requests_per_s"] for hour in found["day"]["hours"]]
    assert rates.index(max(rates)) == 14
    assert max(rates) / (sum(rates) / 24) == pytest.approx(3, rel=1e-3)
    assert found["day"]["autoscaled"]["replica_hours"] < found["day"]["fixed"]["replica_hours"]


def test_an_answer_has_no_day_if_the_request_gives_no_hours(client: TestClient) -> None:
    assert "day" not in estimate(client, peak_requests_per_s=40)


@pytest.mark.parametrize(
    ("traffic", "detail"),
    [
        ({"peak_requests_per_s": 4, "hourly_factors": [0] * 24}, "must not all be 0"),
        ({"peak_requests_per_s": 4, "hourly_factors": [1] * 23}, "24"),
        ({"peak_requests_per_s": 4, "hourly_factors": [-1, *[1] * 23]}, "0"),
        ({"peak_requests_per_s": 4, "peak_to_average": 0.5}, "1"),
        ({"peak_requests_per_s": 4, "peak_to_average": 25}, "24"),
        ({"peak_requests_per_s": 4, "peak_to_average": 2, "hourly_factors": FACTORS}, "not both"),
        ({"concurrent_requests": 4, "peak_to_average": 2}, "requires a rate or users"),
        ({"offline": True, "hourly_factors": FACTORS}, "requires a rate or users"),
        (
            {"peak_requests_per_s": 4, "average_requests_per_s": 3, "peak_to_average": 2},
            "Omit the average or the peak",
        ),
        ({"hourly_factors": FACTORS}, "exactly one of"),
        ({"average_requests_per_s": 3}, "exactly one of"),
    ],
)
def test_what_contradicts_itself_is_refused(client: TestClient, traffic: dict[str, Any], detail: str) -> None:
    assert any(detail in said for said in refused(client, **traffic).values())


def test_a_recommendation_with_a_day_stays_within_its_size(client: TestClient) -> None:
    workload = {
        "phase": "inference",
        "model": "meta-llama/Llama-3.1-70B-Instruct",
        "traffic": {"peak_requests_per_s": 40, **SHAPE},
    }
    response = client.post("/recommend", json={"workload": workload})
    assert response.status_code == 200, response.text
    assert len(response.content) <= MAX_BYTES
    ranks = response.json()["recommendations"]
    assert ["day" in rank for rank in ranks] == [True, *[False] * (len(ranks) - 1)]


def test_pools_have_a_day_of_both(client: TestClient) -> None:
    pools = {"prefill": {"accelerators_per_replica": 2}, "decode": {"accelerators_per_replica": 4}}
    body = {
        "workload": {
            "phase": "inference",
            "model": "meta-llama/Llama-3.1-70B-Instruct",
            "traffic": {"peak_requests_per_s": 40, **SHAPE},
        },
        "deployment": {
            "accelerator": "nvidia-h100-sxm5-80gb",
            "engine": "vllm",
            "weight_format": "fp8",
            "pools": pools,
        },
    }
    found = answer_of(client.post("/estimate", json=body))
    EstimateShown.model_validate(found)
    both = found["deployment"]["pools"].values()
    placed = sum(pool["replicas"] + pool.get("spare_replicas", 0) for pool in both)
    assert found["day"]["fixed"]["replica_hours"] == placed * 24
    assert {loss["what"].split()[0] for loss in found["day"]["failures"]} == {"prefill", "decode"}
