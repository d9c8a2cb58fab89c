"""Manifests against the schemas of Kubernetes, and by hand where it has none."""

from __future__ import annotations

from typing import Any

import kubernetes_validate
import pytest
import yaml

from app.errors import Unanswerable
from app.export.handoff.option import Option
from app.export.handoff.targets import build_handoff
from tests.export.handoff.stored import pooled, served

KUBERNETES = "1.33"
SPANNING: dict[str, Any] = {"pipeline": 2, "accelerators": 16, "machines": 2, "stage_machines": 2}


def manifests(option: Option, target: str = "kubernetes") -> list[dict[str, Any]]:
    made = build_handoff(option, target, None)
    return [each for file in made.files if file.name.endswith(".yaml") for each in yaml.safe_load_all(file.text)]


def pods(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    spec = manifest["spec"]
    if manifest["kind"] == "LeaderWorkerSet":
        template = spec["leaderWorkerTemplate"]
        return [template["leaderTemplate"], template["workerTemplate"]]
    return [spec["template"]] if manifest["kind"] == "Deployment" else []


@pytest.mark.parametrize(
    "option",
    [
        served(),
        served(offer={"provider": "aws", "region": "us-east-1", "instance_type": "p5.48xlarge"}),
        served(model="./on"),
        served("tensorrt-llm", data=2),
        served("llama.cpp"),
        pooled("sglang"),
        served(maker="AMD"),
    ],
)
def test_manifests_are_valid(option: Option) -> None:
    for manifest in manifests(option):
        kubernetes_validate.validate(manifest, KUBERNETES, strict=True)


def test_replicas_of_several_machines_are_groups_whose_pods_are_valid() -> None:
    group, service = manifests(served(**SPANNING))
    assert group["apiVersion"] == "leaderworkerset.x-k8s.io/v1"
    assert group["spec"]["leaderWorkerTemplate"]["size"] == 2
    assert group["spec"]["replicas"] == 3
    kubernetes_validate.validate(service, KUBERNETES, strict=True)
    for pod in pods(group):
        whole = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": pod["spec"]}
        kubernetes_validate.validate(whole, KUBERNETES, strict=True)
        assert "LWS_WORKER_INDEX" in pod["spec"]["containers"][0]["command"][2]
    assert service["spec"]["selector"]["role"] == "leader"


def test_accelerators_are_asked_for_as_they_are_limited_and_come_to_the_replica() -> None:
    for option in (served(), served(**SPANNING)):
        manifest = manifests(option)[0]
        asked = [pod["spec"]["containers"][0]["resources"] for pod in pods(manifest)]
        assert all(each["requests"] == each["limits"] for each in asked)
        size = manifest["spec"].get("leaderWorkerTemplate", {"size": 1})["size"]
        assert asked[0]["limits"]["nvidia.com/gpu"] * size == option.groups[0].accelerators


def test_a_service_finds_its_pods() -> None:
    deployment, service = manifests(served())
    assert service["spec"]["selector"].items() <= deployment["spec"]["template"]["metadata"]["labels"].items()
    assert deployment["spec"]["selector"]["matchLabels"] == deployment["spec"]["template"]["metadata"]["labels"]


def test_two_pools_are_distinguished() -> None:
    names = [manifest["metadata"]["name"] for manifest in manifests(pooled())]
    assert names == ["model-70b-prefill", "model-70b-prefill", "model-70b-decode", "model-70b-decode"]


def test_a_pod_is_waited_for_longer_than_its_start_is_predicted_to_take() -> None:
    probe = manifests(served())[0]["spec"]["template"]["spec"]["containers"][0]["startupProbe"]
    assert probe["failureThreshold"] * probe["periodSeconds"] > 120


def test_secrets_are_named_and_never_written() -> None:
    env = manifests(served())[0]["spec"]["template"]["spec"]["containers"][0]["env"]
    assert [sorted(each) for each in env] == [["name", "valueFrom"]]


def test_hardware_without_an_image_or_a_plugin_is_refused() -> None:
    for engine, maker in (("vllm", "Intel"), ("sglang", "AMD"), ("llama.cpp", "Apple")):
        with pytest.raises(Unanswerable):
            build_handoff(served(engine, maker=maker), "kubernetes", None)


def test_kserve_starts_replicas_of_one_machine() -> None:
    (service,) = manifests(served(), "kserve")
    predictor = service["spec"]["predictor"]
    assert service["apiVersion"] == "serving.kserve.io/v1beta1"
    assert predictor["minReplicas"] == predictor["maxReplicas"] == 3
    assert predictor["containers"][0]["name"] == "kserve-container"
    pod = {name: value for name, value in predictor.items() if not name.endswith("Replicas")}
    whole = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": pod}
    kubernetes_validate.validate(whole, KUBERNETES, strict=True)
    for option in (pooled(), served(**SPANNING)):
        with pytest.raises(Unanswerable, match=r"Targets that can start it: .*kubernetes"):
            build_handoff(option, "kserve", None)
