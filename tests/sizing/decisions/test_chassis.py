"""The parts of a machine without a quote, computed by hand, and properties of every machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Columns, column_names
from app.sizing.decisions.chassis import Parts, estimate_parts, machine_parts_usd, more_memory_usd
from app.sizing.decisions.ownership import rated_power_w
from app.sizing.hardware.parts import SOCKET, WHOLE_MACHINE, Accelerator, Segment
from app.sizing.hardware.tables import AcceleratorColumns, Machines
from app.sizing.units import GIB
from tests.examples import col
from tests.sizing.small import BIG, CARD, DESK


def varied(of: Accelerator, **changes: Any) -> Accelerator:
    return Accelerator(**{name: getattr(of, name) for name in Accelerator.__dataclass_fields__} | changes)


HOT = varied(DESK, slug="hot", power_w=575.0, segment=Segment.CONSUMER)
CHIP = varied(DESK, slug="chip", kind=WHOLE_MACHINE, power_w=60.0, memory_is_shared=True)
CPU = varied(CARD, slug="cpu", kind=SOCKET, memory_bytes=None)
TYPES = (BIG, CARD, DESK, HOT, CHIP, CPU)
KINDS = AcceleratorColumns.from_accelerators(TYPES)


def machine(accelerator: Accelerator, count: float, *, workstation: bool = False, power_w: float = np.nan) -> Machines:
    """A number of accelerators of one type in one machine."""
    table: dict[str, Any] = {name: col(np.nan) for name in column_names(Machines)}
    memory = np.nan if accelerator.memory_bytes is None else accelerator.memory_bytes
    return Machines(
        **table
        | {
            "accelerator": np.array([TYPES.index(accelerator)]),
            "accelerators_per_node": col(count),
            "share": col(1.0),
            "memory_bytes": col(memory),
            "power_w": col(power_w),
            "workstation": np.array([workstation]),
        }
    )


def parts(of: Machines, ram_bytes: float = np.nan, assumed: Assumptions | None = None) -> Parts:
    return estimate_parts(of, KINDS, col(ram_bytes), assumed or Assumptions())


def row(table: Columns) -> list[float]:
    return [float(getattr(table, name)[0]) for name in column_names(type(table))]


@pytest.mark.parametrize(
    ("of", "ram_bytes", "found"),
    [
        # cards; chassis; eight cores each at 40 or 120 USD; memory and its price per GiB
        (machine(DESK, 1, workstation=True), np.nan, [7_000, 1_000, 320, 48 * GIB, 10]),
        (machine(DESK, 2, workstation=True), 128 * GIB, [14_000, 2_000, 640, 128 * GIB, 10]),
        (machine(DESK, 4, workstation=True), np.nan, [28_000, 6_000, 1_280, 192 * GIB, 10]),
        (machine(DESK, 8, workstation=True), np.nan, [56_000, 14_000, 7_680, 384 * GIB, 27]),
        (machine(HOT, 2, workstation=True), np.nan, [14_000, 2_000, 640, 96 * GIB, 10]),
        (machine(HOT, 4, workstation=True), np.nan, [28_000, 15_600, 1_280, 192 * GIB, 10]),  # they do not stand close
        (machine(HOT, 8, workstation=True), np.nan, [56_000, 36_400, 7_680, 384 * GIB, 27]),
        (machine(CARD, 1), np.nan, [3_000, 6_000, 960, 24 * GIB, 27]),
        (machine(BIG, 8), 2_048 * GIB, [240_000, 14_000, 7_680, 2_048 * GIB, 27]),
        (machine(BIG, 16), np.nan, [480_000, 28_000, 15_360, 1_280 * GIB, 27]),
        (machine(CPU, 2), 512 * GIB, [6_000, 6_000, 0, 512 * GIB, 27]),  # only processors are bought
        (machine(CHIP, 1, workstation=True), 64 * GIB, [7_000, 0, 0, 64 * GIB, 0]),  # sold with everything around it
    ],
)
def test_a_machine_is_put_together_from_what_it_needs(of: Machines, ram_bytes: float, found: list[float]) -> None:
    assert row(parts(of, ram_bytes)) == pytest.approx(found)
    cards, chassis, processors, memory, per_gib = found
    assert machine_parts_usd(parts(of, ram_bytes)).tolist() == pytest.approx(
        [cards + chassis + processors + memory / GIB * per_gib]
    )


def test_a_plan_pays_for_the_memory_it_needs_beyond_what_is_in_the_price() -> None:
    found = parts(machine(CARD, 4))  # 96 GiB
    needed = col(90 * GIB, 196 * GIB)
    assert more_memory_usd(needed, found.memory_bytes, found.memory_usd_per_gib).tolist() == pytest.approx([0, 2700])


PRICES = {
    name: st.floats(*Assumptions.allowed_range(name))
    for name in ("hot_chassis_factor", "air_cooled_card_w", "cores_per_accelerator", "host_memory_ratio")
}


@given(
    st.sampled_from(TYPES),
    st.integers(1, 71),
    st.booleans(),
    st.fixed_dictionaries(PRICES),
    st.floats(0.0, 30_000.0) | st.just(np.nan),
)
def test_more_cards_never_cost_less_and_a_machine_never_less_than_its_cards(
    accelerator: Accelerator, count: int, workstation: bool, chosen: dict[str, float], power_w: float
) -> None:
    assumed = Assumptions(**chosen)
    one, more = (machine(accelerator, n, workstation=workstation, power_w=power_w) for n in (count, count + 1))
    usd, usd_more = (float(machine_parts_usd(parts(m, assumed=assumed))[0]) for m in (one, more))
    assert usd_more > usd >= float(parts(one, assumed=assumed).accelerators_usd[0])
    # nor is its power below theirs
    rated = rated_power_w(one, KINDS, assumed)[0]
    assert rated >= count * (accelerator.power_w or 0.0)
    if accelerator.kind == WHOLE_MACHINE:
        assert rated == max(count * 60.0, 0.0 if np.isnan(power_w) else power_w)
