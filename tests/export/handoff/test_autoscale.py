"""Autoscalers of Kubernetes, and the schedules of a day for other tools."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from app.export.handoff.engines import BY_ENGINE, LAUNCHES
from app.export.handoff.targets import build_handoff
from app.observed.exposition import canonical_name
from app.observed.service import SGLANG, TGI, VLLM
from tests.export.handoff.stored import DAY, served
from tests.export.handoff.test_clouds import DSTACK, SKY
from tests.export.handoff.test_cluster import SPANNING


def manifests(engine: str = "vllm", target: str = "kubernetes", **places: Any) -> dict[str, Any]:
    made = build_handoff(served(engine, day=DAY, **places), target, None)
    return {
        file.name: next(yaml.safe_load_all(file.text)) for file in made.files if file.name.endswith(("yaml", "yml"))
    }


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
@pytest.mark.parametrize("places", [{}, SPANNING])
def test_either_autoscaler_scales_what_runs_between_the_days_bounds(engine: str, places: dict[str, Any]) -> None:
    found = manifests(engine, **places)
    replicas = found["model-70b.yaml"]
    horizontal, keda = found["model-70b.hpa.yaml"], found["model-70b.keda.yaml"]
    of = {name: replicas[name] for name in ("apiVersion", "kind")} | {"name": replicas["metadata"]["name"]}
    assert horizontal["spec"]["scaleTargetRef"] == keda["spec"]["scaleTargetRef"] == of
    assert (horizontal["spec"]["minReplicas"], horizontal["spec"]["maxReplicas"]) == (2, 3)
    assert (keda["spec"]["minReplicaCount"], keda["spec"]["maxReplicaCount"]) == (2, 3)
    assert horizontal["spec"]["metrics"][0]["external"]["target"]["averageValue"] == "4000m"
    trigger, queue = (each["metadata"] for each in keda["spec"]["triggers"])
    assert queue["threshold"] == "1" and BY_ENGINE[engine].queue_gauge in queue["query"]
    assert horizontal["spec"]["metrics"][1]["external"]["target"]["averageValue"] == "1"
    assert trigger["threshold"] == "4"
    assert trigger["query"].endswith("[2m])) + 4")  # one spare


def test_an_engine_that_tells_nothing_by_itself_is_started_so_that_it_does() -> None:
    command = manifests("sglang")["model-70b.yaml"]["spec"]["template"]["spec"]["containers"][0]["command"][2]
    assert "--enable-metrics" in command


def test_counters_are_those_that_expositions_are_read_by() -> None:
    known = {"vllm": VLLM, "sglang": SGLANG, "tgi": TGI}
    counted = {launch.engine: launch.requests_counter for launch in LAUNCHES if launch.requests_counter}
    assert set(counted) == set(known)
    for engine, counter in counted.items():
        assert canonical_name(counter) in {metric.name for metric in known[engine].requests}
        assert canonical_name(BY_ENGINE[engine].queue_gauge) in {metric.name for metric in known[engine].waiting}


def test_an_engine_without_a_counter_has_no_autoscaler_and_it_is_said() -> None:
    made = build_handoff(served("llama.cpp", day=DAY), "kubernetes", None)
    assert not [file for file in made.files if "hpa" in file.name or "keda" in file.name]
    assert any("exposes no request counter" in note for note in made.notes)


def test_kserve_takes_whole_requests_per_second() -> None:
    predictor = manifests(target="kserve")["model-70b.yaml"]["spec"]["predictor"]
    assert (predictor["minReplicas"], predictor["maxReplicas"]) == (2, 3)
    assert (predictor["scaleMetric"], predictor["scaleTarget"]) == ("rps", 2)


def test_knative_admits_the_replicas_that_kserve_scales() -> None:
    """Knative refuses hooks, grace periods and other names of ports."""
    service = manifests(target="kserve")["model-70b.yaml"]
    predictor = service["spec"]["predictor"]
    (container,) = predictor["containers"]
    assert "deploymentMode" not in str(service["metadata"]["annotations"])
    assert "lifecycle" not in container and "terminationGracePeriodSeconds" not in predictor
    assert container["ports"] == [{"name": "http1", "containerPort": 8000}]
    assert {container[name]["httpGet"]["port"] for name in container if name.endswith("Probe")} == {8000}


def test_kserve_runs_a_fixed_fleet_of_slow_replicas_without_knative() -> None:
    """Below one request per second there is no whole number to scale by."""
    slow = {**DAY, "hours": [{**hour, "requests_per_s": hour["requests_per_s"] / 10} for hour in DAY["hours"]]}
    made = build_handoff(served(day=slow), "kserve", None)
    service = next(yaml.safe_load_all(made.files[0].text))
    assert service["metadata"]["annotations"]["serving.kserve.io/deploymentMode"] == "RawDeployment"
    assert "scaleMetric" not in service["spec"]["predictor"]
    assert "lifecycle" in service["spec"]["predictor"]["containers"][0]
    assert not any("Knative" in note for note in made.notes)


def test_cloud_schedulers_get_the_same_replica_limits() -> None:
    sky = manifests(target="skypilot")["model-70b.sky.yaml"]
    Draft202012Validator(SKY).validate(sky)
    policy = sky["service"]["replica_policy"]
    assert (policy["min_replicas"], policy["max_replicas"], policy["target_qps_per_replica"]) == (2, 3, 2.66)
    dstack = manifests(target="dstack")["model-70b.dstack.yml"]
    Draft202012Validator(DSTACK).validate(dstack)
    assert dstack["replicas"] == "2..3"
    assert dstack["scaling"]["target"] == 2.66
