"""The table of candidates: one row is one kind of machine, one software stack and one layout."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from app.sizing.columns import Codes, Column, Columns, Mask, Picked
from app.sizing.decisions.machines import Candidates
from app.sizing.decisions.placement import nodes_per_replica
from app.sizing.decisions.rejections import Rejections
from app.sizing.hardware.achieved import Achieved
from app.sizing.hardware.engines import engine_named
from app.sizing.hardware.links import LINKS
from app.sizing.hardware.parts import Link
from app.sizing.hardware.tables import Machines, Stacks
from app.sizing.model.architecture import ModelArchitecture, ModelKind
from app.sizing.model.formats import KV_FORMATS, WEIGHT_FORMATS, Use
from app.sizing.question import Constraints, Deployment
from app.sizing.snapshot import Market

KV_NAMES = tuple(KV_FORMATS)


# (tensor parallel, pipeline parallel) that are judged; single-machine ones first.
LAYOUTS = (
    (1, 1),
    (2, 1),
    (4, 1),
    (8, 1),
    (16, 1),
    (32, 1),
    (1, 2),
    (1, 4),
    (1, 8),
    (2, 2),
    (2, 4),
    (4, 2),
    (4, 4),
    (8, 2),
    (8, 4),
    (8, 8),
    (16, 2),
    (16, 4),
)


@dataclass(frozen=True, slots=True)
class Plans(Columns):
    """The candidate table of serving: machines and stacks are looked up in the tables they come from."""

    machines: Picked[Candidates]
    stacks: Picked[Stacks]
    stack_row: Codes  # of the snapshot's stacks
    kv: Codes
    tensor_parallel: Column
    pipeline_parallel: Column
    linear_flops_per_s: Column
    bit16_flops_per_s: Column
    bytes_per_s: Column
    weights_bytes: Column
    expert_bytes: Column
    streamed_bytes: Column  # dense weights read by every step
    kv_element_bytes: Column

    @property
    def offered(self) -> Candidates:
        return self.machines.looked_up()

    @property
    def node(self) -> Machines:
        return self.machines.table.node.take(self.machines.rows)

    @property
    def accelerator(self) -> Codes:
        return self.machines.table.node.accelerator[self.machines.rows]

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
    def native(self) -> Mask:
        return self.stacks.table.native[self.stacks.rows]

    @property
    def family(self) -> Codes:
        return self.stacks.table.family[self.stacks.rows]

    @property
    def small_engine(self) -> Mask:
        return self.stacks.table.small_engine[self.stacks.rows]

    @property
    def achieved(self) -> Achieved:
        return self.stacks.table.achieved.take(self.stacks.rows)

    @property
    def accelerators_per_replica(self) -> Column:
        return self.tensor_parallel * self.pipeline_parallel

    @property
    def nodes_per_replica(self) -> Column:
        return nodes_per_replica(self.accelerators_per_replica, self.accelerators_per_node)


def default_weight_formats(model: ModelArchitecture, *, personal: bool) -> frozenset[str]:
    """Formats judged where the caller names none, with the one the model is published in.

    A checkpoint published in few bits gains nothing from a wider quantisation: beside its own, only 16
    bits are judged, to which engines widen what a device cannot multiply, and what is narrower still.
    """
    native = WEIGHT_FORMATS[model.native_format].nominal_bits
    uses = (Use.SERVICE, Use.PERSONAL) if personal else (Use.SERVICE,)
    usual = [f for f in WEIGHT_FORMATS.values() if f.default in uses]
    return frozenset(
        (model.native_format, *(f.name for f in usual if f.nominal_bits >= 16 or f.nominal_bits <= native))
    )


def _stack_rows(
    market: Market, phase: str, formats: frozenset[str], constraints: Constraints, fixed: Deployment | None
) -> Codes:
    """Software stacks of a phase; where no engine is named, the preferred one per family and format."""
    stacks = market.stacks
    keep = stacks.phase == market.phases.index(phase)
    keep &= np.isin(stacks.weight_format, [market.format_index[f] for f in formats if f in market.format_index])
    engines = (fixed.engine,) if fixed is not None and fixed.engine else constraints.engines
    if engines:
        keep &= np.isin(stacks.engine, np.flatnonzero(np.isin(market.engines, engines)))
    else:
        keep &= ~stacks.tentative
    rows = np.flatnonzero(keep)
    if not engines:
        small = stacks.small_engine[rows]
        kept = (small[:, None] & stacks.keeps_kv[rows]).T
        key = np.stack([stacks.family[rows], stacks.weight_format[rows], small, *kept])
        rows = rows[np.sort(np.unique(key, axis=1, return_index=True)[1])]
    return rows


def build_plans(
    model: ModelArchitecture,
    market: Market,
    found: Candidates,
    constraints: Constraints,
    rejections: Rejections,
    *,
    phase: str,
    personal: bool,
    max_nodes_per_replica: int = 8,
    fixed: Deployment | None = None,
) -> Plans:
    """Join machines, stacks and layouts; types without a stack or a number fall out with that reason."""
    formats = _asked_formats(model, constraints, fixed, personal=personal)
    rows = _stack_rows(market, phase, formats, constraints, fixed)
    stacks = market.stacks.take(rows)
    if fixed is not None and fixed.engine is not None:
        stacks = market.of_version(stacks, fixed.engine_version)
    family = market.family_of[found.node.accelerator]
    pair_machine, pair_stack = np.nonzero(family[:, None] == stacks.family[None, :])
    rejections.reject(
        np.setdiff1d(found.node.accelerator, found.node.accelerator[pair_machine]),
        "no_engine",
        "No engine in the catalogue is known to run this workload on {name} in the formats allowed.",
    )
    pair_machine, pair_stack = _sixteen_bit_once(
        market, found, stacks, pair_machine, pair_stack, bool(constraints.weight_formats or fixed)
    )
    rejections.reject(
        np.setdiff1d(found.node.accelerator, found.node.accelerator[pair_machine]),
        "format_unsupported",
        "{name} has no rate for the formats that its engines run.",
    )
    linear, bit16 = _rates(market, found.node.accelerator[pair_machine], stacks.take(pair_stack))
    speed = market.columns.bytes_per_s[found.node.accelerator[pair_machine]]
    known = ~(np.isnan(linear) | np.isnan(bit16) | np.isnan(speed) | np.isnan(found.node.memory_bytes[pair_machine]))
    rejections.reject(
        np.setdiff1d(found.node.accelerator[pair_machine], found.node.accelerator[pair_machine][known]),
        "missing_data",
        "The catalogue lacks a memory size, a bandwidth or a matrix rate for {name}; nothing is guessed.",
    )
    pair_machine, pair_stack = pair_machine[known], pair_stack[known]
    linear, bit16, speed = linear[known], bit16[known], speed[known]

    code = stacks.weight_format[pair_stack]
    weights, experts, idle = np.zeros((3, len(market.formats)))  # idle: tables, and what runs once per request
    for used in np.unique(code):
        stored = WEIGHT_FORMATS[market.formats[used]]
        weights[used], experts[used], idle[used] = (
            model.weights_bytes(stored),
            model.routed_expert_bytes(stored),
            model.idle_bytes(stored),
        )

    layouts = _layouts(model, fixed)
    most = constraints.max_accelerators
    tp, pp = np.array([t for t, _ in layouts], float), np.array([p for _, p in layouts], float)
    row, layout = _legal(
        found, stacks, pair_machine, pair_stack, weights[code], tp, pp, max_nodes_per_replica, most, fixed
    )
    a_machine, a_stack = pair_machine[row], pair_stack[row]
    s = stacks.take(a_stack)
    rejections.reject(
        np.setdiff1d(found.node.accelerator[pair_machine], found.node.accelerator[a_machine]),
        "no_layout",
        "No layout of this model on {name} fits one replica into the machines and accelerators allowed.",
    )
    kv_rows, kv = _kv_choices(market, constraints, s, fixed)
    rejections.reject(
        np.setdiff1d(found.node.accelerator[a_machine], found.node.accelerator[a_machine[kv_rows]]),
        "format_unsupported",
        "No engine on {name} keeps its cache in a format asked for.",
    )
    row, layout, a_machine, a_stack = row[kv_rows], layout[kv_rows], a_machine[kv_rows], a_stack[kv_rows]
    code = code[row]
    return Plans(
        machines=Picked(found, a_machine),
        stacks=Picked(stacks, a_stack),
        stack_row=rows[a_stack],
        kv=kv,
        tensor_parallel=tp[layout],
        pipeline_parallel=pp[layout],
        linear_flops_per_s=linear[row],
        bit16_flops_per_s=bit16[row],
        bytes_per_s=speed[row],
        weights_bytes=weights[code],
        expert_bytes=experts[code],
        streamed_bytes=weights[code] - experts[code] - idle[code],
        kv_element_bytes=np.array([f.element_bytes for f in KV_FORMATS.values()])[kv],
    )


def _asked_formats(
    model: ModelArchitecture, constraints: Constraints, fixed: Deployment | None, *, personal: bool
) -> frozenset[str]:
    if fixed is not None and fixed.weight_format:
        return frozenset({fixed.weight_format})
    return frozenset(constraints.weight_formats) or default_weight_formats(model, personal=personal)


def _sixteen_bit_once(
    market: Market, found: Candidates, stacks: Stacks, machine: Codes, stack: Codes, asked: bool
) -> tuple[Codes, Codes]:
    """BF16 rows need the hardware; FP16 rows fall out where BF16 runs as well, unless formats were asked for."""
    bf16 = stacks.weight_format[stack] == market.format_index["bf16"]
    fp16 = stacks.weight_format[stack] == market.format_index["fp16"]
    keep = ~bf16 | market.columns.has_bf16[found.node.accelerator[machine]]
    if not asked:
        keep &= ~(fp16 & np.isin(machine, machine[bf16 & keep]))
    return machine[keep], stack[keep]


def _rates(market: Market, accelerator: Codes, s: Stacks) -> tuple[Column, Column]:
    """Matrix rate each row computes its linear layers at, and its 16-bit rate; NaN where unknown.

    llama.cpp multiplies quantised blocks as INT8, and F16 with half-precision sums, at half that rate.
    """
    columns = market.columns
    bit16 = columns.bit16[accelerator]
    rate = bit16.copy()
    for name, values in (("fp8", columns.fp8), ("int8", columns.int8), ("fp4", columns.fp4), ("fp32", columns.fp32)):
        codes = [market.format_index[f.name] for f in WEIGHT_FORMATS.values() if f.rate == name]
        uses = np.isin(s.weight_format, codes) & s.native
        faster = values[accelerator]
        rate = np.where(uses & ~np.isnan(faster), faster, rate)
    wide = np.isin(
        s.weight_format, [market.format_index[f.name] for f in WEIGHT_FORMATS.values() if f.nominal_bits >= 16]
    )
    blocks = columns.int8[accelerator] / np.where(wide, 2.0, 1.0)
    return np.where(s.ggml & ~np.isnan(blocks), blocks, rate), bit16


def _layouts(model: ModelArchitecture, fixed: Deployment | None) -> list[tuple[int, int]]:
    """Layouts the model's shape allows: heads split evenly, KV heads split or copied, layers suffice."""

    pads = fixed is not None and fixed.engine is not None and engine_named(fixed.engine).pads_heads

    def fits(tp: int, pp: int) -> bool:
        kv = model.kv_heads
        if pads:
            return tp <= model.num_heads and pp <= max(1, model.num_layers)
        shares = kv % tp == 0 or tp % kv == 0
        return model.num_heads % tp == 0 and shares and pp <= max(1, model.num_layers)

    if model.kind is not ModelKind.DECODER:
        return [(1, 1)]
    if fixed is not None and (fixed.tensor_parallel or fixed.pipeline_parallel or fixed.accelerators_per_replica):
        size, tp, pp = fixed.accelerators_per_replica, fixed.tensor_parallel, fixed.pipeline_parallel
        tps = (tp,) if tp else tuple(range(1, model.num_heads + 1)) if size else (1,)
        pps = (pp,) if pp else tuple(range(1, model.num_layers + 1)) if size else (1,)
        return [(t, p) for t in tps for p in pps if fits(t, p) and (size is None or t * p == size)]
    return [(t, p) for t, p in LAYOUTS if fits(t, p)]


def _legal(
    found: Candidates,
    stacks: Stacks,
    machine: Codes,
    stack: Codes,
    weights: Column,
    tp: Column,
    pp: Column,
    max_nodes: int,
    max_accelerators: int | None,
    fixed: Deployment | None,
) -> tuple[Codes, Codes]:
    """Pairs of (row, layout) that a machine can be wired for and that are worth judging.

    A replica spans machines only where the network is known (or a caller fixed the layout) and only along
    the pipeline (or inside one scale-up domain). Layouts far larger than the weights need are left out; the largest
    legal one always stays, so that a type that does not fit is turned down by its best attempt.
    """
    m = found.node.take(machine)
    size = (tp * pp)[None, :]
    count, domain = m.accelerators_per_node[:, None], m.scale_up_domain[:, None]
    nodes = np.ceil(size / count)
    inside = size <= count
    networked = (~np.isnan(m.network_bytes_per_s)[:, None] | (fixed is not None)) & (pp[None, :] >= nodes)
    spans = (np.mod(size, count) == 0) & (nodes <= max_nodes) & (networked | (domain >= size))
    pcie = (m.link == LINKS.index(Link.PCIE))[:, None]
    wired = (tp[None, :] == 1) | (tp[None, :] <= domain) | (pcie & (tp[None, :] <= count))
    legal = (inside | spans) & wired
    if max_accelerators is not None:
        legal &= nodes * count <= max_accelerators
    small = stacks.small_engine[stack]
    legal &= ~small[:, None] | ((tp[None, :] == 1) & inside)
    if fixed is None:
        need = weights[:, None] / (0.85 * m.memory_bytes[:, None])
        enough = np.exp2(np.ceil(np.log2(np.maximum(need, 1.0))))
        largest = np.where(legal, size, 0.0).max(axis=1, keepdims=True)
        low = np.minimum(np.maximum(need * 0.9, 1.0), largest)
        high = np.where(pp[None, :] > 1, np.maximum(enough, low), np.maximum(enough * 8, low))
        legal &= (size >= low) & (size <= high)
    row, layout = np.nonzero(legal)
    return row, layout


def _kv_choices(market: Market, constraints: Constraints, s: Stacks, fixed: Deployment | None) -> tuple[Codes, Codes]:
    """Rows repeated per cache format: 16 bit unless others are asked for by name.

    A deployment that a caller fixed without saying runs its checkpoint: NVFP4's, and TensorRT-LLM's in 8 bits, carry an
    FP8 cache.
    """
    asked: tuple[str, ...] = constraints.kv_formats
    if fixed is not None and fixed.kv_format:
        asked = (fixed.kv_format,)
    index: Mapping[str, int] = {k: i for i, k in enumerate(KV_NAMES)}
    if fixed is not None and not asked:
        named = np.array([WEIGHT_FORMATS[f].checkpoint_kv == "fp8" for f in market.formats])[s.weight_format]
        named |= np.array([f == "fp8" for f in market.formats])[s.weight_format] & np.isin(
            s.engine, [i for i, e in enumerate(market.engines) if e == "tensorrt-llm"]
        )
        return np.arange(len(s)), np.where(named & s.keeps_kv[:, index["fp8"]], index["fp8"], index["bf16"])
    rows: list[Codes] = []
    codes: list[Codes] = []
    for name in asked or ("bf16",):
        chosen = np.flatnonzero(s.keeps_kv[:, index[name]] | (not asked))
        rows.append(chosen)
        codes.append(np.full(len(chosen), index[name]))
    return np.concatenate(rows), np.concatenate(codes)
