"""Work in a single pass, worked by hand: memory, the largest batch, and latencies under load."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.sizing.assumptions import Assumptions
from app.sizing.columns import column_names
from app.sizing.model.sample import SampleWork
from app.sizing.serving.host import HostWork
from app.sizing.serving.measured import Memory, OperatingPoint, Settings
from app.sizing.serving.plans import Plans
from app.sizing.serving.single_pass import (
    BatchSpeed,
    batch_memory,
    single_pass_operating_point,
    single_pass_speed,
    unloaded_single_pass,
)
from app.sizing.units import GIB
from app.sizing.workload import Load, Slo
from tests.examples import col
from tests.sizing.serving.given import on_big, varied
from tests.sizing.small import ACCELERATORS, BIG, snapshot

ASSUMED = Assumptions()
READY_MADE = ASSUMED.with_overrides({"host_work_share": 0.0})
# Four passes of 2 TFLOP over 30 layers that move 4 GB, and half a TFLOP once.
PICTURE = SampleWork(flops=2e12, passes=4.0, extra_flops=0.5e12, moved_bytes=4e9, live_bytes=1e9, layers=30)


def plans(**columns: float) -> Plans:
    """One device: 3 GB of weights, of which 2 are read in every pass."""
    known = {"weights_bytes": 3e9, "streamed_bytes": 2e9} | columns
    return replace(on_big(), **{name: col(value) for name, value in known.items()})  # type: ignore[arg-type]


def test_a_batch_takes_what_weights_and_runtime_leave() -> None:
    found = batch_memory(PICTURE, plans(), ASSUMED, Settings())
    assert found.weights_bytes[0] == pytest.approx(3e9 * 1.005)
    assert found.activation_bytes[0] == pytest.approx(1.5e9)
    assert found.overhead_bytes[0] == pytest.approx(0.6 * GIB)
    assert found.capacity_bytes[0] == 80 * GIB
    assert found.usable_bytes[0] == pytest.approx(0.92 * 80 * GIB)
    assert found.needed_bytes[0] == pytest.approx(3e9 * 1.005 + 1.5e9 + 0.6 * GIB)
    assert found.sequences.tolist() == [np.floor((0.92 * 80 * GIB - 3e9 * 1.005 - 0.6 * GIB) / 1.5e9)]
    assert batch_memory(PICTURE, plans(), ASSUMED, Settings(max_sequences=col(7))).sequences.tolist() == [7]
    assert batch_memory(PICTURE, plans(), ASSUMED, Settings(max_sequences=col(7e9))).sequences[0] == found.sequences[0]
    half = batch_memory(PICTURE, plans(), ASSUMED, Settings(memory_fraction=col(0.5)))
    assert (half.usable_bytes[0], half.memory_fraction[0]) == (0.5 * 80 * GIB, 0.5)
    none = batch_memory(replace(PICTURE, live_bytes=0.0), plans(), ASSUMED, Settings())
    assert none.sequences.tolist() == [256]
    assert batch_memory(replace(PICTURE, live_bytes=1e6), plans(), ASSUMED, Settings()).sequences.tolist() == [256]
    assert batch_memory(replace(PICTURE, live_bytes=1e12), plans(), ASSUMED, Settings()).sequences.tolist() == [1]


def test_a_tiny_or_shared_device_gives_less() -> None:
    tiny = on_big(of=snapshot(accelerators=[replace(BIG, memory_bytes=4 * GIB), *ACCELERATORS[1:]]))
    assert batch_memory(PICTURE, tiny, ASSUMED, Settings()).overhead_bytes[0] == pytest.approx(0.12 * 4 * GIB)
    shared = on_big(of=snapshot(accelerators=[replace(BIG, memory_is_shared=True), *ACCELERATORS[1:]]))
    assert batch_memory(PICTURE, shared, ASSUMED, Settings()).memory_fraction.tolist() == [0.75]


def memory(sequences: float) -> Memory:
    columns: dict[str, Any] = dict.fromkeys(column_names(Memory), np.zeros(1))
    return Memory(**columns | {"sequences": col(sequences)})


# A batch of b takes 20 ms and 5 ms for each sample.
FLAT = SampleWork(flops=0.005 * 1e15 * 0.8 * 0.9, layers=4)


NO_HOST = HostWork.without_host_work(1)


def judged(
    load: Load, *, e2e_s: float | None = None, most: float = 64, host: HostWork = NO_HOST, **changed: Any
) -> tuple[BatchSpeed, OperatingPoint]:
    workload = varied(load=load, slo=Slo(None, None, e2e_s, 95), **changed)
    table = plans(weights_bytes=0.0, streamed_bytes=0.0)
    alone = unloaded_single_pass(workload, table, FLAT, READY_MADE)
    speed = single_pass_speed(workload, memory(most), alone)
    terms = replace(speed.terms, launch_s=col(0.0), request_s=col(0.020), host_work=host)
    speed = replace(speed, unloaded=replace(speed.unloaded, terms=terms))
    return speed, single_pass_operating_point(workload, memory(most), speed, col(2))


OVERHEAD = 4 * 10e-6 / 2 + 300e-6  # launches and one step, of the batch as it is judged


@pytest.mark.parametrize(
    ("load", "e2e_s", "batch"),
    [
        (Load.OPEN, None, 64),
        (Load.OPEN, 0.2, 19),  # two batches of 19 * 5 ms and overhead fit; of 20 they do not
        (Load.CLOSED, 0.2, 19),
        (Load.OPEN, 0.001, 1),
        (Load.OFFLINE, 0.2, 64),
        (Load.BATCH, 0.2, 64),
    ],
)
def test_the_largest_batch_two_of_which_fit_into_the_limit(load: Load, e2e_s: float | None, batch: float) -> None:
    found, _ = judged(load, e2e_s=e2e_s)
    assert found.slo_batch.tolist() == [batch]
    assert found.capacity_per_s[0] == pytest.approx(batch / (batch * 0.005 + OVERHEAD))
    assert found.saturation_per_s[0] == pytest.approx(64 / (64 * 0.005 + OVERHEAD))
    assert found.unloaded.fastest_e2e_s[0] == pytest.approx((0.005 + OVERHEAD) * (2 if load is Load.OPEN else 1))
    assert found.unloaded.e2e_limit_s[0] == (np.inf if e2e_s is None else e2e_s)


def test_a_rate_fills_batches_of_its_own() -> None:
    """100 a second each: b = 100 (20 ms + 5 ms b) at b = 4."""
    speed, found = judged(Load.OPEN, peak_per_s=200.0)
    assert found.rate_per_s.tolist() == [100]
    assert found.batch[0] == pytest.approx(4, rel=1e-3)
    assert found.utilization[0] == pytest.approx(100 / speed.capacity_per_s[0])
    busy = 100 / speed.saturation_per_s[0]
    assert found.e2e_p50_s[0] == pytest.approx((0.020 + 4 * 0.005) * (1 + 0.5 * busy), rel=1e-3)
    crowd = 4 + 1.6448536 * 2
    assert found.e2e_p95_s[0] == pytest.approx((0.020 + crowd * 0.005) * (1 + 0.95 * busy), rel=1e-3)
    bursty = judged(Load.OPEN, peak_per_s=200.0, burstiness=2.0)[1]
    assert bursty.e2e_p95_s[0] == pytest.approx((0.020 + (4 + 1.6448536 * 4) * 0.005) * (1 + 0.95 * busy), rel=1e-3)
    full = judged(Load.OPEN, peak_per_s=200.0, most=5)[1]
    assert full.e2e_p99_s[0] < (0.020 + 5 * 0.005) * 2
    late = judged(Load.OPEN, peak_per_s=1000.0)[1]
    assert np.isinf(late.e2e_p50_s[0])
    idle = judged(Load.OPEN, peak_per_s=0.2)[1]
    assert idle.batch.tolist() == [1]
    assert idle.e2e_p50_s[0] == pytest.approx(0.025, rel=1e-2)


@pytest.mark.parametrize(("in_flight", "batch", "wanted"), [(9.0, 5, 5), (200.0, 64, 100), (0.0, 64, 64), (1.0, 1, 1)])
def test_what_is_in_flight_runs_as_one_batch(in_flight: float, batch: float, wanted: float) -> None:
    _, found = judged(Load.CLOSED, in_flight=in_flight)
    assert found.batch.tolist() == [batch]
    assert found.rate_per_s[0] == pytest.approx(batch / (0.020 + batch * 0.005))
    assert found.e2e_p50_s[0] == found.e2e_p99_s[0] == pytest.approx(0.020 + batch * 0.005)
    assert found.utilization[0] == pytest.approx(wanted / 64)


def hosted(host_s: float, cores: float, *, in_turn: bool = False) -> HostWork:
    return HostWork(col(host_s), col(cores), col(0.0), np.array([in_turn]))


def test_batches_follow_one_another_as_fast_as_the_host_makes_them_ready() -> None:
    """12 of 20 ms + 5 ms each take 80 ms; a host of two cores needs 120 ms for them."""
    _, found = judged(Load.CLOSED, in_flight=24.0, host=hosted(0.020, 2.0))
    assert found.batch.tolist() == [12]
    assert found.rate_per_s[0] == pytest.approx(12 / (0.020 + 0.120))  # who waits for an answer sends no more
    assert found.e2e_p50_s[0] == pytest.approx(0.020 + 0.120)
    _, quick = judged(Load.CLOSED, in_flight=24.0, host=hosted(0.002, 2.0))
    assert quick.e2e_p50_s[0] == pytest.approx(0.002 + 0.080)
    _, on_it = judged(Load.CLOSED, in_flight=24.0, host=hosted(0.002, 2.0, in_turn=True))
    assert on_it.e2e_p50_s[0] == pytest.approx(0.002 + 0.080 + 0.012)


def test_a_request_is_made_ready_before_it_waits() -> None:
    workload, table = varied(load=Load.OPEN, slo=Slo(None, None, 0.2, 95)), plans()
    slow = replace(ASSUMED, server_request_ms=20.0)
    alone = [unloaded_single_pass(workload, table, FLAT, of).fastest_e2e_s[0] for of in (READY_MADE, slow)]
    reading = 800 / 6e5 if workload.model.kind == "encoder" else 0.0
    assert alone[1] == pytest.approx(alone[0] + reading + 0.020)
