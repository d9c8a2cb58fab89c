"""What a run comes to: arithmetic that a reader can follow on paper."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from app.sizing.assumptions import Assumptions
from app.sizing.training.outcome import (
    accelerator_hours,
    checkpoint_capacity_bytes,
    cooling_w,
    days,
    host_memory_bytes_per_node,
    ingest_bytes_per_s,
    mfu,
    scaling_efficiency,
    storage_bytes_per_s,
    units_per_s,
)
from app.sizing.units import GIB
from tests.examples import col
from tests.sizing.training.counted import COUNTS

ASSUMED: Any = replace(
    Assumptions(), checkpoint_write_window=0.25, retained_checkpoints=3.0, host_memory_per_accelerator_gib=10.0
)


def test_speed_is_a_batch_over_a_step_and_its_share_of_the_peak() -> None:
    # 64 sequences of 1000 tokens in 2 s
    rate = units_per_s(COUNTS, col(64.0), col(2.0))
    assert rate[0] == pytest.approx(32_000)
    counts = replace(COUNTS, flops_per_unit=5e10)
    # 32 000 tokens of 50 GFLOP on four accelerators of 1 PFLOP/s
    assert mfu(counts, rate, col(4.0), col(1e15))[0] == pytest.approx(0.4)


def test_time_is_of_whole_days_and_hours() -> None:
    wall = col(2.5 * 86_400)
    assert days(wall)[0] == pytest.approx(2.5)
    assert accelerator_hours(wall, col(16.0))[0] == pytest.approx(2.5 * 24 * 16)


@pytest.mark.parametrize(
    ("units", "efficiency"),
    [
        (800.0, 1.0),  # eight times the accelerators, eight times the speed
        (640.0, 0.8),
        (900.0, 1.0),  # never shown better than one machine
    ],
)
def test_scaling_is_speed_per_accelerator_over_one_machines(units: float, efficiency: float) -> None:
    assert scaling_efficiency(col(100.0), col(2.0), col(units), col(16.0))[0] == pytest.approx(efficiency)


def test_storage_takes_a_checkpoint_in_its_window_and_keeps_some() -> None:
    # 100 GB in a quarter of 400 s
    assert storage_bytes_per_s(100e9, col(400.0), ASSUMED)[0] == pytest.approx(1e9)
    assert checkpoint_capacity_bytes(100e9, ASSUMED) == pytest.approx(300e9)


def test_a_data_set_is_read_once_a_pass_or_by_its_usual_size() -> None:
    # a billion tokens at 32 000 a second are 31 250 s
    said = replace(COUNTS, dataset_bytes=4e9)
    assert ingest_bytes_per_s(said, col(32_000.0), 4.0)[0] == pytest.approx(4e9 / 31_250)
    assert ingest_bytes_per_s(replace(COUNTS, dataset_bytes=0.0), col(32_000.0), 4.0)[0] == pytest.approx(128_000)


@pytest.mark.parametrize(
    ("synchronous", "accelerators", "expected"),
    [
        (False, 16.0, 5e9 + 8 * 10 * GIB + 100e9 / 2),
        (True, 16.0, 5e9 + 8 * 10 * GIB),  # written straight from the devices
        (False, 4.0, 5e9 + 4 * 10 * GIB + 100e9 / 2),  # four processes on a machine of eight
    ],
)
def test_a_host_holds_states_processes_and_its_share_of_a_checkpoint(
    synchronous: bool, accelerators: float, expected: float
) -> None:
    counts = replace(COUNTS, synchronous_checkpoints=synchronous)
    found = host_memory_bytes_per_node(counts, col(5e9), 100e9, col(accelerators), col(8.0), col(2.0), ASSUMED)
    assert found[0] == pytest.approx(expected)


def test_cooling_is_the_building_power_above_that_of_the_machines() -> None:
    assert cooling_w(col(10_000.0), 1.3)[0] == pytest.approx(3000)
    assert cooling_w(col(10_000.0), 0.9)[0] == 0
