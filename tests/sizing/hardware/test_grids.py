"""Carbon intensity of grids, grids of regions, and electricity prices."""

from __future__ import annotations

import re

import pytest

from app.catalog.files import read_rows
from app.sizing.hardware.grids import (
    Basis,
    Grid,
    electricity_price,
    electricity_prices,
    grid_codes,
    list_grids,
    region_grid_codes,
)

GRIDS = {grid.grid: grid for grid in list_grids()}


@pytest.mark.parametrize("grid", list_grids(), ids=lambda grid: grid.grid)
def test_an_intensity_lies_between_hydropower_and_lignite(grid: Grid) -> None:
    """Hydropower emits a few g/kWh over its life; old gas turbines and lignite up to 1,300."""
    assert 5 < grid.g_per_kwh < 1400
    assert 2022 <= grid.year <= 2025
    assert re.fullmatch(r"[A-Z]{2}(-[A-Z]+)?", grid.grid) and grid.grid[:2] == grid.country


def test_every_grid_has_one_row_and_its_country_a_row_of_its_own() -> None:
    assert len(grid_codes()) == len(list_grids())
    assert {grid.country for grid in list_grids()} <= set(grid_codes())


def test_parts_of_a_country_differ_from_it_and_count_only_the_fuel_burned() -> None:
    for grid in list_grids():
        whole = grid.grid == grid.country
        assert (grid.basis is Basis.LIFECYCLE) == whole
    # Hydropower feeds Québec and coal most of Utah; both are far from the mean of their country.
    assert GRIDS["CA-QC"].g_per_kwh < GRIDS["CA"].g_per_kwh / 10
    assert GRIDS["US-UT"].g_per_kwh > GRIDS["US"].g_per_kwh * 1.4


def test_every_country_of_an_offer_has_a_grid() -> None:
    countries = {row["country_or_geo"] for row in read_rows("offers.csv")}
    assert {c for c in countries if re.fullmatch("[A-Z]{2}", c)} <= set(grid_codes())


def test_the_grid_of_a_region_is_in_the_country_of_its_offers() -> None:
    offered = {(row["provider"], row["region"]): row["country_or_geo"] for row in read_rows("offers.csv")}
    for place, code in region_grid_codes().items():
        assert list_grids()[code].country == offered.get(place, list_grids()[code].country), place
    assert len(region_grid_codes().keys() & offered.keys()) > 50


def test_regions_of_one_name_at_two_providers_may_be_on_two_grids() -> None:
    """us-central1 is Iowa at Google and Missouri at Nebius."""
    assert ("gcp", "us-central1") in region_grid_codes() and ("nebius", "us-central1") not in region_grid_codes()


def test_electricity_costs_industry_between_three_and_forty_cents() -> None:
    for country, price in electricity_prices().items():
        assert 0.03 < price.usd_per_kwh < 0.4, country
        assert country in grid_codes()
    german = electricity_price("DE")
    # Eurostat states 0.1922 EUR/kWh for the second half of 2025; a euro was worth 1.1657 USD.
    assert german is not None and german.usd_per_kwh == pytest.approx(0.1922 * 1.1657, rel=0.002)
