"""Two pools as one answer. What an answer says of two pools."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.sizing.hardware.parts import PricingModel
from app.sizing.pools.joined import (
    BASES,
    combined_level,
    first_in_order,
    separate_locations_reason,
    subtract_wait,
    sum_known,
)
from app.sizing.question import Deployment
from app.sizing.result import Level, Percentiles
from app.sizing.workload import Slo
from tests.sizing.pools.given import ONE, pools_of, split, whole
from tests.sizing.serving.given import STEADY
from tests.sizing.small import BIG, CARD


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


def test_every_pool_the_way_between_them_and_the_limits_have_a_sentence() -> None:
    found = split(pools_of(), workload=replace(STEADY, slo=Slo(1.0, 0.05, None, 95)))
    texts = {reason.code: reason.text for reason in found.explanation}
    assert texts["pool_prefill"].startswith("Prefill: 1 replica, 1 × Acme Big each, ")
    assert texts["pool_decode"].startswith("Decode: 1 replica, 1 × Acme Big each, ")
    assert texts["pool_transfer"].startswith("Transferring the KV cache of a prompt (6.25 MiB) takes ")
    assert "(limit 1,000 ms)" in texts["ttft_ms"]
    assert texts["memory"].startswith("The ")
    prices = [reason.text for reason in found.explanation if reason.code == "price"]
    assert [price.split(":")[0] for price in prices] == ["Each pool"]
    assert "on two pools with " in (found.summary or "")


def test_what_differs_between_pools_is_said_of_each() -> None:
    found = split(pools_of(decode={**ONE, "accelerator": CARD.slug}))
    prices = [reason.text for reason in found.explanation if reason.code == "price"]
    assert [price.split(":")[0] for price in prices] == ["The prefill pool", "The decode pool"]


def test_pools_in_two_places_are_reported() -> None:
    one = Deployment(BIG.slug, provider="a", region="x", pricing_model=PricingModel.ON_DEMAND)
    elsewhere, owned = replace(one, region="y"), replace(one, pricing_model=PricingModel.OWNED)
    assert list(separate_locations_reason(one, replace(one, pricing_model=PricingModel.SPOT))) == []
    assert list(separate_locations_reason(owned, replace(owned, provider="b", region="y"))) == []
    for other in (elsewhere, owned):
        (reason,) = separate_locations_reason(one, other)
        assert reason.code == "pools_apart" and "a (x)" in reason.text
