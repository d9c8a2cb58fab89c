"""Hardware records: accelerators, the systems that carry them, and their offers."""

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
        """Commitment of this pricing model."""
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
    vcpus: float | None = None  # vCPUs of the whole instance
    price_kind: PriceKind = PriceKind.PROVIDER
    confidence: str = "medium"
    min_quantity: int = 1  # machines, smallest order
    max_quantity: int | None = None  # machines, largest order; None if unknown
    upfront_usd: float | None = None  # USD per machine, paid at the start

    @property
    def terms(self) -> Terms:
        """Terms of the price."""
        seen = self.source, self.as_of, self.confidence
        bound = self.pricing_model.commitment, self.upfront_usd
        return Terms(self.price_kind, *seen, self.min_quantity, self.max_quantity, *bound)
