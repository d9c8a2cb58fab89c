"""Candidate table of serving: each row is one machine type, one allowed software stack and one layout."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Codes, Column, Columns, Indexed, Mask, lazy_rows
from app.sizing.decisions.machines import Candidates, within_machine_limits
from app.sizing.decisions.placement import nodes_per_replica
from app.sizing.decisions.ranking import PublishedUse
from app.sizing.decisions.rejections import Rejections, SupportFilter
from app.sizing.formula import suspend_recording
from app.sizing.hardware.achieved import RATES, Achieved
from app.sizing.hardware.engines import engine_named
from app.sizing.hardware.parts import LINKS, Link
from app.sizing.hardware.published_use import use_task
from app.sizing.hardware.slots import power_limited_share
from app.sizing.hardware.stacks import competing_mask
from app.sizing.hardware.support.records import LEVELS, Level, Work
from app.sizing.hardware.tables import FORMATS, AcceleratorColumns, Machines, MemoryRules, SchedulingColumns, Stacks
from app.sizing.measured import MeasuredEffect
from app.sizing.model.adapted import loaded_adapters
from app.sizing.model.architecture import AttentionGroup, ModelArchitecture, ModelKind
from app.sizing.model.formats import AUTO_KV, KV_FORMATS, WEIGHT_FORMATS, FormatUse
from app.sizing.model.tasks import TASKS
from app.sizing.question import Constraints, Deployment, Speculative
from app.sizing.serving.drafting import METHOD_WORDS, draft_bytes
from app.sizing.serving.host_weights import HostOffload
from app.sizing.serving.layouts import candidate_layouts, legal_layouts
from app.sizing.snapshot import Catalog

KV_NAMES = tuple(KV_FORMATS)


@dataclass(frozen=True, slots=True)
class MeasuredStackColumns(Columns):
    """Stacks on an accelerator type, at a number of accelerators, with the effect of the user's own measurements."""

    stack: Codes  # row of the stacks
    effect: MeasuredEffect
    achieved: Achieved  # coefficients with that effect


@dataclass(frozen=True, slots=True)
class HostPrefixes(Columns):
    """Host memory that one device has for cached prefixes, and its link to it."""

    room_bytes: Column  # B; 0 where the engine or the device cannot use it
    load_bytes_per_s: Column  # B/s


@dataclass(frozen=True, slots=True)
class Plans(Columns):
    """Candidate table of serving. Machines and stacks are row indices into their own tables."""

    machines: Indexed[Candidates]
    stacks: Indexed[Stacks]
    types: Indexed[AcceleratorColumns]
    kv: Codes  # KV cache format, an index into KV_NAMES
    tensor_parallel: Column
    pipeline_parallel: Column
    data_parallel: Column  # data-parallel attention ranks; routed experts are distributed over all of them
    context_parallel: Column  # tensor-parallel ranks that share the tokens of a sequence's KV cache
    linear_flops_per_s: Column  # nominal rate of linear layers in the weight format
    bit16_flops_per_s: Column  # nominal 16-bit matrix rate
    bytes_per_s: Column  # nominal memory bandwidth of one accelerator
    weights_bytes: Column  # all weights of a replica in accelerator memory
    expert_bytes: Column  # routed experts of a replica in accelerator memory
    streamed_bytes: Column  # dense weights in accelerator memory that every decode step reads
    kv_element_bytes: Column  # bytes per element of the KV cache format
    on_host: HostOffload | None = None  # weights in host memory; None where no plan has any
    host_prefixes: HostPrefixes | None = None  # host memory for cached prefixes; None if the request allows none
    speculative: Speculative | None = None  # speculative decoding of all plans, whose draft is among the weights
    measured: Indexed[MeasuredStackColumns] | None = None  # the user's own measurements; None where there are none

    @property
    def offered(self) -> Candidates:
        return self.machines.materialize()

    @property
    def node(self) -> Machines:
        return self.machines.table.node.take(self.machines.rows)

    @property
    def accelerator(self) -> Codes:
        return self.types.rows

    @property
    def has_unified_memory(self) -> Mask:
        return self.types.table.unified[self.types.rows]

    @property
    def memory_is_reported(self) -> Mask:
        return self.types.table.memory_is_reported[self.types.rows]

    @property
    def is_processor(self) -> Mask:
        return self.types.table.processor[self.types.rows]

    @property
    def vcpus(self) -> Column:
        return self.machines.table.vcpus[self.machines.rows]

    @property
    def packs_batches(self) -> Mask:
        return self.stacks.table.packs[self.stacks.rows]

    @property
    def beams(self) -> Column:
        return self.stacks.table.beams[self.stacks.rows]

    @property
    def scale_up_domain(self) -> Column:
        return self.machines.table.node.scale_up_domain[self.machines.rows]

    @property
    def scale_up(self) -> Mask:
        """Whether a scale-up link connects the accelerators of a machine, rather than PCIe."""
        joined: Mask = self.machines.table.node.link[self.machines.rows] == LINKS.index(Link.SCALE_UP)
        return joined

    @property
    def memory_rules(self) -> MemoryRules:
        return lazy_rows(self.stacks.table.memory, self.stacks.rows)

    @property
    def scheduling_rules(self) -> SchedulingColumns:
        return lazy_rows(self.stacks.table.scheduling, self.stacks.rows)

    @property
    def expert_width_multiple(self) -> Column:
        return self.stacks.table.expert_width_multiple[self.stacks.rows]

    @property
    def memory_bytes(self) -> Column:
        return self.machines.table.node.memory_bytes[self.machines.rows]

    @property
    def accelerators_per_node(self) -> Column:
        return self.machines.table.node.accelerators_per_node[self.machines.rows]

    @property
    def engine(self) -> Codes:
        return self.stacks.table.engine[self.stacks.rows]

    @property
    def weight_format(self) -> Codes:
        return self.stacks.table.weight_format[self.stacks.rows]

    @property
    def is_native_format(self) -> Mask:
        return self.stacks.table.native[self.stacks.rows]

    @property
    def family(self) -> Codes:
        return self.stacks.table.family[self.stacks.rows]

    @property
    def support_is_expected(self) -> Mask:
        """Whether engine support is inferred from rules instead of documented."""
        return self.stacks.table.expected[self.stacks.rows]

    @property
    def published_use(self) -> PublishedUse:
        """Published use of the engine for this work on this family; no recipes with weights that the user converts."""
        table, rows = self.stacks.table, self.stacks.rows
        return PublishedUse(np.where(self.user_converts, 0.0, table.published_recipes[rows]), table.unmeasured[rows])

    @property
    def user_converts(self) -> Mask:
        """Whether the user converts the weights."""
        return self.stacks.table.user_converts[self.stacks.rows]

    @property
    def small_engine(self) -> Mask:
        return self.stacks.table.small_engine[self.stacks.rows]

    @property
    def pipelines_chunks(self) -> Mask:
        return self.stacks.table.pipelines_chunks[self.stacks.rows]

    @property
    def achieved_rates(self) -> Achieved:
        if self.measured is not None:
            return lazy_rows(self.measured.table.achieved, self.measured.rows)
        return lazy_rows(self.stacks.table.achieved, self.stacks.rows)

    @property
    def accelerators_per_replica(self) -> Column:
        return self.stage_accelerators * self.pipeline_parallel

    @property
    def stage_accelerators(self) -> Column:
        """Accelerators that share each layer; routed experts are distributed over all of them."""
        return self.tensor_parallel * self.data_parallel

    @property
    def linked_stage_accelerators(self) -> Column:
        """Accelerators of a stage that are connected within one machine or scale-up domain."""
        with suspend_recording():
            return np.minimum(self.stage_accelerators, np.maximum(self.scale_up_domain, self.accelerators_per_node))

    @property
    def linked_ranks(self) -> Column:
        """Tensor-parallel ranks that are connected within one machine or scale-up domain."""
        with suspend_recording():
            return np.minimum(self.tensor_parallel, np.maximum(self.scale_up_domain, self.accelerators_per_node))

    @property
    def dispatch_bytes(self) -> Column:
        return self.stacks.table.dispatch_bytes[self.stacks.rows]

    @property
    def combine_bytes(self) -> Column:
        return self.stacks.table.combine_bytes[self.stacks.rows]

    @property
    def context_bytes(self) -> Column:
        return self.stacks.table.context_bytes[self.stacks.rows]

    @property
    def nodes_per_replica(self) -> Column:
        return nodes_per_replica(self.accelerators_per_replica, self.accelerators_per_node)

    @property
    def stored_bytes(self) -> Column:
        """All weights of a replica, in accelerator memory and in host memory, in bytes."""
        return self.weights_bytes if self.on_host is None else self.weights_bytes + self.on_host.weights_bytes

    @property
    def offloads_weights(self) -> Mask:
        """Whether part of the weights is in the host's memory."""
        return np.zeros(len(self), dtype=bool) if self.on_host is None else self.on_host.weights_share > 0

    @property
    def host_bytes(self) -> Column | float:
        """Host memory that the replicas of a fully used machine need, in bytes."""
        if self.on_host is None:
            return 0.0
        each = np.floor(self.accelerators_per_node / self.accelerators_per_replica)
        return self.on_host.weights_bytes * np.maximum(1.0, each)

    @property
    def hosts(self) -> tuple[int, Codes]:
        """Number of distinct host types from a replica's point of view, and the type of each plan."""
        kinds, which = self.machines.table.host_kinds
        which = which[self.machines.rows]
        if self.host_prefixes is not None:
            rooms, room = np.unique(self.host_prefixes.room_bytes, return_inverse=True)
            kinds, which = kinds * len(rooms), which * len(rooms) + room
        if self.on_host is None:
            return kinds, which
        more, offload_type = self.on_host.distinct_placements
        return kinds * more, which * more + offload_type

    @property
    def linked_nodes(self) -> Column:
        """Machines that a network joins into one replica; 1 where its accelerators share a scale-up link."""
        with suspend_recording():
            return np.where(self.accelerators_per_replica > self.scale_up_domain, self.nodes_per_replica, 1.0)


FEWEST_USUAL_BITS = 4  # nominal bits of the narrowest formats in which models are published


def default_weight_formats(model: ModelArchitecture, *, personal: bool) -> frozenset[str]:
    """Weight formats that are evaluated when the request names none, including the published format.

    A checkpoint published in a narrow format gains nothing from wider quantization. For such a checkpoint, the
    defaults are its own format, 16-bit formats (engines widen what a device cannot multiply) and narrower formats. A
    checkpoint published in 4 bits, or with experts in 4 bits, is converted to another 4-bit format only for engines
    that read no other.
    Models that do not generate tokens need calibrated activations for 8-bit arithmetic, so the request must name
    8-bit formats explicitly.
    """
    mean_bits = int(8 * model.published_bytes() / model.total_params)
    native = min(WEIGHT_FORMATS[model.native_format].nominal_bits, max(FEWEST_USUAL_BITS, mean_bits))
    uses = (FormatUse.SERVICE, FormatUse.PERSONAL) if personal else (FormatUse.SERVICE,)
    usual = [
        f for f in WEIGHT_FORMATS.values() if f.default_use in uses and (model.is_moe or not f.routed_experts_only)
    ]
    if model.kind is not ModelKind.DECODER:
        usual = [f for f in usual if f.nominal_bits >= 16]
    if native <= FEWEST_USUAL_BITS:
        usual = [f for f in usual if f.nominal_bits != native or f.is_gguf or f.name.endswith("-mlx")]
    return frozenset(
        (model.native_format, *(f.name for f in usual if f.nominal_bits >= 16 or f.nominal_bits <= native))
    )


def requested_formats(
    model: ModelArchitecture, constraints: Constraints, fixed: Deployment | None, *, personal: bool
) -> frozenset[str]:
    """Weight formats to evaluate: the fixed one, the allowed ones, or the defaults."""
    if fixed is not None and fixed.weight_format:
        return frozenset({fixed.weight_format})
    return frozenset(constraints.weight_formats) or default_weight_formats(model, personal=personal)


def least_weights_bytes(model: ModelArchitecture, constraints: Constraints) -> float:
    """Lower bound of the weights of a model in every format that is evaluated for personal use, B."""
    formats = requested_formats(model, constraints, None, personal=True)
    narrowest = min(WEIGHT_FORMATS[name].linear_bits for name in formats)
    return min(model.published_bytes(), model.total_params * narrowest / 8)


@dataclass(frozen=True, slots=True)
class MachineStackPairs(Columns):
    """Machines paired with the software stacks that run on them, with the nominal rates of each pair."""

    machine: Codes  # row of the candidate machines
    stack: Codes  # row of the stacks
    accelerator: Codes  # accelerator type
    linear_flops_per_s: Column  # nominal rate of linear layers in the weight format
    bit16_flops_per_s: Column  # nominal 16-bit matrix rate
    bytes_per_s: Column  # nominal memory bandwidth of one accelerator


def build_plans(
    model: ModelArchitecture,
    machines: Candidates,
    stacks: Stacks,
    accelerators: AcceleratorColumns,
    constraints: Constraints,
    rejections: Rejections,
    assumed: Assumptions,
    unsupported: SupportFilter,
    *,
    fixed: Deployment | None = None,
    prompt_tokens: float = 0.0,
) -> Plans:
    """Join machines, stacks and layouts into plans, and reject accelerator types that no row covers.

    Types without a stack, a layout, a cache format or a required specification are rejected with that reason.
    """
    requested = bool(constraints.weight_formats or fixed)
    pairs = pair_machines_with_stacks(
        machines, stacks, accelerators, rejections, unsupported, assumed, formats_are_requested=requested
    )
    weights, experts, idle = stored_bytes(model, stacks.weight_format)
    layouts = candidate_layouts(model, machines.node, assumed, fixed)
    on = machines.node, stacks, pairs.machine, pairs.stack
    limits = constraints.max_accelerators, within_machine_limits(machines, constraints)
    pair, layout = legal_layouts(model, layouts, *on, weights, *limits, assumed, fixed, prompt_tokens)
    laid_out = pairs.accelerator[pair]
    rejections.reject_if_none_left(
        pairs.accelerator,
        laid_out,
        "no_layout",
        "No layout of this model on {name} fits one replica into the allowed machines and accelerators.",
    )
    rows, kv = _expand_kv_formats(model, constraints, stacks, pairs.stack[pair], fixed)
    rejections.reject_if_none_left(
        laid_out, laid_out[rows], "format_unsupported", "No engine on {name} supports a requested KV cache format."
    )
    pair, layout = pair[rows], layout[rows]
    stack = pairs.stack[pair]
    plans = Plans(
        machines=Indexed(machines, pairs.machine[pair]),
        stacks=Indexed(stacks, stack),
        types=Indexed(accelerators, laid_out[rows]),
        kv=kv,
        tensor_parallel=layouts.tensor_parallel[layout],
        pipeline_parallel=layouts.pipeline_parallel[layout],
        data_parallel=layouts.data_parallel[layout],
        context_parallel=layouts.context_parallel[layout],
        linear_flops_per_s=pairs.linear_flops_per_s[pair],
        bit16_flops_per_s=pairs.bit16_flops_per_s[pair],
        bytes_per_s=pairs.bytes_per_s[pair],
        weights_bytes=weights[stack],
        expert_bytes=experts[stack],
        streamed_bytes=(weights - experts - idle)[stack],
        kv_element_bytes=np.array([f.element_bytes for f in KV_FORMATS.values()])[kv],
    )
    return with_draft(plans, model, requested_speculation(constraints, fixed))


def host_prefixes(plans: Plans, assumed: Assumptions) -> HostPrefixes:
    """Host memory for cached prefixes on every plan: an even share of each machine's, for engines that use it."""
    own, count = plans.machines.table.ram_bytes[plans.machines.rows], plans.accelerators_per_node
    usual = np.where(np.isnan(own), count * plans.memory_bytes * assumed.host_memory_ratio, own)
    slot = plans.types.table.slot_bytes_per_s[plans.accelerator]
    able = plans.stacks.table.host_prefixes[plans.stacks.rows] & ~plans.has_unified_memory & (slot > 0)
    room = np.where(able, usual * assumed.host_memory_share / count, 0.0)
    return HostPrefixes(room, np.where(able, slot * assumed.host_link_fraction, np.inf))


def pair_machines_with_stacks(
    machines: Candidates,
    stacks: Stacks,
    accelerators: AcceleratorColumns,
    rejections: Rejections,
    unsupported: SupportFilter,
    assumed: Assumptions,
    *,
    formats_are_requested: bool,
) -> MachineStackPairs:
    """Pair machines with the stacks that run on them, and keep the pairs with known rates."""
    of_machine = machines.node.accelerator
    compatible = stacks.on.T[of_machine]
    machine, stack = np.divmod(np.flatnonzero(compatible), max(1, len(stacks)))
    unsupported.reject_unsupported(rejections, of_machine, of_machine[machine])
    engine_on = machine * (stacks.engine.max(initial=0) + 1) + stacks.engine[stack]
    keep = _drop_redundant_fp16(
        engine_on, stacks.weight_format[stack], accelerators.has_bf16[of_machine[machine]], formats_are_requested
    )
    machine, stack = machine[keep], stack[keep]
    accelerator = of_machine[machine]
    rejections.reject_if_none_left(
        of_machine,
        accelerator,
        "format_unsupported",
        "{name} has no known compute rate for the formats that its engines run.",
    )
    linear, bit16 = _matrix_rates(accelerators, accelerator, stacks, stack)
    share, whole = machines.node.share[machine], accelerators.bytes_per_s[accelerator]
    share_of_rate = share * power_limited_share(accelerators.rated_power_ratio, assumed)[accelerator]
    rates = linear * share_of_rate, bit16 * share_of_rate, whole * share
    pairs = MachineStackPairs(machine, stack, accelerator, *rates)
    unknown = np.isnan(linear) | np.isnan(bit16) | np.isnan(pairs.bytes_per_s)
    known = pairs.take(~(unknown | np.isnan(machines.node.memory_bytes[machine])))
    rejections.reject_if_none_left(
        accelerator,
        known.accelerator,
        "missing_data",
        "{name} cannot be sized: the catalog lacks its memory size, bandwidth or matrix rate.",
    )
    return known


def layer_groups(model: ModelArchitecture) -> list[tuple[str, AttentionGroup]]:
    """Groups of layers with the same attention, each with a trace label that is empty if there is only one group."""
    several = len(model.attention) > 1
    return [(f"layers {i}" if several else "", group) for i, group in enumerate(model.attention, start=1)]


def stored_bytes(model: ModelArchitecture, weight_format: Codes) -> tuple[Column, Column, Column]:
    """Bytes of a model per stack: all weights, routed experts, and weights that a decode step does not read.

    The last group holds embedding tables and parts that run once per request.
    """
    weights, experts, idle = np.zeros((3, len(FORMATS)))
    for used in np.unique(weight_format):
        stored = WEIGHT_FORMATS[FORMATS[used]]
        weights[used] = model.weights_bytes(stored)
        experts[used] = model.routed_expert_bytes(stored)
        idle[used] = model.idle_bytes(stored)
    return weights[weight_format], experts[weight_format], idle[weight_format]


def _drop_redundant_fp16(engine_on: Codes, weight_format: Codes, has_bf16: Mask, formats_are_requested: bool) -> Mask:
    """Mask of the pairs to keep so that each engine and machine has one 16-bit format.

    BF16 needs hardware support. FP16 is dropped where the same engine runs BF16 on the same machine, unless the
    request names formats.
    """
    bf16 = weight_format == FORMATS.index("bf16")
    keep: Mask = ~bf16 | has_bf16
    if not formats_are_requested:
        fp16 = weight_format == FORMATS.index("fp16")
        keep &= ~(fp16 & np.isin(engine_on, engine_on[bf16 & keep]))
    return keep


def _matrix_rates(
    accelerators: AcceleratorColumns, accelerator: Codes, stacks: Stacks, stack: Codes
) -> tuple[Column, Column]:
    """Matrix rate of the linear layers of each pair, and its 16-bit rate, in FLOP/s; NaN where unknown.

    llama.cpp multiplies quantized blocks as INT8. It multiplies F16, in attention too, with half-precision
    accumulation: at half that rate, which is twice the listed one on GeForce cards.
    """
    bit16 = accelerators.bit16[accelerator]
    own = np.stack([accelerators.matrix_rate(name) for name in RATES])[stacks.rate[stack], accelerator]
    rate = np.where(np.isnan(own), bit16, own)
    ggml, int8 = stacks.ggml[stack], accelerators.int8[accelerator]
    blocks = int8 / np.where(stacks.wide[stack], 2.0, 1.0)
    return np.where(ggml & ~np.isnan(blocks), blocks, rate), np.where(ggml, np.fmax(bit16, int8 / 2), bit16)


def _expand_kv_formats(
    model: ModelArchitecture, constraints: Constraints, stacks: Stacks, stack: Codes, fixed: Deployment | None
) -> tuple[Codes, Codes]:
    """Row indices repeated per KV cache format, and the format of each."""
    requested = (fixed.kv_format,) if fixed is not None and fixed.kv_format else constraints.kv_formats or (AUTO_KV,)
    parts = [_rows_with_kv_format(name, model.cache_format, stacks, stack) for name in requested]
    if len(parts) == 1:
        return parts[0]
    rows, kv = (np.concatenate(column) for column in zip(*parts, strict=True))
    _, first = np.unique(rows * len(KV_NAMES) + kv, return_index=True)
    return rows[first], kv[first]


def _rows_with_kv_format(name: str, stated: str, stacks: Stacks, stack: Codes) -> tuple[Codes, Codes]:
    """Rows whose stack supports a KV cache format, and its code.

    AUTO_KV is the format that the checkpoint states. If it states none: FP8 with the formats whose checkpoints for the
    engine carry it (FP8 and NVFP4 on TensorRT-LLM, ModelOpt's elsewhere), 16 bit otherwise, or the stack's own format
    if it has no such cache.
    """
    if name != AUTO_KV:
        code = KV_NAMES.index(name)
        rows = np.flatnonzero(stacks.keeps_kv[stack, code])
        return rows, np.full(len(rows), code)
    keeps, fp8 = stacks.keeps_kv, KV_NAMES.index("fp8")
    usual = np.where(stacks.fp8_cache | (stated == "fp8"), fp8, KV_NAMES.index("bf16"))
    supported = keeps[np.arange(len(stacks)), usual] | ~keeps.any(axis=1)
    return np.arange(len(stack)), np.where(supported, usual, keeps.argmax(axis=1))[stack]


# Stack selections that a catalog caches: most requests differ in the work, not in the stacks that they allow.
MAX_CACHED_SELECTIONS = 32


def requested_engines(constraints: Constraints, fixed: Deployment | None) -> tuple[str, ...]:
    """The fixed engine, the allowed engines, or an empty tuple."""
    return (fixed.engine,) if fixed is not None and fixed.engine else constraints.engines


def with_draft(plans: Plans, model: ModelArchitecture, speculative: Speculative | None) -> Plans:
    """The same plans with speculative decoding, and the weights of its draft."""
    if speculative is None:
        return plans
    weights, experts = draft_bytes(model, speculative, plans.weights_bytes, plans.expert_bytes)
    return replace(
        plans,
        weights_bytes=plans.weights_bytes + weights,
        expert_bytes=plans.expert_bytes + experts,
        speculative=speculative,
    )


def requested_speculation(constraints: Constraints, fixed: Deployment | None) -> Speculative | None:
    """Speculative decoding of the fixed deployment, or of all candidates."""
    return constraints.speculative if fixed is None else fixed.speculative


def filter_by_draft_support(plans: Plans, catalog: Catalog, rejections: Rejections) -> Plans:
    """Drop plans whose engine cannot draft by the requested method, at all or with pipeline stages; without speculative
    decoding, keep all.
    """
    if plans.speculative is None:
        return plans
    method = plans.speculative.method
    engines = [engine_named(name) for name in catalog.engines]
    drafts = np.array([method in engine.drafts for engine in engines])
    staged = np.array([method in engine.drafts_across_stages for engine in engines])
    able = plans.take(np.flatnonzero(drafts[plans.engine]))
    text = f"No engine that runs this model on {{name}} is known to draft tokens with {METHOD_WORDS[method]}."
    rejections.reject_if_none_left(plans.accelerator, able.accelerator, "no_engine", text)
    kept = able.take(np.flatnonzero((able.pipeline_parallel == 1) | staged[able.engine]))
    text = f"{{name}} needs pipeline stages, with which no engine is known to draft tokens with {METHOD_WORDS[method]}."
    rejections.reject_if_none_left(able.accelerator, kept.accelerator, "no_layout", text)
    return kept


def filter_by_adapter_support(
    model: ModelArchitecture, plans: Plans, catalog: Catalog, rejections: Rejections
) -> Plans:
    """Drop plans whose engine cannot serve adapters, if the model has adapters loaded separately; otherwise keep
    all.
    """
    if loaded_adapters(model) is None:
        return plans
    serving = np.array([bool(engine_named(name).serves_adapters) for name in catalog.engines])
    kept = plans.take(np.flatnonzero(serving[plans.engine]))
    text = "No engine that runs this model on {name} is known to serve its adapters."
    rejections.reject_if_none_left(plans.accelerator, kept.accelerator, "no_engine", text)
    return kept


def select_stacks(
    catalog: Catalog, work: Work, formats: frozenset[str], engines: tuple[str, ...], fixed: Deployment | None
) -> Stacks:
    """Software stacks that support the work and that the request allows, on the accelerators where they compete."""
    key = work, formats, engines
    selected = catalog.stacks_cache.get(key)
    if selected is None:
        if len(catalog.stacks_cache) >= MAX_CACHED_SELECTIONS:
            catalog.stacks_cache.clear()
        selected = catalog.stacks_cache[key] = _filter_stacks(catalog, work, formats, engines)
    if fixed is not None and fixed.engine is not None:
        return catalog.stacks_of_version(selected, fixed.engine_version)
    return selected


def _filter_stacks(catalog: Catalog, work: Work, formats: frozenset[str], engines: tuple[str, ...]) -> Stacks:
    """Filter the catalog's stacks by work, weight format and engine; without named engines, keep only those that
    compete.
    """
    stacks, level = catalog.stacks, catalog.stacks.levels[:, TASKS.index(work.task)]
    wanted = np.zeros(len(catalog.formats), bool)
    wanted[[catalog.format_index[f] for f in formats if f in catalog.format_index]] = True
    keep = (stacks.phase == catalog.phases.index(work.phase)) & wanted[stacks.weight_format]
    keep &= level > LEVELS.index(Level.REFUSED)
    if engines:
        keep &= np.array([name in engines for name in catalog.engines])[stacks.engine]
    selected = stacks.take(np.flatnonzero(keep))
    selected = replace(
        selected,
        expected=level[keep] == LEVELS.index(Level.EXPECTED),
        published_recipes=catalog.published_recipes(use_task(work), selected.engine, selected.family),
    )
    if not engines:
        on = competing_mask(selected.on, selected.expected, selected.named_only[:, TASKS.index(work.task)])
        selected = replace(selected, on=on).take(np.flatnonzero(on.any(axis=1)))
    return selected
