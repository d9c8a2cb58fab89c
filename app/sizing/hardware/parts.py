"""Hardware records: accelerators and their slices, links between them, systems, offers and terms of a price."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from types import MappingProxyType

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import GBIT, Column
from app.sizing.formula import formula


class PriceKind(StrEnum):
    """Basis of a price: who published or quoted it, or how it was estimated."""

    PROVIDER = "provider"  # the owner of the machine, on its own page or price feed
    RESELLER = "reseller"  # a company that sells other owners' machines in its own name
    QUOTE = "quote"  # quoted by a seller to the buyer, for whole machines
    SURVEY = "survey"  # median or midpoint of what several sellers ask, as a public survey found it
    LIST = "list"  # list price of the manufacturer for a product in production
    BROKER = "broker"  # a marketplace, serverless platform, intermediary, or small host without a region
    LAUNCH = "launch"  # price at launch, in a past year
    PRESS = "press"  # estimate by journalists or analysts
    ESTIMATE = "estimate"  # sum of the parts' prices plus an assumed host


# Prices that a seller has published or quoted.
FIRM = (PriceKind.PROVIDER, PriceKind.RESELLER, PriceKind.QUOTE, PriceKind.LIST)
# Prices that count unless the request names others: firm prices, and surveys of whole machines, which few list.
COUNTED = (PriceKind.PROVIDER, PriceKind.RESELLER, PriceKind.QUOTE, PriceKind.SURVEY, PriceKind.LIST)
KINDS = tuple(PriceKind)
# Price kinds as sentences write them.
PRICE_KIND_TEXTS: Mapping[PriceKind, str] = {
    PriceKind.PROVIDER: "the provider's own price",
    PriceKind.RESELLER: "a reseller's price",
    PriceKind.QUOTE: "a quote for the whole machine",
    PriceKind.SURVEY: "a survey of sellers' prices",
    PriceKind.LIST: "the manufacturer's list price",
    PriceKind.BROKER: "a broker, serverless or small-host price",
    PriceKind.LAUNCH: "a launch price",
    PriceKind.PRESS: "a press estimate",
    PriceKind.ESTIMATE: "an estimate from parts plus an assumed host",
}


class Commitment(StrEnum):
    """Term that a buyer commits to."""

    NONE = "none"
    ONE_YEAR = "1y"
    THREE_YEARS = "3y"

    @property
    def months(self) -> int:
        """Length of the term in months; 0 without one."""
        return {"1y": 12, "3y": 36}.get(self.value, 0)


@dataclass(frozen=True, slots=True)
class Terms:
    """Terms of a price: everything that is recorded about it except the amount."""

    kind: PriceKind
    source: str
    observed: str  # date on which the price was seen: a day, month or year
    confidence: str  # high, medium or low: confidence that the seller asks this price
    min_quantity: int = 1  # machines, smallest order
    max_quantity: int | None = None  # machines, largest order; None if unknown
    commitment: Commitment = Commitment.NONE
    upfront_usd: float | None = None  # USD per machine, paid at the start
    licences: tuple[str, ...] = ()  # software licenses that the price includes

    def holds_for(self, machines: int) -> bool:
        return self.min_quantity <= machines and (self.max_quantity is None or machines <= self.max_quantity)


def day_numbers(texts: Sequence[str]) -> Column:
    """ISO 8601 dates as day numbers, so that differences are days; NaN for an empty text.

    A month or year counts from its first day.
    Check:
        >>> (day_numbers(["2026-11-20", "2026-01"]) - day_numbers(["2025-11-20", "2026"])).tolist()
        [365.0, 0.0]
    """
    found = np.array(texts, dtype="datetime64[D]")
    return np.where(np.isnat(found), np.nan, found.astype(np.float64))


class PricingModel(StrEnum):
    ON_DEMAND = "on_demand"
    SPOT = "spot"
    RESERVED_1Y = "reserved_1y"
    RESERVED_3Y = "reserved_3y"
    COMMITTED_1Y = "committed_1y"
    COMMITTED_3Y = "committed_3y"
    CAPACITY_BLOCK = "capacity_block"
    OWNED = "owned"

    @property
    def commitment(self) -> Commitment:
        return next((c for c in (Commitment.ONE_YEAR, Commitment.THREE_YEARS) if self.endswith(c)), Commitment.NONE)


BY_THE_HOUR = (PricingModel.ON_DEMAND, PricingModel.SPOT)  # paid per hour of use


class Environment(StrEnum):
    CLOUD = "cloud"
    ON_PREM = "on_prem"


class Segment(StrEnum):
    """Market segment of an accelerator, which determines its host."""

    DATACENTER = "datacenter"
    WORKSTATION = "workstation"
    CONSUMER = "consumer"
    APPLE = "apple"
    EDGE = "edge"


# Segments whose parts are not used in servers or professional workstations.
BENEATH_SERVERS = (Segment.CONSUMER, Segment.APPLE, Segment.EDGE)
# Segments of a request: CPUs are their own segment; Macs are in workstation and consumer.
SEGMENTS = ("datacenter", "workstation", "consumer", "edge", "cpu")


class SystemKind(StrEnum):
    """Form in which a system is bought or rented."""

    SERVER = "server"
    WORKSTATION = "workstation"
    CLOUD_INSTANCE = "cloud_instance"
    POD_SLICE = "pod_slice"


class Link(StrEnum):
    """Link between the accelerators of one machine."""

    SCALE_UP = "scale_up"  # NVLink, xGMI, ICI, NeuronLink, HCCS, ...
    PCIE = "pcie"
    NONE = "none"  # a single accelerator


# Names of dense matrix rates in data sheets.
RATE_NAMES = ("fp32", "tf32", "fp16", "bf16", "fp8", "int8", "fp4")
# Form factors on a manufacturer's own board: sold in servers, never in a generic host.
BOARDS = ("SXM", "OAM")
# Accelerator kinds that are the machine's own processor: CPU sockets, and chips sold only as a whole machine.
SOCKET, WHOLE_MACHINE = "cpu", "soc"
PROCESSORS = (SOCKET, WHOLE_MACHINE)


@dataclass(frozen=True, slots=True)
class Accelerator:
    """One accelerator type. Rates are dense; an unknown rate is absent and never derived from another one.

    `memory_bytes` is the memory that the device reports, or the nominal size (`memory_is_reported` tells which); it
    is None for CPU sockets, whose memory belongs to the system. `memory_is_shared` marks parts that share the memory
    of the system. `machine_link` is the usual link in a machine without a system record; `link_spans_machines` is
    true if the scale-up domain extends beyond one machine.
    """

    slug: str
    name: str
    vendor: str
    kind: str
    family: str
    form_factor: str
    segment: Segment
    memory_bytes: float | None
    memory_is_reported: bool
    memory_bytes_per_s: float | None
    memory_is_shared: bool
    flops_per_s: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    power_w: float | None = None
    machine_link: Link = Link.PCIE
    link_spans_machines: bool = False
    scaleup_bytes_per_s: float = 0.0  # bandwidth of the scale-up link, bytes/s each way
    slot_bytes_per_s: float = 0.0  # bandwidth of the PCIe slot, bytes/s each way; for CPUs, between sockets
    scaleup_domain_size: int = 1  # accelerators in the scale-up domain
    typical_node_size: int = 1  # accelerators per machine
    list_price_usd_low: float | None = None
    list_price_usd_high: float | None = None
    price_source: str | None = None  # source of the price range
    price_observed: str | None = None
    price_confidence: str | None = None
    training_class: bool = False  # sold for training clusters
    architecture: str = ""
    source: str = ""
    as_of: str = ""

    @property
    def has_bridge_connector(self) -> bool:
        """Whether it is a card that sits in a slot and that a bridge may connect to another one."""
        return self.machine_link is Link.PCIE and self.kind not in PROCESSORS and self.scaleup_bytes_per_s > 0

    @property
    def counted_as(self) -> str:
        """What one of them is called when counted: a CPU socket is no accelerator."""
        return "CPU" if self.kind == SOCKET else "accelerator"

    @property
    def segments(self) -> tuple[str, ...]:
        """The entries of SEGMENTS that it belongs to."""
        if self.kind == "cpu":
            return ("cpu",)
        return ("workstation", "consumer") if self.segment is Segment.APPLE else (self.segment.value,)

    @property
    def estimated_terms(self) -> Terms:
        """Terms of a machine price that is estimated from the price of this part."""
        seen = self.price_source or self.source, self.price_observed or self.as_of, self.price_confidence or "low"
        return Terms(PriceKind.ESTIMATE, *seen)


@dataclass(frozen=True, slots=True)
class System:
    """A server or instance type with accelerators, or with CPU sockets."""

    slug: str
    name: str
    kind: SystemKind
    provider: str
    accelerator: str
    accelerator_count: float
    ram_bytes: float | None
    link: Link
    scaleup_domain_size: float | None  # accelerators connected by the scale-up link
    network_bytes_per_s: float | None
    power_w: float | None
    list_price_usd: float | None
    price_kind: PriceKind | None = None  # of the list price, like the next three fields
    price_source: str | None = None
    price_observed: str | None = None
    price_confidence: str | None = None
    min_quantity: int = 1
    max_quantity: int | None = None
    source: str = ""
    as_of: str = ""
    vcpus: float | None = None  # threads of the host, as cloud providers count them
    cpu_model: str | None = None
    hosts: int = 1  # a rack or slice is one machine of several hosts; each host starts its own part of a replica
    rack_units: float | None = None
    local_storage_bytes: float | None = None
    licences: tuple[str, ...] = ()  # software licenses that the list price includes

    @property
    def environment(self) -> Environment:
        bought = self.kind in (SystemKind.SERVER, SystemKind.WORKSTATION)
        return Environment.ON_PREM if bought else Environment.CLOUD

    @property
    def terms(self) -> Terms | None:
        """Terms of the list price; None without a list price."""
        if self.list_price_usd is None:
            return None
        kind = self.price_kind or PriceKind.LIST
        seen = self.price_source or self.source, self.price_observed or self.as_of, self.price_confidence or "low"
        return Terms(kind, *seen, self.min_quantity, self.max_quantity, licences=self.licences)


@dataclass(frozen=True, slots=True)
class Availability:
    """Capacity of an offer as last seen."""

    state: str  # available, low, none or unknown
    quantity: int | None  # machines; None if unknown
    seen_at: str  # RFC 3339 UTC
    sold_out_days: float = 0.0  # days from the first to the last of the newest observations, if all say none

    @property
    def has_capacity(self) -> bool:
        """Whether the provider could start a machine when it was last seen."""
        return self.state in ("available", "low")


@dataclass(frozen=True, slots=True)
class Offer:
    """One price: provider x region x instance type x pricing model, for the whole instance."""

    provider: str
    region: str
    instance_type: str
    system: str | None
    accelerator: str
    accelerator_count: float
    pricing_model: PricingModel
    usd_per_hour: float
    source: str
    as_of: str
    vcpus: float | None = None  # vCPUs of the whole instance
    price_kind: PriceKind = PriceKind.PROVIDER
    confidence: str = "medium"
    min_quantity: int = 1  # machines, smallest order
    max_quantity: int | None = None  # machines, largest order; None if unknown
    upfront_usd: float | None = None  # USD per machine, paid at the start
    trend_30d: float | None = None  # change of the observed price within 30 days, as a share of the earlier price
    availability: Availability | None = None  # None: never observed
    licences: tuple[str, ...] = ()  # software licenses that the price includes

    @property
    def key(self) -> tuple[str, str, str, str, float, PricingModel]:
        """Identity of the offer: its prices on different days have equal keys."""
        machine = self.instance_type, self.accelerator, self.accelerator_count
        return self.provider, self.region, *machine, self.pricing_model

    @property
    def terms(self) -> Terms:
        """Terms of the price."""
        seen = self.source, self.as_of, self.confidence
        bound = self.pricing_model.commitment, self.upfront_usd
        return Terms(self.price_kind, *seen, self.min_quantity, self.max_quantity, *bound, self.licences)


@dataclass(frozen=True, slots=True)
class OwnedHardware:
    """Equal machines of the caller, by the slugs of the catalog."""

    accelerator: str
    count: int  # accelerators
    per_machine: int  # accelerators in a machine
    system: str | None = None  # record of the machine; None: a host of assumed parts
    usd_per_machine: float = 0.0  # book value or price that counts; 0 for a sunk cost
    ram_gib: float | None = None  # memory of a machine's host; None: that of the record
    network_gbit_s: float | None = None  # network of a machine; None: that of the record
    power_kw: float | None = None  # power of a machine under load; None: that of the record
    licences: tuple[str, ...] = ()  # software licenses that the caller has for the machines

    @property
    def machines(self) -> int:
        """Number of machines."""
        return self.count // self.per_machine


UNNAMED_REGIONS = ("unspecified", "global")  # regions in price lists that name no real region


@dataclass(frozen=True, slots=True)
class PlaceFact:
    """Countries of a provider's data centers or seat, as ISO 3166 codes, with the source and the day it was read."""

    countries: frozenset[str]
    source: str
    as_of: str


@dataclass(frozen=True, slots=True)
class Places:
    """Where a provider's data centers and its seat are; None if unknown."""

    data_centers: PlaceFact | None = None
    seat: PlaceFact | None = None


LINKS = (Link.NONE, Link.PCIE, Link.SCALE_UP)

# One direction of a generation 4 x16 slot: 16 GT/s on 16 lanes (PCI Express Base Specification 4.0). Used for slots
# without a rate in the catalog, and for optimizer states that are offloaded to the host.
PCIE_BYTES_PER_S = 32e9


def machine_link(accelerator: Accelerator, *, count: float, system: System | None = None) -> tuple[Link, float, float]:
    """Link inside a machine: its kind, its bandwidth in bytes/s each way, and the number of accelerators that share it.

    The record of the system takes precedence; without one, the accelerator's usual link applies.
    """
    if system is not None:
        link, domain = system.link, system.scaleup_domain_size or 1.0
    else:
        whole = float(accelerator.scaleup_domain_size)
        domain = whole if accelerator.link_spans_machines else min(count, whole)
        alone = count <= 1 and not accelerator.link_spans_machines
        link = Link.NONE if alone else accelerator.machine_link
    if link is Link.NONE:
        return link, 0.0, 1.0
    if link is Link.PCIE:
        return link, accelerator.slot_bytes_per_s, count
    return link, accelerator.scaleup_bytes_per_s, domain


def known_network_bytes_per_s(network_bytes_per_s: Column, assumed: Assumptions) -> Column:
    """Network bandwidth between machines, bytes/s per accelerator; the assumed one if the catalog has none."""
    unknown = np.isnan(network_bytes_per_s)
    if not unknown.any():
        return network_bytes_per_s
    return np.where(unknown, assumed.unknown_network_gbit_per_s * GBIT, network_bytes_per_s)


@formula(unit="s", source="Patarasuk and Yuan 2009; NCCL's bus-bandwidth convention")
def all_reduce_s(message_bytes: Column, ranks: Column, bytes_per_s: Column) -> Column:
    """Transfer time of a ring all-reduce, without latency: 2 (n - 1) / n of the message crosses each link.

    Parameters:
        message_bytes: size of the reduced message, bytes.
        ranks: number of ranks in the ring.
        bytes_per_s: bandwidth of the link each way, bytes/s.
    Limits: ring all-reduce; switches that reduce in the network need half the time.
    Check: 1 MB over eight ranks at 337.5 GB/s takes 5.19 us.
        >>> round(all_reduce_s(1e6, 8.0, 337.5e9) * 1e6, 2)
        5.19
    """
    return 2 * (ranks - 1) / ranks * message_bytes / bytes_per_s


@dataclass(frozen=True, slots=True, order=True)
class Slice:
    """Size of a slice in compute and memory parts of the card, and the memory parts at which it may start."""

    compute: int
    memory: int
    starts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Profile:
    """A slice that the driver of an accelerator offers, and its name."""

    accelerator: str
    name: str
    slice: Slice


@dataclass(frozen=True, slots=True)
class Slicing:
    """The slices of a card by the names that the driver gives them. The largest slice is the whole card.

    Check: an H100 has seven parts of compute and eight of memory.
        >>> card = Slicing({"1g.10gb": Slice(1, 1, tuple(range(7))), "7g.80gb": Slice(7, 8, (0,))})
        >>> card.compute, card.memory, card.profile_name(Slice(7, 8, (0,)))
        (7, 8, '7g.80gb')
    """

    names: Mapping[str, Slice]

    @property
    def slices(self) -> tuple[Slice, ...]:
        return tuple(sorted(self.names.values()))

    @property
    def compute(self) -> int:
        """Number of compute parts of the card."""
        return max(s.compute for s in self.names.values())

    @property
    def memory(self) -> int:
        """Number of memory parts of the card."""
        return max(s.memory for s in self.names.values())

    def profile_name(self, of: Slice) -> str:
        return next(name for name, each in self.names.items() if each == of)


def slicings_by_accelerator(profiles: Iterable[Profile]) -> Mapping[str, Slicing]:
    names: dict[str, dict[str, Slice]] = {}
    for each in sorted(profiles, key=lambda p: (p.accelerator, p.slice)):
        names.setdefault(each.accelerator, {})[each.name] = each.slice
    return {accelerator: Slicing(slices) for accelerator, slices in names.items()}


@cache
def fit_together(slices: tuple[Slice, ...], memory: int) -> bool:
    """Whether slices fit on a card with `memory` memory parts without overlap.

    Check: two of three sevenths leave no room for a third model; three of two do.
        >>> fit_together((Slice(3, 4, (0, 4)), Slice(3, 4, (0, 4)), Slice(1, 1, tuple(range(7)))), 8)
        False
        >>> fit_together((*[Slice(2, 2, (0, 2, 4))] * 3, Slice(1, 1, tuple(range(7)))), 8)
        True
    """

    def place_remaining(left: Sequence[Slice], taken: frozenset[int]) -> bool:
        if not left:
            return True
        first, rest = left[0], left[1:]
        for start in first.starts:
            under = frozenset(range(start, start + first.memory))
            if max(under) < memory and not under & taken and place_remaining(rest, taken | under):
                return True
        return False

    return place_remaining(sorted(slices, reverse=True), frozenset())
