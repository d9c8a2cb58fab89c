"""Activations and logits of training: what one micro-batch keeps on one accelerator, for all micro-batches in
flight.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Column, Columns
from app.sizing.formula import formula
from app.sizing.training.counts import Counts
from app.sizing.training.layer import LayerBytes
from app.sizing.training.loss import LossBytes, loss_bytes
from app.sizing.training.offload import activations_on_host_bytes
from app.sizing.training.plans import (
    TrainingPlans,
    sequence_split,
    stage_layers,
    tokens_per_micro_batch,
    virtual_pipeline,
)
from app.sizing.training.samples import sample_activation_bytes, working_sample_bytes


@dataclass(frozen=True, slots=True)
class MicroBatchMemory(Columns):
    """Memory of one micro-batch on one accelerator, the same at every data-parallel degree."""

    activation_bytes: Column  # activations kept on the accelerator, B
    offloaded_bytes: Column  # activations kept in host memory, B
    working_bytes: Column  # additional memory of the layer whose backward runs, B
    layer_bytes: Column  # activations kept of one layer, B
    stream_bytes: Column  # gradient of the residual stream, B
    loss: LossBytes  # memory of logits and loss
    stages: Column  # pipeline stages
    virtual_pipeline: Column  # model chunks per pipeline stage


@formula(unit="ranks", source="Megatron-LM's token_dispatcher.py, expert tensor parallelism")
def sent_split(plans: TrainingPlans, sequence_split: Column) -> Column:
    """Ranks that share the tokens on their way to experts.

    With expert parallelism these are the ranks that share the sequence. Without it every tensor-parallel rank holds
    a part of each expert, and all tokens.

    Limits: routing is even, and no token is dropped.
    Check: sequence parallelism over four ranks, with and without expert parallelism.
        >>> sent_split(row(expert_parallel=col(8, 1)), col(4, 4)).tolist()
        [4.0, 1.0]
    """
    return np.where(plans.expert_parallel > 1, sequence_split, 1.0)


@formula(unit="B", source="Korthikanti et al. 2022 (arXiv:2205.05198), section 4.2.2")
def kept_layer_bytes(
    plans: TrainingPlans,
    layer: LayerBytes,
    tokens_per_micro_batch: Column,
    sequence_split: Column,
    sent_split: Column,
) -> Column:
    """Activations that one layer keeps of a micro-batch on one accelerator.

    Tensor parallelism divides heads and MLP; sequence parallelism also divides hidden-size tensors.

    Check: Llama-3.1-8B with fused kernels, 4,096 tokens, tensor and sequence parallel 8.
        >>> layer = row(kept_hidden=32776, kept_split=106624, kept_routed=0, kept_sent=0, exchanged=0)
        >>> plans = row(tensor_parallel=col(8), expert_parallel=col(1))
        >>> kept_layer_bytes(plans, layer, col(4096), col(8), col(1)).tolist()
        [71372800.0]
    """
    split = (layer.kept_split + layer.kept_routed) / plans.tensor_parallel
    sent = (layer.kept_sent + np.where(plans.expert_parallel > 1, layer.exchanged, 0.0)) / sent_split
    return tokens_per_micro_batch * (layer.kept_hidden / sequence_split + split + sent)


@formula(unit="B", source="Korthikanti et al. 2022 (arXiv:2205.05198), section 4.2.2")
def working_layer_bytes(
    plans: TrainingPlans,
    layer: LayerBytes,
    tokens_per_micro_batch: Column,
    sequence_split: Column,
    sent_split: Column,
) -> Column:
    """Bytes that one layer needs on top of what it keeps while its backward runs, on one accelerator.

    Check: 4,096 tokens, 57,344 bytes of gradients per token, tensor parallel 8.
        >>> layer = row(working_hidden=0, working_split=57344, working_routed=0, working_sent=0, exchanged=0)
        >>> plans = row(tensor_parallel=col(8), expert_parallel=col(1))
        >>> working_layer_bytes(plans, layer, col(4096), col(8), col(1)).tolist()
        [29360128.0]
    """
    split = (layer.working_split + layer.working_routed) / plans.tensor_parallel
    again = layer.working_sent - np.where(plans.expert_parallel > 1, layer.exchanged, 0.0)
    sent = np.maximum(0.0, again) / sent_split
    return tokens_per_micro_batch * (layer.working_hidden / sequence_split + split + sent)


@formula(unit="B", source="definition")
def micro_batch_activation_bytes(kept_layer_bytes: Column, stage_layers: Column) -> Column:
    """Activations of one micro-batch on one accelerator, kept between forward and backward.

    Check: 32 layers of 71.4 MB.
        >>> micro_batch_activation_bytes(col(71.4e6), col(32)).tolist()
        [2284800000.0]
    """
    return kept_layer_bytes * stage_layers


@formula(unit="B", source="definition")
def stream_bytes(counts: Counts, tokens_per_micro_batch: Column, sequence_split: Column) -> Column:
    """Gradient of the residual stream, which passes from layer to layer, in 16 bit.

    Check: 4,096 tokens of Llama-3.1-8B are 32 MiB.
        >>> stream_bytes(PRETRAIN_COUNTS, col(4096), col(1)).tolist()
        [33554432.0]
    """
    return 2 * tokens_per_micro_batch * counts.hidden_size / sequence_split


def micro_batch_memory(counts: Counts, plans: TrainingPlans, assumed: Assumptions) -> MicroBatchMemory:
    """Return the activations and logits of one micro-batch."""
    chunks, stages, zero = virtual_pipeline(counts, plans), plans.pipeline_parallel, np.zeros(len(plans))
    if counts.in_samples:
        kept, working = sample_activation_bytes(counts, plans), working_sample_bytes(counts, plans)
        return MicroBatchMemory(kept, zero, working, zero, zero, LossBytes(zero, zero, zero), stages, chunks)
    layer = plans.kept_bytes(counts).layer
    tokens, split = tokens_per_micro_batch(counts, plans), sequence_split(plans)
    on_stage = stage_layers(counts.num_layers, stages)
    sent = sent_split(plans, split)
    of_layer, stream = kept_layer_bytes(plans, layer, tokens, split, sent), stream_bytes(counts, tokens, split)
    kept, moved = micro_batch_activation_bytes(of_layer, on_stage), zero
    if plans.activation_offload.any():
        moved = activations_on_host_bytes(plans, kept, on_stage, assumed)
    return MicroBatchMemory(
        activation_bytes=kept - moved,
        offloaded_bytes=moved,
        working_bytes=working_layer_bytes(plans, layer, tokens, split, sent),
        layer_bytes=of_layer,
        stream_bytes=stream,
        loss=loss_bytes(counts, plans, tokens, split, stream),
        stages=stages,
        virtual_pipeline=chunks,
    )


@formula(unit="B", source="definition")
def in_flight_bytes(micro_batch_bytes: Column, micro_batches_in_flight: Column) -> Column:
    """Activations of all micro-batches in flight.

    Parameters:
        micro_batch_bytes: activations of one micro-batch, bytes.
    Check: four micro-batches of 2 GB.
        >>> in_flight_bytes(col(2e9), col(4)).tolist()
        [8000000000.0]
    """
    return micro_batch_bytes * micro_batches_in_flight


@formula(unit="B", source="definition")
def loss_beyond_bytes(
    micro: MicroBatchMemory, loss_bytes: Column, last_stage_bytes: Column, kept_bytes: Column
) -> Column:
    """Bytes that the loss adds to the kept activations.

    In a pipeline the last stage computes the logits and holds the fewest micro-batches, the first stage holds the
    most. Only the excess of the last stage over the first counts.

    Parameters:
        loss_bytes: logits and their gradients, bytes.
        last_stage_bytes: activations that the last stage holds, bytes.
        kept_bytes: activations that the first stage holds, bytes.
    Check: 3 GB of logits without a pipeline; with four stages, 2 GB on the last and 4 GB on the first.
        >>> loss_beyond_bytes(row(stages=col(1, 4)), col(3e9), col(2e9), col(4e9)).tolist()
        [3000000000.0, 1000000000.0]
    """
    return np.where(micro.stages > 1, np.maximum(0.0, last_stage_bytes + loss_bytes - kept_bytes), loss_bytes)


def kept_bytes(counts: Counts, plans: TrainingPlans) -> Column:
    """Return the activations that a micro-batch keeps for backward, on the accelerator or in host memory."""
    tokens, layer = tokens_per_micro_batch(counts, plans), plans.kept_bytes(counts).layer
    split = sequence_split(plans)
    of_layer = kept_layer_bytes(plans, layer, tokens, split, sent_split(plans, split))
    return micro_batch_activation_bytes(of_layer, stage_layers(counts.num_layers, plans.pipeline_parallel))
