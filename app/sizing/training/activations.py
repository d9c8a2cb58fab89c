"""Activations and logits of training: what one micro-batch holds on one accelerator, and how many are in flight."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Column, Columns
from app.sizing.formula import formula
from app.sizing.training.counts import Counts
from app.sizing.training.layouts import FULL, SELECTIVE
from app.sizing.training.offload import activations_on_host_bytes
from app.sizing.training.plans import TrainingPlans
from app.sizing.training.ranks import tokens_per_micro_batch, virtual_pipeline
from app.sizing.training.recipes import EAGER_LOSS_BYTES_HELD_PER_LOGIT, LOSS_BYTES_HELD_PER_LOGIT, Recipe


@dataclass(frozen=True, slots=True)
class MicroBatchMemory(Columns):
    """What one micro-batch holds on one accelerator, the same at every data-parallel degree."""

    activation_bytes: Column
    offloaded_bytes: Column  # kept in the host's memory
    recomputed_bytes: Column  # of the layer that is being recomputed
    loss_bytes: Column  # where it is not fused
    logits_chunk_bytes: Column  # of the logits at a time, where it is
    stages: Column
    virtual_pipeline: Column


@formula(unit="B", source="Korthikanti et al. 2022 (arXiv:2205.05198)")
def whole_bytes_per_token_layer(counts: Counts, plans: TrainingPlans) -> Column:
    """Activations of a token in a mean layer in 16 bit when everything is kept, of the whole tensor group.

    16h + 8f + 4(n + m)d + 4n + 8 in eager modules, 8h + 4(n + m)d + 6f + 4n with fused kernels.
    Source: Korthikanti et al. 2022 (arXiv:2205.05198), re-derived for gated MLPs and flash attention.
    Check: Llama-3.1-8B, fused and eager.
        >>> plans = row(fused_modules=np.array([True, False]))
        >>> whole_bytes_per_token_layer(PRETRAIN_COUNTS, plans)
        array([139392., 200840.])
    """
    return np.where(plans.fused_modules, counts.fused_activation_bytes, counts.eager_activation_bytes)


@formula(unit="B", source="Korthikanti et al. 2022 (arXiv:2205.05198)")
def score_bytes_per_token_layer(counts: Counts, plans: TrainingPlans) -> Column:
    """Stored attention scores of a token in a mean layer: 5ns for the softmax, its mask and output; none with flash
    attention.

    Source: Korthikanti et al. 2022 (arXiv:2205.05198), section 4.1.
    """
    return np.where(plans.flash_attention, 0.0, 5.0 * counts.num_heads * counts.units_per_sequence)


@formula(unit="B", source="Korthikanti et al. 2022 (arXiv:2205.05198)")
def kept_bytes_per_token_layer(
    counts: Counts,
    recipe: Recipe,
    plans: TrainingPlans,
    whole_bytes_per_token_layer: Column,
    score_bytes_per_token_layer: Column,
) -> Column:
    """Bytes kept for backward per token and mean layer, by what is recomputed, of the whole tensor group.

    FP8 keeps the inputs of matrices in 8 bit; selective drops the gate's products and the scores; full keeps the
    layer's input, 2h. Adapters keep their inputs in 32 bit where the modules are eager.
    Source: Korthikanti et al. 2022 (arXiv:2205.05198), table 2.
    """
    narrower = recipe.kept_bytes_saved_per_input * (2 * counts.hidden_size + counts.attention_width + counts.mlp_width)
    inputs = recipe.adapter_bytes_per_param * (2 * counts.hidden_size + counts.mlp_width)
    whole = whole_bytes_per_token_layer - narrower + np.where(plans.fused_modules, 0.0, inputs)
    selective = whole - counts.gate_activation_bytes
    partly = np.where(plans.activation_checkpointing == SELECTIVE, selective, whole + score_bytes_per_token_layer)
    return np.where(plans.activation_checkpointing == FULL, 2.0 * counts.hidden_size, partly)


@formula(unit="B", source="Korthikanti et al. 2022 (arXiv:2205.05198)")
def micro_batch_activation_bytes(
    counts: Counts, plans: TrainingPlans, tokens_per_micro_batch: Column, kept_bytes_per_token_layer: Column
) -> Column:
    """Activations of one micro-batch on one accelerator.

    Source: Korthikanti et al. 2022 (arXiv:2205.05198).
    Limits: without sequence parallelism a recomputed layer's input lies whole on every tensor rank.
    """
    split = plans.sequence_parallel | (plans.activation_checkpointing != FULL)
    share = np.where(split, plans.tensor_parallel, 1.0)
    return tokens_per_micro_batch * kept_bytes_per_token_layer / share * counts.num_layers / plans.pipeline_parallel


@formula(unit="B", source="Chen et al. 2016 (arXiv:1604.06174)")
def recomputed_bytes(
    counts: Counts,
    plans: TrainingPlans,
    tokens_per_micro_batch: Column,
    whole_bytes_per_token_layer: Column,
    score_bytes_per_token_layer: Column,
) -> Column:
    """Activations of the layer that is being recomputed.

    Source: Chen et al. 2016 (arXiv:1604.06174).
    """
    layer = whole_bytes_per_token_layer + score_bytes_per_token_layer
    whole = np.where(
        plans.activation_checkpointing == FULL, tokens_per_micro_batch * layer / plans.tensor_parallel, 0.0
    )
    gate = tokens_per_micro_batch * 4.0 * counts.mlp_width / plans.tensor_parallel
    return np.where(plans.activation_checkpointing == SELECTIVE, gate, whole)


@formula(unit="B", source="counted: logits, their 32-bit copy and their gradient")
def loss_bytes(counts: Counts, plans: TrainingPlans, tokens_per_micro_batch: Column) -> Column:
    """Logits of a micro-batch where the loss is not fused: 16 bit, widened for the softmax, and their gradient.

    Source: counted.
    """
    per_logit = np.where(plans.fused_modules, LOSS_BYTES_HELD_PER_LOGIT, EAGER_LOSS_BYTES_HELD_PER_LOGIT)
    whole = tokens_per_micro_batch * counts.vocab_size * per_logit / plans.tensor_parallel
    return np.where(plans.fused_cross_entropy, 0.0, whole)


@formula(unit="B", source="Hsu et al. 2024 (arXiv:2410.10989)")
def logits_chunk_bytes(
    counts: Counts, plans: TrainingPlans, tokens_per_micro_batch: Column, assumed: Assumptions
) -> Column:
    """Logits that a fused or chunked loss forms at a time.

    Source: Hsu et al. 2024 (arXiv:2410.10989), Liger's fused linear cross entropy.
    """
    tokens = np.minimum(tokens_per_micro_batch, assumed.loss_chunk_tokens)
    chunk = tokens * counts.vocab_size * LOSS_BYTES_HELD_PER_LOGIT / plans.tensor_parallel
    return np.where(plans.fused_cross_entropy, chunk, 0.0)


def micro_batch_memory(counts: Counts, plans: TrainingPlans, assumed: Assumptions) -> MicroBatchMemory:
    """Activations and logits of one micro-batch."""
    chunks = virtual_pipeline(counts, plans)
    if counts.in_samples:
        zero, stages = np.zeros(len(plans)), plans.pipeline_parallel
        return MicroBatchMemory(sample_activation_bytes(counts, plans), zero, zero, zero, zero, stages, chunks)
    tokens = tokens_per_micro_batch(counts, plans)
    whole, scores = whole_bytes_per_token_layer(counts, plans), score_bytes_per_token_layer(counts, plans)
    kept, moved = kept_bytes(counts, plans), np.zeros(len(plans))
    if plans.activation_offload.any():
        moved = activations_on_host_bytes(plans, kept, counts.num_layers / plans.pipeline_parallel, assumed)
    return MicroBatchMemory(
        activation_bytes=kept - moved,
        offloaded_bytes=moved,
        recomputed_bytes=recomputed_bytes(counts, plans, tokens, whole, scores),
        loss_bytes=loss_bytes(counts, plans, tokens),
        logits_chunk_bytes=logits_chunk_bytes(counts, plans, tokens, assumed)
        if plans.fused_cross_entropy.any()
        else np.zeros(len(plans)),
        stages=plans.pipeline_parallel,
        virtual_pipeline=chunks,
    )


@formula(unit="B", source="counted")
def sample_activation_bytes(counts: Counts, plans: TrainingPlans) -> Column:
    """Activations that a micro-batch of samples keeps for backward.

    Source: counted from the network's layers.
    """
    return plans.micro_batch_sequences * counts.sample_kept_bytes


@formula(unit="micro-batches", source="Narayanan et al. 2021 (arXiv:2104.04473)")
def micro_batches_in_flight(micro_batches: Column, micro: MicroBatchMemory) -> Column:
    """Micro-batches whose activations the first pipeline stage holds: as many as there are stages, more where chunks
    are interleaved.

    Source: Korthikanti et al. 2022 (arXiv:2205.05198), section 4.2.3.
    Check: four stages, one chunk each, of many micro-batches.
        >>> micro = row(stages=col(4), virtual_pipeline=col(1))
        >>> micro_batches_in_flight(col(64), micro)[0]
        np.float64(7.0)
    """
    interleaved = 1 + (micro.stages - 1) / (micro.stages * micro.virtual_pipeline)
    return np.minimum(np.minimum(micro_batches, micro.stages) * interleaved, micro_batches)


@formula(unit="B", source="definition")
def in_flight_bytes(micro_batch_bytes: Column, micro_batches_in_flight: Column) -> Column:
    """Activations of all micro-batches in flight.

    Source: definition.
    """
    return micro_batch_bytes * micro_batches_in_flight


@formula(unit="B", source="definition")
def loss_beyond_bytes(micro: MicroBatchMemory, in_flight_bytes: Column) -> Column:
    """Bytes of the loss that come on top: the last stage forms the logits with one micro-batch in flight, the first
    holds them all.

    Source: definition.
    """
    last = micro.activation_bytes + micro.loss_bytes
    return np.where(micro.stages > 1, np.maximum(0.0, last - in_flight_bytes), micro.loss_bytes)


def kept_bytes(counts: Counts, plans: TrainingPlans) -> Column:
    """What a micro-batch keeps for backward on one accelerator, wherever it lies."""
    whole, scores = whole_bytes_per_token_layer(counts, plans), score_bytes_per_token_layer(counts, plans)
    kept = kept_bytes_per_token_layer(counts, counts.recipe, plans, whole, scores)
    return micro_batch_activation_bytes(counts, plans, tokens_per_micro_batch(counts, plans), kept)
