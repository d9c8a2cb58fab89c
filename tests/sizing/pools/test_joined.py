"""Two pools as one answer."""

from __future__ import annotations

import pytest

from app.sizing.pools.joined import BASES, combined_level, first_in_order, subtract_wait, sum_known
from app.sizing.result import Level
from app.sizing.values.latencies import Percentiles
from tests.sizing.pools.given import pools_of, split, whole


def test_what_is_left_of_a_wait_after_one_without_end_is_not_known() -> None:
    wait, never = Percentiles(1.0, 2.0, 3.0, 4.0), Percentiles(1.0, 2.0, 3.0, None)
    assert subtract_wait(wait, never) == Percentiles(0.0, 0.0, 0.0, None)


def test_sums_are_known_where_every_part_is() -> None:
    assert sum_known(1.0, 2.0) == 3.0
    assert sum_known(1.0, None) is None
    assert combined_level(Level(0.8, 8, 10.0), Level(0.8, 16, 5.0)) == Level(0.8, 24, 15.0)
    assert combined_level(Level(0.9, 8, 10.0), Level(0.9, None)) == Level(0.9, None)
    assert first_in_order(("measured", None, "roofline"), BASES) == "roofline"


def test_money_power_and_machines_are_those_of_both() -> None:
    found, one = split(pools_of()), whole().cost
    assert found.cost is not None and one is not None and one.usd_per_hour is not None
    assert found.cost.usd_per_hour == pytest.approx(2 * one.usd_per_hour)
    assert found.cost.power_w == pytest.approx(2 * one.power_w)
    assert found.cost.usd_per_million == pytest.approx(2 * one.usd_per_hour / 3600 / (4 * 1001) * 1e6)
    assert found.deployment.total_accelerators == 16
    assert [part.what for part in found.cost.parts].count("machine") == 2
    assert found.assurance is not None and found.assurance.by_level[1].total_accelerators == 16
