"""The parts of a machine without a quote, computed by hand, and properties of every machine. What owning a machine
costs, worked by hand.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.sizing.assumptions import Assumptions
from app.sizing.columns import GIB, Columns, column_names
from app.sizing.decisions.ownership import (
    Parts,
    derived_parts,
    estimate_parts,
    machine_parts_usd,
    machine_purchase_usd,
    more_memory_usd,
    owned_usd_per_hour,
    rated_power_w,
)
from app.sizing.hardware.parts import SOCKET, WHOLE_MACHINE, Accelerator, Segment
from app.sizing.hardware.tables import AcceleratorColumns, Machines
from app.sizing.question import Economics
from tests.examples import col
from tests.sizing.small import BIG, CARD, DESK, SMALL


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


OWNERSHIP_BIG, OWNERSHIP_CARD, OWNERSHIP_DESK, RARE = range(4)


def ownership_machine(
    accelerator: int, count: float, *, power_w: float = np.nan, workstation: bool = False
) -> Machines:
    nan = col(np.nan)
    return Machines(
        accelerator=np.array([accelerator]),
        accelerators_per_node=col(count),
        share=col(1.0),
        memory_bytes=nan,
        link=np.array([0]),
        link_bytes_per_s=nan,
        scale_up_domain=nan,
        network_bytes_per_s=nan,
        power_w=col(power_w),
        on_prem=np.array([True]),
        workstation=np.array([workstation]),
    )


def test_an_owned_machine_costs_purchase_upkeep_floor_and_power() -> None:
    economics = Economics(horizon_months=24, electricity_usd_per_kwh=0.2, pue=1.5)
    hourly = owned_usd_per_hour(
        col(100_000, 100_000), col(6000, 6000), np.array([True, False]), Assumptions(), economics
    )
    # over two years of 8760 hours; a twentieth a year; 6 kW at 184 USD a month; 9 kW with the building's share
    parts = 100_000 / 17_520, 5000 / 8760, 6 * 184 / 730, 6 * 1.5 * 0.2
    assert hourly[0] == pytest.approx(sum(parts))
    assert hourly[1] == pytest.approx(sum(parts) - parts[2])  # a workstation stands under a desk


@pytest.mark.parametrize(
    ("accelerator", "count", "power_w", "rated_w"),
    [
        (OWNERSHIP_BIG, 8, 10_200, 10_200),  # as the machine is rated
        (OWNERSHIP_BIG, 8, np.nan, 8 * (700 + 525)),  # a host's share is three quarters of the accelerator's
        (OWNERSHIP_BIG, 8, 5600, 8 * (700 + 525)),  # no more than the boards: a figure of the boards alone
        (OWNERSHIP_BIG, 8, 5601, 5601),
        (OWNERSHIP_CARD, 4, np.nan, 4 * (72 + 150)),  # at least 150 W of host each
        (RARE, 4, np.nan, 4 * (350 + 262.5)),  # a part without a published power
        (RARE, 4, 1400, 4 * (350 + 262.5)),
    ],
)
def test_rated_power_is_the_machines_or_that_of_its_parts(
    accelerator: int, count: float, power_w: float, rated_w: float
) -> None:
    found = rated_power_w(ownership_machine(accelerator, count, power_w=power_w), SMALL.columns, Assumptions())
    assert found.tolist() == [rated_w]


@pytest.mark.parametrize(
    ("accelerator", "count", "workstation", "derived", "usd"),
    [
        (OWNERSHIP_BIG, 8, False, False, 300_000),
        (
            OWNERSHIP_BIG,
            8,
            False,
            True,
            8 * 27_500 + 14_000 + 64 * 120 + 640 * 27,
        ),  # as much memory as the accelerators have
        (OWNERSHIP_DESK, 2, True, True, 2 * 6250 + 2000 + 16 * 40 + 96 * 10),
        (OWNERSHIP_DESK, 2, False, True, 2 * 6250 + 6000 + 16 * 120 + 96 * 27),  # a desktop card in a server
    ],
)
def test_a_machine_costs_its_list_price_or_its_parts(
    accelerator: int, count: float, workstation: bool, derived: bool, usd: float
) -> None:
    three_quarters = Assumptions(list_price_position=0.75)
    bought = ownership_machine(accelerator, count, workstation=workstation)
    bought = replace(bought, memory_bytes=col(SMALL.accelerators[accelerator].memory_bytes or np.nan))
    parts = derived_parts(bought, SMALL.columns, col(np.nan), np.array([derived]), three_quarters)
    price = col(np.nan if derived else 300_000)
    assert machine_purchase_usd(parts, price).tolist() == pytest.approx([usd])
