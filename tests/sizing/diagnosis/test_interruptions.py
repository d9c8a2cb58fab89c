"""What keeps a run from stepping."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sizing.diagnosis.given import codes, first, training


@pytest.mark.parametrize(
    ("code", "seen"),
    [
        ("slow_checkpoints", {"checkpoint_s": 600.0}),
        ("frequent_checkpoints", {"checkpoint_interval_s": 10.0}),
        ("run_restarts", {"restarts_per_day": 12.0}),
        ("slow_warm_up", {"restarts_per_day": 4.0, "warmup_s": 5400.0, "checkpoint_interval_s": 600.0}),
        ("evaluation", {"evaluation_share": 0.3}),
    ],
)
def test_a_cause_planted_comes_first(code: str, seen: dict[str, Any]) -> None:
    assert first(training(**seen)).code == code


def test_a_restart_costs_the_work_since_the_last_checkpoint_and_the_time_to_be_back() -> None:
    found = first(training(restarts_per_day=12.0, checkpoint_interval_s=3600.0))
    assert found.share == pytest.approx(12 * (600 + 1800) / 86400, rel=0.05)


def test_warming_up_once_costs_next_to_nothing() -> None:
    assert "slow_warm_up" not in codes(training(warmup_s=1200.0))
