"""Plain values of split pools."""

from __future__ import annotations

from app.sizing.result import PoolLoad, PoolSplit, Transfer


def test_a_split_is_two_loads_and_what_lies_between() -> None:
    way = Transfer(1e6, 1e-3, "network", 1e9, 1000.0, None)
    assert PoolSplit(PoolLoad(0.5, 10.0), PoolLoad(None, 0.0), way).transfer.bytes_per_s == 1e9
