"""Where a step's time goes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sizing.diagnosis.given import codes, expected, first, training

NO_TIMES: dict[str, Any] = dict.fromkeys(("step_time_s", "compute_s", "communication_s"))


@pytest.mark.parametrize(
    ("code", "seen"),
    [
        ("slow_kernels", {"compute_s": 20.0, "step_time_s": 21.0}),
        ("exposed_communication", {"communication_s": 5.0, "step_time_s": 13.0}),
        ("input_bound", {"input_s": 4.0, "step_time_s": 12.0}),
        ("synchronisation", {"synchronisation_s": 4.0, "step_time_s": 12.0}),
        ("outside_kernels", {"outside_kernels_s": 4.0, "step_time_s": 12.0}),
        ("slow_optimizer", {"optimizer_s": 4.0, "step_time_s": 12.0}),
        ("pipeline_bubble", {"bubble_s": 4.0, "step_time_s": 12.0}),
        ("slow_step", {**NO_TIMES, "step_time_s": 40.0}),
        ("slow_step", {**NO_TIMES, "tokens_per_s": 1e5}),
        ("low_mfu", {**NO_TIMES, "mfu": 0.05}),
        ("miscounted_mfu", {"mfu": 0.9}),
        ("slow_rank", {"slowest_rank_s": 12.0, "median_rank_s": 8.0, "synchronisation_s": 4.0, "step_time_s": 12.0}),
        ("allocator_retries", {"allocator_retries_per_step": 1.0}),
        ("much_memory", {"memory_peak_bytes": 200 * 2**30}),
    ],
)
def test_a_cause_planted_comes_first(code: str, seen: dict[str, Any]) -> None:
    assert first(training(**seen)).code == code


def test_a_step_a_rate_and_an_mfu_say_the_same() -> None:
    p = expected(False).performance
    assert p is not None and p.step_time_s and p.tokens_per_s and p.mfu
    said: tuple[dict[str, Any], ...] = (
        {"step_time_s": 3 * p.step_time_s},
        {"tokens_per_s": p.tokens_per_s / 3},
        {"mfu": p.mfu / 3},
    )
    costs = [first(training(**{**NO_TIMES, **seen})).share for seen in said]
    assert costs == pytest.approx([2 / 3] * 3)


def test_allocator_flushes_cost_their_time_or_an_unknown_share() -> None:
    assert first(training(allocator_retries_per_step=1.0)).share is None
    p = expected(False).performance
    assert p is not None and p.step_time_s
    slow = training(allocator_retries_per_step=1.0, step_time_s=1.2 * p.step_time_s)
    assert first(slow).share == pytest.approx(1 - 1 / 1.2)
    outside = training(allocator_retries_per_step=1.0, outside_kernels_s=4.0, step_time_s=12.0)
    assert first(outside).code == "allocator_retries" and first(outside).share == pytest.approx(1 / 3)


def test_an_mfu_that_follows_from_the_step_is_no_finding() -> None:
    p = expected(False).performance
    assert p is not None and p.mfu
    assert codes(training(mfu=p.mfu)) == []
