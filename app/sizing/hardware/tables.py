"""Accelerators, machines, prices and software stacks as columns; NaN for unknown numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any, TypeVar, cast

import numpy as np

from app.sizing.columns import GIB, Codes, Column, Columns, Mask, column
from app.sizing.hardware.achieved import Achieved
from app.sizing.hardware.engines import LATENT_COPIES, RULES, EngineMemory, engine_named
from app.sizing.hardware.engines.record import Policy, Preemption, Scheduler, Scheduling
from app.sizing.hardware.hosts import has_peer_access
from app.sizing.hardware.parts import BENEATH_SERVERS, SOCKET, WHOLE_MACHINE, Accelerator, Segment
from app.sizing.hardware.support.generations import generation_of, multiprocessor_cycle_s
from app.sizing.model.formats import WEIGHT_FORMATS

Table = TypeVar("Table", bound=Columns)

# Weight formats; the index is the code.
FORMATS = tuple(sorted(WEIGHT_FORMATS))


def index_by_name(names: Sequence[str]) -> Mapping[str, int]:
    return {name: i for i, name in enumerate(names)}


def flags(values: Sequence[bool]) -> Mask:
    return np.array(values, dtype=bool)


def codes(values: Sequence[int]) -> Codes:
    return np.array(values, dtype=np.int64)


ARRAYS: Mapping[str, Callable[[Sequence[Any]], np.ndarray]] = {"Codes": codes, "Mask": flags, "Column": column}


def columns_from(
    table: type[Table],
    records: Sequence[object],
    words: Mapping[str, Sequence[object]] = MappingProxyType({}),
    **given: np.ndarray,
) -> Table:
    """A table with one row per record, and the records' attributes as columns of the same names.

    Parameters:
        words: what each index of a column of codes stands for, by name of the column.
        given: columns that are no attributes of the records.
    """
    columns: dict[str, np.ndarray] = dict(given)
    for field in fields(table):
        if field.name not in given:
            values = [getattr(record, field.name) for record in records]
            if field.name in words:
                values = [words[field.name].index(value) for value in values]
            columns[field.name] = ARRAYS[str(field.type)](values)
    built: Table = cast(Any, table)(**columns)
    return built


def bit16_flops_per_s(accelerator: Accelerator) -> float | None:
    """Dense rate for matrices in 16 bit, FLOP/s; None if the catalog has none.

    On CUDA chips without fast 16-bit arithmetic (Kepler, Maxwell, Pascal but for P100), libraries convert to FP32.

    Check: a P40 has 11.76 TFLOPS in FP32 and 0.18 in FP16; a P100 multiplies in FP16.
        >>> [bit16_flops_per_s(catalogued(slug)) / 1e12 for slug in ("nvidia-p40", "nvidia-p100-pcie-16gb")]
        [11.76, 18.7]
    """
    generation, rates = generation_of(accelerator), accelerator.flops_per_s
    if generation.capability and not {"bf16", "fp16"} & {*generation.multiplies}:
        return rates.get("fp32")
    return rates.get("bf16", rates.get("fp16"))


# By family, the chip that most kernel tables and measurements of matrix products were taken on.
REFERENCE_CHIPS: Mapping[str, str] = MappingProxyType(
    {
        "nvidia_ampere": "nvidia-a100-sxm4-80gb",
        "nvidia_ada": "nvidia-l40s",
        "nvidia_hopper": "nvidia-h100-sxm5-80gb",
        "nvidia_blackwell": "nvidia-b200-sxm-180gb",
        "nvidia_blackwell_consumer": "nvidia-rtx-pro-6000-blackwell-server",
        "amd_cdna3": "amd-mi300x",
        "amd_cdna4": "amd-mi355x",
    }
)
# Chips whose rated power includes a processor on the same module.
POWER_WITH_PROCESSOR = frozenset({"amd-mi300a", "nvidia-gb10-dgx-spark", "nvidia-gh200-96gb", "nvidia-gh200-144gb"})


def rated_power_ratios(accelerators: Sequence[Accelerator]) -> Column:
    """Rated power per matrix operation over that of the family's reference chip; 1 where either is unknown or the
    rated power is shared with a processor.

    A matrix unit counts at its largest rate in 16 or 8 bit: GeForce cards sum 16-bit products at half rate.
    """

    def watts_per_operation(a: Accelerator) -> float:
        rate = max(
            a.flops_per_s.get(name, 0.0) / width for name, width in (("bf16", 1), ("fp16", 1), ("fp8", 2), ("int8", 2))
        )
        return (a.power_w or np.nan) / (rate or np.nan)

    reference = {a.family: watts_per_operation(a) for a in accelerators if REFERENCE_CHIPS.get(a.family) == a.slug}
    found = column([watts_per_operation(a) / reference.get(a.family, np.nan) for a in accelerators])
    shared = flags([a.slug in POWER_WITH_PROCESSOR for a in accelerators])
    return np.where(np.isnan(found) | shared, 1.0, found)


@dataclass(frozen=True, slots=True)
class AcceleratorColumns(Columns):
    """Accelerator types, one row each; NaN if the catalog has no number."""

    bytes_per_s: Column  # memory bandwidth
    slot_bytes_per_s: Column  # bandwidth of the PCIe slot, each way
    fp32: Column  # matrix rate in TF32 or FP32, FLOP/s
    bit16: Column  # matrix rate in BF16 or FP16, FLOP/s; in FP32 on a CUDA chip that multiplies neither
    fp8: Column  # matrix rate, FLOP/s
    int8: Column  # matrix rate, operations/s
    fp4: Column  # matrix rate, FLOP/s
    clock_cycle_s: Column  # time per clock cycle of all multiprocessors together; 0 if unknown
    power_w: Column  # rated power
    rated_power_ratio: Column  # rated power per matrix operation over that of the family's reference chip, or 1
    price_low_usd: Column  # lower end of the list price range
    price_high_usd: Column  # upper end of the list price range
    has_bf16: Mask
    peer_access: Mask  # whether cards on PCIe read each other's memory directly
    bridge_connector: Mask  # cards that a bridge may connect
    training_class: Mask  # sold for training clusters; others train within one machine
    unified: Mask  # memory is shared with the system
    whole_machine: Mask  # sold only as a whole machine
    processor: Mask  # CPU sockets
    torus: Mask  # chips rented as slices of a torus: TPUs
    edge: Mask  # embedded modules, sold in development kits
    beneath_servers: Mask  # consumer cards, Macs and development kits
    desktop: Mask  # consumer, workstation and edge parts, which use a desktop host
    memory_is_reported: Mask  # memory as the driver reports it; otherwise the nominal size

    def matrix_rate(self, name: str) -> Column:
        """Matrix rate in FLOP/s by a name of RATES; NaN if the hardware has none."""
        return {"fp32": self.fp32, "16bit": self.bit16, "fp8": self.fp8, "int8": self.int8, "fp4": self.fp4}[name]

    @classmethod
    def from_accelerators(cls, accelerators: Sequence[Accelerator]) -> AcceleratorColumns:
        def first_rate(*names: str) -> Column:
            return column([next((a.flops_per_s[n] for n in names if n in a.flops_per_s), None) for a in accelerators])

        return cls(
            bytes_per_s=column([a.memory_bytes_per_s for a in accelerators]),
            slot_bytes_per_s=column([a.slot_bytes_per_s for a in accelerators]),
            fp32=first_rate("tf32", "fp32"),
            bit16=column([bit16_flops_per_s(a) for a in accelerators]),
            fp8=first_rate("fp8"),
            int8=first_rate("int8"),
            fp4=first_rate("fp4"),
            clock_cycle_s=np.array([multiprocessor_cycle_s(a) for a in accelerators]),
            power_w=column([a.power_w for a in accelerators]),
            rated_power_ratio=rated_power_ratios(accelerators),
            price_low_usd=column([a.list_price_usd_low for a in accelerators]),
            price_high_usd=column([a.list_price_usd_high for a in accelerators]),
            has_bf16=flags(["bf16" in a.flops_per_s for a in accelerators]),
            peer_access=flags([has_peer_access(a.vendor, a.segment, a.architecture) for a in accelerators]),
            bridge_connector=flags([a.has_bridge_connector for a in accelerators]),
            training_class=flags([a.training_class for a in accelerators]),
            unified=flags([a.memory_is_shared for a in accelerators]),
            whole_machine=flags([a.kind == WHOLE_MACHINE for a in accelerators]),
            processor=flags([a.kind == SOCKET for a in accelerators]),
            torus=flags([a.kind == "tpu" for a in accelerators]),
            edge=flags([a.segment is Segment.EDGE for a in accelerators]),
            beneath_servers=flags([a.segment in BENEATH_SERVERS for a in accelerators]),
            desktop=flags([a.segment is not Segment.DATACENTER for a in accelerators]),
            memory_is_reported=flags([a.memory_is_reported for a in accelerators]),
        )


@dataclass(frozen=True, slots=True)
class Machines(Columns):
    """Kinds of machine: everything that formulas read about a node."""

    accelerator: Codes
    accelerators_per_node: Column
    share: Column  # share of each accelerator in the machine: 1, or less for a part of a CPU socket
    memory_bytes: Column  # bytes per accelerator
    link: Codes  # index into LINKS
    link_bytes_per_s: Column  # bytes/s per accelerator and direction, inside the scale-up domain
    scale_up_domain: Column  # accelerators connected at that rate
    network_bytes_per_s: Column  # bytes/s per accelerator between machines; NaN if unknown
    power_w: Column  # power of the whole machine; NaN if unknown
    on_prem: Mask
    workstation: Mask

    @property
    def connected_accelerators(self) -> Column:
        """Accelerators that exchange data without the network: those of a machine or of a larger scale-up domain."""
        connected: Column = np.maximum(self.accelerators_per_node, self.scale_up_domain)
        return connected


@dataclass(frozen=True, slots=True)
class Listings(Columns):
    """Prices of machines: per hour for rented ones, a purchase price for owned ones."""

    machine: Codes
    accelerator: Codes
    offer: Codes  # index into Catalog.offers, -1 for owned
    system: Codes  # index into Catalog.system_slugs, -1 if unknown
    provider: Codes
    region: Codes
    pricing: Codes
    instance_type: Codes  # -1 for owned
    usd_per_hour: Column
    list_price_usd: Column  # price of the whole machine; NaN: sum of parts
    ram_bytes: Column  # host memory; NaN if unknown
    vcpus: Column  # vCPUs of the host; NaN if unknown
    kind: Codes  # kind of price, index into KINDS
    observed_days: Column  # date of the price, see `prices.day_numbers`; NaN if unknown

    @property
    def is_owned(self) -> Mask:
        return self.offer < 0

    @property
    def is_estimated(self) -> Mask:
        """Whether the machine is bought and its price is estimated from parts."""
        return self.is_owned & np.isnan(self.list_price_usd)


@dataclass(frozen=True, slots=True)
class MemoryRules(Columns):
    """Memory rule of the engine, one row per stack; see `engines.EngineMemory`."""

    fraction: Column
    rule: Codes  # meaning of the fraction, index into RULES
    logits_copies: Column
    graphs_inside: Mask
    window_holds_step: Mask
    expert_chunk_tokens: Column
    keeps_workspace: Mask
    index_contexts: Column
    latent_copies: Codes  # index into LATENT_COPIES
    profiles_images: Mask
    latent_alignment_bytes: Column
    reserves_for_steps: Mask
    hopper_rows_as_stored: Mask

    @classmethod
    def from_rules(cls, rules: Sequence[EngineMemory]) -> MemoryRules:
        rule = codes([tuple(RULES).index(r.fraction_of) for r in rules])
        return columns_from(cls, rules, {"latent_copies": LATENT_COPIES}, rule=rule)


# Policies and preemption modes; the index is the code.
POLICIES, PREEMPTIONS = tuple(Policy), tuple(Preemption)
HOPPER_WIDTH_MULTIPLE = 64  # to which Triton's kernels pad the width of experts
MAX_STEP_SIZES = 4  # step sizes by memory
STEP_COLUMNS = ("from_gib", "max_batched_tokens", "offline_tokens", "max_sequences")  # a column for each step size


@dataclass(frozen=True, slots=True)
class SchedulingColumns(Columns):
    """Scheduling rules of the engine on a family of devices, one row per stack; see `engines.scheduling`.

    The fields of STEP_COLUMNS have a column for each step size, smallest memory first.
    """

    from_gib: Column
    max_batched_tokens: Column
    offline_tokens: Column
    max_sequences: Column
    slots: Mask
    policy: Codes  # index into POLICIES
    chunked: Mask
    preemption: Codes  # index into PREEMPTIONS
    prefix_cache: Mask
    kv_block_tokens: Column
    receive_interval_steps: Column
    batch_wait_steps: Column
    batch_wait_share: Column
    planning_lag_steps: Column
    output_reserve_share: Column
    graph_tokens: Column

    @property
    def reserves_whole_request(self) -> Mask:
        """Whether KV cache for a whole request is reserved from its start."""
        reserved: Mask = self.preemption == PREEMPTIONS.index(Preemption.NONE)
        return reserved

    @classmethod
    def from_rules(cls, rules: Sequence[Scheduling], families: Sequence[str]) -> SchedulingColumns:
        """One row for each rule on the family with the same index."""
        own = [rule.family_step_sizes(family) for rule, family in zip(rules, families, strict=True)]
        sizes = [(*some, *[some[-1]] * (MAX_STEP_SIZES - len(some))) for some in own]

        def by_memory(name: str) -> Column:
            return column([[getattr(size, name) for size in some] for some in sizes]).reshape(-1, MAX_STEP_SIZES)

        by_size = {name: by_memory(name) for name in STEP_COLUMNS}
        return columns_from(cls, rules, {"policy": POLICIES, "preemption": PREEMPTIONS}, **by_size)


def step_sizes(rules: SchedulingColumns, memory_bytes: Column, *, offline: bool) -> tuple[Column, Column]:
    """Default `max_num_batched_tokens` and `max_num_seqs` on devices with `memory_bytes` of memory."""
    larger = memory_bytes[:, None] >= rules.from_gib[:, 1:] * GIB
    size = larger.sum(axis=1)
    tokens = rules.offline_tokens if offline else rules.max_batched_tokens
    rows = np.arange(len(size))
    return tokens[rows, size], rules.max_sequences[rows, size]


def scheduler_at(rules: SchedulingColumns, row: int, tokens: float, sequences: float) -> Scheduler:
    """The scheduler of one row, with `tokens` per step and `sequences` at once: graphs hold twice as many tokens."""
    return Scheduler(
        policy=POLICIES[rules.policy[row]],
        max_batched_tokens=int(tokens),
        max_sequences=int(sequences),
        chunked=bool(rules.chunked[row]),
        preemption=PREEMPTIONS[rules.preemption[row]],
        prefix_cache=bool(rules.prefix_cache[row]),
        kv_block_tokens=int(rules.kv_block_tokens[row]),
        receive_interval_steps=int(rules.receive_interval_steps[row]),
        batch_wait_steps=int(rules.batch_wait_steps[row]),
        batch_wait_share=float(rules.batch_wait_share[row]),
        planning_lag_steps=int(rules.planning_lag_steps[row]),
        output_reserve_share=float(rules.output_reserve_share[row]),
        graph_tokens=min(int(rules.graph_tokens[row]), 2 * int(sequences)),
    )


@dataclass(frozen=True, slots=True)
class Frameworks(Columns):
    """Layout capabilities of frameworks, one row per engine of the catalog; see `engines.Framework`."""

    splits: Mask
    shards: Mask
    single_accelerator: Mask

    @classmethod
    def from_engines(cls, engines: Sequence[str]) -> Frameworks:
        return columns_from(cls, [engine_named(name).framework for name in engines])


@dataclass(frozen=True, slots=True)
class Stacks(Columns):
    """Software stacks (engine x family x weight format) with their coefficients."""

    family: Codes
    engine: Codes
    weight_format: Codes
    native: Mask
    levels: Codes  # level of support, index into LEVELS; a column per kind of model
    on: Mask  # accelerators it runs on, a column each
    expected: Mask  # support follows from rules only
    published_recipes: Column  # published recipes for the selected work; 0 before stacks are selected
    unmeasured: Mask  # whether no source has results of its runtime on this family
    named_only: Mask  # competes only if named; a column per kind of model
    keeps_kv: Mask  # supports the KV cache format; a column per format, in the order of KV_FORMATS
    phase: Codes
    small_engine: Mask
    ggml: Mask
    large_image: Mask  # its container image includes a whole toolkit
    pads_heads: Mask
    host_prefixes: Mask  # keeps cached prefixes in host memory too, if started so
    pipelines_chunks: Mask  # chunks of one prompt follow each other through pipeline stages
    packs: Mask  # packs the texts of a batch without padding
    beams: Column  # beams with which it decodes one sample
    rate: Codes  # matrix rate that it uses, index into RATES
    wide: Mask  # weights of 16 bits and more
    fp8_cache: Mask  # its checkpoints in this format use an FP8 KV cache
    expert_width_multiple: Column  # of a rank's MXFP4 experts, padded at load time; 0 if weights stay as stored
    user_converts: Mask  # no weights in this format are known; false before a model is known
    dispatch_bytes: Column  # bytes per element dispatched to expert ranks; 0 without expert-parallel ranks
    combine_bytes: Column  # bytes per element combined from expert ranks
    splits_attention: Mask  # tensor parallelism within data-parallel ranks
    context_bytes: Column  # bytes per element exchanged in decode context parallelism; 0 if unsupported
    latent_contexts: Mask  # decode context parallelism for latent caches (MLA) only
    evidence_stack: Codes  # stack whose evidence applies, a row of Catalog.beside_stacks
    memory: MemoryRules
    scheduling: SchedulingColumns
    achieved: Achieved


def equivalence_keys(machines: Machines) -> tuple[Codes, Codes]:
    """Two equivalence keys per machine: for replicas within one machine, and for replicas across machines.

    Machines with the same key give the same result for such a replica.
    """
    inside = [
        machines.accelerator,
        machines.share,
        np.nan_to_num(machines.memory_bytes, nan=-1.0),
        machines.link,
        machines.link_bytes_per_s,
        machines.scale_up_domain,
    ]
    within = np.unique(np.stack(inside), axis=1, return_inverse=True)[1]
    network = np.nan_to_num(machines.network_bytes_per_s, nan=-1.0)
    across = np.unique(np.stack([*inside, network]), axis=1, return_inverse=True)[1]
    return within, within.max() + 1 + across
