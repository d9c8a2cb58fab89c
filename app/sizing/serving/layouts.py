"""Replica layouts: which ones a model's shape allows, which ones machines are wired for, and which are worth
evaluating.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Codes, Column, Columns, Mask, column
from app.sizing.hardware.engines.record import ContextParallel
from app.sizing.hardware.links import LINKS
from app.sizing.hardware.parts import Link
from app.sizing.hardware.tables import Machines, Stacks
from app.sizing.model.architecture import ModelArchitecture, ModelKind
from app.sizing.question import Deployment

# Bounds of the search, not of hardware, as multiples of the accelerators that the weights need. The minimum is below 1,
# because embedding tables need not be loaded completely. Larger layouts in one machine cost more and answer faster.
FEWEST_OVER_NEED, MOST_OVER_NEED, WIDEST_OVER_NEED = 0.9, 8.0, 4.0
# (tensor parallel, pipeline parallel) degrees that are evaluated where the hardware is open; single-machine ones first.
USUAL = (
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
WIDE: tuple[Degrees, ...] = (
    *((1, 1, data, 1) for data in (4, 8, 16, 32, 64)),
    *((2, 1, data, 1) for data in (2, 4, 8)),
    *((4, 1, data, 1) for data in (2, 4)),
)
# (tensor parallel, pipeline parallel) degrees with context parallelism, for models with fewer KV heads than ranks.
LONG = ((4, 1), (8, 1), (16, 1), (8, 2))


@dataclass(frozen=True, slots=True)
class Splits:
    """How far a model's KV cache can be split by tokens. Engines split it where ranks would otherwise copy the same
    heads.
    """

    kv_heads: int  # KV heads of the model; 0 where the cache cannot be split
    queries_per_head: int  # query heads per KV head
    latent: bool  # whether the cache holds MLA latents

    def by(self, tensor: int, context: int) -> bool:
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

    def suit(self, engine: ContextParallel) -> bool:
        """Whether an engine supports splitting this cache."""
        return self.kv_heads > 0 and (self.latent or not engine.latent)

    def most(self, tensor: int) -> int:
        """Largest number of ranks that may share the tokens of a KV head, out of `tensor` tensor-parallel ranks.

        Check: all sixteen ranks keep the same MLA latent.
            >>> ContextSplits(1, 128, True).max_ranks(16)
            16
        """
        return max(context for context in range(1, tensor + 1) if self.by(tensor, context))


def splits_of(model: ModelArchitecture) -> Splits:
    """How far a model's KV cache can be split by tokens; zero heads for sliding windows and recurrent states."""
    groups = model.attention
    whole = bool(groups) and model.state_bytes_per_sequence == 0
    if not whole or any(g.window_tokens is not None or g.crosses for g in groups):
        return Splits(0, 1, latent=False)
    heads = max(g.kv_heads for g in groups)
    latent = all(g.is_latent and g.read_tokens is None for g in groups)
    return Splits(heads, max(1, model.num_heads // heads), latent)


@dataclass(frozen=True, slots=True)
class Layouts(Columns):
    """Degrees of parallelism of a replica, one layout per row."""

    tensor_parallel: Column  # tensor-parallel ranks
    pipeline_parallel: Column  # pipeline stages
    data_parallel: Column  # data-parallel attention ranks
    context_parallel: Column  # tensor-parallel ranks that share the tokens of a sequence's KV cache
    divides: Mask  # whether heads split evenly and KV heads split or copy evenly; otherwise the engine must pad heads

    @property
    def size(self) -> Column:
        """Accelerators of a replica."""
        return self.tensor_parallel * self.pipeline_parallel * self.data_parallel


def layouts_of(model: ModelArchitecture, node: Machines, assumed: Assumptions, fixed: Deployment | None) -> Layouts:
    """Layouts that the model's layers and heads allow.

    The standard layouts apply where the request leaves layout and hardware open. Otherwise the result is every
    layout that matches the request.
    """
    if model.kind is not ModelKind.DECODER:
        return _table(model, [(1, 1, 1, 1)])
    if fixed is None or not (_given(fixed) or _hardware(fixed)):
        usual = [(t, p, 1, 1) for t, p in USUAL if p <= max(1, model.num_layers)]
        standard_layouts = _table(model, [*usual, *_beside(model)])
        return standard_layouts.take(standard_layouts.divides)
    most = most_of_a_replica(node, assumed, fixed)
    extra = [] if _given(fixed) else [w for w in _beside(model) if w[0] * w[1] * w[2] <= most]
    return _table(model, [degrees for degrees in [*_every(model, most, fixed), *extra] if _agrees(fixed, *degrees)])


def _beside(model: ModelArchitecture) -> list[Degrees]:
    """Layouts with data-parallel attention or context parallelism that the model's experts and heads allow in
    addition.
    """
    splits = splits_of(model)
    long = [(t, p, 1, splits.most(t)) for t, p in LONG if p <= model.num_layers]
    return [*(WIDE if model.is_moe else ()), *(degrees for degrees in long if degrees[3] > 1)]


def _table(model: ModelArchitecture, degrees: list[Degrees]) -> Layouts:
    tensor, pipeline, data, context = column(degrees).reshape(-1, 4).T
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = (np.mod(model.kv_heads, tensor) == 0) | (np.mod(tensor, model.kv_heads) == 0)
        divides = (tensor == 1) | ((np.mod(model.num_heads, tensor) == 0) & shares)
    return Layouts(tensor, pipeline, data, context, divides)


def _given(fixed: Deployment) -> bool:
    """Whether the request fixes any part of the layout."""
    fixed_degrees = (fixed.tensor_parallel, fixed.pipeline_parallel, fixed.accelerators_per_replica)
    more = any((degree or 1) > 1 for degree in (fixed.expert_parallel, fixed.data_parallel, fixed.context_parallel))
    return more or any(degree is not None for degree in fixed_degrees)


def _hardware(fixed: Deployment) -> bool:
    """Whether the request fixes the amount of hardware."""
    return fixed.total_accelerators is not None or fixed.nodes is not None


def most_of_a_replica(node: Machines, assumed: Assumptions, fixed: Deployment) -> int:
    """Largest number of accelerators of a replica: those of the machines that it may span, or of the available
    machines.
    """
    count = int(node.accelerators_per_node.max(initial=1.0))
    spanned = int(assumed.max_nodes_per_replica) if fixed.nodes is None else fixed.nodes
    most = count * max(1, min(spanned, int(assumed.max_nodes_per_replica)))
    return most if fixed.total_accelerators is None else min(most, fixed.total_accelerators)


def _every(model: ModelArchitecture, most: int, fixed: Deployment) -> list[Degrees]:
    """All layouts up to `most` accelerators with the requested data-parallel and context-parallel degrees."""
    tensor, pipeline, data = min(model.num_heads or most, most), max(1, model.num_layers), ranks_said(fixed)
    context, splits = fixed.context_parallel or 1, splits_of(model)
    sizes = [(t, d) for d in data for t in range(1, min(tensor, most // d) + 1) if splits.by(t, context)]
    return [(t, p, d, context) for t, d in sizes for p in range(1, min(pipeline, most // (t * d)) + 1)]


def ranks_said(fixed: Deployment) -> tuple[int, ...]:
    """Data-parallel degrees to evaluate: the requested degree, or 1."""
    return (fixed.data_parallel or 1,)


def _agrees(fixed: Deployment, tensor: int, pipeline: int, data: int, context: int) -> bool:
    """Whether a layout matches what the request fixes.

    Experts are placed whole on the ranks that share a layer. If the request fixes only tensor parallelism, pipeline
    parallelism is 1, as in the engines.
    """
    only_tensor = fixed.tensor_parallel is not None and fixed.accelerators_per_replica is None and not _hardware(fixed)
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
    assumed: Assumptions,
    fixed: Deployment | None,
) -> tuple[Codes, Codes]:
    """Pairs of (row, layout) that a machine is wired for and that are worth evaluating; a row is a machine with a
    stack.

    Where the hardware is open, layouts much larger than the weights need are left out. The largest legal layout
    always stays, so that the rejection of a type reports its best attempt. Tensor parallelism across machines is
    used in two cases: the request asks for a degree that no single machine holds, or no other layout holds the
    weights.
    """
    wired, across = _wired(layouts, node, max_accelerators, assumed, fixed)
    layout_is_fixed = fixed is not None and (fixed.tensor_parallel is not None or fixed.laid_out)
    if layout_is_fixed:
        across &= ~wired.any(axis=0)
    inside = layouts.size <= node.accelerators_per_node[:, None]
    alone, wide = (layouts.tensor_parallel == 1) & (layouts.data_parallel == 1), layouts.data_parallel > 1
    wired = np.concatenate([wired, wired & inside & alone])  # first for most engines, then for small engines
    row = machine + len(node) * stacks.small_engine[stack]
    legal: Mask = wired.take(row, axis=0)
    largest = _largest(layouts, wired)[row]
    if across.any():
        allowed_across = ~stacks.small_engine[stack]
        if not layout_is_fixed:
            allowed_across &= _needed(weights[stack], node.memory_bytes[machine], assumed) * FEWEST_OVER_NEED > largest
        more = across[machine] & allowed_across[:, None] & (layout_is_fixed | (layouts.size > largest[:, None]))
        legal, largest = legal | more, np.maximum(largest, _largest(layouts, more))
    legal &= layouts.divides | stacks.pads_heads[stack][:, None]
    if wide.any():
        legal &= ~wide | (stacks.dispatch_bytes[stack] > 0)[:, None]
    shared = layouts.context_parallel > 1
    if shared.any():
        able = (stacks.context_bytes > 0) & (~stacks.latent_contexts | splits_of(model).latent)
        legal &= ~shared | able[stack][:, None]
    if fixed is None or not (_given(fixed) or _hardware(fixed)):
        need = _needed(weights[stack], node.memory_bytes[machine], assumed)
        legal &= _worthwhile(layouts, need, largest)
    return np.divmod(np.flatnonzero(legal), max(1, len(layouts)))


def _needed(weights_bytes: Column, memory_bytes: Column, assumed: Assumptions) -> Column:
    """Accelerators that the weights need."""
    return weights_bytes / (assumed.replica_memory_fraction * memory_bytes)


def _largest(layouts: Layouts, among: Mask) -> Column:
    """Accelerators of the largest layout in a mask, per machine."""
    largest: Column = np.where(among, layouts.size, 0.0).max(axis=1, initial=0.0)
    return largest


def _wired(
    layouts: Layouts, node: Machines, max_accelerators: int | None, assumed: Assumptions, fixed: Deployment | None
) -> tuple[Mask, Mask]:
    """Two masks of layouts by machine: those that the wiring supports, and those with tensor parallelism across
    machines.

    A replica spans machines only along the pipeline, over data-parallel ranks, or inside one scale-up domain. The
    network must be known, or the request must fix the whole layout. Partial sockets never span machines. In the
    second mask, tensor-parallel ranks fill several whole machines or domains.
    """
    tp, pp, size = layouts.tensor_parallel, layouts.pipeline_parallel, layouts.size
    count, domain = node.accelerators_per_node[:, None], node.scale_up_domain[:, None]
    nodes = np.ceil(size / count)
    whole = ~np.isnan(node.network_bytes_per_s) & (node.share == 1)
    known = whole[:, None] | (fixed is not None and fixed.laid_out)
    network_allowed = (known & ((pp >= nodes) | (layouts.data_parallel > 1))) | (domain >= size)
    whole_machines = (np.mod(size, count) == 0) & (nodes <= assumed.max_nodes_per_replica)
    pcie = (node.link == LINKS.index(Link.PCIE))[:, None]
    wired: Mask = ((size <= count) | (whole_machines & network_allowed)) & ((tp == 1) | (tp <= domain) | (pcie & (tp <= count)))
    linked, reach = pcie | (domain >= count), np.maximum(count, domain)
    across: Mask = whole_machines & known & linked & (tp > reach) & (np.mod(tp, reach) == 0) & (layouts.data_parallel == 1)
    allowed = np.ones_like(wired)
    if max_accelerators is not None:
        allowed &= nodes * count <= max_accelerators
    if fixed is not None and fixed.nodes is not None:
        allowed &= nodes <= fixed.nodes
    return wired & allowed, across & allowed


def _worthwhile(layouts: Layouts, need: Column, largest: Column) -> Mask:
    """Mask of layouts to evaluate, one row per number of accelerators that the weights need.

    Layouts range from the needed size to a multiple of it. Pipeline stages are left out where the weights fit with
    much room. Experts stay on one accelerator where the weights fit on one.
    """
    size = layouts.size
    low = np.minimum(np.maximum(need * FEWEST_OVER_NEED, 1.0), largest)
    enough = np.exp2(np.ceil(np.log2(np.maximum(need, 1.0))))
    staged = np.maximum(np.maximum(enough, need * MOST_OVER_NEED), low)
    high = np.maximum(enough * MOST_OVER_NEED, low)
    worthwhile: Mask = (size >= low[:, None]) & (size <= high[:, None])
    worthwhile &= (layouts.pipeline_parallel == 1) | (size <= staged[:, None])
    worthwhile &= (layouts.data_parallel == 1) | ((need[:, None] > 1) & (size <= WIDEST_OVER_NEED * need[:, None]))
    return worthwhile
