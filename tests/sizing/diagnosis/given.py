"""A service and a run on the small catalogue with expected figures, and the findings after some figures change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any

from app.sizing.diagnosis.case import (
    Case,
    DevicesObservation,
    Observations,
    ServiceObservation,
    TrainingObservation,
    build_case,
)
from app.sizing.diagnosis.diagnose import Diagnosis, diagnose
from app.sizing.diagnosis.findings import Finding
from app.sizing.estimate import estimate_deployment
from app.sizing.question import Deployment, Question
from app.sizing.result import DeviceMemory, Estimate, Interval, Percentiles, Performance, Simulation
from app.sizing.words import format_number
from tests.examples import PRETRAIN
from tests.sizing.compare.given import HEAVY
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


# A service by hand: 40 requests/s of at most 50, a first token in 0.2 s, a token in 0.05 s, twice that at p95.
PLANNED_SERVICE = Performance(
    Interval("output_tokens_per_s", 3600.0, 4400.0),
    "roofline",
    (Interval("ttft_s", 0.1, 0.22, "p50"), Interval("tpot_s", 0.04, 0.06, "p50")),
    output_tokens_per_s=4000.0,
    requests_per_s_capacity=40.0,
    batch_at_peak=10.0,
    ttft=Percentiles(0.2, 0.2, 0.4, 0.6),
    tpot=Percentiles(0.05, 0.05, 0.1, 0.2),
    simulation=Simulation(
        1000,
        1,
        "poisson",
        "mixed",
        Percentiles(0.05, 0.05, 0.1, 0.2),
        Percentiles(0.02, 0.02, 0.04, 0.06),
        10.0,
        0.5,
        0.1,
        30.0,
        1.0,
    ),
    unstable_above_requests_per_s=50.0,
    cold_start_s=100.0,
)
# A run by hand: steps of 10 s at 1,000 tokens/s, 50 % MFU, and a checkpoint of 10 s every 1,000 s.
PLANNED_RUN = Performance(
    Interval("tokens_per_s", 900.0, 1100.0),
    "roofline",
    tokens_per_s=1000.0,
    step_time_s=10.0,
    mfu=0.5,
    step_breakdown_s={"compute": 6.0, "exposed_communication": 2.0, "input": 0.0, "optimizer": 1.0},
    days=10.0,
    expected_interruptions=5.0,
    checkpoint_interval_s=1000.0,
    checkpoint_stall_s=10.0,
)
PLANNED_MEMORY = DeviceMemory(40e9, 0.0, 20e9, 0.0, 0.0, 0.0, 80e9, 70e9)


def case_by_hand(
    *, performance: Performance | None, workload: Any = HEAVY, devices: Any = None, planned: Any = None, **seen: Any
) -> Case:
    """A case whose expectation was made by hand; a service of four cards, or a run of eight accelerators."""
    serves = workload is not PRETRAIN
    if serves:
        deployment = Deployment("acme-card", replicas=4, accelerators_per_replica=1, total_accelerators=4)
        observed = Observations(ServiceObservation(**seen), devices=devices or DevicesObservation())
    else:
        deployment = Deployment("acme-big", total_accelerators=8)
        observed = Observations(training=TrainingObservation(**seen), devices=devices or DevicesObservation())
    judged = Estimate(deployment, True, PLANNED_MEMORY, performance, "compute", None, ())
    return Case(Question(planned or workload), Question(workload), deployment, SMALL, observed, judged)


def of_service(check: Callable[[Case], Iterator[Finding]], performance: Any = PLANNED_SERVICE, **seen: Any) -> Any:
    """What one check finds in the service by hand; None if nothing."""
    return next(check(case_by_hand(performance=performance, **seen)), None)


def of_run(check: Callable[[Case], Iterator[Finding]], performance: Any = PLANNED_RUN, **seen: Any) -> Any:
    """What one check finds in the run by hand; None if nothing."""
    return next(check(case_by_hand(performance=performance, workload=PRETRAIN, **seen)), None)


def shows(found: Finding, *figures: float) -> bool:
    """Whether a text shows figures to three digits."""
    return all(format_number(figure) in found.text for figure in figures)
