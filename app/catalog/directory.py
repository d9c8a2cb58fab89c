"""Index of the names of accelerators, providers, vendors and regions; built once per catalog version."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from types import MappingProxyType

from app.catalog.names import folded, likest
from app.catalog.places import COUNTRIES, countries_named
from app.catalog.purchasing import Purchasing
from app.catalog.spellings import ALSO, MODIFIERS, NOISE, OF_VENDOR, PROVIDERS, RESPELT, TITLES, VENDORS
from app.sizing.hardware.parts import PROCESSORS, Accelerator
from app.sizing.snapshot import Catalog
from app.sizing.units import GB, GIB

LONGEST_NAME = 120
WILD = re.compile(r"[*?]")
_ATOM = re.compile(r"[a-z0-9]+")
_TRADEMARK = re.compile(r"\((?:r|tm|c)\)|[®™©]")
_MEMORY = re.compile(r"(?<![a-z0-9.])(\d+)[\s_-]*(?:gib|gb|g)(?![a-z0-9])")
_CORES = re.compile(r"(?<![a-z0-9.])(\d+)[\s_-]*(?:cores?|c)(?![a-z0-9])")
_COUNTED = re.compile(r"^\s*(\d{1,3})\s*[x×]\s*(?=\D)|\s+[x×]\s*(\d{1,3})\s*$", re.IGNORECASE)
_BRACKETS = re.compile(r"\[([^\]]+)\]")
_PARENTHESES = re.compile(r"\([^)]*\)")


@dataclass(frozen=True, slots=True)
class Named:
    """Accelerators that a hardware name matches: one, several or none; plus the machine and the count that it
    states.
    """

    accelerators: tuple[str, ...]
    system: str | None = None  # slug of the machine that the name states
    count: int | None = None  # accelerators that the name states: "8x H100" is 8


@dataclass(frozen=True, slots=True)
class Known:
    """Words that identify one accelerator. `modifiers` are words such as "Ti" that match only if the name contains
    them.
    """

    slug: str
    words: frozenset[str]
    modifiers: frozenset[str]


def plain(name: str) -> str:
    """Returns a name in lower case without trademark signs; memory sizes become "80gb", core counts "40c".

    Check: "Intel(R) Arc(TM) 16 GB" is "intel arc 16gb".
    """
    text = _TRADEMARK.sub("", name[:LONGEST_NAME].lower()).replace("+", " plus ")
    return " ".join(_CORES.sub(r"\1c", _MEMORY.sub(r"\1gb", text)).split())


def atoms(name: str) -> list[str]:
    """Returns the runs of letters and digits in a name."""
    return _ATOM.findall(plain(name))


def run_together(name: str) -> str:
    """Returns the letters and digits of a name without anything between them.

    Check: "p5.48xlarge" and "P5 48xlarge" are equal.
    """
    return "".join(_ATOM.findall(name[:LONGEST_NAME].lower()))


def respelt(text: str) -> str:
    """Replaces alternative spellings in a compacted name.

    Check: "v5litepod-8" is the slice "v5e-8".
    """
    for typed, stands_for in RESPELT:
        text = text.replace(typed, stands_for)
    return text


def machine_key(name: str) -> str:
    """Returns the compacted name of a machine. "Standard_ND96isr_H100_v5" and "nd96isr h100 v5" have the same key."""
    return respelt(run_together(name)).removeprefix("standard")


class CatalogIndex:
    """Names of one catalog version. `countries` maps its regions to ISO country codes; `purchasing` holds the product
    codes and part numbers that procurement systems use.
    """

    def __init__(
        self, market: Catalog, countries: Mapping[str, str] | None = None, purchasing: Purchasing | None = None
    ) -> None:
        self.purchasing = purchasing or Purchasing()
        memory = defaultdict(set)
        for system in market.systems.values():
            if system.ram_bytes:
                memory[system.accelerator].add(f"{round(system.ram_bytes / GIB)}gb")
        self.slugs = frozenset(market.accelerator_index)
        self.own_names = {folded(a.name): a.slug for a in market.accelerators} | {slug: slug for slug in self.slugs}
        self.known = tuple(_known(a, memory[a.slug]) for a in market.accelerators)
        self.vocabulary = frozenset().union(NOISE, *(k.words for k in self.known))
        self.longest_word = max(map(len, self.vocabulary))
        self.titles = _titles(market.accelerators)
        self.forms = {form: a.slug for a in reversed(market.accelerators) for form in _forms(a)}
        self.machines, self.families = _machines(market)
        sold = market.systems.values()
        self.systems = {machine_key(s.name): s.slug for s in sold} | {machine_key(s.slug): s.slug for s in sold}

        self.market = market
        self.providers = _by_key(market.providers, PROVIDERS)
        self.vendors = _by_key(market.vendors, VENDORS)
        self.regions = tuple(market.regions)
        self._region_keys = {region: run_together(region) for region in self.regions}
        self._countries = MappingProxyType(dict(countries or {}))
        self.sold_in: Mapping[str, frozenset[str]] = _sold_in(market)
        self.named = lru_cache(maxsize=4096)(self._named)

    def _named(self, name: str) -> Named:
        """Resolves a name: a slug, a title, words in any order, a machine that contains the accelerator, or the part in
        brackets.
        """
        own = self.own_names.get(name.strip().lower()) or self.own_names.get(folded(name))
        if own is not None:
            return Named((own,))
        counted = _COUNTED.search(name)
        bare = name if counted is None else _COUNTED.sub(" ", name)
        match = self._by_words(bare) or self._by_machine(name)
        if match is None and (inside := _BRACKETS.search(bare)) is not None:
            match = self._by_words(inside[1]) or self._by_words(_BRACKETS.sub(" ", bare))
        if match is None:
            return Named(())
        if counted is None or match.system is not None:
            return match
        return Named(match.accelerators, count=int(counted[1] or counted[2]))

    def _by_words(self, name: str) -> Named | None:
        significant = _said(name)
        if significant and (title := self.titles.get(frozenset(significant))) is not None:
            return Named((title,))
        typed = frozenset(self._segmented(name) or ()) - NOISE
        if not typed:
            return None
        if (title := self.titles.get(typed)) is not None:
            return Named((title,))
        fits = [k for k in self.known if typed <= k.words]
        least = min((len(k.modifiers - typed) for k in fits), default=0)
        return Named(tuple(k.slug for k in fits if len(k.modifiers - typed) == least)) if fits else None

    def _segmented(self, name: str) -> list[str] | None:
        """Splits a compacted name into the fewest known words; None if it cannot be split."""
        text = respelt("".join(atoms(name)))
        best: list[list[str] | None] = [[]]
        for end in range(1, len(text) + 1):
            shortest: list[str] | None = None
            for start in range(max(0, end - self.longest_word), end):
                before = best[start]
                if before is None or (shortest is not None and len(before) + 1 >= len(shortest)):
                    continue
                if text[start:end] in self.vocabulary:
                    shortest = [*before, text[start:end]]
            best.append(shortest)
        return best[-1]

    def _by_machine(self, name: str) -> Named | None:
        key = machine_key(name)
        carried = self.machines.get(key)
        if carried is not None:
            return Named((carried,), system=self.systems.get(key))
        family = self.families.get(key)
        return None if family is None else Named(tuple(sorted(family)))

    def matching(self, pattern: str) -> tuple[str, ...]:
        """Returns the accelerators whose slug (with or without the vendor) or name matches a pattern with * and ?."""
        key = re.sub(r"[\s_]+", "-", pattern[:LONGEST_NAME].strip().lower()).replace("[", "[[]")
        return tuple(sorted({slug for form, slug in self.forms.items() if fnmatchcase(form, key)}))

    def searched(self, text: str) -> tuple[str, ...]:
        """Returns the accelerators that a name or pattern resolves to, or those whose words contain all words of it."""
        matches = self.matching(text) if WILD.search(text) else self.named(text).accelerators
        typed = atoms(text)
        if matches or not typed:
            return matches
        return tuple(k.slug for k in self.known if all(any(t in word for word in k.words) for t in typed))

    def nearest(self, name: str, limit: int = 5) -> tuple[str, ...]:
        """Returns the accelerators with the most similar names, best first."""
        close = likest(folded(name[:LONGEST_NAME]), self.forms, 4 * limit)
        return tuple(dict.fromkeys(self.forms[form] for form in close))[:limit]

    def country_of(self, region: str) -> str | None:
        """Returns the ISO code of a region's country; None if no price list states it."""
        code = self._countries.get(region)
        return code if code in COUNTRIES else None

    def regions_named(self, name: str) -> tuple[str, ...]:
        """Returns the regions that match a name, a pattern, a country or an area."""
        if WILD.search(name):
            pattern = name.strip().lower().replace("[", "[[]")
            return tuple(r for r in self.regions if fnmatchcase(r.lower(), pattern))
        exact = tuple(r for r in self.regions if r.lower() == name.strip().lower())
        key = run_together(name)  # "us-east-1" and "us-east1" are two regions; "US East 1" matches both
        if matches := exact or tuple(r for r in self.regions if self._region_keys[r] == key):
            return matches
        codes = countries_named(key)
        return tuple(r for r in self.regions if self._countries.get(r) in codes)


def close_to(name: str, names: Iterable[str], limit: int = 3) -> tuple[str, ...]:
    """Returns the most similar names of a closed list, best first."""
    by_key = {run_together(n): n for n in names}
    return tuple(by_key[k] for k in likest(run_together(name), by_key, limit))


def _said(name: str) -> list[str]:
    """Returns the words of a name without noise words and text in parentheses."""
    return [word for word in atoms(_PARENTHESES.sub(" ", name)) if word not in NOISE]


def _titles(accelerators: Sequence[Accelerator]) -> dict[frozenset[str], str]:
    """Maps sets of words to the one accelerator that they name, even if other accelerators contain them too."""
    by_words = [(frozenset(_said(a.name)), a.slug) for a in accelerators]
    counts = Counter(words for words, _ in by_words)
    named = {frozenset(_said(title)): slug for title, slug in TITLES.items()}
    slugs = {slug for _, slug in by_words}
    return {words: slug for words, slug in by_words if counts[words] == 1} | {
        words: slug for words, slug in named.items() if slug in slugs
    }


def _known(a: Accelerator, machine_memory: Iterable[str]) -> Known:
    """Returns the words by which an accelerator can be named."""
    vendor = a.vendor.lower()
    words = {*atoms(a.slug), *_said(a.name), *OF_VENDOR.get(vendor, vendor).split()}
    own = frozenset(words)
    for prefix, extra in ALSO:
        if a.slug.startswith(prefix):
            words.update(extra.split())
    if a.form_factor in ("SXM", "PCIe", "OAM", "NVL"):
        words.add(a.form_factor.lower())
    memory = frozenset(machine_memory) if a.kind in PROCESSORS else frozenset()
    words |= memory
    if a.memory_bytes and not memory:
        words |= {f"{round(a.memory_bytes / unit)}gb" for unit in (GB, GIB)}
    sizes = {word.removesuffix("gb") for word in own if re.fullmatch(r"\d+gb", word)}
    return Known(a.slug, frozenset(words | sizes), (MODIFIERS.get(vendor, frozenset()) & own) - {"", *_prefix(vendor)})


def _prefix(vendor: str) -> frozenset[str]:
    """Returns a vendor's generic words, which do not distinguish its accelerators."""
    return frozenset(OF_VENDOR.get(vendor, "").split())


def _forms(a: Accelerator) -> tuple[str, ...]:
    """Returns the searchable forms of an accelerator's name: the slug, the slug without the vendor, and the folded
    name.
    """
    return a.slug, a.slug.partition("-")[2] or a.slug, folded(a.name)


# Beginnings of instance names that unrelated machines share.
_NO_FAMILY = frozenset(("gpu", "vm", "bm", "vmgpu", "bmgpu", "standard", "ml", "vbm", "vcg"))


_NUMBER = re.compile(r"\d*x?")


def _machines(market: Catalog) -> tuple[dict[str, str], dict[str, set[str]]]:
    """Returns the accelerator of each machine by name and slug, and the accelerators of each instance family."""
    of: dict[str, str] = {}
    families: dict[str, set[str]] = defaultdict(set)
    for offer in market.offers:
        of[machine_key(offer.instance_type)] = offer.accelerator
    for system in market.systems.values():
        of[machine_key(system.name)] = of[machine_key(system.slug)] = system.accelerator
    for system in market.systems.values():
        for text in (system.name.lower().removeprefix("standard_").removeprefix(f"{system.provider} "), system.slug):
            parts = re.split(r"[\s._-]", text)
            for upto in range(1, len(parts)):
                families[run_together("".join(parts[:upto]))].add(system.accelerator)
    return of, {key: slugs for key, slugs in families.items() if key not in _NO_FAMILY and not _NUMBER.fullmatch(key)}


def _by_key(names: Iterable[str], aliases: Mapping[str, str]) -> Mapping[str, str]:
    """Returns names by their compacted form, including their aliases."""
    own = {run_together(n): n for n in names}
    return MappingProxyType({**{alias: n for alias, n in aliases.items() if n in own.values()}, **own})


def _sold_in(market: Catalog) -> Mapping[str, frozenset[str]]:
    """Returns the regions in which each provider rents out machines."""
    regions: dict[str, set[str]] = defaultdict(set)
    for offer in market.offers:
        regions[offer.provider].add(offer.region)
    return MappingProxyType({provider: frozenset(names) for provider, names in regions.items()})
