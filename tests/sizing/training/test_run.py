"""What a run comes to: arithmetic that a reader can follow on paper. A whole run: its wall time, what it loses,
and what the cluster must bring.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.sizing.assumptions import Assumptions
from app.sizing.columns import GIB
from app.sizing.estimate import estimate_deployment
from app.sizing.question import Constraints, Deployment, Question
from app.sizing.recommend import recommend_hardware
from app.sizing.snapshot import Catalog
from app.sizing.training.counts import counts_of
from app.sizing.training.run import (
    accelerator_hours,
    checkpoint_capacity_bytes,
    cooling_w,
    days,
    estimate_losses,
    host_memory_bytes_per_node,
    ingest_bytes_per_s,
    mfu,
    run_at,
    scaling_efficiency,
    storage_bytes_per_s,
    units_per_s,
)
from tests.examples import LLAMA_8B, col, present
from tests.sizing.training.counted import COUNTS
from tests.sizing.training.layouts import H100, SINGLE, WORKLOAD, asked, one

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


def test_more_devices_are_faster_and_never_more_than_proportionally(catalog: Catalog) -> None:
    plans = one(catalog, zero_stage=1, **SINGLE)
    counts = counts_of(replace(WORKLOAD, global_batch=1024))
    walls = [float(run_at(counts, plans, np.full(1, d), Assumptions()).step.step_s[0]) for d in (8.0, 64.0, 512.0)]
    assert walls[0] > walls[1] > walls[2]
    assert walls[0] / walls[1] < 8.001
    assert walls[1] / walls[2] < 8.001


def test_checkpoints_stall_for_the_copy_or_for_the_write(catalog: Catalog) -> None:
    """405B: 5.68 TB; 2048 machines write 1.2 GB/s each, storage takes 2 TB/s; the copy is 10 GB/s a device."""
    workload = replace(WORKLOAD, model=LLAMA_8B)
    plans = one(catalog, workload, zero_stage=1, **SINGLE)
    size = 14 * LLAMA_8B.total_params
    accelerators, machines = np.full(1, 64.0), np.full(1, 8.0)
    later = estimate_losses(counts_of(workload), plans, accelerators, machines, Assumptions())
    assert float(later.checkpoint_stall_s[0]) == pytest.approx(size / (64 * 10e9) + 1)
    at_once = counts_of(replace(workload, synchronous_checkpoints=True))
    now = estimate_losses(at_once, plans, accelerators, machines, Assumptions())
    assert float(now.checkpoint_stall_s[0]) == pytest.approx(size / (8 * 1.2e9))
    rate = 64 * 4.74e-4 / 86400
    best = math.sqrt(2 * float(now.checkpoint_stall_s[0]) / rate)
    assert float(now.checkpoint_interval_s[0]) == pytest.approx(min(3600.0, max(120.0, best)))


def test_spot_machines_are_taken_back(catalog: Catalog) -> None:
    """The same run on spot capacity is interrupted more, and takes longer, than on demand."""
    sold = Constraints(accelerators=(H100,), pricing_models=("spot",))  # type: ignore[arg-type]
    spot = (
        recommend_hardware(Question(replace(WORKLOAD, units=1e12, global_batch=512), sold), catalog)
        .recommendations[0]
        .estimate
    )
    assert spot.performance is not None
    assert spot.performance.days is not None
    failures = 4.74e-4 * (spot.deployment.accelerators_per_replica or 0) * spot.performance.days
    taken = 0.1 * (spot.deployment.nodes or 0) * spot.performance.days
    assert spot.performance.expected_interruptions == pytest.approx(failures + taken, rel=1e-6)


def test_the_cluster_must_bring_what_the_layout_assumes(catalog: Catalog) -> None:
    found = asked(catalog, replace(WORKLOAD, global_batch=512, units=1e12), accelerators_per_replica=64)
    assert found.performance is not None
    needs = present(found.performance.cluster)
    assert needs.network_bytes_per_s_per_node == pytest.approx(400e9)
    assert needs.checkpoint_capacity_bytes == pytest.approx(3 * 14 * LLAMA_8B.total_params)
    assert needs.host_memory_bytes_per_node > 8 * 16 * GIB
    assert needs.cooling_w == pytest.approx(0.3 * needs.power_w)


def test_a_run_that_may_fit_shows_its_speed(catalog: Catalog) -> None:
    """Just beyond the memory: not recommended, but the speed is there, with the reason."""
    workload = replace(WORKLOAD, phase="fine_tuning", global_batch=16)
    most = present(asked(catalog, workload, maximize="sequence_length", accelerators_per_replica=8).maximum)
    near = asked(catalog, replace(workload, units_per_sequence=most.too_large), accelerators_per_replica=8)
    assert not near.fits
    assert near.performance is not None
    assert "borderline" in near.explanation[0].text
    far = asked(catalog, replace(workload, units_per_sequence=8 * most.too_large), accelerators_per_replica=8)
    assert far.performance is None


def test_an_oversubscribed_network_slows_what_crosses_it(catalog: Catalog) -> None:
    workload = replace(WORKLOAD, global_batch=512, units=1e12)
    layout = Deployment(H100, accelerators_per_replica=256, framework="fsdp", zero_stage=3)
    fast, slow = (
        estimate_deployment(
            Question(workload, assumptions=Assumptions(network_oversubscription=n)), layout, catalog
        ).performance
        for n in (1.0, 8.0)
    )
    assert fast is not None
    assert slow is not None
    assert (slow.step_time_s or 0) > (fast.step_time_s or 0)
