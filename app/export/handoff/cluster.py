"""Kubernetes manifests for services, and autoscalers that follow a day's load.

Replicas on one machine are Deployments or KServe InferenceServices; replicas on several are LeaderWorkerSets.
"""

from __future__ import annotations

import math
import re
from typing import Any

from app.export.handoff.option import (
    WINDOW,
    YAML,
    File,
    Handoff,
    Option,
    ReplicaRange,
    add_header,
    replica_range,
    scaling_notes,
    yaml_text,
)
from app.export.handoff.serving import NotServable, ReplicaLaunch, plan_launches, serving_notes, shared_files
from app.sizing.words import product_name

Manifest = dict[str, Any]
METRIC = "headroom_requests_per_s"
PROMETHEUS = "http://prometheus.monitoring.svc:9090"  # a common address; the notes tell the operator to replace it


def build_metadata(part: ReplicaLaunch) -> Manifest:
    """Object metadata: name, labels, and annotations with the source answer."""
    return {
        "name": part.name,
        "labels": pod_labels(part),
        "annotations": {"headroom/recommendation": part.option.answer, "headroom/rank": str(part.option.rank)},
    }


def pod_labels(part: ReplicaLaunch) -> dict[str, str]:
    """Labels that select the pods."""
    return {"app.kubernetes.io/name": part.name}


def autoscaler_files(part: ReplicaLaunch, replicas: Manifest) -> tuple[File, ...]:
    """Both kinds of autoscaler, to choose from; empty if nothing scales or the engine has no request counter.

    Parameters:
        replicas: manifest of the object that is scaled.
    """
    scaling = replica_range(part.option)
    if scaling is None or not part.launch.requests_counter:
        return ()
    target_ref = {"apiVersion": replicas["apiVersion"], "kind": replicas["kind"], "name": part.name}
    header = part.option.header_lines
    return (
        File(
            f"{part.name}.hpa.yaml",
            YAML,
            add_header(header, yaml_text(horizontal_autoscaler(part, scaling, target_ref))),
        ),
        File(f"{part.name}.keda.yaml", YAML, add_header(header, yaml_text(scaled_object(part, scaling, target_ref)))),
    )


def requests_query(part: ReplicaLaunch, scaling: ReplicaRange) -> str:
    """Prometheus query of the requests per second, plus the share of the spare replicas."""
    counted = f'sum(rate({part.launch.requests_counter}{{pod=~"{part.name}-.*"}}[{WINDOW}]))'
    return f"{counted} + {scaling.spares * scaling.rate_without_spares:g}" if scaling.spares else counted


def horizontal_autoscaler(part: ReplicaLaunch, scaling: ReplicaRange, target_ref: Manifest) -> Manifest:
    """A HorizontalPodAutoscaler on an external metric."""
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": build_metadata(part),
        "spec": {
            "scaleTargetRef": target_ref,
            "minReplicas": scaling.min_replicas,
            "maxReplicas": scaling.max_replicas,
            "metrics": [
                {
                    "type": "External",
                    "external": {
                        "metric": {"name": METRIC, "selector": {"matchLabels": {"service": part.name}}},
                        "target": {"type": "AverageValue", "averageValue": milli_quantity(scaling.rate_without_spares)},
                    },
                }
            ],
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": scaling.scale_down_delay_s}},
        },
    }


def scaled_object(part: ReplicaLaunch, scaling: ReplicaRange, target_ref: Manifest) -> Manifest:
    """A KEDA ScaledObject, which queries Prometheus itself."""
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": build_metadata(part),
        "spec": {
            "scaleTargetRef": target_ref,
            "minReplicaCount": scaling.min_replicas,
            "maxReplicaCount": scaling.max_replicas,
            "advanced": {
                "horizontalPodAutoscalerConfig": {
                    "behavior": {"scaleDown": {"stabilizationWindowSeconds": scaling.scale_down_delay_s}}
                }
            },
            "triggers": [
                {
                    "type": "prometheus",
                    "metricType": "AverageValue",
                    "metadata": {
                        "serverAddress": PROMETHEUS,
                        "query": requests_query(part, scaling),
                        "threshold": f"{scaling.rate_without_spares:g}",
                    },
                }
            ],
        },
    }


def kserve_replicas(part: ReplicaLaunch) -> Manifest:
    """Replica settings of an InferenceService. Its scale target is a whole number of requests per second."""
    scaling = replica_range(part.option)
    if scaling is None or scaling.rate_with_spares < 1:
        return {"minReplicas": part.group.replicas, "maxReplicas": part.group.replicas}
    target = int(scaling.rate_with_spares)
    return {
        "minReplicas": scaling.min_replicas,
        "maxReplicas": scaling.max_replicas,
        "scaleMetric": "rps",
        "scaleTarget": target,
    }


def autoscaler_notes(groups: tuple[ReplicaLaunch, ...]) -> tuple[str, ...]:
    """Notes about the manual steps that an autoscaler needs."""
    part, scaling = groups[0], replica_range(groups[0].option)
    notes = scaling_notes(part.option)
    if scaling is None:
        return notes
    if not part.launch.requests_counter:
        return (
            *notes,
            f"{product_name(part.launch.engine)} exposes no request counter for Prometheus, so all replicas that the "
            "peak needs run all the time.",
        )
    return (
        *notes,
        f"Apply {part.name}.keda.yaml or {part.name}.hpa.yaml, not both. Without either, all {scaling.max_replicas} "
        "replicas "
        f"run. The KEDA file queries Prometheus at {PROMETHEUS}: replace it with your address. The HPA file needs a "
        f"metrics adapter that serves {METRIC} as {requests_query(part, scaling)}.",
    )


def milli_quantity(rate: float) -> str:
    """A rate as a Kubernetes quantity.

    Check:
        >>> milli_quantity(5.71), milli_quantity(12.0)
        ('5710m', '12000m')
    """
    return f"{round(rate * 1000)}m"


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
    return Handoff(target, option.rank, (*files, *shared_files(groups)), _cluster_notes(groups))


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
        *shared_files(groups),
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
