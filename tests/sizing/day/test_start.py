"""What a fresh replica waits for, against a simulation of machines that share a registry and a store."""

from __future__ import annotations

import math
import random
from dataclasses import fields, replace

import numpy as np
import pytest

from app.sizing.assumptions import Assumptions
from app.sizing.day.start import (
    StartProfile,
    image_bytes,
    restart_s,
    start_phases_s,
    start_time_s,
    start_times_s,
    supply_per_s,
)

RENTED = StartProfile(
    machine_kept=False,
    image_bytes=12e9,
    stored_bytes=140e9,
    device_bytes=35e9,
    nodes_per_replica=1.0,
    replicas_per_node=2.0,
    network_bytes_per_s=12.5e9,
    slot_bytes_per_s=50e9,
)
ASSUMED = Assumptions()


def simulated_starts_s(starting: StartProfile, replicas: int, spread: float, seed: int = 7) -> list[float]:
    """Ready times of the machines, second by second; all machines that download share the bandwidth evenly."""
    draw, step = random.Random(seed), 0.25
    machines = math.ceil(replicas / starting.replicas_per_node) * int(starting.nodes_per_replica)
    boots = [ASSUMED.machine_start_s * draw.uniform(1 - spread, 1 + spread) for _ in range(machines)]
    image, weights = (
        [float(starting.image_bytes)] * machines,
        [float(starting.stored_bytes / starting.nodes_per_replica)] * machines,
    )
    copied = float(starting.device_bytes / (starting.slot_bytes_per_s * ASSUMED.host_link_fraction))
    after = copied + ASSUMED.engine_start_s
    ready = [0.0] * machines
    now = 0.0
    while not all(ready):
        up = [m for m in range(machines) if boots[m] <= now]
        pulling = [m for m in up if image[m] > 0]
        reading = [m for m in up if image[m] <= 0 < weights[m]]
        for left, who, own, shared in (
            (image, pulling, ASSUMED.image_pull_gb_per_s, ASSUMED.registry_gb_per_s),
            (weights, reading, ASSUMED.model_load_gb_per_s, ASSUMED.weight_store_gb_per_s),
        ):
            for m in who:
                left[m] -= step * min(own * 1e9, float(starting.network_bytes_per_s), shared * 1e9 / len(who))
        now += step
        for m in reading:
            if weights[m] <= 0:
                ready[m] = now + after * draw.uniform(1 - spread, 1 + spread)
    return ready


@pytest.mark.parametrize("replicas", [1, 10, 40, 200])
@pytest.mark.parametrize("spread", [0.0, 0.1])
def test_a_start_from_nothing_is_within_a_tenth_of_a_simulated_one(replicas: int, spread: float) -> None:
    """Until the last of them answers."""
    ready = simulated_starts_s(RENTED, replicas, spread)
    assert start_time_s(RENTED, float(replicas), ASSUMED) == pytest.approx(max(ready), rel=0.1)


def test_parts_by_hand() -> None:
    """Ten replicas are five machines: 12.5 GB/s over five of them are 2.5, more than a machine reads."""
    parts = start_phases_s(RENTED, 10.0, ASSUMED)
    assert parts == pytest.approx(
        {"machine": 120.0, "image": 60.0, "weights_read": 70.0, "weights_to_device": 1.0, "engine_start": 45.0}
    )
    assert start_time_s(RENTED, 10.0, ASSUMED) == pytest.approx(296.0)
    assert start_phases_s(RENTED, 20.0, ASSUMED)["weights_read"] == pytest.approx(140 / 1.25)
    assert restart_s(RENTED, ASSUMED) == pytest.approx(116.0)


def test_machines_that_stand_have_image_and_weights_on_their_disk() -> None:
    owned = replace(RENTED, machine_kept=True)
    assert start_phases_s(owned, 1000.0, ASSUMED) == start_phases_s(owned, 1.0, ASSUMED)
    assert start_phases_s(owned, 1.0, ASSUMED)["machine"] == start_phases_s(owned, 1.0, ASSUMED)["image"] == 0.0
    assert math.isinf(supply_per_s(owned, ASSUMED))


def test_a_replica_over_several_machines_reads_its_share_on_each() -> None:
    wide = replace(RENTED, nodes_per_replica=2.0, replicas_per_node=1.0)
    assert start_phases_s(wide, 1.0, ASSUMED)["weights_read"] == pytest.approx(35.0)
    assert supply_per_s(wide, ASSUMED) == pytest.approx(12.5 / 140)


def test_what_starts_at_once_shares_the_network_the_registry_and_the_store() -> None:
    slow = replace(RENTED, network_bytes_per_s=0.1e9)
    assert start_phases_s(slow, 1.0, ASSUMED)["image"] == pytest.approx(120.0)
    starts = [start_time_s(RENTED, float(count), ASSUMED) for count in (1, 2, 4, 8, 16, 32, 64)]
    assert starts == sorted(starts)
    assert supply_per_s(RENTED, ASSUMED) == pytest.approx(2 * 12.5 / 140)


def test_an_image_is_as_large_as_its_engine_s() -> None:
    small, large = np.array([False, False, True]), np.array([False, True, False])
    assert image_bytes(small, large, ASSUMED).tolist() == pytest.approx([12e9, 16.2e9, 2.5e9])


def test_many_deployments_start_as_each_of_them_does() -> None:
    each = [RENTED, replace(RENTED, machine_kept=True), replace(RENTED, stored_bytes=20e9, nodes_per_replica=2.0)]
    rows = StartProfile(**{f.name: np.array([getattr(s, f.name) for s in each]) for f in fields(StartProfile)})
    assert start_times_s(rows, 10.0, ASSUMED).tolist() == [start_time_s(s, 10.0, ASSUMED) for s in each]
    assert supply_per_s(rows, ASSUMED).tolist() == [float(supply_per_s(s, ASSUMED)) for s in each]
