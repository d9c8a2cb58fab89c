"""Names in a request: read as people write them, or refused with the name, its place and the nearest."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st

from tests.catalog.spellings import AMBIGUOUS, SPELLINGS

SERVING: dict[str, Any] = {
    "phase": "inference",
    "model": "meta-llama/Llama-3.1-8B-Instruct",
    "traffic": {"peak_requests_per_s": 1.0},
}


def recommend(client: TestClient, **constraints: Any) -> Any:
    return client.post("/recommend", json={"workload": SERVING, "constraints": constraints, "limit": 50})


def estimate(client: TestClient, **deployment: Any) -> Any:
    return client.post("/estimate", json={"workload": SERVING, "deployment": deployment})


@pytest.mark.parametrize("name", [names[0] for slug, names in SPELLINGS.items() if slug.startswith("nvidia")][:12])
def test_a_deployment_echoes_the_catalogues_name(client: TestClient, name: str) -> None:
    answer = estimate(client, accelerator=name)
    assert answer.status_code in (200, 422), answer.text
    if answer.status_code == 200:
        slug = next(slug for slug, names in SPELLINGS.items() if name in names)
        assert answer.json()["deployment"]["accelerator"] == slug


def test_a_list_takes_names_patterns_and_machines(client: TestClient) -> None:
    answer = recommend(client, accelerators=["rtx 4090", "H100*", "g6.xlarge"], providers=["Amazon", "Google Cloud"])
    assert answer.status_code == 200
    shown = answer.json()
    ranked = {r["deployment"]["accelerator"] for r in shown["recommendations"]}
    assert {"nvidia-h100-sxm5-80gb", "nvidia-l4"} <= ranked
    assert shown["request"]["constraints"]["accelerators"] == ["rtx 4090", "H100*", "g6.xlarge"]
    assert {r["deployment"]["offer"]["provider"] for r in shown["recommendations"]} <= {"aws", "gcp"}


def test_a_machine_named_as_the_accelerator_is_the_system(client: TestClient) -> None:
    answer = estimate(client, accelerator="p5.48xlarge").json()
    assert answer["deployment"]["system"] == "aws-p5-48xlarge"
    assert answer["deployment"]["accelerator"] == "nvidia-h100-sxm5-80gb"


@pytest.mark.parametrize("name", [*AMBIGUOUS][:8])
def test_an_ambiguous_name_gives_the_choices_and_its_place(client: TestClient, name: str) -> None:
    answer = recommend(client, exclude_accelerators=["L4", name])
    assert answer.status_code == 422
    shown = answer.json()
    assert shown["type"] == "/problems/ambiguous-name"
    assert shown["choices"] == [*AMBIGUOUS[name]]
    assert shown["errors"] == [{"pointer": "#/constraints/exclude_accelerators/1", "detail": shown["detail"]}]
    assert repr(name) in shown["detail"]
    assert recommend(client, exclude_accelerators=shown["choices"]).status_code == 200


@pytest.mark.parametrize(
    ("field", "name", "nearest"),
    [
        ("providers", "awz", "aws"),
        ("providers", "lamda", "lambda"),
        ("vendors", "NVDIA", "nvidia"),
        ("regions", "us-east-9", "us-east-2"),
        ("engines", "vlm", "vllm"),
        ("engines", "sg-lang2", "sglang"),
        ("accelerators", "RTX 4095", "nvidia-rtx-4090"),
        ("exclude_accelerators", "MI300Y", "amd-mi300x"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest(client: TestClient, field: str, name: str, nearest: str) -> None:
    answer = recommend(client, **{field: [name]})
    assert answer.status_code in (404, 422)
    shown = answer.json()
    assert nearest in shown["nearest"]
    assert nearest in shown["detail"]
    assert repr(name) in shown["detail"]
    assert shown["errors"][0]["pointer"] == f"#/constraints/{field}/0"


@pytest.mark.parametrize(
    ("pointer", "deployment"),
    [
        ("#/deployment/engine", {"engine": "vllmm"}),
        ("#/deployment/offer/provider", {"offer": {"provider": "lamda"}}),
        ("#/deployment/offer/region", {"offer": {"region": "EU"}}),
        ("#/deployment/offer/region", {"offer": {"region": "atlantis"}}),
        ("#/deployment/offer/instance_type", {"offer": {"instance_type": "p9.48xlarge"}}),
        ("#/deployment/system", {"system": "p5.48xlarge"}),
        ("#/deployment/accelerator", {"accelerator": "8x L4", "total_accelerators": 4}),
    ],
)
def test_every_name_of_a_deployment_is_checked(client: TestClient, pointer: str, deployment: dict[str, Any]) -> None:
    answer = estimate(client, **{"accelerator": "L4"} | deployment)
    assert answer.status_code in (404, 422)
    assert [e["pointer"] for e in answer.json()["errors"]] == [pointer]


@pytest.mark.parametrize(
    ("name", "accelerator", "count"),
    [
        ("8x L4", "nvidia-l4", 8),
        ("p5.48xlarge", "nvidia-h100-sxm5-80gb", 8),
        ("ml.p5.48xlarge", "nvidia-h100-sxm5-80gb", 8),
        ("a4-highgpu-8g", "nvidia-b200-sxm-180gb", 8),
        ("trn2.48xlarge", "aws-trainium2", 16),
        ("Standard_NC80adis_H100_v5", "nvidia-h100-nvl-94gb", 2),
        ("BM.GPU.MI300X.8", "amd-mi300x", 8),
        ("gpu_8x_b200", "nvidia-b200-sxm-180gb", 8),
        ("2x_A100-80GB-SXM_SECURE", "nvidia-a100-sxm4-80gb", 2),
    ],
)
def test_a_machine_named_as_the_accelerator_brings_its_count(
    client: TestClient, name: str, accelerator: str, count: int
) -> None:
    shown = estimate(client, accelerator=name).json()["deployment"]
    assert (shown["accelerator"], shown["total_accelerators"]) == (accelerator, count)


def test_a_stated_size_overrides_the_machine_of_the_name(client: TestClient) -> None:
    shown = estimate(client, accelerator="gpu_8x_b200", total_accelerators=16).json()["deployment"]
    assert shown["total_accelerators"] == 16


def test_all_errors_are_reported_at_once(client: TestClient) -> None:
    answer = recommend(client, accelerators=["h100", "rtx 4095"], providers=["no-such-seller"], regions=["atlantis"])
    assert sorted(e["pointer"] for e in answer.json()["errors"]) == [
        "#/constraints/accelerators/0",
        "#/constraints/accelerators/1",
        "#/constraints/providers/0",
        "#/constraints/regions/0",
    ]


def test_an_area_takes_regions_however_a_provider_names_them(client: TestClient) -> None:
    answer = recommend(client, regions=["EU"], environments=["cloud"])
    regions = {r["deployment"]["offer"]["region"] for r in answer.json()["recommendations"]}
    assert regions
    assert not any(region.startswith(("us-", "asia")) for region in regions)


PLAIN = st.text(st.characters(blacklist_categories=("Cc", "Cs")), min_size=1, max_size=40).filter(str.strip)


@given(
    field=st.sampled_from(["accelerators", "exclude_accelerators", "providers", "vendors", "regions", "engines"]),
    name=PLAIN,
)
def test_no_name_gives_an_error_of_ours_or_of_a_pattern(client: TestClient, field: str, name: str) -> None:
    answer = recommend(client, **{field: [name]})
    assert answer.status_code in (200, 404, 422), answer.text
    assert "pattern '^" not in answer.text
    if answer.status_code != 200:
        assert answer.json()["errors"][0]["pointer"].startswith(f"#/constraints/{field}")


@given(field=st.sampled_from(["accelerator", "system", "engine", "framework"]), name=PLAIN)
def test_no_name_of_a_deployment_gives_one_either(client: TestClient, field: str, name: str) -> None:
    answer = estimate(client, **{"accelerator": "L4"} | {field: name})
    assert answer.status_code in (200, 404, 422), answer.text
    assert "pattern '^" not in answer.text


def test_instances_that_differ_in_their_capitals_only_stay_apart(client: TestClient) -> None:
    """Two hosts write "1x RTX PRO 6000" each in their own way: a name as the catalogue has it means that one."""
    offer = {"provider": "verda", "pricing_model": "spot", "instance_type": "1x RTX PRO 6000"}
    answer = estimate(client, accelerator="nvidia-rtx-pro-6000-blackwell-server", offer=offer)
    assert answer.status_code == 200
    assert answer.json()["deployment"]["offer"]["instance_type"] == "1x RTX PRO 6000"
