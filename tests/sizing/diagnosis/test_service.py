"""Waits at several loads, compared with the curve of the estimate. Whether a service carries its load, and what
else is wrong with the load. Room in the batch and in the cache, prefixes and drafts. Where requests wait, and
what of it is a consequence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from app.sizing.diagnosis import service as service_checks
from app.sizing.diagnosis.case import Case, LoadObservation, Observations, ServiceObservation
from app.sizing.diagnosis.diagnose import Diagnosis, diagnose
from app.sizing.diagnosis.service import (
    MULTI_ACCELERATOR_ADVICE,
    SINGLE_ACCELERATOR_ADVICE,
    excess_preemptions,
    explain_prefix_misses,
    find_bursts,
    find_full_cache,
    find_idle_fleet,
    find_late_first_token,
    find_low_throughput,
    find_overload,
    find_poor_drafts,
    find_preemptions,
    find_queueing,
    find_request_errors,
    find_saturation,
    find_slow_decode,
    find_slow_tail,
    find_stalled_tokens,
    find_start_problems,
    find_uneven_replicas,
    prefix_miss_loss,
    rate_at_latency,
)
from app.sizing.hardware.engines.record import SchedulerSettings
from app.sizing.question import Deployment, DraftMethod, Question, Speculative
from app.sizing.result import LoadPoint
from app.sizing.workload import InferenceWorkload, Slo
from tests.sizing.compare.given import HEAVY
from tests.sizing.diagnosis.given import (
    PLANNED_SERVICE,
    SERVES,
    case_by_hand,
    codes,
    expected,
    first,
    of_service,
    service,
    serving,
    shows,
)
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


def test_a_fleet_that_misses_its_limits_is_not_idle() -> None:
    seen = {"requests_per_s": 8.0, **QUIET, "tpot_p95_s": 0.05}
    assert codes(serving(**seen)) == ["idle_fleet"]
    assert codes(serving(workload=replace(HEAVY, slo=Slo(None, 0.049, None, 95.0)), **seen)) == ["limit_missed"]


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


UNSIMULATED = replace(PLANNED_SERVICE, simulation=None)
UNKNOWN = replace(PLANNED_SERVICE, requests_per_s_capacity=None)
SLOW_TOKENS = {"tpot_p50_s": 0.08, "requests_per_s": 30.0}


def test_a_peak_is_a_burst_beyond_four_deviations_of_ten_seconds_and_the_capacity() -> None:
    # 30 requests/s vary by sqrt(30 / 10) a second in windows of ten: 36.9 is chance, as is a fourth more: 37.5.
    narrow = replace(PLANNED_SERVICE, requests_per_s_capacity=31.0)
    for peak, burst in ((37.4, False), (37.6, True)):
        found = of_service(find_bursts, narrow, peak_requests_per_s=peak, **SLOW_TOKENS)
        assert (found is not None) == burst
    # Of one request/s, 2.26 is chance.
    calm = replace(HEAVY, peak_per_s=1.0)
    slow = replace(PLANNED_SERVICE, requests_per_s_capacity=1.5)
    quiet: dict[str, Any] = {**SLOW_TOKENS, "requests_per_s": 1.0, "workload": calm}
    for peak, burst in ((2.2, False), (2.3, True), (3.0, True)):
        assert (of_service(find_bursts, slow, peak_requests_per_s=peak, **quiet) is not None) == burst
    # More than planned is expected of the rate that was planned.
    assert of_service(find_bursts, slow, peak_requests_per_s=3.0, **quiet, planned=HEAVY) is None
    found = of_service(find_bursts, peak_requests_per_s=50.0, **SLOW_TOKENS)
    assert found.share == pytest.approx(1 - 40 / 50) and found.gain is None and shows(found, 50.0, 40.0, 30.0)
    assert (found.evidence[0].observed, found.evidence[0].expected) == (50.0, 40.0)
    assert of_service(find_bursts, peak_requests_per_s=50.0, requests_per_s=30.0, ttft_p50_s=0.3) is not None
    for other in (
        {"peak_requests_per_s": 40.0, **SLOW_TOKENS},
        {"peak_requests_per_s": 60.0, "requests_per_s": 41.0, "tpot_p50_s": 0.08},
        {"peak_requests_per_s": 50.0, "requests_per_s": 30.0, "tpot_p50_s": 0.06, "ttft_p50_s": 0.24},
        {"requests_per_s": 30.0, "tpot_p50_s": 0.08},
        {"peak_requests_per_s": 50.0, "tpot_p50_s": 0.08},
    ):
        assert of_service(find_bursts, **other) is None
    assert of_service(find_bursts, UNKNOWN, peak_requests_per_s=50.0, **SLOW_TOKENS) is None


def test_a_preemption_costs_its_part_of_all_work() -> None:
    # 0.6 seen and 0.1 expected: half a request is computed again for each one answered.
    found = of_service(find_preemptions, preemptions_per_request=0.6)
    assert found.share == pytest.approx(0.5 / 1.5) == found.gain and shows(found, 0.6, 0.1)
    assert (found.evidence[0].observed, found.evidence[0].expected) == (0.6, pytest.approx(0.1))
    assert of_service(find_preemptions, UNSIMULATED, preemptions_per_request=0.6).share == pytest.approx(0.6 / 1.6)
    assert of_service(find_preemptions, preemptions_per_request=0.14) is None
    assert of_service(find_preemptions, preemptions_per_request=0.16) is not None
    assert of_service(find_preemptions) is None
    often = replace(PLANNED_SERVICE.simulation, preemptions_per_request=1.0)  # type: ignore[type-var]
    assert of_service(find_preemptions, replace(PLANNED_SERVICE, simulation=often), preemptions_per_request=1.2) is None
    shares = [of_service(find_preemptions, preemptions_per_request=n).share for n in (0.2, 0.5, 2.0, 20.0)]
    assert shares == sorted(shares) and shares[-1] < 1
    for performance, excess in ((PLANNED_SERVICE, -0.1), (None, 0.0), (UNSIMULATED, 0.0)):
        assert excess_preemptions(case_by_hand(performance=performance)) == pytest.approx(excess)


def test_missed_prefixes_are_missed_in_the_shared_part_too(monkeypatch: pytest.MonkeyPatch) -> None:
    estimated: list[InferenceWorkload] = []

    def record(_case: Case, _deployment: Deployment, question: Question) -> None:
        assert isinstance(question.workload, InferenceWorkload)
        estimated.append(question.workload)

    monkeypatch.setattr(Case, "estimate_variant", record)
    # Half of each prompt is planned as hits, of which four fifths are shared by all; a tenth is found.
    shared = replace(HEAVY, cached_prefix_fraction=0.5, shared_prefix_fraction=0.4, turn_gap_s=30.0)
    case = case_by_hand(performance=PLANNED_SERVICE, workload=shared)
    for gap_s, waits_s in ((None, 30.0), (0.0, 0.0)):
        estimated.clear()
        assert prefix_miss_loss(case, 0.5, 0.1, gap_s) == 0.0
        hits, misses = estimated
        assert (hits.cached_prefix_fraction, hits.shared_prefix_fraction, hits.turn_gap_s) == (0.5, 0.4, waits_s)
        assert misses.cached_prefix_fraction == 0.1 and misses.shared_prefix_fraction == pytest.approx(0.08)


def test_a_queue_costs_the_requests_that_wait() -> None:
    for running, waiting, share in ((10.0, 10.0, 0.5), (10.0, 30.0, 0.75), (30.0, 10.0, None), (10.0, 0.0, None)):
        found = of_service(find_saturation, requests_per_s=38.0, running=running, waiting=waiting)
        assert (None if found is None else found.share) == share
    # Near the capacity: between four fifths of it and all of it.
    for rate, near in ((31.9, False), (32.1, True), (40.0, True), (40.1, False)):
        found = of_service(find_saturation, requests_per_s=rate, running=10.0, waiting=30.0)
        assert (found is not None) == near
        if found is not None:
            assert shows(found, 10.0, 30.0) and found.evidence[0].expected == 40.0
    assert of_service(find_saturation, UNKNOWN, requests_per_s=38.0, running=1.0, waiting=9.0) is None


def test_an_overload_costs_what_exceeds_the_capacity() -> None:
    found = of_service(find_overload, requests_per_s=50.0)
    assert found.share == pytest.approx(0.2) and shows(found, 50.0, 40.0) and "5 replicas instead of 4" in found.change
    for rate, over in ((40.0, False), (42.0, False), (42.2, True)):
        assert (of_service(find_overload, requests_per_s=rate) is not None) == over
    assert of_service(find_overload, requests_per_s=41.0, waiting=9.0, running=9.0) is not None
    fast = {"ttft_p95_s": 9.0, "tpot_p95_s": 0.4}
    assert of_service(find_overload, requests_per_s=60.0, **fast) is None
    for slow in ({**fast, "ttft_p95_s": 11.0}, {**fast, "tpot_p95_s": 0.6}, {"ttft_p95_s": 9.0}, {"tpot_p95_s": 0.4}):
        assert of_service(find_overload, requests_per_s=60.0, **slow) is not None
    assert of_service(find_overload, requests_per_s=60.0, **fast, waiting=9.0, running=1.0) is not None
    assert of_service(find_overload, UNKNOWN, requests_per_s=60.0) is None


def test_a_fleet_is_idle_by_the_replicas_that_the_load_does_not_need() -> None:
    # Ten requests/s and replica, of which 70 % are planned with.
    def idle(rate: float, **seen: Any) -> Any:
        load = replace(HEAVY, peak_per_s=rate, average_per_s=rate / 2)
        return of_service(find_idle_fleet, requests_per_s=rate, workload=load, **seen)

    found = idle(10.0)
    assert found.share == pytest.approx(0.5) and found.settings["replicas"] == 2 and found.evidence[0].expected == 2.0
    assert idle(6.0).share == pytest.approx(0.75) and "1 of 4" in idle(6.0).text
    assert idle(14.5) is None  # three of four
    assert idle(10.0, waiting=9.0, running=1.0) is None
    assert of_service(find_idle_fleet) is None and of_service(find_idle_fleet, UNKNOWN, requests_per_s=1.0) is None


def test_failed_and_unevenly_routed_requests_are_found_from_their_bounds_on() -> None:
    assert of_service(find_request_errors, error_share=0.009) is None and of_service(find_request_errors) is None
    failed = of_service(find_request_errors, error_share=0.0123)
    assert failed.share == failed.gain == 0.0123 and shows(failed, 1.23)
    assert of_service(find_uneven_replicas, busiest_replica_share=1.25) is None
    uneven = of_service(find_uneven_replicas, busiest_replica_share=1.6)
    assert uneven.share == pytest.approx(1 - 1 / 1.6) and shows(uneven, 1.6)


def test_starts_cost_the_time_in_which_a_replica_does_not_serve() -> None:
    assert of_service(find_start_problems, cold_start_s=250.0) is None
    slow = of_service(find_start_problems, cold_start_s=964.0, restarts_per_day=0.5)
    assert slow.code == "slow_start" and slow.share == pytest.approx(0.5 * 864 / 86_400) == slow.gain
    assert shows(slow, 964.0, 100.0) and slow.evidence[0].expected == 100.0
    assert of_service(find_start_problems, cold_start_s=964.0, restarts_per_day=1000.0).share == 1.0
    often = of_service(find_start_problems, restarts_per_day=86.4)
    assert often.code == "service_restarts" and often.share == pytest.approx(0.1) == often.gain and shows(often, 86.4)
    assert of_service(find_start_problems, restarts_per_day=86.4, cold_start_s=50.0).share == pytest.approx(0.05)
    both = list(
        find_start_problems(case_by_hand(performance=PLANNED_SERVICE, restarts_per_day=86.4, cold_start_s=900.0))
    )
    assert [f.code for f in both] == ["slow_start", "service_restarts"] and both[1].share == pytest.approx(0.2)
    assert of_service(find_start_problems, restarts_per_day=0.9) is None
    assert of_service(find_start_problems, restarts_per_day=1.0) is not None
    unknown = replace(PLANNED_SERVICE, cold_start_s=None)
    assert of_service(find_start_problems, unknown, restarts_per_day=9.0) is None


def test_waits_are_compared_with_the_spread_of_published_results() -> None:
    # A request of 100 tokens: 0.2 s and 99 tokens of 0.05 s, where nothing else was seen.
    whole_s = 0.2 + 99 * 0.05
    late = of_service(find_late_first_token, ttft_p50_s=1.2, tpot_p50_s=0.05)
    assert late.share == pytest.approx(1.0 / (whole_s + 1.0)) == late.gain and shows(late, 1200.0, 200.0)
    assert [(e.observed, e.expected) for e in late.evidence] == [(1200.0, 200.0)]
    # 0.52 s of queue, 0.5 more than expected, is not prefill.
    queued = of_service(find_late_first_token, ttft_p50_s=1.2, queue_p50_s=0.52)
    assert queued.evidence[0].observed == pytest.approx(700.0)
    assert of_service(find_late_first_token, UNSIMULATED, ttft_p50_s=1.2, queue_p50_s=0.52).evidence[0].observed == 1200
    for ttft_s, found in ((0.24, False), (0.45, False), (0.6, True)):  # a twentieth of the request at least
        assert (of_service(find_late_first_token, ttft_p50_s=ttft_s) is not None) == found
    wide = replace(PLANNED_SERVICE, intervals=())
    assert of_service(find_late_first_token, wide, ttft_p50_s=0.6) is not None

    queue = of_service(find_queueing, queue_p50_s=1.02, ttft_p50_s=1.2)
    assert queue.share == pytest.approx(1.0 / (1.2 + 99 * 0.05)) and shows(queue, 1020.0, 20.0)
    # Three tenths of the first token at least.
    for queue_s, found in ((0.37, False), (0.39, True)):
        assert (of_service(find_queueing, queue_p50_s=queue_s, ttft_p50_s=1.2) is not None) == found
    assert of_service(find_queueing, UNSIMULATED, queue_p50_s=1.02, ttft_p50_s=1.2) is None

    # Tokens may take a fifth more at the high end of their interval.
    slow = of_service(find_slow_decode, tpot_p50_s=0.1)
    assert slow.share == pytest.approx(0.5) == slow.gain and shows(slow, 100.0, 50.0)
    assert [(e.observed, e.expected) for e in slow.evidence] == [(100.0, 50.0)]
    for tpot_s, found in ((0.062, False), (0.063, True)):
        assert (of_service(find_slow_decode, tpot_p50_s=tpot_s) is not None) == found
    unsure = replace(PLANNED_SERVICE, intervals=(replace(PLANNED_SERVICE.intervals[1], high=0.09),))
    assert of_service(find_slow_decode, unsure, tpot_p50_s=0.085) is None
    linked = replace(case_by_hand(performance=PLANNED_SERVICE, tpot_p50_s=0.1))
    two = replace(linked.expected_estimate.deployment, accelerators_per_replica=2)
    linked = replace(linked, expected_estimate=replace(linked.expected_estimate, deployment=two))
    assert "link" in next(find_slow_decode(linked)).cause and "link" not in slow.cause


def test_a_tail_is_slow_beyond_twice_its_expectation_where_the_median_is_not() -> None:
    for seen, share, figures in (
        ({"ttft_p50_s": 0.2, "ttft_p95_s": 2.0}, 0.05 * 0.8, (20.0, 2000.0, 400.0)),
        ({"ttft_p50_s": 0.2, "ttft_p99_s": 3.0}, 0.01 * 0.8, (100.0, 3000.0, 600.0)),
        ({"tpot_p50_s": 0.05, "tpot_p95_s": 0.5}, 0.05 * 0.8, (20.0, 500.0, 100.0)),
    ):
        found = of_service(find_slow_tail, **seen)
        assert found.share == pytest.approx(share) and shows(found, *figures)
        assert [(e.observed, e.expected) for e in found.evidence] == [figures[1:]]
    dearest = of_service(find_slow_tail, ttft_p50_s=0.2, ttft_p95_s=2.0, ttft_p99_s=60.0)
    assert dearest.share == pytest.approx(0.04)
    for tail_s, found in ((0.99, False), (1.01, True)):  # a fourth beyond twice
        assert (of_service(find_slow_tail, ttft_p50_s=0.2, ttft_p95_s=tail_s) is not None) == found
    assert of_service(find_slow_tail, ttft_p50_s=0.3, ttft_p95_s=2.0) is None
    assert of_service(find_slow_tail, ttft_p50_s=0.2) is None
    assert of_service(find_slow_tail, ttft_p95_s=2.0).share == pytest.approx(0.04)
    assert of_service(find_slow_tail, tpot_p99_s=1.0).share == pytest.approx(0.01 * 0.8)


def test_stalled_tokens_are_compared_by_the_ratio_to_their_median() -> None:
    # 4 times the median is expected; 10 times by a hundredth of all tokens.
    found = of_service(find_stalled_tokens, inter_token_p50_s=0.1, inter_token_p99_s=1.1)
    assert found.share == pytest.approx(0.01 * 7 / (0.99 + 0.11)) and shows(found, 11.0, 4.0)
    for p99_s, stalls in ((0.99, False), (1.01, True)):
        assert (of_service(find_stalled_tokens, inter_token_p50_s=0.1, inter_token_p99_s=p99_s) is not None) == stalls
    assert of_service(find_stalled_tokens, UNSIMULATED, inter_token_p50_s=0.1, inter_token_p99_s=9.0) is None


def test_throughput_is_low_where_requests_wait_and_less_is_written_than_the_hardware_allows() -> None:
    waits: dict[str, Any] = {"waiting": 5.0, "running": 5.0}
    # 40 requests/s of 100 tokens; a fifth less is as expected.
    found = of_service(find_low_throughput, output_tokens_per_s=2000.0, **waits)
    assert found.share == pytest.approx(0.5) == found.gain
    assert shows(found, 2000.0, 4000.0) and (found.evidence[0].observed, found.evidence[0].expected) == (2000.0, 4000.0)
    for rate, low in ((3190.0, True), (3210.0, False)):
        assert (of_service(find_low_throughput, output_tokens_per_s=rate, **waits) is not None) == low
    unsure = replace(PLANNED_SERVICE, interval=replace(PLANNED_SERVICE.interval, low=2000.0))
    for rate, low in ((1990.0, True), (2010.0, False)):
        assert (of_service(find_low_throughput, unsure, output_tokens_per_s=rate, **waits) is not None) == low
    assert of_service(find_low_throughput, output_tokens_per_s=2000.0) is None


def test_a_cache_is_full_from_its_share_on_or_where_it_evicts() -> None:
    for usage, evicted, full in ((0.96, None, True), (0.94, None, False), (0.5, 0.2, True), (0.5, 0.14, False)):
        found = of_service(
            find_full_cache, cache_usage=usage, preemptions_per_request=evicted, waiting=5.0, running=5.0
        )
        assert (found is not None) == full
        if found is not None:
            assert found.share >= 0.5 and found.evidence[0].expected == 0.5 and shows(found, 100 * usage, 5.0)
    assert of_service(find_full_cache, cache_usage=0.99) is None


def test_memory_that_was_set_is_tried_before_the_number_format(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gains of 0.3 from the engine's own share of memory and 0.1 from an 8-bit cache; where no share is set, 0.1."""
    gains = {(None, "fp8"): 0.1, (0.5, "fp8"): 0.1, (None, None): 0.3}
    monkeypatch.setattr(Case, "estimate_gain", lambda _case, d: gains[d.memory_fraction, d.kv_format])
    seen: dict[str, Any] = {"cache_usage": 0.99, "waiting": 5.0, "running": 5.0}
    case = case_by_hand(performance=PLANNED_SERVICE, **seen)
    for fraction, settings, gain in ((0.5, {"memory_fraction": None}, 0.3), (None, {"kv_format": "fp8"}, 0.1)):
        asked = replace(case, requested_deployment=replace(case.requested_deployment, memory_fraction=fraction))
        (found,) = find_full_cache(asked)
        assert (found.settings, found.gain, found.share) == (settings, gain, 0.5)  # half of the requests wait
    gains |= {(None, "fp8"): 0.0}
    (found,) = find_full_cache(case)
    assert (found.settings, found.gain) == ({}, 0.0)


def test_missed_prefixes_cost_speed_by_themselves_or_for_want_of_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the least share on, sessions miss their replica; below it, the cost is that of hits without a gap."""
    case = case_by_hand(performance=PLANNED_SERVICE)
    least = case.assumptions.diagnosed_least_share
    for share, cause, cost in ((least, "Sessions reach other replicas", least), (0.99 * least, "no room", 0.4)):
        losses = {None: share, 0.0: 0.4}
        monkeypatch.setattr(service_checks, "prefix_miss_loss", lambda *_, turn_gap_s=None, of=losses: of[turn_gap_s])
        found = explain_prefix_misses(case, 0.5, 0.1)
        assert cause in found.cause and found.share == cost and not found.settings


def test_drafts_cost_the_tokens_that_a_step_gains_less() -> None:
    """Two drafts: 1 + 0.8 + 0.64 tokens were planned for each step, and 1 + 0.5 + 0.25 are gained."""
    case = case_by_hand(performance=PLANNED_SERVICE, acceptance_rate=0.5)
    asked = replace(case.requested_deployment, speculative=Speculative(DraftMethod.EAGLE, 2, 0.8))
    (found,) = find_poor_drafts(replace(case, requested_deployment=asked))
    assert found.share == pytest.approx(1 - 1.75 / 2.44) and shows(found, 50, 80)
    assert (found.evidence[0].observed, found.evidence[0].expected) == (0.5, 0.8)
    bound = 0.8 / (1 + case.assumptions.diagnosed_slower_share)
    for rate, poor in ((0.99 * bound, True), (1.01 * bound, False)):
        seen = replace(case.observed, service=replace(case.service, acceptance_rate=rate))
        assert bool(list(find_poor_drafts(replace(case, requested_deployment=asked, observed=seen)))) == poor
    assert not list(find_poor_drafts(case))


def test_advice_for_slow_steps_is_that_of_one_accelerator_or_of_several(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Case, "performance_at_observed_batch", lambda _case: None)
    case = case_by_hand(performance=PLANNED_SERVICE, tpot_p50_s=0.1)
    for each, advice in (
        (1, SINGLE_ACCELERATOR_ADVICE),
        (None, SINGLE_ACCELERATOR_ADVICE),
        (2, MULTI_ACCELERATOR_ADVICE),
    ):
        laid_out = replace(case.expected_estimate.deployment, accelerators_per_replica=each)
        (found,) = find_slow_decode(
            replace(case, expected_estimate=replace(case.expected_estimate, deployment=laid_out))
        )
        assert (found.cause, found.change) == advice
        assert found.share == found.gain == pytest.approx(0.5) and shows(found, 100, 50)
