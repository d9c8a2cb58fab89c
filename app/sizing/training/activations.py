"""Activations and logits of training: what one micro-batch holds on one accelerator, and how many are in flight."""

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
from app.sizing.training.pipeline import stage_layers
from app.sizing.training.plans import TrainingPlans
from app.sizing.training.ranks import sequence_split, tokens_per_micro_batch, virtual_pipeline
from app.sizing.training.samples import sample_activation_bytes, working_sample_bytes


@dataclass(frozen=True, slots=True)
class MicroBatchMemory(Columns):
    """What one micro-batch holds on one accelerator, the same at every data-parallel degree."""

    activation_bytes: Column
    offloaded_bytes: Column  # kept in the host's memory
    working_bytes: Column  # of the layer whose backward runs, beyond what it keeps
    layer_bytes: Column  # kept of one layer
    stream_bytes: Column  # the gradient that goes from layer to layer
    loss: LossBytes
    stages: Column
    virtual_pipeline: Column


@formula(unit="ranks", source="Megatron-LM's token dispatchers")
def sent_split(plans: TrainingPlans, sequence_split: Column) -> Column:
    """Ranks that share tokens on their way to experts: those that sequences are split over; where experts are not
    split, every tensor rank has a part of each, and all the tokens.

    Source: Megatron-LM's token_dispatcher.py, expert tensor parallelism.
    Limits: routing is even, and no token is dropped.
    Check:
        >>> sent_split(row(expert_parallel=col(8, 1)), col(4, 4)).tolist()
        [4.0, 1.0]
    """
    return np.where(plans.expert_parallel > 1, sequence_split, 1.0)


@formula(unit="B", source="Korthikanti et al. 2022 (arXiv:2205.05198)")
def kept_layer_bytes(
    plans: TrainingPlans,
    layer: LayerBytes,
    tokens_per_micro_batch: Column,
    sequence_split: Column,
    sent_split: Column,
) -> Column:
    """Activations that one layer keeps of a micro-batch on one accelerator: heads and MLP are split over the tensor
    group, tensors as wide as the model where sequences are.

    Source: Korthikanti et al. 2022 (arXiv:2205.05198), section 4.2.2.
    """
    split = (layer.kept_split + layer.kept_routed) / plans.tensor_parallel
    return tokens_per_micro_batch * (layer.kept_hidden / sequence_split + split + layer.kept_sent / sent_split)


@formula(unit="B", source="Korthikanti et al. 2022 (arXiv:2205.05198)")
def working_layer_bytes(
    plans: TrainingPlans,
    layer: LayerBytes,
    tokens_per_micro_batch: Column,
    sequence_split: Column,
    sent_split: Column,
) -> Column:
    """What one layer takes beyond what it keeps while its backward runs, on one accelerator.

    Source: Korthikanti et al. 2022 (arXiv:2205.05198), section 4.2.2.
    """
    split = (layer.working_split + layer.working_routed) / plans.tensor_parallel
    return tokens_per_micro_batch * (layer.working_hidden / sequence_split + split + layer.working_sent / sent_split)


@formula(unit="B", source="definition")
def micro_batch_activation_bytes(kept_layer_bytes: Column, stage_layers: Column) -> Column:
    """Activations of one micro-batch on one accelerator, between layers' forward and backward.

    Source: definition.
    """
    return kept_layer_bytes * stage_layers


@formula(unit="B", source="definition")
def stream_bytes(counts: Counts, tokens_per_micro_batch: Column, sequence_split: Column) -> Column:
    """The gradient that goes from layer to layer, 16 bit.

    Source: definition.
    """
    return 2 * tokens_per_micro_batch * counts.hidden_size / sequence_split


def micro_batch_memory(counts: Counts, plans: TrainingPlans, assumed: Assumptions) -> MicroBatchMemory:
    """Activations and logits of one micro-batch."""
    chunks, stages, zero = virtual_pipeline(counts, plans), plans.pipeline_parallel, np.zeros(len(plans))
    if counts.in_samples:
        kept, working = sample_activation_bytes(counts, plans), working_sample_bytes(counts, plans)
        return MicroBatchMemory(kept, zero, working, zero, zero, LossBytes(zero, zero, zero), stages, chunks)
    layer = plans.keeping(counts).layer
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

    Source: definition.
    """
    return micro_batch_bytes * micro_batches_in_flight


@formula(unit="B", source="definition")
def loss_beyond_bytes(
    micro: MicroBatchMemory, loss_bytes: Column, last_stage_bytes: Column, kept_bytes: Column
) -> Column:
    """Bytes of the loss that come on top: the last stage of a pipeline forms the logits and holds fewer micro-batches,
    the first holds the most.

    Source: definition.
    """
    return np.where(micro.stages > 1, np.maximum(0.0, last_stage_bytes + loss_bytes - kept_bytes), loss_bytes)


def kept_bytes(counts: Counts, plans: TrainingPlans) -> Column:
    """What a micro-batch keeps for backward on one accelerator, wherever it lies."""
    tokens, layer = tokens_per_micro_batch(counts, plans), plans.keeping(counts).layer
    split = sequence_split(plans)
    of_layer = kept_layer_bytes(plans, layer, tokens, split, sent_split(plans, split))
    return micro_batch_activation_bytes(of_layer, stage_layers(counts.num_layers, plans.pipeline_parallel))
