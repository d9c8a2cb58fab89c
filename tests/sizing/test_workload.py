"""What somebody wants to run, in numbers."""

from __future__ import annotations

import numpy as np
import pytest

from app.sizing.workload import Lengths


def test_a_length_distribution_passes_through_its_mean_and_p95() -> None:
    lengths = Lengths(1024, 3000)
    assert lengths.quantile(95) == pytest.approx(3000)
    mean = np.exp(np.log(1024) - lengths.sigma**2 / 2 + lengths.sigma**2 / 2)
    assert mean == pytest.approx(1024)
    assert Lengths(500).quantile(99) == 500
