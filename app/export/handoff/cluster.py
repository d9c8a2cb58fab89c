"""Builds Kubernetes manifests for services.

Replicas on one machine are Deployments or KServe InferenceServices; replicas on several are LeaderWorkerSets.
"""

from __future__ import annotations

import math
import re
from typing import Any

from app.export.handoff.autoscale import autoscaler_files, autoscaler_notes, build_metadata, kserve_replicas, pod_labels
from app.export.handoff.files import YAML, File, Handoff, add_header, yaml_text
from app.export.handoff.load import benchmark_file
from app.export.handoff.option import Option
from app.export.handoff.serving import NotServable, ReplicaLaunch, plan_launches, router_files, serving_notes
from app.sizing.product_names import product_name

Manifest = dict[str, Any]
# Resource names of the device plugins, by vendor.
RESOURCES = {"NVIDIA": "nvidia.com/gpu", "AMD": "amd.com/gpu", "Intel": "gpu.intel.com/xe"}
LABEL_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", re.ASCII)
PROBE_PERIOD_S = 10
START_TIME_FACTOR = 3.0  # a replica fails if it is not ready after this many times its predicted start time
LEADER = ('export NODE_RANK="$LWS_WORKER_INDEX" MASTER_ADDR="$LWS_LEADER_ADDRESS"',)
WEIGHTS = "/models"


def kubernetes_files(option: Option, version: str | None, target: str) -> Handoff:
    """One manifest file per group of replicas."""
    groups = plan_launches(option, version)
    files = []
    for part in groups:
        _check_startable(part)
        replicas = leader_worker_set(part) if part.spans_machines else deployment_manifest(part)
        files.append(
            File(
                f"{part.name}.yaml", YAML, add_header(option.header_lines, yaml_text(replicas, service_manifest(part)))
            )
        )
        files += autoscaler_files(part, replicas)
    return Handoff(target, option.rank, (*files, *router_files(groups), benchmark_file(option)), _cluster_notes(groups))


def kserve_files(option: Option, version: str | None, target: str) -> Handoff:
    """An InferenceService; each of its replicas runs on one machine."""
    groups = plan_launches(option, version)
    if len(groups) > 1 or groups[0].spans_machines:
        raise NotServable("An InferenceService supports only replicas on one machine that run both prefill and decode.")
    part = groups[0]
    _check_startable(part)
    manifest = {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": build_metadata(part),
        "spec": {
            "predictor": {
                **kserve_replicas(part),
                **pod_spec(part, "kserve-container"),
            }
        },
    }
    files = (
        File(f"{part.name}.yaml", YAML, add_header(option.header_lines, yaml_text(manifest))),
        benchmark_file(option),
    )
    return Handoff(target, option.rank, files, _cluster_notes(groups))


def deployment_manifest(part: ReplicaLaunch) -> Manifest:
    """Deployment of replicas on one machine.

    An update stops a replica before it starts the next, because there are no spare accelerators.
    """
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": build_metadata(part),
        "spec": {
            "replicas": part.group.replicas,
            "selector": {"matchLabels": pod_labels(part)},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
            "template": {
                "metadata": {"labels": pod_labels(part)},
                "spec": pod_spec(part, part.launch.engine.replace(".", "-")),
            },
        },
    }


def leader_worker_set(part: ReplicaLaunch) -> Manifest:
    """LeaderWorkerSet of replicas on several machines; the leader answers the requests."""
    name = part.launch.engine.replace(".", "-")
    leads = {"metadata": {"labels": {**pod_labels(part), "role": "leader"}}, "spec": pod_spec(part, name)}
    follows = {
        "metadata": {"labels": {**pod_labels(part), "role": "worker"}},
        "spec": pod_spec(part, name, answers=False),
    }
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": build_metadata(part),
        "spec": {
            "replicas": part.group.replicas,
            "leaderWorkerTemplate": {
                "size": part.group.machines,
                "restartPolicy": "RecreateGroupOnPodRestart",
                "leaderTemplate": leads,
                "workerTemplate": follows,
            },
        },
    }


def service_manifest(part: ReplicaLaunch) -> Manifest:
    """Service with one address for all replicas."""
    leads = {"role": "leader"} if part.spans_machines else {}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": build_metadata(part),
        "spec": {
            "selector": {**pod_labels(part), **leads},
            "ports": [{"name": "http", "port": 80, "targetPort": "http"}],
        },
    }


def pod_spec(part: ReplicaLaunch, name: str, *, answers: bool = True) -> Manifest:
    """Pod for one machine of a replica; requests and limits of accelerators are equal."""
    accelerators = {RESOURCES[part.group.vendor]: part.group.per_machine}
    container: Manifest = {
        "name": name,
        "image": part.image,
        "command": ["/bin/bash", "-c", "\n".join(("set -euo pipefail", *part.container_lines(*LEADER))) + "\n"],
        "env": [
            {
                "name": "HF_TOKEN",
                "valueFrom": {"secretKeyRef": {"name": "huggingface", "key": "token", "optional": True}},
            }
        ],
        "resources": {"requests": accelerators, "limits": accelerators},
        "volumeMounts": [{"name": "shared-memory", "mountPath": "/dev/shm"}],
    }
    if answers:
        container |= port_and_probes(part)
    volumes: list[Manifest] = [{"name": "shared-memory", "emptyDir": {"medium": "Memory"}}]
    if part.group.model.startswith("./"):
        container |= {"workingDir": WEIGHTS}
        container["volumeMounts"].append({"name": "models", "mountPath": WEIGHTS})
        volumes.append({"name": "models", "persistentVolumeClaim": {"claimName": "models"}})
    return {"containers": [container], **_node_selector(part), "volumes": volumes}


def port_and_probes(part: ReplicaLaunch) -> Manifest:
    """Port and probes of a container. The startup probe allows for the time to load all weights."""
    seconds = START_TIME_FACTOR * float(part.option.performance.get("cold_start_s") or 0.0)
    probe = {"httpGet": {"path": f"/{part.launch.server.path}", "port": "http"}, "periodSeconds": PROBE_PERIOD_S}
    return {
        "ports": [{"name": "http", "containerPort": part.port}],
        "startupProbe": {**probe, "failureThreshold": max(PROBE_PERIOD_S, math.ceil(seconds / PROBE_PERIOD_S))},
        "readinessProbe": probe,
    }


def _node_selector(part: ReplicaLaunch) -> Manifest:
    """Node selector for the instance type, if the seller's own Kubernetes service labels nodes with it."""
    kind = part.group.instance_type
    if kind is None or not part.group.named_machine or not LABEL_VALUE.fullmatch(kind):
        return {}
    return {"nodeSelector": {"node.kubernetes.io/instance-type": kind}}


def _check_startable(part: ReplicaLaunch) -> None:
    if part.group.vendor not in RESOURCES:
        raise NotServable(f"No Kubernetes device plugin is known for {part.group.vendor} accelerators.")
    if part.spans_machines and not part.launch.starts_per_machine:
        engine = product_name(part.launch.engine)
        raise NotServable(f"{engine} can start a replica on several machines only with Slurm.")


def _cluster_notes(groups: tuple[ReplicaLaunch, ...]) -> tuple[str, ...]:
    own = ["If the secret huggingface exists, the Hugging Face token is read from its key token."]
    if any(part.spans_machines for part in groups):
        own.append("Replicas that span several machines need the LeaderWorkerSet controller.")
    if groups[0].group.model.startswith("./"):
        own.append(f"Weights are read from the persistent volume claim models, mounted at {WEIGHTS}.")
    return (*serving_notes(groups), *own, *autoscaler_notes(groups))
