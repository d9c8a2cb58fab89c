"""Kinds of price, commitments and dates."""

from __future__ import annotations

import numpy as np
import pytest

from app.sizing.hardware.parts import PricingModel
from app.sizing.hardware.prices import FIRM, IN_WORDS, Commitment, PriceKind, days


def test_every_kind_has_words_and_some_are_firm() -> None:
    assert set(IN_WORDS) == set(PriceKind)
    assert set(PriceKind) - set(FIRM) == {PriceKind.BROKER, PriceKind.LAUNCH, PriceKind.PRESS, PriceKind.RECKONED}


@pytest.mark.parametrize("pricing", PricingModel)
def test_a_way_of_renting_says_how_long_it_binds(pricing: PricingModel) -> None:
    bound = {"1y": Commitment.ONE_YEAR, "3y": Commitment.THREE_YEARS}
    assert pricing.commitment is bound.get(pricing.value[-2:], Commitment.NONE)


def test_dates_are_days_apart() -> None:
    found = days(["2024-02-28", "2024-03-01", "2024", ""])
    assert found[1] - found[0] == 2  # a leap year
    assert found[2] < found[0]
    assert np.isnan(found[3])
