"""Two pools as one answer. What an answer says of two pools."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from app.sizing.formula import Step
from app.sizing.hardware.parts import PricingModel
from app.sizing.pools.joined import (
    BASES,
    PoolEstimates,
    combine_estimates,
    combined_assurance,
    combined_bill,
    combined_cost,
    combined_level,
    combined_performance,
    explain_pools,
    failed_estimate,
    first_in_order,
    label_trace,
    latency_limit_reasons,
    pool_location,
    pool_reason,
    pool_split,
    separate_locations_reason,
    single_pool_reasons,
    subtract_wait,
    sum_known,
    tighter_memory,
    total_purchase_usd,
    transfer_reason,
)
from app.sizing.question import Deployment
from app.sizing.result import (
    Assurance,
    BillFactor,
    CertaintyFactor,
    CostSummary,
    DeviceMemory,
    Estimate,
    Level,
    Part,
    Percentiles,
    Performance,
    PoolLoad,
    Reason,
)
from app.sizing.workload import InferenceWorkload, Load, Slo
from tests.sizing.answer.given import COST
from tests.sizing.pools.given import LINK, ONE, READS, WRITES, pool_estimate, pools_of, split, waits, whole
from tests.sizing.serving.given import STEADY
from tests.sizing.small import BIG, CARD, SMALL


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


def test_the_bill_is_that_of_both_pools() -> None:
    """A pool without a factor keeps its accelerators there; the multipliers give the accelerators of both."""
    first = (
        CertaintyFactor(BillFactor.PREDICTED, 1.0, 10.0, 20.0, "faster"),
        CertaintyFactor(BillFactor.CONFIDENCE, 1.2, 12.0, 24.0, "benchmark"),
        CertaintyFactor(BillFactor.WHOLE_MACHINES, 4 / 3, 16.0, 32.0, "smaller"),
    )
    second = (
        CertaintyFactor(BillFactor.PREDICTED, 1.0, 5.0, None, "faster"),
        CertaintyFactor(BillFactor.LIMITS, 1.6, 8.0, None, "looser"),
    )
    both = combined_bill(first, second)
    assert [(line.factor.value, line.total_accelerators, line.removed_by) for line in both] == [
        ("predicted", 15.0, "faster"),
        ("limits", 18.0, "looser"),
        ("confidence", 20.0, "benchmark"),
        ("whole_machines", 24.0, "smaller"),
    ]
    assert math.prod(line.multiplier for line in both) * both[0].total_accelerators == pytest.approx(24.0)
    assert combined_bill(first, first)[-1].usd_per_hour == 64.0 and both[-1].usd_per_hour is None
    assert combined_bill(first, ()) == combined_bill((), second) == ()


def test_every_pool_the_way_between_them_and_the_limits_have_a_sentence() -> None:
    found = split(pools_of(), workload=replace(STEADY, slo=Slo(1.0, 0.05, None, 95)))
    texts = {reason.code: reason.text for reason in found.explanation}
    assert texts["pool_prefill"].startswith("Prefill: 1 replica, 1 × Acme Big, ")
    assert texts["pool_decode"].startswith("Decode: 1 replica, 1 × Acme Big, ")
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


def both_of(reads: Performance = READS, writes: Performance = WRITES) -> PoolEstimates:
    return PoolEstimates(pool_estimate(reads), pool_estimate(writes))


def joined(
    reads: Performance = READS,
    writes: Performance = WRITES,
    workload: InferenceWorkload = STEADY,
    rate_per_s: float | None = None,
    **link: Any,
) -> Performance:
    """Performance of two pools that were made by hand; their curves are those of open load."""
    if workload.load is not Load.OPEN:
        reads, writes = replace(reads, load_curve=None), replace(writes, load_curve=None)
    both = both_of(reads, writes)
    return combined_performance(
        workload, both, pool_split(workload, both, replace(LINK, **link), rate_per_s), rate_per_s
    )


def test_two_pools_carry_what_the_narrowest_of_three_parts_does() -> None:
    found = joined()
    assert found.requests_per_s_capacity == 30.0
    assert found.output_tokens_per_s == pytest.approx(30 * 201.0)
    assert found.total_tokens_per_s == pytest.approx(30 * 1001.0)
    assert found.utilization_at_peak == pytest.approx(10 / 30)
    assert found.pools is not None
    used = [part.utilization for part in (found.pools.prefill, found.pools.decode, found.pools.transfer)]
    assert used == pytest.approx([10 / 40, 10 / 30, 10 / 60])
    assert joined(replace(READS, requests_per_s_capacity=20.0)).requests_per_s_capacity == 20.0
    assert joined(requests_per_s_capacity=15.0).requests_per_s_capacity == 15.0
    assert not found.overloaded
    for other in (
        joined(requests_per_s_capacity=9.0),
        joined(replace(READS, overloaded=True)),
        joined(writes=replace(WRITES, overloaded=True)),
    ):
        assert other.overloaded
    assert not joined(requests_per_s_capacity=10.0).overloaded
    none = joined(replace(READS, requests_per_s_capacity=None))
    assert (none.requests_per_s_capacity, none.utilization_at_peak, none.overloaded) == (0.0, None, False)
    assert none.pools is not None and none.pools.prefill.utilization is None


def test_two_pools_wait_for_reading_the_transfer_and_the_queue_of_the_other_pool() -> None:
    found = joined()
    assert found.ttft is not None and found.e2e is not None
    first_s = [n * 0.1 + 0.05 + n * 0.01 for n in (1, 2, 3, 4)]
    assert [found.ttft.mean_s, found.ttft.p50_s, found.ttft.p95_s, found.ttft.p99_s] == pytest.approx(first_s)
    # The rest of an answer takes a second, as the decode pool writes it after its own first token.
    whole_s = [first_s[n - 1] + n * (1.02 - 0.02) for n in (1, 2, 3, 4)]
    assert [found.e2e.mean_s, found.e2e.p50_s, found.e2e.p95_s, found.e2e.p99_s] == pytest.approx(whole_s)
    assert found.tpot == waits(0.01) and found.batch_at_peak == 12.0 and found.prefill_tokens_per_s == 32_000.0
    at_once = joined(writes=replace(WRITES, simulation=None)).ttft
    assert at_once is not None and at_once.mean_s == pytest.approx(0.15)
    for reads, writes in (
        (replace(READS, ttft=None), WRITES),
        (READS, replace(WRITES, ttft=None)),
        (READS, replace(WRITES, e2e=None)),
    ):
        untimed = joined(reads, writes)
        assert untimed.ttft is None and untimed.e2e is None
        assert [i.quantity for i in untimed.intervals] == ["tpot_s", "tpot_s"]


def test_latency_intervals_shift_by_what_is_added_and_keep_the_width_of_their_pool() -> None:
    found = joined()
    by_name = {(i.quantity, i.statistic): i for i in found.intervals}
    assert len(by_name) == 6
    for statistic, n in (("mean", 1), ("p50", 2)):
        read = next(i for i in READS.intervals if i.statistic == statistic)
        token = next(i for i in WRITES.intervals if i.statistic == statistic)
        added_s = 0.05 + n * 0.01
        first = by_name["ttft_s", statistic]
        assert (first.low, first.high) == pytest.approx((read.low + added_s, read.high + added_s))
        # 100 tokens of n hundredths of a second follow.
        last = by_name["e2e_s", statistic]
        assert (last.low, last.high) == pytest.approx((first.low + 100 * token.low, first.high + 100 * token.high))
        assert by_name["tpot_s", statistic] == token
    half = joined(replace(READS, intervals=READS.intervals[:1])).intervals
    assert {i.statistic for i in half} == {"mean"} and len(half) == 3
    assert joined(writes=replace(WRITES, tpot=None)).intervals == ()
    assert joined(writes=replace(WRITES, tpot=waits(0.0))).intervals == ()
    # The interval of the rate has the relative width of the pool that limits it.
    assert (found.interval.low, found.interval.high) == pytest.approx((30 * 201 * 0.8, 30 * 201 * 1.1))
    slow_reader = joined(replace(READS, requests_per_s_capacity=20.0)).interval
    assert (slow_reader.low, slow_reader.high) == pytest.approx((20 * 201 * 0.8, 20 * 201 * 1.2))
    slow_link = joined(requests_per_s_capacity=15.0).interval
    assert (slow_link.low, slow_link.high) == pytest.approx((15 * 201 * 0.8, 15 * 201 * 1.1))


def test_two_pools_are_known_as_well_as_the_less_known_one() -> None:
    found = joined()
    assert (found.basis, found.sources, found.cold_start_s) == ("roofline", 2, 90.0)
    turned = joined(replace(READS, basis="roofline", sources=1, cold_start_s=None), replace(WRITES, basis="measured"))
    assert (turned.basis, turned.sources, turned.cold_start_s) == ("roofline", 1, 90.0)
    assert joined(replace(READS, sources=None), replace(WRITES, sources=None)).sources is None
    assert found.simulation is not None and found.simulation.goodput_share == pytest.approx(0.72)
    assert found.unstable_above_requests_per_s == 35.0
    assert joined(requests_per_s_capacity=25.0).unstable_above_requests_per_s == 25.0
    reads, writes = (replace(p, unstable_above_requests_per_s=None) for p in (READS, WRITES))
    assert joined(reads, writes).unstable_above_requests_per_s == 60.0
    # No more is answered than arrives or than the pools can.
    assert found.simulation.goodput_per_s == pytest.approx(0.72 * 10)
    busy = joined(workload=replace(STEADY, peak_per_s=100.0)).simulation
    assert busy is not None and busy.goodput_per_s == pytest.approx(0.72 * 35)
    closed = joined(workload=replace(STEADY, load=Load.CLOSED, in_flight=8.0), rate_per_s=24.0)
    assert closed.unstable_above_requests_per_s is None and closed.utilization_at_peak is None
    assert closed.requests_per_s_capacity == 24.0 and closed.simulation is not None
    assert closed.simulation.goodput_per_s == pytest.approx(0.72 * 24)


def test_work_that_ends_takes_days_of_the_joint_rate() -> None:
    run = replace(STEADY, load=Load.CLOSED, in_flight=8.0, requests=86_400.0)
    assert joined(workload=run, rate_per_s=2.0).days == pytest.approx(0.5)
    volume = replace(STEADY, load=Load.OFFLINE, volume_requests=864_000.0)
    assert joined(workload=volume, rate_per_s=10.0).days == pytest.approx(1.0 + 90 / 86_400)
    assert joined().days is None


def test_a_cost_of_two_pools_has_the_sums_of_both_and_the_price_of_the_dearer() -> None:
    lines = (Part("machine", 1.0, usd_per_hour=40.0), Part("tokens_per_s", 5.0))
    first = replace(COST, usd_per_hour=40.0, usd_per_month=29_200.0, usd_per_day=960.0, power_w=8000.0, parts=lines)
    price = replace(COST.price, age_days=99) if COST.price is not None else None
    second = CostSummary(60.0, 43_800.0, 0.3, None, 1000.0, 4000.0, 0.1, None, price, parts=lines, usd_per_day=1440.0)

    def of(
        one: CostSummary | None, two: CostSummary | None, workload: InferenceWorkload = STEADY, **changed: Any
    ) -> CostSummary | None:
        found = replace(joined(workload=workload), **changed)
        pair = PoolEstimates(pool_estimate(READS, cost=one), pool_estimate(WRITES, cost=two))
        return combined_cost(workload, pair, found)

    both, turned = of(first, second), of(second, first)
    for cost in (both, turned):
        assert cost is not None
        assert (cost.usd_per_hour, cost.usd_per_month, cost.usd_per_day) == (100.0, 73_000.0, 2400.0)
        assert (cost.power_w, cost.purchase_usd, cost.tco_usd, cost.price) == (12_000.0, 1000.0, None, price)
        assert [part.what for part in cost.parts] == ["machine", "machine", "tokens_per_s"]
        # 4 requests/s on average, of 1,001 tokens each.
        assert cost.parts[-1].quantity == pytest.approx(4004.0)
        assert cost.usd_per_million == pytest.approx(100 / 3600 / 4004 * 1e6)
        assert cost.kwh_per_million == pytest.approx(12 / 3600 / 4004 * 1e6)
    assert of(None, second) is None and of(first, None) is None
    scarce = of(first, second, requests_per_s_capacity=2.0)
    assert scarce is not None and scarce.parts[-1].quantity == pytest.approx(2002.0)
    closed = of(first, second, replace(STEADY, load=Load.CLOSED, in_flight=8.0), requests_per_s_capacity=20.0)
    assert closed is not None and closed.parts[-1].quantity == pytest.approx(20_020.0)
    volume = replace(STEADY, load=Load.OFFLINE, volume_requests=86_400.0)
    slow = of(first, second, volume, days=2.0)
    assert slow is not None and slow.parts[-1].quantity == pytest.approx(0.5 * 1001)
    unknown = of(replace(first, usd_per_hour=None), second)
    assert unknown is not None and unknown.usd_per_hour is None and unknown.usd_per_million is None
    assert unknown.purchase_usd is None and unknown.price == price
    idle = of(first, second, requests_per_s_capacity=None)
    assert idle is not None and idle.usd_per_million is None and idle.kwh_per_million is None
    assert total_purchase_usd(None, None) is None and total_purchase_usd(2.0, 3.0) == 5.0


def test_two_pools_meet_limits_as_surely_as_the_less_certain_one() -> None:
    levels = (Level(0.5, 8, 10.0), Level(0.8, 16, 20.0))

    def sure(fits: float, met: float | None, in_time: float | None) -> Estimate:
        return pool_estimate(READS, assurance=Assurance(0.8, fits, met, in_time, levels))

    for first, second in ((sure(0.9, 0.7, 0.6), sure(0.8, 0.9, 0.95)), (sure(0.8, 0.9, 0.95), sure(0.9, 0.7, 0.6))):
        found = combined_assurance(PoolEstimates(first, second))
        assert found is not None
        assert (found.asked, found.fits, found.meets_slo, found.meets_deadline) == (0.8, 0.8, 0.7, 0.6)
        assert found.by_level == (Level(0.5, 16, 20.0), Level(0.8, 32, 40.0))
        one_sided = combined_assurance(PoolEstimates(first, sure(1.0, None, None)))
        assert one_sided is not None and first.assurance is not None
        assert one_sided.meets_slo == first.assurance.meets_slo
        assert combined_assurance(PoolEstimates(first, pool_estimate(WRITES))) is None
        assert combined_assurance(PoolEstimates(pool_estimate(WRITES), first)) is None
    unbounded = combined_assurance(PoolEstimates(sure(1.0, None, None), sure(1.0, None, None)))
    assert unbounded is not None and unbounded.meets_slo is None and unbounded.meets_deadline is None


def memory_of(weights_gb: float, cache_gb: float, usable_gb: float = 70.0) -> DeviceMemory:
    return DeviceMemory(weights_gb * 1e9, cache_gb * 1e9, 0.0, 0.0, 0.0, 0.0, 80e9, usable_gb * 1e9)


def test_the_tighter_pool_is_the_one_with_less_room_for_its_cache() -> None:
    # A cache grows into whatever is left, so it says nothing of how tight a pool is.
    heavy, light = memory_of(50.0, 10.0), memory_of(20.0, 50.0)
    for reads, writes, tight in ((heavy, light, "prefill"), (light, heavy, "decode")):
        both = PoolEstimates(pool_estimate(READS, memory=reads), pool_estimate(WRITES, memory=writes))
        assert tighter_memory(both) == (tight, heavy)
        assert combine_estimates(STEADY, Deployment(BIG.slug), both, LINK, None, SMALL).memory == heavy
    # Of equal weights, those on the smaller device.
    small = memory_of(20.0, 0.0, usable_gb=22.0)
    both = PoolEstimates(pool_estimate(READS, memory=small), pool_estimate(WRITES, memory=light))
    assert tighter_memory(both) == ("prefill", small)
    only = PoolEstimates(pool_estimate(READS, memory=None), pool_estimate(WRITES, memory=light))
    assert tighter_memory(only) == ("decode", light)


def test_one_answer_has_the_parts_of_both_pools() -> None:
    asked = Deployment(BIG.slug, engine_version="1.0")
    step = Step("TTFT", "a", {}, 0.1, "s", "a source")
    reads = pool_estimate(READS, support="documented", trace=(step,), bottleneck="memory bandwidth")
    writes = pool_estimate(WRITES, support="expected", trace=(replace(step, name="TTFT (hits)"),))
    found = combine_estimates(STEADY, asked, PoolEstimates(reads, writes), LINK, None, SMALL)
    assert found.deployment.total_accelerators == 2 and found.deployment.engine == "vllm"
    assert found.deployment.engine_version == "1.0" and found.deployment.accelerator == BIG.slug
    assert found.support == "expected" and found.fits
    assert [s.name for s in found.trace] == ["TTFT (prefill pool)", "TTFT (decode pool, hits)"]
    assert list(label_trace("p", replace(reads, trace=()))) == []

    def bottleneck(read_per_s: float, written_per_s: float, carried_per_s: float) -> str | None:
        two = (
            pool_estimate(replace(p, requests_per_s_capacity=rate), bottleneck=name)
            for p, rate, name in ((READS, read_per_s, "other"), (WRITES, written_per_s, "memory bandwidth"))
        )
        link = replace(LINK, requests_per_s_capacity=carried_per_s)
        return combine_estimates(STEADY, asked, PoolEstimates(*two), link, None, SMALL).bottleneck

    assert bottleneck(40.0, 30.0, 60.0) == "memory bandwidth"
    assert bottleneck(20.0, 30.0, 60.0) == "compute"
    assert bottleneck(40.0, 30.0, 10.0) == bottleneck(40.0, 30.0, 30.0) == "interconnect"
    assert bottleneck(30.0, 30.0, 60.0) == "compute"


def test_a_failed_pool_is_named_with_its_reason() -> None:
    why = (Reason("does_not_fit", "No room.", "bytes", 1.0, "B"),)
    bad, good, asked = pool_estimate(READS, fits=False, explanation=why), pool_estimate(WRITES), Deployment(BIG.slug)
    prefill = failed_estimate(asked, PoolEstimates(bad, good))
    decode = failed_estimate(asked, PoolEstimates(good, bad))
    assert [f.explanation[0].text for f in (prefill, decode)] == [
        "The prefill pool: No room.",
        "The decode pool: No room.",
    ]
    assert failed_estimate(asked, PoolEstimates(bad, bad)).explanation == prefill.explanation
    assert prefill.deployment.total_accelerators == 2 and prefill.deployment.pools is not None
    unknown = replace(bad, memory=None)
    assert failed_estimate(asked, PoolEstimates(unknown, good)).deployment == asked


def test_explanations_of_single_pools_are_given_once_and_only_where_they_tell_something() -> None:
    def reason(code: str, text: str) -> Reason:
        return Reason(code, text, "x", 1.0, "1")

    same, own = reason("price", "Same."), reason("placement", "Own.")
    memory, limit, other = reason("memory", "Full."), reason("bottleneck", "Slow."), reason("layout", "Not shown.")
    reads = pool_estimate(READS, explanation=(same, memory, limit, other))
    writes = pool_estimate(WRITES, explanation=(same, own, replace(memory, text="Fuller."), limit))

    def texts(tight: str) -> list[str]:
        return [r.text for r in single_pool_reasons((reads, writes), tight)]

    assert texts("decode") == [
        "Each pool: Same.",
        "The decode pool: Own.",
        "The decode pool: Fuller.",
        "The decode pool: Slow.",
    ]
    assert texts("prefill") == [
        "Each pool: Same.",
        "The prefill pool: Full.",
        "The decode pool: Own.",
        "The decode pool: Slow.",
    ]


def test_sentences_of_two_pools_carry_the_numbers_they_name() -> None:
    load = PoolLoad(0.25, 40.0)
    pool = pool_reason("prefill", pool_estimate(READS), load, SMALL)
    assert (pool.code, pool.value, pool.unit) == ("pool_prefill", 40.0, "requests/s")
    assert "25" in pool.text and "spare" not in pool.text
    spare = pool_estimate(READS, deployment=replace(pool_estimate(READS).deployment, spare_replicas=2))
    assert "2 spares" in pool_reason("prefill", spare, load, SMALL).text
    assert "utilized" not in pool_reason("prefill", spare, PoolLoad(None, 40.0), SMALL).text

    sent = transfer_reason(replace(LINK, request_bytes=3 * 2**20, utilization=0.5))
    assert sent.value == pytest.approx(50.0) and sent.unit == "ms"
    assert all(shown in sent.text for shown in ("(3 MiB)", "50 ms", "the network", "0.96 Gbit/s", "50"))
    unused = transfer_reason(replace(LINK, link="scale_up"))
    assert "scale-up" in unused.text and "utilized" not in unused.text

    bounded = replace(STEADY, slo=Slo(1.0, 0.05, None, 90))
    reasons = {r.code: r for r in latency_limit_reasons(bounded, joined(workload=bounded))}
    assert set(reasons) == {"ttft_ms", "tpot_ms"}
    assert reasons["ttft_ms"].value == pytest.approx(380.0) and "1,000 ms at p90" in reasons["ttft_ms"].text
    assert reasons["tpot_ms"].value == pytest.approx(30.0)
    at_p95 = replace(STEADY, slo=Slo(None, None, 8.0, 95))
    (last,) = latency_limit_reasons(at_p95, joined(workload=at_p95))
    assert last.code == "e2e_ms" and "8,000 ms)" in last.text
    assert list(latency_limit_reasons(bounded, replace(joined(), ttft=None, tpot=None))) == []

    run = replace(STEADY, load=Load.CLOSED, in_flight=8.0, requests=100.0)
    pools = (pool_estimate(READS), pool_estimate(WRITES))
    ended, open_ended = (
        [r.code for r in explain_pools(w, pools, pool_split(w, PoolEstimates(*pools), LINK, r), p, "decode", SMALL)]
        for w, p, r in ((run, joined(workload=run, rate_per_s=2.0), 2.0), (STEADY, joined(), None))
    )
    assert ended == ["pool_prefill", "pool_decode", "pool_transfer", "run"]
    assert open_ended == ended[:-1]


def test_a_location_is_a_provider_and_its_region_or_the_buyers_site() -> None:
    rented = Deployment(BIG.slug, provider="sky", region="us-1", pricing_model=PricingModel.ON_DEMAND)
    assert "(us-1)" in pool_location(rented)
    for region in (None, "unspecified"):
        assert "(" not in pool_location(replace(rented, region=region))
    for owned in (replace(rented, provider=None), replace(rented, pricing_model=PricingModel.OWNED)):
        assert pool_location(owned) == "the buyer's own site"
