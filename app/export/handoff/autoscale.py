"""Builds Kubernetes autoscalers that follow a day's load: a HorizontalPodAutoscaler or a KEDA ScaledObject."""

from __future__ import annotations

from typing import Any

from app.export.handoff.files import YAML, File, add_header, yaml_text
from app.export.handoff.follow import WINDOW, ReplicaRange, replica_range, scaling_notes
from app.export.handoff.serving import ReplicaLaunch
from app.sizing.product_names import product_name

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
