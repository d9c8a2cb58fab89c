"""Where requests wait, and what of it is a consequence."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sizing.diagnosis.given import codes, expected, first, service, serving


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
def test_a_cause_planted_comes_first(code: str, seen: dict[str, Any]) -> None:
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
