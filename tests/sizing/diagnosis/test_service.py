"""Waits at several loads, compared with the curve of the estimate. Whether a service carries its load, and what
else is wrong with the load. Room in the batch and in the cache, prefixes and drafts. Where requests wait, and
what of it is a consequence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from app.sizing.diagnosis.case import LoadObservation, Observations, ServiceObservation
from app.sizing.diagnosis.diagnose import Diagnosis, diagnose
from app.sizing.diagnosis.service import rate_at_latency
from app.sizing.hardware.engines.record import SchedulerSettings
from app.sizing.question import DraftMethod, Question, Speculative
from app.sizing.result import LoadPoint
from tests.sizing.comparing.given import HEAVY
from tests.sizing.diagnosis.given import SERVES, codes, expected, first, service, serving
from tests.sizing.small import SMALL


def points() -> tuple[LoadPoint, ...]:
    p = expected(True).performance
    assert p is not None and p.load_curve is not None
    return p.load_curve.points[:6]


def seen(slower: Callable[[int], float]) -> Diagnosis:
    """Every other load of the curve, each slower by a factor."""
    by_load = tuple(
        LoadObservation(
            point.requests_per_s,
            ttft_p50_s=point.ttft_p50_s * slower(i),
            ttft_p95_s=point.ttft_p95_s * slower(i),
            tpot_p50_s=point.tpot_p50_s * slower(i),
            tpot_p95_s=point.tpot_p95_s * slower(i),
        )
        for i, point in enumerate(points())
        if i % 2 == 0
    )
    return diagnose(Question(HEAVY), SERVES, SMALL, Observations(ServiceObservation(by_load=by_load)))


def test_a_curve_as_expected_is_healthy() -> None:
    assert codes(seen(lambda _: 1.05)) == []


def test_a_knee_before_the_hardwares_is_found_where_it_begins() -> None:
    found = first(seen(lambda i: 12.0 if i >= 4 else 1.0))
    assert found.code == "early_knee" and found.evidence[0].observed == pytest.approx(points()[4].requests_per_s)
    assert found.evidence[0].expected is not None and found.evidence[0].expected > found.evidence[0].observed


def test_what_is_slow_alone_is_not_the_load() -> None:
    assert first(seen(lambda _: 6.0)).code == "slow_at_light_load"


def test_between_two_loads_the_curve_is_straight_in_logarithms() -> None:
    p = expected(True).performance
    assert p is not None and p.load_curve is not None
    point = p.load_curve.points[-2]
    assert rate_at_latency(p.load_curve, "tpot", point.tpot_p95_s) == pytest.approx(point.requests_per_s)


QUIET: dict[str, Any] = {"ttft_p50_s": None, "tpot_p50_s": None, "queue_p50_s": None}


@pytest.mark.parametrize(
    ("code", "seen"),
    [
        ("overloaded", {"requests_per_s": 90.0}),
        ("bursts", {"peak_requests_per_s": 90.0, "tpot_p50_s": 0.12}),
        ("idle_fleet", {"requests_per_s": 8.0, **QUIET}),
        ("longer_prompts", {"input_tokens_mean": 700.0}),
        ("longer_answers", {"output_tokens_mean": 200.0, "ttft_p50_s": None}),
        ("errors", {"error_share": 0.1}),
        ("uneven_replicas", {"busiest_replica_share": 1.8}),
        ("slow_start", {"cold_start_s": 900.0, "restarts_per_day": 8.0}),
        ("service_restarts", {"restarts_per_day": 8.0}),
    ],
)
def test_a_cause_planted_comes_first(code: str, seen: dict[str, Any]) -> None:
    assert first(serving(**seen)).code == code


def test_a_queue_near_the_capacity_means_saturation() -> None:
    p = expected(True).performance
    assert p is not None and p.requests_per_s_capacity
    found = first(serving(requests_per_s=0.95 * p.requests_per_s_capacity, running=10.0, waiting=90.0))
    assert found.code == "saturated" and found.share == 0.9 and found.gain is None


def test_more_replicas_that_the_core_says_carry_it_are_the_change() -> None:
    found = first(serving(requests_per_s=90.0))
    assert found.settings["replicas"] > 5 and found.gain == found.share


def test_a_load_within_the_limits_is_carried_whatever_was_predicted() -> None:
    assert "overloaded" not in codes(serving(requests_per_s=45.0, ttft_p95_s=1.0, tpot_p95_s=0.1))


def test_fewer_replicas_that_the_core_says_carry_it_are_the_change() -> None:
    found = first(serving(requests_per_s=8.0, **QUIET))
    assert found.settings["replicas"] == found.evidence[0].expected


def test_a_peak_that_comes_by_chance_is_no_burst() -> None:
    assert "bursts" not in codes(serving(peak_requests_per_s=36.0, tpot_p50_s=0.12))


def test_a_slow_start_costs_per_restart_or_an_unknown_share() -> None:
    assert first(serving(cold_start_s=900.0)).share is None
    often, seldom = (first(serving(cold_start_s=900.0, restarts_per_day=n)) for n in (20.0, 5.0))
    assert often.share == pytest.approx(4 * seldom.known_cost_share)


def test_redundancy_is_not_idle() -> None:
    spare = replace(HEAVY, peak_per_s=30.0)
    assert "idle_fleet" not in codes(serving(workload=spare, requests_per_s=29.0))


HITS = replace(HEAVY, cached_prefix_fraction=0.5)
DRAFTS = replace(SERVES, speculative=Speculative(DraftMethod.NGRAM, 3, 0.8))


@pytest.mark.parametrize(
    ("code", "seen"),
    [
        ("cache_full", {"cache_usage": 0.99, "waiting": 20.0}),
        ("preemptions", {"preemptions_per_request": 0.5}),
    ],
)
def test_a_cause_planted_comes_first_of_room(code: str, seen: dict[str, Any]) -> None:
    assert first(serving(**seen)).code == code


def test_a_batch_that_was_set_too_small_is_found_and_judged_without_its_limit() -> None:
    found = first(serving(replace(SERVES, max_batch=4), running=4.0, waiting=30.0))
    assert found.code == "batch_limit" and found.settings == {"max_batch": None}
    assert found.gain is not None and 0 < found.gain < 1


def test_memory_that_the_engine_was_not_given_is_given_back() -> None:
    found = first(serving(replace(SERVES, memory_fraction=0.8), cache_usage=0.99, waiting=20.0))
    assert found.code == "cache_full" and found.gain is not None


def test_prefixes_that_are_not_found_cost_what_they_save() -> None:
    assert "prefix_misses" in codes(serving(workload=HITS, prefix_hit_share=0.02))
    assert "prefix_misses" not in codes(serving(workload=HITS, prefix_hit_share=0.45))


def test_a_prefix_cache_that_is_off_is_turned_on() -> None:
    off = replace(SERVES, scheduler=SchedulerSettings(prefix_cache=False))
    found = next(f for f in serving(off, HITS, prefix_hit_share=0.0).findings if f.code == "prefix_misses")
    assert found.settings == {"scheduler.prefix_cache": True} and found.cause == "The prefix cache is off."


def test_drafts_that_are_not_accepted_are_found() -> None:
    assert "poor_drafts" in codes(serving(DRAFTS, acceptance_rate=0.2))
    assert "poor_drafts" not in codes(serving(DRAFTS, acceptance_rate=0.75))


@pytest.mark.parametrize(
    ("code", "seen"),
    [
        ("queueing", {"queue_p50_s": 4.0, "ttft_p50_s": 4.2}),
        ("late_first_token", {"ttft_p50_s": 3.0}),
        ("slow_decode", {"tpot_p50_s": 0.5}),
        ("slow_tail", {"ttft_p95_s": 60.0}),
        ("slow_tail", {"tpot_p95_s": 2.0}),
        ("stalled_tokens", {"inter_token_p50_s": 0.07, "inter_token_p99_s": 2.0}),
        ("low_throughput", {"output_tokens_per_s": 600.0, "waiting": 9.0}),
    ],
)
def test_a_cause_planted_comes_first_of_waiting(code: str, seen: dict[str, Any]) -> None:
    assert first(serving(**seen)).code == code


def test_a_wait_costs_its_share_of_a_whole_request() -> None:
    found, p, s = first(serving(ttft_p50_s=3.0)), expected(True).performance, service()
    assert p is not None and p.ttft is not None and p.ttft.p50_s and s.tpot_p50_s
    assert found.share == pytest.approx((3.0 - p.ttft.p50_s) / (3.0 + 99 * s.tpot_p50_s), rel=0.01)


def test_tokens_are_held_against_what_is_expected_of_as_many_as_run() -> None:
    s = service()
    assert s.tpot_p50_s and s.running
    slower: dict[str, Any] = {"tpot_p50_s": 2.5 * s.tpot_p50_s}
    alone, crowded = serving(**slower), serving(**slower, running=3 * s.running)
    assert "slow_decode" in codes(alone)
    usual = [e.expected for found in (alone, crowded) for f in found.findings for e in f.evidence]
    assert len(usual) < 2 or usual[1] is None or usual[0] is None or usual[1] >= usual[0]


def test_a_queue_is_no_late_first_token() -> None:
    assert "late_first_token" not in codes(serving(queue_p50_s=4.0, ttft_p50_s=4.2))


def test_a_tail_costs_the_few_that_it_meets() -> None:
    assert 0 < first(serving(ttft_p95_s=60.0)).known_cost_share < 0.05
