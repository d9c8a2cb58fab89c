"""What findings read: the deployment as it was laid out, at the load that was seen, and with a thing changed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from app.sizing.diagnosis.case import (
    Case,
    DevicesObservation,
    Observations,
    build_case,
    scale_lengths,
    speed_loss_share,
)
from app.sizing.question import Deployment, Question
from app.sizing.workload import Lengths
from tests.examples import PRETRAIN
from tests.sizing.diagnosis.given import PLANNED_SERVICE, RUNS, SERVES, case_by_hand, case_serving, expected, run
from tests.sizing.small import SMALL


def case_training(asked: Deployment = RUNS, **seen: Any) -> Case:
    """What the findings of a run read."""
    return build_case(Question(PRETRAIN), asked, SMALL, Observations(training=replace(run(), **seen)))


def test_the_layout_is_that_of_the_load_planned_whatever_was_seen() -> None:
    layouts = {
        case_serving(requests_per_s=rate).expected_estimate.deployment.tensor_parallel for rate in (1.0, 30.0, 90.0)
    }
    assert layouts == {expected(True).deployment.tensor_parallel}


def test_rates_and_lengths_are_those_seen() -> None:
    w = case_serving(requests_per_s=15.0, input_tokens_mean=300.0).workload
    assert w is not None and w.peak_per_s == pytest.approx(15.0) and w.input_tokens.mean == 300.0
    assert scale_lengths(Lengths(100, 300), 200) == Lengths(200, 600)


def test_there_is_work_while_requests_run_or_wait() -> None:
    assert case_serving(running=0.0).busy_share == 0.0
    assert case_serving(running=1.0).busy_share == pytest.approx(0.632, abs=1e-3)
    assert case_serving(running=1.0, waiting=5.0).busy_share == 1.0
    assert case_training().has_steady_work


def test_what_the_engine_chose_it_chooses_again() -> None:
    case = case_serving(replace(SERVES, max_batch=8))
    assert case.current_deployment().max_batch == 8 and case.deployment_without_batch_limit().max_batch is None


def test_half_the_clock_or_none_of_the_links() -> None:
    case = case_training()
    assert 0 < case.estimate_loss(compute=0.8) < case.estimate_loss(compute=0.5) < 0.5 + 1e-9
    assert case.estimate_loss() == pytest.approx(0.0, abs=1e-9)


def test_nothing_is_lost_between_what_does_not_run() -> None:
    assert speed_loss_share(None, expected(True)) == 0.0 and speed_loss_share(expected(True), expected(True)) == 0.0


def test_work_is_steady_where_requests_or_the_accelerators_say_so() -> None:
    full = case_by_hand(performance=PLANNED_SERVICE).assumptions.diagnosed_full_share
    for running, utilization, steady in (
        (0.0, None, False),
        (0.0, 0.99 * full, False),
        (0.0, full, True),
        (20.0, None, True),
        (20.0, 0.0, True),
    ):
        devices = DevicesObservation(utilization=utilization)
        case = case_by_hand(performance=PLANNED_SERVICE, devices=devices, running=running)
        assert case.has_steady_work == steady
