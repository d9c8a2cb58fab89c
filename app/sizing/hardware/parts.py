"""What exists to run on: accelerators, the systems that carry them, and what they are sold for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from app.sizing.hardware.prices import Commitment, PriceKind, Terms


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
        """How long one is bound by renting so."""
        return next((c for c in (Commitment.ONE_YEAR, Commitment.THREE_YEARS) if self.endswith(c)), Commitment.NONE)


BY_THE_HOUR = (PricingModel.ON_DEMAND, PricingModel.SPOT)  # paid for as long as they are wanted


class Environment(StrEnum):
    CLOUD = "cloud"
    ON_PREM = "on_prem"


class Segment(StrEnum):
    """What an accelerator is sold for, and so which host it lives in."""

    DATACENTER = "datacenter"
    WORKSTATION = "workstation"
    CONSUMER = "consumer"
    APPLE = "apple"
    EDGE = "edge"


# Parts that neither servers nor professional workstations carry.
BENEATH_SERVERS = (Segment.CONSUMER, Segment.APPLE, Segment.EDGE)
# What a caller may ask for: processors by themselves, and Macs wherever people work.
SEGMENTS = ("datacenter", "workstation", "consumer", "edge", "cpu")


class SystemKind(StrEnum):
    """How a system is had: bought, or rented."""

    SERVER = "server"
    WORKSTATION = "workstation"
    CLOUD_INSTANCE = "cloud_instance"
    POD_SLICE = "pod_slice"


class Link(StrEnum):
    """How the accelerators of one machine reach one another."""

    SCALE_UP = "scale_up"  # NVLink, xGMI, ICI, NeuronLink, HCCS, ...
    PCIE = "pcie"
    NONE = "none"  # a single accelerator


# Names of dense matrix rates, as data sheets give them.
RATE_NAMES = ("fp32", "tf32", "fp16", "bf16", "fp8", "int8", "fp4")
# Form factors that are soldered or plugged onto a maker's own board: they come with a server, never in a plain host.
BOARDS = ("SXM", "OAM")
# Kinds that are the machine's own processor, and are sold only as a whole machine: sockets, and chips with all around.
SOCKET, WHOLE_MACHINE = "cpu", "soc"
PROCESSORS = (SOCKET, WHOLE_MACHINE)


@dataclass(frozen=True, slots=True)
class Accelerator:
    """One accelerator type. Rates are dense; a missing rate is missing, never another's double.

    `memory_bytes` is what the device reports where that is known and the label otherwise
    (`memory_is_reported` says which); it is None for sockets, whose memory is the system's.
    `memory_is_shared` marks parts whose memory is the system's too, and partly taken by it.
    `machine_link` is how several of them reach one another in a machine of which no more is known;
    `link_spans_machines` says that their scale-up domain reaches beyond one.
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
    scaleup_bytes_per_s: float = 0.0  # each way, as the next
    slot_bytes_per_s: float = 0.0  # of its slot; of CPUs, between sockets
    scaleup_domain_size: int = 1
    typical_node_size: int = 1
    list_price_usd_low: float | None = None
    list_price_usd_high: float | None = None
    price_source: str | None = None  # of the range
    price_observed: str | None = None
    price_confidence: str | None = None
    training_class: bool = False
    architecture: str = ""
    source: str = ""
    as_of: str = ""

    @property
    def segments(self) -> tuple[str, ...]:
        """Which of SEGMENTS it belongs to."""
        if self.kind == "cpu":
            return ("cpu",)
        return ("workstation", "consumer") if self.segment is Segment.APPLE else (self.segment.value,)

    @property
    def reckoned(self) -> Terms:
        """Of a machine whose price is put together from this part's."""
        seen = self.price_source or self.source, self.price_observed or self.as_of, self.price_confidence or "low"
        return Terms(PriceKind.RECKONED, *seen)


@dataclass(frozen=True, slots=True)
class System:
    """A server or instance type that carries accelerators (or, for CPUs, sockets)."""

    slug: str
    name: str
    kind: SystemKind
    provider: str
    accelerator: str
    accelerator_count: float
    ram_bytes: float | None
    link: Link
    scaleup_domain_size: float | None  # accelerators that reach one another over the scale-up link
    network_bytes_per_s: float | None
    power_w: float | None
    list_price_usd: float | None
    price_kind: PriceKind | None = None  # of the list price, as the next
    price_source: str | None = None
    price_observed: str | None = None
    price_confidence: str | None = None
    min_quantity: int = 1
    max_quantity: int | None = None
    source: str = ""
    as_of: str = ""
    vcpus: float | None = None  # threads that its host gives, as clouds count them
    cpu_model: str | None = None

    @property
    def environment(self) -> Environment:
        bought = self.kind in (SystemKind.SERVER, SystemKind.WORKSTATION)
        return Environment.ON_PREM if bought else Environment.CLOUD

    @property
    def terms(self) -> Terms | None:
        """Of its list price; None where it has none."""
        if self.list_price_usd is None:
            return None
        kind = self.price_kind or PriceKind.LIST
        seen = self.price_source or self.source, self.price_observed or self.as_of, self.price_confidence or "low"
        return Terms(kind, *seen, self.min_quantity, self.max_quantity)


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
    vcpus: float | None = None  # of the whole instance
    price_kind: PriceKind = PriceKind.PROVIDER
    confidence: str = "medium"
    min_quantity: int = 1  # machines
    max_quantity: int | None = None  # None unknown
    upfront_usd: float | None = None  # per machine

    @property
    def terms(self) -> Terms:
        """What is known of the price beside its amount."""
        seen = self.source, self.as_of, self.confidence
        bound = self.pricing_model.commitment, self.upfront_usd
        return Terms(self.price_kind, *seen, self.min_quantity, self.max_quantity, *bound)
