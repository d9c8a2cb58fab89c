"""Where rented machines stand and under which law their providers are: certainly, possibly, or unknown.

A price without a region stands for the countries of its provider's data centers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import translate
from functools import cache

import numpy as np

from app.sizing.columns import Codes, Column, Mask
from app.sizing.hardware.grids import grid_codes, list_grids, region_grid_codes
from app.sizing.hardware.parts import UNNAMED_REGIONS
from app.sizing.question import Constraints, Economics
from app.sizing.snapshot import Catalog
from app.sizing.words import join_words, provider_name

MAX_PROVIDERS_SHOWN, MAX_COUNTRIES_SHOWN = 3, 6


def possible_countries(catalog: Catalog, provider: str, region: str | None) -> frozenset[str]:
    """Countries in which a machine of a provider and region may stand, as ISO 3166 codes; empty if unknown."""
    if region is not None and region in catalog.region_countries:
        return frozenset((catalog.region_countries[region],))
    places = catalog.places.get(provider)
    return frozenset() if places is None or places.data_centers is None else places.data_centers.countries


UNKNOWN_GRID = -1  # code of a place whose electricity grid is unknown


def find_place_grid(catalog: Catalog, provider: str, region: str) -> int:
    """Code of the grid that feeds a provider's region; UNKNOWN_GRID if the country or its intensity is unknown.

    A region without a name has a grid if all data centers of its provider are in one country.
    """
    code = catalog.place_grids.get((provider, region))
    if code is None:
        code = region_grid_codes().get((provider, region))
        if code is None:
            countries = possible_countries(catalog, provider, region)
            code = grid_codes().get(min(countries), UNKNOWN_GRID) if len(countries) == 1 else UNKNOWN_GRID
        catalog.place_grids[provider, region] = code
    return code


def find_grids(catalog: Catalog, economics: Economics, rows: Codes) -> Codes:
    """Code of the grid of each listing; owned machines stand in the country of the request."""
    listings, count = catalog.listings, len(catalog.regions)
    places, which = np.unique(listings.provider[rows] * count + listings.region[rows], return_inverse=True)
    names = ((catalog.providers[place // count], catalog.regions[place % count]) for place in places.tolist())
    found = np.array([find_place_grid(catalog, *name) for name in names], dtype=np.int64)
    own = grid_codes().get(economics.country or "", UNKNOWN_GRID)
    codes: Codes = np.where(listings.is_owned[rows], own, found[which])
    return codes


@cache
def grid_intensities() -> Column:
    """Greenhouse gases of a kWh of every grid, g CO2e; the last entry is that of UNKNOWN_GRID."""
    return np.array([*(grid.g_per_kwh for grid in list_grids()), np.nan])


def grid_g_per_kwh(grids: Codes) -> Column:
    """Greenhouse gases of a kWh of each grid, g CO2e; NaN where the grid is unknown."""
    found: Column = grid_intensities()[grids]
    return found


def in_unplaced_regions(catalog: Catalog) -> Mask:
    """Rents whose region has no name, or is in a country that no price list states."""
    known = catalog.region_countries
    unplaced = [region in UNNAMED_REGIONS or (bool(known) and region not in known) for region in catalog.regions]
    found: Mask = ~catalog.listings.is_owned & np.array(unplaced, dtype=bool)[catalog.listings.region]
    return found


def in_regions(catalog: Catalog, constraints: Constraints) -> Mask:
    """Listings that are certainly in the requested regions, and owned machines, which stand where the buyer says.

    A rent without a region is if all countries of its provider's data centers are requested.
    """
    listings = catalog.listings
    if not constraints.names_places:
        return np.ones(len(listings), dtype=bool)
    named = np.zeros(len(catalog.regions), dtype=bool)
    if constraints.regions:
        regions = re.compile("|".join(translate(p.lower()) for p in constraints.regions))
        named = np.array([regions.match(r.lower()) is not None for r in catalog.regions], dtype=bool)
    wanted = frozenset(constraints.countries)
    inside = np.array([bool(c) and c <= wanted for c in _countries_by_provider(catalog)], dtype=bool)
    unnamed = in_unplaced_regions(catalog) & inside[listings.provider]
    found: Mask = named[listings.region] | listings.is_owned | unnamed
    return found


def possibly_in_regions(catalog: Catalog, constraints: Constraints) -> Mask:
    """Rents without a region of providers with data centers both in requested countries and in others."""
    wanted = frozenset(constraints.countries)
    partly = [not c.isdisjoint(wanted) and not c <= wanted for c in _countries_by_provider(catalog)]
    found: Mask = in_unplaced_regions(catalog) & np.array(partly, dtype=bool)[catalog.listings.provider]
    return found & ~in_regions(catalog, constraints)


def _countries_by_provider(catalog: Catalog) -> Iterator[frozenset[str]]:
    return (possible_countries(catalog, provider, None) for provider in catalog.providers)


def under_jurisdiction(catalog: Catalog, constraints: Constraints) -> Mask:
    """Rents of providers with their seat in the requested countries, and owned machines, which the buyer runs."""
    listings = catalog.listings
    if not constraints.jurisdictions:
        return np.ones(len(listings), dtype=bool)
    seats = [seat_of(catalog, provider) in constraints.jurisdictions for provider in catalog.providers]
    found: Mask = listings.is_owned | np.array(seats, dtype=bool)[listings.provider]
    return found


def seat_of(catalog: Catalog, provider: str) -> str | None:
    """Country of a provider's seat, as ISO 3166 code; None if unknown."""
    places = catalog.places.get(provider)
    return None if places is None or places.seat is None else min(places.seat.countries)


def list_countries(countries: frozenset[str]) -> str:
    """Countries as text: "FI", "one of FI, IS", or "one of 27 countries"."""
    if len(countries) > MAX_COUNTRIES_SHOWN:
        return f"one of {len(countries)} countries"
    return ("one of " if len(countries) > 1 else "") + ", ".join(sorted(countries))


def explain_unknown_places(catalog: Catalog, constraints: Constraints, rows: Codes) -> str:
    """Why these rents without a region are not certainly where the request wants them; empty if they certainly are
    elsewhere.
    """
    wanted, texts = frozenset(constraints.countries), []
    for provider in sorted({catalog.providers[code] for code in catalog.listings.provider[rows].tolist()}):
        countries = possible_countries(catalog, provider, None)
        if not countries:
            texts.append(provider_name(provider))
        elif not countries.isdisjoint(wanted):
            texts.append(f"{provider_name(provider)} (in {list_countries(countries)})")
    if not texts:
        return ""
    more = len(texts) - MAX_PROVIDERS_SHOWN
    sellers = texts if more <= 0 else [*texts[:MAX_PROVIDERS_SHOWN], f"{more} more"]
    return f"Where {join_words(sellers, 'or')} would place {{name}} is not known."
