"""Work in two pools that ends, compared with one engine over an infinite link, by hand; more work never ends sooner."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from app.sizing.estimate import estimate_deployment
from app.sizing.pools.ends import mix_waits, wait_distribution
from app.sizing.question import Question
from app.sizing.result import Estimate, Performance
from app.sizing.values.latencies import Percentiles
from app.sizing.workload import InferenceWorkload, Lengths, Load
from tests.sizing.pools.given import AT_ONCE, INFINITE, networked, parts, pools_of, speed, split, whole
from tests.sizing.serving.given import STEADY
from tests.sizing.small import SMALL

SECONDS_PER_DAY = 86_400.0
DEADLINE_S = 20_000.0


def ends(**changes: Any) -> InferenceWorkload:
    return replace(STEADY, peak_per_s=0.0, average_per_s=0.0, **changes)


def run_of(requests: float, at_once: float = 64.0) -> InferenceWorkload:
    return ends(load=Load.CLOSED, in_flight=at_once, requests=requests)


def lasts_s(found: Estimate) -> float:
    return (speed(found).days or 0.0) * SECONDS_PER_DAY


def test_a_batch_takes_as_long_over_an_infinite_link_as_in_one_engine() -> None:
    batch = ends(load=Load.BATCH, in_flight=32.0)
    one, two = speed(whole(INFINITE, batch, engine="vllm")), speed(split(pools_of(), INFINITE, batch, engine="vllm"))
    assert one.ttft is not None and two.ttft is not None and one.e2e is not None and two.e2e is not None
    assert two.ttft.mean_s == pytest.approx(one.ttft.mean_s, rel=1e-9)
    assert two.e2e.mean_s == pytest.approx(one.e2e.mean_s, rel=1e-9)
    assert two.requests_per_s_capacity == pytest.approx(one.requests_per_s_capacity or 0, rel=1e-9)


def test_a_queue_is_worked_off_as_fast_as_the_slowest_part() -> None:
    found = split(pools_of(), networked(8e7), ends(load=Load.OFFLINE, volume_requests=1e6))
    pools = parts(found)
    rates = [pools.prefill.requests_per_s_capacity, pools.decode.requests_per_s_capacity]
    assert speed(found).requests_per_s_capacity == pytest.approx(min(*rates, pools.transfer.requests_per_s_capacity))
    assert speed(found).ttft is None and speed(found).tpot is not None
    start_s = speed(found).cold_start_s or 0.0
    assert lasts_s(found) == pytest.approx(start_s + 1e6 / min(*rates, pools.transfer.requests_per_s_capacity))
    assert found.cost is not None and found.cost.usd_per_hour is not None
    assert found.cost.usd_total == pytest.approx(found.cost.usd_per_hour * lasts_s(found) / 3600)
    assert found.cost.usd_per_million == pytest.approx((found.cost.usd_total or 0) / 1e6 / 1001 * 1e6)
    assert found.explanation[0].code == "duration"


def test_pools_are_sized_for_a_deadline_and_posted_back_they_are_the_same() -> None:
    late = ends(load=Load.OFFLINE, volume_requests=2e7, deadline_s=DEADLINE_S)
    free: dict[str, Any] = {"tensor_parallel": 1, "pipeline_parallel": 1}
    found = split(pools_of(free, free), SMALL, late)
    assert found.deployment.pools is not None and (found.deployment.pools.decode.replicas or 0) > 1
    assert lasts_s(found) < DEADLINE_S
    assert found.assurance is not None and (found.assurance.meets_deadline or 0.0) >= 0.8
    again = estimate_deployment(Question(late, assumptions=AT_ONCE), found.deployment, SMALL)
    for name in ("deployment", "performance", "cost", "explanation"):
        assert getattr(again, name) == getattr(found, name), name


def test_prompts_that_start_at_once_wait_for_one_another_in_the_pool_that_reads() -> None:
    steady, finite = speed(split(pools_of(), INFINITE, run_of(320.0))), speed(split(pools_of(), INFINITE, run_of(64.0)))
    long = speed(split(pools_of(), INFINITE, ends(load=Load.CLOSED, in_flight=64.0)))
    waits = [mean_ttft_s(p) for p in (long, steady, finite)]
    assert waits == sorted(waits) and waits[2] > 5 * waits[0]
    # A fifth of the 320 came at once.
    assert waits[1] == pytest.approx(0.2 * waits[2] + 0.8 * waits[0], rel=1e-6)
    assert finite.simulation is not None and finite.simulation.arrivals == "burst" and finite.load_curve is None


def mean_ttft_s(p: Performance) -> float:
    assert p.ttft is not None and p.ttft.mean_s is not None
    return p.ttft.mean_s


def test_a_run_ends_about_when_one_engine_would_end_it_over_an_infinite_link() -> None:
    one, two = whole(INFINITE, run_of(320.0), engine="vllm"), split(pools_of(), INFINITE, run_of(320.0), engine="vllm")
    assert lasts_s(two) == pytest.approx(lasts_s(one), rel=0.1)
    assert mean_ttft_s(speed(two)) < mean_ttft_s(speed(one))  # no answer is written between its prompts
    assert any(reason.code == "run" for reason in two.explanation)


@pytest.mark.parametrize("requests", [10.0, 64.0, 65.0, 400.0])
def test_more_to_do_never_ends_sooner(requests: float) -> None:
    now, more = (lasts_s(split(pools_of(), INFINITE, run_of(count))) for count in (requests, requests + 30))
    assert more >= now
    longer = replace(run_of(requests), output_tokens=Lengths(301.0))
    assert lasts_s(split(pools_of(), INFINITE, longer)) > now


def test_waits_of_two_kinds_are_mixed_by_their_shares() -> None:
    short, long = Percentiles(1.0, 1.0, 1.0, 1.0), Percentiles(9.0, 9.0, 9.0, 9.0)
    latency = mix_waits(long, short, 0.1)
    assert [latency.mean_s, latency.p50_s, latency.p95_s, latency.p99_s] == pytest.approx([1.8, 1.0, 9.0, 9.0])
    assert mix_waits(long, short, 0.0).p99_s == 1.0
    assert mix_waits(short, short, 0.4).p50_s == 1.0
    shares, waits = wait_distribution(Percentiles(0.5, 0.5, 0.95, 0.99))
    assert list(shares) == [0, 0.5, 0.95, 0.99, 1]
    assert list(waits) == pytest.approx([0.05, 0.5, 0.95, 0.99, 0.99])
