"""The gate before a price counts: rules that send an implausible one to the quarantine."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from statistics import median

from app.catalog.observations import Observation, OfferKey, Suspicion
from app.sizing.hardware.parts import Offer

MAX_CHANGE = 0.6  # of a price since the last one, up or down
RECENT_DAYS = 7  # age up to which the last price limits the change
MEDIAN_RATIO = 5.0  # between a price per accelerator and the median of its type, up or down
FEWEST_PRICES = 3  # from which the median of a type and pricing model counts
TYPE_RATIO = 10.0  # from the median of a type over all pricing models, if its own has fewer prices
USD_PER_ACCELERATOR_HOUR = (0.005, 500.0)  # bounds for a type without any price; shipped prices are 0.04 to 54
MAX_ROWS_LOST = 0.3  # of the prices of a part since the last sync


@dataclass(frozen=True, slots=True)
class KnownPrices:
    """Prices that count now: of each offer with its day, and the median per accelerator of each type."""

    in_force: Mapping[OfferKey, tuple[float, str]]
    medians: Mapping[tuple[str, str], float]  # by accelerator and pricing model
    type_medians: Mapping[str, float] = field(default_factory=dict)  # by accelerator, over all pricing models
    yesterday: Mapping[OfferKey, tuple[float, str]] = field(default_factory=dict)  # observed in force before today

    @classmethod
    def from_offers(
        cls, offers: Iterable[Offer], yesterday: Mapping[OfferKey, tuple[float, str]] | None = None
    ) -> KnownPrices:
        """Returns what the gate needs to know of the offers of a catalog version."""
        in_force, per_model = dict[OfferKey, tuple[float, str]](), defaultdict[tuple[str, str], list[float]](list)
        per_type = defaultdict[str, list[float]](list)
        for offer in offers:
            in_force[OfferKey(*offer.key)] = offer.usd_per_hour, offer.as_of
            if offer.accelerator_count > 0:
                price = offer.usd_per_hour / offer.accelerator_count
                per_model[offer.accelerator, offer.pricing_model].append(price)
                per_type[offer.accelerator].append(price)
        return cls(
            in_force,
            {key: median(found) for key, found in per_model.items() if len(found) >= FEWEST_PRICES},
            {accelerator: median(found) for accelerator, found in per_type.items()},
            yesterday or {},
        )

    def plausible_range(self, key: OfferKey) -> tuple[float, float, str]:
        """Returns the lowest and highest plausible price of an accelerator hour, USD, and what they come from."""
        if (typical := self.medians.get((key.accelerator, key.pricing_model))) is not None:
            return typical / MEDIAN_RATIO, typical * MEDIAN_RATIO, f"the median is {typical:g}"
        if (typical := self.type_medians.get(key.accelerator)) is not None:
            return typical / TYPE_RATIO, typical * TYPE_RATIO, f"the median of all pricing models is {typical:g}"
        low, high = USD_PER_ACCELERATOR_HOUR
        return low, high, f"no price of the type is known, and {low:g} to {high:g} is plausible for any"


def check_prices(
    observations: Sequence[Observation], known: KnownPrices, today: date
) -> tuple[list[Observation], list[Suspicion]]:
    """Returns the plausible observations, and the others with the rule that each breaks."""
    stated = dict[OfferKey, float]()  # spot is compared only with on-demand prices that are plausible themselves
    accepted, suspicions = list[Observation](), list[Suspicion]()
    for each in sorted(observations, key=lambda o: o.key.pricing_model == "spot"):
        broken = find_broken_rule(each, stated, known, today)
        if broken is None:
            accepted.append(each)
            stated[each.key] = each.usd_per_hour
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
    # Against yesterday's price too: many small changes within a day add up.
    for base, day in () if key.pricing_model == "spot" else ((last, seen), known.yesterday.get(key, (None, ""))):
        if base is not None and _is_recent(day, today) and abs(change := price / base - 1) > MAX_CHANGE:
            return "day_change", f"The price changed by {change:+.0%} from {base:g} USD per hour of {day}."
    per_accelerator = price / key.accelerator_count
    low, high, reason = known.plausible_range(key)
    if not low <= per_accelerator <= high:
        return "far_from_median", f"{per_accelerator:g} USD per accelerator and hour; {reason}."
    return None


def _is_recent(day: str, today: date) -> bool:
    try:
        return (today - date.fromisoformat(day)).days <= RECENT_DAYS
    except ValueError:  # a month or a year
        return False


def lost_too_many(rows: int, before: int) -> bool:
    """Returns whether a part has lost more of its prices since the last sync than a feed usually drops."""
    return rows < before * (1 - MAX_ROWS_LOST)
