"""Lengths, finite runs and recorded traffic in the API: accepted and refused requests, and how answers show them."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.examples import answer_of

MODEL = "meta-llama/Llama-3.1-8B-Instruct"
ENTRY = {"at_s": 0, "input_tokens": 100, "output_tokens": 10}
TRACE = [{**ENTRY, "at_s": second / 2, "input_tokens": 500 + 40 * (second % 7)} for second in range(40)]


def asked(**traffic: Any) -> dict[str, Any]:
    return {
        "workload": {"phase": "inference", "model": MODEL, "traffic": traffic},
        "deployment": {"accelerator": "nvidia-h100-sxm5-80gb", "engine": "vllm", "weight_format": "fp8"},
    }


def estimate(client: TestClient, **traffic: Any) -> dict[str, Any]:
    return answer_of(client.post("/estimate", json=asked(**traffic)))


def refused(client: TestClient, **traffic: Any) -> dict[str, str]:
    problem = answer_of(client.post("/estimate", json=asked(**traffic)), 422)
    errors = problem.get("errors") or [{"pointer": "", "detail": problem["detail"]}]
    return {error["pointer"].removeprefix("#/workload/traffic"): error["detail"] for error in errors}


def assumption_in(answer: dict[str, Any], name: str) -> dict[str, Any]:
    (entry,) = (a for a in answer["assumptions"] if a["name"] == name)
    return dict(entry)


def test_a_plain_number_is_a_mean_whose_spread_is_assumed_and_shown(client: TestClient) -> None:
    plain = estimate(client, peak_requests_per_s=3, input_tokens=800, output_tokens=300)
    spelled = estimate(
        client,
        peak_requests_per_s=3,
        input_tokens={"mean": 800, "p95": 1600},
        output_tokens={"mean": 300, "p95": 600},
    )
    assert plain["performance"] == spelled["performance"]
    assert plain["memory"] == spelled["memory"]
    spread = assumption_in(plain, "length_p95_to_mean")
    assert (spread["value"], spread["asked"]) == (2, False)
    assert "length_p95_to_mean" not in {a["name"] for a in spelled["assumptions"]}
    assert assumption_in(plain, "input_tokens")["reason"] == "mean prompt length; p95 1,600"
    assert assumption_in(plain, "max_context_tokens")["value"] == 2200


@pytest.mark.parametrize(
    "fixed", [{"mean": 800, "p95": 800}, {"min": 800, "max": 800}, {"values": [800], "weights": [3]}]
)
def test_a_fixed_length_is_asked_for_in_three_ways(client: TestClient, fixed: dict[str, Any]) -> None:
    found = estimate(client, peak_requests_per_s=3, input_tokens=fixed, output_tokens={"mean": 300, "p95": 300})
    assert assumption_in(found, "max_context_tokens")["value"] == 1100
    even = estimate(
        client, peak_requests_per_s=3, input_tokens={"mean": 800, "p95": 800}, output_tokens={"min": 300, "max": 300}
    )
    assert found["performance"] == even["performance"]


@pytest.mark.parametrize(
    ("length", "at", "detail"),
    [
        ({"mean": 800, "p95": 700}, "", "p95 must be at least the mean"),
        ({"min": 10, "max": 9}, "", "max must be at least min"),
        ({"min": 0, "max": 9}, "/min", "greater than or equal to 1"),
        ({"min": 1.5, "max": 9}, "/min", "valid integer"),
        ({"min": 5}, "/max", "Field required"),
        ({"max": 5}, "/min", "Field required"),
        ({"values": [5, 6], "weights": [1]}, "", "2 values but 1 weights: set one weight per value"),
        ({"values": [5, 6], "weights": [0, 0]}, "", "at least one weight must be above 0"),
        ({"values": [5, 6], "weights": [1, -1]}, "/weights/1", "greater than or equal to 0"),
        ({"values": [0], "weights": [1]}, "/values/0", "greater than or equal to 1"),
        ({"values": [], "weights": []}, "/values", "at least 1 entr"),
        ({"values": [1] * 1001, "weights": [1] * 1001}, "/values", "at most 1000 entr"),
        ({"values": [5]}, "/weights", "Field required"),
        ({"mean": 5, "max": 4}, "", "max must be at least the mean and the p95"),
        ({"mean": 5, "p95": 9, "max": 8}, "", "max must be at least the mean and the p95"),
        ({"mean": 5, "min": 1}, "", "use one form of length"),
        ({"mean": 5, "weights": [9]}, "", "use one form of length"),
        ({"average": 5}, "/mean", "Field required"),
        ({}, "/mean", "Field required"),
        ("long", "", "valid number"),
        (True, "", "valid number"),
        ([800], "", "valid number"),
    ],
)
@pytest.mark.parametrize("name", ["input_tokens", "output_tokens"])
def test_a_length_that_says_nothing_is_refused(
    client: TestClient, name: str, length: Any, at: str, detail: str
) -> None:
    problems = refused(client, peak_requests_per_s=3, **{name: length})
    assert detail in problems[f"/{name}{at}"]


def test_a_number_that_is_none_is_no_json(client: TestClient) -> None:
    for text in ('{"values": [5], "weights": [NaN]}', '{"min": 1, "max": Infinity}', '{"mean": 1e999}'):
        body = str(asked(peak_requests_per_s=1, input_tokens="HERE")).replace("'HERE'", text).replace("'", '"')
        problem = answer_of(client.post("/estimate", content=body, headers={"content-type": "application/json"}), 400)
        assert "number" in problem["detail"]


@pytest.mark.parametrize(
    ("traffic", "at", "detail"),
    [
        ({"requests": 100, "peak_requests_per_s": 3}, "", "requests requires concurrent_requests"),
        ({"requests": 100, "offline": True}, "", "requests requires concurrent_requests"),
        ({"requests": 100}, "", "exactly one of"),
        ({"requests": 10, "concurrent_requests": 64}, "", "requests must be at least concurrent_requests"),
        ({"requests": 0, "concurrent_requests": 1}, "/requests", "greater than or equal to 1"),
        ({"requests": 1.5, "concurrent_requests": 1}, "/requests", "valid integer"),
        ({"requests": 10_000_000, "concurrent_requests": 1}, "/requests", "less than or equal to 1000000"),
    ],
)
def test_a_run_without_those_in_flight_is_refused(
    client: TestClient, traffic: dict[str, Any], at: str, detail: str
) -> None:
    assert detail in refused(client, **traffic)[at]


def test_a_run_with_a_number_of_requests_is_accepted(client: TestClient) -> None:
    found = estimate(client, concurrent_requests=64, requests=640, input_tokens=1024, output_tokens=256)
    assert found["performance"]["batch_at_peak"] > 1


def changed(**entry: Any) -> list[dict[str, Any]]:
    trace = copy.deepcopy(TRACE)
    trace[5].update(entry)
    return trace


@pytest.mark.parametrize(
    ("traffic", "at", "detail"),
    [
        ({"trace": TRACE[:1]}, "/trace", "at least 2 entr"),
        ({"trace": []}, "/trace", "at least 2 entr"),
        ({"trace": changed(at_s=100)}, "/trace", "at_s of entry 6 is before that of entry 5"),
        ({"trace": changed(at_s=-1)}, "/trace/5/at_s", "greater than or equal to 0"),
        ({"trace": changed(input_tokens=0)}, "/trace/5/input_tokens", "greater than or equal to 1"),
        ({"trace": changed(output_tokens=-1)}, "/trace/5/output_tokens", "greater than or equal to 0"),
        ({"trace": changed(output_tokens=0)}, "/trace", "at least one output token"),
        ({"trace": changed(prefix_tokens=700)}, "/trace/5", "prefix_tokens must be less than input_tokens"),
        ({"trace": changed(session="a")}, "/trace/5/session", "Unknown field"),
        ({"trace": changed(input_tokens=200_000)}, "/trace", "takes at most 131,072"),
        ({"trace": TRACE, "peak_requests_per_s": 3}, "", "exactly one of"),
        ({"trace": TRACE, "requests": 40}, "", "requests requires concurrent_requests"),
        ({"trace": TRACE, "input_tokens": 800}, "", "a trace already contains input_tokens"),
        (
            {"trace": TRACE, "burstiness": 1.0, "output_tokens": 3},
            "",
            "a trace already contains output_tokens, burstiness",
        ),
        ({"trace": TRACE, "cached_prefix_fraction": 0.5}, "", "a trace already contains cached_prefix_fraction"),
        ({"trace": TRACE, "turn_gap_s": 5}, "/turn_gap_s", "turn_gap_s requires a trace with prefix_tokens"),
        (
            {"trace": TRACE, "average_requests_per_s": 50},
            "/average_requests_per_s",
            "exceeds the trace's busiest window, 2 requests/s",
        ),
    ],
)
def test_a_trace_that_contradicts_itself_is_refused(
    client: TestClient, traffic: dict[str, Any], at: str, detail: str
) -> None:
    assert detail in refused(client, **traffic)[at]


def test_a_trace_beyond_the_body_is_refused_with_the_limit(client: TestClient) -> None:
    problem = answer_of(client.post("/recommend", json={"workload": asked(trace=TRACE * 60)["workload"]}), 413)
    assert "65,536 bytes" in problem["detail"]


def test_a_trace_is_planned_as_its_own_statistics_are(client: TestClient) -> None:
    found = estimate(client, trace=TRACE)
    tokens = [entry["input_tokens"] for entry in TRACE]
    values = sorted(set(tokens))
    said = {
        "peak_requests_per_s": 2,
        "average_requests_per_s": 2,
        "burstiness": 0,
        "input_tokens": {"values": values, "weights": [tokens.count(value) for value in values]},
        "output_tokens": {"min": 10, "max": 10},
    }
    assert assumption_in(found, "peak_requests_per_s")["value"] == 2
    assert assumption_in(found, "burstiness")["value"] == 0
    assert assumption_in(found, "max_context_tokens")["value"] == max(tokens) + 10
    same = estimate(client, **said)
    assert found["memory"]["per_accelerator_gib"]["weights"] == same["memory"]["per_accelerator_gib"]["weights"]
    assert found["performance"]["utilization_at_peak"] == pytest.approx(same["performance"]["utilization_at_peak"])


def test_a_spread_that_no_log_normal_has_is_reported(client: TestClient) -> None:
    wide = estimate(client, peak_requests_per_s=3, input_tokens={"mean": 100, "p95": 900}, output_tokens=50)
    (warning,) = (w for w in wide["warnings"] if w["code"] == "spread_too_wide")
    assert warning["text"].startswith("The p95 of input_tokens was reduced to 3.87 times its mean")
    most = estimate(client, peak_requests_per_s=3, input_tokens={"mean": 100, "p95": 386}, output_tokens=50)
    assert "spread_too_wide" not in {w["code"] for w in most["warnings"]}


def test_a_trace_is_shown_with_its_prefixes(client: TestClient) -> None:
    found = estimate(client, trace=[{**entry, "prefix_tokens": entry["input_tokens"] // 2} for entry in TRACE])
    assert assumption_in(found, "cached_prefix_fraction")["value"] == pytest.approx(0.5)
    assert assumption_in(found, "turn_gap_s")["asked"] is False
    assert "(recorded traffic)" in found["summary"]


def test_tokens_in_a_trace_are_of_models_that_read_them(client: TestClient) -> None:
    asked_of = asked(trace=TRACE)
    asked_of["workload"]["model"] = "microsoft/resnet-50"
    problem = answer_of(client.post("/recommend", json={"workload": asked_of["workload"]}), 422)
    assert problem["errors"][0]["pointer"] == "#/workload/traffic/trace"
