"""What listings come to: as asked or per hour of owning, at the share of the price that is paid."""

from __future__ import annotations

import numpy as np
import pytest

from app.sizing.assumptions import Assumptions
from app.sizing.decisions.listed import listing_prices, paid_share
from app.sizing.decisions.ownership import purchase_usd_per_hour, upkeep_usd_per_hour
from app.sizing.question import Economics
from tests.examples import col
from tests.sizing.small import SMALL

EVERY = np.ones(len(SMALL.listings), bool)
THIRD_OFF = Economics(discounts=(("acme-big", 0.3),))


def test_a_discount_is_of_its_type_alone() -> None:
    share, big = paid_share(SMALL, THIRD_OFF), SMALL.accelerator_index["acme-big"]
    assert set(share[SMALL.listings.accelerator == big]) == {0.7}
    assert set(share[SMALL.listings.accelerator != big]) == {1.0}
    assert set(paid_share(SMALL, Economics())) == {1.0}


def test_rent_falls_by_it_and_owning_by_what_hangs_on_the_price() -> None:
    plain, less = (listing_prices(SMALL, EVERY, Assumptions(), e) for e in (Economics(), THIRD_OFF))
    big, owned = SMALL.listings.accelerator == SMALL.accelerator_index["acme-big"], SMALL.listings.is_owned
    assert less.usd_per_hour[big & ~owned] == pytest.approx(0.7 * plain.usd_per_hour[big & ~owned])
    assert less.purchase_usd[big & owned] == pytest.approx(0.7 * plain.purchase_usd[big & owned])
    saved = col(*(0.3 * plain.purchase_usd[big & owned]))
    by_hand = purchase_usd_per_hour(saved, 26_280.0) + upkeep_usd_per_hour(saved, Assumptions())
    assert plain.usd_per_hour[big & owned] - less.usd_per_hour[big & owned] == pytest.approx(by_hand)
    assert less.usd_per_hour[~big] == pytest.approx(plain.usd_per_hour[~big], nan_ok=True)
    assert (less.draw_w[big] == plain.draw_w[big]).all(), "power keeps its price"
