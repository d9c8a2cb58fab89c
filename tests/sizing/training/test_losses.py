"""Checkpoints, interruptions and the wall time of a run, worked by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.sizing.assumptions import Assumptions
from app.sizing.training.run import (
    checkpoint_bytes,
    checkpoint_interval_s,
    checkpoint_stall_s,
    checkpoint_write_s,
    expected_interruptions,
    host_fits_memory,
    interruptions_per_s,
    lost_share,
    nodes,
    spot_reclaims_per_day,
    wall_s,
)
from tests.examples import col, row
from tests.sizing.training.counted import COUNTS

ASSUMED = Assumptions()


def test_checkpoints() -> None:
    assert nodes(col(20, 16), col(8, 8)).tolist() == [3, 2]
    assert checkpoint_bytes(10.0) == 10 * (2 + 4 + 8)
    each = replace(ASSUMED, checkpoint_write_gb_per_s_per_machine=2.0, checkpoint_write_gb_per_s_limit=10.0)
    assert checkpoint_write_s(40e9, col(4, 8), each).tolist() == [5, 4]
    pause, copied = ASSUMED.checkpoint_pause_s, 40e9 / (2 * ASSUMED.checkpoint_copy_gb_per_s * 1e9)
    assert checkpoint_stall_s(40e9, col(2), col(100), COUNTS, ASSUMED)[0] == pytest.approx(copied + pause)
    assert checkpoint_stall_s(40e9, col(2), col(0.5), COUNTS, ASSUMED)[0] == pytest.approx(0.5 + pause)
    at_once = replace(COUNTS, synchronous_checkpoints=True)
    assert checkpoint_stall_s(40e9, col(2), col(100), at_once, ASSUMED).tolist() == [100]


def test_checkpoints_come_as_often_as_lost_work_costs() -> None:
    """A stall of 8 s and an interruption in 10,000 s: sqrt(2 * 8 * 10,000) = 400 s."""
    usual = replace(ASSUMED, shortest_checkpoint_interval_s=100.0, longest_checkpoint_interval_s=1000.0)
    rate, written = col(1e-4), col(5)

    def interval(stall: float, write: Any = written, asked: float = 0.0, rate: Any = rate) -> float:
        counts = replace(COUNTS, asked_checkpoint_interval_s=asked)
        return float(checkpoint_interval_s(col(stall), rate, write, counts, usual)[0])

    assert interval(8) == pytest.approx(400)
    assert interval(8, col(700)) == 700
    assert interval(0.08) == 100
    assert interval(800) == 1000
    assert interval(8, asked=30.0) == 30
    assert interval(8, rate=col(0)) == 1000
    # restarts of ten minutes and half of 400 s, each 10,000 s
    assert lost_share(rate, col(400), replace(ASSUMED, restart_minutes=10.0))[0] == pytest.approx(0.08)
    assert lost_share(col(1), col(400), ASSUMED).tolist() == [ASSUMED.most_lost_share]


def test_wall_time() -> None:
    """1e9 tokens in steps of 64,000: 15,625 steps of 2 s; a tenth and a fifth on top, stalls of 4 s in 400."""
    counts = replace(COUNTS, experiment_overhead=0.2)
    found = wall_s(counts, col(64), col(2), col(4), col(400), col(0.5), replace(ASSUMED, validation_overhead=0.1))
    assert found[0] == pytest.approx(15625 * 2 * 1.1 * 1.2 * 1.01 / 0.5)
    assert expected_interruptions(col(0.25), col(400)).tolist() == [100]


def test_interruptions() -> None:
    assumed = replace(ASSUMED, interruptions_per_accelerator_day=0.5, spot_interruptions_per_machine_day=0.1)
    taken = spot_reclaims_per_day(col(4, 4), np.array([True, False]), assumed)
    assert taken.tolist() == [0.4, 0]
    assert interruptions_per_s(col(8, 8), taken, assumed).tolist() == pytest.approx([4.4 / 86400, 4 / 86400])


def test_hosts_hold_what_is_offloaded() -> None:
    share = ASSUMED.host_memory_share
    plans: Any = row(
        offered=row(ram_bytes=col(100, 100, np.nan, np.nan, 100, 100)),
        last_resort=np.array(
            [False, False, False, True, False, False]
        ),  # of more than states no unknown host is taken to hold it
        accelerators_per_node=col(8, 8, 8, 8, 1, 1),
        node=row(memory_bytes=col(80, 80, 80, 80, 100, 100)),
        machine=row(unified_memory=np.array([False] * 4 + [True] * 2)),  # its memory is that of the accelerator
    )
    memory: Any = row(host_bytes=col(100 * share, 101 * share, 1e15, 1e15, 1, 0))
    assert host_fits_memory(plans, memory, ASSUMED).tolist() == [True, False, True, False, False, True]
