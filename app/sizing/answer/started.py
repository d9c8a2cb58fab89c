"""Launch specifications of an option: software and command placeholders of each kind of replica or of the run."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from app.sizing.answer.benchmark import (
    load_places,
    machines_per_replica,
    serving_benchmark,
    serving_places,
    training_benchmark,
    training_places,
)
from app.sizing.hardware.benchmarks import Benchmark, Places
from app.sizing.question import Deployment, Question
from app.sizing.result import Estimate, Performance
from app.sizing.workload import InferenceWorkload, TrainingWorkload


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """Replicas of one kind, or a run.

    `role` is serve, prefill, decode or train; `machines` is the number of machines of one replica.
    """

    role: str
    software: str
    version: str | None
    replicas: int
    machines: int
    benchmark: Benchmark
    places: Places


def launch_specs(question: Question, estimate: Estimate) -> tuple[LaunchSpec, ...]:
    """Launch specifications of an estimate; empty where it has no predicted performance."""
    workload, d, p = question.workload, estimate.deployment, estimate.performance
    if p is None:
        return ()
    if isinstance(workload, TrainingWorkload):
        steps = math.ceil(workload.units / max(1.0, workload.global_batch * workload.units_per_sequence))
        places = {**training_places(workload, d, question.assumptions), "all_steps": steps}
        return (
            LaunchSpec(
                "train",
                d.framework or "",
                d.framework_version,
                1,
                d.nodes or 1,
                training_benchmark(workload, d),
                places,
            ),
        )
    if d.pools is None:
        return (build_launch_spec(question, workload, d, p, "serve"),)
    alone = load_places(workload, replace(d, replicas=1), p, question.assumptions)
    pools = {"prefill": d.pools.prefill, "decode": d.pools.decode}
    starts = [
        build_launch_spec(question, workload, replace(pool, engine=d.engine), p, role) for role, pool in pools.items()
    ]
    return tuple(replace(start, places={**start.places, **alone}) for start in starts)


def build_launch_spec(
    question: Question, workload: InferenceWorkload, d: Deployment, p: Performance, role: str
) -> LaunchSpec:
    """Launch specification for the replicas of one kind."""
    used = serving_benchmark(workload, d)
    places = serving_places(workload, d, p, used, question.assumptions)
    replicas = (d.replicas or 1) + (d.spare_replicas or 0)
    return LaunchSpec(role, d.engine or "", d.engine_version, replicas, machines_per_replica(d), used, places)
