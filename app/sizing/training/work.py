"""The work of one training step on one accelerator: FLOPs, bytes and messages, free of any fitted speed.

Symbols: t tensor, p pipeline, c context, e expert, d data parallel; T tokens of a micro-batch on one
rank of the context group; h hidden size, L layers, V vocabulary. The fit and the search count alike.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.columns import Column, Columns, Mask
from app.sizing.formula import formula, told_as
from app.sizing.hardware.links import PCIE_BYTES_PER_S
from app.sizing.training.activations import kept_bytes
from app.sizing.training.counts import Counts
from app.sizing.training.layouts import FULL, NONE, SELECTIVE
from app.sizing.training.offload import activation_copy_s, parameter_copy_s
from app.sizing.training.plans import TrainingMachines, TrainingPlans
from app.sizing.training.ranks import (
    RankParams,
    Spread,
    rank_params,
    sequence_split,
    spread_of,
    stage_pace,
    stage_unevenness,
    tokens_per_micro_batch,
    virtual_pipeline,
)
from app.sizing.training.recipes import BYTES_32_BIT, LOSS_BYTES_MOVED_PER_LOGIT, Recipe
from app.sizing.training.samples import (
    sample_elementwise_bytes,
    sample_flops,
    sample_grouped_bytes,
    sample_matrix_bytes,
    sample_operations,
)
from app.sizing.training.traffic import (
    LayerTraffic,
    StateTraffic,
    layer_traffic,
    silent,
    state_traffic,
)


@dataclass(frozen=True, slots=True)
class ComputeWork(Columns):
    """What one accelerator computes for one micro-batch, forward, backward and recomputed, as seconds at its own
    rates.
    """

    matrix_s: Column  # at the peak of the training precision
    head_s: Column  # which stays in 16 bit
    expert_s: Column
    attention_s: Column
    elementwise_s: Column  # at the memory's bandwidth
    dequantisation_s: Column
    layers: Column
    expert_layers: Column
    adapted_layers: Column
    matrix_moved_s: Column  # of samples, whose matrices are as often held up by memory
    grouped_s: Column  # of samples, whose convolutions keep channels apart


@dataclass(frozen=True, slots=True)
class MicroBatchWork(Columns):
    """One micro-batch on one accelerator: the same at every data-parallel degree."""

    pcie: Mask  # inside a machine; the rest have a scale-up link
    compute: ComputeWork
    traffic: LayerTraffic
    stages: Column
    virtual_pipeline: Column
    stage_pace: Column
    copied_s: Column  # activations to the host and back, at PCIe's own rate


@dataclass(frozen=True, slots=True)
class StateWork(Columns):
    """What a step does with weights, gradients and optimizer states on one accelerator, at a data-parallel degree."""

    micro_batches: Column
    accelerators: Column
    machines: Column
    traffic: StateTraffic
    optimizer_at_rates_s: Column  # of memory and matrices
    copied_s: Column  # parameters and their gradients with every micro-batch, at PCIe's own rate
    offload_s: Column  # gradients and weights once a step
    host_params: Column  # that the host's processors update


@dataclass(frozen=True, slots=True)
class TrainingWork(Columns):
    """One step of one accelerator."""

    micro: MicroBatchWork
    state: StateWork


@formula(unit="passes", source="Korthikanti et al. 2022 (arXiv:2205.05198)")
def matrix_passes(plans: TrainingPlans, recipe: Recipe) -> Column:
    """Products of every matrix with a token: forward and twice backward (once where it is frozen), once more where
    its layer is recomputed whole; for half of them where every second matrix, or layer, is.

    Source: Korthikanti et al. 2022 (arXiv:2205.05198); torchtitan's list of operators to keep.
    """
    whole = np.where(plans.activation_checkpointing == FULL, 1.0, 0.0)
    passes: Column = recipe.products_per_param + np.where(plans.recomputes_half, 0.5, whole)
    return passes


@formula(unit="FLOP", source="Narayanan et al. 2021 (arXiv:2104.04473)")
def matrix_flops(counts: Counts, plans: TrainingPlans, tokens_per_micro_batch: Column, matrix_passes: Column) -> Column:
    """FLOPs of one micro-batch in dense matrices and adapters on one accelerator, recomputed ones included.

    Source: Narayanan et al. 2021 (arXiv:2104.04473), appendix.
    Check: Llama-3.1-8B, a sequence of 4096 whole: 6 * 6.98e9 parameters of layers, 4096 times.
        >>> counts, whole = PRETRAIN_COUNTS, row(tensor_parallel=col(1), pipeline_parallel=col(1))
        >>> round(matrix_flops(counts, whole, col(4096), col(3))[0] / (6 * 4096 * counts.dense_matmul_params), 9)
        np.float64(1.0)
    """
    per_token = 2 * matrix_passes * counts.dense_matmul_params + counts.adapter_flops_per_token
    return tokens_per_micro_batch * per_token / (plans.tensor_parallel * plans.pipeline_parallel)


@formula(unit="FLOP", source="Narayanan et al. 2021 (arXiv:2104.04473)")
def head_flops(counts: Counts, plans: TrainingPlans, tokens_per_micro_batch: Column, recipe: Recipe) -> Column:
    """FLOPs of one micro-batch in the output head, spread over the stages; it is never recomputed.

    Source: Narayanan et al. 2021 (arXiv:2104.04473), appendix.
    Limits: the last stage's head is spread over all of them, as balanced schedules do.
    """
    ranks = plans.tensor_parallel * plans.pipeline_parallel
    return tokens_per_micro_batch * 2 * recipe.products_per_param * counts.head_matmul_params / ranks


@formula(unit="FLOP", source="Fedus et al. 2021 (arXiv:2101.03961)")
def expert_flops(counts: Counts, plans: TrainingPlans, tokens_per_micro_batch: Column, matrix_passes: Column) -> Column:
    """FLOPs of one micro-batch in routed experts on one accelerator.

    Source: Fedus et al. 2021 (arXiv:2101.03961).
    Limits: routing is even; imbalance comes as a fitted share.
    """
    ranks = plans.tensor_parallel * plans.pipeline_parallel
    return tokens_per_micro_batch * 2 * matrix_passes * counts.routed_matmul_params / ranks


@formula(unit="FLOP", source="Dao et al. 2022 (arXiv:2205.14135)")
def attention_flops(counts: Counts, plans: TrainingPlans, tokens_per_micro_batch: Column) -> Column:
    """FLOPs of one micro-batch in attention scores and recurrent mixers on one accelerator.

    Backward of fused attention forms the scores again: 2.5 times its forward; of stored scores twice.
    Source: Dao et al. 2022 (arXiv:2205.14135), appendix B; Korthikanti et al. 2022 for what selective recomputes.
    """
    backward = np.where(plans.flash_attention, 2.5, 2.0)
    again = (plans.activation_checkpointing == FULL) | (
        ~plans.flash_attention & (plans.activation_checkpointing == SELECTIVE)
    )
    per_token = counts.score_flops_per_token * (1 + backward + again) + 3 * counts.recurrent_flops_per_token
    flops: Column = tokens_per_micro_batch * per_token / (plans.tensor_parallel * plans.pipeline_parallel)
    return flops


@formula(unit="B", source="counted: reads and writes of norms, rotations, gates and residuals")
def elementwise_bytes_per_token_layer(counts: Counts, recipe: Recipe) -> float:
    """Bytes that norms, rotations, gates, residuals and copies of one token move in one mean layer, forward: 24h + 4(n
    + m)d + 6f.

    FP8 and FP4 also read what they convert and write it twice, as it is and transposed: 5 bytes per input of a matrix.
    Source: counted.
    Check: Llama-3.1-8B.
        >>> counts = PRETRAIN_COUNTS
        >>> elementwise_bytes_per_token_layer(counts, counts.recipe)
        204928.0
    """
    plain = 24 * counts.hidden_size + counts.attention_activation_bytes + 6 * counts.mlp_width
    converted = recipe.conversion_bytes_per_input * (2 * counts.hidden_size + counts.attention_width + counts.mlp_width)
    return plain + converted


@formula(unit="B", source="counted: reads and writes of operators that are a kernel each")
def eager_bytes_per_token_layer(counts: Counts) -> float:
    """Bytes that one token moves more in one mean layer, forward, where every operator is a kernel: 56h + 14(n + m)d +
    4f where the MLP is gated.

    A norm widened to 32 bit reads and writes 34 bytes an element in six operators where a fused one takes 6, rotating
    queries and keys 18 in four operators for 4, a gate 10 in two for 6.
    Source: counted: transformers' Llama modules.
    Limits: models with LayerNorm and a plain MLP have kernels of their own for both.
    Check: Llama-3.1-8B: 56 * 4096 + 14 * (32 + 8) * 128 + 4 * 14336, and 14 for each of 32 heads.
        >>> eager_bytes_per_token_layer(PRETRAIN_COUNTS)
        358848.0
    """
    return counts.gated * (56.0 * counts.hidden_size + 3.5 * counts.attention_activation_bytes + 4.0 * counts.mlp_width)


@formula(unit="B", source="counted: reads and writes beside the matrices")
def elementwise_bytes_per_token(
    counts: Counts,
    plans: TrainingPlans,
    elementwise_bytes_per_token_layer: float,
    eager_bytes_per_token_layer: float,
    sequence_split: Column,
) -> Column:
    """Bytes that one token moves beside its matrices on one accelerator, forward and backward: layers, experts'
    permutation, loss.

    Backward moves twice what forward does; a recomputed layer moves its own once more. Sequence parallelism
    splits the norms too. Stored scores cross memory ten times per pair of tokens and head. An expert's token is
    copied to it and back, forward and backward: six bytes per element.
    Source: counted.
    """
    tp = plans.tensor_parallel
    norms = 24.0 * counts.hidden_size
    layer = (elementwise_bytes_per_token_layer - norms) / tp + norms / sequence_split
    layer = layer + np.where(plans.fused_kernels, 0.0, eager_bytes_per_token_layer)
    stored = np.where(plans.flash_attention, 0.0, 10.0 * counts.num_heads * counts.units_per_sequence / tp)
    passes = np.where(plans.activation_checkpointing == NONE, 3.0, 4.0)
    permuted = 6.0 * counts.expert_inputs * counts.experts_per_token * counts.routing_layers
    loss = counts.vocab_size * LOSS_BYTES_MOVED_PER_LOGIT / tp if counts.head_matmul_params else 0.0
    return (counts.num_layers * (layer + stored) * passes + permuted + loss) / plans.pipeline_parallel


@formula(unit="B", source="Dettmers et al. 2023 (arXiv:2305.14314)")
def dequantised_bytes(counts: Counts, plans: TrainingPlans, recipe: Recipe) -> Column:
    """Bytes moved to widen the quantised weights of one accelerator, forward, backward and recomputed.

    Source: Dettmers et al. 2023 (arXiv:2305.14314).
    Limits: every matrix is widened once per pass, whatever the micro-batch.
    """
    params = counts.linear_params / (plans.tensor_parallel * plans.pipeline_parallel)
    moved: Column = params * (2.0 + (plans.activation_checkpointing == FULL)) * recipe.dequantised_bytes_per_param
    return moved


@formula(unit="s", source="roofline")
def at_matrix_rate_s(flops: Column, peak_flops_per_s: Column) -> Column:
    """Seconds of FLOPs at a peak rate.

    Source: roofline (Williams et al. 2009).
    """
    return flops / peak_flops_per_s


@formula(unit="s", source="roofline")
def at_memory_rate_s(micro_batch_bytes: Column, memory_bytes_per_s: Column) -> Column:
    """Seconds of bytes at the memory's bandwidth.

    Source: roofline (Williams et al. 2009).
    """
    return micro_batch_bytes / memory_bytes_per_s


def sample_work(counts: Counts, plans: TrainingPlans) -> ComputeWork:
    """Of images, speech and pictures."""
    machine, zero = plans.machine, np.zeros(len(plans))
    with told_as("sample"):
        matrix_s = at_matrix_rate_s(sample_flops(counts, plans), machine.peak_flops_per_s)
        elementwise_s = at_memory_rate_s(sample_elementwise_bytes(counts, plans), machine.memory_bytes_per_s)
    with told_as("sample matrices"):
        matrix_moved_s = at_memory_rate_s(sample_matrix_bytes(counts, plans), machine.memory_bytes_per_s)
    with told_as("sample groups"):
        grouped_s = at_memory_rate_s(sample_grouped_bytes(counts, plans), machine.memory_bytes_per_s)
    return ComputeWork(
        matrix_s=matrix_s,
        head_s=zero,
        expert_s=zero,
        attention_s=zero,
        elementwise_s=elementwise_s,
        dequantisation_s=zero,
        layers=sample_operations(counts, plans),
        expert_layers=zero,
        adapted_layers=zero,
        matrix_moved_s=matrix_moved_s,
        grouped_s=grouped_s,
    )


def token_work(counts: Counts, plans: TrainingPlans, tokens: Column, split: Column) -> ComputeWork:
    """Of tokens: matrices, head, experts, attention, and everything that moves memory instead."""
    recipe, machine, zero = counts.recipe, plans.machine, np.zeros(len(plans))
    full = plans.activation_checkpointing == FULL
    layers = counts.num_layers / plans.pipeline_parallel
    passes, peak, unquantised = matrix_passes(plans, recipe), machine.peak_flops_per_s, machine.unquantised_flops_per_s
    layer_bytes = elementwise_bytes_per_token_layer(counts, recipe)
    moved = micro_batch_elementwise_bytes(
        tokens, elementwise_bytes_per_token(counts, plans, layer_bytes, eager_bytes_per_token_layer(counts), split)
    )
    experts = dequantised = zero
    if counts.routed_matmul_params:
        with told_as("experts"):
            experts = at_matrix_rate_s(expert_flops(counts, plans, tokens, passes), peak)
    if recipe.dequantised_bytes_per_param:
        with told_as("dequantisation"):
            dequantised = at_memory_rate_s(dequantised_bytes(counts, plans, recipe), machine.memory_bytes_per_s)
    with told_as("matrices"):
        matrix_s = at_matrix_rate_s(matrix_flops(counts, plans, tokens, passes), peak)
    with told_as("head"):
        head_s = at_matrix_rate_s(head_flops(counts, plans, tokens, recipe), unquantised)
    with told_as("attention"):
        attention_s = at_matrix_rate_s(attention_flops(counts, plans, tokens), unquantised)
    with told_as("elementwise"):
        elementwise_s = at_memory_rate_s(moved, machine.memory_bytes_per_s)
    return ComputeWork(
        matrix_s=matrix_s,
        head_s=head_s,
        expert_s=experts,
        attention_s=attention_s,
        elementwise_s=elementwise_s,
        dequantisation_s=dequantised,
        layers=layers * (1 + full / 3),
        expert_layers=counts.routing_layers / plans.pipeline_parallel,
        adapted_layers=layers if recipe.frozen else zero,
        matrix_moved_s=zero,
        grouped_s=zero,
    )


@formula(unit="B", source="definition")
def micro_batch_elementwise_bytes(tokens_per_micro_batch: Column, elementwise_bytes_per_token: Column) -> Column:
    """Bytes that a micro-batch moves beside its matrices on one accelerator.

    Source: definition.
    """
    return tokens_per_micro_batch * elementwise_bytes_per_token


def micro_batch_work(counts: Counts, plans: TrainingPlans) -> MicroBatchWork:
    """Counts of one micro-batch."""
    chunks, pace, copied = virtual_pipeline(counts, plans), np.ones(len(plans)), np.zeros(len(plans))
    if counts.in_samples:
        none = silent(len(plans))
        compute, traffic = sample_work(counts, plans), LayerTraffic(none, none, none, none)
    else:
        tokens, split = tokens_per_micro_batch(counts, plans), sequence_split(plans)
        compute = token_work(counts, plans, tokens, split)
        traffic = layer_traffic(counts, plans, tokens, split, chunks)
        if (plans.pipeline_parallel > 1).any():
            uneven = stage_unevenness(plans.pipeline_parallel, chunks, counts.num_layers, counts.head_layers)
            pace = stage_pace(uneven, counts.published_stage_unevenness)
        if plans.activation_offload.any():
            copied = activation_copy_s(plans, kept_bytes(counts, plans))
    return MicroBatchWork(plans.machine.pcie, compute, traffic, plans.pipeline_parallel, chunks, pace, copied)


@formula(unit="s", source="counted: bytes that an optimizer reads and writes")
def optimizer_at_rates_s(
    updated_params: Column, hidden_size: float, recipe: Recipe, machine: TrainingMachines, optimizer_offload: Mask
) -> Column:
    """Seconds of the optimizer's step at the rates of memory and matrices: bytes of gradient, master copy and states;
    FLOPs that orthogonalise a momentum matrix. None where the host steps.

    Source: counted; Jordan et al. 2024 for Muon's iterations.
    """
    moved = updated_params * recipe.optimizer_moved_bytes_per_param / machine.memory_bytes_per_s
    orthogonalised = (
        updated_params * recipe.optimizer_flops_per_param_width * hidden_size / machine.unquantised_flops_per_s
    )
    return np.where(optimizer_offload, 0.0, moved + orthogonalised)


def state_work(counts: Counts, plans: TrainingPlans, rank: RankParams, spread: Spread) -> StateWork:
    """Counts of one step beside its micro-batches.

    Source: Rajbhandari et al. 2020 (arXiv:1910.02054).
    """
    devices, offload, local = spread.accelerators, plans.optimizer_offload, spread.updated_params
    here = np.minimum(plans.accelerators_per_node, devices)
    copied = np.zeros(len(plans))
    if plans.parameter_offload.any():
        copied = parameter_copy_s(plans, rank, spread, counts.recipe)
    return StateWork(
        micro_batches=spread.micro_batches,
        accelerators=devices,
        machines=np.ceil(devices / plans.machine.scale_up_accelerators),
        traffic=state_traffic(counts, plans, rank, spread),
        optimizer_at_rates_s=optimizer_at_rates_s(local, counts.hidden_size, counts.recipe, plans.machine, offload),
        copied_s=copied,
        offload_s=np.where(offload & ~plans.parameter_offload, local * BYTES_32_BIT / PCIE_BYTES_PER_S, 0.0),
        host_params=np.where(offload, local * here, 0.0),
    )


def training_work(counts: Counts, plans: TrainingPlans, data_parallel: Column) -> TrainingWork:
    """Counts of one step at a data-parallel degree."""
    rank = rank_params(counts, plans)
    spread = spread_of(counts, plans, rank, data_parallel)
    return TrainingWork(micro_batch_work(counts, plans), state_work(counts, plans, rank, spread))
