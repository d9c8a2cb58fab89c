"""Every price in the catalog and the machine it buys.

Machines that are equal in everything a formula reads share one row, so that a search judges each kind once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from app.sizing.hardware.parts import (
    BOARDS,
    KINDS,
    LINKS,
    PROCESSORS,
    SOCKET,
    Accelerator,
    Environment,
    Link,
    Offer,
    PricingModel,
    Segment,
    System,
    SystemKind,
    Terms,
    day_numbers,
    machine_link,
)
from app.sizing.hardware.tables import Listings, Machines, columns_from, index_by_name

PRICING = tuple(PricingModel)
MIN_FABRIC_BYTES_PER_S = 25e9 / 8  # 25 Gbit/s; office networks have 10 Gbit/s
GENERIC_PROVIDER = "generic"  # provider of a generic host
INVENTORY = "inventory"  # provider of the hardware that the caller owns


class Node(NamedTuple):
    """One kind of machine, as a row of Machines; None for an unknown number."""

    accelerator: int
    accelerators_per_node: float
    share: float
    memory_bytes: float | None
    link: int
    link_bytes_per_s: float
    scale_up_domain: float
    network_bytes_per_s: float | None
    power_w: float | None
    on_prem: bool
    workstation: bool


class ListingRow(NamedTuple):
    """One price, as a row of Listings."""

    machine: int
    accelerator: int
    offer: int
    system: int
    provider: int
    region: int
    pricing: int
    instance_type: int
    usd_per_hour: float | None
    list_price_usd: float | None
    ram_bytes: float | None
    vcpus: float | None
    kind: int
    observed_days: float


def generic_hosts(accelerators: Sequence[Accelerator], systems: Sequence[System]) -> Iterator[System]:
    """A generic host for every accelerator that is sold without one. Boards without any known system are left out."""
    covered = {s.accelerator for s in systems if s.environment is Environment.ON_PREM}
    built = {s.accelerator for s in systems}
    for a in accelerators:
        board = a.form_factor in BOARDS
        unbuilt = board and a.slug not in built
        if a.slug in covered or a.list_price_usd_high is None or a.kind in PROCESSORS or unbuilt:
            continue
        for count in sorted({a.typical_node_size} if board else {1, a.typical_node_size}):
            yield generic_host(a, count, board=board)


def generic_host(a: Accelerator, count: int, *, board: bool) -> System:
    """`count` accelerators in a host of assumed parts. Boards use their usual link, cards their PCIe slots."""
    desk = a.segment in (Segment.CONSUMER, Segment.WORKSTATION)
    link, _, domain = machine_link(a, count=float(count))
    return System(
        slug=f"host-{count}x-{a.slug}",
        name=f"{count} x {a.name} in a generic host",
        kind=SystemKind.WORKSTATION if desk else SystemKind.SERVER,
        provider=GENERIC_PROVIDER,
        accelerator=a.slug,
        accelerator_count=float(count),
        ram_bytes=None,
        link=link if board else Link.PCIE if count > 1 else Link.NONE,
        scaleup_domain_size=domain if board else None,
        network_bytes_per_s=None,
        power_w=None,
        list_price_usd=None,
        source=f"accelerator list price plus an assumed host; {a.source}",
        as_of=a.as_of,
    )


def is_sold_in_parts(accelerator: Accelerator) -> bool:
    """Whether a fraction of the accelerator is sold as a machine: clouds sell CPU sockets by the core."""
    return accelerator.kind == SOCKET


def _has_office_network(system: System) -> bool:
    """Whether the network of a machine is an office network, over which no model is split."""
    network = system.network_bytes_per_s or 0.0
    return system.kind is SystemKind.WORKSTATION and network < MIN_FABRIC_BYTES_PER_S


def whole_host_offers(offers: Iterable[Offer], systems: Iterable[System]) -> Iterator[Offer]:
    """Offers with those of single chips replaced by one of each host that the provider rents with such chips.

    Providers of pod slices price a chip-hour, but rent whole hosts: a slice of four TPU chips is one machine.
    """
    hosts: dict[tuple[str, str], list[System]] = {}
    for system in systems:
        if system.kind is SystemKind.POD_SLICE and system.hosts == 1:
            hosts.setdefault((system.provider, system.accelerator), []).append(system)
    for offer in offers:
        rented = hosts.get((offer.provider, offer.accelerator), ())
        if not rented or offer.system is not None or offer.accelerator_count != 1:
            yield offer
            continue
        for host in rented:
            yield replace(
                offer,
                system=host.slug,
                instance_type=host.name,
                accelerator_count=host.accelerator_count,
                usd_per_hour=offer.usd_per_hour * host.accelerator_count,
            )


def node_of(index: int, accelerator: Accelerator, count: float, system: System | None) -> Node:
    """The machine that carries `count` accelerators; a fraction of a socket is a machine with less capacity."""
    share, count = min(1.0, count), max(1.0, count)
    memory, network, power = accelerator.memory_bytes, None, None
    if system is not None:
        if system.network_bytes_per_s and not _has_office_network(system):
            network = system.network_bytes_per_s / count
        power = system.power_w or None
        if system.ram_bytes and (memory is None or accelerator.memory_is_shared):
            memory = system.ram_bytes / count
    link, rate, domain = machine_link(accelerator, count=count, system=system)
    return Node(
        accelerator=index,
        accelerators_per_node=count,
        share=share,
        memory_bytes=memory,
        link=LINKS.index(link),
        link_bytes_per_s=rate,
        scale_up_domain=domain,
        network_bytes_per_s=network,
        power_w=power,
        on_prem=system is not None and system.environment is Environment.ON_PREM,
        workstation=system is not None and system.kind is SystemKind.WORKSTATION,
    )


def has_price(system: System, part: Accelerator) -> bool:
    """Whether a machine has a price of its own, or can be priced from its parts."""
    return system.list_price_usd is not None or part.list_price_usd_high is not None


def purchase_terms(system: System, part: Accelerator) -> Terms:
    """Terms of the purchase price of a machine: its own price, or an estimate from its parts."""
    return system.terms or part.estimated_terms


class ListingBuilder:
    """Collects listings and the machines they buy, each machine once. The mappings give each name its code."""

    def __init__(
        self,
        accelerators: Sequence[Accelerator],
        systems: Mapping[str, System],
        *,
        providers: Sequence[str],
        regions: Sequence[str],
        instance_types: Sequence[str],
    ) -> None:
        self.accelerators, self.systems = accelerators, systems
        self.accelerator_index = index_by_name([a.slug for a in accelerators])
        self.system_index = index_by_name(list(systems))
        self.provider_index, self.region_index = index_by_name(providers), index_by_name(regions)
        self.type_index = index_by_name(instance_types)
        self.nodes: dict[Node, int] = {}
        self.listed: list[ListingRow] = []

    def _machine_row(self, slug: str, count: float, system: System | None) -> tuple[int, int]:
        """Row of the machine and row of the accelerator."""
        index = self.accelerator_index[slug]
        node = node_of(index, self.accelerators[index], count, system)
        return self.nodes.setdefault(node, len(self.nodes)), index

    def add_rented(self, row: int, offer: Offer) -> None:
        """Add the price of a rented machine. Fractions of an accelerator are skipped unless it is a CPU."""
        system = self.systems.get(offer.system) if offer.system else None
        count = offer.accelerator_count or (system.accelerator_count if system else 0.0)
        if count < 1 and not is_sold_in_parts(self.accelerators[self.accelerator_index[offer.accelerator]]):
            return
        self.listed.append(
            ListingRow(
                *self._machine_row(offer.accelerator, count, system),
                offer=row,
                system=self.system_index[system.slug] if system else -1,
                provider=self.provider_index[offer.provider],
                region=self.region_index[offer.region],
                pricing=PRICING.index(offer.pricing_model),
                instance_type=self.type_index[offer.instance_type],
                usd_per_hour=offer.usd_per_hour,
                list_price_usd=None,
                ram_bytes=system.ram_bytes if system else None,
                vcpus=offer.vcpus or (system.vcpus if system else None),
                kind=KINDS.index(offer.price_kind),
                observed_days=float(day_numbers([offer.as_of])[0]),
            )
        )

    def add_owned(self, system: System) -> None:
        """Add the purchase price of a machine: its own price or the sum of its parts."""
        part = self.accelerators[self.accelerator_index[system.accelerator]]
        if system.accelerator_count < 1 or not has_price(system, part):
            return
        terms = purchase_terms(system, part)
        self.listed.append(
            ListingRow(
                *self._machine_row(system.accelerator, system.accelerator_count, system),
                offer=-1,
                system=self.system_index[system.slug],
                provider=self.provider_index[system.provider],
                region=self.region_index[Environment.ON_PREM.value],
                pricing=PRICING.index(PricingModel.OWNED),
                instance_type=-1,
                usd_per_hour=None,
                list_price_usd=system.list_price_usd,
                ram_bytes=system.ram_bytes,
                vcpus=system.vcpus,
                kind=KINDS.index(terms.kind),
                observed_days=float(day_numbers([terms.observed])[0]),
            )
        )

    def to_machines(self) -> Machines:
        return columns_from(Machines, list(self.nodes))

    def to_listings(self) -> Listings:
        return columns_from(Listings, self.listed)
