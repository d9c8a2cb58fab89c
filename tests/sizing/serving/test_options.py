"""Figures that plans are ranked by, worked by hand."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from app.sizing.model.sample import SampleWork
from app.sizing.question import Question
from app.sizing.serving.measured import Settings
from app.sizing.serving.options import (
    Options,
    duration_s,
    measures,
    served_per_s,
    stable_key,
    throughput_per_s,
    units_per_request,
)
from app.sizing.serving.search import evaluate_plans
from app.sizing.workload import InferenceWorkload, Lengths, Load
from tests.examples import col, row
from tests.sizing.serving.given import DENSE, STEADY, on_big, varied


def options(load: Load = Load.OPEN, **changed: Any) -> tuple[InferenceWorkload, Options]:
    workload = varied(load=load, **changed)
    judged = evaluate_plans(
        Question(workload), workload, on_big(), Settings(replicas=np.full(1, 3.0), spare_replicas=np.ones(1))
    )
    return workload, judged.options


def test_cost_is_spread_over_the_real_load_and_throughput_is_the_capacity() -> None:
    workload, found_ = options()
    capacity, usd = found_.capacity_per_s[0], found_.cost.usd_per_hour[0]
    assert throughput_per_s(workload, found_).tolist() == pytest.approx([3 * capacity])
    assert served_per_s(workload, found_).tolist() == [4]  # the mean
    by = measures(workload, found_)
    assert by.usd.tolist() == [usd]
    assert by.latency_s.tolist() == found_.e2e_p50_s.tolist()
    # three replicas work, a spare idles: four accelerators of one machine of eight
    assert found_.fleet.accelerators.tolist() == [8]
    assert by.throughput_per_accelerator[0] == pytest.approx(3 * capacity / 8)
    assert by.joules_per_unit[0] == pytest.approx(found_.cost.power_w[0] / (4 * 1001))


def test_closed_and_offline_loads_count_what_they_do() -> None:
    workload, found_ = options(Load.CLOSED, in_flight=64.0)
    assert throughput_per_s(workload, found_).tolist() == pytest.approx([3 * found_.rate_per_s[0]])
    assert served_per_s(workload, found_).tolist() == pytest.approx([3 * found_.rate_per_s[0]])
    assert measures(workload, found_).usd.tolist() == found_.cost.usd_per_hour.tolist()
    offline, free = options(Load.OFFLINE)
    per_s = 3 * free.capacity_per_s[0]
    assert per_s == pytest.approx(3 * free.rate_per_s[0])
    assert measures(offline, free).usd[0] == pytest.approx(free.cost.usd_per_hour[0] / (per_s * 1001))


def test_work_that_ends_counts_all_it_costs_and_how_long_it_takes() -> None:
    workload, found_ = options(Load.OFFLINE, volume_requests=1e6)
    seconds = found_.cold_start_s[0] + 1e6 / (3 * found_.capacity_per_s[0])
    assert duration_s(1e6, found_).tolist() == pytest.approx([seconds])
    assert served_per_s(workload, found_).tolist() == pytest.approx([1e6 / seconds])
    by = measures(workload, found_)
    assert by.usd[0] == pytest.approx(found_.cost.usd_per_hour[0] * seconds / 3600)
    assert by.latency_s.tolist() == pytest.approx([seconds])
    assert by.joules_per_unit[0] == pytest.approx(found_.cost.power_w[0] * seconds / 1e6 / 1001)


def test_units_are_tokens_or_samples() -> None:
    assert units_per_request(STEADY) == 1001
    assert units_per_request(varied(input_tokens=Lengths(0.0), output_tokens=Lengths(0.0))) == 1
    assert units_per_request(varied(model=replace(DENSE, sample=SampleWork(flops=1e9)))) == 1


def test_equal_plans_are_numbered_by_accelerators_replica_and_stack() -> None:
    options: Any = row(
        fleet=row(accelerators=col(16)),
        plans=row(accelerators_per_replica=col(4), stacks=SimpleNamespace(rows=np.array([7]))),
    )
    assert stable_key(options).tolist() == [16e6 + 4e3 + 7]
