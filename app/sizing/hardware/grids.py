"""Electricity grids: their carbon intensity, which one feeds a rented region, and industrial electricity prices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from app.sizing.facts import build_rows


class Basis(StrEnum):
    """Emissions that an intensity counts."""

    LIFECYCLE = "lifecycle"  # of the fuel burned and of its supply, and of building the power stations
    OPERATION = "operation"  # of the fuel burned


@dataclass(frozen=True, slots=True)
class Grid:
    """An electricity grid of a country, or of a part of one."""

    grid: str  # ISO 3166 code of a country, or this code with a suffix for a part of the country
    name: str  # name in sentences
    country: str  # ISO 3166 code
    g_per_kwh: float  # greenhouse gases of a kWh on average over the year, g CO2e
    year: int
    basis: Basis
    source: str
    as_of: str


@dataclass(frozen=True, slots=True)
class RegionGrid:
    """Grid of a provider's region, where the grid is smaller than the country."""

    provider: str
    region: str
    grid: str
    source: str
    as_of: str


@dataclass(frozen=True, slots=True)
class ElectricityPrice:
    """Mean price that industry pays in a country."""

    country: str  # ISO 3166 code
    usd_per_kwh: float
    period: str  # year, or half of a year
    source: str
    as_of: str


@cache
def list_grids() -> tuple[Grid, ...]:
    """All grids; a code of a grid is its position."""
    return build_rows(Grid, "grids.csv")


@cache
def grid_codes() -> Mapping[str, int]:
    return {grid.grid: code for code, grid in enumerate(list_grids())}


@cache
def region_grid_codes() -> Mapping[tuple[str, str], int]:
    """Position of the grid of every region whose grid is smaller than its country."""
    return {(row.provider, row.region): grid_codes()[row.grid] for row in build_rows(RegionGrid, "region_grids.csv")}


@cache
def electricity_prices() -> Mapping[str, ElectricityPrice]:
    return {row.country: row for row in build_rows(ElectricityPrice, "electricity_prices.csv")}


def electricity_price(country: str | None) -> ElectricityPrice | None:
    """The industrial electricity price of a country; None if it is unknown.

    Check:
        >>> getattr(electricity_price("US"), "usd_per_kwh", None), electricity_price("KE")
        (0.0862, None)
    """
    return electricity_prices().get(country or "")
