"""The largest value for which a test holds, and whether memory is enough."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from app.sizing.columns import Column, Columns, Mask
from app.sizing.serving.measured import Memory, bisect_largest
from tests.examples import col


@dataclass(frozen=True, slots=True)
class UpTo(Columns):
    """Holds up to a limit of each row."""

    limit: Column

    def holds(self, values: Column) -> Mask:
        met: Mask = values <= self.limit
        return met


def test_each_row_finds_its_own_limit() -> None:
    found = bisect_largest(col(0, 0, 1, 0), col(10, 10, 64, 10), UpTo(col(3, 99, 41.5, 7)))
    assert found.tolist() == pytest.approx([3, 10, 41.5, 7], rel=1e-4)
    assert found[0] <= 3 < found[0] * 1.0001
    assert bisect_largest(col(0), col(10), UpTo(col(20))).tolist() == [10]
    assert bisect_largest(col(1), col(10), UpTo(col(0.5))).tolist() == [1]  # the lower end where nothing holds
    # of many rows, those that hold nowhere are not halved, and the others find what they would alone
    many = np.tile(col(0.5, 3, 99), 500)
    together = bisect_largest(np.ones(1500), np.full(1500, 10.0), UpTo(many)).reshape(-1, 3)
    assert (together == bisect_largest(col(1, 1, 1), col(10, 10, 10), UpTo(col(0.5, 3, 99)))).all()


def test_what_a_row_comes_to_does_not_depend_on_how_many_others_there_are() -> None:
    low, high, limit = np.arange(401) / 7, 100 + np.arange(401) / 3, 60 + np.arange(401) / 11
    together = bisect_largest(low, high, UpTo(limit))
    for n in (1, 16, 17, 128, 129, 400):
        assert (bisect_largest(low[:n], high[:n], UpTo(limit[:n])) == together[:n]).all()


def test_more_halvings_come_nearer() -> None:
    coarse, fine = (float(bisect_largest(col(0), col(1), UpTo(col(np.pi / 4)), halvings=n)[0]) for n in (4, 30))
    assert coarse == 0.75
    assert fine == pytest.approx(np.pi / 4, abs=1e-8)


def test_what_is_needed_may_be_all_that_is_usable() -> None:
    nan = col(np.nan, np.nan)
    memory = Memory(
        weights_bytes=nan,
        activation_bytes=nan,
        overhead_bytes=nan,
        capacity_bytes=nan,
        usable_bytes=col(80, 80),
        needed_bytes=col(80, 80.01),
        memory_fraction=nan,
        sequences=nan,
    )
    assert memory.fits.tolist() == [True, False]
