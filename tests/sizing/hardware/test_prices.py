"""Kinds of price, commitments and dates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from app.sizing.hardware.parts import PricingModel
from app.sizing.hardware.prices import (
    DEPRECATED_KINDS,
    FIRM,
    PRICE_KIND_TEXTS,
    Commitment,
    PriceKind,
    current_kind,
    day_numbers,
)


def test_every_kind_has_words_and_some_are_firm() -> None:
    assert set(PRICE_KIND_TEXTS) == set(PriceKind)
    assert set(PriceKind) - set(FIRM) == {PriceKind.BROKER, PriceKind.LAUNCH, PriceKind.PRESS, PriceKind.ESTIMATE}


@pytest.mark.parametrize("pricing", PricingModel)
def test_a_way_of_renting_says_how_long_it_binds(pricing: PricingModel) -> None:
    bound = {"1y": Commitment.ONE_YEAR, "3y": Commitment.THREE_YEARS}
    assert pricing.commitment is bound.get(pricing.value[-2:], Commitment.NONE)


def test_dates_are_days_apart() -> None:
    found = day_numbers(["2024-02-28", "2024-03-01", "2024", ""])
    assert found[1] - found[0] == 2  # a leap year
    assert found[2] < found[0]
    assert np.isnan(found[3])


@pytest.mark.parametrize(("old", "current"), DEPRECATED_KINDS.items())
def test_a_deprecated_spelling_means_the_current_kind(old: str, current: str) -> None:
    assert PriceKind(old) is PriceKind(current) is PriceKind(current_kind(old))
    assert old not in set(PriceKind)


@pytest.mark.parametrize("value", ["guess", "", None, 3, ["reckoned"]])
def test_any_other_spelling_is_an_error(value: Any) -> None:
    assert current_kind(value) == value
    with pytest.raises(ValueError, match="is not a valid PriceKind"):
        PriceKind(value)
