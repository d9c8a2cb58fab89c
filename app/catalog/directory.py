"""Which accelerators, providers, vendors and regions a name means; built once per snapshot."""

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
from app.sizing.snapshot import Snapshot
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
    """What a name of hardware means: one accelerator, several, or none; `system`: the machine it named."""

    accelerators: tuple[str, ...]
    system: str | None = None
    count: int | None = None  # "8x H100" says eight


@dataclass(frozen=True, slots=True)
class Known:
    """One accelerator with the words it may be called by, and those that set it apart only where they are said."""

    slug: str
    words: frozenset[str]
    modifiers: frozenset[str]


def plain(name: str) -> str:
    """Lower case, memory as "80gb", cores as "40c", nothing of trademarks.

    Check: "Intel(R) Arc(TM) 16 GB" is "intel arc 16gb".
    """
    text = _TRADEMARK.sub("", name[:LONGEST_NAME].lower()).replace("+", " plus ")
    return " ".join(_CORES.sub(r"\1c", _MEMORY.sub(r"\1gb", text)).split())


def atoms(name: str) -> list[str]:
    """Runs of letters and digits of a name."""
    return _ATOM.findall(plain(name))


def run_together(name: str) -> str:
    """A name with nothing between its words.

    Check: "p5.48xlarge" and "P5 48xlarge" are one.
    """
    return "".join(_ATOM.findall(name[:LONGEST_NAME].lower()))


def respelt(text: str) -> str:
    """A name run together, with what some words stand for.

    Check: "v5litepod-8" is the slice "v5e-8".
    """
    for typed, stands_for in RESPELT:
        text = text.replace(typed, stands_for)
    return text


def machine_key(name: str) -> str:
    """A machine's name run together: "Standard_ND96isr_H100_v5" and "nd96isr h100 v5" are one."""
    return respelt(run_together(name)).removeprefix("standard")


class Directory:
    """Names of one snapshot. `countries` are those of its regions, by ISO code; `purchasing` is what buyers' tools
    call its goods.
    """

    def __init__(
        self, market: Snapshot, countries: Mapping[str, str] | None = None, purchasing: Purchasing | None = None
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
        """What a name means: a slug, a title, words in any order, a machine that carries it, the name in brackets."""
        own = self.own_names.get(name.strip().lower()) or self.own_names.get(folded(name))
        if own is not None:
            return Named((own,))
        counted = _COUNTED.search(name)
        bare = name if counted is None else _COUNTED.sub(" ", name)
        found = self._by_words(bare) or self._by_machine(name)
        if found is None and (inside := _BRACKETS.search(bare)) is not None:
            found = self._by_words(inside[1]) or self._by_words(_BRACKETS.sub(" ", bare))
        if found is None:
            return Named(())
        if counted is None or found.system is not None:
            return found
        return Named(found.accelerators, count=int(counted[1] or counted[2]))

    def _by_words(self, name: str) -> Named | None:
        said = _said(name)
        if said and (title := self.titles.get(frozenset(said))) is not None:
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
        """The fewest known words that a name run together is made of; None where it is not."""
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
        """Accelerators whose slug, with its maker or without, or whose name fits a pattern with * and ?."""
        key = re.sub(r"[\s_]+", "-", pattern[:LONGEST_NAME].strip().lower()).replace("[", "[[]")
        return tuple(sorted({slug for form, slug in self.forms.items() if fnmatchcase(form, key)}))

    def searched(self, text: str) -> tuple[str, ...]:
        """Accelerators that a name or a pattern means, else those of whose words some hold every one that was typed."""
        found = self.matching(text) if WILD.search(text) else self.named(text).accelerators
        typed = atoms(text)
        if found or not typed:
            return found
        return tuple(k.slug for k in self.known if all(any(t in word for word in k.words) for t in typed))

    def nearest(self, name: str, limit: int = 5) -> tuple[str, ...]:
        """Accelerators whose names are most like one, best first."""
        close = likest(folded(name[:LONGEST_NAME]), self.forms, 4 * limit)
        return tuple(dict.fromkeys(self.forms[form] for form in close))[:limit]

    def country_of(self, region: str) -> str | None:
        """ISO code of a region's country; None where a price list says none."""
        code = self._countries.get(region)
        return code if code in COUNTRIES else None

    def regions_named(self, name: str) -> tuple[str, ...]:
        """Regions that a name, a pattern, a country or an area means."""
        if WILD.search(name):
            pattern = name.strip().lower().replace("[", "[[]")
            return tuple(r for r in self.regions if fnmatchcase(r.lower(), pattern))
        exact = tuple(r for r in self.regions if r.lower() == name.strip().lower())
        key = run_together(name)  # "us-east-1" and "us-east1" are two regions, and "US East 1" is either
        if found := exact or tuple(r for r in self.regions if self._region_keys[r] == key):
            return found
        codes = countries_named(key)
        return tuple(r for r in self.regions if self._countries.get(r) in codes)


def close_to(name: str, names: Iterable[str], limit: int = 3) -> tuple[str, ...]:
    """The names of a closed list most like one, best first."""
    by_key = {run_together(n): n for n in names}
    return tuple(by_key[k] for k in likest(run_together(name), by_key, limit))


def _said(name: str) -> list[str]:
    """Words of a name that tell something."""
    return [word for word in atoms(_PARENTHESES.sub(" ", name)) if word not in NOISE]


def _titles(accelerators: Sequence[Accelerator]) -> dict[frozenset[str], str]:
    """Words of names that mean one accelerator, whatever else they would fit."""
    said = [(frozenset(_said(a.name)), a.slug) for a in accelerators]
    often = Counter(words for words, _ in said)
    named = {frozenset(_said(title)): slug for title, slug in TITLES.items()}
    slugs = {slug for _, slug in said}
    return {words: slug for words, slug in said if often[words] == 1} | {
        words: slug for words, slug in named.items() if slug in slugs
    }


def _known(a: Accelerator, machine_memory: Iterable[str]) -> Known:
    vendor = a.vendor.lower()
    words = {*atoms(a.slug), *_said(a.name), *OF_VENDOR.get(vendor, vendor).split()}
    own = frozenset(words)
    for beginning, also in ALSO:
        if a.slug.startswith(beginning):
            words.update(also.split())
    if a.form_factor in ("SXM", "PCIe", "OAM", "NVL"):
        words.add(a.form_factor.lower())
    memory = frozenset(machine_memory) if a.kind in PROCESSORS else frozenset()
    words |= memory
    if a.memory_bytes and not memory:
        words |= {f"{round(a.memory_bytes / unit)}gb" for unit in (GB, GIB)}
    sizes = {word.removesuffix("gb") for word in own if re.fullmatch(r"\d+gb", word)}
    return Known(a.slug, frozenset(words | sizes), (MODIFIERS.get(vendor, frozenset()) & own) - {"", *_prefix(vendor)})


def _prefix(vendor: str) -> frozenset[str]:
    """Words of a maker's machines, which set no accelerator apart."""
    return frozenset(OF_VENDOR.get(vendor, "").split())


def _forms(a: Accelerator) -> tuple[str, ...]:
    """A slug whole and without its maker, and the name."""
    return a.slug, a.slug.partition("-")[2] or a.slug, folded(a.name)


# Beginnings of instance names that many unlike machines share.
_NO_FAMILY = frozenset(("gpu", "vm", "bm", "vmgpu", "bmgpu", "standard", "ml", "vbm", "vcg"))


_NUMBER = re.compile(r"\d*x?")


def _machines(market: Snapshot) -> tuple[dict[str, str], dict[str, set[str]]]:
    """The accelerator of every machine by its name and slug, and those of every family of instances."""
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
    """Names by how they are written run together, with what else they are called."""
    own = {run_together(n): n for n in names}
    return MappingProxyType({**{alias: n for alias, n in aliases.items() if n in own.values()}, **own})


def _sold_in(market: Snapshot) -> Mapping[str, frozenset[str]]:
    """Regions in which each provider rents something out."""
    regions: dict[str, set[str]] = defaultdict(set)
    for offer in market.offers:
        regions[offer.provider].add(offer.region)
    return MappingProxyType({provider: frozenset(names) for provider, names in regions.items()})
