"""Whether a service carries its load, and what else is wrong with the load."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.sizing.comparing.given import HEAVY
from tests.sizing.diagnosis.given import codes, expected, first, serving

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
