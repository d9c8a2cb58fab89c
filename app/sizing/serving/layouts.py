"""Replica layouts: which ones a model's shape allows, which ones machines are wired for, and which are worth
evaluating.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Codes, Column, Columns, Mask, column
from app.sizing.decisions.machines import required_connection
from app.sizing.hardware.engines.record import ContextParallel
from app.sizing.hardware.parts import LINKS, Link
from app.sizing.hardware.tables import Machines, Stacks
from app.sizing.model.architecture import ModelArchitecture, ModelKind
from app.sizing.question import Deployment

# Bounds of the search, not of hardware, as multiples of the accelerators that the weights need. The minimum is below 1,
# because embedding tables need not be loaded completely. Larger layouts in one machine cost more and answer faster.
MIN_SIZE_FACTOR, MAX_SIZE_FACTOR, MAX_DATA_PARALLEL_SIZE_FACTOR = 0.9, 8.0, 4.0
# (tensor parallel, pipeline parallel) degrees that are evaluated where the hardware is open; single-machine ones first.
STANDARD_LAYOUTS = (
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
    (2, 8),
    (4, 2),
    (4, 4),
    (4, 8),
    (4, 16),
    (8, 2),
    (8, 4),
    (8, 8),
    (8, 16),
    (16, 2),
    (16, 4),
)


Degrees = tuple[int, int, int, int]  # tensor, pipeline, data and context parallel
# Layouts with data-parallel attention, for models with routed experts.
DATA_PARALLEL_LAYOUTS: tuple[Degrees, ...] = (
    *((1, 1, data, 1) for data in (4, 8, 16, 32, 64)),
    *((2, 1, data, 1) for data in (2, 4, 8)),
    *((4, 1, data, 1) for data in (2, 4)),
)
# (tensor parallel, pipeline parallel) degrees with context parallelism, for models with fewer KV heads than ranks.
CONTEXT_PARALLEL_LAYOUTS = ((4, 1), (8, 1), (16, 1), (8, 2))


@dataclass(frozen=True, slots=True)
class ContextSplits:
    """How far a model's KV cache can be split by tokens. Engines split it where ranks would otherwise copy the same
    heads.
    """

    kv_heads: int  # KV heads of the model; 0 where the cache cannot be split
    queries_per_head: int  # query heads per KV head
    latent: bool  # whether the cache holds MLA latents

    def allows_split(self, tensor: int, context: int) -> bool:
        """Whether `context` of the `tensor` tensor-parallel ranks may share the tokens of a KV head.

        Source: `verify_with_parallel_config` in vllm/config/model.py. Sliding windows and recurrent states cannot be
        split.
        Check: four KV heads on eight ranks exist twice, so two ranks may share each head.
            >>> [ContextSplits(4, 16, False).allows_split(8, context) for context in (1, 2, 4)]
            [True, True, False]
        """
        if context == 1:
            return True
        divides = tensor % context == 0 and self.queries_per_head % context == 0
        return divides and 0 < self.kv_heads * context <= tensor

    def supports_engine(self, engine: ContextParallel) -> bool:
        """Whether an engine supports splitting this cache."""
        return self.kv_heads > 0 and (self.latent or not engine.latent)

    def max_ranks(self, tensor: int) -> int:
        """Largest number of ranks that may share the tokens of a KV head, out of `tensor` tensor-parallel ranks.

        Check: all sixteen ranks keep the same MLA latent.
            >>> ContextSplits(1, 128, True).max_ranks(16)
            16
        """
        return max(context for context in range(1, tensor + 1) if self.allows_split(tensor, context))


def context_splits(model: ModelArchitecture) -> ContextSplits:
    """How far a model's KV cache can be split by tokens; zero heads for sliding windows and recurrent states."""
    groups = model.attention
    whole = bool(groups) and model.state_bytes_per_sequence == 0
    if not whole or any(g.window_tokens is not None or g.crosses for g in groups):
        return ContextSplits(0, 1, latent=False)
    heads = max(g.kv_heads for g in groups)
    latent = all(g.is_latent and g.read_tokens is None for g in groups)
    return ContextSplits(heads, max(1, model.num_heads // heads), latent)


@dataclass(frozen=True, slots=True)
class Layouts(Columns):
    """Degrees of parallelism of a replica, one layout per row."""

    tensor_parallel: Column  # tensor-parallel ranks
    pipeline_parallel: Column  # pipeline stages
    data_parallel: Column  # data-parallel attention ranks
    context_parallel: Column  # tensor-parallel ranks that share the tokens of a sequence's KV cache
    divides: Mask  # whether heads split evenly and KV heads split or copy evenly; otherwise the engine must pad heads

    @property
    def accelerator_count(self) -> Column:
        """Accelerators of a replica."""
        return self.tensor_parallel * self.pipeline_parallel * self.data_parallel


def candidate_layouts(
    model: ModelArchitecture, node: Machines, assumed: Assumptions, fixed: Deployment | None
) -> Layouts:
    """Layouts that the model's layers and heads allow.

    The standard layouts apply where the request leaves layout and hardware open. Otherwise the result is every
    layout that matches the request.
    """
    if model.kind is not ModelKind.DECODER:
        return _layout_table(model, [(1, 1, 1, 1)])
    if fixed is None or not (_layout_is_fixed(fixed) or _hardware_is_fixed(fixed)):
        usual = [(t, p, 1, 1) for t, p in STANDARD_LAYOUTS if p <= max(1, model.num_layers)]
        standard_layouts = _layout_table(model, [*usual, *_extra_layouts(model)])
        return standard_layouts.take(standard_layouts.divides)
    most = max_replica_accelerators(node, assumed, fixed)
    extra = [] if _layout_is_fixed(fixed) else [w for w in _extra_layouts(model) if w[0] * w[1] * w[2] <= most]
    return _layout_table(
        model, [degrees for degrees in [*_all_layouts(model, most, fixed), *extra] if _matches_request(fixed, *degrees)]
    )


def _extra_layouts(model: ModelArchitecture) -> list[Degrees]:
    """Layouts with data-parallel attention or context parallelism that the model's experts and heads allow in
    addition.
    """
    splits = context_splits(model)
    long = [(t, p, 1, splits.max_ranks(t)) for t, p in CONTEXT_PARALLEL_LAYOUTS if p <= model.num_layers]
    return [*(DATA_PARALLEL_LAYOUTS if model.is_moe else ()), *(degrees for degrees in long if degrees[3] > 1)]


def _layout_table(model: ModelArchitecture, degrees: list[Degrees]) -> Layouts:
    tensor, pipeline, data, context = column(degrees).reshape(-1, 4).T
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = (np.mod(model.kv_heads, tensor) == 0) | (np.mod(tensor, model.kv_heads) == 0)
        divides = (tensor == 1) | ((np.mod(model.num_heads, tensor) == 0) & shares)
    return Layouts(tensor, pipeline, data, context, divides)


def _layout_is_fixed(fixed: Deployment) -> bool:
    """Whether the request fixes any part of the layout."""
    fixed_degrees = (fixed.tensor_parallel, fixed.pipeline_parallel, fixed.accelerators_per_replica)
    more = any((degree or 1) > 1 for degree in (fixed.expert_parallel, fixed.data_parallel, fixed.context_parallel))
    return more or any(degree is not None for degree in fixed_degrees)


def _hardware_is_fixed(fixed: Deployment) -> bool:
    """Whether the request fixes the amount of hardware."""
    return fixed.total_accelerators is not None or fixed.nodes is not None


def accelerators_of_ranks(fixed: Deployment | None) -> int:
    """Accelerators of the data-parallel ranks that the request asks for; 1 if it asks for none."""
    if fixed is None or (fixed.data_parallel or 1) == 1:
        return 1
    return (fixed.tensor_parallel or 1) * (fixed.pipeline_parallel or 1) * (fixed.data_parallel or 1)


def max_replica_accelerators(node: Machines, assumed: Assumptions, fixed: Deployment) -> int:
    """Largest number of accelerators of a replica: those of the machines that it may span, or of the available
    machines. Data-parallel ranks that the request asks for may be more.
    """
    count = int(node.accelerators_per_node.max(initial=1.0))
    spanned = int(assumed.max_nodes_per_replica) if fixed.nodes is None else fixed.nodes
    most = max(count * max(1, min(spanned, int(assumed.max_nodes_per_replica))), accelerators_of_ranks(fixed))
    return most if fixed.total_accelerators is None else min(most, fixed.total_accelerators)


def _all_layouts(model: ModelArchitecture, most: int, fixed: Deployment) -> list[Degrees]:
    """All layouts up to `most` accelerators with the requested data-parallel and context-parallel degrees."""
    tensor, pipeline, data = min(model.num_heads or most, most), max(1, model.num_layers), data_parallel_degrees(fixed)
    context, splits = fixed.context_parallel or 1, context_splits(model)
    sizes = [(t, d) for d in data for t in range(1, min(tensor, most // d) + 1) if splits.allows_split(t, context)]
    return [(t, p, d, context) for t, d in sizes for p in range(1, min(pipeline, most // (t * d)) + 1)]


def data_parallel_degrees(fixed: Deployment) -> tuple[int, ...]:
    """Data-parallel degrees to evaluate: the requested degree, or 1."""
    return (fixed.data_parallel or 1,)


def _matches_request(fixed: Deployment, tensor: int, pipeline: int, data: int, context: int) -> bool:
    """Whether a layout matches what the request fixes.

    Experts are placed whole on the ranks that share a layer. If the request fixes only tensor parallelism, pipeline
    parallelism is 1, as in the engines.
    """
    only_tensor = (
        fixed.tensor_parallel is not None and fixed.accelerators_per_replica is None and not _hardware_is_fixed(fixed)
    )
    experts = fixed.expert_parallel or (1 if data == 1 else tensor * data)
    stages = 1 if only_tensor and fixed.pipeline_parallel is None else fixed.pipeline_parallel
    return (
        fixed.tensor_parallel in (None, tensor)
        and fixed.context_parallel in (None, context)
        and stages in (None, pipeline)
        and fixed.accelerators_per_replica in (None, tensor * pipeline * data)
        and ((data == 1 and tensor % experts == 0) or experts == tensor * data)
    )


def legal_layouts(
    model: ModelArchitecture,
    layouts: Layouts,
    node: Machines,
    stacks: Stacks,
    machine: Codes,
    stack: Codes,
    weights: Column,
    max_accelerators: int | None,
    affordable: Mask,
    assumed: Assumptions,
    fixed: Deployment | None,
    prompt_tokens: float,
) -> tuple[Codes, Codes]:
    """Pairs of (row, layout) that a machine is wired for and that are worth evaluating; a row is a machine with a
    stack.

    Where the hardware is open, layouts much larger than the weights need are left out. The largest legal layout
    always stays, so that the rejection of a type reports its best attempt. Tensor parallelism across machines is
    used in two cases: the request asks for a degree that no single machine holds, or no other layout holds the
    weights. `affordable` says which machines the limits of the request allow.
    """
    wired, across = _wired_layouts(layouts, node, max_accelerators, assumed, fixed)
    layout_is_fixed = fixed is not None and (fixed.tensor_parallel is not None or fixed.fixes_layout)
    if layout_is_fixed:
        across &= ~wired.any(axis=0)
    wired, across = (_connected_layouts(layouts, node, among, affordable) for among in (wired, across))
    inside = layouts.accelerator_count <= node.accelerators_per_node[:, None]
    alone, wide = (layouts.tensor_parallel == 1) & (layouts.data_parallel == 1), layouts.data_parallel > 1
    wired = np.concatenate([wired, wired & inside & alone])  # first for most engines, then for small engines
    row = machine + len(node) * stacks.small_engine[stack]
    legal: Mask = wired.take(row, axis=0)
    largest = _largest_layout(layouts, wired)[row]
    if across.any():
        allowed_across = ~stacks.small_engine[stack]
        if not layout_is_fixed:
            allowed_across &= (
                _accelerators_needed(weights[stack], node.memory_bytes[machine], assumed) * MIN_SIZE_FACTOR > largest
            )
        more = (
            across[machine]
            & allowed_across[:, None]
            & (layout_is_fixed | (layouts.accelerator_count > largest[:, None]))
        )
        legal, largest = legal | more, np.maximum(largest, _largest_layout(layouts, more))
    legal &= layouts.divides | stacks.pads_heads[stack][:, None]
    if wide.any():
        legal &= ~wide | (stacks.dispatch_bytes[stack] > 0)[:, None]
        legal &= ~wide | (layouts.tensor_parallel == 1) | stacks.splits_attention[stack][:, None]
    shared = layouts.context_parallel > 1
    if shared.any():
        able = (stacks.context_bytes > 0) & (~stacks.latent_contexts | context_splits(model).latent)
        legal &= ~shared | able[stack][:, None]
    if fixed is None or not (_layout_is_fixed(fixed) or _hardware_is_fixed(fixed)):
        need = _accelerators_needed(weights[stack], node.memory_bytes[machine], assumed)
        in_stages = stacks.pipelines_chunks[stack] & fills_pipeline(prompt_tokens, assumed)
        legal &= _worthwhile_layouts(layouts, need, largest, in_stages)
    return np.divmod(np.flatnonzero(legal), max(1, len(layouts)))


def _accelerators_needed(weights_bytes: Column, memory_bytes: Column, assumed: Assumptions) -> Column:
    """Accelerators that the weights need."""
    return weights_bytes / (assumed.replica_memory_fraction * memory_bytes)


def _largest_layout(layouts: Layouts, among: Mask) -> Column:
    """Accelerators of the largest layout in a mask, per machine."""
    largest: Column = np.where(among, layouts.accelerator_count, 0.0).max(axis=1, initial=0.0)
    return largest


def _wired_layouts(
    layouts: Layouts, node: Machines, max_accelerators: int | None, assumed: Assumptions, fixed: Deployment | None
) -> tuple[Mask, Mask]:
    """Two masks of layouts by machine: those that the wiring supports, and those with tensor parallelism across
    machines.

    A replica spans machines only along the pipeline, over data-parallel ranks, or inside one scale-up domain. The
    network must be known, or the request must fix the whole layout. Partial sockets never span machines. In the
    second mask, tensor-parallel ranks fill several whole machines or domains.
    """
    tp, pp, size = layouts.tensor_parallel, layouts.pipeline_parallel, layouts.accelerator_count
    count, domain = node.accelerators_per_node[:, None], node.scale_up_domain[:, None]
    nodes = np.ceil(size / count)
    whole = ~np.isnan(node.network_bytes_per_s) & (node.share == 1)
    network_known = whole[:, None] | (fixed is not None and fixed.fixes_layout)
    network_allowed = (network_known & ((pp >= nodes) | (layouts.data_parallel > 1))) | (domain >= size)
    most_nodes = np.maximum(assumed.max_nodes_per_replica, accelerators_of_ranks(fixed) / count)
    whole_machines = (np.mod(size, count) == 0) & (nodes <= most_nodes)
    pcie = (node.link == LINKS.index(Link.PCIE))[:, None]
    wired: Mask = ((size <= count) | (whole_machines & network_allowed)) & (
        (tp == 1) | (tp <= domain) | (pcie & (tp <= count))
    )
    linked, reach = pcie | (domain >= count), np.maximum(count, domain)
    across: Mask = (
        whole_machines & network_known & linked & (tp > reach) & (np.mod(tp, reach) == 0) & (layouts.data_parallel == 1)
    )
    allowed = np.ones_like(wired)
    if max_accelerators is not None:
        allowed &= nodes * count <= max_accelerators
    if fixed is not None and fixed.nodes is not None:
        allowed &= nodes <= fixed.nodes
    return wired & allowed, across & allowed


def _connected_layouts(layouts: Layouts, node: Machines, among: Mask, affordable: Mask) -> Mask:
    """The layouts of a mask without those that a machine splits over the network although another one of its type does
    not.

    The ranks of a pipeline stage exchange data at every layer; the stages themselves may span machines, but not
    machines with one accelerator each where others have several.
    """
    stage = np.maximum(layouts.tensor_parallel * layouts.data_parallel, np.minimum(layouts.accelerator_count, 2.0))
    connected = node.connected_accelerators
    wide = np.flatnonzero(stage > connected.min(initial=np.inf))
    if not len(wide) or not among[:, wide].any():
        return among
    largest = np.ones((int(node.accelerator.max()) + 1, len(wide)))
    on_sale = among[:, wide] & affordable[:, None]
    np.maximum.at(largest, node.accelerator, np.where(on_sale, connected[:, None], 1.0))
    required = required_connection(stage[wide], largest)[node.accelerator]
    found = among.copy()
    found[:, wide] &= connected[:, None] >= np.minimum(required, stage[wide])
    return found


def fills_pipeline(prompt_tokens: float, assumed: Assumptions) -> bool:
    """Whether the chunks of a mean prompt keep two pipeline stages busy.

    Check: 16 chunks of 2,048 tokens.
        >>> [fills_pipeline(tokens, Assumptions()) for tokens in (30_000.0, 100_000.0)]
        [False, True]
    """
    return prompt_tokens >= assumed.pipelined_chunks_per_stage * assumed.least_pipelined_chunk_tokens


def _worthwhile_layouts(layouts: Layouts, need: Column, largest: Column, in_stages: Mask) -> Mask:
    """Mask of layouts to evaluate, one row per number of accelerators that the weights need.

    Layouts range from the needed size to a multiple of it. Pipeline stages are left out where the weights fit with
    much room, unless one prompt fills the stages (`in_stages`). Experts stay on one accelerator where the weights fit
    on one.
    """
    size = layouts.accelerator_count
    low = np.minimum(np.maximum(need * MIN_SIZE_FACTOR, 1.0), largest)
    enough = np.exp2(np.ceil(np.log2(np.maximum(need, 1.0))))
    staged = np.maximum(np.maximum(enough, need * MAX_SIZE_FACTOR), low)
    high = np.maximum(enough * MAX_SIZE_FACTOR, low)
    worthwhile: Mask = (size >= low[:, None]) & (size <= high[:, None])
    worthwhile &= (layouts.pipeline_parallel == 1) | (size <= np.where(in_stages, high, staged)[:, None])
    worthwhile &= (layouts.data_parallel == 1) | (
        (need[:, None] > 1) & (size <= MAX_DATA_PARALLEL_SIZE_FACTOR * need[:, None])
    )
    return worthwhile
