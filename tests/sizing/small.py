"""A catalogue small enough to check by hand: four accelerators, a few machines and prices, two engines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from app.sizing.columns import GIB, Columns, column_names
from app.sizing.evidence import Compared, Evidence
from app.sizing.hardware.achieved import (
    Achieved,
    Coefficient,
    SampleTrainingAchieved,
    TrainingAchieved,
    TrainingMemoryFactors,
)
from app.sizing.hardware.parts import (
    Accelerator,
    Link,
    Offer,
    Places,
    PriceKind,
    PricingModel,
    Segment,
    System,
    SystemKind,
)
from app.sizing.hardware.support.records import EngineSupport
from app.sizing.result import HostedPrice
from app.sizing.snapshot import NOWHERE, Catalog
from app.sizing.uncertainty import Spread

# The formulas choose a layout and its largest batch, the simulation says how many of it: for one it may take two.
ONE_MORE = 2 * (1 + 1e-9)
# A board of eight, a card, a desktop card, and one that is not for sale; in the order of their slugs.
BIG = Accelerator(
    slug="acme-big",
    name="Acme Big",
    vendor="Acme",
    kind="gpu",
    family="nvidia_hopper",
    form_factor="SXM",
    segment=Segment.DATACENTER,
    memory_bytes=80 * GIB,
    memory_is_reported=True,
    memory_bytes_per_s=3.2e12,
    memory_is_shared=False,
    flops_per_s={"bf16": 1e15, "fp16": 1e15, "fp8": 2e15},
    power_w=700.0,
    machine_link=Link.SCALE_UP,
    scaleup_bytes_per_s=450e9,
    slot_bytes_per_s=64e9,
    scaleup_domain_size=8,
    typical_node_size=8,
    list_price_usd_low=20_000.0,
    list_price_usd_high=30_000.0,
    training_class=True,
    source="Acme's price list",
    as_of="2026-01-01",
)
CARD = Accelerator(
    slug="acme-card",
    name="Acme Card",
    vendor="Acme",
    kind="gpu",
    family="nvidia_ada",
    form_factor="PCIe",
    segment=Segment.DATACENTER,
    memory_bytes=24 * GIB,
    memory_is_reported=True,
    memory_bytes_per_s=0.3e12,
    memory_is_shared=False,
    flops_per_s={"bf16": 1.2e14, "fp16": 1.2e14},
    power_w=72.0,
    slot_bytes_per_s=32e9,
    typical_node_size=4,
    list_price_usd_low=2_000.0,
    list_price_usd_high=3_000.0,
    source="Acme's price list",
    as_of="2026-01-01",
)
DESK = Accelerator(
    slug="bolt-desk",
    name="Bolt Desk",
    vendor="Bolt",
    kind="gpu",
    family="amd_rdna",
    form_factor="PCIe",
    segment=Segment.WORKSTATION,
    memory_bytes=48 * GIB,
    memory_is_reported=False,
    memory_bytes_per_s=0.8e12,
    memory_is_shared=False,
    flops_per_s={"fp16": 1e14},
    power_w=300.0,
    slot_bytes_per_s=32e9,
    typical_node_size=1,
    list_price_usd_low=4_000.0,
    list_price_usd_high=7_000.0,
    source="Bolt's price list",
    as_of="2026-01-01",
)
RARE = Accelerator(
    slug="bolt-rare",
    name="Bolt Rare",
    vendor="Bolt",
    kind="gpu",
    family="amd_rdna",
    form_factor="OAM",
    segment=Segment.DATACENTER,
    memory_bytes=32 * GIB,
    memory_is_reported=False,
    memory_bytes_per_s=1e12,
    memory_is_shared=False,
    flops_per_s={"bf16": 2e14, "fp16": 2e14},
    slot_bytes_per_s=32e9,
    typical_node_size=4,
    source="Bolt's price list",
    as_of="2026-01-01",
)
ACCELERATORS = (BIG, CARD, DESK, RARE)


def system(slug: str, kind: SystemKind, accelerator: Accelerator, count: float, **known: float) -> System:
    return System(
        slug=slug,
        name=slug,
        kind=kind,
        provider="maker" if kind in (SystemKind.SERVER, SystemKind.WORKSTATION) else "sky",
        accelerator=accelerator.slug,
        accelerator_count=count,
        ram_bytes=known.get("ram_bytes"),
        link=accelerator.machine_link if count > 1 else Link.NONE,
        scaleup_domain_size=count if accelerator is BIG else None,
        network_bytes_per_s=known.get("network_bytes_per_s"),
        power_w=known.get("power_w"),
        list_price_usd=known.get("list_price_usd"),
        source="a maker's page",
        as_of="2026-01-01",
    )


SYSTEMS = (
    system("big-8", SystemKind.CLOUD_INSTANCE, BIG, 8, ram_bytes=2e12, network_bytes_per_s=400e9, power_w=10_200),
    system("big-server", SystemKind.SERVER, BIG, 8, network_bytes_per_s=400e9, power_w=10_200, list_price_usd=300_000),
    system("card-1", SystemKind.CLOUD_INSTANCE, CARD, 1, ram_bytes=64e9),
)


def offer(machine: str, usd_per_hour: float, **other: object) -> Offer:
    """A price of one of the rented systems."""
    rented = next(s for s in SYSTEMS if s.slug == machine)
    known: dict[str, object] = {"provider": "sky", "region": "us-1", "pricing_model": PricingModel.ON_DEMAND}
    return Offer(
        instance_type=machine,
        system=machine,
        accelerator=rented.accelerator,
        accelerator_count=rented.accelerator_count,
        usd_per_hour=usd_per_hour,
        source="a price page",
        as_of="2026-01-01",
        **(known | other),  # type: ignore[arg-type]
    )


OFFERS = (
    offer("big-8", 40.0),
    offer("big-8", 44.0, region="eu-1"),
    offer("big-8", 16.0, pricing_model=PricingModel.SPOT),
    offer("big-8", 24.0, pricing_model=PricingModel.RESERVED_1Y),
    offer("card-1", 0.8),
    offer("card-1", 0.9, provider="cloudy", region="eu-2"),
    offer("card-1", 0.3, provider="flea", price_kind=PriceKind.BROKER),
)

# Coefficients that are not a plain half.
VALUES = {
    "linear_compute_fraction": 0.8,
    "linear_memory_fraction": 0.85,
    "read_bytes_per_clock": 24.0,
    "expert_memory_fraction": 0.75,
    "roofline_exponent": 3.0,
    "prefill_compute_fraction": 0.7,
    "prefill_expert_fraction": 0.8,
    "expert_half_rows": 20.0,
    "expert_copy_passes": 4.0,
    "attention_compute_fraction": 0.4,
    "attention_fp8_speedup": 1.25,
    "attention_half_length_tokens": 512.0,
    "attention_memory_fraction": 0.6,
    "attention_latency_s": 2e-6,
    "layer_overhead_s": 10e-6,
    "moe_layer_overhead_s": 30e-6,
    "latent_layer_overhead_s": 5e-6,
    "step_overhead_s": 500e-6,
    "sequence_overhead_s": 20e-6,
    "prefill_layer_overhead_s": 40e-6,
    "prefill_moe_layer_overhead_s": 60e-6,
    "request_overhead_s": 5e-3,
    "tokenise_token_s": 2e-6,
    "stream_token_s": 40e-6,
    "scale_up_latency_s": 8e-6,
    "scale_up_bandwidth_fraction": 0.78,
    "pcie_latency_s": 22e-6,
    "pcie_bandwidth_fraction": 0.625,
    "network_latency_s": 15e-6,
    "network_bandwidth_fraction": 0.9,
    "sample_compute_fraction": 0.45,
    "sample_linear_fraction": 0.9,
    "cross_attention_fraction": 0.5,
    "sample_batch_s": 300e-6,
    "straggler_share": 0.01,
    "host_optimizer_params_per_s": 2e9,
    "training_fragmentation_fraction": 0.04,
    "training_context_bytes": 2e9,
    "training_collective_bytes": 1e9,
    "sample_interval_low": 0.6,
    "sample_interval_high": 1.9,
}
TABLES: tuple[type[Columns], ...] = (Achieved, TrainingAchieved, SampleTrainingAchieved, TrainingMemoryFactors)
OF_NO_TABLE = ["sample_interval_low", "sample_interval_high"]


def coefficients(**changed: float) -> list[Coefficient]:
    """One row for each coefficient, for everything; seconds are 10 us and shares a half where nothing else is said."""
    known = VALUES | changed
    names = [n for table in TABLES for n in column_names(table)] + OF_NO_TABLE
    return [
        Coefficient(n, "*", "*", "*", known.get(n, 10e-6 if n.endswith("_s") else 0.5), 0.0, 1e18, "", "a test")
        for n in names
    ]


SUPPORT = (
    EngineSupport("vllm", "nvidia_hopper", "inference", {"bf16": True, "fp8": True}, ("bf16", "fp8"), "a test"),
    EngineSupport("vllm", "nvidia_ada", "inference", {"bf16": True, "int4-awq": False}, ("bf16",), "a test"),
    EngineSupport("llama.cpp", "amd_rdna", "inference", {"gguf-q4_k_m": False}, ("fp16",), "a test"),
    EngineSupport("pytorch", "nvidia_hopper", "sample_inference", {"bf16": True}, ("bf16",), "a test"),
    EngineSupport("megatron", "nvidia_hopper", "training", {"bf16": True}, (), "a test"),
    EngineSupport("fsdp", "nvidia_hopper", "training", {"bf16": True}, (), "a test"),
)


def snapshot(
    *,
    accelerators: Sequence[Accelerator] = ACCELERATORS,
    systems: Sequence[System] = SYSTEMS,
    offers: Sequence[Offer] = OFFERS,
    support: Sequence[EngineSupport] = SUPPORT,
    spreads: Sequence[Spread] = (),
    published: Sequence[Compared] = (),
    hosted: Sequence[HostedPrice] = (),
    past_offers: Sequence[Offer] = (),
    places: Mapping[str, Places] = NOWHERE,
    region_countries: Mapping[str, str] = NOWHERE,
    **changed: float,
) -> Catalog:
    """The small catalogue, with other rows or coefficients where a test says so."""
    return Catalog(
        accelerators=accelerators,
        systems=systems,
        offers=offers,
        support=support,
        coefficients=coefficients(**changed),
        spreads=spreads,
        evidence=Evidence(published),
        hosted=hosted,
        past_offers=past_offers,
        places=places,
        region_countries=region_countries,
        version="small",
        prices_as_of="2026-01-01",
        created_at="2026-01-01",
    )


SMALL = snapshot()
