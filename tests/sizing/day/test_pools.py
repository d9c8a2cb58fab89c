"""The day of two pools is that of both: hours and money add up, and the slower pool says how starts go."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.sizing.day.pools import merge_days
from app.sizing.hardware.parts import PricingModel
from tests.sizing.day.test_scaling import JUMP
from tests.sizing.day.test_start import RENTED
from tests.sizing.day.test_whole import SERVICE, asked

SMALL = replace(
    SERVICE,
    replicas=18.0,
    nodes=9.0,
    capacity_per_s=8.0,
    usd_per_hour=180.0,
    starting=replace(RENTED, stored_bytes=700e9),
)


def test_hours_and_money_add_up() -> None:
    first, second = asked(), asked(SMALL)
    day = merge_days(first, second)
    assert day is not None
    assert day.fixed.usd_per_day == pytest.approx(900 * 24)
    assert day.autoscaled.replica_hours == first.autoscaled.replica_hours + second.autoscaled.replica_hours
    assert [h.replicas for h in day.hours] == [
        a.replicas + b.replicas for a, b in zip(first.hours, second.hours, strict=True)
    ]
    assert 0 < day.autoscaled.saving_share < 1
    assert day.cheaper == "autoscaled"
    assert [f.what for f in day.failures] == ["prefill replica", "prefill machine", "decode replica", "decode machine"]


def test_the_slower_pool_says_how_long_a_start_takes_and_whether_ramps_are_carried() -> None:
    first, second = asked(), asked(SMALL)
    day = merge_days(first, second)
    assert day is not None
    assert day.cold_start == second.cold_start
    assert day.scale_to_zero.first_request_s == second.scale_to_zero.first_request_s
    jump = merge_days(asked(replace(SERVICE, shares=JUMP)), second)
    assert jump is not None
    assert jump.scale_out.why.startswith("The prefill pool: ")
    assert not jump.scale_out.fast_enough


def test_without_a_price_of_one_there_is_none_of_both_and_each_says_how_it_is_paid() -> None:
    unpriced = replace(SMALL, usd_per_hour=None, pricing=None)
    day = merge_days(asked(), asked(unpriced))
    assert day is not None
    assert (day.fixed.usd_per_day, day.autoscaled.usd_per_day) == (None, None)
    owned = merge_days(asked(), asked(replace(SMALL, pricing=PricingModel.OWNED)))
    assert owned is not None
    assert owned.autoscaled.note.startswith("Prefill: ")
    assert merge_days(asked(), None) is None
