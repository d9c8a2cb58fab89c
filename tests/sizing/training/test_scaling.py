"""More accelerators, and where they stop paying."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.sizing.snapshot import Catalog
from tests.sizing.training.layouts import WORKLOAD, asked


def test_the_curve_marks_where_more_accelerators_stop_paying(catalog: Catalog) -> None:
    found = asked(catalog, replace(WORKLOAD, units=1e12, global_batch=512), accelerators_per_replica=64)
    curve = found.scaling
    assert curve is not None
    sizes = [p.accelerators for p in curve.points]
    assert sizes == sorted(sizes)
    assert curve.minimum == sizes[0]
    assert curve.knee in sizes
    days = {p.accelerators: p.days for p in curve.points}
    assert days[64] == pytest.approx(found.performance.days, rel=1e-9)  # type: ignore[union-attr]
    after = [s for s in sizes if s > curve.knee]
    if after:
        step = after[0] / curve.knee
        assert days[curve.knee] / days[after[0]] - 1 < 0.7 * (step - 1)
    assert curve.binds
