"""What each way to have a deployment has cost after so many months, and when one overtakes another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Column
from app.sizing.comparing.outcomes import Outcome
from app.sizing.decisions.acquisition import running_usd_per_hour
from app.sizing.formula import formula
from app.sizing.question import Question
from app.sizing.result import Estimate
from app.sizing.units import HOURS_PER_MONTH
from app.sizing.values.hosted import HostedApi
from app.sizing.values.ways import WAY_OF, Way

MONTHS_PER_YEAR = 12
TERM_MONTHS = {Way.ONE_YEAR: 12, Way.THREE_YEARS: 36}
HOSTED = "hosted_api"
LEAST = 1e-9  # decline that is told from none


@dataclass(frozen=True, slots=True)
class Path:
    """Money spent by a way from month 0 on, every month up to the horizon. `left_usd`: what owned machines would still
    sell for at the end; `committed_usd`: what is still owed of a term then.
    """

    way: str
    provider: str
    usd: tuple[float, ...]
    left_usd: float = 0.0
    committed_usd: float = 0.0

    @property
    def net_usd(self) -> float:
        """At the end: what was spent and is owed, less what is left."""
        return self.usd[-1] + self.committed_usd - self.left_usd


@dataclass(frozen=True, slots=True)
class Overtaking:
    """Month from which on a way has cost less than another that had cost less before."""

    way: str
    overtakes: str
    month: float


@dataclass(frozen=True, slots=True)
class Spending:
    """The ways to have one option, the cheapest at the end first."""

    name: str
    paths: tuple[Path, ...]
    overtakings: tuple[Overtaking, ...]


@formula(unit="USD")
def rent_usd(usd_per_month: float, month: Column, decline_per_year: float) -> Column:
    """Rent paid for so many months, each at the price of its day.

    Source: a geometric series: prices fall by the same share every year.
    Limits: the price is that of today in the first month; nothing is bound.
    Check: 100 USD a month for two months, at 50 % less a year: 100 and 94.39.
        >>> round(float(rent_usd(100.0, np.array(2.0), 0.5)), 2)
        194.39
    """
    falls = np.log1p(-decline_per_year) / MONTHS_PER_YEAR
    months_paid: Column = np.where(falls < -LEAST, np.expm1(falls * month) / np.minimum(np.expm1(falls), -LEAST), month)
    return usd_per_month * months_paid


@formula(unit="USD")
def committed_usd(usd_per_month: float, month: Column, decline_per_year: float, term_months: float) -> Column:
    """Rent paid by contracts of a term, each at the price of the day it begins.

    Source: as `rent_usd`, by terms in the place of months.
    Limits: paid month by month; what is left of the last term is owed.
    Check: 100 USD a month for 18 months by years, at 10 % less a year: 12 x 100 and 6 x 90.
        >>> round(float(committed_usd(100.0, np.array(18.0), 0.1, 12.0)), 2)
        1740.0
    """
    whole = np.floor(month / term_months)
    falls = np.log1p(-decline_per_year) * term_months / MONTHS_PER_YEAR
    paid = np.where(falls < -LEAST, np.expm1(falls * whole) / np.minimum(np.expm1(falls), -LEAST), whole)
    months_paid: Column = term_months * paid + (month - term_months * whole) * np.exp(falls * whole)
    return usd_per_month * months_paid


@formula(unit="USD")
def resale_usd(purchase_usd: float, month: Column, resale_decline_per_year: float) -> Column:
    """What machines would still sell for.

    Source: chosen: the same share of the value is lost every year.
    Limits: whole machines, sold at once; cables and racks are not told apart.
    Check: 100,000 USD after two years that lose 35 % each.
        >>> round(float(resale_usd(100_000.0, np.array(24.0), 0.35)))
        42250
    """
    kept: Column = (1 - resale_decline_per_year) ** (month / MONTHS_PER_YEAR)
    return purchase_usd * kept


def spending(outcome: Outcome) -> Spending | None:
    """The ways to have what an outcome runs on, month by month; None where it is work that ends or has no price."""
    e, question = outcome.estimate, outcome.question
    if e is None or outcome.ends or not outcome.fits or e.cost is None or not e.cost.usd_per_hour:
        return None
    months = np.arange(0.0, np.floor(question.economics.horizon_months) + 1)
    paths = sorted(_paths(e, question, outcome.hosted_api, months), key=lambda p: (p.net_usd, p.way))
    return Spending(outcome.name, tuple(paths), tuple(_overtakings(paths)))


def _paths(e: Estimate, question: Question, hosted: HostedApi | None, months: Column) -> Iterator[Path]:
    """Its own way, the others, and the cheapest host."""
    assert e.cost is not None and e.cost.usd_per_hour is not None
    d, within = e.deployment, (question.economics.horizon_months, question.assumptions, months)
    if d.pricing_model is not None and d.pricing_model in WAY_OF:
        own = WAY_OF[d.pricing_model], d.provider or "", e.cost.usd_per_hour, e.cost.purchase_usd
        yield _path(*own, *within)
    for a in e.alternatives:
        yield _path(a.way, a.provider, a.usd_per_hour, a.purchase_usd, *within)
    if hosted is not None and (host := hosted.hosts[0]).usd_per_month is not None:
        paid = rent_usd(host.usd_per_month, months, 0.0)
        yield Path(HOSTED, host.price.provider, tuple(paid.tolist()))


def _path(
    way: Way,
    provider: str,
    usd_per_hour: float,
    purchase_usd: float | None,
    horizon_months: float,
    assumed: Assumptions,
    months: Column,
) -> Path:
    """What a way has cost, month by month."""
    if way is Way.OWNED and purchase_usd is not None:
        hours = horizon_months * HOURS_PER_MONTH
        running = float(running_usd_per_hour(np.array(usd_per_hour), np.array(purchase_usd), hours))
        paid = purchase_usd + running * HOURS_PER_MONTH * months
        left = float(resale_usd(purchase_usd, months[-1:], assumed.resale_decline_per_year)[0])
        return Path(way.value, provider, tuple(paid.tolist()), left_usd=left)
    monthly, decline = usd_per_hour * HOURS_PER_MONTH, assumed.rent_decline_per_year
    if (term := TERM_MONTHS.get(way)) is not None:
        ends = np.ceil(months[-1:] / term) * term
        paid, in_all = (committed_usd(monthly, m, decline, float(term)) for m in (months, ends))
        return Path(way.value, provider, tuple(paid.tolist()), committed_usd=float(in_all[0] - paid[-1]))
    return Path(way.value, provider, tuple(rent_usd(monthly, months, decline).tolist()))


def _overtakings(paths: list[Path]) -> Iterator[Overtaking]:
    """Where one line crosses below another, between months in a straight line; by month."""
    found = []
    for mine in paths:
        for other in paths:
            more = np.array(mine.usd) - np.array(other.usd)
            for m in np.flatnonzero((more[:-1] > 0) & (more[1:] <= 0)):
                month = m + more[m] / (more[m] - more[m + 1])
                found.append(Overtaking(mine.way, other.way, float(month)))
    yield from sorted(found, key=lambda o: (o.month, o.way, o.overtakes))
