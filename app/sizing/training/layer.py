"""Activation bytes per token of a mean layer: what the layer keeps for backward, and what its backward needs on top.

Every formula is linear in the layer's widths; the framework's recipe sets the coefficients. The coefficients were
solved from traced training steps of PyTorch 2.15 (fake tensors), with residuals below 1e-14. Fused norms under
autocast, compiled kernels and FP32 training were derived by hand from the same operators.

Symbols: h hidden size, f MLP width, n attention heads, m KV heads, d head size, s sequence length, E experts, k
experts per token. All values are bytes per token unless a docstring says otherwise.

Plans look their row up in the table instead of evaluating the formulas again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.columns import Codes, Column, Columns, Mask
from app.sizing.formula import formula, suspend_recording, trace_label
from app.sizing.hardware.recipes import Recipes, vocabulary_code
from app.sizing.training.counts import Counts, Layer
from app.sizing.training.layouts import ACTIVATION_CHECKPOINTING, FULL, SELECTIVE
from app.sizing.training.recipes import BYTES_16_BIT, BYTES_32_BIT, ParamBytes, Recipe, param_bytes, param_kinds

TRACED = "traced steps of PyTorch 2.15"
EAGER, COMPILED = vocabulary_code("kernels", "eager"), vocabulary_code("kernels", "compiled")
NONE, OPERATORS, ATTENTION = (vocabulary_code("selective", name) for name in ("none", "operators", "attention"))
EVERY_SECOND, EVERY_LAYER = vocabulary_code("selective", "every_second_layer"), vocabulary_code("selective", "full")
ADAPTERS_32_BIT, ADAPTERS_AUTOCAST, ADAPTERS_16_BIT = (
    vocabulary_code("adapter_precision", name) for name in ("fp32", "autocast", "16bit")
)


@dataclass(frozen=True, slots=True)
class LayerKinds(Columns):
    """Properties of a training recipe that change the activation bytes of a layer."""

    written_out: Mask  # norms and gates run operator by operator (eager kernels)
    compiled: Mask  # a compiler fuses the operators between matrices
    autocast: Mask  # weights in FP32, matrix products in 16 bit
    flash: Mask  # fused attention (FlashAttention)
    widened: Mask  # FP32 residual stream around quantized weights (k-bit preparation)
    adapters_32_bit: Mask  # adapters compute in FP32
    copies_inputs: Mask  # adapters keep their own copies of inputs
    dropout: Mask  # adapters use dropout
    adapters_autocast: Mask  # FP32 adapters under autocast
    sent_copies: Column  # copies kept of each token that is dispatched to an expert
    keeps_exchanges: Mask  # lists of saved operators include the all-to-alls of experts
    recomputes: Codes  # recomputed part, index into RECOMPUTATIONS


@dataclass(frozen=True, slots=True)
class LayerBytes(Columns):
    """Activation bytes of one token in one mean layer, grouped by how tensor parallelism divides them."""

    kept_hidden: Column  # kept hidden-size tensors, B; whole on each rank without sequence parallelism
    kept_split: Column  # kept tensors of heads and MLP, B
    kept_routed: Column  # kept tensors of routed experts, B
    kept_sent: Column  # kept copies of tokens dispatched to experts, B
    working_hidden: Column  # additional hidden-size tensors during the layer's backward, B
    working_split: Column  # additional tensors of heads and MLP during the layer's backward, B
    working_routed: Column  # additional tensors of routed experts during the layer's backward, B
    working_sent: Column  # additional copies of dispatched tokens during the layer's backward, B
    exchanged: Column  # dispatched and returned tokens that are kept with expert parallelism instead of recomputed, B


def layer_kinds(run: Recipe, recipe: Recipes, recomputes: Codes, autocast: Mask, flash: Mask) -> LayerKinds:
    """Return the properties of each recipe that change a layer's activation bytes."""
    return LayerKinds(
        written_out=recipe.kernels == EAGER,
        compiled=recipe.kernels == COMPILED,
        autocast=autocast,
        flash=flash,
        widened=recipe.kbit_widening & run.quantized,
        adapters_32_bit=recipe.adapter_precision == ADAPTERS_32_BIT,
        copies_inputs=recipe.adapter_dropout | (recipe.adapter_precision != ADAPTERS_16_BIT),
        dropout=recipe.adapter_dropout,
        adapters_autocast=recipe.adapter_precision == ADAPTERS_AUTOCAST,
        sent_copies=recipe.sent_copies,
        keeps_exchanges=recipe.keeps_exchanges,
        recomputes=recomputes,
    )


@formula(unit="B/token", source=TRACED)
def trained_norm_bytes(counts: Counts, layer: Layer, kinds: LayerKinds, recipe: Recipe) -> Column:
    """Activation bytes of the norms of a trained layer: their inputs and outputs.

    Fused norms keep 8h bytes in all; norms that run operator by operator keep 16h. Under autocast every matrix that
    reads a norm also keeps its own 16-bit copy.

    Check: Llama-3.1-8B: 16h + 8 operator by operator, 26h + 8 under autocast, 8h + 8 fused.
        >>> counts = PRETRAIN_COUNTS
        >>> kinds = row(written_out=np.array([1, 1, 0]) > 0, autocast=np.array([0, 1, 0]) > 0, compiled=np.zeros(3) > 0)
        >>> (trained_norm_bytes(counts, counts.layer, kinds, counts.recipe) - 8) / 4096
        array([16., 26.,  8.])
    """
    kernels = layer.norms * (2 * recipe.element_bytes * counts.hidden_size + 4)
    written = np.where(kinds.written_out, layer.written_norms * BYTES_32_BIT * counts.hidden_size, 0.0)
    readers = np.where(kinds.compiled, layer.norms, layer.readers)
    return kernels + written + np.where(kinds.autocast, readers * BYTES_16_BIT * counts.hidden_size, 0.0)


@formula(unit="B/token", source=TRACED)
def frozen_norm_bytes(counts: Counts, layer: Layer, kinds: LayerKinds, recipe: Recipe) -> Column:
    """Activation bytes of the norms of a frozen layer: only their inputs, because no gradient needs the outputs.

    Fused norms keep 4h bytes in all. Norms that run operator by operator, or on an FP32 residual stream, keep 8h.

    Check: Llama-3.1-8B: 8h + 8 operator by operator, 4h + 8 fused.
        >>> kinds = row(written_out=np.array([True, False]), widened=np.array([False, False]))
        >>> frozen_norm_bytes(PRETRAIN_COUNTS, PRETRAIN_COUNTS.layer, kinds, PRETRAIN_COUNTS.recipe).tolist()
        [32776.0, 16392.0]
    """
    wide = (kinds.written_out & (layer.written_norms > 0)) | kinds.widened
    return layer.norms * (np.where(wide, BYTES_32_BIT, recipe.element_bytes) * counts.hidden_size + 4)


@formula(unit="B/token", source=f"{TRACED}; Dao et al. 2022 (arXiv:2205.14135) for fused attention")
def head_bytes(counts: Counts, layer: Layer, kinds: LayerKinds, recipe: Recipe) -> Column:
    """Activation bytes of attention: queries, keys, values, output, and one softmax statistic per head.

    Without fused attention the layer stores the scores (6 n s bytes), and keys and values expanded to every head.

    Check: Llama-3.1-8B with fused attention: 4(n + m)d + 4n.
        >>> flash = row(flash=np.array([True]))
        >>> head_bytes(PRETRAIN_COUNTS, PRETRAIN_COUNTS.layer, flash, PRETRAIN_COUNTS.recipe).tolist()
        [20608.0]
    """
    element = recipe.element_bytes
    stored = element * 2 * np.maximum(layer.queries, layer.keys) + 6 * counts.num_heads * counts.units_per_sequence
    return np.where(kinds.flash, element * (layer.queries + layer.keys) + 4 * counts.num_heads, stored)


@formula(unit="B/token", source=TRACED)
def trained_mlp_bytes(layer: Layer, kinds: LayerKinds, recipe: Recipe) -> Column:
    """Activation bytes of a trained MLP.

    A gated MLP keeps 8f operator by operator and 6f with fused kernels, an MLP without a gate 4f, and a GELU that
    runs operator by operator 10f.

    Check: Llama-3.1-8B, f = 14,336: 8f operator by operator, 6f fused.
        >>> kinds = row(written_out=np.array([True, False]))
        >>> trained_mlp_bytes(PRETRAIN_COUNTS.layer, kinds, PRETRAIN_COUNTS.recipe).tolist()
        [114688.0, 86016.0]
    """
    products = np.where(kinds.written_out, layer.written_products, layer.products)
    return products * recipe.element_bytes * layer.dense


@formula(unit="B/token", source=TRACED)
def frozen_mlp_bytes(layer: Layer, kinds: LayerKinds, recipe: Recipe) -> Column:
    """Activation bytes of a frozen MLP: one product fewer than a trained MLP, because no gradient needs the last one.

    Products are in FP32 on the FP32 residual stream around quantized weights.

    Check: Llama-3.1-8B, f = 14,336: 6f operator by operator, 4f fused.
        >>> kinds = row(written_out=np.array([True, False]), widened=np.array([False, False]))
        >>> frozen_mlp_bytes(PRETRAIN_COUNTS.layer, kinds, PRETRAIN_COUNTS.recipe).tolist()
        [86016.0, 57344.0]
    """
    products = np.where(kinds.written_out, layer.written_products, layer.products) - 1
    return products * np.where(kinds.widened, BYTES_32_BIT, recipe.element_bytes) * layer.dense


@formula(unit="B/token", source=TRACED)
def expert_bytes(layer: Layer, kinds: LayerKinds, recipe: Recipe) -> Column:
    """Activation bytes of routed experts: the products of an MLP, 4E for router scores and 20k for the chosen experts.

    Products are in FP32 on the FP32 residual stream around quantized weights.

    Check: eight of 128 experts of width 768, fused: 3 * 2 * 6,144 + 4 * 128 + 20 * 8.
        >>> layer = row(products=3, written_products=4, routed=8 * 768, router=128, choices=8)
        >>> kinds = row(written_out=np.array([False]), widened=np.array([False]))
        >>> expert_bytes(layer, kinds, PRETRAIN_COUNTS.recipe).tolist()
        [37536.0]
    """
    products = np.where(kinds.written_out, layer.written_products, layer.products) - recipe.frozen
    width = np.where(kinds.widened, BYTES_32_BIT, recipe.element_bytes)
    return products * width * layer.routed + 4 * layer.router + 20 * layer.choices


@formula(unit="B/token", source=f"{TRACED}; Megatron-LM's experts.py and token_dispatcher.py")
def sent_bytes(layer: Layer, kinds: LayerKinds, recipe: Recipe) -> Column:
    """Activation bytes of tokens that the all-to-all dispatches to experts and returns.

    A framework that keeps the dispatched, the returned and the weighted copy keeps 6kh. A framework that applies the
    routing weight inside the expert, and otherwise keeps only token indices, keeps 2kh.

    Check: eight experts per token, h = 2,048: three copies, or one.
        >>> sent_bytes(row(sent=8 * 2048), row(sent_copies=col(3, 1)), PRETRAIN_COUNTS.recipe).tolist()
        [98304.0, 32768.0]
    """
    return np.maximum(0.0, kinds.sent_copies - recipe.frozen) * recipe.element_bytes * layer.sent


@formula(unit="B/token", source=f"{TRACED} with PEFT's layers")
def adapter_bytes(layer: Layer, kinds: LayerKinds, recipe: Recipe) -> Column:
    """Activation bytes that adapters add: inputs of the adapted matrices, and the low-rank products.

    16-bit adapters without dropout keep each distinct input once. Other adapters keep one copy per adapted matrix,
    and with dropout a one-byte mask. FP32 adapters without dropout on an FP32 residual stream keep each distinct
    input once, and an FP32 copy of the attention output.

    Check: rank 16 on four matrices that share an input of 4,096: FP32 with dropout, then 16-bit without.
        >>> layer = row(adapted_inputs=4 * 4096, unshared_inputs=4096, adapted_outputs=0, adapted_matrices=4)
        >>> first, none = np.array([True, False]), np.array([False, False])
        >>> kinds = row(adapters_32_bit=first, dropout=first, copies_inputs=first, widened=none)
        >>> adapter_bytes(layer, kinds, row(adapter_rank=16)).tolist()
        [82176.0, 8320.0]
    """
    width = np.where(kinds.adapters_32_bit, BYTES_32_BIT, BYTES_16_BIT)
    own = (width + kinds.dropout) * layer.adapted_inputs
    as_they_are = kinds.widened & kinds.adapters_32_bit & (kinds.dropout == 0)
    once = np.where(as_they_are, BYTES_32_BIT * (layer.unshared_inputs + layer.adapted_outputs), own)
    inputs = np.where(kinds.copies_inputs, once, BYTES_16_BIT * layer.unshared_inputs)
    return inputs + width * recipe.adapter_rank * layer.adapted_matrices


@formula(unit="B/token", source="Transformer Engine 2 (`LayerNormLinear`, `Linear`); torchao (`Float8Linear`)")
def narrower_bytes(counts: Counts, layer: Layer, kinds: LayerKinds, recipe: Recipe) -> Column:
    """Activation bytes that 8- or 4-bit training saves, because a matrix keeps its input in the format that it
    multiplies.

    The attention output also stays in 16 bit, so its 8- or 4-bit copy is an addition. Compiled kernels keep 16-bit
    inputs and convert them again in backward, so they save nothing.

    Check: Llama-3.1-8B in FP8, one byte saved per input: 2h + f less one byte for each of the 4,096 attention
        outputs.
        >>> kinds, fp8 = row(compiled=np.array([False, True])), row(kept_bytes_saved_per_input=1.0)
        >>> narrower_bytes(PRETRAIN_COUNTS, PRETRAIN_COUNTS.layer, kinds, fp8).tolist()
        [18432.0, 0.0]
    """
    saved = recipe.kept_bytes_saved_per_input
    again = np.where(saved > 0, (BYTES_16_BIT - saved) * layer.queries / 2, 0.0)
    inputs = saved * (layer.norms * counts.hidden_size + layer.dense + layer.routed) - again
    return np.where(kinds.compiled, 0.0, inputs)


@formula(unit="B/token", source=TRACED)
def residual_bytes(counts: Counts, kinds: LayerKinds, recipe: Recipe) -> Column:
    """Bytes of a layer's input: 2h, or 4h where the residual stream is in FP32.

    Check: h = 4,096, in 16 bit and under autocast.
        >>> kinds = row(autocast=np.array([False, True]), widened=np.array([False, False]))
        >>> residual_bytes(PRETRAIN_COUNTS, kinds, PRETRAIN_COUNTS.recipe).tolist()
        [8192.0, 16384.0]
    """
    return np.where(kinds.autocast | kinds.widened, BYTES_32_BIT, recipe.element_bytes) * counts.hidden_size


@formula(unit="B/token", source=TRACED)
def trained_work_bytes(counts: Counts, kinds: LayerKinds, layer: Layer, recipe: Recipe) -> Column:
    """Bytes of the hidden-size gradients between a trained layer's matrices while the layer's backward runs.

    Limits: the autocast value was traced with adapters and is used for full training too.
    Check: Llama-3.1-8B: 2h operator by operator, 10h under autocast, none with fused kernels.
        >>> kinds = row(written_out=np.array([True, True, False]), autocast=np.array([False, True, False]))
        >>> trained_work_bytes(PRETRAIN_COUNTS, kinds, PRETRAIN_COUNTS.layer, PRETRAIN_COUNTS.recipe) / 4096
        array([ 2., 10.,  0.])
    """
    written = np.where(kinds.written_out & (layer.written_norms > 0), BYTES_16_BIT * counts.hidden_size, 0.0)
    return np.where(kinds.autocast, 10.0 * counts.hidden_size, written) * recipe.element_bytes / BYTES_16_BIT


@formula(unit="B/token", source=TRACED)
def frozen_work_bytes(counts: Counts, layer: Layer, kinds: LayerKinds) -> Column:
    """Bytes of the hidden-size gradients between a frozen layer's matrices while the layer's backward runs.

    16h with FP32 adapters on the MLP (each adapter's input copy has a gradient), 10h with adapters under autocast,
    4h for other recipes that run operator by operator, none with fused kernels.

    Check: h = 4,096, FP32 adapters on the MLP, adapters under autocast, 16-bit adapters operator by operator.
        >>> kinds = row(
        ...     adapters_32_bit=np.array([True, False, False]),
        ...     adapters_autocast=np.array([False, True, False]),
        ...     written_out=np.array([True, True, True]),
        ... )
        >>> frozen_work_bytes(PRETRAIN_COUNTS, row(adapts_mlp=1.0), kinds) / 4096
        array([16., 10.,  4.])
    """
    narrow = np.where(kinds.adapters_autocast, 10.0, np.where(kinds.written_out, 4.0, 0.0))
    return np.where(kinds.adapters_32_bit & (layer.adapts_mlp > 0), 16.0, narrow) * counts.hidden_size


@formula(unit="B/token", source=TRACED)
def mlp_work_bytes(layer: Layer, kinds: LayerKinds, recipe: Recipe) -> Column:
    """Bytes of the gradients of an MLP's products while the MLP's backward runs: 4f for a trained gated MLP.

    Check: Llama-3.1-8B, f = 14,336.
        >>> kinds = row(written_out=np.array([False]), adapters_32_bit=np.array([False]))
        >>> mlp_work_bytes(PRETRAIN_COUNTS.layer, kinds, PRETRAIN_COUNTS.recipe).tolist()
        [57344.0]
    """
    frozen = layer.products + np.where(kinds.written_out & (kinds.adapters_32_bit == 0), 1.0, 0.0)
    return np.where(recipe.frozen, frozen, layer.products - 1) * recipe.element_bytes * layer.dense


@formula(unit="B/token", source=TRACED)
def expert_work_bytes(elements: float, recipe: Recipe) -> float:
    """Bytes of the gradients of the experts' inputs, or of their products, while the experts' backward runs.

    Parameters:
        elements: width of the inputs or products, elements per token.
    Check: eight experts per token of width 768: 2 * 2 * 6,144.
        >>> expert_work_bytes(8 * 768, PRETRAIN_COUNTS.recipe)
        24576.0
    """
    return 2 * recipe.element_bytes * elements


@formula(unit="B/token", source="definition")
def matrix_bytes(head_bytes: Column, mlp_bytes: Column, adapter_bytes: Column, narrower_bytes: Column) -> Column:
    """Activation bytes of a layer's matrices without recomputation.

    Parameters:
        mlp_bytes: activation bytes of the MLP, per token.
    Check: Llama-3.1-8B in BF16 with fused kernels.
        >>> matrix_bytes(col(20608), col(86016), col(0), col(0)).tolist()
        [106624.0]
    """
    return head_bytes + mlp_bytes + adapter_bytes - narrower_bytes


@formula(unit="B/token", source=f"{TRACED}; torchtitan's list of saved operators")
def kept_hidden_bytes(
    counts: Counts, layer: Layer, kinds: LayerKinds, recipe: Recipe, norm_bytes: Column, residual_bytes: Column
) -> Column:
    """Hidden-size activation bytes that a layer keeps for backward.

    Without recomputation the layer keeps the inputs and outputs of its norms; with full recomputation only its own
    input. A list of saved operators keeps the input, and the output of the last matrix if the list includes it:
    torchtitan's list saves every second matrix.

    Parameters:
        norm_bytes: activation bytes of the norms, per token.
    Check: Llama-3.1-8B with fused norms: no recomputation, a list of operators, every second layer, full
        recomputation.
        >>> kinds = row(recomputes=np.array([NONE, OPERATORS, EVERY_SECOND, EVERY_LAYER]))
        >>> counts, norms, residual = PRETRAIN_COUNTS, col(32776), col(8192)
        >>> kept_hidden_bytes(counts, counts.layer, kinds, counts.recipe, norms, residual).tolist()
        [32776.0, 16384.0, 20484.0, 8192.0]
    """
    chosen = residual_bytes + layer.last_kept * recipe.element_bytes * counts.hidden_size
    every_second = norm_bytes + counts.recomputed_share * (residual_bytes - norm_bytes)
    some = np.where(kinds.recomputes == OPERATORS, chosen, norm_bytes)
    some = np.where(kinds.recomputes == EVERY_SECOND, every_second, some)
    return np.where(kinds.recomputes == EVERY_LAYER, residual_bytes, some)


@formula(unit="B/token", source=f"{TRACED}; Korthikanti et al. 2022 (arXiv:2205.05198) for recomputed attention")
def kept_split_bytes(counts: Counts, layer: Layer, kinds: LayerKinds, recipe: Recipe, matrix_bytes: Column) -> Column:
    """Activation bytes of attention and MLP that a layer keeps for backward.

    A list of saved operators keeps the attention output, queries, values and one MLP product. Recomputation of
    attention alone keeps everything except the softmax statistics (fused attention) or the scores.

    Check: Llama-3.1-8B, fused attention: no recomputation, attention alone, a list of operators, every second
        layer, full.
        >>> modes = np.array([NONE, ATTENTION, OPERATORS, EVERY_SECOND, EVERY_LAYER])
        >>> counts, kinds = PRETRAIN_COUNTS, row(flash=modes >= 0, recomputes=modes)
        >>> kept_split_bytes(counts, counts.layer, kinds, counts.recipe, col(106624)).tolist()
        [106624.0, 106496.0, 47232.0, 53312.0, 0.0]
    """
    pairs = counts.num_heads * counts.units_per_sequence
    sums = 4 * counts.num_heads
    held = recipe.element_bytes * (layer.queries + layer.keys / 2 + layer.dense)
    chosen = held + np.where(kinds.flash, sums, recipe.element_bytes * pairs)
    some = np.where(kinds.recomputes == OPERATORS, chosen, matrix_bytes)
    some = np.where(kinds.recomputes == ATTENTION, matrix_bytes - np.where(kinds.flash, sums, 6 * pairs), some)
    some = np.where(kinds.recomputes == EVERY_SECOND, matrix_bytes * (1 - counts.recomputed_share), some)
    return np.where(kinds.recomputes == EVERY_LAYER, 0.0, some)


@formula(unit="B/token", source=TRACED)
def kept_routed_bytes(counts: Counts, layer: Layer, kinds: LayerKinds, recipe: Recipe, expert_bytes: Column) -> Column:
    """Activation bytes of routed experts that a layer keeps for backward.

    A list of saved operators keeps the router's product and no grouped products of experts.

    Check: 128 experts: no recomputation, a list of operators, full recomputation.
        >>> kinds, layer = row(recomputes=np.array([NONE, OPERATORS, EVERY_LAYER])), row(router=128)
        >>> kept_routed_bytes(PRETRAIN_COUNTS, layer, kinds, PRETRAIN_COUNTS.recipe, col(37536)).tolist()
        [37536.0, 256.0, 0.0]
    """
    some = np.where(kinds.recomputes == OPERATORS, recipe.element_bytes * layer.router, expert_bytes)
    some = np.where(kinds.recomputes == EVERY_SECOND, expert_bytes * (1 - counts.recomputed_share), some)
    return np.where(kinds.recomputes == EVERY_LAYER, 0.0, some)


@formula(unit="B/token", source=TRACED)
def kept_sent_bytes(counts: Counts, kinds: LayerKinds, sent_bytes: Column) -> Column:
    """Activation bytes of dispatched tokens that a layer keeps for backward; none with a list of saved operators.

    Check: no recomputation, a list of operators, every second of 32 layers, full recomputation.
        >>> kinds = row(recomputes=np.array([NONE, OPERATORS, EVERY_SECOND, EVERY_LAYER]))
        >>> kept_sent_bytes(PRETRAIN_COUNTS, kinds, col(98304)).tolist()
        [98304.0, 0.0, 49152.0, 0.0]
    """
    some = np.where(kinds.recomputes == EVERY_SECOND, sent_bytes * (1 - counts.recomputed_share), sent_bytes)
    return np.where((kinds.recomputes == OPERATORS) | (kinds.recomputes == EVERY_LAYER), 0.0, some)


@formula(unit="B/token", source="torchtitan's distributed/activation_checkpoint.py, communication operators to save")
def exchanged_bytes(layer: Layer, kinds: LayerKinds, recipe: Recipe) -> Column:
    """Tokens that an all-to-all dispatched and returned, kept where a list of saved operators includes all-to-alls.

    Recomputing them would exchange them again. Without expert parallelism there is no exchange.

    Check: eight experts per token, h = 2,048: a list with all-to-alls, one without, no recomputation.
        >>> modes, keeps = np.array([OPERATORS, OPERATORS, NONE]), np.array([True, False, True])
        >>> lists = row(recomputes=modes, keeps_exchanges=keeps)
        >>> exchanged_bytes(row(sent=8 * 2048), lists, PRETRAIN_COUNTS.recipe).tolist()
        [65536.0, 0.0, 0.0]
    """
    return np.where(kinds.keeps_exchanges & (kinds.recomputes == OPERATORS), 2 * recipe.element_bytes * layer.sent, 0.0)


@formula(unit="B/token", source=TRACED)
def working_hidden_bytes(counts: Counts, kinds: LayerKinds, norm_bytes: Column, work_bytes: Column) -> Column:
    """Hidden-size bytes that a layer needs on top of what it keeps while its backward runs: recomputed norms and
    gradients.

    Parameters:
        norm_bytes: activation bytes of the norms, per token.
        work_bytes: hidden-size gradients during backward, bytes per token.
    Limits: with a list of saved operators, the hidden-size tensors that the list keeps are separate from the norms.
    Check: Llama-3.1-8B with fused norms, no recomputation and full recomputation.
        >>> kinds = row(recomputes=np.array([NONE, EVERY_LAYER]))
        >>> working_hidden_bytes(PRETRAIN_COUNTS, kinds, col(32776), col(0)).tolist()
        [0.0, 32776.0]
    """
    whole = (kinds.recomputes == NONE) | (kinds.recomputes == ATTENTION)
    again = np.where(kinds.recomputes == EVERY_SECOND, counts.last_recomputed * norm_bytes, norm_bytes)
    return np.where(whole, 0.0, again) + work_bytes


@formula(unit="B/token", source=TRACED)
def working_split_bytes(
    counts: Counts, kinds: LayerKinds, whole_bytes: Column, kept_bytes: Column, work_bytes: Column
) -> Column:
    """Bytes of attention and MLP, or of experts, that a layer needs on top of what it keeps while its backward runs.

    These are the recomputed activations and the gradients.

    Parameters:
        whole_bytes: activation bytes without recomputation, per token.
        kept_bytes: activation bytes that the layer keeps, per token.
        work_bytes: gradients during backward, bytes per token.
    Check: Llama-3.1-8B with fused kernels, no recomputation and full recomputation.
        >>> kinds = row(recomputes=np.array([NONE, EVERY_LAYER]))
        >>> working_split_bytes(PRETRAIN_COUNTS, kinds, col(106624), col(106624, 0), col(57344)).tolist()
        [57344.0, 163968.0]
    """
    last = counts.last_recomputed * whole_bytes
    again = np.where(kinds.recomputes == EVERY_SECOND, last, whole_bytes - kept_bytes)
    return again + work_bytes


def layer_bytes(counts: Counts, kinds: LayerKinds) -> LayerBytes:
    """Return the bytes that one token keeps in one mean layer, and the bytes that the layer's backward adds."""
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
        with trace_label("experts"):
            between = none + expert_work_bytes(layer.routed, run)
            working_routed = working_split_bytes(counts, kinds, experts, routed, between)
        with trace_label("tokens"):
            between = none + expert_work_bytes(layer.sent, run)
            working_sent = working_split_bytes(counts, kinds, sent, on_way, between)
    exchanged = exchanged_bytes(layer, kinds, run) if layer.sent else none
    kept, working = (hidden, split, routed, on_way), (working_hidden, working_split, working_routed, working_sent)
    return LayerBytes(*kept, *working, exchanged)


CHECKPOINTING_MODE_COUNT = len(ACTIVATION_CHECKPOINTING)
RECOMPUTES_NONE, RECOMPUTES_ALL = vocabulary_code("recomputation", "none"), vocabulary_code("recomputation", "full")


@dataclass(frozen=True, slots=True)
class FrameworkBytes(Columns):
    """Bytes that a framework keeps per token of a layer, and per parameter."""

    layer: LayerBytes  # activation bytes per token of a mean layer
    params: ParamBytes  # bytes per parameter


@dataclass(frozen=True, slots=True)
class FrameworkBytesTable:
    """Bytes for every combination of framework, sharding of weights and activation checkpointing mode."""

    rows: FrameworkBytes  # one row per combination

    def row_indices(self, stack: Codes, zero_stage: Column, activation_checkpointing: Codes) -> Codes:
        """Return the row of the table for each plan."""
        rows: Codes = (2 * stack + (zero_stage >= 3)) * CHECKPOINTING_MODE_COUNT + activation_checkpointing
        return rows


def build_framework_bytes_table(counts: Counts, recipe: Recipes, *, flash: bool) -> FrameworkBytesTable:
    """Build the table of every framework in every mode that a plan may choose."""
    rows = np.arange(len(recipe) * 2 * CHECKPOINTING_MODE_COUNT)
    sharded = (rows // CHECKPOINTING_MODE_COUNT) % 2 == 1
    with suspend_recording():
        return FrameworkBytesTable(
            framework_bytes(
                counts,
                recipe.take(rows // (2 * CHECKPOINTING_MODE_COUNT)),
                sharded,
                rows % CHECKPOINTING_MODE_COUNT,
                flash=flash,
            )
        )


def framework_bytes(
    counts: Counts, recipe: Recipes, sharded: Mask, checkpointing: Codes, *, flash: bool
) -> FrameworkBytes:
    """Return the bytes that each recipe keeps in the checkpointing mode of its row."""
    params = param_kinds(counts.recipe, recipe, sharded)
    some = np.where(checkpointing == SELECTIVE, recipe.selective, RECOMPUTES_NONE)
    recomputes = np.where(checkpointing == FULL, RECOMPUTES_ALL, some)
    kinds = layer_kinds(counts.recipe, recipe, recomputes, params.autocast, np.full(len(recipe), flash))
    return FrameworkBytes(layer_bytes(counts, kinds), param_bytes(counts.recipe, params))
