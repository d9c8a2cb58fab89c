"""Requests that are refused, not ignored: contradictions, fields of another phase or kind of model, misspelt fields."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.examples import LLAMA_8B_CONFIG

CHAT: dict[str, Any] = {
    "phase": "inference",
    "model": "meta-llama/Llama-3.1-8B-Instruct",
    "traffic": {"peak_requests_per_s": 1.0},
}
TUNE: dict[str, Any] = {"phase": "fine_tuning", "model": "meta-llama/Llama-3.1-8B", "training_tokens": 1e7}
PICTURES: dict[str, Any] = {"phase": "inference", "model": "stable diffusion xl", "traffic": {"samples_per_s": 1.0}}
VISION: dict[str, Any] = {"phase": "training", "model": "resnet50", "training_samples": 1e6}


def said(of: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A workload with fields set, nested ones by two underscores."""
    made = deepcopy(of)
    for dotted, value in changes.items():
        *above, last = dotted.split("__")
        node = made
        for key in above:
            node = node.setdefault(key, {})
        node[last] = value
    return made


def errors(client: TestClient, body: dict[str, Any], path: str = "/recommend") -> dict[str, str]:
    """Messages of the errors in a request, by their place."""
    answer = client.post(path, json=body)
    assert answer.status_code in (404, 422), answer.text[:400]
    assert answer.headers["content-type"] == "application/problem+json"
    return {e["pointer"].removeprefix("#/"): e["detail"] for e in answer.json()["errors"]}


@pytest.mark.parametrize(
    ("place", "message", "constraints"),
    [
        ("exclude_accelerators", "in both", {"accelerators": ["L4"], "exclude_accelerators": ["NVIDIA L4"]}),
        ("exclude_accelerators", "in both", {"accelerators": ["L4", "T4"], "exclude_accelerators": ["L4"]}),
        (
            "exclude_accelerators",
            "excludes every entry",
            {"accelerators": ["h100*"], "exclude_accelerators": ["nvidia-*"]},
        ),
        ("vendors", "not made by amd", {"accelerators": ["L4"], "vendors": ["AMD"]}),
        ("vendors", "made by amd", {"accelerators": ["h100*"], "vendors": ["AMD"]}),
        ("segments", "in segment cpu. Their segments: datacenter.", {"accelerators": ["L4"], "segments": ["cpu"]}),
        ("segments", "segments: datacenter.", {"accelerators": ["h100*"], "segments": ["consumer", "edge"]}),
        ("pricing_models", "only rents", {"environments": ["cloud"], "pricing_models": ["owned"]}),
        ("pricing_models", "Add owned to", {"environments": ["on_prem"], "pricing_models": ["on_demand"]}),
        ("providers", "does not sell machines", {"environments": ["on_prem"], "providers": ["aws", "gcp"]}),
        ("providers", "does not rent out", {"environments": ["cloud"], "providers": ["dell"]}),
        ("regions", "has no offers in", {"providers": ["aws"], "regions": ["europe-west4"]}),
    ],
)
def test_a_set_that_contradicts_itself_is_refused(
    client: TestClient, place: str, message: str, constraints: dict[str, Any]
) -> None:
    found = errors(client, {"workload": CHAT, "constraints": constraints})
    assert message in found[f"constraints/{place}"]


@pytest.mark.parametrize(
    "constraints",
    [
        {"accelerators": ["nvidia-h*"], "exclude_accelerators": ["h100*"]},
        {"accelerators": ["h100*"], "exclude_accelerators": ["H100 PCIe"]},
        {"accelerators": ["L4"], "vendors": ["NVIDIA", "AMD"]},
        {"accelerators": ["L4", "RTX 4090"], "segments": ["datacenter"]},
        {"accelerators": ["L4"], "segments": ["datacenter", "edge"]},
        {"environments": ["cloud", "on_prem"], "pricing_models": ["owned"]},
        {"providers": ["aws"], "regions": ["EU"]},
    ],
)
def test_a_set_that_leaves_something_is_taken(client: TestClient, constraints: dict[str, Any]) -> None:
    assert client.post("/recommend", json={"workload": CHAT, "constraints": constraints}).status_code == 200


@pytest.mark.parametrize(
    ("place", "message", "offer"),
    [
        ("region", "has no offers in", {"provider": "aws", "region": "europe-west4"}),
        ("instance_type", "contains nvidia-h100-sxm5-80gb, not nvidia-l4", {"instance_type": "p5.48xlarge"}),
        ("pricing_model", "does not sell machines", {"provider": "aws", "pricing_model": "owned"}),
    ],
)
def test_an_offer_that_is_none_is_refused(client: TestClient, place: str, message: str, offer: dict[str, Any]) -> None:
    found = errors(client, {"workload": CHAT, "deployment": {"accelerator": "L4", "offer": offer}}, "/estimate")
    assert message in found[f"deployment/offer/{place}"]


@pytest.mark.parametrize(
    ("place", "accepted", "workload"),
    [
        ("traffic/input_tokens", "samples_per_s", said(PICTURES, traffic__input_tokens=100)),
        ("traffic/output_tokens", "sample.steps", said(PICTURES, traffic__output_tokens=100)),
        ("max_context_tokens", "samples", said(PICTURES, max_context_tokens=100)),
        ("slo/tpot_ms", "slo.e2e_ms", said(PICTURES, slo__tpot_ms=50)),
        ("traffic/output_tokens", "0", said(CHAT, model="bge large en", traffic__output_tokens=100)),
        ("examples", "Omit one", said(TUNE, examples=1000)),
        ("epochs", "requires examples", said(TUNE, epochs=3)),
        ("lora", "lora or qlora", said(TUNE, method="full", lora={"rank": 8})),
        ("training_samples", "training_tokens", said({**TUNE, "training_tokens": None}, training_samples=10)),
        ("global_batch_sequences", "one of them", said(TUNE, global_batch_tokens=1e6, global_batch_sequences=4)),
        ("global_batch_samples", "global_batch_sequences", said(TUNE, global_batch_samples=4)),
        ("training_tokens", "training_samples", said({**VISION, "training_samples": None}, training_tokens=1e6)),
        ("global_batch_tokens", "global_batch_samples", said(VISION, global_batch_tokens=1e6)),
        ("sequence_length", "samples", said(VISION, sequence_length=128)),
    ],
)
def test_a_field_of_another_kind_of_model_is_refused(
    client: TestClient, place: str, accepted: str, workload: dict[str, Any]
) -> None:
    found = errors(client, {"workload": workload})
    assert accepted in found[f"workload/{place}"]


@pytest.mark.parametrize(
    ("workload", "deployment"),
    [
        (TUNE, {"engine": "vllm"}),
        (TUNE, {"kv_format": "fp8", "max_batch": 8}),
        (TUNE, {"speculative": {"method": "ngram", "draft_tokens": 2, "acceptance_rate": 0.5}}),
        (CHAT, {"framework": "fsdp"}),
        (CHAT, {"zero_stage": 3, "micro_batch_sequences": 2}),
    ],
)
def test_a_deployments_field_of_the_other_phase_is_refused(
    client: TestClient, workload: dict[str, Any], deployment: dict[str, Any]
) -> None:
    found = errors(client, {"workload": workload, "deployment": {"accelerator": "H100 SXM", **deployment}}, "/estimate")
    assert {*found} == {f"deployment/{name}" for name in deployment}


def test_a_runs_constraints_hold_nothing_of_serving(client: TestClient) -> None:
    found = errors(client, {"workload": TUNE, "constraints": {"kv_formats": ["fp8"], "weight_formats": ["fp8"]}})
    assert "workload.precision" in found["constraints/weight_formats"]
    assert "constraints/kv_formats" in found


@pytest.mark.parametrize(
    ("place", "message", "workload"),
    [
        ("trafic", "Did you mean traffic?", said(CHAT, trafic={})),
        ("traffic/peak_request_per_s", "Did you mean peak_requests_per_s?", said(CHAT, traffic__peak_request_per_s=1)),
        ("traffic/peakRequestsPerS", "Did you mean peak_requests_per_s?", said(CHAT, traffic__peakRequestsPerS=1)),
        ("traffic/ttft_ms", "Did you mean workload.slo.ttft_ms", said(CHAT, traffic__ttft_ms=500)),
        ("training_tokens", "(phase training)", said(CHAT, training_tokens=1e9)),
        ("traffic", "(phase inference)", said(TUNE, traffic={"batch": 1})),
        ("accelerators", "constraints.accelerators", said(CHAT, accelerators=["L4"])),
        ("zzz", "Accepted fields: adapters, availability", said(CHAT, zzz=1)),
    ],
)
def test_a_misspelt_or_misplaced_field_is_reported(
    client: TestClient, place: str, message: str, workload: dict[str, Any]
) -> None:
    assert message in errors(client, {"workload": workload})[f"workload/{place}"]


@pytest.mark.parametrize(
    ("place", "message", "body"),
    [
        ("workload/target_utilization", "70 % is 0.7", {"workload": said(CHAT, target_utilization=70)}),
        ("constraints/confidence", "80 % is 0.8", {"workload": CHAT, "constraints": {"confidence": 80}}),
        (
            "assumptions/target_utilization",
            "70 % is 0.7",
            {"workload": CHAT, "assumptions": {"target_utilization": 70}},
        ),
        ("workload/slo/percentile", "95, not 0.95", {"workload": said(CHAT, slo__percentile=0.95)}),
        ("workload/model/parameters_billion", "70 for", {"workload": said(CHAT, model={"parameters_billion": 7e10})}),
        (
            "assumptions/target_utilisation",
            "target_utilization",
            {"workload": CHAT, "assumptions": {"target_utilisation": 0.5}},
        ),
        (
            "constraints/weight_formats/0",
            "Did you mean int4-awq",
            {"workload": CHAT, "constraints": {"weight_formats": ["int4-avq"]}},
        ),
        (
            "constraints/environments/0",
            "Did you mean on_prem",
            {"workload": CHAT, "constraints": {"environments": ["on-prem"]}},
        ),
        ("workload/method", "Did you mean qlora", {"workload": said(TUNE, method="q-lora")}),
    ],
)
def test_a_value_of_another_unit_or_list_is_asked_about(
    client: TestClient, place: str, message: str, body: dict[str, Any]
) -> None:
    assert message in errors(client, body)[place]


@pytest.mark.parametrize(
    "body",
    [
        {"workload": said(CHAT, slo__ttft_ms=0.5)},
        {"workload": said(CHAT, slo__tpot_ms=0.05)},
        {"workload": said(TUNE, training_tokens=15)},
        {"workload": CHAT, "economics": {"electricity_usd_per_kwh": 9}},
        {"workload": CHAT, "economics": {"horizon_months": 3}},
    ],
)
def test_a_unit_that_looks_wrong_is_warned_of(client: TestClient, body: dict[str, Any]) -> None:
    answer = client.post("/recommend", json=body).json()
    assert "unit_looks_wrong" in {w["code"] for w in answer["warnings"]}
    assert client.post("/recommend", json=body).json() == answer
    judged = client.post("/estimate", json={**body, "deployment": {"accelerator": "H100 SXM"}}).json()
    assert "unit_looks_wrong" in {w["code"] for w in judged["warnings"]}


def test_usual_requests_are_not_doubted(client: TestClient) -> None:
    for body in ({"workload": said(CHAT, slo={"ttft_ms": 500, "tpot_ms": 40})}, {"workload": TUNE}):
        answer = client.post("/recommend", json=body).json()
        assert "unit_looks_wrong" not in {w["code"] for w in answer["warnings"]}


def test_a_number_without_a_fraction_is_an_integer(client: TestClient) -> None:
    headers = {"content-type": "application/json"}
    start = '{"workload": {"phase": "inference", "model": "gpt2", "traffic": {"concurrent_requests": '

    def ranked(in_flight: str, limit: str) -> Any:
        return client.post("/recommend", content=f'{start}{in_flight}}}}}, "limit": {limit}}}', headers=headers)

    whole = ranked("4", "3")
    assert whole.status_code == 200
    for in_flight, limit in (("4.0", "3.0"), ("4e0", "3.000"), ("0.4e1", "30e-1")):
        same = ranked(in_flight, limit)
        assert same.json()["recommendations"] == whole.json()["recommendations"]
        assert same.json()["id"] == whole.json()["id"]
    for in_flight, limit in (("4.5", "3"), ("4", "3.0000001"), ("1e300", "3"), ("4", "1e300"), ("-4.0", "3")):
        assert ranked(in_flight, limit).status_code == 422
    assert ranked("4", "1e999").status_code == 400


@pytest.mark.parametrize("name", ["gpt-4o", "openai/gpt-4o-mini", "claude-sonnet-4.5", "Gemini 2.5 Pro"])
def test_a_model_sold_as_a_service_is_reported_as_such(client: TestClient, name: str) -> None:
    for path, place, body in (
        ("/recommend", "workload/model", {"workload": said(CHAT, model=name)}),
        ("/catalog/models/inspect", "model", {"model": name}),
    ):
        message = errors(client, body, path)[place]
        assert repr(name) in message
        assert "only as a hosted service" in message


@pytest.mark.parametrize("name", ["llama 70b", "gpt-9"])
def test_a_models_name_is_repeated_with_its_place(client: TestClient, name: str) -> None:
    assert repr(name) in errors(client, {"workload": said(CHAT, model=name)})["workload/model"]


@pytest.mark.parametrize(
    ("name", "stored"),
    [
        ("TheBloke/Llama-2-70B-AWQ", {"int4-awq"}),
        ("TheBloke/Llama-2-7B-GPTQ", {"int4-gptq"}),
        ("llama3.1:8b-instruct-q4_K_M", {"gguf-q4_k_m"}),
        ("neuralmagic/Meta-Llama-3.1-8B-Instruct-FP8", {"fp8"}),
    ],
)
def test_a_models_name_keeps_its_format(client: TestClient, name: str, stored: set[str]) -> None:
    answer = client.post("/recommend", json={"workload": said(CHAT, model=name)}).json()
    assert {r["deployment"]["weight_format"] for r in answer["recommendations"]} <= stored
    assumed = [a["value"] for a in answer["assumptions"]]
    assert any("taken from the model name" in value for value in assumed if isinstance(value, str))
    judged = client.post(
        "/estimate", json={"workload": said(CHAT, model=name), "deployment": {"accelerator": "RTX 4090"}}
    ).json()
    assert judged["deployment"].get("weight_format") in {*stored, None}


@pytest.mark.parametrize(
    ("model", "engine", "cache"),
    [
        ("nvidia/Llama-3.1-8B-Instruct-NVFP4", "vllm", "fp8"),  # ModelOpt states its cache
        ("RedHatAI/Llama-3.1-8B-Instruct-NVFP4", "vllm", "bf16"),
        ("neuralmagic/Meta-Llama-3.1-8B-Instruct-FP8-KV", "vllm", "fp8"),
        ("amd/Llama-3.1-8B-Instruct-FP8-KV", "vllm", "bf16"),
        ("RedHatAI/Llama-3.1-8B-Instruct-NVFP4", "tensorrt-llm", "fp8"),  # loads ModelOpt's checkpoints
    ],
)
def test_the_cache_has_the_format_that_the_checkpoint_states(
    client: TestClient, model: str, engine: str, cache: str
) -> None:
    deployment = {"accelerator": "b200", "total_accelerators": 1, "engine": engine}
    body = {"workload": said(CHAT, model=model), "deployment": deployment}
    assert client.post("/estimate", json=body).json()["deployment"]["kv_format"] == cache
    body["deployment"] = {**deployment, "kv_format": "bf16"}
    assert client.post("/estimate", json=body).json()["deployment"]["kv_format"] == "bf16"


def test_a_pasted_configuration_without_quantization_has_the_format_of_its_name(client: TestClient) -> None:
    """ModelOpt writes the quantization of its checkpoints to hf_quant_config.json."""
    sizes = []
    for name in ("own-model", "nvidia/Llama-3.1-8B-Instruct-NVFP4", "some/Llama-3.1-8B-BF16"):
        pasted = {"huggingface_config": LLAMA_8B_CONFIG, "name": name}
        shown = client.post("/catalog/models/inspect", json={"model": pasted}).json()
        sizes.append((shown["native"]["format"], round(shown["native"]["checkpoint_gib"], 1)))
        assert any("from its name" in text for text in shown["assumed"]) == (len(sizes) == 2)
    assert sizes == [("bf16", 15.0), ("nvfp4", 5.6), ("bf16", 15.0)]
    stated = {**LLAMA_8B_CONFIG, "quantization_config": {"quant_method": "fp8"}}
    pasted = {"huggingface_config": stated, "name": "some/Llama-3.1-8B-NVFP4"}
    shown = client.post("/catalog/models/inspect", json={"model": pasted}).json()
    assert shown["native"]["format"] == "fp8"  # what the file states goes before


def test_another_format_that_is_named_goes_before(client: TestClient) -> None:
    awq = said(CHAT, model="TheBloke/Llama-2-7B-AWQ")
    answer = client.post("/recommend", json={"workload": awq, "constraints": {"weight_formats": ["FP8"]}}).json()
    assert {r["deployment"]["weight_format"] for r in answer["recommendations"]} == {"fp8"}
    deployment = {"accelerator": "H100 SXM", "weight_format": "BF16"}
    judged = client.post("/estimate", json={"workload": awq, "deployment": deployment}).json()
    assert judged["deployment"]["weight_format"] == "bf16"


@pytest.mark.parametrize(
    ("path", "key"),
    [("providers", "provider"), ("regions", "region"), ("frameworks", "framework"), ("schedulers", "engine")],
)
def test_closed_lists_come_in_pages(client: TestClient, path: str, key: str) -> None:
    whole = client.get(f"/catalog/{path}", params={"limit": 1000}).json()
    names = [item[key] for item in whole["items"]]
    assert len(names) > 20
    assert names == sorted(set(names))
    assert whole["next_cursor"] is None
    paged: list[str] = []
    cursor = None
    while cursor is not None or not paged:
        page = client.get(f"/catalog/{path}", params={"limit": 17} | ({"cursor": cursor} if cursor else {}))
        paged += [item[key] for item in page.json()["items"]]
        cursor = page.json()["next_cursor"]
        again = client.get(page.request.url, headers={"if-none-match": page.headers["etag"]})
        assert again.status_code == 304
    assert paged == names
    assert client.get(f"/catalog/{path}", params={"colour": "red"}).status_code == 422


def test_every_name_of_a_closed_list_is_taken(client: TestClient) -> None:
    frameworks = [f["framework"] for f in client.get("/catalog/frameworks", params={"limit": 1000}).json()["items"]]
    assert {"fsdp", "megatron", "deepspeed", "torchtune"} <= {*frameworks}
    answer = client.post("/recommend", json={"workload": TUNE, "constraints": {"engines": frameworks}})
    assert answer.status_code == 200
    regions = [r["region"] for r in client.get("/catalog/regions", params={"limit": 1000}).json()["items"]]
    providers = [p["provider"] for p in client.get("/catalog/providers", params={"limit": 1000}).json()["items"]]
    both = {"regions": regions[:200], "providers": providers}
    assert client.post("/recommend", json={"workload": CHAT, "constraints": both}).status_code == 200


def test_the_size_of_a_model_is_refused_at_its_field(client: TestClient) -> None:
    size = {"parameters_billion": 1, "activation_mib_per_sample": 3}
    alone, at = {**CHAT, "model": size}, "activation_mib_per_sample"
    with_other = {**CHAT, "companions": [{"name": "other", "model": size, "traffic": CHAT["traffic"]}]}
    assert f"workload/model/{at}" in errors(client, {"workload": alone})
    assert f"workload/companions/0/model/{at}" in errors(client, {"workload": with_other})
