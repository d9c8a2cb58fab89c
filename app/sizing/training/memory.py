"""Memory of one accelerator during training: its parts, the peak moment of a step, and its uncertainty.

Forward ends with all activations and the loss. Backward begins with the recomputation of a layer, and ends with all
gradients. The optimizer's update holds all gradients and its temporary copies. The parts come from traced steps of
PyTorch 2.15 on fake tensors in 311 setups.

Gives the largest prediction that is accepted at a confidence, and the probability that a plan fits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import GIB, Codes, Column, Columns, Mask
from app.sizing.formula import formula, trace_label
from app.sizing.hardware.achieved import TrainingMemoryFactors
from app.sizing.hardware.recipes import Recipes
from app.sizing.question import MEDIAN_CONFIDENCE
from app.sizing.training.activations import MicroBatchMemory, in_flight_bytes, loss_beyond_bytes, micro_batch_memory
from app.sizing.training.counts import Counts
from app.sizing.training.layer import TRACED
from app.sizing.training.layouts import FULL
from app.sizing.training.loss import CHUNKED
from app.sizing.training.offload import HostBytes, host_bytes_per_machine, offloaded_bytes
from app.sizing.training.plans import (
    RankGroups,
    RankParams,
    TrainingPlans,
    held_params,
    memory_neighbourhood,
    micro_batches_in_flight,
    rank_groups,
    rank_params,
)
from app.sizing.training.recipes import (
    BYTES_16_BIT,
    BYTES_32_BIT,
    GRADIENTS_COPIED,
    ParamBytes,
    Recipe,
    gathered_unit_params,
    gradient_bucket_bytes,
    live_bytes,
)


@formula(unit="parameters", source="definition")
def layer_params_per_rank(counts: Counts, plans: TrainingPlans, expert_shards: Column) -> Column:
    """Parameters of one layer on a model-parallel rank, with experts where any layer has them.

    Check: Llama-3.1-8B on one rank and on tensor parallel 8.
        >>> layout = row(tensor_parallel=col(1, 8))
        >>> layer_params_per_rank(PRETRAIN_COUNTS, layout, col(1, 1)).tolist()
        [218112128.0, 27264016.0]
    """
    ends = counts.embedding_params + counts.head_params
    dense = (counts.total_params - counts.routed_params - ends) / plans.tensor_parallel
    routed = counts.routed_params / (expert_shards * np.maximum(1.0, counts.routing_layers))
    params: Column = dense / np.maximum(1.0, counts.weight_layers) + routed
    return params


@formula(unit="parameters", source="definition")
def end_params_per_rank(counts: Counts, plans: TrainingPlans) -> Column:
    """Embedding and head parameters on one rank; the larger of the two where a pipeline separates them.

    Check: Llama-3.1-8B without a pipeline and with four stages.
        >>> layout = row(pipeline_parallel=col(1, 4), tensor_parallel=col(1, 1))
        >>> end_params_per_rank(PRETRAIN_COUNTS, layout).tolist()
        [1050673152.0, 525336576.0]
    """
    both = counts.embedding_params + counts.head_params
    larger = np.maximum(counts.embedding_params, counts.head_params)
    return np.where(plans.pipeline_parallel > 1, larger, both) / plans.tensor_parallel


@formula(
    unit="B",
    source="Zhao et al. 2023 (arXiv:2304.11277), section 4.3; traced steps of PyTorch 2.15 (`fully_shard`)",
)
def gathered_bytes(
    gathers: Mask, end_params_per_rank: Column, gathered_unit_params: Column, units: Column, params: ParamBytes
) -> Column:
    """All-gathered weights with ZeRO-3: embedding and head stay through the loss, with the layers in use or prefetched.

    Parameters:
        gathers: whether weights are gathered from other ranks (ZeRO-3).
        units: units in use or prefetched.
    Check: Llama-3.1-8B in BF16: embedding and head, and two layers; nothing below ZeRO-3.
        >>> sharded, widths = np.array([True, False]), row(ends=2.0, gathered=2.0)
        >>> gathered_bytes(sharded, col(1.05e9), col(0.218e9), col(2), widths).tolist()
        [2972000000.0, 0.0]
    """
    gathered = end_params_per_rank * params.ends + units * gathered_unit_params * params.gathered
    return np.where(gathers, gathered, 0.0)


def stays_whole(gathers: Mask, plans: TrainingPlans) -> Mask:
    """Return whether sharded weights stay gathered, and gradients whole, over all micro-batches of a pipeline."""
    stays: Mask = gathers & plans.stack.recipe.keeps_gathered & (plans.pipeline_parallel > 1)
    return stays


@formula(unit="B", source="PyTorch's pipelining/stage.py; torchtitan's parallelize.py, reshard_after_forward")
def whole_bytes(stays: Mask, rank_params: Column, bytes_per_param: Column) -> Column:
    """Weights or gradients of a pipeline stage that are not sharded again between micro-batches.

    A pipeline would otherwise gather every layer again for each micro-batch.

    Parameters:
        stays: whether they stay whole.
        rank_params: parameters of the stage on a tensor-parallel rank.
        bytes_per_param: bytes of a gathered weight, or of a gradient.
    Check: a stage of 8.8e9 parameters in BF16, and one that is sharded again.
        >>> whole_bytes(np.array([True, False]), col(8.8e9, 8.8e9), col(2, 2)).tolist()
        [17600000000.0, 0.0]
    """
    return np.where(stays, rank_params * bytes_per_param, 0.0)


@formula(unit="B", source="PyTorch's documentation of autocast; traced steps of PyTorch 2.15")
def cast_bytes(counts: Counts, plans: TrainingPlans, params: ParamBytes) -> Column:
    """16-bit copies of FP32 layer weights that autocast keeps until backward.

    Autocast keeps none with full recomputation or sharded weights.

    Check: 7e9 parameters in layers: no recomputation, full recomputation, ZeRO-3.
        >>> modes, stages = np.array([FULL - 1, FULL, FULL - 1]), col(0, 0, 3)
        >>> plans = row(activation_checkpointing=modes, zero_stage=stages, tensor_parallel=1, pipeline_parallel=1)
        >>> cast_bytes(row(linear_params=7e9), plans, row(casts=2.0)).tolist()
        [14000000000.0, 0.0, 0.0]
    """
    passing = (plans.activation_checkpointing == FULL) | (plans.zero_stage >= 3)
    layers = counts.linear_params * params.casts / (plans.pipeline_parallel * plans.tensor_parallel)
    return np.where(passing, 0.0, layers)


@formula(unit="B", source="PyTorch's documentation of autocast; traced steps of PyTorch 2.15")
def head_cast_bytes(
    counts: Counts, plans: TrainingPlans, framework: Recipes, params: ParamBytes, recipe: Recipe
) -> Column:
    """16-bit copies of an FP32 head.

    Autocast caches one copy of trained weights, because its cache holds leaves that need gradients. It makes a new
    copy of frozen weights for each product, including each chunk of a chunked loss.

    Check: a frozen head of 1000 parameters under a loss in eight chunks.
        >>> counts, chunked = row(head_matmul_params=1000), row(loss=col(CHUNKED), loss_chunks=col(8))
        >>> head_cast_bytes(counts, row(tensor_parallel=col(1)), chunked, row(head_casts=2), row(frozen=True)).tolist()
        [16000.0]
    """
    copies = np.where(recipe.frozen & (framework.loss == CHUNKED), framework.loss_chunks, 1.0)
    return copies * counts.head_matmul_params * params.head_casts / plans.tensor_parallel


MOMENTS = ("loss", "backward", "gradients", "update")
LOSS, BACKWARD, GRADIENTS, UPDATE = range(4)


@dataclass(frozen=True, slots=True)
class MemoryParts(Columns):
    """Memory parts of one accelerator, bytes; none of them depends on a fitted factor."""

    weights_bytes: Column  # weights, B
    optimizer_bytes: Column  # optimizer states, B
    host_bytes: Column  # states, weights and activations in host memory, B per machine
    gradient_bytes: Column  # all gradients and their buckets, B
    lasting_gradient_bytes: Column  # gradients that exist during forward, B
    head_gradient_bytes: Column  # gradient of the head's weights where gradients do not persist, B
    kept_bytes: Column  # activations of all micro-batches in flight, B
    logits_bytes: Column  # logits and loss beyond the kept activations, B
    last_norm_bytes: Column  # input and output of the final norm, B
    working_bytes: Column  # additional memory of the first layer of backward, B
    last_bytes: Column  # memory in addition to the gradients at the end of backward, B
    loss_gathered_bytes: Column  # gathered weights and 16-bit copies at the loss, B
    backward_gathered_bytes: Column  # gathered weights and 16-bit copies in backward, B
    update_bytes: Column  # temporary memory of the optimizer's update, B
    communicators: Column  # groups of ranks in which the accelerator communicates


@dataclass(frozen=True, slots=True)
class Moments(Columns):
    """Gradients and activations together at each moment, bytes."""

    loss_bytes: Column  # at the end of forward, B
    backward_bytes: Column  # in the first layer of backward, B
    gradients_bytes: Column  # at the end of backward, B
    update_bytes: Column  # in the optimizer's update, B


@dataclass(frozen=True, slots=True)
class ActivationParts(Columns):
    """Parts of the activations at the peak, bytes."""

    kept_bytes: Column  # activations kept for backward, B
    working_bytes: Column  # memory of the layer or norm at work, B
    logits_bytes: Column  # logits and loss, B
    gathered_bytes: Column  # gathered weights and 16-bit copies, B
    update_bytes: Column  # temporary memory of the optimizer's update, B


@dataclass(frozen=True, slots=True)
class Peak(Columns):
    """Memory parts that depend on the peak moment, and the moment itself as an index into MOMENTS."""

    gradient_bytes: Column  # gradients at the peak, B
    activation_bytes: Column  # activations at the peak, B
    overhead_bytes: Column  # context, collective buffers and fragmentation, B
    moment: Codes  # index into MOMENTS


@formula(unit="B", source="traced steps of PyTorch 2.15")
def at_loss_bytes(parts: MemoryParts) -> Column:
    """Gradients and activations at the end of forward.

    Check: 1 GB of persistent gradients, 10 GB of activations, 4 GB of loss.
        >>> lasting = row(lasting_gradient_bytes=col(1e9), kept_bytes=col(10e9), logits_bytes=col(3e9))
        >>> at_loss_bytes(row(**vars(lasting), last_norm_bytes=0.2e9, loss_gathered_bytes=0.8e9)).tolist()
        [15000000000.0]
    """
    loss = parts.logits_bytes + parts.last_norm_bytes + parts.loss_gathered_bytes
    return parts.lasting_gradient_bytes + parts.kept_bytes + loss


@formula(unit="B", source="traced steps of PyTorch 2.15")
def in_backward_bytes(parts: MemoryParts) -> Column:
    """Gradients and activations in the first layer of backward: nothing is freed yet, and the layer is recomputed.

    Check: 1 GB of persistent gradients, 1 GB of the head's, 10 GB of activations, 2 GB of the layer.
        >>> gradients = row(lasting_gradient_bytes=col(1e9), head_gradient_bytes=col(1e9))
        >>> parts = row(**vars(gradients), kept_bytes=col(10e9), working_bytes=col(2e9), backward_gathered_bytes=0)
        >>> in_backward_bytes(parts).tolist()
        [14000000000.0]
    """
    gradients = parts.lasting_gradient_bytes + parts.head_gradient_bytes
    return gradients + parts.kept_bytes + parts.working_bytes + parts.backward_gathered_bytes


@formula(unit="B", source="traced steps of PyTorch 2.15")
def at_gradients_bytes(parts: MemoryParts) -> Column:
    """Gradients and remaining activations at the end of backward.

    Check: 16 GB of gradients, 1 GB of the first layer.
        >>> at_gradients_bytes(row(gradient_bytes=col(16e9), last_bytes=col(1e9))).tolist()
        [17000000000.0]
    """
    return parts.gradient_bytes + parts.last_bytes


@formula(unit="B", source="traced steps of PyTorch 2.15")
def in_update_bytes(parts: MemoryParts) -> Column:
    """Gradients and temporary copies in the optimizer's update.

    Check: 16 GB of gradients, 4 GB of copies.
        >>> in_update_bytes(row(gradient_bytes=col(16e9), update_bytes=col(4e9))).tolist()
        [20000000000.0]
    """
    return parts.gradient_bytes + parts.update_bytes


@formula(unit="B", source="definition")
def peak_bytes(
    at_loss_bytes: Column, in_backward_bytes: Column, at_gradients_bytes: Column, in_update_bytes: Column
) -> Column:
    """Gradients and activations at the highest of the four moments.

    Check: 15, 14, 17 and 20 GB.
        >>> peak_bytes(col(15e9), col(14e9), col(17e9), col(20e9)).tolist()
        [20000000000.0]
    """
    forward = np.maximum(at_loss_bytes, in_backward_bytes)
    return np.maximum(forward, np.maximum(at_gradients_bytes, in_update_bytes))


@formula(unit="B", source="definition")
def activations_at_peak_bytes(peak_bytes: Column, gradients_at_peak_bytes: Column) -> Column:
    """Part of the peak that is not gradients.

    Parameters:
        gradients_at_peak_bytes: gradients at the peak, bytes.
    Check: a peak of 20 GB with 16 GB of gradients.
        >>> activations_at_peak_bytes(col(20e9), col(16e9)).tolist()
        [4000000000.0]
    """
    return peak_bytes - gradients_at_peak_bytes


@formula(unit="B", source="AIConfigurator's memory tables: 342 to 392 MB per NCCL communicator")
def collective_buffer_bytes(parts: MemoryParts, factors: TrainingMemoryFactors) -> Column:
    """Buffers of collectives: one communicator per group of ranks.

    AIConfigurator's tables have 0, 342 and 392 MB for one group of 1, 2, and 4 or 8 ranks.

    Check: three groups of 392 MB.
        >>> collective_buffer_bytes(row(communicators=col(3)), row(training_collective_bytes=392e6)).tolist()
        [1176000000.0]
    """
    return parts.communicators * factors.training_collective_bytes


@formula(unit="B", source="definition; the allocator's share is fitted to published peaks")
def overhead_bytes(peak_bytes: Column, collective_buffer_bytes: Column, factors: TrainingMemoryFactors) -> Column:
    """Runtime context, collective buffers and allocator fragmentation; the fragmentation is fitted to published peaks.

    Check: 1 GB of context, 0.4 GB of buffers and 5 % of 20 GB.
        >>> fitted = row(training_context_bytes=1e9, training_fragmentation_fraction=0.05)
        >>> overhead_bytes(col(20e9), col(0.4e9), fitted).tolist()
        [2400000000.0]
    """
    slack = factors.training_fragmentation_fraction * peak_bytes
    return factors.training_context_bytes + collective_buffer_bytes + slack


def bytes_at_moments(parts: MemoryParts) -> Moments:
    """Return gradients and activations at each of the four moments."""
    return Moments(at_loss_bytes(parts), in_backward_bytes(parts), at_gradients_bytes(parts), in_update_bytes(parts))


def gradient_bytes_at(parts: MemoryParts, moment: Codes) -> Column:
    lasting = parts.lasting_gradient_bytes
    begun = np.where(moment == BACKWARD, lasting + parts.head_gradient_bytes, lasting)
    return np.where(moment >= GRADIENTS, parts.gradient_bytes, begun)


def activation_parts_at(parts: MemoryParts, moment: Codes) -> ActivationParts:
    forward = moment <= BACKWARD
    working = np.where(moment == LOSS, parts.last_norm_bytes, np.where(forward, parts.working_bytes, parts.last_bytes))
    gathered = np.where(moment == LOSS, parts.loss_gathered_bytes, parts.backward_gathered_bytes)
    return ActivationParts(
        kept_bytes=np.where(forward, parts.kept_bytes, 0.0),
        working_bytes=np.where(moment == UPDATE, 0.0, working),
        logits_bytes=np.where(moment == LOSS, parts.logits_bytes, 0.0),
        gathered_bytes=np.where(forward, gathered, 0.0),
        update_bytes=np.where(moment == UPDATE, parts.update_bytes, 0.0),
    )


def total_bytes_at_moments(parts: MemoryParts, factors: TrainingMemoryFactors) -> Moments:
    """Return the whole memory of an accelerator at each of the four moments, context and fragmentation included."""
    states, moments = parts.weights_bytes + parts.optimizer_bytes, bytes_at_moments(parts)
    each = (moments.loss_bytes, moments.backward_bytes, moments.gradients_bytes, moments.update_bytes)
    buffers = collective_buffer_bytes(parts, factors)
    return Moments(*(states + m + overhead_bytes(m, buffers, factors) for m in each))


def find_peak(parts: MemoryParts, factors: TrainingMemoryFactors) -> Peak:
    """Return the highest of the four moments and its memory parts."""
    moments = bytes_at_moments(parts)
    every = (moments.loss_bytes, moments.backward_bytes, moments.gradients_bytes, moments.update_bytes)
    highest = peak_bytes(*every)
    late = np.where(highest == every[GRADIENTS], GRADIENTS, UPDATE)
    moment = np.where(highest == every[LOSS], LOSS, np.where(highest == every[BACKWARD], BACKWARD, late))
    gradients = gradient_bytes_at(parts, moment)
    return Peak(
        gradient_bytes=gradients,
        activation_bytes=activations_at_peak_bytes(highest, gradients),
        overhead_bytes=overhead_bytes(highest, collective_buffer_bytes(parts, factors), factors),
        moment=moment,
    )


@dataclass(frozen=True, slots=True)
class TrainingMemory(Columns):
    """Bytes on the fullest accelerator at its peak moment. The parts add up to `total_bytes`."""

    weights_bytes: Column  # weights, B
    gradient_bytes: Column  # gradients, B
    optimizer_bytes: Column  # optimizer states, B
    activation_bytes: Column  # activations, logits and temporary memory, B
    overhead_bytes: Column  # context, collective buffers and fragmentation, B
    capacity_bytes: Column  # memory of the accelerator, B
    usable_bytes: Column  # memory that training may fill, B
    host_bytes: Column  # states, weights and activations in host memory, B per machine
    moment: Codes  # moment of the peak, index into MOMENTS

    @property
    def total_bytes(self) -> Column:
        """Sum of the parts, bytes."""
        return memory_bytes_per_accelerator(
            self.weights_bytes, self.gradient_bytes, self.optimizer_bytes, self.activation_bytes, self.overhead_bytes
        )

    @property
    def fits(self) -> Mask:
        """Whether the sum fits in the usable memory."""
        return self.total_bytes <= self.usable_bytes


@formula(unit="B", source="sum of the parts")
def memory_bytes_per_accelerator(
    weights_bytes: Column,
    gradients_at_peak_bytes: Column,
    optimizer_bytes: Column,
    activations_at_peak_bytes: Column,
    overhead_bytes: Column,
) -> Column:
    """Memory of the fullest accelerator at its peak moment.

    Parameters:
        gradients_at_peak_bytes: gradients at the peak, bytes.
        optimizer_bytes: optimizer states, bytes.
    Check: 16 GB of weights, 16 of gradients, 12 of states, 20 of activations and 2 of overhead.
        >>> memory_bytes_per_accelerator(col(16e9), col(16e9), col(12e9), col(20e9), col(2e9)).tolist()
        [66000000000.0]
    """
    return weights_bytes + gradients_at_peak_bytes + optimizer_bytes + activations_at_peak_bytes + overhead_bytes


@formula(unit="B", source="Rajbhandari et al. 2020 (arXiv:1910.02054); Hu et al. 2021 (arXiv:2106.09685)")
def share_weights_bytes(held_params: Column, params: ParamBytes, wide_params: Column, adapter_params: Column) -> Column:
    """Weights of one accelerator's share: base weights, plus adapters where they are trained.

    Parameters that k-bit preparation converts to FP32 take two more bytes each.

    Parameters:
        wide_params: parameters that k-bit preparation converts to FP32.
        adapter_params: adapter parameters that the accelerator holds.
    Check: 8e9 parameters in NF4 at 0.57 bytes, 1e9 of them widened, and 40e6 FP32 adapter parameters.
        >>> share_weights_bytes(col(8e9), row(weights=0.57, adapters=4.0), col(1e9), col(40e6)).tolist()
        [6720000000.0]
    """
    return held_params * params.weights + wide_params * BYTES_16_BIT + adapter_params * params.adapters


@formula(unit="B", source="definition")
def weights_bytes(share_weights_bytes: Column, host_weights_bytes: Column) -> Column:
    """Weights in the accelerator's own memory.

    Parameters:
        host_weights_bytes: part of them in host memory, bytes.
    Check: offloaded weights leave nothing.
        >>> weights_bytes(col(16e9, 16e9), col(0, 16e9)).tolist()
        [16000000000.0, 0.0]
    """
    return share_weights_bytes - host_weights_bytes


@formula(unit="B", source="Rajbhandari et al. 2020 (arXiv:1910.02054), section 3.1")
def optimizer_state_bytes(updated_params: Column, params: ParamBytes) -> Column:
    """Optimizer states of the parameters that one accelerator updates.

    Parameters:
        updated_params: parameters that the optimizer of one accelerator updates.
    Check: AdamW with a master copy, 8e9 parameters over 64 ranks.
        >>> optimizer_state_bytes(col(8e9 / 64), row(states=12.0)).tolist()
        [1500000000.0]
    """
    return updated_params * params.states


@formula(
    unit="B",
    source="Rajbhandari et al. 2020 (arXiv:1910.02054); Lv et al. 2023 (arXiv:2306.09782) for updates in backward",
)
def formed_gradient_bytes(trained_params: Column, params: ParamBytes) -> Column:
    """Gradients that one accelerator holds at the end of backward; 0 where the optimizer updates during backward.

    Parameters:
        trained_params: trained parameters that the accelerator holds.
    Check: 8e9 parameters in 16 bit, with the update after and during backward.
        >>> formed_gradient_bytes(col(8e9), row(in_backward=np.array([False, True]), gradients=2.0)).tolist()
        [16000000000.0, 0.0]
    """
    return np.where(params.in_backward, 0.0, trained_params * params.gradients)


@formula(unit="B", source=TRACED)
def last_gradients_bytes(
    counts: Counts,
    plans: TrainingPlans,
    gathers: Mask,
    accumulates: Mask,
    end_params_per_rank: Column,
    layer_params_per_rank: Column,
    end_gathered_bytes: Column,
    data_group: Column,
    stream_bytes: Column,
    params: ParamBytes,
    recipe: Recipe,
) -> Column:
    """Memory in addition to all gradients when backward computes the last one, the embedding's.

    A tied embedding and head needs three gradients. A gradient that is added to a sum exists twice. Shards are
    reduce-scattered in FP32; those of a tied embedding while gathered weights are still in memory. Where the
    optimizer updates during backward, only one unit's gradient exists.

    Parameters:
        gathers: whether weights are gathered from other ranks (ZeRO-3).
        accumulates: whether gradients persist and are summed over micro-batches.
        end_gathered_bytes: weights still gathered at the end of backward, bytes.
    Check: Llama-3.1-8B: first pass, and accumulation, which adds the embedding's gradient of 1.05 GB.
        >>> layout, accumulates, zero = row(tensor_parallel=col(1)), np.array([False, True]), col(0, 0)
        >>> widths, no = row(in_backward=zero > 0, gradients=2.0, ends=2.0), zero > 0
        >>> sizes = (col(1.05e9), col(0.2e9), zero, col(1), zero)
        >>> last_gradients_bytes(
        ...     PRETRAIN_COUNTS, layout, no, accumulates, *sizes, widths, PRETRAIN_COUNTS.recipe
        ... ).tolist()
        [0.0, 1050673152.0]
    """
    tied = 2 * recipe.element_bytes * counts.tied_params / plans.tensor_parallel
    added = np.where(accumulates, recipe.element_bytes * counts.embedding_params / plans.tensor_parallel, tied)
    unit = np.maximum(end_params_per_rank, layer_params_per_rank) * params.gradients
    whole = np.where(params.in_backward, unit + tied, added)
    reduced = end_params_per_rank * (params.ends + BYTES_32_BIT)
    to_come = np.where(accumulates, 0.0, end_params_per_rank * params.gradients / data_group)
    shared = np.where(counts.tied_params > 0, end_gathered_bytes + 1.5 * tied - to_come, 0.0)
    trained = np.where(gathers, np.maximum(reduced, shared), whole)
    return stream_bytes + np.where(recipe.frozen, 0.0, trained)


@formula(unit="B", source=TRACED)
def last_layer_bytes(
    gathers: Mask,
    accumulates: Mask,
    end_params_per_rank: Column,
    layer_params_per_rank: Column,
    micro: MicroBatchMemory,
    params: ParamBytes,
    recipe: Recipe,
) -> Column:
    """Memory in addition to all gradients while backward runs the first layer.

    This is the layer's activations, less the gradients that do not exist yet. With ZeRO-3 it also holds the layer's
    whole gradient, and the previous one being reduce-scattered in FP32.

    Parameters:
        gathers: whether weights are gathered from other ranks (ZeRO-3).
        accumulates: whether gradients persist and are summed over micro-batches.
    Check: activations of 2 GB; 0.2e9 parameters in the layer and 1e9 at the ends, with accumulated gradients, then
        sharded.
        >>> widths = row(in_backward=np.array([False]), gradients=2.0)
        >>> micro = row(layer_bytes=col(1.5e9), working_bytes=col(0.5e9))
        >>> sharded, accumulates = np.array([False, True]), np.array([True, True])
        >>> recipe, sizes = PRETRAIN_COUNTS.recipe, (col(1e9), col(0.2e9))
        >>> last_layer_bytes(sharded, accumulates, *sizes, micro, widths, recipe).tolist()
        [2000000000.0, 3200000000.0]
    """
    layer = micro.layer_bytes + micro.working_bytes
    coming = (layer_params_per_rank + end_params_per_rank / 2) * params.gradients
    alone = np.where(params.in_backward, layer_params_per_rank * params.gradients, np.where(accumulates, 0.0, -coming))
    reduced = layer_params_per_rank * (recipe.element_bytes + BYTES_32_BIT)
    trained = np.where(gathers, reduced, alone)
    return layer + np.where(recipe.frozen, 0.0, trained)


@formula(unit="B", source="definition")
def last_bytes(last_gradients_bytes: Column, last_layer_bytes: Column, end_gathered_bytes: Column) -> Column:
    """Peak memory in addition to all gradients at the end of backward.

    Parameters:
        end_gathered_bytes: weights still gathered at the end of backward, bytes.
    Check: 1 GB at the last gradient; 0.5 GB in the layer with 0.8 GB of gathered weights.
        >>> last_bytes(col(1e9), col(0.5e9), col(0.8e9)).tolist()
        [1300000000.0]
    """
    return np.maximum(last_gradients_bytes, last_layer_bytes + end_gathered_bytes)


@formula(unit="B", source="PyTorch's documentation of `foreach`; traced steps of PyTorch 2.15")
def update_bytes(
    counts: Counts, plans: TrainingPlans, updated_params: Column, data_group: Column, params: ParamBytes, recipe: Recipe
) -> Column:
    """Temporary memory of the optimizer's update: a copy of what it updates at once, or one matrix.

    Adafactor takes 16 bytes per element of a matrix.

    Parameters:
        updated_params: parameters that the optimizer of one accelerator updates.
    Check: 8e9 parameters: `foreach` copies 4 bytes of each, a fused kernel none.
        >>> widths = row(update=col(4, 0), in_backward=np.zeros(2) > 0, on_host=np.zeros(2) > 0)
        >>> plans = row(tensor_parallel=1, zero_stage=col(0, 0), optimizer_offload=np.zeros(2) > 0)
        >>> update_bytes(PRETRAIN_COUNTS, plans, col(8e9), col(1), widths, PRETRAIN_COUNTS.recipe).tolist()
        [32000000000.0, 0.0]
    """
    matrix = counts.largest_matrix_params / (plans.tensor_parallel * np.where(plans.zero_stage >= 3, data_group, 1.0))
    at_once = updated_params * params.update
    one = np.minimum(matrix, updated_params) * recipe.matrix_update_bytes_per_param
    stepped = np.where(recipe.matrix_update_bytes_per_param > 0, one, at_once)
    return np.where(params.in_backward | params.on_host | plans.optimizer_offload, 0.0, stepped)


def count_memory_parts(
    counts: Counts,
    plans: TrainingPlans,
    rank: RankParams,
    groups: RankGroups,
    micro: MicroBatchMemory,
    assumed: Assumptions,
) -> MemoryParts:
    """Return every memory part of an accelerator, before context and fragmentation.

    ZeRO shards states over the ranks that share them, by stage. The first pipeline stage holds the activations of as
    many micro-batches as there are stages; the last stage computes the logits.
    """
    recipe, params = counts.recipe, plans.kept_bytes(counts).params
    states = _resident_states(counts, plans, rank, groups, params)
    gathers = (plans.zero_stage >= 3) & ((groups.data_group > 1) | plans.parameter_offload)
    accumulates = ((groups.micro_batches > 1) | params.lasting) & ~params.in_backward
    first_stage, last_stage = _in_flight_at_ends(micro, groups)
    kept = in_flight_bytes(micro.activation_bytes, first_stage)
    with trace_label("offloaded"):
        beyond = in_flight_bytes(micro.offloaded_bytes, first_stage)
    with trace_label("last stage"):
        at_last = in_flight_bytes(micro.activation_bytes, last_stage)
    ends, layer = end_params_per_rank(counts, plans), layer_params_per_rank(counts, plans, rank.expert_shards)
    framework, group, casts = plans.stack.recipe, groups.data_group, cast_bytes(counts, plans, params)
    stays = stays_whole(gathers, plans)
    unit = gathered_unit_params(layer, counts.largest_matrix_params, plans.tensor_parallel, framework.live_params)
    at_loss, in_backward, at_end = _gathered_at_moments(plans, gathers, stays, rank, ends, unit, params)
    with trace_label("gradients of the stage"):
        whole_gradients = whole_bytes(stays & accumulates, rank.trained_dense + rank.trained_routed, params.gradients)
    whole = last_gradients_bytes(
        counts, plans, gathers, accumulates, ends, layer, at_end, group, micro.stream_bytes, params, recipe
    )
    first = last_layer_bytes(gathers, accumulates, ends, layer, micro, params, recipe)
    head, host, buckets = micro.loss.head_gradient_bytes, states.host, _gradient_buckets(plans, rank, groups, params)
    return MemoryParts(
        weights_bytes=states.weights_bytes,
        optimizer_bytes=states.optimizer_bytes,
        host_bytes=host_bytes_per_machine(
            host, beyond, groups.accelerators, plans.accelerators_per_node, assumed.host_process_gib * GIB
        ),
        gradient_bytes=states.gradient_bytes + buckets,
        lasting_gradient_bytes=np.maximum(np.where(accumulates, states.gradient_bytes, 0.0), whole_gradients) + buckets,
        head_gradient_bytes=np.where(accumulates, 0.0, head),
        kept_bytes=kept,
        logits_bytes=loss_beyond_bytes(micro, micro.loss.logits_bytes, at_last, kept),
        last_norm_bytes=micro.loss.norm_bytes,
        working_bytes=micro.working_bytes,
        last_bytes=last_bytes(whole, first, at_end),
        loss_gathered_bytes=at_loss + casts + head_cast_bytes(counts, plans, framework, params, recipe),
        backward_gathered_bytes=in_backward + casts,
        update_bytes=update_bytes(counts, plans, groups.updated_params, group, params, recipe),
        communicators=communicators(plans, groups),
    )


def _gathered_at_moments(
    plans: TrainingPlans, gathers: Mask, stays: Mask, rank: RankParams, ends: Column, unit: Column, params: ParamBytes
) -> tuple[Column, Column, Column]:
    """Return the gathered weights at the loss, in backward and at the end of backward, bytes."""
    framework, held = plans.stack.recipe, rank.dense + rank.routed
    live = live_bytes(gathers, held, framework.live_params)
    with trace_label("weights of the stage"):
        stage = whole_bytes(stays, held, params.gathered)
    live = np.maximum(live, stage)
    with trace_label("loss"):
        at_loss = np.maximum(live, gathered_bytes(gathers, ends, unit, np.ones(len(plans)), params))
    with trace_label("backward"):
        in_backward = np.maximum(live, gathered_bytes(gathers, ends, unit, framework.gathered_units + 1, params))
    with trace_label("end of backward"):
        at_end = np.maximum(stage, gathered_bytes(gathers, ends, unit, framework.gathered_units, params))
    return at_loss, in_backward, at_end


@formula(unit="groups", source="definition")
def communicators(plans: TrainingPlans, groups: RankGroups) -> Column:
    """Groups of ranks in which one accelerator communicates: data, tensor, pipeline, context and expert parallelism.

    Check: tensor parallel 8, and data parallel 16 on four pipeline stages.
        >>> degrees = row(tensor_parallel=col(8, 1), pipeline_parallel=col(1, 4), context_parallel=col(1, 1))
        >>> plans = row(**vars(degrees), expert_parallel=col(1, 1))
        >>> communicators(plans, row(data_group=col(1, 16))).tolist()
        [1.0, 2.0]
    """
    split = np.where(plans.tensor_parallel > 1, 1.0, 0.0) + np.where(plans.pipeline_parallel > 1, 1.0, 0.0)
    split = split + np.where(plans.context_parallel > 1, 1.0, 0.0) + np.where(plans.expert_parallel > 1, 1.0, 0.0)
    return split + np.where(groups.data_group > plans.context_parallel, 1.0, 0.0)


def _gradient_buckets(plans: TrainingPlans, rank: RankParams, groups: RankGroups, params: ParamBytes) -> Column:
    """Gradient buckets of whole replicas, and of shards where the framework reduces those in buckets too."""
    recipe, whole = plans.stack.recipe, (rank.trained_dense + rank.trained_routed) * params.gradients
    exchanges = (groups.data_group > 1) & ((plans.zero_stage == 0) | (recipe.live_params > 0))
    return gradient_bucket_bytes(recipe.bucket_bytes, whole, exchanges)


def _in_flight_at_ends(micro: MicroBatchMemory, groups: RankGroups) -> tuple[Column, Column]:
    """Return the micro-batches that the first and the last stage hold."""
    stages, chunks = micro.stages, micro.virtual_pipeline
    with trace_label("first stage"):
        first = micro_batches_in_flight(groups.micro_batches, stages, chunks, np.zeros(len(stages)))
    with trace_label("last stage"):
        last = micro_batches_in_flight(groups.micro_batches, stages, chunks, stages - 1)
    return first, last


@dataclass(frozen=True, slots=True)
class _ResidentStates(Columns):
    """States that stay on an accelerator from step to step, and the part of its share in host memory."""

    weights_bytes: Column  # weights, B
    gradient_bytes: Column  # gradients, B
    optimizer_bytes: Column  # optimizer states, B
    host: HostBytes  # part of the share in host memory


def _resident_states(
    counts: Counts, plans: TrainingPlans, rank: RankParams, groups: RankGroups, params: ParamBytes
) -> _ResidentStates:
    """Return weights, gradients and optimizer states of an accelerator's share."""
    recipe, dense, routed = counts.recipe, groups.data_group, groups.expert_group
    trained_dense, trained_routed = rank.trained_dense, rank.trained_routed
    with trace_label("weights"):
        held = held_params(rank.dense, rank.routed, plans.zero_stage >= 3, dense, routed)
    with trace_label("gradients"):
        trained = held_params(trained_dense, trained_routed, plans.zero_stage >= 2, dense, routed)
    adapters = wide = np.zeros(len(plans))
    if recipe.frozen:
        with trace_label("adapters"):
            adapters = held_params(trained_dense, trained_routed, plans.zero_stage >= 3, dense, routed)
        wide = np.where(params.widened, held * counts.unquantised_share, 0.0)
    weights, states = (
        share_weights_bytes(held, params, wide, adapters),
        optimizer_state_bytes(groups.updated_params, params),
    )
    gradients = formed_gradient_bytes(trained, params)
    copies = plans.stack.recipe.gradients == GRADIENTS_COPIED
    host = offloaded_bytes(plans, weights - adapters * params.adapters, gradients, states, groups, copies)
    host = replace(host, state_bytes=np.where(params.on_host, states, host.state_bytes))
    return _ResidentStates(
        weights_bytes(weights, host.host_weights_bytes),
        gradients - host.gradient_bytes,
        states - host.state_bytes,
        host,
    )


@formula(unit="B", source="definition; the share is an assumption")
def usable_bytes(capacity_bytes: Column, share: Column) -> Column:
    """Memory that training may fill.

    Parameters:
        capacity_bytes: memory of the accelerator, bytes.
        share: assumed share that training may fill.
    Check: 90 % of 80 GB.
        >>> usable_bytes(col(80e9), col(0.9)).tolist()
        [72000000000.0]
    """
    return capacity_bytes * share


def usable_share(plans: TrainingPlans, assumed: Assumptions) -> Column:
    """Return the share of memory that training may fill; with unified memory the operating system keeps a part."""
    unified = plans.machine.unified_memory
    share = np.full(len(plans), assumed.training_memory_margin)
    return np.where(unified, assumed.unified_memory_fraction, share) if unified.any() else share


def training_memory(
    counts: Counts,
    plans: TrainingPlans,
    rank: RankParams,
    groups: RankGroups,
    micro: MicroBatchMemory,
    assumed: Assumptions,
) -> TrainingMemory:
    """Return the memory at the peak moment of a step, and how much of the accelerator may be used."""
    return memory_at_peak(plans, count_memory_parts(counts, plans, rank, groups, micro, assumed), assumed)


def memory_at_peak(plans: TrainingPlans, parts: MemoryParts, assumed: Assumptions) -> TrainingMemory:
    """Return the memory at the peak moment of a step, from its parts."""
    peak, capacity = find_peak(parts, plans.stack.memory_factors), plans.node.memory_bytes
    return TrainingMemory(
        weights_bytes=parts.weights_bytes,
        gradient_bytes=peak.gradient_bytes,
        optimizer_bytes=parts.optimizer_bytes,
        activation_bytes=peak.activation_bytes,
        overhead_bytes=peak.overhead_bytes,
        capacity_bytes=capacity,
        usable_bytes=usable_bytes(capacity, usable_share(plans, assumed)),
        host_bytes=parts.host_bytes,
        moment=peak.moment,
    )


def estimate_training_memory(
    counts: Counts, plans: TrainingPlans, data_parallel: Column, assumed: Assumptions
) -> tuple[MemoryParts, TrainingMemory]:
    """Return the memory parts, and the memory at the peak, of plans at a data-parallel degree."""
    rank = rank_params(counts, plans)
    spread, micro = rank_groups(counts, plans, rank, data_parallel), micro_batch_memory(counts, plans, assumed)
    held = count_memory_parts(counts, plans, rank, spread, micro, assumed)
    return held, memory_at_peak(plans, held, assumed)


def memory_scale(plans: TrainingPlans, memory: TrainingMemory) -> Column:
    """Return how much wider the uncertainty of each plan's memory is than that of memory counted to the byte."""
    margins = plans.stack.margins
    counted = memory.weights_bytes + memory.gradient_bytes + memory.optimizer_bytes
    return margins.memory.relative_spread(
        memory_neighbourhood(counted, memory.total_bytes, margins.recipe_known, margins.widened)
    )


def memory_factor(plans: TrainingPlans, memory: TrainingMemory, confidence: float) -> Column:
    """Return the factor on each plan's predicted memory that covers a confidence."""
    return plans.stack.margins.memory.error_factor(confidence, memory_scale(plans, memory))


def allowed_bytes(plans: TrainingPlans, memory: TrainingMemory) -> Column:
    """Return the largest prediction that is accepted, bytes.

    The usable memory already has a reserve. The uncertainty is therefore compared with the capacity of the whole
    device, and does not add to the reserve. Below an even chance, no reserve is kept.
    """
    asked = plans.stack.margins.asked
    allowed: Column = memory.capacity_bytes / memory_factor(plans, memory, asked)
    return allowed if asked < MEDIAN_CONFIDENCE else np.minimum(memory.usable_bytes, allowed)


def fits_at_confidence(plans: TrainingPlans, memory: TrainingMemory) -> Mask:
    fits: Mask = memory.total_bytes <= allowed_bytes(plans, memory)
    return fits


def fit_probability(plans: TrainingPlans, memory: TrainingMemory) -> Column:
    room = np.log(memory.capacity_bytes / memory.total_bytes)
    return plans.stack.margins.memory.probability_within(room, memory_scale(plans, memory))
