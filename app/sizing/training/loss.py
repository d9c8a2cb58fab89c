"""Memory of logits and loss at the end of forward, which depends on how a framework computes its loss."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.columns import Column, Columns
from app.sizing.formula import formula
from app.sizing.hardware.recipes import Recipes, vocabulary_code
from app.sizing.training.counts import Counts, Layer
from app.sizing.training.layer import ADAPTERS_AUTOCAST, EAGER, TRACED
from app.sizing.training.plans import TrainingPlans
from app.sizing.training.recipes import BYTES_16_BIT, BYTES_32_BIT, Recipe

UPCAST, COMPILED, CHUNKED, FUSED, LIMITED, SHIFTED = (
    vocabulary_code("loss", name) for name in ("upcast", "compiled", "chunked", "fused", "fused_limited", "shifted")
)


@dataclass(frozen=True, slots=True)
class LossBytes(Columns):
    """Bytes at the end of forward, on accelerators that compute logits."""

    logits_bytes: Column  # peak of logits, their gradients and the head's gradient, B
    head_gradient_bytes: Column  # gradient of the head's weights, B
    norm_bytes: Column  # input and output of the final norm, B


@formula(unit="logits", source="definition")
def logits(counts: Counts, plans: TrainingPlans, tokens_per_micro_batch: Column) -> Column:
    """Logits of a micro-batch on one accelerator.

    Check: 4,096 tokens of a vocabulary of 128,256 on tensor parallel 8.
        >>> logits(PRETRAIN_COUNTS, row(tensor_parallel=col(8)), col(4096)).tolist()
        [65667072.0]
    """
    return tokens_per_micro_batch * counts.vocab_size / plans.tensor_parallel


@formula(
    unit="logits",
    source="Hsu et al. 2024 (arXiv:2410.10989), Liger's fused linear cross entropy; torchtune's chunked loss; \
unsloth_zoo/fused_losses/cross_entropy_loss.py, get_chunk_size",
)
def logits_at_a_time(
    counts: Counts, plans: TrainingPlans, recipe: Recipes, tokens_per_micro_batch: Column, logits: Column
) -> Column:
    """Logits that a loss processes at a time.

    A chunked loss takes a fixed number of chunks (torchtune: eight). A fused loss (Liger's fused linear cross
    entropy) takes a power of two of tokens whose logits are about as large as the loss's input. A fused loss with a
    limit (Unsloth: 4 GiB in 32 bit) takes all logits if they fit, and otherwise the fewest chunks, a multiple of four.

    Limits: Unsloth takes smaller chunks on a card with less than 8 GiB free.

    Check: 16,384 tokens of Llama-3.1-8B: a fused loss takes 1,024 of them, one of up to 2^30 logits 4,096, a chunked
    loss 2,048.
        >>> limits = {"loss_chunks": col(1, 1, 8), "chunk_logits": col(0, 2**30, 0)}
        >>> recipes, whole = row(loss=np.array([FUSED, LIMITED, CHUNKED]), **limits), row(tensor_parallel=col(1))
        >>> (logits_at_a_time(PRETRAIN_COUNTS, whole, recipes, col(16384), col(16384 * 128256)) / 128256).tolist()
        [1024.0, 4096.0, 2048.0]
    """
    tokens = tokens_per_micro_batch * np.minimum(1.0, counts.hidden_size / counts.vocab_size)
    fused = np.exp2(np.ceil(np.log2(np.maximum(1.0, tokens)))) * counts.vocab_size / plans.tensor_parallel
    share = logits / np.maximum(1.0, recipe.chunk_logits)
    limited = logits / np.where(share <= 1.0, 1.0, 4.0 * np.ceil(share / 4.0))
    chunks = np.where(recipe.loss == LIMITED, limited, logits / recipe.loss_chunks)
    return np.where(recipe.loss == FUSED, np.minimum(fused, logits), chunks)


@formula(unit="logits", source="definition")
def logits_of_chunk(recipe: Recipes, logits: Column) -> Column:
    """Logits of one chunk, where no loss is fused with the head.

    Check: eight chunks.
        >>> logits_of_chunk(row(loss_chunks=col(8)), col(4096 * 128256)).tolist()
        [65667072.0]
    """
    return logits / recipe.loss_chunks


@formula(unit="B", source="definition")
def head_weights_gradient_bytes(counts: Counts, plans: TrainingPlans, recipe: Recipe) -> Column:
    """Gradient of the head's weights while it is computed, in the width of the computation; 0 where the head is frozen.

    Check: Llama-3.1-8B in 16 bit on tensor parallel 8.
        >>> layout = row(tensor_parallel=col(8))
        >>> head_weights_gradient_bytes(PRETRAIN_COUNTS, layout, PRETRAIN_COUNTS.recipe).tolist()
        [131334144.0]
    """
    return (1 - recipe.frozen) * recipe.element_bytes * counts.head_matmul_params / plans.tensor_parallel


@formula(unit="B", source=f"{TRACED} and 2.13")
def held_logits_bytes(
    recipe: Recipes, run: Recipe, plans: TrainingPlans, logits: Column, logits_at_a_time: Column
) -> Column:
    """Bytes of logits and their copies that the loss holds.

    A head in FP32 widens the logits that the loss holds in 16 bit, unless autocast converts the head's product to 16
    bit. With a single sequence a shifted loss needs no shifted copy.

    Check: 1e6 logits: FP32 logits at 12 bytes; fused with the head, 125,000 at a time.
        >>> none, recipe = np.array([False, False]), PRETRAIN_COUNTS.recipe
        >>> loss = row(loss=np.array([UPCAST, FUSED]), bytes_per_logit=col(12, 0), chunk_bytes_per_logit=col(0, 12))
        >>> recipes = row(**vars(loss), kbit_widening=none, adapter_precision=none)
        >>> held_logits_bytes(recipes, recipe, row(micro_batch_sequences=1), col(1e6), col(125000)).tolist()
        [12000000.0, 1500000.0]
    """
    copies = np.where(recipe.loss == UPCAST, 0.0, np.where(recipe.loss == COMPILED, 2.0, 1.0))
    wider = copies * (BYTES_32_BIT - BYTES_16_BIT)
    view = np.where((recipe.loss == SHIFTED) & (plans.micro_batch_sequences <= 1), BYTES_32_BIT, 0.0)
    widened = recipe.kbit_widening & run.quantized & (recipe.adapter_precision != ADAPTERS_AUTOCAST)
    held = recipe.bytes_per_logit - view + np.where(widened, wider, 0.0)
    fused = (recipe.loss == FUSED) | (recipe.loss == LIMITED)
    return np.where(fused, 0.0, held) * logits + recipe.chunk_bytes_per_logit * logits_at_a_time


@formula(unit="B", source=TRACED)
def head_backward_bytes(
    recipe: Recipes, logits: Column, logits_at_a_time: Column, head_gradient_bytes: Column, stream_bytes: Column
) -> Column:
    """Bytes that the backward of the head holds first: gradients of the logits, of the head's weights and of its input.

    A chunked loss accumulates the weight gradient in a third copy. A fused loss holds the weight gradient and one
    chunk.

    Parameters:
        head_gradient_bytes: gradient of the head's weights, bytes.
    Check: 1e6 logits at once; in chunks of 125,000; fused.
        >>> recipes = row(loss=np.array([UPCAST, CHUNKED, FUSED]), chunk_bytes_per_logit=col(0, 2, 12))
        >>> head_backward_bytes(recipes, col(1e6), col(125e3), col(5e5), col(1e5)).tolist()
        [2600000.0, 3100000.0, 2100000.0]
    """
    chunked = BYTES_16_BIT * np.maximum(0.0, logits - 2 * logits_at_a_time) + 3 * head_gradient_bytes
    fused = recipe.chunk_bytes_per_logit * logits_at_a_time + head_gradient_bytes
    whole = BYTES_16_BIT * logits + head_gradient_bytes
    by_chunk = (recipe.loss == FUSED) | (recipe.loss == LIMITED)
    return stream_bytes + np.where(recipe.loss == CHUNKED, chunked, np.where(by_chunk, fused, whole))


@formula(unit="B", source="definition")
def loss_peak_bytes(held_logits_bytes: Column, head_backward_bytes: Column) -> Column:
    """Peak bytes of logits, loss and their gradients.

    Check: 12 MB in the loss, 2.6 MB in backward.
        >>> loss_peak_bytes(col(12e6), col(2.6e6)).tolist()
        [12000000.0]
    """
    return np.maximum(held_logits_bytes, head_backward_bytes)


@formula(unit="B", source=TRACED)
def last_norm_bytes(
    counts: Counts, layer: Layer, recipe: Recipes, tokens_per_micro_batch: Column, sequence_split: Column
) -> Column:
    """Input and output of the final norm: 10h per token operator by operator, 4h in one kernel.

    Check: 4,096 tokens of Llama-3.1-8B, eager and fused kernels.
        >>> recipes = row(kernels=np.array([EAGER, EAGER + 1]))
        >>> last_norm_bytes(PRETRAIN_COUNTS, PRETRAIN_COUNTS.layer, recipes, col(4096), col(1)).tolist()
        [167772160.0, 67108864.0]
    """
    written = (recipe.kernels == EAGER) & (layer.written_norms > 0)
    return tokens_per_micro_batch * np.where(written, 10.0, 4.0) * counts.hidden_size / sequence_split


def loss_bytes(counts: Counts, plans: TrainingPlans, tokens: Column, split: Column, stream: Column) -> LossBytes:
    """Return the bytes at the end of forward that do not belong to layers."""
    recipe, run = plans.stack.recipe, counts.recipe
    whole = logits(counts, plans, tokens)
    fused = ((recipe.loss == FUSED) | (recipe.loss == LIMITED)).any()
    chunk = logits_at_a_time(counts, plans, recipe, tokens, whole) if fused else logits_of_chunk(recipe, whole)
    head = head_weights_gradient_bytes(counts, plans, run)
    held = held_logits_bytes(recipe, run, plans, whole, chunk)
    return LossBytes(
        logits_bytes=loss_peak_bytes(held, head_backward_bytes(recipe, whole, chunk, head, stream)),
        head_gradient_bytes=head,
        norm_bytes=last_norm_bytes(counts, counts.layer, recipe, tokens, split),
    )
