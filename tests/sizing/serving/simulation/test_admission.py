"""Prefix cache hits, and requests that wait for memory."""

from __future__ import annotations

import numpy as np
import pytest

from tests.sizing.serving.simulation.given import replica, requests, simulated


def hits(cache_bytes: float, gap_s: float, shared: int = 0) -> float:
    q = requests(
        100,
        10,
        count=400,
        arrival_s=np.cumsum(np.full(400, 0.1)),
        prefix_tokens=np.full(400, 80),
        shared_tokens=shared,
        reuse_gap_s=gap_s,
    )
    return simulated(replica(cache_bytes=cache_bytes), q).hit_tokens


def test_a_prefix_is_found_until_others_have_taken_its_room() -> None:
    # each request allocates 30 tokens in addition to its prefix or 110 without it; ten arrive in a second
    assert hits(1e9, 1.0) == pytest.approx(80)
    assert hits(500.0, 10.0) < 4  # of the first few
    assert hits(500.0, 10.0, shared=50) == pytest.approx(50, abs=2)
    assert hits(20_000.0, 1.0) >= hits(20_000.0, 60.0)


def test_no_more_sequences_run_than_are_allowed() -> None:
    found = simulated(replica(max_sequences=4), requests(100, 50, count=200, in_flight=16))
    assert found.running <= 4
    assert found.waiting == pytest.approx(12, rel=0.2)


def test_a_prompt_larger_than_the_cache_runs_alone() -> None:
    found = simulated(replica(cache_bytes=50.0), requests(100, 5, count=3, in_flight=3))
    assert found.running <= 1
