"""Logits and loss at the end of forward: what is held of them, by how a framework computes its loss."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.columns import Column, Columns
from app.sizing.formula import formula
from app.sizing.hardware.recipes import Recipes, code
from app.sizing.training.counts import Counts, Layer
from app.sizing.training.layer import ADAPTERS_AUTOCAST, EAGER, TRACED
from app.sizing.training.plans import TrainingPlans
from app.sizing.training.recipes import BYTES_16_BIT, BYTES_32_BIT, Recipe

UPCAST, COMPILED, CHUNKED, FUSED, SHIFTED = (
    code("loss", name) for name in ("upcast", "compiled", "chunked", "fused", "shifted")
)


@dataclass(frozen=True, slots=True)
class LossBytes(Columns):
    """At the end of forward, on the accelerators that form logits."""

    logits_bytes: Column  # with the gradient of the head that forms beside them
    head_gradient_bytes: Column
    norm_bytes: Column  # of the last norm


@formula(unit="logits", source="definition")
def logits(counts: Counts, plans: TrainingPlans, tokens_per_micro_batch: Column) -> Column:
    """Logits of a micro-batch on one accelerator.

    Source: definition.
    """
    return tokens_per_micro_batch * counts.vocab_size / plans.tensor_parallel


@formula(unit="logits", source="Hsu et al. 2024 (arXiv:2410.10989)")
def logits_at_a_time(
    counts: Counts, plans: TrainingPlans, recipe: Recipes, tokens_per_micro_batch: Column, logits: Column
) -> Column:
    """Logits that a loss works on at a time: a chunk of some, or of as many tokens as keep a fused loss within the size
    of its input, a power of two.

    Source: Hsu et al. 2024 (arXiv:2410.10989), Liger's fused linear cross entropy; torchtune's chunks of eight.
    """
    tokens = tokens_per_micro_batch * np.minimum(1.0, counts.hidden_size / counts.vocab_size)
    fused = np.exp2(np.ceil(np.log2(np.maximum(1.0, tokens)))) * counts.vocab_size / plans.tensor_parallel
    return np.where(recipe.loss == FUSED, np.minimum(fused, logits), logits / recipe.loss_chunks)


@formula(unit="logits", source="definition")
def logits_of_chunk(recipe: Recipes, logits: Column) -> Column:
    """Logits of a chunk, where no loss is fused with the head.

    Source: definition.
    """
    return logits / recipe.loss_chunks


@formula(unit="B", source="counted")
def head_weights_gradient_bytes(counts: Counts, plans: TrainingPlans, recipe: Recipe) -> Column:
    """Gradient of the head's weights as it forms, in the width of the computation.

    Source: counted.
    """
    return (1 - recipe.frozen) * recipe.element_bytes * counts.head_matmul_params / plans.tensor_parallel


@formula(unit="B", source=TRACED)
def held_logits_bytes(
    recipe: Recipes, run: Recipe, plans: TrainingPlans, logits: Column, logits_at_a_time: Column
) -> Column:
    """What the loss itself holds of logits; a head in 32 bit makes those wider that are held in 16 bit, unless autocast
    narrows its product. Of a single sequence a shifted copy is none.

    Source: traced steps of PyTorch 2.15 and 2.13.
    """
    copies = np.where(recipe.loss == UPCAST, 0.0, np.where(recipe.loss == COMPILED, 2.0, 1.0))
    wider = copies * (BYTES_32_BIT - BYTES_16_BIT)
    view = np.where((recipe.loss == SHIFTED) & (plans.micro_batch_sequences <= 1), BYTES_32_BIT, 0.0)
    widened = recipe.kbit_widening & run.quantised & (recipe.adapter_precision != ADAPTERS_AUTOCAST)
    held = recipe.bytes_per_logit - view + np.where(widened, wider, 0.0)
    return np.where(recipe.loss == FUSED, 0.0, held) * logits + recipe.chunk_bytes_per_logit * logits_at_a_time


@formula(unit="B", source=TRACED)
def head_backward_bytes(
    recipe: Recipes, logits: Column, logits_at_a_time: Column, head_gradient_bytes: Column, stream_bytes: Column
) -> Column:
    """What backward of the head holds first: the gradient of the logits and that of its weights, which a loss in
    chunks adds up in a third copy; a fused loss has it beside its chunk.

    Source: traced steps of PyTorch 2.15.
    """
    chunked = BYTES_16_BIT * np.maximum(0.0, logits - 2 * logits_at_a_time) + 3 * head_gradient_bytes
    fused = recipe.chunk_bytes_per_logit * logits_at_a_time + head_gradient_bytes
    whole = BYTES_16_BIT * logits + head_gradient_bytes
    return stream_bytes + np.where(recipe.loss == CHUNKED, chunked, np.where(recipe.loss == FUSED, fused, whole))


@formula(unit="B", source="definition")
def loss_peak_bytes(held_logits_bytes: Column, head_backward_bytes: Column) -> Column:
    """Logits and what comes of them at their most.

    Source: definition.
    """
    return np.maximum(held_logits_bytes, head_backward_bytes)


@formula(unit="B", source=TRACED)
def last_norm_bytes(
    counts: Counts, layer: Layer, recipe: Recipes, tokens_per_micro_batch: Column, sequence_split: Column
) -> Column:
    """The last norm's input and output: 10h where it is written out, 4h in one kernel.

    Source: traced steps of PyTorch 2.15.
    """
    written = (recipe.kernels == EAGER) & (layer.written_norms > 0)
    return tokens_per_micro_batch * np.where(written, 10.0, 4.0) * counts.hidden_size / sequence_split


def loss_bytes(counts: Counts, plans: TrainingPlans, tokens: Column, split: Column, stream: Column) -> LossBytes:
    """Everything that the end of forward holds beside layers."""
    recipe, run = plans.stack.recipe, counts.recipe
    whole = logits(counts, plans, tokens)
    fused = (recipe.loss == FUSED).any()
    chunk = logits_at_a_time(counts, plans, recipe, tokens, whole) if fused else logits_of_chunk(recipe, whole)
    head = head_weights_gradient_bytes(counts, plans, run)
    held = held_logits_bytes(recipe, run, plans, whole, chunk)
    return LossBytes(
        logits_bytes=loss_peak_bytes(held, head_backward_bytes(recipe, whole, chunk, head, stream)),
        head_gradient_bytes=head,
        norm_bytes=last_norm_bytes(counts, counts.layer, recipe, tokens, split),
    )
