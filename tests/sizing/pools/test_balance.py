"""Requests in flight between two pools."""

from __future__ import annotations

import pytest

from app.sizing.pools.balance import split_in_flight
from tests.examples import col

STRAIGHT = (col(0, 100), col(0, 100))


@pytest.mark.parametrize(
    ("writing", "transfer_s", "held"),
    [
        ((col(0, 100), col(0, 100)), 0.0, (5.0, 5.0)),
        ((col(0, 100), col(0, 25)), 0.0, (2.0, 8.0)),
        ((col(0, 100), col(0, 100)), 3.0, (2.0, 2.0)),  # 2 a second: 2 read, 2 written, 6 on their way
        ((col(0, 4, 100), col(0, 1, 1)), 0.0, (1.0, 9.0)),  # full from four on
    ],
)
def test_as_many_are_read_as_written(
    writing: tuple[object, object], transfer_s: float, held: tuple[float, float]
) -> None:
    found = split_in_flight(10, STRAIGHT, writing, transfer_s)  # type: ignore[arg-type]
    assert found == pytest.approx(held, rel=1e-6)
