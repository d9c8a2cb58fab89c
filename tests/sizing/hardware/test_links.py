"""Links and what a collective takes over them, worked by hand."""

from __future__ import annotations

import pytest

from app.sizing.hardware.links import all_reduce_s
from tests.examples import col


def test_ring_all_reduce() -> None:
    assert all_reduce_s(col(1e6), col(8), col(337.5e9))[0] == pytest.approx(1.75e6 / 337.5e9)
    assert all_reduce_s(col(1e6), col(1), col(1e15))[0] == 0
