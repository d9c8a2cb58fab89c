"""The work of one training step on one device: FLOPs, bytes and messages, free of any speed.

Symbols: t tensor, p pipeline, c context, e expert, d data parallel; T tokens of a micro-batch on one
rank of the context group; h hidden size, L layers, V vocabulary. The fit and the search count alike.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.columns import Column, Columns, Mask
from app.sizing.hardware.links import LINKS, PCIE_BYTES_PER_S
from app.sizing.hardware.parts import Link
from app.sizing.model.formats import NF4_DOUBLE_QUANTISED_BITS
from app.sizing.training.plans import FULL, NONE, SELECTIVE, TrainingPlans
from app.sizing.training.ranks import (
    held_params,
    interleave,
    routing_layers,
    sequence_split,
    tokens_per_micro_batch,
    trained_rank_params,
)
from app.sizing.training.traffic import Traffic, _state_traffic, layer_traffic, links_of, silent
from app.sizing.workload import Method, TrainingWorkload

# Backward of fused attention forms the scores again: 2.5 times its forward; of stored scores twice.
FUSED_BACKWARD, STORED_BACKWARD = 2.5, 2.0
# Bytes a fused loss moves per logit: written in 16 bit, read and widened for the softmax, its gradient written and read
# twice.
LOSS_BYTES_PER_LOGIT = 22.0
# Bytes an optimizer moves per parameter of its shard: gradient, master copy and moments read, all but the gradient
# written.
OPTIMIZER_TRAFFIC = {"adamw": 30.0, "adamw-8bit": 18.0, "adafactor": 16.0, "lion": 22.0, "muon": 22.0, "sgd": 22.0}
# Newton-Schulz of Muon: five iterations of three products of the momentum matrix with its square.
MUON_FLOPS_PER_PARAM_WIDTH = 30.0
PERMUTED_BYTES = (
    6.0  # per element of h, expert of a token and layer: copied to its expert and back, forward and backward
)


@dataclass(frozen=True, slots=True)
class DeviceWork(Columns):
    """What one device computes for one micro-batch, forward, backward and recomputed, as seconds at its own rates."""

    matrix_s: Column  # at the peak of the training precision
    wide_matrix_s: Column  # what stays in 16 bit: the head
    expert_s: Column
    attention_s: Column
    elementwise_s: Column  # at the memory's bandwidth
    dequantised_s: Column
    layers: Column
    expert_layers: Column
    adapted_layers: Column


@dataclass(frozen=True, slots=True)
class MicroBatchWork(Columns):
    """One micro-batch on one device: the same at every data-parallel degree."""

    pcie: Mask  # inside a machine; the rest have a scale-up link
    device: DeviceWork
    tensor: Traffic
    context: Traffic
    expert: Traffic
    hop: Traffic  # between pipeline stages
    stages: Column
    chunks: Column  # of a stage, interleaved

    @property
    def bubble_micro_batches(self) -> Column:
        """Idle slots of the pipeline per step, in micro-batches: (p - 1) / v. Source: Narayanan et al. 2021
        (arXiv:2104.04473).
        """
        return (self.stages - 1) / self.chunks


@dataclass(frozen=True, slots=True)
class StateWork(Columns):
    """What a step does with weights, gradients and optimizer states on one device, at a data-parallel degree."""

    micro_batches: Column
    machines: Column
    shard: Traffic  # ZeRO-3: weights gathered and gradients scattered, with every micro-batch
    data: Traffic  # once per step
    optimizer_s: Column  # at the memory's bandwidth
    offload_s: Column
    host_params: Column  # that the host's processors update


@dataclass(frozen=True, slots=True)
class TrainingWork(Columns):
    """One step of one device."""

    micro: MicroBatchWork
    state: StateWork


def flops_per_unit(workload: TrainingWorkload) -> float:
    """Model FLOPs per token (or sample), forward and backward, without recomputation."""
    model = workload.model
    if model.sample is not None:
        return 3 * model.sample.forward_flops
    if workload.method is Method.FULL:
        return model.training_flops_per_token(workload.units_per_sequence)
    scores = score_flops_per_token(workload)
    return (
        4 * model.training_matmul_params
        + 3 * scores
        + adapter_flops_per_token(workload)
        + 3 * model.recurrent_flops_per_token
    )


def score_flops_per_token(workload: TrainingWorkload) -> float:
    """Attention of a mean token of a sequence, forward."""
    return workload.model.prefill_attention_flops(workload.units_per_sequence) / workload.units_per_sequence


def adapter_flops_per_token(workload: TrainingWorkload) -> float:
    """Adapters, forward and backward; of those on routed experts a token passes its experts' only."""
    model = workload.model
    sharing = max(1, model.num_experts) / max(1, model.experts_per_token)
    return 6 * model.lora_params(workload.lora_rank, workload.lora_targets) / sharing


def elementwise_bytes_per_token_layer(workload: TrainingWorkload, plans: TrainingPlans) -> Column:
    """Bytes that norms, rotations, gates, residuals and copies of one token move in one mean layer, forward: 24h + 4(n
    + m)d + 6f.

    FP8 and FP4 also read what they convert and write it twice, as it is and transposed: 5 bytes per input of a matrix.
    """
    model = workload.model
    h, f = model.hidden_size, model.mlp_width
    plain = 24 * h + model.attention_activation_bytes + 6 * f
    converted = 5 * (2 * h + model.num_heads * model.head_dim + f)
    return np.where(plans.narrow, plain + converted, plain)


def sample_work(workload: TrainingWorkload, plans: TrainingPlans) -> DeviceWork:
    """Of images, speech and pictures: FLOPs of three forwards, and the activations written and read in them."""
    sample = workload.model.sample
    assert sample is not None
    zero = np.zeros(len(plans))
    return DeviceWork(
        matrix_s=3 * sample.forward_flops * plans.micro_batch / plans.peak_flops_per_s,
        wide_matrix_s=zero,
        expert_s=zero,
        attention_s=zero,
        elementwise_s=3 * sample.moved_bytes * plans.micro_batch / plans.bytes_per_s,
        dequantised_s=zero,
        layers=np.full(len(plans), float(max(1, sample.layers))),
        expert_layers=zero,
        adapted_layers=zero,
    )


def token_work(workload: TrainingWorkload, plans: TrainingPlans) -> DeviceWork:
    """Of tokens: every matrix forward and twice backward (once where it is frozen), once more where its layer is
    recomputed.
    """
    model, ranks = workload.model, plans.tensor_parallel * plans.pipeline_parallel
    tokens, layers = tokens_per_micro_batch(workload, plans), model.num_layers / plans.pipeline_parallel
    full, selective = plans.checkpointing == FULL, plans.checkpointing == SELECTIVE
    frozen = workload.method is not Method.FULL
    head, routed = model.head_matmul_params, model.routed_matmul_params
    dense = model.training_matmul_params - head - routed
    passes = (2.0 if frozen else 3.0) + full
    adapters = adapter_flops_per_token(workload) if frozen else 0.0
    backward = np.where(plans.fused_attention, FUSED_BACKWARD, STORED_BACKWARD)
    score_passes = 1 + backward + (full | (~plans.fused_attention & selective))
    attention = score_flops_per_token(workload) * score_passes + 3 * model.recurrent_flops_per_token
    quantised = model.linear_params / ranks * (2.0 + full) * (NF4_DOUBLE_QUANTISED_BITS / 8 + 4.0)
    return DeviceWork(
        matrix_s=tokens * (2 * passes * dense + adapters) / ranks / plans.peak_flops_per_s,
        wide_matrix_s=tokens * 2 * (2.0 if frozen else 3.0) * head / ranks / plans.wide_flops_per_s,
        expert_s=tokens * 2 * passes * routed / ranks / plans.peak_flops_per_s,
        attention_s=tokens * attention / ranks / plans.wide_flops_per_s,
        elementwise_s=tokens * moved_bytes_per_token(workload, plans) / plans.bytes_per_s,
        dequantised_s=quantised / plans.bytes_per_s if workload.method is Method.QLORA else np.zeros(len(plans)),
        layers=layers * (1 + full / 3),
        expert_layers=routing_layers(model) / plans.pipeline_parallel,
        adapted_layers=layers if frozen else np.zeros(len(plans)),
    )


def moved_bytes_per_token(workload: TrainingWorkload, plans: TrainingPlans) -> Column:
    """Bytes that one token moves beside its matrices on one device, forward and backward: layers, experts' permutation,
    loss.

    Backward moves twice what forward does; a recomputed layer moves its own once more. Sequence parallelism
    splits the norms too. Stored scores cross memory ten times per pair of tokens and head.
    """
    model, tp, pp = workload.model, plans.tensor_parallel, plans.pipeline_parallel
    norms = 24.0 * model.hidden_size
    layer = (elementwise_bytes_per_token_layer(workload, plans) - norms) / tp + norms / sequence_split(plans)
    stored = np.where(plans.fused_attention, 0.0, 10.0 * model.num_heads * workload.units_per_sequence / tp)
    passes = np.where(plans.checkpointing == NONE, 3.0, 4.0)
    permuted = PERMUTED_BYTES * model.hidden_size * model.experts_per_token * routing_layers(model)
    return (model.num_layers * (layer + stored) * passes + permuted + model.vocab_size * LOSS_BYTES_PER_LOGIT / tp) / pp


def micro_batch_work(workload: TrainingWorkload, plans: TrainingPlans) -> MicroBatchWork:
    """Counts of one micro-batch.

    Source: Shoeybi et al. 2019 (arXiv:1909.08053); Korthikanti et al. 2022 (arXiv:2205.05198); Liu et al. 2023
    (arXiv:2310.01889).
    """
    if workload.in_samples:
        device = sample_work(workload, plans)
        tensor = context = expert = hop = silent(plans)
    else:
        device = token_work(workload, plans)
        tensor, context, expert, hop = layer_traffic(workload, plans, links_of(plans))
    return MicroBatchWork(
        pcie=plans.node.link == LINKS.index(Link.PCIE),
        device=device,
        tensor=tensor,
        context=context,
        expert=expert,
        hop=hop,
        stages=plans.pipeline_parallel,
        chunks=interleave(workload, plans),
    )


def state_work(workload: TrainingWorkload, plans: TrainingPlans, data_parallel: Column) -> StateWork:
    """Counts of one step beside its micro-batches. Source: Rajbhandari et al. 2020 (arXiv:1910.02054)."""
    links = links_of(plans)
    devices = plans.ranks * data_parallel
    shard, data = _state_traffic(workload, plans, data_parallel, links)
    local = held_params(plans, data_parallel, *trained_rank_params(workload, plans), from_stage=1)
    orthogonal = local * MUON_FLOPS_PER_PARAM_WIDTH * workload.model.hidden_size / plans.wide_flops_per_s
    update = local * OPTIMIZER_TRAFFIC[workload.optimizer] / plans.bytes_per_s + (
        orthogonal if workload.optimizer == "muon" else 0.0
    )
    return StateWork(
        micro_batches=np.maximum(1.0, workload.global_batch / (data_parallel * plans.micro_batch)),
        machines=np.ceil(devices / links.domain),
        shard=shard,
        data=data,
        optimizer_s=np.where(plans.offload, 0.0, update),
        offload_s=np.where(plans.offload, local * 4.0 / PCIE_BYTES_PER_S, 0.0),
        host_params=np.where(plans.offload, local * np.minimum(plans.node.accelerators_per_node, devices), 0.0),
    )


def training_work(workload: TrainingWorkload, plans: TrainingPlans, data_parallel: Column) -> TrainingWork:
    """Counts of one step at a data-parallel degree."""
    return TrainingWork(micro_batch_work(workload, plans), state_work(workload, plans, data_parallel))
