"""Idle machines of many fleets over a day, computed at once: each as if alone, and never more than it has."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from app.sizing.columns import Column, column
from app.sizing.day.idle import MAX_FLEETS_EVERY_MINUTE, fleet_per_minute, idle_shares
from app.sizing.day.scaling import Autoscaler, load_per_minute
from app.sizing.decisions.placement import Fleet
from app.sizing.workload import Redundancy
from tests.sizing.day.test_scaling import AT, DAY, PEAK_PER_S, replay

LOAD = load_per_minute(PEAK_PER_S, DAY)


def fleets(count: int) -> tuple[Autoscaler, Fleet]:
    """Replicas that do one request a second more each, two to a machine."""
    row = np.arange(count, dtype=np.float64)
    capacity: Column = 2.0 + row % 7
    replicas = np.ceil(PEAK_PER_S / capacity / AT.target_utilization)
    nodes = np.ceil(replicas / 2)
    start: Column = 120.0 + 60.0 * (row % 5)
    at = replace(AT, capacity_per_s=capacity, most_replicas=replicas, start_s=start)
    return at, Fleet(replicas, np.zeros(count), nodes, 8 * nodes)


def test_what_idles_is_what_an_exact_replay_does_without() -> None:
    at, peak = fleets(3)
    idle = idle_shares(LOAD, at, Redundancy(), peak, column([4.0] * 3), column([8.0] * 3))
    for row, share in enumerate(idle.tolist()):
        names = ("capacity_per_s", "most_replicas", "start_s")
        alone = replace(AT, **{name: getattr(at, name)[row].item() for name in names})
        machine_hours = replay(DAY, alone).machine_hours
        assert 24 * float(peak.nodes[row]) * (1 - share) == pytest.approx(machine_hours, rel=0.002)


def test_many_fleets_use_fewer_minutes_with_idle_shares_within_one_percent() -> None:
    at, peak = fleets(MAX_FLEETS_EVERY_MINUTE + 1)
    on = np.full(MAX_FLEETS_EVERY_MINUTE + 1, 4.0), np.full(MAX_FLEETS_EVERY_MINUTE + 1, 8.0)
    many = idle_shares(LOAD, at, Redundancy(spare=1), peak, *on)
    at, peak = fleets(35)
    few = idle_shares(LOAD, at, Redundancy(spare=1), peak, *(c[:35] for c in on))
    assert many[:35] == pytest.approx(few, abs=0.01)


def test_a_full_load_stands_on_the_machines_of_the_peak() -> None:
    peak = Fleet(column([8.0]), column([2.0]), column([5.0]), column([40.0]))
    placed, nodes = fleet_per_minute(Redundancy(), peak, column([4.0]), column([8.0]), np.array([1.0, 7.0, 8.0]))
    assert placed.tolist() == [1.0, 7.0, 10.0]
    assert nodes.tolist() == [1.0, 4.0, 5.0]
