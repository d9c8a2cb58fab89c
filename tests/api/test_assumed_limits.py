"""Limits that a request leaves open rank and warn; only limits that it sets reject."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from app.sizing import recommend
from app.sizing.hardware.parts import KINDS
from app.sizing.question import Question
from app.sizing.snapshot import Catalog
from app.sizing.workload import RELAXED_LIMITS, InferenceWorkload
from tests.examples import as_shown, levels_of_deployment

PERSONAL: dict[str, Any] = {"concurrent_requests": 1, "input_tokens": 2000, "output_tokens": 500}
DESKS: dict[str, tuple[str, dict[str, Any]]] = {
    "a Mac up to 2,500 USD": (
        "openai/gpt-oss-20b",
        {"vendors": ["Apple"], "max_purchase_usd": 2500, "pricing_models": ["owned"]},
    ),
    "a 120B model on an M3 Ultra": (
        "openai/gpt-oss-120b",
        {"accelerators": ["apple-m3-ultra*"], "pricing_models": ["owned"]},
    ),
    "a 70B model on Strix Halo": (
        "meta-llama/Llama-3.3-70B-Instruct",
        {"accelerators": ["amd-ryzen-ai-max-395"], "pricing_models": ["owned"]},
    ),
    "a 70B model at a desk": (
        "meta-llama/Llama-3.3-70B-Instruct",
        {"max_purchase_usd": 6000, "pricing_models": ["owned"], "accelerators": ["apple-*", "nvidia-gb10*"]},
    ),
}


def asked(model: str, constraints: dict[str, Any], **workload: Any) -> dict[str, Any]:
    return {
        "workload": {"phase": "inference", "model": model, "traffic": PERSONAL, **workload},
        "constraints": constraints,
    }


@pytest.mark.parametrize("desk", DESKS)
def test_a_desk_that_misses_only_assumed_limits_is_answered_and_warned(client: TestClient, desk: str) -> None:
    answer = client.post("/recommend", json=asked(*DESKS[desk])).json()
    assert answer["recommendations"], answer["summary"]
    limits = {a["name"]: a["value"] for a in answer["assumptions"] if a["name"].startswith("slo.")}
    relaxed = [w["text"] for w in answer["warnings"] if w["code"] == "assumed_limits_missed"]
    usual = limits["slo.tpot_ms"] == pytest.approx(200)
    assert bool(relaxed) != usual
    first = answer["recommendations"][0]
    assert first["performance"]["tpot_ms"]["p95"] <= limits["slo.tpot_ms"]
    workload = asked(*DESKS[desk])["workload"]
    again = client.post("/estimate", json={"workload": workload, "deployment": first["deployment"]}).json()
    assert as_shown(again["performance"], first["performance"]) == first["performance"]
    assert levels_of_deployment(again, first) == levels_of_deployment(first, first)
    assert ("assumed_limits_missed" in {w["code"] for w in again["warnings"]}) == bool(relaxed)


@pytest.mark.parametrize("desk", DESKS)
def test_limits_that_the_request_sets_still_reject(client: TestClient, desk: str) -> None:
    answer = client.post("/recommend", json=asked(*DESKS[desk], slo={"ttft_ms": 20, "tpot_ms": 2})).json()
    assert answer["recommendations"] == []
    assert "assumed_limits_missed" not in {w["code"] for w in answer["warnings"]}


@pytest.mark.parametrize(
    "hardware",
    [
        {"inventory": [{"accelerator": "a6000", "count": 2}], "constraints": {"inventory": "only"}},
        {"inventory": [{"accelerator": "a6000", "count": 4}], "constraints": {"inventory": "only"}},
        {"constraints": {"accelerators": ["a6000"], "max_accelerators": 4}},
    ],
    ids=["two owned", "four owned in one machine", "at most four"],
)
def test_hardware_that_meets_the_usual_limits_only_in_greater_number_is_answered(
    client: TestClient, hardware: dict[str, Any]
) -> None:
    traffic = {"peak_requests_per_s": 0.5, "input_tokens": 2000, "output_tokens": 400}
    workload = {"phase": "inference", "model": "qwen3-32b", "traffic": traffic}
    answer = client.post("/recommend", json={"workload": workload, "limit": 1, "include": [], **hardware}).json()
    assert answer["recommendations"], answer["summary"]
    assert "assumed_limits_missed" in {w["code"] for w in answer["warnings"]}


SLOW: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "prompts of 30,000 tokens on four RTX 3090": (
        "meta-llama/Llama-3.3-70B-Instruct",
        {"accelerators": ["nvidia-rtx-3090"], "environments": ["on_prem"]},
        {"concurrent_requests": 1, "input_tokens": 30000, "output_tokens": 500},
    ),
    "prompts of 32,000 tokens on a Mac": (
        "Qwen/Qwen3-32B",
        {"vendors": ["Apple"]},
        {"concurrent_requests": 1, "input_tokens": 32000, "output_tokens": 500},
    ),
    "a team on Macs": (
        "meta-llama/Llama-3.3-70B-Instruct",
        {"vendors": ["Apple"]},
        {"concurrent_requests": 8, "input_tokens": 2000, "output_tokens": 500},
    ),
    "a service on T4": (
        "Qwen/Qwen3-32B",
        {"accelerators": ["nvidia-t4"]},
        {"peak_requests_per_s": 0.5, "input_tokens": 4000, "output_tokens": 500},
    ),
}


@pytest.mark.parametrize("slow", SLOW)
def test_slow_hardware_is_answered_within_the_shortest_limits_that_it_meets(client: TestClient, slow: str) -> None:
    model, constraints, traffic = SLOW[slow]
    open_limits = asked(model, constraints, traffic=traffic)
    answer = client.post("/recommend", json=open_limits).json()
    assert answer["recommendations"], answer["summary"]
    (text,) = [w["text"] for w in answer["warnings"] if w["code"] == "assumed_limits_missed"]
    times = float(text.split("ranked for limits ")[1].split(" times")[0])
    assert times in RELAXED_LIMITS
    used = {name: limit(answer, name) for name in ("ttft_ms", "tpot_ms")}
    same = client.post("/recommend", json=asked(model, constraints, traffic=traffic, slo=used)).json()
    assert same["recommendations"][0]["deployment"] == answer["recommendations"][0]["deployment"]
    shorter = max((each for each in RELAXED_LIMITS if each < times), default=1.0)
    tighter = {name: value * shorter / times for name, value in used.items()}
    assert (
        client.post("/recommend", json=asked(model, constraints, traffic=traffic, slo=tighter)).json()[
            "recommendations"
        ]
        == []
    )


def limit(answer: dict[str, Any], name: str) -> float:
    return float(next(a["value"] for a in answer["assumptions"] if a["name"] == f"slo.{name}"))


def test_one_further_search_finds_that_no_longer_limits_help(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    searches: list[tuple[float | None, bool, bool]] = []
    search = recommend.search_for_quantities

    def counted(question: Question, catalog: Catalog) -> Any:
        assert isinstance(question.workload, InferenceWorkload)
        limits = question.constraints
        searches.append((question.workload.slo.assumed_times, limits.workstation_fleets, limits.outdated_prices))
        return search(question, catalog)

    monkeypatch.setattr(recommend, "search_for_quantities", counted)
    traffic = {"peak_requests_per_s": 500, "input_tokens": 8000, "output_tokens": 2000}
    constraints = {"max_usd_per_hour": 2, "accelerators": ["nvidia-t4", "nvidia-p4", "nvidia-h100*"]}
    answer = client.post("/recommend", json=asked("Qwen/Qwen3-32B", constraints, traffic=traffic)).json()
    assert answer["recommendations"] == []
    assert len({times for times, *_ in searches}) <= 2
    assert sorted(searches) == sorted(set(searches)), "no search is repeated, with other machines and prices or without"
    searches.clear()
    client.post("/recommend", json=asked(*DESKS["a Mac up to 2,500 USD"]))
    assert len({times for times, *_ in searches}) <= 1


QLORA: dict[str, Any] = {
    "phase": "fine_tuning",
    "model": "meta-llama/Llama-3.1-70B",
    "method": "qlora",
    "training_tokens": 10e6,
    "sequence_length": 2048,
    "global_batch_sequences": 8,
}


def test_a_run_that_misses_only_an_assumed_deadline_is_answered_and_warned(client: TestClient) -> None:
    macs = {"vendors": ["Apple"], "pricing_models": ["owned"]}
    answer = client.post("/recommend", json={"workload": QLORA, "constraints": macs}).json()
    first = answer["recommendations"][0]
    (deadline,) = [a for a in answer["assumptions"] if a["name"] == "deadline_days"]
    assert 1 < first["performance"]["days"] <= deadline["value"]
    assert not deadline["asked"]
    (text,) = [w["text"] for w in answer["warnings"] if w["code"] == "assumed_limits_missed"]
    assert f", {deadline['value']:g} times as long." in text  # the usual deadline of an adapter is one day
    again = client.post("/estimate", json={"workload": QLORA, "deployment": first["deployment"]}).json()
    assert "assumed_limits_missed" in {w["code"] for w in again["warnings"]}
    assert again["performance"]["days"] == pytest.approx(first["performance"]["days"])
    rushed = {"workload": {**QLORA, "deadline_hours": 24}, "constraints": macs}
    assert client.post("/recommend", json=rushed).json()["recommendations"] == []


def test_prices_that_are_no_offers_are_named_where_they_meet_the_usual_limits(client: TestClient) -> None:
    """A machine for a desk up to 4,500 USD: offered ones read prompts slowly, one without an offer is fast enough."""
    traffic = {"concurrent_requests": 1, "input_tokens": 3000, "output_tokens": 600}
    limits = {"environments": ["on_prem"], "max_purchase_usd": 4500}

    def ask(**constraints: Any) -> dict[str, Any]:
        request = asked("qwen3-32b", {**limits, **constraints}, traffic=traffic)
        answer: dict[str, Any] = client.post("/recommend", json=request).json()
        return answer

    answer = ask()
    assert "assumed_limits_missed" in {w["code"] for w in answer["warnings"]}
    change = "allow broker, outdated and estimated prices"
    (effect,) = [e["effect"] for e in answer["sensitivity"] if e["change"] == change]
    assert effect.endswith("meets the usual limits; request a quote before deciding")
    allowed = ask(price_kinds=[str(kind) for kind in KINDS], max_price_age_days=3650)
    assert "assumed_limits_missed" not in {w["code"] for w in allowed["warnings"]}
    first = allowed["recommendations"][0]
    assert first["cost"]["purchase_usd"] <= limits["max_purchase_usd"]
    assert change not in {e["change"] for e in allowed["sensitivity"]}
