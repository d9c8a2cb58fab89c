"""The daily savings of each pricing model, computed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from app.sizing.assumptions import Assumptions
from app.sizing.columns import one
from app.sizing.day.money import paid_usd_per_hour, savings_note
from app.sizing.hardware.parts import BY_THE_HOUR, PricingModel
from app.sizing.question import Economics

ECONOMICS = Economics(electricity_usd_per_kwh=0.1, pue=1.25)


@pytest.mark.parametrize(
    ("pricing", "usd"),
    [
        (PricingModel.ON_DEMAND, 480.0),
        (PricingModel.SPOT, 480.0),
        (PricingModel.OWNED, 10 * 0.5 * 0.6 * 24 * 1.25 * 0.1),
        (PricingModel.RESERVED_1Y, 0.0),
        (PricingModel.COMMITTED_3Y, 0.0),
        (PricingModel.CAPACITY_BLOCK, 0.0),
        (None, 0.0),
    ],
)
def test_hours_are_saved_on_demand_energy_of_what_is_owned_and_nothing_of_what_is_reserved(
    pricing: PricingModel | None, usd: float
) -> None:
    terms = np.array([pricing in BY_THE_HOUR]), np.array([pricing is PricingModel.OWNED])
    figures = np.array([40.0]), np.array([10_000.0]), np.array([0.5])
    paid = paid_usd_per_hour(*figures, *terms, Assumptions(), ECONOMICS)
    assert 24 * (40.0 - one(paid)) == pytest.approx(usd)


def test_every_way_to_pay_says_what_it_saves() -> None:
    notes = {pricing: savings_note(pricing) for pricing in (*PricingModel, None)}
    assert "only energy" in notes[PricingModel.OWNED]
    assert "nothing is saved" in notes[PricingModel.RESERVED_3Y]
    assert len(set(notes.values())) == 4
