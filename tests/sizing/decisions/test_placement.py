"""How many replicas, spares and machines a load takes, worked by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.sizing.decisions.placement import fleet, nodes_per_replica, replicas_needed, replicas_per_node, spare_replicas
from app.sizing.workload import Load, Redundancy
from tests.examples import CHAT, col


def test_replicas_carry_the_target_share() -> None:
    # 5 requests a second; each may carry 0.7 of its capacity
    assert replicas_needed(CHAT, col(5 / 0.7 / 3, 100), col(8, 8)).tolist() == [3, 1]
    busy = replace(CHAT, peak_per_s=10.0)
    assert replicas_needed(busy, col(5.2, 10 / 0.7, 10 / 0.71), col(8, 8, 8)).tolist() == [3, 1, 2]
    assert replicas_needed(busy, col(0), col(8))[0] > 1e12
    assert replicas_needed(replace(CHAT, peak_per_s=0.0), col(5.2), col(8)).tolist() == [1]


def test_requests_in_flight_take_whole_batches() -> None:
    for load in (Load.CLOSED, Load.BATCH):
        running = replace(CHAT, load=load, in_flight=64.0)
        assert replicas_needed(running, col(1, 1, 1, 1), col(8, 9.9, 0.5, 100)).tolist() == [8, 8, 64, 1]
    assert replicas_needed(replace(CHAT, load=Load.CLOSED, in_flight=0.0), col(1), col(8)).tolist() == [1]
    assert replicas_needed(replace(CHAT, load=Load.OFFLINE), col(0.1, 7), col(8, 9)).tolist() == [1, 1]


@pytest.mark.parametrize(
    ("redundancy", "spare"),
    [
        (Redundancy(), 0),
        (Redundancy(spare=1), 1),
        (Redundancy(spare=2), 2),
        (Redundancy(double=True), 3),
        (Redundancy(spare=1, zones=2), 3),  # three in each of two zones
        (Redundancy(spare=1, zones=3), 3),  # two in each of three: any two zones hold four
        (Redundancy(spare=1, zones=4), 1),  # one in each
        (Redundancy(spare=2, zones=2), 2),  # as many zones as may be lost: replicas are the domain
        (Redundancy(spare=2, zones=3), 6),  # one zone alone carries all three
        (Redundancy(spare=0, zones=3), 0),
        (Redundancy(spare=0, zones=1), 0),
    ],
)
def test_spares_survive_the_loss_of_a_domain(redundancy: Redundancy, spare: int) -> None:
    assert spare_replicas(redundancy, col(3))[0] == spare


def test_replicas_are_packed_into_machines_or_span_them() -> None:
    assert nodes_per_replica(col(1, 8, 9, 32), col(8, 8, 8, 8)).tolist() == [1, 1, 2, 4]
    assert replicas_per_node(col(1, 3, 8, 16), col(8, 8, 8, 8)).tolist() == [8, 2, 1, 1]
    # 5 and a spare of 2 accelerators: 4 to a machine; 2 and a spare of 16: 2 machines each; 3 of 8 fill their own
    found = fleet(col(2, 16, 8, 3), col(8, 8, 8, 8), col(5, 2, 3, 4), col(1, 1, 0, 1))
    assert found.replicas.tolist() == [5, 2, 3, 4]
    assert found.spare_replicas.tolist() == [1, 1, 0, 1]
    assert found.nodes.tolist() == [2, 6, 3, 3]
    assert found.accelerators.tolist() == [16, 48, 24, 24]
