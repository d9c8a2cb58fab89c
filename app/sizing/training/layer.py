"""Bytes that one token leaves in one mean layer until backward, and what that layer takes on top when it is its turn.

Everything is linear in the layer's widths; a framework's recipe says with which coefficients.
Source of all: solved from traced training steps of PyTorch 2.15 (fake tensors), residuals below 1e-14; fused norms
under autocast, compiled kernels and 32-bit training derived by hand from the same operators.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.columns import Codes, Column, Columns, Mask
from app.sizing.formula import formula, told_as
from app.sizing.hardware.recipes import Recipes, code
from app.sizing.training.counts import Counts, Layer
from app.sizing.training.recipes import BYTES_16_BIT, BYTES_32_BIT, Recipe

TRACED = "traced steps of PyTorch 2.15"
EAGER, COMPILED = code("kernels", "eager"), code("kernels", "compiled")
NONE, OPERATORS, ATTENTION = (code("selective", name) for name in ("none", "operators", "attention"))
EVERY_SECOND, FULL = code("selective", "every_second_layer"), code("selective", "full")
ADAPTERS_32_BIT, ADAPTERS_AUTOCAST, ADAPTERS_16_BIT = (
    code("adapter_precision", name) for name in ("fp32", "autocast", "16bit")
)


@dataclass(frozen=True, slots=True)
class LayerKinds(Columns):
    """What of a recipe tells layers apart."""

    written_out: Mask  # norms and gates operation by operation
    compiled: Mask
    autocast: Mask  # weights in 32 bit, matrices in 16
    flash: Mask
    widened: Mask  # a residual stream in 32 bit around quantised weights
    adapters_32_bit: Mask
    copies_inputs: Mask  # adapters keep inputs of their own
    dropout: Mask
    adapters_autocast: Mask
    sent_copies: Column  # of tokens on their way to experts and back
    recomputes: Codes  # place in RECOMPUTATIONS


@dataclass(frozen=True, slots=True)
class LayerBytes(Columns):
    """Of one token in one mean layer, by how tensor parallelism divides it."""

    kept_hidden: Column  # as wide as the model: whole on each rank unless sequences are split
    kept_split: Column  # of heads and MLP
    kept_routed: Column  # of experts
    kept_sent: Column  # of tokens on their way to experts
    working_hidden: Column  # beyond what is kept, while the layer is recomputed and its gradients form
    working_split: Column
    working_routed: Column
    working_sent: Column


def kinds_of(run: Recipe, recipe: Recipes, recomputes: Codes, autocast: Mask, flash: Mask) -> LayerKinds:
    """What tells layers apart, by recipe."""
    return LayerKinds(
        written_out=recipe.kernels == EAGER,
        compiled=recipe.kernels == COMPILED,
        autocast=autocast,
        flash=flash,
        widened=recipe.kbit_widening & run.quantised,
        adapters_32_bit=recipe.adapter_precision == ADAPTERS_32_BIT,
        copies_inputs=recipe.adapter_dropout | (recipe.adapter_precision != ADAPTERS_16_BIT),
        dropout=recipe.adapter_dropout,
        adapters_autocast=recipe.adapter_precision == ADAPTERS_AUTOCAST,
        sent_copies=recipe.sent_copies,
        recomputes=recomputes,
    )


@formula(unit="B", source=TRACED)
def trained_norm_bytes(counts: Counts, layer: Layer, kinds: LayerKinds, recipe: Recipe) -> Column:
    """Inputs and outputs of norms of a trained layer: 8h in one kernel each, 16h written out; under autocast each
    matrix that reads one keeps a 16-bit copy of its own.

    Source: traced steps of PyTorch 2.15.
    Check: Llama-3.1-8B: 16h + 8 written out, 26h + 8 under autocast, 8h + 8 fused.
        >>> counts = PRETRAIN_COUNTS
        >>> kinds = row(written_out=np.array([1, 1, 0]) > 0, autocast=np.array([0, 1, 0]) > 0, compiled=np.zeros(3) > 0)
        >>> (trained_norm_bytes(counts, counts.layer, kinds, counts.recipe) - 8) / 4096
        array([16., 26.,  8.])
    """
    kernels = layer.norms * (2 * recipe.element_bytes * counts.hidden_size + 4)
    written = np.where(kinds.written_out, layer.written_norms * BYTES_32_BIT * counts.hidden_size, 0.0)
    readers = np.where(kinds.compiled, layer.norms, layer.readers)
    return kernels + written + np.where(kinds.autocast, readers * BYTES_16_BIT * counts.hidden_size, 0.0)


@formula(unit="B", source=TRACED)
def frozen_norm_bytes(counts: Counts, layer: Layer, kinds: LayerKinds, recipe: Recipe) -> Column:
    """Inputs of norms of a frozen layer, whose outputs no gradient needs: 4h in one kernel each, 8h written out.

    Source: traced steps of PyTorch 2.15.
    """
    wide = (kinds.written_out & (layer.written_norms > 0)) | kinds.widened
    return layer.norms * (np.where(wide, BYTES_32_BIT, recipe.element_bytes) * counts.hidden_size + 4)


@formula(unit="B", source=TRACED)
def head_bytes(counts: Counts, layer: Layer, kinds: LayerKinds, recipe: Recipe) -> Column:
    """Queries, keys, values and attention's output, with a sum for each head; stored scores are 6 n s, with keys and
    values copied to every head.

    Source: traced steps of PyTorch 2.15; Dao et al. 2022 (arXiv:2205.14135) for fused attention.
    Check: Llama-3.1-8B: 4(n + m)d + 4n.
        >>> flash = row(flash=np.array([True]))
        >>> head_bytes(PRETRAIN_COUNTS, PRETRAIN_COUNTS.layer, flash, PRETRAIN_COUNTS.recipe).tolist()
        [20608.0]
    """
    element = recipe.element_bytes
    stored = element * 2 * np.maximum(layer.queries, layer.keys) + 6 * counts.num_heads * counts.units_per_sequence
    return np.where(kinds.flash, element * (layer.queries + layer.keys) + 4 * counts.num_heads, stored)


@formula(unit="B", source=TRACED)
def trained_mlp_bytes(layer: Layer, kinds: LayerKinds, recipe: Recipe) -> Column:
    """Products of a trained MLP: 8f with a gate written out, 6f fused, 4f without a gate; 10f of a GELU written out.

    Source: traced steps of PyTorch 2.15.
    """
    products = np.where(kinds.written_out, layer.written_products, layer.products)
    return products * recipe.element_bytes * layer.dense


@formula(unit="B", source=TRACED)
def frozen_mlp_bytes(layer: Layer, kinds: LayerKinds, recipe: Recipe) -> Column:
    """Products of a frozen MLP, the last of which no gradient needs; in 32 bit around quantised weights that widen.

    Source: traced steps of PyTorch 2.15.
    """
    products = np.where(kinds.written_out, layer.written_products, layer.products) - 1
    return products * np.where(kinds.widened, BYTES_32_BIT, recipe.element_bytes) * layer.dense


@formula(unit="B", source=TRACED)
def expert_bytes(layer: Layer, kinds: LayerKinds, recipe: Recipe) -> Column:
    """Of routed experts: products as of an MLP, in 32 bit around quantised weights that widen, scores 4E, places 20k.

    Source: traced steps of PyTorch 2.15.
    """
    products = np.where(kinds.written_out, layer.written_products, layer.products) - recipe.frozen
    width = np.where(kinds.widened, BYTES_32_BIT, recipe.element_bytes)
    return products * width * layer.routed + 4 * layer.router + 20 * layer.choices


@formula(unit="B", source=TRACED)
def sent_bytes(layer: Layer, kinds: LayerKinds, recipe: Recipe) -> Column:
    """Tokens on their way to experts and back, 6kh: sent, returned and weighted; 2kh where they are weighted between an
    expert's products and places alone tell them apart.

    Source: traced steps of PyTorch 2.15; Megatron-LM's experts.py and token_dispatcher.py for the fewer.
    """
    return np.maximum(0.0, kinds.sent_copies - recipe.frozen) * recipe.element_bytes * layer.sent


@formula(unit="B", source=TRACED)
def adapter_bytes(layer: Layer, kinds: LayerKinds, recipe: Recipe) -> Column:
    """What adapters keep: a copy of each matrix's input with a mask where they drop out, else each input once, as it is
    where the residual stream is as wide as they are; only attention's output is widened for them then.

    Source: traced steps of PyTorch 2.15 with PEFT's layers.
    """
    width = np.where(kinds.adapters_32_bit, BYTES_32_BIT, BYTES_16_BIT)
    own = (width + kinds.dropout) * layer.adapted_inputs
    as_they_are = kinds.widened & kinds.adapters_32_bit & (kinds.dropout == 0)
    once = np.where(as_they_are, BYTES_32_BIT * (layer.unshared_inputs + layer.adapted_outputs), own)
    inputs = np.where(kinds.copies_inputs, once, BYTES_16_BIT * layer.unshared_inputs)
    return inputs + width * recipe.adapter_rank * layer.adapted_matrices


@formula(unit="B", source="Transformer Engine and torchao, what their linear layers save")
def narrower_bytes(counts: Counts, layer: Layer, kinds: LayerKinds, recipe: Recipe) -> Column:
    """What 8- and 4-bit training saves: a matrix keeps its input as it multiplies it, so that of attention's output,
    which stays in 16 bit too, comes on top. Compiled kernels keep inputs wide and convert them again.

    Source: Transformer Engine 2 (`LayerNormLinear`, `Linear`); torchao's `Float8Linear`, which saves them wide.
    """
    saved = recipe.kept_bytes_saved_per_input
    again = np.where(saved > 0, (BYTES_16_BIT - saved) * layer.queries / 2, 0.0)
    inputs = saved * (layer.norms * counts.hidden_size + layer.dense + layer.routed) - again
    return np.where(kinds.compiled, 0.0, inputs)


@formula(unit="B", source=TRACED)
def residual_bytes(counts: Counts, kinds: LayerKinds, recipe: Recipe) -> Column:
    """A layer's input: 2h, in 32 bit where the residual stream is.

    Source: traced steps of PyTorch 2.15.
    """
    return np.where(kinds.autocast | kinds.widened, BYTES_32_BIT, recipe.element_bytes) * counts.hidden_size


@formula(unit="B", source=TRACED)
def trained_work_bytes(counts: Counts, kinds: LayerKinds, layer: Layer, recipe: Recipe) -> Column:
    """Gradients between a trained layer's matrices, as wide as the model, while its own backward runs.

    Source: traced steps of PyTorch 2.15; under autocast as with adapters.
    """
    written = np.where(kinds.written_out & (layer.written_norms > 0), BYTES_16_BIT * counts.hidden_size, 0.0)
    return np.where(kinds.autocast, 10.0 * counts.hidden_size, written) * recipe.element_bytes / BYTES_16_BIT


@formula(unit="B", source=TRACED)
def frozen_work_bytes(counts: Counts, layer: Layer, kinds: LayerKinds) -> Column:
    """Gradients between a frozen layer's matrices, as wide as the model, while its own backward runs: those of each
    adapter's copy among them, where the MLP has any.

    Source: traced steps of PyTorch 2.15.
    """
    narrow = np.where(kinds.adapters_autocast, 10.0, np.where(kinds.written_out, 4.0, 0.0))
    return np.where(kinds.adapters_32_bit & (layer.adapts_mlp > 0), 16.0, narrow) * counts.hidden_size


@formula(unit="B", source=TRACED)
def mlp_work_bytes(layer: Layer, kinds: LayerKinds, recipe: Recipe) -> Column:
    """Gradients of an MLP's products while its backward runs: 4f with a gate where it is trained.

    Source: traced steps of PyTorch 2.15.
    """
    frozen = layer.products + np.where(kinds.written_out & (kinds.adapters_32_bit == 0), 1.0, 0.0)
    return np.where(recipe.frozen, frozen, layer.products - 1) * recipe.element_bytes * layer.dense


@formula(unit="B", source=TRACED)
def expert_work_bytes(elements: float, recipe: Recipe) -> float:
    """Gradients of experts' inputs, or of their products, while their backward runs.

    Source: traced steps of PyTorch 2.15.
    """
    return 2 * recipe.element_bytes * elements


@formula(unit="B", source="definition")
def matrix_bytes(head_bytes: Column, mlp_bytes: Column, adapter_bytes: Column, narrower_bytes: Column) -> Column:
    """What matrices of a layer keep where nothing is recomputed.

    Source: definition.
    """
    return head_bytes + mlp_bytes + adapter_bytes - narrower_bytes


@formula(unit="B", source=TRACED)
def kept_hidden_bytes(
    counts: Counts, layer: Layer, kinds: LayerKinds, recipe: Recipe, norm_bytes: Column, residual_bytes: Column
) -> Column:
    """Of the tensors as wide as the model those that are kept: all, a layer's input alone, or that and the last matrix'
    output where operators are chosen.

    Source: traced steps of PyTorch 2.15; torchtitan's list of operators keeps every second matrix.
    """
    chosen = residual_bytes + layer.last_kept * recipe.element_bytes * counts.hidden_size
    every_second = norm_bytes + counts.recomputed_share * (residual_bytes - norm_bytes)
    some = np.where(kinds.recomputes == OPERATORS, chosen, norm_bytes)
    some = np.where(kinds.recomputes == EVERY_SECOND, every_second, some)
    return np.where(kinds.recomputes == FULL, residual_bytes, some)


@formula(unit="B", source=TRACED)
def kept_split_bytes(counts: Counts, layer: Layer, kinds: LayerKinds, recipe: Recipe, matrix_bytes: Column) -> Column:
    """Of heads and MLP what is kept: with operators chosen the attention, queries, values and one product; with
    attention's own products recomputed all but its sums or scores.

    Source: traced steps of PyTorch 2.15; Korthikanti et al. 2022 (arXiv:2205.05198) for attention's.
    """
    pairs = counts.num_heads * counts.units_per_sequence
    sums = 4 * counts.num_heads
    held = recipe.element_bytes * (layer.queries + layer.keys / 2 + layer.dense)
    chosen = held + np.where(kinds.flash, sums, recipe.element_bytes * pairs)
    some = np.where(kinds.recomputes == OPERATORS, chosen, matrix_bytes)
    some = np.where(kinds.recomputes == ATTENTION, matrix_bytes - np.where(kinds.flash, sums, 6 * pairs), some)
    some = np.where(kinds.recomputes == EVERY_SECOND, matrix_bytes * (1 - counts.recomputed_share), some)
    return np.where(kinds.recomputes == FULL, 0.0, some)


@formula(unit="B", source=TRACED)
def kept_routed_bytes(counts: Counts, layer: Layer, kinds: LayerKinds, recipe: Recipe, expert_bytes: Column) -> Column:
    """Of routed experts what is kept; a list of operators has the router's product, and no grouped ones.

    Source: traced steps of PyTorch 2.15.
    """
    some = np.where(kinds.recomputes == OPERATORS, recipe.element_bytes * layer.router, expert_bytes)
    some = np.where(kinds.recomputes == EVERY_SECOND, expert_bytes * (1 - counts.recomputed_share), some)
    return np.where(kinds.recomputes == FULL, 0.0, some)


@formula(unit="B", source=TRACED)
def kept_sent_bytes(counts: Counts, kinds: LayerKinds, sent_bytes: Column) -> Column:
    """Of tokens on their way what is kept; nothing where operators are chosen.

    Source: traced steps of PyTorch 2.15.
    """
    some = np.where(kinds.recomputes == EVERY_SECOND, sent_bytes * (1 - counts.recomputed_share), sent_bytes)
    return np.where((kinds.recomputes == OPERATORS) | (kinds.recomputes == FULL), 0.0, some)


@formula(unit="B", source=TRACED)
def working_hidden_bytes(counts: Counts, kinds: LayerKinds, norm_bytes: Column, work_bytes: Column) -> Column:
    """Tensors as wide as the model that a layer holds beyond what is kept while its backward runs.

    Source: traced steps of PyTorch 2.15.
    Limits: what a list of operators keeps of these is beside the norms, not among them.
    """
    whole = (kinds.recomputes == NONE) | (kinds.recomputes == ATTENTION)
    again = np.where(kinds.recomputes == EVERY_SECOND, counts.last_recomputed * norm_bytes, norm_bytes)
    return np.where(whole, 0.0, again) + work_bytes


@formula(unit="B", source=TRACED)
def working_split_bytes(
    counts: Counts, kinds: LayerKinds, whole_bytes: Column, kept_bytes: Column, work_bytes: Column
) -> Column:
    """Of heads and MLP, or of experts, what a layer holds beyond what is kept while its backward runs.

    Source: traced steps of PyTorch 2.15.
    """
    last = counts.last_recomputed * whole_bytes
    again = np.where(kinds.recomputes == EVERY_SECOND, last, whole_bytes - kept_bytes)
    return again + work_bytes


def layer_bytes(counts: Counts, kinds: LayerKinds) -> LayerBytes:
    """What one token leaves in one mean layer, and what backward of that layer adds."""
    run, layer = counts.recipe, counts.layer
    residual, heads = residual_bytes(counts, kinds, run), head_bytes(counts, layer, kinds, run)
    none = np.zeros(len(kinds))
    if run.frozen:
        norms, mlp = frozen_norm_bytes(counts, layer, kinds, run), frozen_mlp_bytes(layer, kinds, run)
        adapters, work = adapter_bytes(layer, kinds, run), frozen_work_bytes(counts, layer, kinds)
    else:
        norms, mlp = trained_norm_bytes(counts, layer, kinds, run), trained_mlp_bytes(layer, kinds, run)
        adapters, work = none, trained_work_bytes(counts, kinds, layer, run)
    matrices = matrix_bytes(heads, mlp, adapters, narrower_bytes(counts, layer, kinds, run))
    experts = expert_bytes(layer, kinds, run) if layer.sent else none
    hidden = kept_hidden_bytes(counts, layer, kinds, run, norms, residual)
    split = kept_split_bytes(counts, layer, kinds, run, matrices)
    routed = kept_routed_bytes(counts, layer, kinds, run, experts) if layer.sent else none
    sent = sent_bytes(layer, kinds, run) if layer.sent else none
    on_way = kept_sent_bytes(counts, kinds, sent) if layer.sent else none
    working_hidden = working_hidden_bytes(counts, kinds, norms, work)
    working_split = working_split_bytes(counts, kinds, matrices, split, mlp_work_bytes(layer, kinds, run))
    working_routed = working_sent = none
    if layer.sent:
        with told_as("experts"):
            between = none + expert_work_bytes(layer.routed, run)
            working_routed = working_split_bytes(counts, kinds, experts, routed, between)
        with told_as("tokens"):
            between = none + expert_work_bytes(layer.sent, run)
            working_sent = working_split_bytes(counts, kinds, sent, on_way, between)
    return LayerBytes(hidden, split, routed, on_way, working_hidden, working_split, working_routed, working_sent)
