"""Scaling compared with the estimate at the same numbers of accelerators."""

from __future__ import annotations

from unittest.mock import patch

import pytest

from app.sizing.diagnosis import scaling
from app.sizing.diagnosis.observed import ScalePoint
from app.sizing.diagnosis.scaling import expected_scaling_ratio
from tests.sizing.diagnosis.given import codes, first, training
from tests.sizing.diagnosis.test_case import case_training


def scales(ratio: float) -> tuple[ScalePoint, ...]:
    """Each of 32 does so much of what each of 8 does."""
    return ScalePoint(8, 8e4), ScalePoint(32, 4 * 8e4 * ratio)


def test_less_than_the_core_expects_is_found_and_costs_the_difference() -> None:
    usual = min(1.0, expected_scaling_ratio(case_training(), 8, 32) or 0.0)
    found = first(training(scales=scales(0.4)))
    assert found.code == "poor_scaling" and found.share == pytest.approx(1 - 0.4 / usual)


def test_what_the_core_expects_is_no_finding() -> None:
    usual = min(1.0, expected_scaling_ratio(case_training(), 8, 32) or 0.0)
    assert codes(training(scales=scales(usual * 0.95))) == []


def test_where_nothing_runs_at_a_scale_nothing_is_expected_there() -> None:
    with patch.object(scaling, "expected_each", return_value=None):
        assert expected_scaling_ratio(case_training(), 8, 32) is None
        assert codes(training(scales=scales(0.1))) == []


def test_one_scale_says_nothing() -> None:
    assert codes(training(scales=(ScalePoint(8, 1.0),))) == []
    assert codes(training(scales=(ScalePoint(8, 1.0), ScalePoint(8, 100.0)))) == []
