"""Standing of a stored plan: what has changed about its offer and price, and a cheaper plan of the same promise."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from app.export.repricing import RankedOption
from app.sizing.hardware.parts import PRICE_KIND_TEXTS
from app.sizing.result import Price
from app.sizing.words import format_number, percent, provider_name

CENT = 0.005  # USD; amounts that differ by less are the same


class Change(StrEnum):
    """What has changed about a plan."""

    UNCHANGED = "unchanged"
    PRICE = "price_changed"
    GONE = "offer_gone"
    EXPIRED = "price_expired"
    CHEAPER = "cheaper_plan"


NOTIFIED = (Change.GONE, Change.CHEAPER)  # changes of which other systems are notified


@dataclass(frozen=True, slots=True)
class Finding:
    """One change, in words, with its numbers: USD or USD/h, and days for the age of a price."""

    change: Change
    text: str
    then: float | None = None
    now: float | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """Standing of one ranked plan of a stored answer."""

    plan: RankedOption  # as stored
    today: RankedOption | None  # the same plan at today's price of exactly its offers; None if one has ended
    cheaper: RankedOption | None  # a cheaper plan that meets the same request today
    findings: tuple[Finding, ...]

    @property
    def holds(self) -> bool:
        """Whether the offer is still sold, at no higher price, and its price has not expired."""
        dearer = self.today is None or _amount(self.today) > _amount(self.plan) + CENT
        return not dearer and all(finding.change is not Change.EXPIRED for finding in self.findings)


def is_cheaper(other: RankedOption, plan: RankedOption, share: float) -> bool:
    """Returns whether another plan costs less by more than a share.

    Check:
        >>> plan, other = (RankedOption(1, (), "", "", usd, "USD/h", "") for usd in (40.0, 39.0))
        >>> is_cheaper(other, plan, 0.05), is_cheaper(other, plan, 0.01)
        (False, True)
    """
    if other.amount is None or plan.amount is None or other.unit != plan.unit:
        return False
    return other.amount < plan.amount * (1 - share)


def offer_findings(plan: RankedOption, now: RankedOption | None) -> Iterator[Finding]:
    """Yields what has become of the offer: that it has ended, or that its price changed."""
    seller = provider_name(plan.provider)
    if now is None:
        yield Finding(Change.GONE, f"The offer of {seller} for {plan.text} has ended.", plan.amount)
    elif abs(_amount(now) - _amount(plan)) > CENT:
        share = f" ({100 * (_amount(now) / _amount(plan) - 1):+.1f} %)" if plan.amount else ""
        text = f"{plan.text} from {seller}: {now.price_text} today, {plan.price_text} then{share}."
        yield Finding(Change.PRICE, text, plan.amount, now.amount)


def age_findings(price: Price | None, limit_days: float) -> Iterator[Finding]:
    """Yields that a price is older than it may be."""
    if price is not None and price.age_days is not None and price.age_days > limit_days:
        text = (
            f"The price is {PRICE_KIND_TEXTS[price.terms.kind]} of {price.terms.observed}, {price.age_days} days old; "
            f"the limit is {format_number(limit_days)}. Ask for a new quote."
        )
        yield Finding(Change.EXPIRED, text, limit_days, float(price.age_days))


def cheaper_finding(cheaper: RankedOption, reference: RankedOption, share: float) -> Finding:
    """Returns that another plan costs less, and by how much."""
    less = percent(1 - _amount(cheaper) / _amount(reference))
    text = (
        f"{cheaper.text} from {provider_name(cheaper.provider)} meets the same request today at {cheaper.price_text}, "
        f"{less} less than {reference.price_text}. Differences up to {percent(share)} are not reported."
    )
    return Finding(Change.CHEAPER, text, reference.amount, cheaper.amount)


def unchanged_finding(plan: RankedOption) -> Finding:
    """Returns that the plan stands as it was stored."""
    return Finding(
        Change.UNCHANGED, f"{plan.text} costs {plan.price_text}, then and today, and no plan is clearly cheaper."
    )


def _amount(option: RankedOption) -> float:
    return option.amount or 0.0
