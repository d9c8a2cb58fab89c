"""A whole run: its wall time, what it loses, and what the cluster must bring."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from app.sizing.assumptions import Assumptions
from app.sizing.estimate import estimate_deployment
from app.sizing.question import Constraints, Deployment, Question
from app.sizing.recommend import recommend_hardware
from app.sizing.snapshot import Catalog
from app.sizing.training.counts import counts_of
from app.sizing.training.run import estimate_losses, run_at
from app.sizing.units import GIB
from tests.examples import LLAMA_8B
from tests.sizing.training.layouts import H100, SINGLE, WORKLOAD, asked, one


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
    needs = found.performance.cluster
    assert needs is not None
    assert needs.network_bytes_per_s_per_node == pytest.approx(400e9)
    assert needs.checkpoint_capacity_bytes == pytest.approx(3 * 14 * LLAMA_8B.total_params)
    assert needs.host_memory_bytes_per_node > 8 * 16 * GIB
    assert needs.cooling_w == pytest.approx(0.3 * needs.power_w)


def test_a_run_that_may_fit_shows_its_speed(catalog: Catalog) -> None:
    """Just beyond the memory: not recommended, but the speed is there, with the reason."""
    workload = replace(WORKLOAD, phase="fine_tuning", global_batch=16)
    most = asked(catalog, workload, maximize="sequence_length", accelerators_per_replica=8).maximum
    assert most is not None
    near = asked(catalog, replace(workload, units_per_sequence=most.too_large), accelerators_per_replica=8)
    assert not near.fits
    assert near.performance is not None
    assert "may still fit" in near.explanation[0].text
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
