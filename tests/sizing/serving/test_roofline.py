"""Computing against reading."""

from __future__ import annotations

import pytest

from app.sizing.serving.roofline import active_expert_share, smooth_maximum
from tests.examples import col


def test_touched_experts_follow_the_batch() -> None:
    assert active_expert_share(col(32), col(8 / 256))[0] == pytest.approx(1 - (1 - 1 / 32) ** 32)
    assert active_expert_share(col(5), col(0.0))[0] == 0
    assert active_expert_share(col(1), col(1.0))[0] == pytest.approx(1)


def test_smooth_maximum_is_at_least_either_bound() -> None:
    assert smooth_maximum(col(3, 1), col(4, 1), col(2, 1))[0] == pytest.approx(5)
    assert smooth_maximum(col(3, 1), col(4, 1), col(2, 1))[1] == pytest.approx(2)
    assert smooth_maximum(col(0), col(7), col(2.4))[0] == pytest.approx(7)
    assert smooth_maximum(col(4), col(3), col(2))[0] == pytest.approx(5)
    assert smooth_maximum(col(0), col(0), col(2))[0] == 0
