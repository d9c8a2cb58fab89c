"""Maps the names of a feed to offers of the catalog: by alias, by instance type, then by the accelerator's name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from app.catalog.files import read_rows
from app.catalog.names import fold_name
from app.catalog.observations import Observation, OfferKey
from app.catalog.snapshot import CatalogIndex, machine_key
from app.feeds.prices import Feed, FetchedPart, Machine, StatedPrice
from app.sizing.hardware.parts import Offer

ANY_FEED = "*"


class FeedNames:
    """Names of one catalog version as feeds write them. `aliases` are the rows of feed_names.csv."""

    def __init__(self, directory: CatalogIndex, aliases: Iterable[Mapping[str, str]] | None = None) -> None:
        rows = read_rows("feed_names.csv") if aliases is None else aliases
        self._aliases = {(row["feed"], fold_name(row["name"])): row["accelerator"] for row in rows}
        self._directory = directory
        self._providers = frozenset(directory.purchasing.names)
        self._machines: dict[tuple[str, str], dict[tuple[str, float], Offer]] = {}
        for offer in directory.catalog.offers:
            machines = self._machines.setdefault((offer.provider, machine_key(offer.instance_type)), {})
            machines[offer.accelerator, offer.accelerator_count] = offer

    def machines_of(self, provider: str) -> Sequence[Machine]:
        catalog = self._directory.catalog
        found: dict[tuple[str, str], Machine] = {}
        for offer in catalog.offers:
            if offer.provider == provider:
                system = catalog.systems.get(offer.system or "")
                vcpus = offer.vcpus or (None if system is None else system.vcpus)
                machine = Machine(
                    offer.instance_type,
                    offer.accelerator,
                    offer.accelerator_count,
                    None if vcpus is None else int(vcpus),
                    None if system is None else system.ram_bytes,
                    None if system is None else system.local_storage_bytes,
                )
                if (known := found.get((offer.instance_type, offer.accelerator))) is None or known.ram_bytes is None:
                    found[offer.instance_type, offer.accelerator] = machine
        return tuple(found.values())

    def to_observations(self, feed: Feed, part: FetchedPart) -> tuple[list[Observation], list[str]]:
        """Returns the prices of a part under the keys of the catalog, and the names that could not be mapped."""
        mapped, unmapped = dict[OfferKey, Observation](), set[str]()
        for each in part.prices:
            key = self.find_key(feed, each)
            if key is None:
                unmapped.add(each.accelerator or f"{each.provider} {each.instance_type}")
                continue
            if key in mapped and not _takes_precedence(each, mapped[key]):
                continue
            mapped[key] = Observation(
                key,
                each.usd_per_hour,
                each.usd_per_hour if each.native_amount is None else each.native_amount,
                "USD",
                each.basis,
                feed.name,
                part.version,
                part.sha256,
                effective_from=each.effective_from,
                vcpus=each.vcpus,
                ram_bytes=each.ram_bytes,
                tier=each.tier,
                state=each.state,
                quantity=each.quantity,
            )
        return list(mapped.values()), sorted(unmapped)

    def find_key(self, feed: Feed, each: StatedPrice) -> OfferKey | None:
        """Returns the offer that a price is of; None if its provider or accelerator is unknown or ambiguous."""
        if each.provider not in self._providers:
            return None
        place = each.provider, each.region
        machines = self._machines.get((each.provider, machine_key(each.instance_type)), {})
        fitting = [o for (_, count), o in machines.items() if each.count in (0, count)]
        if len(fitting) == 1:
            (known,) = fitting
            return OfferKey(*place, known.instance_type, known.accelerator, known.accelerator_count, each.pricing_model)
        slug = self._find_accelerator(feed, each.accelerator)
        if slug is None or each.count <= 0:
            return None
        return OfferKey(*place, each.instance_type, slug, each.count, each.pricing_model)

    def _find_accelerator(self, feed: Feed, name: str) -> str | None:
        folded = fold_name(name)
        alias = self._aliases.get((feed.name, folded)) or self._aliases.get((ANY_FEED, folded))
        if alias is not None or not name:
            return alias
        match = self._directory.resolve_name(name)
        return match.accelerators[0] if len(match.accelerators) == 1 and not match.is_machine else None


def _takes_precedence(each: StatedPrice, other: Observation) -> bool:
    """Returns whether a price counts instead of another one of the same offer: spot is the lowest of its zones, and of
    two list prices the higher one is the safe one. Prices of zero or less never displace another.
    """
    if min(each.usd_per_hour, other.usd_per_hour) <= 0:
        return each.usd_per_hour > other.usd_per_hour
    return (each.usd_per_hour < other.usd_per_hour) == (each.pricing_model == "spot")
