"""What lets replicas on Kubernetes follow a day's load: a HorizontalPodAutoscaler, or a ScaledObject of KEDA."""

from __future__ import annotations

from typing import Any

from app.export.handoff.files import YAML, File, commented, yaml_text
from app.export.handoff.follow import WINDOW, Following, following_notes, following_of
from app.export.handoff.serving import Started

Manifest = dict[str, Any]
METRIC = "headroom_requests_per_s"
PROMETHEUS = "http://prometheus.monitoring.svc:9090"  # as it is often named; the notes say so


def metadata(part: Started) -> Manifest:
    """A name, what belongs together, and the answer it is from."""
    return {
        "name": part.name,
        "labels": labels(part),
        "annotations": {"headroom/recommendation": part.option.answer, "headroom/rank": str(part.option.rank)},
    }


def labels(part: Started) -> dict[str, str]:
    """By which pods are found."""
    return {"app.kubernetes.io/name": part.name}


def autoscaler_files(part: Started, replicas: Manifest) -> tuple[File, ...]:
    """One of either kind, to choose from; `replicas` is what they scale. None where the engine counts no requests."""
    found = following_of(part.option)
    if found is None or not part.launch.requests:
        return ()
    of = {"apiVersion": replicas["apiVersion"], "kind": replicas["kind"], "name": part.name}
    header = part.option.header
    return (
        File(f"{part.name}.hpa.yaml", YAML, commented(header, yaml_text(horizontal(part, found, of)))),
        File(f"{part.name}.keda.yaml", YAML, commented(header, yaml_text(scaled_object(part, found, of)))),
    )


def query(part: Started, found: Following) -> str:
    """Requests per second as replicas are counted by them: of the spares too what each would bear."""
    counted = f'sum(rate({part.launch.requests}{{pod=~"{part.name}-.*"}}[{WINDOW}]))'
    return f"{counted} + {found.spares * found.each_per_s:g}" if found.spares else counted


def horizontal(part: Started, found: Following, of: Manifest) -> Manifest:
    """A HorizontalPodAutoscaler on an external metric."""
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": metadata(part),
        "spec": {
            "scaleTargetRef": of,
            "minReplicas": found.least,
            "maxReplicas": found.most,
            "metrics": [
                {
                    "type": "External",
                    "external": {
                        "metric": {"name": METRIC, "selector": {"matchLabels": {"service": part.name}}},
                        "target": {"type": "AverageValue", "averageValue": milli(found.each_per_s)},
                    },
                }
            ],
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": found.wait_s}},
        },
    }


def scaled_object(part: Started, found: Following, of: Manifest) -> Manifest:
    """A ScaledObject, which asks Prometheus itself."""
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": metadata(part),
        "spec": {
            "scaleTargetRef": of,
            "minReplicaCount": found.least,
            "maxReplicaCount": found.most,
            "advanced": {
                "horizontalPodAutoscalerConfig": {
                    "behavior": {"scaleDown": {"stabilizationWindowSeconds": found.wait_s}}
                }
            },
            "triggers": [
                {
                    "type": "prometheus",
                    "metricType": "AverageValue",
                    "metadata": {
                        "serverAddress": PROMETHEUS,
                        "query": query(part, found),
                        "threshold": f"{found.each_per_s:g}",
                    },
                }
            ],
        },
    }


def kserve_replicas(part: Started) -> Manifest:
    """How many replicas an InferenceService has; its target is a whole number of requests per second."""
    found = following_of(part.option)
    if found is None or found.shared_per_s < 1:
        return {"minReplicas": part.group.replicas, "maxReplicas": part.group.replicas}
    target = int(found.shared_per_s)
    return {"minReplicas": found.least, "maxReplicas": found.most, "scaleMetric": "rps", "scaleTarget": target}


def autoscaler_notes(groups: tuple[Started, ...]) -> tuple[str, ...]:
    """What an autoscaler needs beside its file."""
    part, found = groups[0], following_of(groups[0].option)
    told = following_notes(part.option)
    if found is None:
        return told
    if not part.launch.requests:
        return (
            *told,
            f"{part.launch.engine} counts no requests for Prometheus: replicas are as many as the peak takes.",
        )
    return (
        *told,
        f"Apply {part.name}.keda.yaml or {part.name}.hpa.yaml, not both; without either all {found.most} run. The "
        f"first asks Prometheus at {PROMETHEUS}: put yours there. The second needs an adapter that serves {METRIC} "
        f"as {query(part, found)}.",
    )


def milli(rate: float) -> str:
    """A quantity of Kubernetes.

    Check:
        >>> milli(5.71), milli(12.0)
        ('5710m', '12000m')
    """
    return f"{round(rate * 1000)}m"
