"""What a deployment costs, worked by hand."""

from __future__ import annotations

import pytest

from app.sizing.decisions.cost import kwh_per_million, usd_per_million
from tests.examples import col


def test_cost_and_energy_per_million() -> None:
    assert usd_per_million(col(110.2), col(27000))[0] == pytest.approx(1.134, abs=1e-3)
    assert kwh_per_million(col(11200), col(27000))[0] == pytest.approx(0.115, abs=1e-3)
