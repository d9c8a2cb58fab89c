"""Work of one training step on one accelerator: FLOPs, bytes and messages at nominal rates, without fitted speeds.

The fit and the search use the same counts. Symbols: h hidden size, f MLP width, n attention heads, m KV heads, d
head size.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.columns import Column, Columns, Mask
from app.sizing.formula import formula, trace_label
from app.sizing.hardware.parts import PCIE_BYTES_PER_S
from app.sizing.training.activations import kept_bytes
from app.sizing.training.counts import Counts
from app.sizing.training.layouts import FULL, NONE, SELECTIVE
from app.sizing.training.offload import activation_copy_s, parameter_copy_s
from app.sizing.training.plans import (
    RankGroups,
    RankParams,
    TrainingMachines,
    TrainingPlans,
    rank_groups,
    rank_params,
    sequence_split,
    stage_slowdown,
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
    no_traffic,
    state_traffic,
)


@dataclass(frozen=True, slots=True)
class ComputeWork(Columns):
    """Compute of one accelerator for one micro-batch, recomputation included, as seconds at its nominal rates."""

    matrix_s: Column  # dense matrices and adapters at the peak rate of the training precision, s
    head_s: Column  # output head at the 16-bit rate, s
    expert_s: Column  # routed experts at the peak rate of the training precision, s
    attention_s: Column  # attention scores at the 16-bit rate, s
    elementwise_s: Column  # operators between matrices at the memory bandwidth, s
    dequantization_s: Column  # dequantization of weights at the memory bandwidth, s
    layers: Column  # layers executed per micro-batch, recomputation counted as a third; for samples, kernels
    expert_layers: Column  # layers that route tokens to experts
    adapted_layers: Column  # layers with adapters
    matrix_moved_s: Column  # samples only: memory traffic of matrices at the memory bandwidth, s
    grouped_s: Column  # samples only: grouped convolutions at the memory bandwidth, s


@dataclass(frozen=True, slots=True)
class MicroBatchWork(Columns):
    """Work of one micro-batch on one accelerator, the same at every data-parallel degree."""

    pcie: Mask  # accelerators of a machine are connected by PCIe only, not by a scale-up link
    compute: ComputeWork  # compute of the micro-batch
    traffic: LayerTraffic  # communication within and between layers
    stages: Column  # pipeline stages
    virtual_pipeline: Column  # model chunks per pipeline stage
    stage_slowdown: Column  # slowdown by the fullest pipeline stage
    copied_s: Column  # copies of activations to the host and back at PCIe's nominal rate, s


@dataclass(frozen=True, slots=True)
class StateWork(Columns):
    """Work on weights, gradients and optimizer states per step on one accelerator, at a data-parallel degree."""

    micro_batches: Column  # micro-batches per replica and step
    accelerators: Column  # accelerators of the run
    machines: Column  # machines, or scale-up domains, of the run
    traffic: StateTraffic  # communication of weights and gradients
    optimizer_at_rates_s: Column  # the optimizer's update at nominal memory and matrix rates, s
    copied_s: Column  # copies of parameters and gradients per micro-batch at PCIe's nominal rate, s
    offload_s: Column  # copies of gradients and weights per step at PCIe's nominal rate, s
    host_params: Column  # parameters that the processors of one machine update


@dataclass(frozen=True, slots=True)
class TrainingWork(Columns):
    micro: MicroBatchWork  # work of one micro-batch
    state: StateWork  # work on weights, gradients and optimizer states per step


@formula(unit="passes", source="Korthikanti et al. 2022 (arXiv:2205.05198); torchtitan's list of saved operators")
def matrix_passes(plans: TrainingPlans, recipe: Recipe) -> Column:
    """Products of every matrix with a token: one forward and two backward, or one backward where the matrix is frozen.

    Full recomputation adds one. Recomputation of every second matrix or layer adds a half.

    Check: full training without recomputation, with every second matrix recomputed, and with full recomputation.
        >>> modes, half = np.array([NONE, SELECTIVE, FULL]), np.array([False, True, False])
        >>> plans = row(activation_checkpointing=modes, recomputes_half=half)
        >>> matrix_passes(plans, PRETRAIN_COUNTS.recipe).tolist()
        [3.0, 3.5, 4.0]
    """
    whole = np.where(plans.activation_checkpointing == FULL, 1.0, 0.0)
    passes: Column = recipe.products_per_param + np.where(plans.recomputes_half, 0.5, whole)
    return passes


@formula(unit="FLOP", source="Narayanan et al. 2021 (arXiv:2104.04473), appendix")
def matrix_flops(counts: Counts, plans: TrainingPlans, tokens_per_micro_batch: Column, matrix_passes: Column) -> Column:
    """FLOPs of one micro-batch in dense matrices and adapters on one accelerator, recomputation included.

    Check: Llama-3.1-8B, a sequence of 4,096 tokens on one accelerator: 6 * 6.98e9 parameters of layers, 4,096
        times.
        >>> counts, whole = PRETRAIN_COUNTS, row(tensor_parallel=col(1), pipeline_parallel=col(1))
        >>> round(matrix_flops(counts, whole, col(4096), col(3))[0] / (6 * 4096 * counts.dense_matmul_params), 9)
        np.float64(1.0)
    """
    per_token = 2 * matrix_passes * counts.dense_matmul_params + counts.adapter_flops_per_token
    return tokens_per_micro_batch * per_token / (plans.tensor_parallel * plans.pipeline_parallel)


@formula(unit="FLOP", source="Narayanan et al. 2021 (arXiv:2104.04473), appendix")
def head_flops(counts: Counts, plans: TrainingPlans, tokens_per_micro_batch: Column, recipe: Recipe) -> Column:
    """FLOPs of one micro-batch in the output head on one accelerator; the head is never recomputed.

    Limits: the head's work is spread evenly over all pipeline stages, as balanced schedules do.
    Check: Llama-3.1-8B, 4,096 tokens, tensor parallel 8: 12.9 TFLOP on all ranks.
        >>> layout = row(tensor_parallel=col(8), pipeline_parallel=col(1))
        >>> (8 * head_flops(PRETRAIN_COUNTS, layout, col(4096), PRETRAIN_COUNTS.recipe) / 1e12).round(1).tolist()
        [12.9]
    """
    ranks = plans.tensor_parallel * plans.pipeline_parallel
    return tokens_per_micro_batch * 2 * recipe.products_per_param * counts.head_matmul_params / ranks


@formula(unit="FLOP", source="Fedus et al. 2021 (arXiv:2101.03961)")
def expert_flops(counts: Counts, plans: TrainingPlans, tokens_per_micro_batch: Column, matrix_passes: Column) -> Column:
    """FLOPs of one micro-batch in routed experts on one accelerator.

    Limits: routing is even; imbalance is a fitted share.
    Check: 1e9 parameters of the chosen experts, 4,096 tokens, three products on two ranks.
        >>> layout = row(tensor_parallel=col(2), pipeline_parallel=col(1))
        >>> (expert_flops(row(routed_matmul_params=1e9), layout, col(4096), col(3)) / 1e12).round(3).tolist()
        [12.288]
    """
    ranks = plans.tensor_parallel * plans.pipeline_parallel
    return tokens_per_micro_batch * 2 * matrix_passes * counts.routed_matmul_params / ranks


@formula(
    unit="FLOP",
    source="Dao et al. 2022 (arXiv:2205.14135), appendix B; Korthikanti et al. 2022 (arXiv:2205.05198)",
)
def attention_flops(counts: Counts, plans: TrainingPlans, tokens_per_micro_batch: Column) -> Column:
    """FLOPs of one micro-batch in attention scores and recurrent mixers on one accelerator.

    The backward of fused attention recomputes the scores: 2.5 times the forward. With stored scores it is 2 times.

    Check: Llama-3.1-8B, forward 1.07 GFLOP per token: fused attention, then stored scores, over the forward.
        >>> modes, fused = np.array([NONE, NONE]), np.array([True, False])
        >>> layout = row(tensor_parallel=1, pipeline_parallel=1, activation_checkpointing=modes, flash_attention=fused)
        >>> (attention_flops(PRETRAIN_COUNTS, layout, col(1, 1)) / PRETRAIN_COUNTS.score_flops_per_token).tolist()
        [3.5, 3.0]
    """
    backward = np.where(plans.flash_attention, 2.5, 2.0)
    again = (plans.activation_checkpointing == FULL) | (
        ~plans.flash_attention & (plans.activation_checkpointing == SELECTIVE)
    )
    per_token = counts.score_flops_per_token * (1 + backward + again) + 3 * counts.recurrent_flops_per_token
    flops: Column = tokens_per_micro_batch * per_token / (plans.tensor_parallel * plans.pipeline_parallel)
    return flops


@formula(unit="B", source="reads and writes of norms, rotations, gates and residuals, counted")
def elementwise_bytes_per_token_layer(counts: Counts, recipe: Recipe) -> float:
    """Bytes that the elementwise operators of one token move in one mean layer, forward: 24h + 4(n + m)d + 6f.

    These are norms, rotations, gates, residuals and copies. FP8 and FP4 also read what they convert and write it
    twice, as it is and transposed: 5 bytes per input of a matrix.

    Check: Llama-3.1-8B.
        >>> counts = PRETRAIN_COUNTS
        >>> elementwise_bytes_per_token_layer(counts, counts.recipe)
        204928.0
    """
    plain = 24 * counts.hidden_size + counts.attention_activation_bytes + 6 * counts.mlp_width
    converted = recipe.conversion_bytes_per_input * (2 * counts.hidden_size + counts.attention_width + counts.mlp_width)
    return plain + converted


@formula(
    unit="B",
    source="reads and writes of operators that are one kernel each, counted in transformers' Llama modules",
)
def eager_bytes_per_token_layer(counts: Counts) -> float:
    """Additional bytes that one token moves in one mean layer, forward, where every operator is its own kernel.

    56h + 14(n + m)d + 4f for a gated MLP. A norm in FP32 reads and writes 34 bytes per element in six operators
    instead of 6, the rotation of queries and keys 18 in four operators instead of 4, a gate 10 in two instead of 6.

    Limits: models with LayerNorm and an MLP without a gate have kernels of their own for both.
    Check: Llama-3.1-8B: 56 * 4096 + 14 * (32 + 8) * 128 + 4 * 14336, and 14 for each of 32 heads.
        >>> eager_bytes_per_token_layer(PRETRAIN_COUNTS)
        358848.0
    """
    return counts.gated * (56.0 * counts.hidden_size + 3.5 * counts.attention_activation_bytes + 4.0 * counts.mlp_width)


@formula(unit="B", source="reads and writes outside matrix products, counted")
def elementwise_bytes_per_token(
    counts: Counts,
    plans: TrainingPlans,
    elementwise_bytes_per_token_layer: float,
    eager_bytes_per_token_layer: float,
    sequence_split: Column,
) -> Column:
    """Bytes that one token moves outside matrix products on one accelerator, forward and backward.

    Backward moves twice as much as forward; a recomputed layer adds its forward once more. Sequence parallelism also
    splits the norms. Stored scores cross memory ten times per pair of tokens and head. A token that is dispatched to
    an expert is copied there and back, forward and backward: six bytes per element. The loss is added once.

    Check: Llama-3.1-8B on one accelerator with fused kernels and attention: 3 * 32 layers, and 22 bytes per logit.
        >>> whole = row(tensor_parallel=1, pipeline_parallel=1, activation_checkpointing=np.array([NONE]))
        >>> plans = row(**vars(whole), fused_kernels=np.array([True]), flash_attention=np.array([True]))
        >>> elementwise_bytes_per_token(PRETRAIN_COUNTS, plans, 204928.0, 358848.0, col(1)).tolist()
        [22494720.0]
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
def dequantized_bytes(counts: Counts, plans: TrainingPlans, recipe: Recipe) -> Column:
    """Bytes moved to dequantize the weights of one accelerator, forward, backward and recomputed.

    Limits: every matrix is dequantized once per pass, regardless of the micro-batch.
    Check: 7e9 parameters at 4.5 bytes, without and with full recomputation.
        >>> modes = np.array([NONE, FULL])
        >>> layout = row(tensor_parallel=1, pipeline_parallel=1, activation_checkpointing=modes)
        >>> dequantized_bytes(row(linear_params=7e9), layout, row(dequantised_bytes_per_param=4.5)).tolist()
        [63000000000.0, 94500000000.0]
    """
    params = counts.linear_params / (plans.tensor_parallel * plans.pipeline_parallel)
    moved: Column = params * (2.0 + (plans.activation_checkpointing == FULL)) * recipe.dequantised_bytes_per_param
    return moved


@formula(unit="s", source="roofline (Williams et al. 2009)")
def at_matrix_rate_s(flops: Column, peak_flops_per_s: Column) -> Column:
    """Seconds of FLOPs at the peak matrix rate.

    Parameters:
        flops: work, FLOP.
        peak_flops_per_s: peak matrix rate, FLOP/s.
    Check: 989 TFLOP at 989 TFLOP/s.
        >>> at_matrix_rate_s(col(989e12), col(989e12)).tolist()
        [1.0]
    """
    return flops / peak_flops_per_s


@formula(unit="s", source="roofline (Williams et al. 2009)")
def at_memory_rate_s(micro_batch_bytes: Column, memory_bytes_per_s: Column) -> Column:
    """Seconds of bytes at the nominal memory bandwidth.

    Parameters:
        micro_batch_bytes: bytes read and written per micro-batch.
        memory_bytes_per_s: memory bandwidth, B/s.
    Check: 6.7 GB at 3.35 TB/s.
        >>> at_memory_rate_s(col(6.7e9), col(3.35e12)).round(6).tolist()
        [0.002]
    """
    return micro_batch_bytes / memory_bytes_per_s


def sample_work(counts: Counts, plans: TrainingPlans) -> ComputeWork:
    """Return the compute of a micro-batch of images, audio or diffusion samples."""
    machine, zero = plans.machine, np.zeros(len(plans))
    with trace_label("sample"):
        matrix_s = at_matrix_rate_s(sample_flops(counts, plans), machine.peak_flops_per_s)
        elementwise_s = at_memory_rate_s(sample_elementwise_bytes(counts, plans), machine.memory_bytes_per_s)
    with trace_label("sample matrices"):
        matrix_moved_s = at_memory_rate_s(sample_matrix_bytes(counts, plans), machine.memory_bytes_per_s)
    with trace_label("sample grouped convolutions"):
        grouped_s = at_memory_rate_s(sample_grouped_bytes(counts, plans), machine.memory_bytes_per_s)
    return ComputeWork(
        matrix_s=matrix_s,
        head_s=zero,
        expert_s=zero,
        attention_s=zero,
        elementwise_s=elementwise_s,
        dequantization_s=zero,
        layers=sample_operations(counts, plans),
        expert_layers=zero,
        adapted_layers=zero,
        matrix_moved_s=matrix_moved_s,
        grouped_s=grouped_s,
    )


def token_work(counts: Counts, plans: TrainingPlans, tokens: Column, split: Column) -> ComputeWork:
    """Return the compute of a micro-batch of tokens: matrices, head, experts, attention and memory-bound operators."""
    recipe, machine, zero = counts.recipe, plans.machine, np.zeros(len(plans))
    full = plans.activation_checkpointing == FULL
    layers = counts.num_sublayers / 2 / plans.pipeline_parallel
    passes, peak, unquantised = matrix_passes(plans, recipe), machine.peak_flops_per_s, machine.unquantised_flops_per_s
    layer_bytes = elementwise_bytes_per_token_layer(counts, recipe)
    moved = micro_batch_elementwise_bytes(
        tokens, elementwise_bytes_per_token(counts, plans, layer_bytes, eager_bytes_per_token_layer(counts), split)
    )
    experts = dequantised = zero
    if counts.routed_matmul_params:
        with trace_label("experts"):
            experts = at_matrix_rate_s(expert_flops(counts, plans, tokens, passes), peak)
    if recipe.dequantised_bytes_per_param:
        with trace_label("dequantization"):
            dequantised = at_memory_rate_s(dequantized_bytes(counts, plans, recipe), machine.memory_bytes_per_s)
    with trace_label("matrices"):
        matrix_s = at_matrix_rate_s(matrix_flops(counts, plans, tokens, passes), peak)
    with trace_label("head"):
        head_s = at_matrix_rate_s(head_flops(counts, plans, tokens, recipe), unquantised)
    with trace_label("attention"):
        attention_s = at_matrix_rate_s(attention_flops(counts, plans, tokens), unquantised)
    with trace_label("elementwise"):
        elementwise_s = at_memory_rate_s(moved, machine.memory_bytes_per_s)
    return ComputeWork(
        matrix_s=matrix_s,
        head_s=head_s,
        expert_s=experts,
        attention_s=attention_s,
        elementwise_s=elementwise_s,
        dequantization_s=dequantised,
        layers=layers * (1 + full / 3),
        expert_layers=counts.routing_layers / plans.pipeline_parallel,
        adapted_layers=layers if recipe.frozen else zero,
        matrix_moved_s=zero,
        grouped_s=zero,
    )


@formula(unit="B", source="definition")
def micro_batch_elementwise_bytes(tokens_per_micro_batch: Column, elementwise_bytes_per_token: Column) -> Column:
    """Bytes that a micro-batch moves outside matrix products on one accelerator.

    Check: 4,096 tokens at 20 MB.
        >>> micro_batch_elementwise_bytes(col(4096), col(20e6)).tolist()
        [81920000000.0]
    """
    return tokens_per_micro_batch * elementwise_bytes_per_token


def micro_batch_work(counts: Counts, plans: TrainingPlans) -> MicroBatchWork:
    chunks, slowdown, copied = virtual_pipeline(counts, plans), np.ones(len(plans)), np.zeros(len(plans))
    if counts.in_samples:
        none = no_traffic(len(plans))
        compute, traffic = sample_work(counts, plans), LayerTraffic(none, none, none, none)
    else:
        tokens, split = tokens_per_micro_batch(counts, plans), sequence_split(plans)
        compute = token_work(counts, plans, tokens, split)
        traffic = layer_traffic(counts, plans, tokens, split, chunks)
        if (plans.pipeline_parallel > 1).any():
            uneven = stage_unevenness(plans.pipeline_parallel, chunks, counts.num_layers, counts.head_layers)
            slowdown = stage_slowdown(uneven, counts.published_stage_unevenness)
        if plans.activation_offload.any():
            copied = activation_copy_s(plans, kept_bytes(counts, plans))
    return MicroBatchWork(plans.machine.pcie, compute, traffic, plans.pipeline_parallel, chunks, slowdown, copied)


@formula(unit="s", source="bytes that an optimizer reads and writes; Jordan et al. 2024 for Muon's iterations")
def optimizer_at_rates_s(
    updated_params: Column, hidden_size: float, recipe: Recipe, machine: TrainingMachines, optimizer_offload: Mask
) -> Column:
    """Duration of the optimizer's update at nominal rates: memory traffic plus matrix FLOPs; 0 where the host updates.

    The update moves gradient, master copy and states. Muon also orthogonalizes each momentum matrix.

    Parameters:
        updated_params: parameters that the optimizer of one accelerator updates.
        hidden_size: hidden size of the model.
        optimizer_offload: whether the host runs the optimizer.
    Check: AdamW, 1e9 parameters of 30 bytes at 3 TB/s, on the accelerator and on the host.
        >>> rates = row(memory_bytes_per_s=3e12, unquantised_flops_per_s=1e15)
        >>> adamw, offloaded = PRETRAIN_COUNTS.recipe, np.array([False, True])
        >>> optimizer_at_rates_s(col(1e9), 4096, adamw, rates, offloaded).tolist()
        [0.01, 0.0]
    """
    moved = updated_params * recipe.optimizer_moved_bytes_per_param / machine.memory_bytes_per_s
    orthogonalized = (
        updated_params * recipe.optimizer_flops_per_param_width * hidden_size / machine.unquantised_flops_per_s
    )
    return np.where(optimizer_offload, 0.0, moved + orthogonalized)


def state_work(counts: Counts, plans: TrainingPlans, rank: RankParams, groups: RankGroups) -> StateWork:
    """Return the work of one step outside its micro-batches: optimizer, gradient communication and copies.

    ZeRO follows Rajbhandari et al. 2020 (arXiv:1910.02054).
    """
    accelerators, offload, updated = groups.accelerators, plans.optimizer_offload, groups.updated_params
    per_machine = np.minimum(plans.accelerators_per_node, accelerators)
    copied = np.zeros(len(plans))
    if plans.parameter_offload.any():
        copied = parameter_copy_s(plans, rank, groups, counts.recipe)
    return StateWork(
        micro_batches=groups.micro_batches,
        accelerators=accelerators,
        machines=np.ceil(accelerators / plans.machine.scale_up_accelerators),
        traffic=state_traffic(counts, plans, rank, groups),
        optimizer_at_rates_s=optimizer_at_rates_s(updated, counts.hidden_size, counts.recipe, plans.machine, offload),
        copied_s=copied,
        offload_s=np.where(offload & ~plans.parameter_offload, updated * BYTES_32_BIT / PCIE_BYTES_PER_S, 0.0),
        host_params=np.where(offload, updated * per_machine, 0.0),
    )


def training_work(counts: Counts, plans: TrainingPlans, data_parallel: Column) -> TrainingWork:
    rank = rank_params(counts, plans)
    spread = rank_groups(counts, plans, rank, data_parallel)
    return TrainingWork(micro_batch_work(counts, plans), state_work(counts, plans, rank, spread))
