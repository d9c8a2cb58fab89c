"""What a deployment costs, and which limits it keeps, worked by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Codes
from app.sizing.decisions.cost import (
    Cost,
    deployment_cost,
    kwh_per_million,
    usd_per_million,
    usd_total,
    within_limits,
)
from app.sizing.decisions.rejections import Rejections
from app.sizing.question import Constraints, Economics
from tests.examples import col
from tests.sizing.decisions.offered import RENTED_AND_OWNED
from tests.sizing.small import SMALL


def test_cost_and_energy_per_million() -> None:
    # 110.2 / 3600 / 27000 * 1e6, and 11.2 kW / 3600 / 27000 * 1e6
    assert usd_per_million(col(110.2), col(27000))[0] == pytest.approx(1.13374, rel=1e-5)
    assert kwh_per_million(col(11200), col(27000))[0] == pytest.approx(0.115226, rel=1e-5)
    assert kwh_per_million(col(11200), col(0))[0] > 1e9
    assert usd_per_million(col(2), col(0))[0] > 1e12  # nothing is made: no division by zero, and no bargain


def test_work_that_ends_pays_its_machines_for_as_long_as_it_lasts() -> None:
    assert usd_total(col(80.0), col(2.5 * 86_400))[0] == pytest.approx(2.5 * 24 * 80)


def test_rent_is_paid_per_machine_and_owners_pay_for_racks_and_their_network() -> None:
    """Machines of eight at 40 USD an hour, or bought at 300,000 and 16 an hour; every two of them work as one."""
    cost = deployment_cost(
        RENTED_AND_OWNED, col(4, 4), col(2, 2), Assumptions(), Economics(horizon_months=24, electricity_usd_per_kwh=0)
    )
    ancillary = 4 * (8 * 400 * 4.7 + 9 * 200)  # eight ports of 400 Gbit/s, nine kilowatts
    upkeep = 0.05 / 8760 * ancillary
    assert cost.usd_per_hour.tolist() == pytest.approx([4 * 40, 4 * 16 + ancillary / (24 * 730) + upkeep])
    assert np.isnan(cost.purchase_usd[0])
    assert cost.purchase_usd[1] == 4 * 300_000 + ancillary
    assert cost.tco_usd.tolist() == pytest.approx([160 * 24 * 730, 64 * 24 * 730 + ancillary * (1 + 2 * 0.05)])


def test_a_fleet_draws_the_power_of_all_its_machines() -> None:
    cost = deployment_cost(RENTED_AND_OWNED, col(1, 5), col(0, 0), Assumptions(), Economics())
    assert cost.power_w.tolist() == [7500, 5 * 7000]
    assert cost.rated_w.tolist() == [10_000, 5 * 9000]


# Rows: one and two machines of the first type, one of the second, which is owned.
COST = Cost(
    usd_per_hour=col(40, 80, 16),
    purchase_usd=col(np.nan, np.nan, 300_000),
    power_w=col(7500, 15_000, 7000),
    rated_w=col(10_000, 20_000, 9000),
    tco_usd=col(1e6, 2e6, 5e5),
)
ACCELERATOR: Codes = np.array([0, 0, 1])


def limited(**limits: Any) -> tuple[list[bool], Rejections]:
    rejections = Rejections(SMALL.accelerators)
    kept = within_limits(ACCELERATOR, col(8, 16, 8), COST, Constraints(**limits), rejections)
    return kept.tolist(), rejections


@pytest.mark.parametrize(
    ("limits", "kept"),
    [
        ({}, [True, True, True]),
        ({"max_accelerators": 8}, [True, False, True]),
        ({"max_accelerators": 7}, [False, False, False]),
        ({"max_usd_per_hour": 40.0}, [True, False, True]),
        ({"max_usd_per_hour": 39.99}, [False, False, True]),
        ({"max_purchase_usd": 300_000.0}, [True, True, True]),
        ({"max_purchase_usd": 299_999.0}, [True, True, False]),  # rented machines are not bought
        ({"max_power_w": 10_000.0}, [True, False, True]),  # what it is rated for, not what it draws
        ({"max_power_w": 9_999.0}, [False, False, True]),
        ({"max_power_w": 15_000.0}, [True, False, True]),
        ({"max_accelerators": 8, "max_power_w": 9_500.0}, [False, False, True]),
    ],
)
def test_limits_are_kept_to_the_last_dollar_and_watt(limits: dict[str, Any], kept: list[bool]) -> None:
    assert limited(**limits)[0] == kept


@pytest.mark.parametrize(
    ("limits", "accelerator", "code", "needed", "available", "unit", "says"),
    [
        (
            {"max_accelerators": 4},
            0,
            "too_many_accelerators",
            8,
            4,
            "accelerators",
            "needs 8 accelerators; the limit is 4",
        ),
        (
            {"max_usd_per_hour": 10.0},
            0,
            "over_budget",
            40,
            10,
            "usd_per_hour",
            "costs 40.00 USD/h for 8 accelerators; the budget is 10.00 USD/h",
        ),
        (
            {"max_purchase_usd": 1e5},
            1,
            "over_budget",
            300_000,
            1e5,
            "usd",
            "costs 300,000 USD upfront for 8 accelerators; the purchase budget is 100,000 USD",
        ),
        (
            {"max_power_w": 5000.0},
            0,
            "over_power",
            10,
            5,
            "kw",
            "draws up to 10 kW with 8 accelerators; the limit is 5",
        ),
    ],
)
def test_a_type_that_keeps_no_limit_says_by_how_much(
    limits: dict[str, Any], accelerator: int, code: str, needed: float, available: float, unit: str, says: str
) -> None:
    found = limited(**limits)[1].by_accelerator[accelerator]
    assert (found.code, found.needed, found.available, found.unit) == (code, needed, available, unit)
    assert says in found.text


def test_only_what_an_earlier_limit_left_is_held_against_the_next() -> None:
    """The first type's small plan is over the money; its large one, over the number, is not blamed on the money."""
    kept, rejections = limited(max_accelerators=8, max_usd_per_hour=20.0)
    assert kept == [False, False, True]
    assert rejections.by_accelerator[0].needed == 40
    assert list(rejections.by_accelerator) == [0]
