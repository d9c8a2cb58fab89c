"""Every number of a cost is recomputed from the answer that shows it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

BODIES = {
    path.stem.removeprefix("recommend-"): json.loads(path.read_text())
    for path in sorted((Path(__file__).parent / "bodies").glob("recommend-*.json"))
}
LIMITS = st.fixed_dictionaries(
    {},
    optional={
        "environments": st.sampled_from([["on_prem"], ["cloud"], ["cloud", "on_prem"]]),
        "weight_formats": st.sampled_from([["bf16"], ["int4-awq", "bf16"]]),
        "vendors": st.sampled_from([["nvidia"], ["amd"], ["nvidia", "amd", "apple", "intel"]]),
    },
)
ECONOMICS = st.fixed_dictionaries(
    {},
    optional={
        "horizon_months": st.integers(1, 120),
        "electricity_usd_per_kwh": st.floats(0.01, 1),
        "pue": st.floats(1, 2),
    },
)
NEAR = 1e-4  # of numbers shown with six digits, and their sums


def check(shown: dict[str, Any]) -> None:
    """A deployment's cost, from its bill and the deployment alone."""
    cost, lines = shown["cost"], shown["cost"]["parts"]
    figures = {line["what"]: line["quantity"] for line in lines}
    hours = figures["horizon_hours"]
    machines = [pool["nodes"] for pool in shown["deployment"].get("pools", {"all": shown["deployment"]}).values()]
    kilowatts = [line["quantity"] for line in lines if line["what"] == "machine_kw"]
    drawn = sum(many * each for many, each in zip(machines, kilowatts, strict=True))
    assert cost["power_kw"] == pytest.approx(drawn, rel=NEAR)
    (unit,) = (what for what in ("tokens", "samples") if f"{what}_per_s" in figures)
    millions_per_hour = figures[f"{unit}_per_s"] * 3600 / 1e6
    power = cost.get("average_power_kw", cost["power_kw"])
    assert cost[f"kwh_per_million_{unit}"] == pytest.approx(power / millions_per_hour, rel=NEAR)
    bought = sum(line["quantity"] * line["unit_usd"] for line in lines if "unit_usd" in line)
    by_hour = sum(line["quantity"] * line["usd_per_hour"] for line in lines if "usd_per_hour" in line)
    if cost["usd_per_hour"] is None:
        assert (bought, by_hour, cost["usd_per_month"], cost["tco_usd"]) == (0, 0, None, None)
        return
    assert (cost["purchase_usd"] or 0) == pytest.approx(bought, rel=NEAR)
    assert cost["usd_per_hour"] == pytest.approx(bought / hours + by_hour, rel=NEAR)
    assert cost["usd_per_month"] == pytest.approx(cost["usd_per_hour"] * 730, rel=NEAR)
    assert cost["tco_usd"] == pytest.approx(cost["usd_per_hour"] * hours, rel=NEAR)
    assert cost[f"usd_per_million_{unit}"] == pytest.approx(cost["usd_per_hour"] / millions_per_hour, rel=NEAR)
    if cost["usd_total"] is not None:
        days = shown["performance"]["days"]
        assert cost["usd_total"] == pytest.approx(cost["usd_per_hour"] * days * 24, rel=NEAR)


@pytest.mark.parametrize("name", BODIES)
def test_every_number_of_a_cost_follows_from_the_answer(client: TestClient, name: str) -> None:
    ranks = client.post("/recommend", json=BODIES[name]).json()["recommendations"]
    for place, ranked in enumerate(ranks):
        if ranked["cost"]["parts"] is not None or place == 0:
            check(ranked)


@pytest.mark.slow
@given(st.sampled_from(sorted(BODIES)), LIMITS, ECONOMICS)
def test_whatever_is_asked_it_follows(
    client: TestClient, name: str, limits: dict[str, Any], economics: dict[str, Any]
) -> None:
    if BODIES[name]["workload"]["phase"] != "inference":
        limits.pop("weight_formats", None)  # a run says its precision
    request = {**BODIES[name], "constraints": limits, "economics": economics, "rejected_limit": 3}
    answer = client.post("/recommend", json=request)
    assert answer.status_code == 200, answer.json()
    for ranked in answer.json()["recommendations"]:
        check(ranked)


FACTORS = [2, 1, 1, 1, 1, 2, 5, 10, 16, 20, 22, 21, 18, 19, 21, 20, 18, 15, 12, 10, 8, 6, 4, 3]
SHAPES = ({"peak_to_average": 3}, {"hourly_factors": FACTORS}, {"hourly_factors": [1] * 24})


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("bought", [["on_demand"], ["owned"], ["reserved_1y", "committed_1y"]])
def test_every_figure_of_an_answer_is_that_of_the_day(
    client: TestClient, shape: dict[str, Any], bought: list[str]
) -> None:
    """Rank, month, horizon, price per token, hosted API and bill of materials cost what the day costs."""
    traffic = {"peak_requests_per_s": 800, "input_tokens": 1000, "output_tokens": 200, **shape}
    workload = {"phase": "inference", "model": "llama-3.1-8b-instruct", "traffic": traffic}
    request = {"workload": workload, "constraints": {"pricing_models": bought}, "include": ["day"], "rejected_limit": 3}
    answer = client.post("/recommend", json=request).json()
    ranks = answer["recommendations"]
    costs = [ranked["cost"] for ranked in ranks]
    hourly = [cost["usd_per_hour"] for cost in costs]
    assert hourly == sorted(hourly)
    for cost in costs:
        assert cost["usd_per_day"] == pytest.approx(24 * cost["usd_per_hour"], rel=NEAR)
        assert cost["usd_per_month"] == pytest.approx(730 * cost["usd_per_hour"], rel=NEAR)
        assert cost["usd_per_hour"] <= cost["peak_usd_per_hour"] * (1 + NEAR)
        assert cost["average_power_kw"] <= cost["power_kw"] * (1 + NEAR)
    check(ranks[0])
    saves = costs[0]["usd_per_hour"] < costs[0]["peak_usd_per_hour"] * (1 - NEAR)
    assert saves == (
        len(set(FACTORS if "peak_to_average" in shape else shape["hourly_factors"])) > 1
        and (bought != ["reserved_1y", "committed_1y"])
    )
    asked = next(v for v in ranks[0]["confidence"]["by_level"] if v["confidence"] == ranks[0]["confidence"]["asked"])
    assert asked["total_accelerators"] == ranks[0]["deployment"]["total_accelerators"]
    assert asked["usd_per_hour"] == pytest.approx(hourly[0], rel=NEAR)
    own = re.search(r"autoscaling: ([\d,]+) USD", answer.get("hosted_api", {}).get("text", ""))
    assert own is None or float(own[1].replace(",", "")) == pytest.approx(costs[0]["usd_per_month"], rel=1e-3)
    bill = client.get(f"/recommendations/{answer['id']}/bill-of-materials").json()
    spent = sum(line["line_total"] for line in bill["lines"] if line.get("line_total") is not None)
    # Bought over the horizon, committed for a year, and on demand for one month.
    term = 36 if costs[0]["purchase_usd"] is not None else 12 if "1y" in bought[0] else 1
    assert spent == pytest.approx(costs[0]["tco_usd"] * term / 36, rel=1e-3)


def test_a_deployment_posted_back_has_the_same_bill(client: TestClient) -> None:
    request = {**BODIES["inference-deepseek-v3"], "constraints": {"environments": ["on_prem"]}, "rejected_limit": 3}
    ranked = client.post("/recommend", json=request).json()["recommendations"]
    for found in ranked:
        back = {"workload": request["workload"], "deployment": found["deployment"]}
        again = client.post("/estimate", json=back).json()
        assert again["cost"] == found["cost"]
        check(again)


BOUGHT = {"accelerator": "nvidia-rtx-pro-6000-blackwell-server", "offer": {"pricing_model": "owned"}}
RENTED = {"accelerator": "nvidia-gh200-96gb", "offer": {"pricing_model": "on_demand"}}


@pytest.mark.parametrize("pools", [(BOUGHT, RENTED), (RENTED, BOUGHT), (BOUGHT, BOUGHT), (RENTED, RENTED)])
def test_pools_had_two_ways_add_up(client: TestClient, pools: tuple[dict[str, Any], dict[str, Any]]) -> None:
    workload = {
        "phase": "inference",
        "model": "meta-llama/Llama-3.1-8B-Instruct",
        "traffic": {"peak_requests_per_s": 2, "input_tokens": 4000, "output_tokens": 200},
    }
    both = dict(zip(("prefill", "decode"), pools, strict=True))
    deployment = {"accelerator": "nvidia-gh200-96gb", "engine": "vllm", "pools": both}
    found = client.post("/estimate", json={"workload": workload, "deployment": deployment}).json()
    check(found)
    assert (found["cost"]["purchase_usd"] is None) == (BOUGHT not in pools)


@pytest.mark.parametrize(("replicas", "spanned", "ports"), [(1, 2, 16), (3, 2, 48), (2, 1, 0)])
def test_machines_of_one_owned_replica_pay_for_the_network_between_them(
    client: TestClient, replicas: int, spanned: int, ports: int
) -> None:
    size = 8 * spanned
    deployment = {
        "accelerator": "nvidia-h200-sxm-141gb",
        "system": "smci-821ge-h200",
        "accelerators_per_replica": size,
        "tensor_parallel": 8,
        "pipeline_parallel": spanned,
        "replicas": replicas,
        "spare_replicas": 0,
        "engine": "vllm",
        "weight_format": "fp8",
    }
    workload = {
        "phase": "inference",
        "model": "deepseek-ai/DeepSeek-V3",
        "traffic": {"concurrent_requests": 4, "input_tokens": 1000, "output_tokens": 200},
    }
    found = client.post("/estimate", json={"workload": workload, "deployment": deployment}).json()
    check(found)
    network = [line for line in found["cost"]["parts"] if line["what"] == "network_gbit_per_s"]
    assert sum(line["quantity"] for line in network) == 400 * ports
    assert found["deployment"]["nodes"] == replicas * spanned


LEVELS: dict[str, dict[str, Any]] = {
    "long prompts": {
        "workload": {
            "phase": "inference",
            "model": "llama-3.3-70b-instruct",
            "traffic": {
                "peak_requests_per_s": 0.7,
                "input_tokens": {"mean": 100000, "p95": 128000},
                "output_tokens": {"mean": 500, "p95": 1000},
            },
            "slo": {"ttft_ms": 20000, "tpot_ms": 60},
        },
        "constraints": {"accelerators": ["nvidia-b200*"], "environments": ["cloud"]},
    },
    "a spare": {
        "workload": {
            "phase": "inference",
            "model": "mistral-large-2411",
            "traffic": {"peak_requests_per_s": 5, "input_tokens": 2000, "output_tokens": 400},
            "slo": {"ttft_ms": 2000, "tpot_ms": 60},
            "availability": {"redundancy": "n+1"},
        },
        "constraints": {"accelerators": ["nvidia-b200*"], "environments": ["cloud"]},
    },
    "many replicas": {
        "workload": {
            "phase": "inference",
            "model": "deepseek-ai/DeepSeek-V3",
            "traffic": {"peak_requests_per_s": 160, "input_tokens": 8000, "output_tokens": 500},
            "slo": {"ttft_ms": 5000, "tpot_ms": 50},
        },
        "constraints": {"accelerators": ["nvidia-b200*"]},
    },
    "requests in flight": {
        "workload": {
            "phase": "inference",
            "model": "llama-3.3-70b-instruct",
            "traffic": {"concurrent_requests": 250, "input_tokens": 2000, "output_tokens": 400},
        },
        "constraints": {"accelerators": ["nvidia-h200-sxm-141gb"]},
    },
}


@pytest.mark.parametrize("name", LEVELS)
def test_a_lower_level_costs_what_an_answer_at_that_confidence_costs(client: TestClient, name: str) -> None:
    request = LEVELS[name]
    first = client.post("/recommend", json=request).json()["recommendations"][0]
    rows = first["confidence"]["by_level"]
    (median,) = [row for row in rows if row["confidence"] == 0.5]
    again = {**request, "constraints": {**request["constraints"], "confidence": 0.5}}
    answer = client.post("/recommend", json=again).json()["recommendations"][0]
    # The simulation counts whole replicas, and with fewer behind one router each carries a little less.
    whole = answer["deployment"].get("pools", {"all": answer["deployment"]})
    each = answer["cost"]["usd_per_hour"] / sum(part["replicas"] for part in whole.values())
    # A level keeps the engines of its option unless they miss it: a new search may find others that cost a little less.
    same = answer["deployment"]["engine"] == first["deployment"]["engine"]
    assert median["usd_per_hour"] == pytest.approx(answer["cost"]["usd_per_hour"], rel=0.08 if same else 0.16, abs=each)
    assert median["total_accelerators"] < next(row for row in rows if row["confidence"] == 0.8)["total_accelerators"]
