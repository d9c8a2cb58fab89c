"""The catalog that requests read: one immutable value per version, replaced when a newer version is published."""

from __future__ import annotations

import math
import re
import threading
import time
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import accumulate
from types import MappingProxyType

import structlog
from sqlalchemy.orm import Session, sessionmaker

from app import telemetry
from app.catalog.holdings import Body, Holdings, in_force, quoted_offers, quoted_systems
from app.catalog.hub import MODEL_ID, HubUnavailable, MissingModel, ModelHub, store_fetched_model
from app.catalog.lists import fetched_models
from app.catalog.machine_names import read_machine_names
from app.catalog.market import prepare_trends
from app.catalog.models import Facts, Models, load_models
from app.catalog.names import NAME_TABLES, NOISE_WORDS, countries_named, fold_name, most_similar
from app.catalog.purchasing import Purchasing, load_purchasing
from app.catalog.queries import list_observed_offers, load_snapshot, newest_version, region_countries
from app.db import PUBLIC, DatabaseError, is_damaged, read_consistently
from app.errors import Conflict, NotFound, Unanswerable, Unavailable, UnknownModel, describe_error
from app.garbage import paused_collection
from app.recent import RecentlyUsed
from app.sizing.columns import GB, GIB
from app.sizing.decisions.places import possible_countries
from app.sizing.hardware.parts import PROCESSORS, Accelerator, Environment, Offer, System
from app.sizing.inventory import with_private_prices
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.snapshot import Catalog

MAX_NAME_CHARS = 120
CLOSED_SIMILARITY = 0.65  # similarity from which a name of a closed list is suggested
MAX_DATED_CATALOGS = 8  # days whose prices stay in memory; about 4 MB each
MAX_RESOLVED_NAMES = 4096  # names that stay resolved
WILDCARD = re.compile(r"[*?]")
_ATOM = re.compile(r"[a-z0-9]+")
_TRADEMARK = re.compile(r"\((?:r|tm|c)\)|[®™©]")
_MEMORY = re.compile(r"(?<![a-z0-9.])(\d+)[\s_-]*(?:gib|gb|g)(?![a-z0-9])")
_CORES = re.compile(r"(?<![a-z0-9.])(\d+)[\s_-]*(?:cores?|c)(?![a-z0-9])")
# "8x H100", "2x3090", "L40S x 4", "RTX 3090 (x2)", "3090x2"
_COUNTED = re.compile(
    r"^\s*(\d{1,3})\s*[x×]\s*(?=\D|\d{4}(?!\d))|(?:[\s(]+|(?<=\b\d{4}))[x×]\s*(\d{1,3})\s*\)?\s*$", re.IGNORECASE
)
# "8 H100s", "dual 3090"
_SPOKEN_COUNT = re.compile(
    r"^\s*(?:(?P<digits>\d{1,3})|(?P<word>[a-z]+))\s+(?P<name>(?!g\b|gi?b\b)(?=.*\d).+)",
    re.IGNORECASE | re.ASCII,
)
_COUNT_WORDS = MappingProxyType({"single": 1, "one": 1, "dual": 2, "two": 2, "four": 4, "quad": 4, "eight": 8})
_BRACKETS = re.compile(r"\[([^\]]+)\]")
_PARENTHESES = re.compile(r"\([^)]*\)")


@dataclass(frozen=True, slots=True)
class HardwareMatch:
    """Accelerators that a hardware name matches: one, several or none; and the machine and count that it states."""

    accelerators: tuple[str, ...]
    system: str | None = None  # slug of the machine that the name states
    count: int | None = None  # accelerators that the name states: 8 for "8x H100" and for "p5.48xlarge"
    is_machine: bool = False  # whether the name is that of a machine


@dataclass(frozen=True, slots=True)
class AcceleratorWords:
    """Words that identify one accelerator. `modifiers`, such as "Ti", match only if the name contains them."""

    slug: str
    words: frozenset[str]
    modifiers: frozenset[str]


def normalize_name(name: str) -> str:
    """Returns a name in lower case without trademark signs; memory sizes become "80gb", core counts "40c".

    Check: "Intel(R) Arc(TM) 16 GB" is "intel arc 16gb".
    """
    text = _TRADEMARK.sub("", name[:MAX_NAME_CHARS].lower()).replace("+", " plus ")
    return " ".join(_CORES.sub(r"\1c", _MEMORY.sub(r"\1gb", text)).split())


def split_atoms(name: str) -> list[str]:
    """Returns the runs of letters and digits in a name."""
    return _ATOM.findall(normalize_name(name))


def compact_name(name: str) -> str:
    """Returns the letters and digits of a name without anything between them.

    Check: "p5.48xlarge" and "P5 48xlarge" are equal.
    """
    return "".join(_ATOM.findall(name[:MAX_NAME_CHARS].lower()))


def apply_respellings(text: str) -> str:
    """Replaces alternative spellings in a compacted name.

    Check: "v5litepod-8" is the slice "v5e-8".
    """
    for each in NAME_TABLES.respellings:
        text = text.replace(each.typed, each.means)
    return text


def machine_key(name: str) -> str:
    """Returns the compacted name of a machine. "Standard_ND96isr_H100_v5" and "nd96isr h100 v5" have the same key."""
    return apply_respellings(compact_name(name)).removeprefix("standard")


def machine_keys(system: System) -> tuple[str, ...]:
    """Returns the keys of a machine's name and slug, and of the slice that a TPU host is: "v5e-8"."""
    return tuple(machine_key(name) for name in (system.name, system.slug, system.slug.rpartition("-tpu-")[2]))


class CatalogIndex:
    """Names of one catalog version. `countries` maps its regions to ISO country codes; `purchasing` holds the product
    codes and part numbers that procurement systems use.
    """

    def __init__(
        self, catalog: Catalog, countries: Mapping[str, str] | None = None, purchasing: Purchasing | None = None
    ) -> None:
        self.purchasing = purchasing or Purchasing()
        memory = defaultdict(set)
        for system in catalog.systems.values():
            if system.ram_bytes:
                memory[system.accelerator].add(f"{round(system.ram_bytes / GIB)}gb")
        self.slugs = frozenset(catalog.accelerator_index)
        self.exact_names = {fold_name(a.name): a.slug for a in catalog.accelerators} | {
            slug: slug for slug in self.slugs
        }
        self.accelerator_words = tuple(_make_accelerator_words(a, memory[a.slug]) for a in catalog.accelerators)
        self.vocabulary = frozenset().union(NOISE_WORDS, *(k.words for k in self.accelerator_words))
        self.longest_word = max(map(len, self.vocabulary))
        self.titles = _unique_titles(catalog.accelerators)
        self.forms = {form: a.slug for a in reversed(catalog.accelerators) for form in _searchable_forms(a)}
        self.machines, self.families = _index_machines(catalog)
        self.machine_sizes = _index_sizes(catalog)
        self.systems = {key: s.slug for s in catalog.systems.values() for key in machine_keys(s)}

        self.catalog = catalog
        self.providers = _index_by_key(catalog.providers, NAME_TABLES.providers)
        self.vendors = _index_by_key(catalog.vendors, NAME_TABLES.vendors)
        self._read_regions(catalog)
        self._countries = MappingProxyType(dict(countries or {}))
        self._resolved: RecentlyUsed[str, HardwareMatch] = RecentlyUsed(MAX_RESOLVED_NAMES)
        # Returns the newest observations until a day, which stay in the database; set by the store.
        self.observed_offers: Callable[[str], Sequence[Offer]] = lambda _day: ()
        self._of_day: RecentlyUsed[str, CatalogIndex] = RecentlyUsed(MAX_DATED_CATALOGS)
        self._quotes = ""  # digest of the quotes that the catalog contains
        self._of_tenant: RecentlyUsed[tuple[str, ...], CatalogIndex] = RecentlyUsed(MAX_DATED_CATALOGS)

    def _read_regions(self, catalog: Catalog) -> None:
        self.regions = tuple(sorted({o.region for o in catalog.offers} | {Environment.ON_PREM.value}))
        self._region_keys = {region: compact_name(region) for region in self.regions}
        self.regions_by_provider: Mapping[str, frozenset[str]] = _regions_by_provider(catalog)

    def on_day(self, day: str) -> CatalogIndex:
        """Returns the index of the catalog with the prices in force on a day; itself if no price is newer.

        Raises Unanswerable if the catalog has no rent from then or before.
        """
        newest, first = self.catalog.newest_price_day(day), self.catalog.first_rent_day
        if not newest:
            return self
        if day < first:
            raise Unanswerable(
                f"The catalog has no prices of {day}. Its oldest rent is of {first}; send that day or later."
            )
        return self._of_day.get_or_make(newest, lambda: self._dated(newest))

    def with_catalog(self, catalog: Catalog) -> CatalogIndex:
        """Returns an index of the same names with another view of the same catalog."""
        changed = copy(self)
        changed.catalog = catalog
        changed._of_day, changed._of_tenant = RecentlyUsed(MAX_DATED_CATALOGS), RecentlyUsed(MAX_DATED_CATALOGS)
        return changed

    def with_holdings(self, holdings: Holdings, day: str) -> CatalogIndex:
        """Returns the index with the prices quoted to a tenant that are valid on a day; itself without any."""
        if not holdings.digest or self._quotes == holdings.digest:
            return self
        offers, systems = (in_force(each, day, self.catalog) for each in (holdings.offers, holdings.systems))
        if not offers and not systems:
            return self
        key = (holdings.tenant, holdings.digest, *offers, "", *systems)
        return self._of_tenant.get_or_make(key, lambda: self._with_quotes(holdings.digest, offers, systems))

    def _with_quotes(self, digest: str, offers: Mapping[str, Body], systems: Mapping[str, Body]) -> CatalogIndex:
        """Returns an index of the same names with further rents and machines."""
        quoted = copy(self)
        quoted._quotes = digest
        quoted.catalog = with_private_prices(self.catalog, quoted_offers(offers), quoted_systems(systems, self.catalog))
        quoted.providers = _index_by_key(quoted.catalog.providers, NAME_TABLES.providers)
        quoted._read_regions(quoted.catalog)
        return quoted

    def _dated(self, day: str) -> CatalogIndex:
        """Returns an index of the same names with the prices in force on a day."""
        dated = copy(self)
        dated._of_tenant = RecentlyUsed(MAX_DATED_CATALOGS)
        observed = self.observed_offers(day) if self.catalog.observed_days else ()
        dated.catalog = self.catalog.on_day(day, observed)
        dated._read_regions(dated.catalog)
        return dated

    def resolve_name(self, name: str) -> HardwareMatch:
        """Resolves a slug, a title, words in any order, a machine that has the accelerator, or the part in brackets."""
        return self._resolved.get_or_make(name, lambda: self._resolve_name(name))

    def _resolve_name(self, name: str) -> HardwareMatch:
        own = self.exact_names.get(name.strip().lower()) or self.exact_names.get(fold_name(name))
        if own is not None:
            return HardwareMatch((own,))
        counted = _COUNTED.search(name)
        bare = name if counted is None else _COUNTED.sub(" ", name)
        match = self._match_words(bare) or self._match_machine(name)
        if match is None and (inside := _BRACKETS.search(bare)) is not None:
            match = self._match_words(inside[1]) or self._match_words(_BRACKETS.sub(" ", bare))
        if match is None:
            return self._match_spoken_count(name) or HardwareMatch(())
        if counted is None or match.is_machine:
            return match
        return HardwareMatch(match.accelerators, count=int(counted[1] or counted[2]))

    def _match_spoken_count(self, name: str) -> HardwareMatch | None:
        """Returns the accelerator of a name that begins with a number in digits or words, such as "8 H100s"."""
        spoken = _SPOKEN_COUNT.match(name)
        if spoken is None:
            return None
        count = int(spoken["digits"]) if spoken["digits"] else _COUNT_WORDS.get(spoken["word"].lower(), 0)
        typed = spoken["name"].strip()
        match = (self._match_words(typed) or self._match_words(typed.rstrip("sS"))) if count else None
        return None if match is None else replace(match, count=count)

    def _match_words(self, name: str) -> HardwareMatch | None:
        significant = _significant_words(name)
        if significant and (title := self.titles.get(frozenset(significant))) is not None:
            return HardwareMatch((title,))
        typed = frozenset(self._split_words(name) or ()) - NOISE_WORDS
        if not typed:
            return None
        if (title := self.titles.get(typed)) is not None:
            return HardwareMatch((title,))
        fits = [k for k in self.accelerator_words if typed <= k.words]
        least = min((len(k.modifiers - typed) for k in fits), default=0)
        return HardwareMatch(tuple(k.slug for k in fits if len(k.modifiers - typed) == least)) if fits else None

    def _split_words(self, name: str) -> list[str] | None:
        """Splits a compacted name into the fewest known words; None if it cannot be split. Of as few, those that join
        the fewest typed words count: "a100-sxm4-80gb" ends in "80gb", not in "480gb".
        """
        atoms = split_atoms(name)
        text = apply_respellings("".join(atoms))
        ends = {*accumulate(map(len, atoms))} if len(text) == sum(map(len, atoms)) else set[int]()
        best: list[tuple[int, int, list[str]] | None] = [(0, 0, [])]  # words, typed words joined, the words
        for end in range(1, len(text) + 1):
            shortest: tuple[int, int, list[str]] | None = None
            for start in range(max(0, end - self.longest_word), end):
                before = best[start]
                if before is None or (shortest is not None and before[0] + 1 > shortest[0]):
                    continue
                if text[start:end] in self.vocabulary:
                    joined = before[1] + sum(start < each < end for each in ends)
                    if shortest is None or (before[0] + 1, joined) < shortest[:2]:
                        shortest = (before[0] + 1, joined, [*before[2], text[start:end]])
            best.append(shortest)
        return None if best[-1] is None else best[-1][2]

    def _match_machine(self, name: str) -> HardwareMatch | None:
        key = machine_key(name)
        carried = self.machines.get(key)
        if carried is not None:
            return HardwareMatch((carried,), self.systems.get(key), self.machine_sizes.get(key), is_machine=True)
        hosted = key.removeprefix("ml")  # an EC2 instance of SageMaker, which has prices of its own
        if hosted != key and hosted in self.machine_sizes:
            return HardwareMatch((self.machines[hosted],), count=self.machine_sizes[hosted], is_machine=True)
        for stated in read_machine_names(name):
            match = (
                HardwareMatch((stated.accelerator,))
                if stated.accelerator in self.slugs
                else self._match_words(stated.accelerator)
            )
            if match is not None:
                return replace(match, count=stated.count, is_machine=True)
        family = self.families.get(key)
        return None if family is None else HardwareMatch(tuple(sorted(family)))

    def match_pattern(self, pattern: str) -> tuple[str, ...]:
        """Returns the accelerators whose slug (with or without the vendor) or name matches a pattern with * and ?."""
        key = re.sub(r"[\s_]+", "-", pattern[:MAX_NAME_CHARS].strip().lower()).replace("[", "[[]")
        return tuple(sorted({slug for form, slug in self.forms.items() if fnmatchcase(form, key)}))

    def search_accelerators(self, text: str) -> tuple[str, ...]:
        """Returns the accelerators that a name or pattern resolves to, or those whose words contain all words of it."""
        matches = self.match_pattern(text) if WILDCARD.search(text) else self.resolve_name(text).accelerators
        typed = split_atoms(text)
        if matches or not typed:
            return matches
        return tuple(k.slug for k in self.accelerator_words if all(any(t in word for word in k.words) for t in typed))

    def nearest_accelerators(self, name: str, limit: int = 5) -> tuple[str, ...]:
        """Returns the accelerators with the most similar names, best first."""
        close = most_similar(fold_name(name[:MAX_NAME_CHARS]), self.forms, 4 * limit)
        return tuple(dict.fromkeys(self.forms[form] for form in close))[:limit]

    def country_of(self, region: str) -> str | None:
        """Returns the ISO code of a region's country; None if no price list states it."""
        code = self._countries.get(region)
        return code if code in NAME_TABLES.countries else None

    def find_regions(self, name: str) -> tuple[str, ...]:
        """Returns the regions that match a name, a pattern, a country or an area."""
        if matches := self._find_named_regions(name):
            return matches
        codes = self.find_countries(name)
        return tuple(r for r in self.regions if self._countries.get(r) in codes)

    def _find_named_regions(self, name: str) -> tuple[str, ...]:
        """Returns the regions that match a name or a pattern. The code of a country is never the name of a region."""
        if WILDCARD.search(name):
            pattern = name.strip().lower().replace("[", "[[]")
            return tuple(r for r in self.regions if fnmatchcase(r.lower(), pattern))
        if name.strip().upper() in NAME_TABLES.countries:
            return ()
        exact = tuple(r for r in self.regions if r.lower() == name.strip().lower())
        key = compact_name(name)  # "us-east-1" and "us-east1" are two regions; "US East 1" matches both
        return exact or tuple(r for r in self.regions if self._region_keys[r] == key)

    def find_countries(self, name: str) -> frozenset[str]:
        """Returns the ISO codes of the country or area that a name of regions means; none for names of regions."""
        named = WILDCARD.search(name) or self._find_named_regions(name)
        return frozenset() if named else countries_named(compact_name(name))

    def has_data_centers(self, countries: frozenset[str]) -> bool:
        """Returns whether a provider that rents out machines may place them in one of these countries."""
        return any(
            not possible_countries(self.catalog, provider, None).isdisjoint(countries)
            for provider in self.regions_by_provider
        )


def closest_names(name: str, names: Iterable[str], limit: int = 3) -> tuple[str, ...]:
    """Returns the most similar names of a closed list, best first."""
    by_key = {compact_name(n): n for n in names}
    return tuple(by_key[k] for k in most_similar(compact_name(name), by_key, limit, least=CLOSED_SIMILARITY))


def _significant_words(name: str) -> list[str]:
    """Returns the words of a name without noise words and text in parentheses."""
    return [word for word in split_atoms(_PARENTHESES.sub(" ", name)) if word not in NOISE_WORDS]


def _unique_titles(accelerators: Sequence[Accelerator]) -> dict[frozenset[str], str]:
    """Maps sets of words to the one accelerator that they name, even if other accelerators contain them too."""
    by_words = [(frozenset(_significant_words(a.name)), a.slug) for a in accelerators]
    counts = Counter(words for words, _ in by_words)
    named = {frozenset(_significant_words(title)): slug for title, slug in NAME_TABLES.titles.items()}
    slugs = {slug for _, slug in by_words}
    return {words: slug for words, slug in by_words if counts[words] == 1} | {
        words: slug for words, slug in named.items() if slug in slugs
    }


def _make_accelerator_words(a: Accelerator, machine_memory: Iterable[str]) -> AcceleratorWords:
    """Returns the words by which an accelerator can be named."""
    vendor = a.vendor.lower()
    words = {*split_atoms(a.slug), *_significant_words(a.name), *NAME_TABLES.vendor_words.get(vendor, vendor).split()}
    own = frozenset(words)
    for extra in NAME_TABLES.extra_words:
        if a.slug.startswith(extra.prefix):
            words.update(extra.words.split())
    if a.form_factor in ("SXM", "PCIe", "OAM", "NVL"):
        words.add(a.form_factor.lower())
    memory = frozenset(machine_memory) if a.kind in PROCESSORS else frozenset()
    words |= memory
    if a.memory_bytes and not memory:
        words |= {f"{round(a.memory_bytes / unit)}gb" for unit in (GB, GIB)}
    sizes = {word.removesuffix("gb") for word in own if re.fullmatch(r"\d+gb", word)}
    return AcceleratorWords(
        a.slug,
        frozenset(words | sizes),
        (own & {*NAME_TABLES.modifiers.get(vendor, "").split()}) - {"", *_vendor_words(vendor)},
    )


def _vendor_words(vendor: str) -> frozenset[str]:
    """Returns a vendor's generic words, which do not distinguish its accelerators."""
    return frozenset(NAME_TABLES.vendor_words.get(vendor, "").split())


def _searchable_forms(a: Accelerator) -> tuple[str, ...]:
    """Returns the searchable forms of a name: the slug, the slug without the vendor, and the folded name."""
    return a.slug, a.slug.partition("-")[2] or a.slug, fold_name(a.name)


# Beginnings of instance names that unrelated machines share.
_NON_FAMILY_PREFIXES = frozenset(("gpu", "vm", "bm", "vmgpu", "bmgpu", "standard", "ml", "vbm", "vcg"))


_NUMBER = re.compile(r"\d*x?")


def _index_machines(catalog: Catalog) -> tuple[dict[str, str], dict[str, set[str]]]:
    """Returns the accelerator of each machine by name and slug, and the accelerators of each instance family."""
    of: dict[str, str] = {}
    families: dict[str, set[str]] = defaultdict(set)
    for offer in catalog.offers:
        of[machine_key(offer.instance_type)] = offer.accelerator
    for system in catalog.systems.values():
        of |= dict.fromkeys(machine_keys(system), system.accelerator)
    for system in catalog.systems.values():
        for text in (system.name.lower().removeprefix("standard_").removeprefix(f"{system.provider} "), system.slug):
            parts = re.split(r"[\s._-]", text)
            for upto in range(1, len(parts)):
                families[compact_name("".join(parts[:upto]))].add(system.accelerator)
    return of, {
        key: slugs for key, slugs in families.items() if key not in _NON_FAMILY_PREFIXES and not _NUMBER.fullmatch(key)
    }


def _index_sizes(catalog: Catalog) -> dict[str, int]:
    """Returns the accelerators of each machine by name and slug; machines with less than one are left out."""
    sizes: dict[str, int] = {}
    for offer in catalog.offers:
        sizes[machine_key(offer.instance_type)] = int(offer.accelerator_count or 0)
    for system in catalog.systems.values():
        sizes |= dict.fromkeys(machine_keys(system), int(system.accelerator_count))
    return {key: count for key, count in sizes.items() if count}


def _index_by_key(names: Iterable[str], aliases: Mapping[str, str]) -> Mapping[str, str]:
    """Returns names by their compacted form, including their aliases."""
    own = {compact_name(n): n for n in names}
    return MappingProxyType({**{alias: n for alias, n in aliases.items() if n in own.values()}, **own})


def _regions_by_provider(catalog: Catalog) -> Mapping[str, frozenset[str]]:
    """Returns the regions in which each provider rents out machines."""
    regions: dict[str, set[str]] = defaultdict(set)
    for offer in catalog.offers:
        regions[offer.provider].add(offer.region)
    return MappingProxyType({provider: frozenset(names) for provider, names in regions.items()})


MAX_MODELS_CACHED = 512
FIRST_LOAD_WAIT_S = 10.0  # longest wait of a request for the first catalog

log = structlog.get_logger("headroom")


class EmptyCatalog(Unavailable):
    """The database contains no catalog: it was migrated but not loaded."""

    code = "empty-catalog"


class CatalogNotReady(Unavailable):
    """The first catalog is being loaded, for longer than a request waits."""

    code = "not-ready"


@dataclass(frozen=True, slots=True)
class LoadedCatalog:
    """A catalog version in memory, with everything that requests read from it."""

    version: tuple[int, str, str]  # id, digest and publication time in the database
    catalog_index: CatalogIndex
    models: Models
    fetched_model_count: int  # number of models that came from a hub


@dataclass(frozen=True, slots=True)
class CatalogStatus:
    """State of the catalog: the version in memory if any, and its problem if any."""

    catalog: Catalog | None
    problem: str  # reason why the catalog is not ready; empty if it is
    is_loading: bool  # no check for a catalog has finished yet


def load_newest(session: Session, known: LoadedCatalog | None = None) -> LoadedCatalog | None:
    """Returns the newest catalog, or None if the database has none that is newer than `known`."""
    read_consistently(session)
    newest = newest_version(session)
    if newest is None or (known is not None and newest == known.version):
        return None
    with paused_collection():
        catalog = load_snapshot(session, newest[1], newest[2])
        if catalog.observed_days:
            prepare_trends(session, catalog)
        directory = CatalogIndex(catalog, region_countries(session), load_purchasing(session))
        loaded = LoadedCatalog(newest, directory, load_models(session), fetched_models(session))
    log.info("catalogue_loaded", snapshot=catalog.version)
    return loaded


class CatalogStore:
    """Provides the newest catalog; queries the database at most every `check_s` seconds. `loaded` is a catalog that
    this process inherited from its parent.

    One caller at a time builds a newer catalog and then swaps it in (the background refresh does so for all); others
    continue with the loaded one. If the database does not answer, the loaded catalog stays in use: prices stay valid
    for longer than an outage lasts.
    """

    def __init__(
        self,
        sessions: sessionmaker[Session],
        *,
        check_s: float,
        hub: ModelHub | None = None,
        loaded: LoadedCatalog | None = None,
    ) -> None:
        self._sessions, self._check_s, self._hub = sessions, check_s, hub
        self._check_lock = threading.Lock()
        self._loaded: LoadedCatalog | None = None
        self._checked_at = -1.0
        self._database_error: DatabaseError | None = None
        self._lock = threading.Lock()  # guards the cached models; held for a few operations only
        self._models: OrderedDict[str, ModelArchitecture] = OrderedDict()
        self._ended = threading.Event()
        # Runs for each newer catalog before it answers questions, with a store of that catalog alone.
        self.before_use: Callable[[CatalogIndex, CatalogStore], None] | None = None
        self.with_measurements: Callable[[CatalogIndex, str], CatalogIndex] | None = None  # adds those of a tenant
        if loaded is not None:
            self._replace_catalog(loaded)

    def refresh_periodically(self) -> None:
        """Checks for a newer catalog every `check_s` seconds until `stop_refreshing`, so that no request has to."""
        while True:
            try:
                self._check_for_newer(wait_s=0.0)
            except Exception as error:
                log.warning("catalogue_not_checked", **describe_error(error))
            if self._ended.wait(max(self._check_s, 0.1)):
                return

    def stop_refreshing(self) -> None:
        """Makes `refresh_periodically` return."""
        self._ended.set()

    def release_catalog(self) -> None:
        """Drops the catalog in memory; the next question loads it again.

        Module-level routers keep every application alive that included them, and with it what its state refers to.
        """
        self._loaded = None
        self._models.clear()

    def catalog(self) -> Catalog:
        """Returns the newest published catalog.

        Raises CatalogNotReady before the first load, EmptyCatalog if the database has none, and the database's own
        error if no catalog is in memory.
        """
        return self.directory().catalog

    def directory(self, tenant: str = PUBLIC) -> CatalogIndex:
        """Returns the name index of the newest catalog with a tenant's measurements. Raises the errors of `catalog`."""
        newest = self.published()
        return newest if self.with_measurements is None else self.with_measurements(newest, tenant)

    def published(self) -> CatalogIndex:
        """Returns the name index of the newest published catalog without measurements."""
        return self._newest_catalog().catalog_index

    def catalog_status(self) -> CatalogStatus:
        """Returns the current state of the catalog without waiting."""
        at = self._loaded
        if self._database_error is not None and is_damaged(self._database_error):
            why = f"its database is damaged, restore a backup: {describe_error(self._database_error)['message']}"
        elif self._database_error is not None:
            why = f"its database does not answer: {describe_error(self._database_error)['message']}"
        elif at is None:
            why = "it is being loaded" if self._checked_at < 0 else "it is empty. Run `headroom prepare`"
        else:
            why = ""
        return CatalogStatus(None if at is None else at.catalog_index.catalog, why, is_loading=self._checked_at < 0)

    def loaded_directory(self, tenant: str = PUBLIC) -> CatalogIndex | None:
        """Returns the name index that answers questions now; None while one is being loaded."""
        at = self._loaded
        if at is None or self._checked_at < 0:
            return None
        index = at.catalog_index
        return index if self.with_measurements is None else self.with_measurements(index, tenant)

    def _newest_catalog(self) -> LoadedCatalog:
        if self._loaded is None or time.monotonic() - self._checked_at >= self._check_s:
            is_first = self._loaded is None or self._checked_at < 0  # an inherited catalog may be out of date
            self._check_for_newer(wait_s=FIRST_LOAD_WAIT_S if is_first else 0.0)
        if self._loaded is not None:
            return self._loaded
        if self._database_error is not None:
            raise self._database_error
        if self._checked_at < 0:
            raise CatalogNotReady("The catalog is still being loaded. Send the request again.")
        raise EmptyCatalog("The catalog is empty. Run `headroom prepare`.")

    def _check_for_newer(self, *, wait_s: float) -> None:
        """Checks for a newer catalog unless another thread does so. Waits up to `wait_s` seconds for that thread."""
        started = time.monotonic()
        if not self._check_lock.acquire(timeout=wait_s):
            return
        try:
            if self._checked_at < started:
                self._load_newest()
                self._database_error = None
                telemetry.record_catalog_check()
        except DatabaseError as error:
            if self._database_error is None:  # logged once, until the database answers again
                log.warning("catalogue_not_checked", **describe_error(error))
            self._database_error = error
            telemetry.record_catalog_failure()
        finally:
            self._checked_at = time.monotonic()
            self._check_lock.release()

    def _load_newest(self) -> None:
        with self._sessions() as session:
            newer = load_newest(session, self._loaded)
        if newer is None:
            return
        if self._loaded is not None and self.before_use is not None:
            try:
                self.before_use(newer.catalog_index, self._fixed_at(newer))
            except Exception as error:
                log.warning("catalogue_not_prepared", **describe_error(error))
        self._replace_catalog(newer)

    def _fixed_at(self, loaded: LoadedCatalog) -> CatalogStore:
        """Returns a store of one catalog, which looks for no newer one."""
        store = CatalogStore(self._sessions, check_s=math.inf, hub=self._hub)
        store._loaded, store._checked_at = loaded, time.monotonic()
        return store

    def _replace_catalog(self, loaded: LoadedCatalog) -> None:
        offers = loaded.catalog_index.catalog.offers

        def observed_offers(day: str) -> Sequence[Offer]:
            with self._sessions() as session:
                return list_observed_offers(session, day, offers)

        loaded.catalog_index.observed_offers = observed_offers
        with self._lock:
            self._loaded = loaded
            self._models.clear()
        number, _, published = loaded.version
        prices_as_of = loaded.catalog_index.catalog.prices_as_of
        telemetry.record_catalog_loaded(number, published=published, prices_as_of=prices_as_of)

    def find_model(self, name: str) -> ModelArchitecture:
        """Returns the architecture of a model by name, from memory if it was requested before.

        Fetches an id that the catalog lacks from the model hub, if one is configured, and stores it. Raises
        UnknownModel, AmbiguousModel, and the errors of the hub and of reading the configuration.
        """
        with self._lock:
            known = self._models.get(name)
        if known is not None:
            return known
        at = self._newest_catalog()
        hub = self._hub if MODEL_ID.fullmatch(name) else None
        try:
            model = at.models.find_architecture(name, fuzzy=hub is None)
        except UnknownModel:
            added = self._find_added_model(at, name)
            if added is not None:
                model = added
            elif hub is not None:
                model = self._fetch_from_hub(at, hub, name)
            else:
                raise
        with self._lock:
            if self._loaded is not None and self._loaded.catalog_index is at.catalog_index:
                self._models[name] = model
            while len(self._models) > MAX_MODELS_CACHED:
                self._models.popitem(last=False)
        return model

    def model_entries(self) -> Collection[Facts]:
        return self._newest_catalog().models.entries()

    def model_identity(self, name: str) -> str:
        """Returns the catalog's id of a model; a name that the catalog does not know is returned as typed."""
        try:
            identity: str = self._newest_catalog().models.find_entry(name)[0]["hf_id"]
        except (NotFound, Conflict):
            return name
        return identity

    def smaller_model(self, identity: str) -> str | None:
        """Returns the id of the next smaller model of a family; None if the catalog has none."""
        return self._newest_catalog().models.next_smaller(identity)

    def _find_added_model(self, at: LoadedCatalog, name: str) -> ModelArchitecture | None:
        """Returns a model that another process has fetched since this catalog was loaded, or None."""
        try:
            with self._sessions() as session:
                if fetched_models(session) == at.fetched_model_count:
                    return None
                return self._reload_models(at, session).find_architecture(name, fuzzy=False)
        except (DatabaseError, UnknownModel):
            return None

    def _fetch_from_hub(self, at: LoadedCatalog, hub: ModelHub, name: str) -> ModelArchitecture:
        """Fetches a model from the hub and stores it. If that fails, returns a catalog model with a similar name."""
        try:
            fetched = hub.fetch_model(name)
        except (MissingModel, HubUnavailable) as trouble:
            try:
                return at.models.find_architecture(name)
            except UnknownModel as unknown:
                raise type(trouble)(trouble.detail, **unknown.facts) from unknown
        with self._sessions() as session:
            store_fetched_model(session, name, fetched)
            return self._reload_models(at, session).find_architecture(name, fuzzy=False)

    def _reload_models(self, at: LoadedCatalog, session: Session) -> Models:
        """Reloads the models from the database and adds them to the catalog in memory."""
        models = load_models(session)
        updated = replace(at, models=models, fetched_model_count=fetched_models(session))
        with self._lock:
            if self._loaded is at:
                self._loaded = updated
        return models
