"""Builds Kubernetes autoscalers that follow a day's load: a HorizontalPodAutoscaler or a KEDA ScaledObject."""

from __future__ import annotations

from typing import Any

from app.export.handoff.files import YAML, File, commented, yaml_text
from app.export.handoff.follow import WINDOW, Following, following_notes, following_of
from app.export.handoff.serving import Started
from app.sizing.product_names import product_name

Manifest = dict[str, Any]
METRIC = "headroom_requests_per_s"
PROMETHEUS = "http://prometheus.monitoring.svc:9090"  # a common address; the notes tell the operator to replace it


def metadata(part: Started) -> Manifest:
    """Object metadata: name, labels, and annotations with the source answer."""
    return {
        "name": part.name,
        "labels": labels(part),
        "annotations": {"headroom/recommendation": part.option.answer, "headroom/rank": str(part.option.rank)},
    }


def labels(part: Started) -> dict[str, str]:
    """Labels that select the pods."""
    return {"app.kubernetes.io/name": part.name}


def autoscaler_files(part: Started, replicas: Manifest) -> tuple[File, ...]:
    """Both kinds of autoscaler, to choose from; empty if nothing scales or the engine has no request counter.

    Parameters:
        replicas: manifest of the object that is scaled.
    """
    scaling = following_of(part.option)
    if scaling is None or not part.launch.requests:
        return ()
    target_ref = {"apiVersion": replicas["apiVersion"], "kind": replicas["kind"], "name": part.name}
    header = part.option.header
    return (
        File(f"{part.name}.hpa.yaml", YAML, commented(header, yaml_text(horizontal(part, scaling, target_ref)))),
        File(f"{part.name}.keda.yaml", YAML, commented(header, yaml_text(scaled_object(part, scaling, target_ref)))),
    )


def query(part: Started, scaling: Following) -> str:
    """Prometheus query of the requests per second, plus the share of the spare replicas."""
    counted = f'sum(rate({part.launch.requests}{{pod=~"{part.name}-.*"}}[{WINDOW}]))'
    return f"{counted} + {scaling.spares * scaling.each_per_s:g}" if scaling.spares else counted


def horizontal(part: Started, scaling: Following, target_ref: Manifest) -> Manifest:
    """A HorizontalPodAutoscaler on an external metric."""
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": metadata(part),
        "spec": {
            "scaleTargetRef": target_ref,
            "minReplicas": scaling.least,
            "maxReplicas": scaling.most,
            "metrics": [
                {
                    "type": "External",
                    "external": {
                        "metric": {"name": METRIC, "selector": {"matchLabels": {"service": part.name}}},
                        "target": {"type": "AverageValue", "averageValue": milli(scaling.each_per_s)},
                    },
                }
            ],
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": scaling.wait_s}},
        },
    }


def scaled_object(part: Started, scaling: Following, target_ref: Manifest) -> Manifest:
    """A KEDA ScaledObject, which queries Prometheus itself."""
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": metadata(part),
        "spec": {
            "scaleTargetRef": target_ref,
            "minReplicaCount": scaling.least,
            "maxReplicaCount": scaling.most,
            "advanced": {
                "horizontalPodAutoscalerConfig": {
                    "behavior": {"scaleDown": {"stabilizationWindowSeconds": scaling.wait_s}}
                }
            },
            "triggers": [
                {
                    "type": "prometheus",
                    "metricType": "AverageValue",
                    "metadata": {
                        "serverAddress": PROMETHEUS,
                        "query": query(part, scaling),
                        "threshold": f"{scaling.each_per_s:g}",
                    },
                }
            ],
        },
    }


def kserve_replicas(part: Started) -> Manifest:
    """Replica settings of an InferenceService. Its scale target is a whole number of requests per second."""
    scaling = following_of(part.option)
    if scaling is None or scaling.shared_per_s < 1:
        return {"minReplicas": part.group.replicas, "maxReplicas": part.group.replicas}
    target = int(scaling.shared_per_s)
    return {"minReplicas": scaling.least, "maxReplicas": scaling.most, "scaleMetric": "rps", "scaleTarget": target}


def autoscaler_notes(groups: tuple[Started, ...]) -> tuple[str, ...]:
    """Notes about the manual steps that an autoscaler needs."""
    part, scaling = groups[0], following_of(groups[0].option)
    notes = following_notes(part.option)
    if scaling is None:
        return notes
    if not part.launch.requests:
        return (
            *notes,
            f"{product_name(part.launch.engine)} exposes no request counter for Prometheus, so all replicas that the "
            "peak needs run all the time.",
        )
    return (
        *notes,
        f"Apply {part.name}.keda.yaml or {part.name}.hpa.yaml, not both. Without either, all {scaling.most} replicas "
        f"run. The KEDA file queries Prometheus at {PROMETHEUS}: replace it with your address. The HPA file needs a "
        f"metrics adapter that serves {METRIC} as {query(part, scaling)}.",
    )


def milli(rate: float) -> str:
    """A rate as a Kubernetes quantity.

    Check:
        >>> milli(5.71), milli(12.0)
        ('5710m', '12000m')
    """
    return f"{round(rate * 1000)}m"
