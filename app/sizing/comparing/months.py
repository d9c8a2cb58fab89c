"""Spending by month for each way to acquire a deployment, and the months where one way becomes cheaper than another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import HOURS_PER_MONTH, Column
from app.sizing.comparing.outcomes import Outcome
from app.sizing.decisions.acquisition import running_usd_per_hour
from app.sizing.formula import formula
from app.sizing.hardware.parts import Commitment
from app.sizing.question import Question
from app.sizing.result import OPTION_OF_PRICING, AcquisitionOption, Estimate, HostedApi

MONTHS_PER_YEAR = 12
TERM_MONTHS = {
    AcquisitionOption.ONE_YEAR: Commitment.ONE_YEAR.months,
    AcquisitionOption.THREE_YEARS: Commitment.THREE_YEARS.months,
}
HOSTED = "hosted_api"
MIN_DECLINE = 1e-9  # monthly declines below this count as none


@dataclass(frozen=True, slots=True)
class SpendingPath:
    """Cumulative spending of one acquisition option, by month up to the horizon."""

    way: str  # acquisition option
    provider: str  # seller or host
    usd: tuple[float, ...]  # cumulative spending after 0, 1, ... months, USD
    left_usd: float = 0.0  # resale value of owned machines at the horizon, USD
    committed_usd: float = 0.0  # rent still owed for the last term at the horizon, USD

    @property
    def net_usd(self) -> float:
        """Net cost at the horizon, USD: spent plus still owed, minus resale value."""
        return self.usd[-1] + self.committed_usd - self.left_usd


@dataclass(frozen=True, slots=True)
class Crossover:
    """Month from which one acquisition option has cost less than another that was cheaper before."""

    way: str  # option that becomes cheaper
    overtakes: str  # option that was cheaper before
    month: float  # months from the start


@dataclass(frozen=True, slots=True)
class Spending:
    """Acquisition options of one outcome, the cheapest at the horizon first."""

    name: str  # name of the compared option
    paths: tuple[SpendingPath, ...]  # cheapest at the horizon first
    crossovers: tuple[Crossover, ...]  # in order of the month


@formula(unit="USD", source="geometric series: prices fall by the same share every year")
def rent_usd(usd_per_month: float, month: Column, decline_per_year: float) -> Column:
    """Cumulative rent when each month is paid at the price of its day.

    Parameters:
        usd_per_month: rent of the first month, USD per month.
        month: months paid.
        decline_per_year: share by which prices fall each year, 0 to 1.
    Limits: the price in the first month is the price of today; no commitment.
    Check: 100 USD per month for two months, falling 50 % a year: 100 and 94.39.
        >>> round(float(rent_usd(100.0, np.array(2.0), 0.5)), 2)
        194.39
    """
    falls = np.log1p(-decline_per_year) / MONTHS_PER_YEAR
    months_paid: Column = np.where(
        falls < -MIN_DECLINE, np.expm1(falls * month) / np.minimum(np.expm1(falls), -MIN_DECLINE), month
    )
    return usd_per_month * months_paid


@formula(unit="USD", source="geometric series: prices fall by the same share every year, in steps of a term")
def committed_usd(usd_per_month: float, month: Column, decline_per_year: float, term_months: float) -> Column:
    """Cumulative rent under consecutive contracts, each at the price of the day it begins.

    Parameters:
        usd_per_month: rent of the first contract, USD per month.
        month: months paid.
        decline_per_year: share by which prices fall each year, 0 to 1.
        term_months: length of a contract, months.
    Limits: paid month by month; the rest of the last term is still owed.
    Check: 100 USD per month for 18 months in 12-month terms, falling 10 % a year: 12 * 100 + 6 * 90.
        >>> round(float(committed_usd(100.0, np.array(18.0), 0.1, 12.0)), 2)
        1740.0
    """
    whole = np.floor(month / term_months)
    falls = np.log1p(-decline_per_year) * term_months / MONTHS_PER_YEAR
    paid = np.where(falls < -MIN_DECLINE, np.expm1(falls * whole) / np.minimum(np.expm1(falls), -MIN_DECLINE), whole)
    months_paid: Column = term_months * paid + (month - term_months * whole) * np.exp(falls * whole)
    return usd_per_month * months_paid


@formula(unit="USD", source="assumption: the same share of the value is lost every year")
def resale_usd(purchase_usd: float, month: Column, resale_decline_per_year: float) -> Column:
    """Resale value of purchased machines.

    Parameters:
        purchase_usd: purchase price, USD.
        month: months since the purchase.
        resale_decline_per_year: share of the value lost each year, 0 to 1.
    Limits: whole machines sold at once; cables and racks lose value at the same rate.
    Check: 100,000 USD after two years that lose 35 % each.
        >>> round(float(resale_usd(100_000.0, np.array(24.0), 0.35)))
        42250
    """
    kept: Column = (1 - resale_decline_per_year) ** (month / MONTHS_PER_YEAR)
    return purchase_usd * kept


def spending_by_month(outcome: Outcome) -> Spending | None:
    """Spending by month of each acquisition option; None for work with an end and where the price is unknown."""
    e, question = outcome.estimate, outcome.question
    if e is None or outcome.has_an_end or not outcome.fits or e.cost is None or not e.cost.usd_per_hour:
        return None
    months = np.arange(0.0, np.floor(question.economics.horizon_months) + 1)
    paths = sorted(_spending_paths(e, question, outcome.hosted_api, months), key=lambda p: (p.net_usd, p.way))
    return Spending(outcome.name, tuple(paths), tuple(_find_crossovers(paths)))


def _spending_paths(
    e: Estimate, question: Question, hosted: HostedApi | None, months: Column
) -> Iterator[SpendingPath]:
    """The option of the deployment itself, its alternatives, and the cheapest host of the model."""
    assert e.cost is not None and e.cost.usd_per_hour is not None
    d, within = e.deployment, (question.economics.horizon_months, question.assumptions, months)
    if d.pricing_model is not None and d.pricing_model in OPTION_OF_PRICING:
        own = OPTION_OF_PRICING[d.pricing_model], d.provider or "", e.cost.usd_per_hour, e.cost.purchase_usd
        yield _spending_path(*own, *within)
    for a in e.alternatives:
        yield _spending_path(a.way, a.provider, a.usd_per_hour, a.purchase_usd, *within)
    if hosted is not None and (host := hosted.hosts[0]).usd_per_month is not None:
        paid = rent_usd(host.usd_per_month, months, 0.0)
        yield SpendingPath(HOSTED, host.price.provider, tuple(paid.tolist()))


def _spending_path(
    way: AcquisitionOption,
    provider: str,
    usd_per_hour: float,
    purchase_usd: float | None,
    horizon_months: float,
    assumed: Assumptions,
    months: Column,
) -> SpendingPath:
    """Cumulative spending of one acquisition option."""
    if way is AcquisitionOption.OWNED and purchase_usd is not None:
        hours = horizon_months * HOURS_PER_MONTH
        running = float(running_usd_per_hour(np.array(usd_per_hour), np.array(purchase_usd), hours))
        paid = purchase_usd + running * HOURS_PER_MONTH * months
        left = float(resale_usd(purchase_usd, months[-1:], assumed.resale_decline_per_year)[0])
        return SpendingPath(way.value, provider, tuple(paid.tolist()), left_usd=left)
    monthly, decline = usd_per_hour * HOURS_PER_MONTH, assumed.rent_decline_per_year
    if (term := TERM_MONTHS.get(way)) is not None:
        ends = np.ceil(months[-1:] / term) * term
        paid, in_all = (committed_usd(monthly, m, decline, float(term)) for m in (months, ends))
        return SpendingPath(way.value, provider, tuple(paid.tolist()), committed_usd=float(in_all[0] - paid[-1]))
    return SpendingPath(way.value, provider, tuple(rent_usd(monthly, months, decline).tolist()))


def _find_crossovers(paths: list[SpendingPath]) -> Iterator[Crossover]:
    """Months where the spending of one option falls below another, interpolated between months, in order of the
    month.
    """
    found = []
    for mine in paths:
        for other in paths:
            more = np.array(mine.usd) - np.array(other.usd)
            for m in np.flatnonzero((more[:-1] > 0) & (more[1:] <= 0)):
                month = m + more[m] / (more[m] - more[m + 1])
                found.append(Crossover(mine.way, other.way, float(month)))
    yield from sorted(found, key=lambda o: (o.month, o.way, o.overtakes))
