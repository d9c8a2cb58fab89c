"""The market by group: hourly prices per accelerator, how they relate to rates and memory, and their trend."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from statistics import fmean, median

from sqlalchemy.orm import Session

from app.catalog.queries import list_observed_offers
from app.recent import RecentlyUsed
from app.sizing.columns import GB, TERA
from app.sizing.hardware.parts import PROCESSORS, Accelerator, Offer
from app.sizing.snapshot import Catalog, was_observed_by

GROUPINGS = ("accelerator", "class", "provider", "region", "pricing_model")
TRAINING, INFERENCE = "training", "inference"
OfferKey = tuple[str, str, str, str, float, str]
Earlier = Mapping[OfferKey, float]


@dataclass(frozen=True, slots=True)
class MarketGroup:
    """Prices of one group per accelerator and hour in USD; None where nothing is known."""

    name: str
    offers: int
    low_usd: float
    median_usd: float
    high_usd: float
    usd_per_tflops: float | None  # median price of an hour of 1 TFLOPS, dense, 16 bit
    usd_per_gb: float | None  # median price of an hour of 1 GB of memory
    usd_per_gb_per_s: float | None  # median price of an hour of 1 GB/s of memory bandwidth
    trend_30d: float | None  # median change of the prices observed since, as a share
    trend_90d: float | None


@dataclass(frozen=True, slots=True)
class ClassRatio:
    """How much more an hour of a training-class accelerator costs than one of the inference class."""

    of_means: float
    of_medians: float


@dataclass(frozen=True, slots=True)
class Market:
    """Groups of offers in alphabetical order, and the ratio of the classes; None if one of them has no offer."""

    groups: tuple[MarketGroup, ...]
    ratio: ClassRatio | None


TREND_DAYS = (30, 90)
_EARLIER: RecentlyUsed[tuple[str, str], Earlier] = RecentlyUsed(4)  # per catalog version and day


def earlier_prices(session: Session, catalog: Catalog, days: int) -> tuple[str, Earlier]:
    """Returns the day that many days before the newest price, and each offer's price in force on it: observed, from the
    price history, or shipped.
    """
    then = (date.fromisoformat(catalog.prices_as_of) - timedelta(days=days)).isoformat()

    def read() -> Earlier:
        observed = list_observed_offers(session, then, catalog.offers) if catalog.observed_days else []
        known = (o for o in (*catalog.past_offers, *catalog.offers, *observed) if was_observed_by(o.as_of, then))
        return {o.key: o.usd_per_hour for o in sorted(known, key=lambda o: o.as_of)}

    return then, _EARLIER.get_or_make((catalog.version, then), read)


def prepare_trends(session: Session, catalog: Catalog) -> None:
    """Reads the earlier prices of a catalog that was just loaded, so that no request has to."""
    for days in TREND_DAYS:
        earlier_prices(session, catalog, days)


def summarize_market(
    session: Session,
    catalog: Catalog,
    by: str,
    wanted: Mapping[str, Collection[str]],
    accelerator_class: str | None = None,
) -> Market:
    """Returns the market by one of GROUPINGS, of all accelerators or of one class. `wanted` limits columns of the
    offers to values.

    Processors without accelerators and shares of an accelerator are left out.
    """
    accelerators = (a for a in catalog.accelerators if a.kind not in PROCESSORS)
    types = {a.slug: a for a in accelerators if accelerator_class in (None, class_of(a))}
    offers = [
        offer
        for offer in catalog.offers
        if offer.accelerator in types
        and offer.accelerator_count >= 1
        and all(getattr(offer, name) in values for name, values in wanted.items())
    ]
    changes = [find_changes(offers, *earlier_prices(session, catalog, days)) if offers else {} for days in TREND_DAYS]
    groups = defaultdict[str, list[Offer]](list)
    for offer in offers:
        groups[class_of(types[offer.accelerator]) if by == "class" else str(getattr(offer, by))].append(offer)
    return Market(
        tuple(summarize_group(name, groups[name], types, *changes) for name in sorted(groups)),
        compare_classes(offers, types),
    )


def class_of(accelerator: Accelerator) -> str:
    return TRAINING if accelerator.training_class else INFERENCE


def find_changes(offers: Iterable[Offer], then: str, earlier: Earlier) -> dict[OfferKey, float]:
    """Returns the change of each price that was observed after a day, since its price in force on that day."""
    return {
        o.key: o.usd_per_hour / earlier[o.key] - 1
        for o in offers
        if o.key in earlier and not was_observed_by(o.as_of, then)
    }


def summarize_group(
    name: str,
    offers: list[Offer],
    types: Mapping[str, Accelerator],
    month: Mapping[OfferKey, float],
    quarter: Mapping[OfferKey, float],
) -> MarketGroup:
    prices = [o.usd_per_hour / o.accelerator_count for o in offers]

    def per(quantity: Callable[[Accelerator], float | None]) -> float | None:
        amounts = ((price, quantity(types[o.accelerator])) for price, o in zip(prices, offers, strict=True))
        return median_of(price / amount for price, amount in amounts if amount)

    return MarketGroup(
        name,
        len(offers),
        min(prices),
        median(prices),
        max(prices),
        per(lambda a: (a.flops_per_s.get("bf16") or a.flops_per_s.get("fp16") or 0.0) / TERA),
        per(lambda a: (a.memory_bytes or 0.0) / GB),
        per(lambda a: (a.memory_bytes_per_s or 0.0) / GB),
        median_of(month[o.key] for o in offers if o.key in month),
        median_of(quarter[o.key] for o in offers if o.key in quarter),
    )


def compare_classes(offers: Iterable[Offer], types: Mapping[str, Accelerator]) -> ClassRatio | None:
    """Returns the ratio of the hourly prices of both classes; None if one has no offer."""
    prices = defaultdict[str, list[float]](list)
    for o in offers:
        prices[class_of(types[o.accelerator])].append(o.usd_per_hour / o.accelerator_count)
    if not prices[TRAINING] or not prices[INFERENCE]:
        return None
    return ClassRatio(
        fmean(prices[TRAINING]) / fmean(prices[INFERENCE]), median(prices[TRAINING]) / median(prices[INFERENCE])
    )


def median_of(values: Iterable[float]) -> float | None:
    found = list(values)
    return median(found) if found else None
