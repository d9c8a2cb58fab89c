"""A service and a run on the small catalogue with expected figures, and the findings after some figures change."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from app.sizing.diagnosis.case import (
    Case,
    DevicesObservation,
    Finding,
    Observations,
    ServiceObservation,
    TrainingObservation,
    build_case,
)
from app.sizing.diagnosis.diagnose import Diagnosis, diagnose
from app.sizing.estimate import estimate_deployment
from app.sizing.question import Deployment, Question
from app.sizing.result import Estimate
from tests.examples import PRETRAIN
from tests.sizing.comparing.given import HEAVY
from tests.sizing.small import SMALL

SERVES, RUNS = Deployment("acme-card", total_accelerators=5), Deployment("acme-big", total_accelerators=32)


@cache
def expected(serves: bool) -> Estimate:
    question = Question(HEAVY) if serves else Question(PRETRAIN)
    return estimate_deployment(question, SERVES if serves else RUNS, SMALL)


def service(noise: float = 1.0) -> ServiceObservation:
    p = expected(True).performance
    assert p is not None and p.ttft is not None and p.tpot is not None and p.simulation is not None
    assert p.ttft.p50_s is not None and p.tpot.p50_s is not None and p.simulation.queue.p50_s is not None
    return ServiceObservation(
        requests_per_s=30.0,
        ttft_p50_s=p.ttft.p50_s * noise,
        tpot_p50_s=p.tpot.p50_s * noise,
        queue_p50_s=p.simulation.queue.p50_s * noise,
        waiting=0.0,
        running=p.batch_at_peak,
        cache_usage=p.simulation.cache_occupancy,
        preemptions_per_request=0.0,
    )


def run(noise: float = 1.0) -> TrainingObservation:
    p = expected(False).performance
    assert p is not None and p.step_time_s is not None and p.step_breakdown_s is not None
    parts = p.step_breakdown_s
    return TrainingObservation(
        step_time_s=p.step_time_s * noise,
        compute_s=parts["compute"] * noise,
        communication_s=parts["exposed_communication"] * noise,
        input_s=parts["input"],
        checkpoint_s=p.checkpoint_stall_s,
        checkpoint_interval_s=p.checkpoint_interval_s,
    )


def serving(asked: Deployment = SERVES, workload: Any = HEAVY, devices: Any = None, **seen: Any) -> Diagnosis:
    observed = Observations(replace(service(), **seen), devices=devices or DevicesObservation())
    return diagnose(Question(workload), asked, SMALL, observed)


def training(devices: Any = None, asked: Deployment = RUNS, **seen: Any) -> Diagnosis:
    observed = Observations(training=replace(run(), **seen), devices=devices or DevicesObservation())
    return diagnose(Question(PRETRAIN), asked, SMALL, observed)


def case_serving(asked: Deployment = SERVES, workload: Any = HEAVY, **seen: Any) -> Case:
    """What the findings of a service read."""
    return build_case(Question(workload), asked, SMALL, Observations(replace(service(), **seen)))


def codes(found: Diagnosis) -> list[str]:
    return [f.code for f in found.findings]


def first(found: Diagnosis) -> Finding:
    return found.findings[0]
