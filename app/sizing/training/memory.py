"""Memory of one accelerator while it trains: what it holds by part, and the moment at which that is most."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Column, Columns, Mask
from app.sizing.formula import formula, told_as
from app.sizing.hardware.achieved import TrainingMemoryFactors
from app.sizing.training.activations import (
    MicroBatchMemory,
    in_flight_bytes,
    loss_beyond_bytes,
    micro_batch_memory,
    micro_batches_in_flight,
)
from app.sizing.training.counts import Counts
from app.sizing.training.offload import host_bytes_per_machine, on_host
from app.sizing.training.plans import TrainingPlans
from app.sizing.training.ranks import RankParams, Spread, held_params, rank_params, spread_of
from app.sizing.training.recipes import BYTES_32_BIT, Recipe


@dataclass(frozen=True, slots=True)
class TrainingMemory(Columns):
    """Bytes on the fullest accelerator at its peak moment. The parts sum to `total_bytes`."""

    weights_bytes: Column
    gradient_bytes: Column
    optimizer_bytes: Column
    activation_bytes: Column
    overhead_bytes: Column
    capacity_bytes: Column
    usable_bytes: Column
    host_bytes: Column  # of what lies in host memory, per machine
    peaks_in_update: Mask  # in the optimizer's step; else at the end of forward

    @property
    def total_bytes(self) -> Column:
        return memory_bytes_per_accelerator(
            self.weights_bytes, self.gradient_bytes, self.optimizer_bytes, self.activation_bytes, self.overhead_bytes
        )

    @property
    def fits(self) -> Mask:
        return self.total_bytes <= self.usable_bytes


@formula(unit="B", source="sum of the parts")
def memory_bytes_per_accelerator(
    weights_bytes: Column,
    gradients_at_peak_bytes: Column,
    optimizer_bytes: Column,
    activations_at_peak_bytes: Column,
    overhead_bytes: Column,
) -> Column:
    """Everything on the fullest accelerator at its peak moment.

    Source: definition.
    """
    return weights_bytes + gradients_at_peak_bytes + optimizer_bytes + activations_at_peak_bytes + overhead_bytes


@dataclass(frozen=True, slots=True)
class HeldBytes(Columns):
    """What one accelerator holds, counted; nothing here depends on a fitted factor."""

    weights_bytes: Column
    gathered_bytes: Column  # of ZeRO-3: the layer in use and the one fetched ahead
    gradient_bytes: Column
    gradients_in_backward: Mask  # allocated in backward, not kept from step to step
    optimizer_bytes: Column
    host_bytes: Column
    in_flight_bytes: Column  # activations of all micro-batches in flight
    recomputed_bytes: Column
    loss_beyond_bytes: Column
    logits_chunk_bytes: Column
    update_bytes: Column  # temporaries of the optimizer's step
    communicates: Mask  # with other accelerators


@formula(unit="1", source="FSDP, mixed precision")
def own_master(plans: TrainingPlans, recipe: Recipe) -> Mask:
    """Whether weights are their own master copy: sharded, and trained in mixed precision by a framework that keeps
    them in 32 bit.

    Source: PyTorch FSDP's documentation of mixed precision.
    """
    return plans.sharded_master & (plans.zero_stage >= 3) & (recipe.mixed > 0)


@formula(unit="B", source="Rajbhandari et al. 2020 (arXiv:1910.02054)")
def weights_bytes(held_params: Column, own_master: Mask, adapter_params: Column, recipe: Recipe) -> Column:
    """Weights that one accelerator holds, adapters in 32 bit beside a frozen base.

    Source: Rajbhandari et al. 2020 (arXiv:1910.02054); Hu et al. 2021 (arXiv:2106.09685).
    """
    return (
        held_params * np.where(own_master, BYTES_32_BIT, recipe.base_bytes_per_param)
        + adapter_params * recipe.adapter_bytes_per_param
    )


@formula(unit="B", source="Rajbhandari et al. 2020 (arXiv:1910.02054)")
def optimizer_state_bytes(updated_params: Column, own_master: Mask, copies_gradients: Mask, recipe: Recipe) -> Column:
    """Master copy, moments, and where a framework keeps one a 32-bit copy of its shard's gradients.

    Source: Rajbhandari et al. 2020 (arXiv:1910.02054), section 3.1.
    Check: AdamW beside a master copy is 12 bytes, where weights are their own 8.
        >>> recipe = PRETRAIN_COUNTS.recipe
        >>> optimizer_state_bytes(col(1.0, 1.0), np.array([False, True]), np.array([False, False]), recipe)
        array([12.,  8.])
    """
    states = updated_params * (
        recipe.master_bytes_per_param + recipe.state_bytes_per_param - np.where(own_master, BYTES_32_BIT, 0.0)
    )
    return states + np.where(copies_gradients, updated_params * BYTES_32_BIT, 0.0)


@formula(unit="B", source="Hu et al. 2021 (arXiv:2106.09685)")
def adapter_state_bytes(adapter_params: Column, recipe: Recipe) -> Column:
    """States of adapters, which every replica keeps whole.

    Source: Hu et al. 2021 (arXiv:2106.09685).
    """
    return adapter_params * recipe.adapter_state_bytes_per_param


@formula(unit="B", source="Rajbhandari et al. 2020 (arXiv:1910.02054)")
def gradient_bytes(held_params: Column, own_master: Mask, plans: TrainingPlans, recipe: Recipe) -> Column:
    """Gradients that one accelerator holds: 32 bit where its weights are, or where the framework keeps them so.

    Source: Rajbhandari et al. 2020 (arXiv:1910.02054).
    """
    wide = own_master | (plans.fp32_gradients & (recipe.mixed > 0))
    return held_params * np.where(wide, BYTES_32_BIT, recipe.gradient_bytes_per_param)


@formula(unit="B", source="Hu et al. 2021 (arXiv:2106.09685)")
def adapter_gradient_bytes(adapter_params: Column, recipe: Recipe) -> Column:
    """Gradients of adapters, in 32 bit.

    Source: Hu et al. 2021 (arXiv:2106.09685).
    """
    return adapter_params * recipe.adapter_bytes_per_param


@formula(unit="B", source="Zhao et al. 2023 (arXiv:2304.11277)")
def gathered_bytes(
    shards_weights: Mask, plans: TrainingPlans, layer_params: float, largest_unit_params: float, recipe: Recipe
) -> Column:
    """ZeRO-3: the layer in use and the one fetched ahead, of which one may be an end of the model.

    Source: Zhao et al. 2023 (arXiv:2304.11277), section 4.3.
    """
    gathered = (layer_params + largest_unit_params) * recipe.layer_bytes_per_param / plans.tensor_parallel
    return np.where(shards_weights, gathered, 0.0)


def held_bytes(
    counts: Counts, plans: TrainingPlans, rank: RankParams, spread: Spread, micro: MicroBatchMemory
) -> HeldBytes:
    """Every part of an accelerator's memory, before workspaces and slack.

    States are sharded by ZeRO stage over the ranks that share them; the first pipeline stage holds
    the activations of as many micro-batches as there are stages, the last forms the logits.
    """
    recipe, dense, routed = counts.recipe, spread.data_group, spread.expert_group
    adapters, own = rank.trained_dense + rank.trained_routed, own_master(plans, recipe)
    copied = plans.copies_gradients | ~plans.flash_attention
    with told_as("weights"):
        weights = held_params(rank.dense, rank.routed, plans.zero_stage >= 3, dense, routed)
    if recipe.frozen:
        states, gradients = adapter_state_bytes(adapters, recipe), adapter_gradient_bytes(adapters, recipe)
    else:
        with told_as("gradients"):
            trained = held_params(rank.trained_dense, rank.trained_routed, plans.zero_stage >= 2, dense, routed)
        gradients = gradient_bytes(trained, own, plans, recipe)
        states = optimizer_state_bytes(spread.updated_params, own, copied & recipe.mixed, recipe)
    in_flight = micro_batches_in_flight(spread.micro_batches, micro)
    kept = in_flight_bytes(micro.activation_bytes, in_flight)
    whole = weights_bytes(weights, own, adapters, recipe)
    host = on_host(plans, whole - adapters * recipe.adapter_bytes_per_param, gradients, states, spread)
    beyond = in_flight_bytes(micro.offloaded_bytes, in_flight)
    ends = max(counts.embedding_params, counts.head_params)
    fused = plans.fused_modules | copied | plans.optimizer_offload
    return HeldBytes(
        weights_bytes=whole - host.weights_bytes,
        gathered_bytes=gathered_bytes(
            (plans.zero_stage >= 3) & ((dense > 1) | plans.parameter_offload),
            plans,
            counts.layer_params,
            float(max(counts.layer_params, ends)),
            recipe,
        ),
        gradient_bytes=gradients - host.gradient_bytes,
        gradients_in_backward=(spread.micro_batches <= 1) & ~plans.fused_modules,
        optimizer_bytes=states - host.state_bytes,
        host_bytes=host_bytes_per_machine(host, beyond, spread.accelerators, plans.accelerators_per_node),
        in_flight_bytes=kept,
        recomputed_bytes=micro.recomputed_bytes,
        loss_beyond_bytes=loss_beyond_bytes(micro, kept),
        logits_chunk_bytes=micro.logits_chunk_bytes,
        update_bytes=np.where(fused, 0.0, spread.updated_params * recipe.update_bytes_per_param),
        communicates=spread.accelerators > 1,
    )


@formula(unit="B", source="counted; factors of allocators and kernels are fitted")
def forward_bytes(held: HeldBytes, factors: TrainingMemoryFactors) -> Column:
    """Activations at the end of forward: what is kept, the larger of a layer's workspace and the loss, and weights
    gathered.

    Source: counted; factors are fitted to published peaks.
    """
    workspace = np.maximum(
        held.recomputed_bytes * factors.training_workspace_factor, held.loss_beyond_bytes * factors.training_loss_factor
    )
    kept = held.in_flight_bytes * factors.training_activation_factor
    return kept + np.maximum(workspace, held.logits_chunk_bytes) + held.gathered_bytes


@formula(unit="B", source="counted; factors of allocators and kernels are fitted")
def overhead_bytes(
    held: HeldBytes, gradients_at_peak_bytes: Column, activations_at_peak_bytes: Column, factors: TrainingMemoryFactors
) -> Column:
    """Runtime context, buffers of collectives, and what the allocator keeps beyond what is in use.

    Source: fitted to published peaks.
    """
    slack = factors.training_fragmentation_fraction * (
        held.optimizer_bytes + gradients_at_peak_bytes + activations_at_peak_bytes
    )
    buffers = np.where(held.communicates, factors.training_collective_bytes, 0.0)
    return factors.training_context_bytes + buffers + slack


@formula(unit="B", source="definition")
def gradients_at_peak_bytes(held: HeldBytes, forward_bytes: Column) -> Column:
    """Gradients at the peak moment: in the optimizer's step all of them, at the end of forward those that outlive a
    step.

    Source: definition.
    """
    kept = np.where(held.gradients_in_backward, 0.0, held.gradient_bytes)
    return np.where(held.gradient_bytes + held.update_bytes > kept + forward_bytes, held.gradient_bytes, kept)


@formula(unit="B", source="definition")
def activations_at_peak_bytes(held: HeldBytes, forward_bytes: Column) -> Column:
    """Activations at the peak moment: in the optimizer's step its temporaries in place of all of them.

    Source: definition.
    """
    kept = np.where(held.gradients_in_backward, 0.0, held.gradient_bytes)
    updating = held.gradient_bytes + held.update_bytes > kept + forward_bytes
    return np.where(updating, held.update_bytes, forward_bytes)


@dataclass(frozen=True, slots=True)
class Peak(Columns):
    """What differs at the peak moment."""

    gradient_bytes: Column
    activation_bytes: Column
    overhead_bytes: Column
    in_update: Mask


def peak_bytes(held: HeldBytes, factors: TrainingMemoryFactors) -> Peak:
    """The peak moment: the end of forward with every activation and the gradients that outlive a step, or the
    optimizer's step with the gradients whole and the update's temporaries.
    """
    forward = forward_bytes(held, factors)
    gradients, activations = gradients_at_peak_bytes(held, forward), activations_at_peak_bytes(held, forward)
    kept = np.where(held.gradients_in_backward, 0.0, held.gradient_bytes)
    late = held.gradient_bytes + held.update_bytes > kept + forward
    return Peak(gradients, activations, overhead_bytes(held, gradients, activations, factors), late)


@formula(unit="B", source="definition")
def usable_bytes(capacity_bytes: Column, share: Column) -> Column:
    """Memory that training may fill.

    Source: definition; the share is an assumption.
    """
    return capacity_bytes * share


def usable_share(plans: TrainingPlans, assumed: Assumptions) -> Column:
    """Share of memory that training may fill; the system has its part of unified memory."""
    unified = plans.machine.unified_memory
    share = np.full(len(plans), assumed.training_memory_margin)
    return np.where(unified, assumed.unified_memory_fraction, share) if unified.any() else share


def training_memory(
    counts: Counts,
    plans: TrainingPlans,
    rank: RankParams,
    spread: Spread,
    micro: MicroBatchMemory,
    assumed: Assumptions,
) -> TrainingMemory:
    """Memory at the peak moment of a step, against what may be used of the accelerator."""
    held = held_bytes(counts, plans, rank, spread, micro)
    peak = peak_bytes(held, plans.stack.memory_factors)
    capacity = plans.node.memory_bytes
    return TrainingMemory(
        weights_bytes=held.weights_bytes,
        gradient_bytes=peak.gradient_bytes,
        optimizer_bytes=held.optimizer_bytes,
        activation_bytes=peak.activation_bytes,
        overhead_bytes=peak.overhead_bytes,
        capacity_bytes=capacity,
        usable_bytes=usable_bytes(capacity, usable_share(plans, assumed)),
        host_bytes=held.host_bytes,
        peaks_in_update=peak.in_update,
    )


def memory_of(
    counts: Counts, plans: TrainingPlans, data_parallel: Column, assumed: Assumptions
) -> tuple[HeldBytes, TrainingMemory]:
    """(what is counted, memory at the peak) of a table at a data-parallel degree."""
    rank = rank_params(counts, plans)
    spread, micro = spread_of(counts, plans, rank, data_parallel), micro_batch_memory(counts, plans, assumed)
    held = held_bytes(counts, plans, rank, spread, micro)
    return held, training_memory(counts, plans, rank, spread, micro, assumed)
