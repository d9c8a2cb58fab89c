"""What owning a machine costs, worked by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from app.sizing.assumptions import Assumptions
from app.sizing.decisions.ownership import (
    derived_parts,
    machine_purchase_usd,
    owned_usd_per_hour,
    rated_power_w,
)
from app.sizing.hardware.tables import Machines
from app.sizing.question import Economics
from tests.examples import col
from tests.sizing.small import SMALL

BIG, CARD, DESK, RARE = range(4)


def machine(accelerator: int, count: float, *, power_w: float = np.nan, workstation: bool = False) -> Machines:
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
        (BIG, 8, 10_200, 10_200),  # as the machine is rated
        (BIG, 8, np.nan, 8 * (700 + 525)),  # a host's share is three quarters of the accelerator's
        (BIG, 8, 5600, 8 * (700 + 525)),  # no more than the boards: a figure of the boards alone
        (BIG, 8, 5601, 5601),
        (CARD, 4, np.nan, 4 * (72 + 150)),  # at least 150 W of host each
        (RARE, 4, np.nan, 4 * (350 + 262.5)),  # a part without a published power
        (RARE, 4, 1400, 4 * (350 + 262.5)),
    ],
)
def test_rated_power_is_the_machines_or_that_of_its_parts(
    accelerator: int, count: float, power_w: float, rated_w: float
) -> None:
    found = rated_power_w(machine(accelerator, count, power_w=power_w), SMALL.columns, Assumptions())
    assert found.tolist() == [rated_w]


@pytest.mark.parametrize(
    ("accelerator", "count", "workstation", "derived", "usd"),
    [
        (BIG, 8, False, False, 300_000),
        (BIG, 8, False, True, 8 * 27_500 + 14_000 + 64 * 120 + 640 * 27),  # as much memory as the accelerators have
        (DESK, 2, True, True, 2 * 6250 + 2000 + 16 * 40 + 96 * 10),
        (DESK, 2, False, True, 2 * 6250 + 6000 + 16 * 120 + 96 * 27),  # a desktop card in a server
    ],
)
def test_a_machine_costs_its_list_price_or_its_parts(
    accelerator: int, count: float, workstation: bool, derived: bool, usd: float
) -> None:
    three_quarters = Assumptions(list_price_position=0.75)
    bought = machine(accelerator, count, workstation=workstation)
    bought = replace(bought, memory_bytes=col(SMALL.accelerators[accelerator].memory_bytes or np.nan))
    parts = derived_parts(bought, SMALL.columns, col(np.nan), np.array([derived]), three_quarters)
    price = col(np.nan if derived else 300_000)
    assert machine_purchase_usd(parts, price).tolist() == pytest.approx([usd])
