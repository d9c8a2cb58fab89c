"""How many replicas, spares and machines a load takes: worked by hand, and held against every loss that is counted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.sizing.decisions.placement import (
    dependable_replicas,
    nodes_per_replica,
    plan_fleet,
    replicas_lost_with_zones,
    replicas_needed,
    replicas_per_node,
    surviving_replicas,
)
from app.sizing.workload import FailureDomain, Load, Redundancy
from tests.examples import CHAT, col

LABELS = ("none", "n+1", "n+2", "2n")


def every(zones: int) -> list[Redundancy]:
    """Every redundancy that a request can have over a number of zones."""
    found = [
        Redundancy.from_label(label, zones=zones, domain=d) for label, d in product(LABELS, ("accelerator", "machine"))
    ]
    return found + [
        Redundancy.from_label(label, zones=zones, domain="zone") for label in LABELS if zones > int_of(label)
    ]


def int_of(label: str) -> int:
    return {"none": 0, "n+1": 1, "n+2": 2, "2n": 1}[label]


Host = tuple[int, int]  # its zone, the replicas on it


def evenly(placed: int, hosts: int, zones: int) -> list[Host]:
    """Hosts in turn over zones, replicas in turn over hosts."""
    each, odd = divmod(placed, hosts)
    return [(host % zones, each + (host < odd)) for host in range(hosts)]


def losses(hosts: list[Host], redundancy: Redundancy) -> Iterator[int]:
    """The remaining replicas after each loss that the redundancy covers."""
    total, k = sum(held for _, held in hosts), redundancy.domains_lost
    yield total - (k if redundancy.domain is FailureDomain.ACCELERATOR else 0)
    if redundancy.domain is FailureDomain.MACHINE:
        yield from (total - sum(held for _, held in gone) for gone in combinations(hosts, min(k, len(hosts))))
    lost = k if redundancy.domain is FailureDomain.ZONE else min(k, redundancy.zones - 1, 1)
    for gone_zones in combinations({zone for zone, _ in hosts}, lost):
        yield sum(held for zone, held in hosts if zone not in gone_zones)


def split(hosts: int, zones: int) -> Iterator[tuple[int, ...]]:
    """Every way to put hosts into zones, one in each at least."""
    if zones == 1:
        yield (hosts,)
        return
    for first in range(1, hosts - zones + 2):
        yield from ((first, *rest) for rest in split(hosts - first, zones - 1))


def would_do(hosts: int, per_host: int, needed: int, redundancy: Redundancy) -> bool:
    """Whether a number of full hosts, placed in any way, survives every loss."""
    if redundancy.double and hosts * per_host < 2 * needed:
        return False
    return any(
        min(losses([(z, per_host) for z, many in enumerate(way) for _ in range(many)], redundancy)) >= needed
        for way in split(hosts, redundancy.zones)
    )


@pytest.mark.parametrize("zones", [1, 2, 3, 4])
@pytest.mark.parametrize("per_host", [1, 2, 4])
def test_whatever_is_lost_leaves_what_was_promised_on_the_fewest_machines(zones: int, per_host: int) -> None:
    for redundancy, needed in product(every(zones), range(1, 12)):
        found = plan_fleet(redundancy, col(1), col(per_host), col(needed))
        hosts, spares = int(found.nodes[0]), int(found.spare_replicas[0])
        placed = evenly(needed + spares, hosts, zones)
        case = (redundancy, needed, hosts, spares)
        assert all(1 <= held <= per_host for _, held in placed), case
        assert len({zone for zone, _ in placed}) == zones, case
        assert min(losses(placed, redundancy)) >= needed, case
        assert needed + spares >= (2 * needed if redundancy.double else 0), case
        assert would_do(hosts, per_host, needed, redundancy), case
        assert hosts == zones or not would_do(hosts - 1, per_host, needed, redundancy), case
        # the stated number of remaining replicas remains, and given machines count for that number
        left = surviving_replicas(redundancy, col(needed + spares), col(hosts))[0]
        assert needed <= left <= min(losses(placed, redundancy)), case
        assert dependable_replicas(redundancy, col(hosts * per_host), col(hosts))[0] >= needed, case


def test_a_loss_beyond_what_was_placed_for_would_be_noticed() -> None:
    four = evenly(9, 4, 2)
    assert four == [(0, 3), (1, 2), (0, 2), (1, 2)]
    assert min(losses(four, Redundancy(spare=1))) == 6
    assert min(losses(four, Redundancy(spare=1, zones=2))) == 4
    assert min(losses(four, Redundancy(spare=2, domain=FailureDomain.ACCELERATOR))) == 7
    assert not would_do(2, 4, 4, Redundancy(spare=2))


@given(st.integers(1, 10_000), st.integers(1, 16), st.integers(1, 8), st.sampled_from(FailureDomain))
def test_more_redundancy_or_load_never_takes_less(
    needed: int, per_host: int, zones: int, domain: FailureDomain
) -> None:
    def hosts(label: str, n: float = needed, of: FailureDomain = domain) -> float:
        spare = 0 if label == "2n" else int_of(label)
        redundancy = Redundancy(spare=spare, double=label == "2n", zones=zones, domain=of)
        return float(plan_fleet(redundancy, col(1), col(per_host), col(n)).nodes[0])

    few = domain is FailureDomain.ZONE and zones <= 2
    labels = LABELS[: max(1, zones)] if few else LABELS
    taken = [hosts(label) for label in labels if label != "2n"]
    assert taken == sorted(taken)
    if "2n" in labels and not few:
        assert hosts("2n") >= hosts("n+1")
    for label in labels:
        assert hosts(label, needed + 1) >= hosts(label)
        if domain is not FailureDomain.ZONE:
            assert hosts(label, of=FailureDomain.MACHINE) >= hosts(label, of=FailureDomain.ACCELERATOR)
    if zones > 2:
        assert hosts("n+2", of=FailureDomain.ZONE) >= hosts("n+2", of=FailureDomain.MACHINE)


def test_replicas_carry_what_each_is_planned_for() -> None:
    # 5 requests a second
    assert replicas_needed(CHAT, col(5 / 3, 100), col(8, 8)).tolist() == [3, 1]
    busy = replace(CHAT, peak_per_s=10.0)
    assert replicas_needed(busy, col(3.64, 10, 9.9), col(8, 8, 8)).tolist() == [3, 1, 2]
    assert replicas_needed(busy, col(0), col(8))[0] > 1e12
    assert replicas_needed(replace(CHAT, peak_per_s=0.0), col(5.2), col(8)).tolist() == [1]


def test_requests_in_flight_take_whole_batches() -> None:
    for load in (Load.CLOSED, Load.BATCH):
        running = replace(CHAT, load=load, in_flight=64.0)
        assert replicas_needed(running, col(1, 1, 1, 1), col(8, 9.9, 0.5, 100)).tolist() == [8, 8, 64, 1]
    assert replicas_needed(replace(CHAT, load=Load.CLOSED, in_flight=0.0), col(1), col(8)).tolist() == [1]


ACCELERATOR, ZONE = FailureDomain.ACCELERATOR, FailureDomain.ZONE


@pytest.mark.parametrize(
    ("redundancy", "single", "shared"),
    [
        # three replicas with a machine each; then in machines that hold four: (spares, machines)
        (Redundancy(), (0, 3), (0, 1)),
        (Redundancy(spare=1), (1, 4), (3, 2)),  # three on each of two: either may go
        (Redundancy(spare=2), (2, 5), (6, 3)),
        (Redundancy(double=True), (3, 6), (3, 2)),
        (Redundancy(spare=1, domain=ACCELERATOR), (1, 4), (1, 1)),  # an accelerator takes one replica
        (Redundancy(spare=2, domain=ACCELERATOR), (2, 5), (2, 2)),
        (Redundancy(spare=1, zones=2), (3, 6), (3, 2)),  # three in each of two zones
        (Redundancy(spare=1, zones=3), (2, 5), (2, 3)),  # 2, 2 and 1 machines: any two zones hold three
        (Redundancy(spare=1, zones=4), (1, 4), (1, 4)),  # one in each
        (Redundancy(spare=2, zones=2), (3, 6), (6, 3)),  # any two machines, or any one zone
        (Redundancy(double=True, zones=3), (3, 6), (3, 3)),
        (Redundancy(spare=1, zones=2, domain=ACCELERATOR), (3, 6), (3, 2)),
        (Redundancy(spare=2, zones=3, domain=ZONE), (6, 9), (6, 3)),  # one zone alone carries all three
        (Redundancy(spare=1, zones=3, domain=ZONE), (2, 5), (2, 3)),
        (Redundancy(zones=3), (0, 3), (0, 3)),  # spread, and nothing promised
        (Redundancy(zones=5), (2, 5), (2, 5)),  # a machine in each zone, and a replica on each
    ],
)
def test_spares_and_machines_worked_by_hand(
    redundancy: Redundancy, single: tuple[int, int], shared: tuple[int, int]
) -> None:
    found = plan_fleet(redundancy, col(8, 2), col(8, 8), col(3, 3))
    assert found.spare_replicas.tolist() == [single[0], shared[0]]
    assert found.nodes.tolist() == [single[1], shared[1]]


def test_replicas_are_packed_into_machines_or_span_them() -> None:
    assert nodes_per_replica(col(1, 8, 9, 32), col(8, 8, 8, 8)).tolist() == [1, 1, 2, 4]
    assert replicas_per_node(col(1, 3, 8, 16), col(8, 8, 8, 8)).tolist() == [8, 2, 1, 1]
    # 5 of 2 accelerators: three to a machine and a machine more; 2 of 16: two machines each, and two for the spare;
    # 3 of 8 fill their own; 4 of 3: two to a machine
    found = plan_fleet(Redundancy(spare=1), col(2, 16, 8, 3), col(8, 8, 8, 8), col(5, 2, 3, 4))
    assert found.replicas.tolist() == [5, 2, 3, 4]
    assert found.spare_replicas.tolist() == [3, 1, 1, 2]
    assert found.nodes.tolist() == [3, 6, 4, 3]
    assert found.accelerators.tolist() == [24, 48, 32, 24]
    # across machines, in three zones: a host of two machines in each
    assert plan_fleet(Redundancy(spare=1, zones=3), col(16), col(8), col(1)).nodes.tolist() == [6]


def test_what_a_caller_fixed_is_taken_as_it_is() -> None:
    def nodes(redundancy: Redundancy, **fixed: float) -> tuple[list[float], list[float]]:
        given = {name: col(value) for name, value in fixed.items()}
        found = plan_fleet(redundancy, col(2), col(8), col(3), **given)
        return found.spare_replicas.tolist(), found.nodes.tolist()

    safe = Redundancy(spare=1)
    assert nodes(safe, spares=1) == ([1], [2])  # as far apart as was asked
    assert nodes(safe, spares=0) == ([0], [2])
    assert nodes(safe, spares=9) == ([9], [3])  # and no more to a machine than it holds
    assert nodes(safe, machines=3) == ([2], [3])  # two on each of three
    assert nodes(safe, machines=1) == ([1], [1])  # no room for what would survive
    assert nodes(safe, spares=0, machines=1) == ([0], [1])
    assert nodes(Redundancy(), machines=4) == ([0], [4])
    assert nodes(Redundancy(zones=3), spares=0) == ([0], [3])
    assert nodes(Redundancy(zones=4), spares=0) == ([0], [3])  # no machine stands empty


def test_given_machines_are_counted_for_what_is_left_of_them() -> None:
    def held(redundancy: Redundancy, placed: float, hosts: float) -> float:
        return float(dependable_replicas(redundancy, col(placed), col(hosts))[0])

    assert held(Redundancy(), 8, 2) == 8
    assert held(Redundancy(spare=1), 8, 2) == 4
    assert held(Redundancy(spare=1, domain=ACCELERATOR), 8, 2) == 7
    assert held(Redundancy(spare=1, zones=2), 12, 3) == 4  # two machines in one of the zones
    assert held(Redundancy(double=True), 12, 3) == 6
    assert held(Redundancy(spare=1), 4, 1) == 4  # nothing would be left: nothing is promised, all of it counts


def test_zones_take_their_hosts_and_their_share_of_the_odd_replicas() -> None:
    assert replicas_lost_with_zones(col(9, 10, 3), col(4, 5, 1), 2, 1).tolist() == [5, 6, 3]
