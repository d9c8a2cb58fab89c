"""Commercial terms that prices of machines leave out: egress, storage, licenses, lead times and resale values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from app.sizing.columns import GB, GIB, HOURS_PER_MONTH, HOURS_PER_YEAR
from app.sizing.facts import build_rows
from app.sizing.formula import formula
from app.sizing.words import format_number, provider_name


@dataclass(frozen=True, slots=True)
class CommercialTerm:
    """A published price of a seller, or of a software product, for goods that a bill lists without a price."""

    goods: str  # as on a bill: egress, storage or licence
    seller: str  # provider, or name of the software
    usd: float  # price of one unit, USD; 0 if it is free of charge
    unit: str
    source: str
    as_of: str
    condition: str = ""  # to what the price applies

    def usd_over(self, quantity: float, months: float) -> float:
        """USD for a quantity over some months: of accelerators, or of GB in storage. The price is per month or year.

        Check:
            >>> CommercialTerm("licence", "x", 4500.0, "accelerator and year", "a page", "2026-05").usd_over(8, 36)
            108000.0
        """
        amount, _, period = self.unit.partition(" and ")
        units = quantity * GB / GIB if amount == "GiB" else quantity
        return self.usd * units * months / {"month": 1.0, "year": HOURS_PER_YEAR / HOURS_PER_MONTH}[period]

    def describe(self) -> str:
        """The price with its condition, date and source.

        Check:
            >>> CommercialTerm("egress", "aws", 0.09, "GB", "a page", "2026-05").describe()
            'published price: 0.09 USD per GB (2026-05, a page)'
        """
        price = f"{format_number(self.usd)} USD per {self.unit}" if self.usd else "free of charge"
        condition = f" {self.condition}" if self.condition.startswith(("after ", "for ")) else ""
        condition = f", {self.condition}" if self.condition and not condition else condition
        return f"published price: {price}{condition} ({self.as_of}, {self.source})"


@cache
def commercial_terms() -> Mapping[tuple[str, str], CommercialTerm]:
    """All published terms by goods and seller, both by its slug and by its name."""
    terms = build_rows(CommercialTerm, "commercial_terms.csv")
    return {(term.goods, name): term for term in terms for name in (term.seller, provider_name(term.seller))}


@dataclass(frozen=True, slots=True)
class LeadTime:
    """Weeks from order to delivery that a source reports for a product of a seller. Only a quote states yours."""

    product: str  # slug of a system or accelerator
    seller: str
    weeks_low: float
    source: str
    as_of: str
    weeks_high: float | None = None  # None: the source states no upper end

    def describe(self) -> str:
        """The lead time with its seller, date and source.

        Check:
            >>> LeadTime("dgx-b200", "resellers", 8.0, "a page", "2026-05", weeks_high=16.0).describe()
            'reported lead time: 8 to 16 weeks (resellers, 2026-05, a page)'
        """
        low = format_number(self.weeks_low)
        if self.weeks_high is None:
            weeks = f"{low} weeks or more"
        else:
            weeks = (
                f"{low} weeks"
                if self.weeks_high == self.weeks_low
                else f"{low} to {format_number(self.weeks_high)} weeks"
            )
        return f"reported lead time: {weeks} ({self.seller}, {self.as_of}, {self.source})"


@cache
def lead_times() -> tuple[LeadTime, ...]:
    return (*build_rows(LeadTime, "lead_times.csv"),)


def find_lead_time(*products: str, until: str) -> LeadTime | None:
    """The newest lead time of any of the products that was reported by a day; None if no source reports one."""
    rows = (row for row in lead_times() if row.product in products and row.as_of <= until)
    return max(rows, key=lambda row: row.as_of, default=None)


@dataclass(frozen=True, slots=True)
class ResaleValue:
    """Share of the price as new that used accelerators of a generation were sold for."""

    family: str  # as in the catalog of accelerators
    product: str
    age_years: float
    share_low: float
    share_high: float
    source: str
    as_of: str

    @property
    def decline_per_year(self) -> float:
        """Mean yearly loss of value, as a share, that leads to the middle of the range."""
        return mean_decline_per_year((self.share_low + self.share_high) / 2, self.age_years)

    def describe(self) -> str:
        """The value with its age, date and source.

        Check:
            >>> ResaleValue("volta", "V100 modules", 8.0, 0.036, 0.036, "a survey", "2026-07").describe()
            'used V100 modules were sold for 3.6 % of their price as new after 8 years (2026-07, a survey)'
        """
        low, high = (format_number(100 * share) for share in (self.share_low, self.share_high))
        share = low if low == high else f"{low} to {high}"
        age = f"{format_number(self.age_years)} years ({self.as_of}, {self.source})"
        return f"used {self.product} were sold for {share} % of their price as new after {age}"


@formula(unit="1", source="geometric decline: the same share of the value is lost every year")
def mean_decline_per_year(share_left: float, age_years: float) -> float:
    """Yearly loss of value that leaves a share of the price after some years.

    Parameters:
        share_left: share of the price as new that is left, above 0 to 1.
        age_years: years since the purchase.
    Limits: one recorded sale price of a generation; in a shortage, prices do not fall every year.
    Check: a quarter after two years is a loss of half each year.
        >>> mean_decline_per_year(0.25, 2.0)
        0.5
    """
    left: float = share_left ** (1 / age_years)
    return 1 - left


@cache
def resale_values() -> Mapping[str, ResaleValue]:
    """Recorded resale values by family of accelerators."""
    return {row.family: row for row in build_rows(ResaleValue, "resale_values.csv")}
