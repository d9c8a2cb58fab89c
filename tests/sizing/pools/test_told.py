"""What an answer says of two pools."""

from __future__ import annotations

from dataclasses import replace

from app.sizing.hardware.parts import PricingModel
from app.sizing.pools.told import separate_locations_reason
from app.sizing.question import Deployment
from app.sizing.workload import Slo
from tests.sizing.pools.given import ONE, pools_of, split
from tests.sizing.serving.given import STEADY
from tests.sizing.small import BIG, CARD


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
