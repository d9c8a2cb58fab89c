"""The gate before a price counts: rules that send an implausible one to the quarantine."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from statistics import median

from app.catalog.observations import Observation, OfferKey, Suspicion
from app.sizing.hardware.parts import Offer

MAX_CHANGE = 0.6  # of a price since the last one, up or down
RECENT_DAYS = 7  # age up to which the last price limits the change
MEDIAN_RATIO = 5.0  # between a price per accelerator and the median of its type, up or down
FEWEST_PRICES = 3  # from which the median of a type counts
MAX_ROWS_LOST = 0.3  # of the prices of a part since the last sync


@dataclass(frozen=True, slots=True)
class KnownPrices:
    """Prices that count now: of each offer with its day, and the median per accelerator of each type."""

    in_force: Mapping[OfferKey, tuple[float, str]]
    medians: Mapping[tuple[str, str], float]  # by accelerator and pricing model

    @classmethod
    def from_offers(cls, offers: Iterable[Offer]) -> KnownPrices:
        """Returns what the gate needs to know of the offers of a catalog version."""
        in_force, per_type = dict[OfferKey, tuple[float, str]](), defaultdict[tuple[str, str], list[float]](list)
        for offer in offers:
            in_force[OfferKey(*offer.key)] = offer.usd_per_hour, offer.as_of
            if offer.accelerator_count > 0:
                price = offer.usd_per_hour / offer.accelerator_count
                per_type[offer.accelerator, offer.pricing_model].append(price)
        return cls(in_force, {key: median(found) for key, found in per_type.items() if len(found) >= FEWEST_PRICES})


def check_prices(
    observations: Sequence[Observation], known: KnownPrices, today: date
) -> tuple[list[Observation], list[Suspicion]]:
    """Returns the plausible observations, and the others with the rule that each breaks."""
    stated = {each.key: each.usd_per_hour for each in observations}
    accepted, suspicions = list[Observation](), list[Suspicion]()
    for each in observations:
        broken = find_broken_rule(each, stated, known, today)
        if broken is None:
            accepted.append(each)
        else:
            suspicions.append(Suspicion(each, *broken))
    return accepted, suspicions


def find_broken_rule(
    each: Observation, stated: Mapping[OfferKey, float], known: KnownPrices, today: date
) -> tuple[str, str] | None:
    """Returns the first rule that an observation breaks, and why; None if it breaks none.

    A price that is in force already passes: an operator has accepted it, or it was shipped.
    """
    price, key = each.usd_per_hour, each.key
    if price <= 0:
        return "not_positive", f"The price is {price:g} USD per hour."
    last, seen = known.in_force.get(key, (None, ""))
    if last == price:
        return None
    on_demand_key = key._replace(pricing_model="on_demand")
    on_demand = stated.get(on_demand_key) or known.in_force.get(on_demand_key, (0.0, ""))[0]
    if key.pricing_model == "spot" and 0 < on_demand < price:
        return "above_on_demand", f"Spot costs {price:g} USD per hour, on demand {on_demand:g}."
    if last is not None and key.pricing_model != "spot" and _is_recent(seen, today):
        change = price / last - 1
        if abs(change) > MAX_CHANGE:
            return "day_change", f"The price changed by {change:+.0%} from {last:g} USD per hour of {seen}."
    typical = known.medians.get((key.accelerator, key.pricing_model))
    per_accelerator = price / key.accelerator_count
    if typical is not None and not typical / MEDIAN_RATIO <= per_accelerator <= typical * MEDIAN_RATIO:
        return "far_from_median", f"{per_accelerator:g} USD per accelerator and hour; the median is {typical:g}."
    return None


def _is_recent(day: str, today: date) -> bool:
    try:
        return (today - date.fromisoformat(day)).days <= RECENT_DAYS
    except ValueError:  # a month or a year
        return False


def lost_too_many(rows: int, before: int) -> bool:
    """Returns whether a part has lost more of its prices since the last sync than a feed usually drops."""
    return rows < before * (1 - MAX_ROWS_LOST)
