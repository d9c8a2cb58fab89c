"""Manifests against the schemas of Kubernetes, and by hand where it has none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import kubernetes_validate
import pytest
import yaml
from jsonschema import ValidationError

from app.errors import Unanswerable
from app.export.handoff.option import Option
from app.export.handoff.targets import build_handoff
from tests.export.handoff.manifests import CUSTOM, check_manifest
from tests.export.handoff.runs import run_option
from tests.export.handoff.stored import DAY, pooled, served

AWS = {"provider": "aws", "region": "us-east-1", "instance_type": "p5.48xlarge"}
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


OBJECTS = [
    *(("kubernetes", served(**made)) for made in ({}, {"model": "./on"}, {"maker": "AMD"}, SPANNING, {"day": DAY})),
    *(("kubernetes", each) for each in (served(offer=AWS), served("tensorrt-llm", data=2), pooled("sglang"))),
    *(("kserve", served(day=day)) for day in (None, DAY)),
    *(
        (target, run_option("trl", "full", machines=m, accelerators=8 * m))
        for target in ("kubernetes", "ray")
        for m in (1, 2)
    ),
]


def test_every_object_is_one_that_kubernetes_or_its_operator_takes() -> None:
    objects = [each for target, option in OBJECTS for each in manifests(option, target) if "apiVersion" in each]
    for each in objects:
        check_manifest(each)
    assert {*CUSTOM} <= {(each["apiVersion"], each["kind"]) for each in objects}
    for each in {each["kind"]: each for each in objects if "spec" in each}.values():
        with pytest.raises((kubernetes_validate.ValidationError, ValidationError)):
            check_manifest({**each, "spec": {**each["spec"], "other": 1}})


def test_replicas_of_several_machines_are_groups_whose_pods_are_valid() -> None:
    group, service, budget = manifests(served(**SPANNING))
    assert group["apiVersion"] == "leaderworkerset.x-k8s.io/v1"
    assert group["spec"]["leaderWorkerTemplate"]["size"] == 2
    assert group["spec"]["replicas"] == 3
    for pod in pods(group):
        assert "LWS_WORKER_INDEX" in pod["spec"]["containers"][0]["command"][2]
    assert service["spec"]["selector"]["role"] == "leader"
    selected = budget["spec"]["selector"]["matchLabels"].items()
    assert all(selected <= pod["metadata"]["labels"].items() for pod in pods(group))


def test_accelerators_are_asked_for_as_they_are_limited_and_come_to_the_replica() -> None:
    for option in (served(), served(**SPANNING)):
        manifest = manifests(option)[0]
        asked = [pod["spec"]["containers"][0]["resources"] for pod in pods(manifest)]
        assert all(each["limits"].items() <= each["requests"].items() for each in asked)
        size = manifest["spec"].get("leaderWorkerTemplate", {"size": 1})["size"]
        assert asked[0]["limits"]["nvidia.com/gpu"] * size == option.groups[0].accelerators


def test_files_for_several_machines_say_that_they_have_no_rdma() -> None:
    for target, words in {"kubernetes": "rdma/ib", "dynamo": "rdma/ib", "docker": "/dev/infiniband"}.items():
        several, one = (build_handoff(option, target, None).notes for option in (served(**SPANNING), served()))
        assert words in several[-1]
        assert words not in " ".join(one)


def test_a_service_finds_its_pods() -> None:
    deployment, service, budget = manifests(served())
    assert budget["spec"]["selector"]["matchLabels"] == deployment["spec"]["selector"]["matchLabels"]
    assert service["spec"]["selector"].items() <= deployment["spec"]["template"]["metadata"]["labels"].items()
    assert deployment["spec"]["selector"]["matchLabels"] == deployment["spec"]["template"]["metadata"]["labels"]


def test_two_pools_are_distinguished() -> None:
    names = [manifest["metadata"]["name"] for manifest in manifests(pooled())]
    assert names == ["model-70b-prefill"] * 3 + ["model-70b-decode"] * 3


def container(option: Option) -> dict[str, Any]:
    found: dict[str, Any] = manifests(option)[0]["spec"]["template"]["spec"]["containers"][0]
    return found


def test_a_pod_may_download_its_weights_at_one_gigabit_before_it_is_killed() -> None:
    probe = container(served())["startupProbe"]
    # 8 * 16.4 GiB are 140.9 GB: 1,127 s at 1 Gbit/s, and three times the predicted 120 s
    assert probe["failureThreshold"] * probe["periodSeconds"] == pytest.approx(1127 + 360, abs=10)
    text = build_handoff(served(), "kubernetes", None).files[0].text
    assert "141 GB of weights at 1 Gbit/s" in text
    assert manifests(served())[0]["spec"]["progressDeadlineSeconds"] > 1487


@pytest.mark.parametrize("claim", [None, "weights"])
def test_downloads_survive_a_restart_of_the_container(claim: str | None) -> None:
    pod = manifests(served(claim=claim))[0]["spec"]["template"]["spec"]
    (volume,) = [each for each in pod["volumes"] if each["name"] == "cache"]
    (mount,) = [each for each in pod["containers"][0]["volumeMounts"] if each["name"] == "cache"]
    folders = {each["name"]: each.get("value", "") for each in pod["containers"][0]["env"]}
    assert folders["HF_HOME"].startswith(mount["mountPath"])
    if claim:
        assert volume["persistentVolumeClaim"] == {"claimName": "weights"}
    else:
        assert volume["hostPath"]["type"] == "DirectoryOrCreate"


def test_a_stopped_pod_answers_what_it_has() -> None:
    pod = manifests(served())[0]["spec"]["template"]["spec"]
    sleep = pod["containers"][0]["lifecycle"]["preStop"]["exec"]["command"][2]
    assert sleep == "sleep 20"  # a p99 of 14.2 s, and 5 s until load balancers forget it
    assert pod["terminationGracePeriodSeconds"] > 20


def test_spares_are_kept_by_the_spread_and_by_the_disruption_budget() -> None:
    for option, rule in ((served(), "ScheduleAnyway"), (served(spare=True), "DoNotSchedule")):
        deployment, _, budget = manifests(option)
        (one,) = deployment["spec"]["template"]["spec"]["topologySpreadConstraints"]
        assert (one["topologyKey"], one["whenUnsatisfiable"]) == ("kubernetes.io/hostname", rule)
        assert budget["spec"]["maxUnavailable"] == 1
    zones = replace(served(spare=True), zones=3)
    keys = [
        each["topologyKey"] for each in manifests(zones)[0]["spec"]["template"]["spec"]["topologySpreadConstraints"]
    ]
    assert keys == ["kubernetes.io/hostname", "topology.kubernetes.io/zone"]
    (group, *_) = manifests(replace(served(**SPANNING), zones=3))
    assert [each["topologyKey"] for each in pods(group)[0]["spec"]["topologySpreadConstraints"]] == [
        "topology.kubernetes.io/zone"
    ]


def test_a_pod_requests_its_share_of_the_machine_and_its_kind_of_accelerator() -> None:
    option = served(accelerators=4, tensor=4)
    assert container(option)["resources"]["requests"] == {"nvidia.com/gpu": 4, "cpu": "6", "memory": "819Gi"}
    # An unknown host: 3 GiB for each of five processes, and 20 GiB of weights that it keeps.
    unknown = replace(option, groups=tuple(replace(group, machine_memory_gib=None) for group in option.groups))
    assert container(unknown)["resources"]["requests"]["memory"] == "15Gi"
    unknown = replace(unknown, memory={**option.memory, "host_gib": {"weights": 20.0, "cache": 0.0}})
    assert container(unknown)["resources"]["requests"]["memory"] == "35Gi"
    known = replace(option, groups=tuple(replace(group, machine_vcpus=192.0) for group in option.groups))
    assert container(known)["resources"]["requests"]["cpu"] == "76"  # 0.8 of half of the threads
    pod = manifests(served())[0]["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"nvidia.com/gpu.product": "NVIDIA-H200"}
    offer = {"provider": "aws", "region": "us-east-1", "instance_type": "p5en.48xlarge"}
    pod = manifests(served(offer=offer))[0]["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"node.kubernetes.io/instance-type": "p5en.48xlarge"}


def test_secrets_are_named_and_never_written() -> None:
    (token,) = [each for each in container(served())["env"] if "valueFrom" in each]
    assert token["name"] == "HF_TOKEN"
    assert token["valueFrom"] == {"secretKeyRef": {"name": "huggingface", "key": "token", "optional": True}}


def test_hardware_without_an_image_or_a_plugin_is_refused() -> None:
    for engine, maker in (("vllm", "Intel"), ("sglang", "AMD"), ("llama.cpp", "Apple")):
        with pytest.raises(Unanswerable):
            build_handoff(served(engine, maker=maker), "kubernetes", None)


def test_kserve_starts_replicas_of_one_machine() -> None:
    service, _ = manifests(served(), "kserve")
    assert service["metadata"]["annotations"]["serving.kserve.io/deploymentMode"] == "RawDeployment"
    predictor = service["spec"]["predictor"]
    assert service["apiVersion"] == "serving.kserve.io/v1beta1"
    assert predictor["minReplicas"] == predictor["maxReplicas"] == 3
    assert predictor["containers"][0]["name"] == "kserve-container"
    for option in (pooled(), served(**SPANNING)):
        with pytest.raises(Unanswerable, match=r"Targets that can start it: .*kubernetes"):
            build_handoff(option, "kserve", None)
