"""The shape of a day, from hourly shares or a ratio, and the rates that follow from it."""

from __future__ import annotations

import pytest

from app.errors import Unanswerable
from app.sizing.assumptions import Assumptions
from app.sizing.workload import HOURS, derive_peak_per_s, normalize_hours, smooth_day


@pytest.mark.parametrize("ratio", [1.0, 1.2, 2.0, 3.7, 10.0, 24.0])
def test_a_smooth_day_has_the_ratio_asked_for_and_one_peak(ratio: float) -> None:
    day = smooth_day(ratio, Assumptions())
    assert max(day) / (sum(day) / HOURS) == pytest.approx(ratio, rel=1e-4)
    assert day[14] == max(day)
    rising = [day[(2 + i) % HOURS] for i in range(13)]
    assert rising == sorted(rising)


def test_factors_are_of_any_scale() -> None:
    factors = [float(i) for i in range(HOURS)]
    assert normalize_hours(factors) == pytest.approx(normalize_hours([1e6 * f for f in factors]))


def test_a_peak_and_an_average_give_each_other_or_must_agree() -> None:
    shares = (0.25, 1.0, 0.25)
    assert derive_peak_per_s(None, 5.0, shares) == 10.0
    assert derive_peak_per_s(8.0, None, shares) == 8.0
    assert derive_peak_per_s(10.0, 5.02, shares) == 10.0
    with pytest.raises(Unanswerable, match="Omit the average or the peak"):
        derive_peak_per_s(10.0, 6.0, shares)
