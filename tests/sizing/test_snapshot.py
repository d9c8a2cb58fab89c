"""The prices in force on a day: the newest ones observed by then, and none observed later."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from datetime import date
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.sizing.hardware.listings import purchase_terms
from app.sizing.hardware.parts import Offer, day_numbers
from app.sizing.question import Constraints, Question
from app.sizing.recommend import recommend_hardware
from app.sizing.snapshot import Catalog, last_day_of, offers_in_force, was_observed_by
from tests.examples import CHAT
from tests.sizing.small import offer, snapshot

FIRST, LAST = date(2022, 6, 23), date(2026, 12, 31)
DAYS = st.dates(FIRST, LAST).map(date.isoformat)


@pytest.mark.parametrize(
    ("observed", "last"), [("2025", "2025-12-31"), ("2025-03", "2025-03-31"), ("2025-03-07", "2025-03-07"), ("", "")]
)
def test_a_month_or_a_year_counts_from_its_last_day(observed: str, last: str) -> None:
    assert last_day_of(observed) == last
    assert was_observed_by(observed, last) == bool(observed)
    assert not was_observed_by(observed, "2024-12-31")


def test_the_newest_price_observed_by_a_day_is_in_force() -> None:
    now = offer("card-1", 0.9)
    past = [replace(now, usd_per_hour=usd, as_of=day) for usd, day in ((0.5, "2025-02-01"), (0.7, "2025-06-01"))]

    def in_force(day: str) -> list[float]:
        return [o.usd_per_hour for o in offers_in_force([now], past, day)]

    assert in_force("2025-01-31") == []
    assert in_force("2025-02-01") == in_force("2025-05-31") == [0.5]
    assert in_force("2025-06-01") == in_force("2025-12-31") == [0.7]
    assert in_force("2026-01-01") == [0.9]


@pytest.mark.parametrize(
    ("change", "until"),
    [
        ({}, "2026-01-01"),  # the same accelerator under another name
        ({"accelerator": "acme-big"}, "2026-01-01"),  # another one, from the same price list
        ({"accelerator": "acme-big", "source": "another list"}, None),
        ({"provider": "cloudy"}, None),
    ],
)
def test_a_name_that_is_no_longer_listed_counts_until_the_next_prices(
    change: dict[str, Any], until: str | None
) -> None:
    old = replace(offer("card-1", 0.5), instance_type="old-name", as_of="2025-02-01")
    now = replace(offer("card-1", 0.9), **change)
    assert old in offers_in_force([now], [old], "2025-12-31")
    assert (old in offers_in_force([now], [old], "2026-01-01")) == (until is None)


def test_a_catalogue_without_newer_prices_stays_as_it_is() -> None:
    of = snapshot(past_offers=[replace(offer("card-1", 0.5), as_of="2025-02-01")])
    assert of.first_rent_day == "2025-02-01"
    assert of.on_day("2026-01-01") is of
    dated = of.on_day("2025-12-31")
    assert [(o.usd_per_hour, o.as_of) for o in dated.offers] == [(0.5, "2025-02-01")]
    assert (dated.prices_as_of, dated.version) == ("2025-02-01", of.version)
    assert not dated.listings.is_owned.any()  # all machines were priced on 2026-01-01


def test_every_series_of_the_price_history_answers_each_of_its_days(catalog: Catalog) -> None:
    series = defaultdict[object, list[Offer]](list)
    for past in catalog.past_offers:
        series[past.key].append(past)
    now = {o.key: o for o in catalog.offers}
    changed = 0
    for key, prices in series.items():
        current = [now[key]] if key in now else []
        for row in prices:
            (found,) = offers_in_force(current, prices, row.as_of)
            same_day = {p.usd_per_hour for p in (*prices, *current) if p.as_of == row.as_of}
            assert found.as_of == row.as_of and found.usd_per_hour in same_day
        changed += len({p.usd_per_hour for p in prices}) > 1
    assert len(series) > 200 and changed >= 39


@given(DAYS)
@settings(max_examples=25)
def test_no_price_of_a_day_was_observed_later(catalog: Catalog, day: str) -> None:
    dated = catalog.on_day(day)
    parts = {a.slug: a for a in dated.accelerators}
    observed = [o.as_of for o in dated.offers]
    observed += [purchase_terms(s, parts[s.accelerator]).observed for s in dated.owned_systems]
    observed += [price.observed for prices in dated.hosted.values() for price in prices]
    assert max(observed) <= day
    assert dated.prices_as_of <= day
    assert (dated.listings.observed_days <= day_numbers([day])[0]).all()
    newest = {
        o.key: o.as_of for o in sorted((*catalog.past_offers, *catalog.offers), key=lambda o: o.as_of) if o.as_of <= day
    }
    assert all(o.as_of == newest[o.key] for o in dated.offers)
    assert {o.key for o in catalog.offers if o.as_of <= day} <= {o.key for o in dated.offers}


@given(DAYS)
@settings(max_examples=5)
def test_an_answer_of_a_day_shows_no_later_price(catalog: Catalog, day: str) -> None:
    answer = recommend_hardware(Question(CHAT, Constraints(), today=day, limit=20), catalog.on_day(day))
    for ranked in answer.recommendations:
        price = ranked.estimate.cost.price if ranked.estimate.cost else None
        assert price is not None
        assert price.terms.observed <= day
        assert price.age_days is not None
        assert price.age_days >= 0
    assert all(cheaper.observed <= day for cheaper in answer.cheaper_if)
