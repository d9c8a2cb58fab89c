"""Kubernetes: replicas of one machine as Deployments, of several as LeaderWorkerSets; and KServe's services."""

from __future__ import annotations

import math
import re
from typing import Any

from app.export.handoff.autoscale import autoscaler_files, autoscaler_notes, kserve_replicas, labels, metadata
from app.export.handoff.files import YAML, File, Handoff, commented, yaml_text
from app.export.handoff.load import benchmark_file
from app.export.handoff.option import Option
from app.export.handoff.serving import NotServable, Started, notes_of, router_files, started

Manifest = dict[str, Any]
# How device plugins name accelerators, by vendor.
RESOURCES = {"NVIDIA": "nvidia.com/gpu", "AMD": "amd.com/gpu", "Intel": "gpu.intel.com/xe"}
LABEL_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", re.ASCII)
PROBE_PERIOD_S = 10
PATIENCE = 3.0  # times the predicted start before a replica is given up
LEADER = ('export NODE_RANK="$LWS_WORKER_INDEX" MASTER_ADDR="$LWS_LEADER_ADDRESS"',)
WEIGHTS = "/models"


def kubernetes(option: Option, version: str | None, target: str) -> Handoff:
    """A file of manifests for each kind of replica."""
    groups = started(option, version)
    files = []
    for part in groups:
        _startable(part)
        replicas = leader_worker_set(part) if part.spans else deployment(part)
        files.append(File(f"{part.name}.yaml", YAML, commented(option.header, yaml_text(replicas, service(part)))))
        files += autoscaler_files(part, replicas)
    return Handoff(target, option.rank, (*files, *router_files(groups), benchmark_file(option)), _notes(groups))


def kserve(option: Option, version: str | None, target: str) -> Handoff:
    """An InferenceService, whose replicas stand on one machine each."""
    groups = started(option, version)
    if len(groups) > 1 or groups[0].spans:
        raise NotServable("An InferenceService starts replicas of one machine that do both prefill and decode.")
    part = groups[0]
    _startable(part)
    manifest = {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": metadata(part),
        "spec": {
            "predictor": {
                **kserve_replicas(part),
                **pod(part, "kserve-container"),
            }
        },
    }
    files = (File(f"{part.name}.yaml", YAML, commented(option.header, yaml_text(manifest))), benchmark_file(option))
    return Handoff(target, option.rank, files, _notes(groups))


def deployment(part: Started) -> Manifest:
    """Replicas of one machine; one is stopped before the next starts, as no accelerators are left over."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(part),
        "spec": {
            "replicas": part.group.replicas,
            "selector": {"matchLabels": labels(part)},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
            "template": {"metadata": {"labels": labels(part)}, "spec": pod(part, part.launch.engine.replace(".", "-"))},
        },
    }


def leader_worker_set(part: Started) -> Manifest:
    """Replicas of several machines: the first of each leads and is the one that answers."""
    name = part.launch.engine.replace(".", "-")
    leads = {"metadata": {"labels": {**labels(part), "role": "leader"}}, "spec": pod(part, name)}
    follows = {"metadata": {"labels": {**labels(part), "role": "worker"}}, "spec": pod(part, name, answers=False)}
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": metadata(part),
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


def service(part: Started) -> Manifest:
    """The one address of all replicas."""
    leads = {"role": "leader"} if part.spans else {}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(part),
        "spec": {"selector": {**labels(part), **leads}, "ports": [{"name": "http", "port": 80, "targetPort": "http"}]},
    }


def pod(part: Started, name: str, *, answers: bool = True) -> Manifest:
    """One machine's part of a replica. Accelerators are asked for as they are limited."""
    accelerators = {RESOURCES[part.group.vendor]: part.group.per_machine}
    container: Manifest = {
        "name": name,
        "image": part.image,
        "command": ["/bin/bash", "-c", "\n".join(("set -euo pipefail", *part.inside(*LEADER))) + "\n"],
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
        container |= answering(part)
    volumes: list[Manifest] = [{"name": "shared-memory", "emptyDir": {"medium": "Memory"}}]
    if part.group.model.startswith("./"):
        container |= {"workingDir": WEIGHTS}
        container["volumeMounts"].append({"name": "models", "mountPath": WEIGHTS})
        volumes.append({"name": "models", "persistentVolumeClaim": {"claimName": "models"}})
    return {"containers": [container], **_node(part), "volumes": volumes}


def answering(part: Started) -> Manifest:
    """The port, and how long is waited for it: the first start reads all weights."""
    seconds = PATIENCE * float(part.option.performance.get("cold_start_s") or 0.0)
    probe = {"httpGet": {"path": f"/{part.launch.server.path}", "port": "http"}, "periodSeconds": PROBE_PERIOD_S}
    return {
        "ports": [{"name": "http", "containerPort": part.port}],
        "startupProbe": {**probe, "failureThreshold": max(PROBE_PERIOD_S, math.ceil(seconds / PROBE_PERIOD_S))},
        "readinessProbe": probe,
    }


def _node(part: Started) -> Manifest:
    """On which machines: those of the instance type, where its seller's own Kubernetes labels them with it."""
    kind = part.group.instance_type
    if kind is None or not part.group.named_machine or not LABEL_VALUE.fullmatch(kind):
        return {}
    return {"nodeSelector": {"node.kubernetes.io/instance-type": kind}}


def _startable(part: Started) -> None:
    if part.group.vendor not in RESOURCES:
        raise NotServable(f"No device plugin of Kubernetes is known here for {part.group.vendor}.")
    if part.spans and not part.launch.spans:
        raise NotServable(f"{part.launch.engine} starts a replica of several machines by Slurm alone.")


def _notes(groups: tuple[Started, ...]) -> tuple[str, ...]:
    own = ["A token of Hugging Face is read from the secret huggingface, where there is one."]
    if any(part.spans for part in groups):
        own.append("Replicas of several machines need the LeaderWorkerSet controller.")
    if groups[0].group.model.startswith("./"):
        own.append(f"Weights are read from the volume claim models, mounted at {WEIGHTS}.")
    return (*notes_of(groups), *own, *autoscaler_notes(groups))
