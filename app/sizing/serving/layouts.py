"""Layouts of a replica: what a model's shape divides into, what machines are wired for, and which are worth judging."""

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

# What the search tries, not what hardware can: of the accelerators that weights need (a little less, since tables need
# not all be loaded) up to so many times as many in one machine, where answers come faster at a price.
FEWEST_OVER_NEED, MOST_OVER_NEED, WIDEST_OVER_NEED = 0.9, 8.0, 4.0
# (tensor parallel, pipeline parallel) that are judged where hardware is open; single-machine ones first.
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
# The same with attention data parallel, of models with routed experts.
WIDE: tuple[Degrees, ...] = (
    *((1, 1, data, 1) for data in (4, 8, 16, 32, 64)),
    *((2, 1, data, 1) for data in (2, 4, 8)),
    *((4, 1, data, 1) for data in (2, 4)),
)
# (tensor parallel, pipeline parallel) with no token of a context kept twice, of models with fewer heads than ranks.
LONG = ((4, 1), (8, 1), (16, 1), (8, 2))


@dataclass(frozen=True, slots=True)
class Splits:
    """How far a model's cache splits by tokens: engines do so where ranks would keep copies of the same heads."""

    kv_heads: int  # 0 where it does not
    queries_per_head: int
    latent: bool

    def by(self, tensor: int, context: int) -> bool:
        """Whether so many ranks of so many tensor-parallel ones may share the tokens of a head.

        Source: vllm/config/model.py, verify_with_parallel_config. Limits: no windows, no states.
        Check: four heads on eight ranks are there twice.
            >>> [Splits(4, 16, False).by(8, context) for context in (1, 2, 4)]
            [True, True, False]
        """
        if context == 1:
            return True
        divides = tensor % context == 0 and self.queries_per_head % context == 0
        return divides and 0 < self.kv_heads * context <= tensor

    def suit(self, engine: ContextParallel) -> bool:
        """Whether an engine splits this cache."""
        return self.kv_heads > 0 and (self.latent or not engine.latent)

    def most(self, tensor: int) -> int:
        """Most ranks that may share the tokens of a head, of so many tensor-parallel ones.

        Check: all sixteen keep the same latent.
            >>> Splits(1, 128, True).most(16)
            16
        """
        return max(context for context in range(1, tensor + 1) if self.by(tensor, context))


def splits_of(model: ModelArchitecture) -> Splits:
    """How far a model's cache splits by tokens: engines split none with sliding windows or recurrent states."""
    groups = model.attention
    whole = bool(groups) and model.state_bytes_per_sequence == 0
    if not whole or any(g.window_tokens is not None or g.crosses for g in groups):
        return Splits(0, 1, latent=False)
    heads = max(g.kv_heads for g in groups)
    latent = all(g.is_latent and g.read_tokens is None for g in groups)
    return Splits(heads, max(1, model.num_heads // heads), latent)


@dataclass(frozen=True, slots=True)
class Layouts(Columns):
    """Degrees of parallelism of a replica."""

    tensor_parallel: Column
    pipeline_parallel: Column
    data_parallel: Column
    context_parallel: Column  # of the tensor-parallel ranks
    divides: Mask  # heads are split evenly, KV heads split or copied; else an engine must pad them

    @property
    def size(self) -> Column:
        """Accelerators of a replica."""
        return self.tensor_parallel * self.pipeline_parallel * self.data_parallel


def layouts_of(model: ModelArchitecture, node: Machines, assumed: Assumptions, fixed: Deployment | None) -> Layouts:
    """Layouts that the model's layers and heads allow: the usual ones, or, where a caller fixed a layout or the
    hardware, every one that agrees with it.
    """
    if model.kind is not ModelKind.DECODER:
        return _table(model, [(1, 1, 1, 1)])
    if fixed is None or not (_given(fixed) or _hardware(fixed)):
        usual = [(t, p, 1, 1) for t, p in USUAL if p <= max(1, model.num_layers)]
        found = _table(model, [*usual, *_beside(model)])
        return found.take(found.divides)
    most = most_of_a_replica(node, assumed, fixed)
    beside = [] if _given(fixed) else [w for w in _beside(model) if w[0] * w[1] * w[2] <= most]
    return _table(model, [degrees for degrees in [*_every(model, most, fixed), *beside] if _agrees(fixed, *degrees)])


def _beside(model: ModelArchitecture) -> list[Degrees]:
    """What a model's experts and heads allow beside the usual layouts."""
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
    """Whether a caller said anything of the layout."""
    said = (fixed.tensor_parallel, fixed.pipeline_parallel, fixed.accelerators_per_replica)
    more = any((degree or 1) > 1 for degree in (fixed.expert_parallel, fixed.data_parallel, fixed.context_parallel))
    return more or any(degree is not None for degree in said)


def _hardware(fixed: Deployment) -> bool:
    """Whether a caller said how much hardware there is."""
    return fixed.total_accelerators is not None or fixed.nodes is not None


def most_of_a_replica(node: Machines, assumed: Assumptions, fixed: Deployment) -> int:
    """Accelerators that any replica may take: those of as many machines as it may span, or as there are."""
    count = int(node.accelerators_per_node.max(initial=1.0))
    spanned = int(assumed.max_nodes_per_replica) if fixed.nodes is None else fixed.nodes
    most = count * max(1, min(spanned, int(assumed.max_nodes_per_replica)))
    return most if fixed.total_accelerators is None else min(most, fixed.total_accelerators)


def _every(model: ModelArchitecture, most: int, fixed: Deployment) -> list[Degrees]:
    tensor, pipeline, data = min(model.num_heads or most, most), max(1, model.num_layers), ranks_said(fixed)
    context, splits = fixed.context_parallel or 1, splits_of(model)
    sizes = [(t, d) for d in data for t in range(1, min(tensor, most // d) + 1) if splits.by(t, context)]
    return [(t, p, d, context) for t, d in sizes for p in range(1, min(pipeline, most // (t * d)) + 1)]


def ranks_said(fixed: Deployment) -> tuple[int, ...]:
    """Data-parallel ranks of a replica that are judged: as many as are said."""
    return (fixed.data_parallel or 1,)


def _agrees(fixed: Deployment, tensor: int, pipeline: int, data: int, context: int) -> bool:
    """With what the caller said of the layout; whole experts lie on the ranks that share a layer. Who says no more than
    how layers are shared means, as engines do, no pipeline.
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
    """Pairs of (row, layout) that a machine can be wired for and that are worth judging; a row is a machine with a
    stack.

    Where the hardware is open, layouts far larger than the weights need are left out; the largest legal one always
    stays, so that a type that does not fit is turned down by its best attempt. Tensor parallel over several machines is
    for who asks for what none of the machines holds alone, and for weights that no other layout holds.
    """
    wired, across = _wired(layouts, node, max_accelerators, assumed, fixed)
    said = fixed is not None and (fixed.tensor_parallel is not None or fixed.laid_out)
    if said:
        across &= ~wired.any(axis=0)
    inside = layouts.size <= node.accelerators_per_node[:, None]
    alone, wide = (layouts.tensor_parallel == 1) & (layouts.data_parallel == 1), layouts.data_parallel > 1
    wired = np.concatenate([wired, wired & inside & alone])  # for most engines, then for small ones
    row = machine + len(node) * stacks.small_engine[stack]
    legal: Mask = wired.take(row, axis=0)
    largest = _largest(layouts, wired)[row]
    if across.any():
        asked = ~stacks.small_engine[stack]
        if not said:
            asked &= _needed(weights[stack], node.memory_bytes[machine], assumed) * FEWEST_OVER_NEED > largest
        more = across[machine] & asked[:, None] & (said | (layouts.size > largest[:, None]))
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
    """Accelerators that weights need."""
    return weights_bytes / (assumed.replica_memory_fraction * memory_bytes)


def _largest(layouts: Layouts, among: Mask) -> Column:
    """Accelerators of the largest of some layouts, by machine."""
    found: Column = np.where(among, layouts.size, 0.0).max(axis=1, initial=0.0)
    return found


def _wired(
    layouts: Layouts, node: Machines, max_accelerators: int | None, assumed: Assumptions, fixed: Deployment | None
) -> tuple[Mask, Mask]:
    """Layouts by machine: a replica spans machines only where the network is known (or a caller wrote the layout out in
    full) and only along the pipeline or over data-parallel ranks, or inside one scale-up domain; never over parts of
    sockets. And those whose tensor-parallel ranks fill several machines or domains.
    """
    tp, pp, size = layouts.tensor_parallel, layouts.pipeline_parallel, layouts.size
    count, domain = node.accelerators_per_node[:, None], node.scale_up_domain[:, None]
    nodes = np.ceil(size / count)
    whole = ~np.isnan(node.network_bytes_per_s) & (node.share == 1)
    known = whole[:, None] | (fixed is not None and fixed.laid_out)
    joined = (known & ((pp >= nodes) | (layouts.data_parallel > 1))) | (domain >= size)
    held = (np.mod(size, count) == 0) & (nodes <= assumed.max_nodes_per_replica)
    pcie = (node.link == LINKS.index(Link.PCIE))[:, None]
    wired: Mask = ((size <= count) | (held & joined)) & ((tp == 1) | (tp <= domain) | (pcie & (tp <= count)))
    linked, reach = pcie | (domain >= count), np.maximum(count, domain)
    across: Mask = held & known & linked & (tp > reach) & (np.mod(tp, reach) == 0) & (layouts.data_parallel == 1)
    allowed = np.ones_like(wired)
    if max_accelerators is not None:
        allowed &= nodes * count <= max_accelerators
    if fixed is not None and fixed.nodes is not None:
        allowed &= nodes <= fixed.nodes
    return wired & allowed, across & allowed


def _worthwhile(layouts: Layouts, need: Column, largest: Column) -> Mask:
    """Layouts as large as the weights need and larger, a row for each need; what fits with room to spare is not cut
    into stages, and what fits into one accelerator keeps its experts there.
    """
    size = layouts.size
    low = np.minimum(np.maximum(need * FEWEST_OVER_NEED, 1.0), largest)
    enough = np.exp2(np.ceil(np.log2(np.maximum(need, 1.0))))
    staged = np.maximum(np.maximum(enough, need * MOST_OVER_NEED), low)
    high = np.maximum(enough * MOST_OVER_NEED, low)
    found: Mask = (size >= low[:, None]) & (size <= high[:, None])
    found &= (layouts.pipeline_parallel == 1) | (size <= staged[:, None])
    found &= (layouts.data_parallel == 1) | ((need[:, None] > 1) & (size <= WIDEST_OVER_NEED * need[:, None]))
    return found
