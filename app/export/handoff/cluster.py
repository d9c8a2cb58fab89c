"""Kubernetes manifests for services, and autoscalers that follow a day's load.

Replicas on one machine are Deployments or KServe InferenceServices; replicas on several are LeaderWorkerSets.
"""

from __future__ import annotations

import math
import re
from typing import Any

from app.export.handoff.lifecycle import (
    CACHE,
    NODE_CACHE,
    drain_s,
    host_requests,
    start_budget_s,
    start_note,
)
from app.export.handoff.option import (
    WINDOW,
    YAML,
    File,
    Handoff,
    Option,
    ReplicaGroup,
    ReplicaRange,
    add_header,
    replica_range,
    scaling_notes,
    yaml_text,
)
from app.export.handoff.serving import NotServable, ReplicaLaunch, plan_launches, serving_notes, shared_files
from app.export.handoff.weights import needs_conversion
from app.sizing.words import product_name

Manifest = dict[str, Any]
METRIC = "headroom_requests_per_s"
QUEUE_METRIC = "headroom_waiting_requests"
WAITING_PER_REPLICA = 1  # waiting requests per replica above which one more is started, whatever the rate
PROMETHEUS = "http://prometheus.monitoring.svc:9090"  # a common address; the notes tell the operator to replace it


def build_metadata(part: ReplicaLaunch) -> Manifest:
    """Object metadata: name, labels, and annotations with the source answer."""
    return {
        "name": part.name,
        "labels": pod_labels(part),
        "annotations": {"headroom/recommendation": part.option.answer, "headroom/rank": str(part.option.rank)},
    }


def pod_labels(part: ReplicaLaunch) -> dict[str, str]:
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
                external_metric(part, METRIC, milli_quantity(scaling.rate_without_spares)),
                *([external_metric(part, QUEUE_METRIC, str(WAITING_PER_REPLICA))] if part.launch.queue_gauge else ()),
            ],
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": scaling.scale_down_delay_s}},
        },
    }


def external_metric(part: ReplicaLaunch, name: str, average: str) -> Manifest:
    """A metric of the whole service, with its target per replica."""
    return {
        "type": "External",
        "external": {
            "metric": {"name": name, "selector": {"matchLabels": {"service": part.name}}},
            "target": {"type": "AverageValue", "averageValue": average},
        },
    }


def queue_query(part: ReplicaLaunch) -> str:
    """Prometheus query of the waiting requests of all replicas."""
    return f'sum({part.launch.queue_gauge}{{pod=~"{part.name}-.*"}})'


def prometheus_trigger(query: str, threshold: str) -> Manifest:
    return {
        "type": "prometheus",
        "metricType": "AverageValue",
        "metadata": {"serverAddress": PROMETHEUS, "query": query, "threshold": threshold},
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
                prometheus_trigger(requests_query(part, scaling), f"{scaling.rate_without_spares:g}"),
                *([prometheus_trigger(queue_query(part), str(WAITING_PER_REPLICA))] if part.launch.queue_gauge else ()),
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
        f"metrics adapter that serves {METRIC} as {requests_query(part, scaling)}"
        + (f" and {QUEUE_METRIC} as {queue_query(part)}." if part.launch.queue_gauge else "."),
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
UNHEALTHY_PROBES = 6  # failed probes in a row after which a container restarts
PROBE_TIMEOUT_S = 10
GRACE_AFTER_DRAIN_S = 30
DEPLOYMENT_SLACK_S = 600  # beyond the start time, until a rollout counts as stuck
# Labels that GPU feature discovery writes, by prefix of the catalog slug; the first match counts.
# Values as public manifests select them, searched 2026-11-26.
GPU_PRODUCTS = (
    ("nvidia-h100-sxm5-80gb", "NVIDIA-H100-80GB-HBM3"),
    ("nvidia-h100-nvl", "NVIDIA-H100-NVL"),
    ("nvidia-h200-sxm", "NVIDIA-H200"),
    ("nvidia-b200-sxm", "NVIDIA-B200"),
    ("nvidia-gb200", "NVIDIA-GB200"),
    ("nvidia-gh200", "NVIDIA-GH200-480GB"),
    ("nvidia-a100-sxm4-80gb", "NVIDIA-A100-SXM4-80GB"),
    ("nvidia-a100-sxm4-40gb", "NVIDIA-A100-SXM4-40GB"),
    ("nvidia-l40s", "NVIDIA-L40S"),
    ("nvidia-l4", "NVIDIA-L4"),
    ("nvidia-a10g", "NVIDIA-A10G"),
    ("nvidia-t4", "Tesla-T4"),
    ("nvidia-rtx-a4000", "NVIDIA-RTX-A4000"),
    ("nvidia-rtx-a6000", "NVIDIA-RTX-A6000"),
    ("nvidia-rtx-pro-6000-blackwell-server", "NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition"),
    ("nvidia-gb10", "NVIDIA-GB10"),
)
LEADER = ('export NODE_RANK="$LWS_WORKER_INDEX" MASTER_ADDR="$LWS_LEADER_ADDRESS"',)
WEIGHTS = "/models"


def kubernetes_files(option: Option, version: str | None, target: str) -> Handoff:
    """One manifest file per group of replicas."""
    groups = plan_launches(option, version)
    files = []
    for part in groups:
        _check_startable(part)
        replicas = leader_worker_set(part) if part.spans_machines else deployment_manifest(part)
        manifests = yaml_text(replicas, service_manifest(part), disruption_budget(part))
        files.append(File(f"{part.name}.yaml", YAML, add_header(header_lines(part), manifests)))
        files += autoscaler_files(part, replicas)
    return Handoff(target, option.rank, (*files, *shared_files(groups)), _cluster_notes(groups))


def kserve_files(option: Option, version: str | None, target: str) -> Handoff:
    """An InferenceService; each of its replicas runs on one machine."""
    groups = plan_launches(option, version)
    if len(groups) > 1 or groups[0].spans_machines:
        raise NotServable("An InferenceService supports only replicas on one machine that run both prefill and decode.")
    part = groups[0]
    _check_startable(part)
    metadata, replicas = build_metadata(part), kserve_replicas(part)
    scales = "scaleMetric" in replicas
    if not scales:  # the mode of plain Deployments, which mount volumes without feature flags
        metadata["annotations"]["serving.kserve.io/deploymentMode"] = "RawDeployment"
    pod = pod_spec(part, "kserve-container")
    manifest = {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": metadata,
        "spec": {
            "predictor": {
                **replicas,
                **(knative_pod(part, pod) if scales else pod),
            }
        },
    }
    files = (
        File(f"{part.name}.yaml", YAML, add_header(header_lines(part), yaml_text(manifest, disruption_budget(part)))),
        *shared_files(groups),
    )
    knative = (
        ()
        if not scales
        else (
            "Scaling by requests needs the Knative mode of KServe. Turn on its feature flags for host paths or claims, "
            "node selectors and topology spread. Knative drains a replica itself.",
        )
    )
    return Handoff(target, option.rank, files, (*_cluster_notes(groups), *knative))


def knative_pod(part: ReplicaLaunch, pod: Manifest) -> Manifest:
    """Pod as Knative admits it: without hooks and grace period, with a port name of its own and probes by number.

    Source: knative/serving, pkg/apis/serving/fieldmask.go and k8s_validation.go, read 2026-11-27.
    """
    (container,) = pod["containers"]
    probes = {name: dict(probe) for name, probe in container.items() if name.endswith("Probe")}
    for probe in probes.values():
        probe["httpGet"] = {**probe["httpGet"], "port": part.port}
    ports = [{"name": "http1", "containerPort": part.port}]
    kept = {name: value for name, value in container.items() if name != "lifecycle"}
    shown = {name: value for name, value in pod.items() if name != "terminationGracePeriodSeconds"}
    return {**shown, "containers": [{**kept, "ports": ports, **probes}]}


def header_lines(part: ReplicaLaunch) -> tuple[str, ...]:
    """Header lines of a manifest, with the time that its probes allow for a start."""
    return (*part.option.header_lines, start_note(part.option, part.group))


def disruption_budget(part: ReplicaLaunch) -> Manifest:
    """PodDisruptionBudget: node drains stop no more replicas at once than there are spares, but at least one.

    It counts every pod of a replica on several machines: if one stops, all of them start again.
    """
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": build_metadata(part),
        "spec": {
            "maxUnavailable": max(1, part.option.spares),
            "selector": {"matchLabels": pod_labels(part)},
        },
    }


def spread_constraints(part: ReplicaLaunch) -> Manifest:
    """Even spread of the replicas over machines and zones, which the spares rely on; without spares a preference.

    The pods of one replica on several machines are on machines of their own already.
    """
    keys = (() if part.spans_machines else ("kubernetes.io/hostname",)) + (
        ("topology.kubernetes.io/zone",) if part.option.zones > 1 else ()
    )
    leads = {"role": "leader"} if part.spans_machines else {}
    constraints = [
        {
            "maxSkew": 1,
            "topologyKey": key,
            "whenUnsatisfiable": "DoNotSchedule" if part.option.spares else "ScheduleAnyway",
            "nodeTaintsPolicy": "Honor",  # a failed node does not count
            "labelSelector": {"matchLabels": {**pod_labels(part), **leads}},
        }
        for key in keys
    ]
    return {"topologySpreadConstraints": constraints} if constraints and part.group.replicas > 1 else {}


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
            "progressDeadlineSeconds": start_budget_s(part.option, part.group) + DEPLOYMENT_SLACK_S,
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
    accelerators: Manifest = {RESOURCES[part.group.vendor]: part.group.per_machine}
    drain = drain_s(part.option)
    container: Manifest = {
        "name": name,
        "image": part.image,
        "command": ["/bin/bash", "-c", "\n".join(("set -euo pipefail", *part.container_lines(*LEADER))) + "\n"],
        "env": [
            {
                "name": "HF_TOKEN",
                "valueFrom": {"secretKeyRef": {"name": "huggingface", "key": "token", "optional": True}},
            },
            *({"name": key, "value": value} for key, value in part.environment.items()),
        ],
        "resources": {"requests": {**accelerators, **host_requests(part.option, part.group)}, "limits": accelerators},
        # The server answers what it has until load balancers forget it.
        "lifecycle": {"preStop": {"exec": {"command": ["/bin/sh", "-c", f"sleep {drain}"]}}},
        "volumeMounts": [
            {"name": "shared-memory", "mountPath": "/dev/shm"},
            {"name": "cache", "mountPath": CACHE},
        ],
    }
    if answers:
        container |= port_and_probes(part)
    volumes: list[Manifest] = [{"name": "shared-memory", "emptyDir": {"medium": "Memory"}}, cache_volume(part.option)]
    if needs_conversion(part.group):
        container |= {"workingDir": WEIGHTS}
        container["volumeMounts"].append({"name": "models", "mountPath": WEIGHTS})
        volumes.append({"name": "models", "persistentVolumeClaim": {"claimName": part.option.volume_claim or "models"}})
    return {
        "containers": [container],
        **node_selector(part.group),
        **spread_constraints(part),
        "terminationGracePeriodSeconds": drain + GRACE_AFTER_DRAIN_S,
        "volumes": volumes,
    }


def cache_volume(option: Option) -> Manifest:
    """Volume that keeps downloads when a container restarts: a claim that the user names, or a folder of the node."""
    if option.volume_claim is not None:
        return {"name": "cache", "persistentVolumeClaim": {"claimName": option.volume_claim}}
    return {"name": "cache", "hostPath": {"path": NODE_CACHE, "type": "DirectoryOrCreate"}}


def port_and_probes(part: ReplicaLaunch) -> Manifest:
    """Port and probes of a container. The startup probe allows for the download of the weights and for their loading;
    afterwards a server that stops answering restarts.
    """
    seconds = start_budget_s(part.option, part.group)
    probe = {
        "httpGet": {"path": f"/{part.launch.server.path}", "port": "http"},
        "periodSeconds": PROBE_PERIOD_S,
        "timeoutSeconds": PROBE_TIMEOUT_S,
    }
    return {
        "ports": [{"name": "http", "containerPort": part.port}],
        "startupProbe": {**probe, "failureThreshold": math.ceil(seconds / PROBE_PERIOD_S)},
        "readinessProbe": probe,
        "livenessProbe": {**probe, "failureThreshold": UNHEALTHY_PROBES},
    }


def node_selector(group: ReplicaGroup) -> Manifest:
    """Node selector for the instance type, if the seller's own Kubernetes service labels nodes with it, else for the
    product of the accelerator, if its label is known.
    """
    kind, sku = group.instance_type, group.sku
    if kind is not None and group.named_machine and LABEL_VALUE.fullmatch(kind):
        return {"nodeSelector": {"node.kubernetes.io/instance-type": kind}}
    product = next((label for start, label in GPU_PRODUCTS if sku.startswith(start)), None)
    return {} if product is None else {"nodeSelector": {"nvidia.com/gpu.product": product}}


def _check_startable(part: ReplicaLaunch) -> None:
    if part.group.vendor not in RESOURCES:
        raise NotServable(f"No Kubernetes device plugin is known for {part.group.vendor} accelerators.")
    if part.spans_machines and not part.launch.starts_per_machine:
        engine = product_name(part.launch.engine)
        raise NotServable(f"{engine} can start a replica on several machines only with Slurm.")


def _cluster_notes(groups: tuple[ReplicaLaunch, ...]) -> tuple[str, ...]:
    option, first = groups[0].option, groups[0].group
    own = ["If the secret huggingface exists, the Hugging Face token is read from its key token."]
    if any(part.spans_machines for part in groups):
        own.append("Replicas that span several machines need the LeaderWorkerSet controller.")
    if option.volume_claim is None and not needs_conversion(first):
        own.append(
            f"Each node keeps downloaded weights in {NODE_CACHE}. To keep them in a volume that all replicas can "
            "mount, ask for the files with volume_claim=NAME."
        )
    if needs_conversion(first):
        claim = option.volume_claim or "models"
        own.append(f"Weights are read from the persistent volume claim {claim}, mounted at {WEIGHTS}.")
    if "nvidia.com/gpu.product" in node_selector(first).get("nodeSelector", {}):
        own.append("The node selector needs the labels of GPU feature discovery, a part of the GPU operator.")
    return (*serving_notes(groups), *own, *autoscaler_notes(groups))
