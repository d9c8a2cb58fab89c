"""Checks of Kubernetes objects: its schemas, and closed ones of the custom resources that hand-offs contain."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import kubernetes_validate
from jsonschema import Draft202012Validator

KUBERNETES = "1.33"
Schema = dict[str, Any]
TEXT, COUNT, TABLE = {"type": "string"}, {"type": "integer", "minimum": 1}, {"type": "object"}
TEXTS = {"type": "object", "additionalProperties": TEXT}
NUMBER = {"type": "integer", "minimum": 0}


def closed(required: tuple[str, ...], **properties: Any) -> Schema:
    """An object with these keys alone."""
    return {"type": "object", "additionalProperties": False, "required": [*required], "properties": properties}


def several(items: Schema) -> Schema:
    """A list with at least one item."""
    return {"type": "array", "minItems": 1, "items": items}


POD_TEMPLATE = closed(("spec",), metadata=TABLE, spec=TABLE)
# Replica settings of KServe; the other keys of a predictor are those of a pod.
PREDICTOR = {
    "minReplicas": NUMBER,
    "maxReplicas": NUMBER,
    "scaleMetric": {"enum": ["cpu", "memory", "concurrency", "rps"]},
}
PREDICTOR |= {"scaleTarget": COUNT}
# The keys used here, written by hand after the definitions of the custom resources (CRDs).
CUSTOM: dict[tuple[str, str], tuple[str, Schema]] = {
    ("serving.kserve.io/v1beta1", "InferenceService"): (
        "kserve/kserve@aaac4e29: config/crd/full/serving.kserve.io_inferenceservices.yaml",
        closed(("predictor",), predictor=TABLE),
    ),
    ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"): (
        "kubernetes-sigs/lws@060ab4da: config/crd/bases/leaderworkerset.x-k8s.io_leaderworkersets.yaml",
        closed(
            ("leaderWorkerTemplate",),
            replicas=NUMBER,
            leaderWorkerTemplate=closed(
                ("workerTemplate",),
                size=COUNT,
                restartPolicy={"enum": ["Default", "RecreateGroupOnPodRestart", "None"]},
                leaderTemplate=POD_TEMPLATE,
                workerTemplate=POD_TEMPLATE,
            ),
        ),
    ),
    ("jobset.x-k8s.io/v1alpha2", "JobSet"): (
        "kubernetes-sigs/jobset@08dfbdfd: config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml",
        closed(
            ("replicatedJobs",),
            failurePolicy=closed((), maxRestarts=NUMBER),
            network=closed((), enableDNSHostnames={"type": "boolean"}, publishNotReadyAddresses={"type": "boolean"}),
            replicatedJobs=several(closed(("name", "template"), name=TEXT, replicas=NUMBER, template=POD_TEMPLATE)),
        ),
    ),
    ("keda.sh/v1alpha1", "ScaledObject"): (
        "kedacore/keda@8b4f083c: config/crd/bases/keda.sh_scaledobjects.yaml",
        closed(
            ("scaleTargetRef", "triggers"),
            scaleTargetRef=closed(("name",), apiVersion=TEXT, kind=TEXT, name=TEXT),
            minReplicaCount=NUMBER,
            maxReplicaCount=NUMBER,
            advanced=closed((), horizontalPodAutoscalerConfig=closed((), behavior=TABLE)),
            triggers=several(
                closed(
                    ("type", "metadata"),
                    type={"const": "prometheus"},
                    metricType={"enum": ["AverageValue", "Value", "Utilization"]},
                    metadata=TEXTS,
                )
            ),
        ),
    ),
    ("ray.io/v1", "RayJob"): (
        "ray-project/kuberay@feeaf72f: ray-operator/config/crd/bases/ray.io_rayjobs.yaml",
        closed(
            ("rayClusterSpec",),
            entrypoint=TEXT,
            backoffLimit=NUMBER,
            shutdownAfterJobFinishes={"type": "boolean"},
            runtimeEnvYAML=TEXT,
            rayClusterSpec=closed(
                ("headGroupSpec",),
                headGroupSpec=closed(("template",), rayStartParams=TEXTS, template=POD_TEMPLATE),
                workerGroupSpecs=several(
                    closed(
                        ("groupName", "template"),
                        groupName=TEXT,
                        replicas=NUMBER,
                        minReplicas=NUMBER,
                        maxReplicas=NUMBER,
                        rayStartParams=TEXTS,
                        template=POD_TEMPLATE,
                    )
                ),
            ),
        ),
    ),
}


def check_manifest(manifest: Schema) -> None:
    """Fails if Kubernetes or the operator of a custom resource would refuse an object, or ignore a key of it."""
    key = (manifest["apiVersion"], manifest["kind"])
    if key not in CUSTOM:
        kubernetes_validate.validate(manifest, KUBERNETES, strict=True)
        return
    assert {*manifest} == {"apiVersion", "kind", "metadata", "spec"}
    Draft202012Validator(CUSTOM[key][1]).validate(manifest["spec"])
    if "predictor" in manifest["spec"]:
        predictor = manifest["spec"]["predictor"]
        replicas = {name: value for name, value in predictor.items() if name in PREDICTOR}
        Draft202012Validator(closed((), **PREDICTOR)).validate(replicas)
        check_pod({name: value for name, value in predictor.items() if name not in PREDICTOR})
        return
    for template in pod_templates(manifest["spec"]):
        check_pod(template["spec"])


def check_pod(spec: Schema) -> None:
    """Fails if Kubernetes would refuse a pod."""
    metadata = {"name": "x"}
    kubernetes_validate.validate(
        {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}, KUBERNETES, strict=True
    )


def pod_templates(node: Any) -> Iterator[Schema]:
    """Templates of pods in an object; of a job inside it, after a check of that job."""
    if isinstance(node, list):
        for item in node:
            yield from pod_templates(item)
    elif isinstance(node, dict):
        for name, value in node.items():
            if name.lower().endswith("template") and "template" in value.get("spec", {}):
                job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x"}, "spec": value["spec"]}
                kubernetes_validate.validate(job, KUBERNETES, strict=True)
            elif name.lower().endswith("template") and "containers" in value.get("spec", {}):
                yield value
            else:
                yield from pod_templates(value)
