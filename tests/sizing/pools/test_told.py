"""What an answer says of two pools."""

from __future__ import annotations

from dataclasses import replace

from app.sizing.workload import Slo
from tests.sizing.pools.given import pools_of, split
from tests.sizing.serving.given import STEADY


def test_every_pool_the_way_between_them_and_the_limits_have_a_sentence() -> None:
    found = split(pools_of(), workload=replace(STEADY, slo=Slo(1.0, 0.05, None, 95)))
    told = {reason.code: reason.text for reason in found.explanation}
    assert told["pool_prefill"].startswith("Prefill: 1 replica of 1 x acme-big in ")
    assert told["pool_decode"].startswith("Decode: 1 replica of 1 x acme-big in ")
    assert told["pool_transfer"].startswith("A prompt's cache of 6.25 MiB takes ")
    assert "of 1,000 allowed at p95" in told["ttft_ms"]
    assert told["memory"].startswith("The ")
    prices = [reason.text for reason in found.explanation if reason.code == "price"]
    assert [price.split(":")[0] for price in prices] == ["The prefill pool", "The decode pool"]
    assert "on two pools on " in (found.summary or "")
