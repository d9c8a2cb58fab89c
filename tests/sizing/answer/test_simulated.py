"""What an answer says of a simulation: the load it is of, its limits, its knee, what holds it up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.sizing.answer.simulated import (
    arrival_process,
    build_load_curve,
    build_simulation,
    class_limit_reasons,
    knee_reasons,
    load_text,
    with_simulation,
)
from app.sizing.serving.finalists import SimulatedReplicas
from app.sizing.serving.margins import Margins
from app.sizing.workload import Lengths, Load, Slo
from tests.examples import col
from tests.sizing.answer.given import SPEED
from tests.sizing.serving.given import varied
from tests.sizing.serving.test_curves import curve

OPEN = varied(peak_per_s=6.0, output_tokens=Lengths(101.0), slo=Slo(0.4, 0.05, None, 95.0))
CLOSED = varied(load=Load.CLOSED, in_flight=6.0, output_tokens=Lengths(101.0))


def texts(load: float, workload: Any = OPEN, **changes: Any) -> list[str]:
    return [reason.text for reason in class_limit_reasons(workload, curve(**changes), load)]


def test_a_limit_shows_its_percentile_the_load_and_the_load_that_exceeds_it() -> None:
    assert texts(2.0) == [
        "p95 TTFT is 200 ms (limit 400 ms) at 2 requests/s per replica. It exceeds the limit above 2.83 requests/s per "
        "replica.",
        "p95 TPOT is 20 ms (limit 50 ms) at 2 requests/s per replica.",
    ]
    assert texts(5.0) == []  # the queue never empties


def test_a_limit_that_is_never_met_is_passed_nowhere() -> None:
    (first, _) = texts(2.0, replace(OPEN, slo=Slo(0.05, 0.05, None, 95.0)))
    assert first == "p95 TTFT is 200 ms (limit 50 ms) at 2 requests/s per replica."


def test_the_load_is_shown_in_the_unit_of_its_arrivals() -> None:
    assert load_text(OPEN, 1.0) == "1 request/s per replica"
    assert load_text(CLOSED, 3.0) == "3 requests in flight per replica"


def test_arrival_processes_are_distinguished() -> None:
    assert arrival_process(OPEN) == "poisson"
    assert arrival_process(replace(OPEN, burstiness=2.0)) == "bursty"
    assert arrival_process(CLOSED) == "closed"
    assert arrival_process(replace(CLOSED, requests=100.0)) == "burst"


def test_a_simulation_is_read_at_the_load_of_a_replica() -> None:
    found = build_simulation(OPEN, curve(), 2.0, 3.0)
    assert (found.requests, found.policy, found.arrivals) == (10_000, "mixed", "poisson")
    assert found.mean_batch == pytest.approx(4.0)
    assert found.goodput_share == pytest.approx(0.9)
    assert found.goodput_per_s == pytest.approx(0.9 * 2 * 3)
    assert found.queue.p95_s == pytest.approx(0.02)


def test_a_curve_is_of_the_whole_deployment_and_goes_on_to_collapse() -> None:
    loads = np.array([1.0, 2.0, 3.0, 3.5, 3.8, 4.0])
    long: dict[str, Any] = dict.fromkeys(("answered_per_s", "running", "cache_share", "preempted"), loads / 4)
    waits = np.repeat(curve().waits_s, 2, axis=0)
    found = build_load_curve(OPEN, replace(curve(), loads=loads, waits_s=waits, goodput_share=loads[::-1], **long), 3.0)
    assert len(found.points) == 9
    assert [p.requests_per_s for p in found.points] == sorted(p.requests_per_s for p in found.points)
    assert found.points[-1].requests_per_s == pytest.approx(12.0)
    assert found.points[-1].ttft_p95_s == pytest.approx(0.8)  # as long as it was simulated
    closed = build_load_curve(CLOSED, curve(closed=True, stable_below=np.inf), 2.0)
    assert [p.in_flight for p in closed.points] == [2, 4, 8]
    assert closed.points[1].output_tokens_per_s == pytest.approx(2 * 2 * 101)


def test_a_knee_is_shown_if_enough_loads_were_simulated() -> None:
    assert list(knee_reasons(OPEN, curve(), 1.0)) == []
    loads, table = np.array([1.0, 2.0, 4.0, 8.0]), np.concatenate([curve().waits_s, 4 * curve().waits_s[-1:]])
    (reason,) = knee_reasons(OPEN, replace(curve(), loads=loads, waits_s=table, answered_per_s=loads), 1.0)
    assert reason.text.startswith("Waiting times start to climb above 2 requests/s per replica (planned: 1).")


def test_a_run_that_ends_says_how_long_it_takes() -> None:
    judged: Any = type("Row", (), {"fleet": type("Fleet", (), {"replicas": col(3)})})
    runs = SimulatedReplicas((curve(closed=True, stable_below=np.inf),), col(100), Margins.without_margin(1))
    found = with_simulation(replace(CLOSED, requests=60.0), SPEED, judged, runs, 0)
    assert found.days == pytest.approx(60 / (3 * 2.0) / 86_400)
    steady = with_simulation(CLOSED, SPEED, judged, runs, 0)
    assert (steady.days, steady.load_curve is None, found.load_curve) == (None, False, None)
