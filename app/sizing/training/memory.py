"""Memory of one accelerator while it trains: what it holds by part, and the moment at which that is most."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Codes, Column, Columns, Mask
from app.sizing.formula import formula, told_as
from app.sizing.training.activations import (
    MicroBatchMemory,
    in_flight_bytes,
    loss_beyond_bytes,
    micro_batch_memory,
)
from app.sizing.training.buckets import gathered_unit_params, gradient_bucket_bytes, live_bytes
from app.sizing.training.counts import Counts
from app.sizing.training.gathered import (
    cast_bytes,
    end_params_per_rank,
    gathered_bytes,
    head_cast_bytes,
    layer_params_per_rank,
)
from app.sizing.training.layer import TRACED
from app.sizing.training.moments import HeldBytes, peak_of
from app.sizing.training.offload import OnHost, host_bytes_per_machine, on_host
from app.sizing.training.pipeline import micro_batches_in_flight
from app.sizing.training.plans import TrainingPlans
from app.sizing.training.ranks import RankParams, Spread, held_params, rank_params, spread_of
from app.sizing.training.recipes import BYTES_16_BIT, BYTES_32_BIT, Recipe
from app.sizing.training.widths import ParamBytes


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
    moment: Codes  # of the peak: a place in MOMENTS

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


@formula(unit="B", source="Rajbhandari et al. 2020 (arXiv:1910.02054)")
def weights_bytes(held_params: Column, params: ParamBytes, wide_params: Column, adapter_params: Column) -> Column:
    """Weights that one accelerator holds: a base and adapters beside it; what k-bit preparation widens has two bytes
    more.

    Source: Rajbhandari et al. 2020 (arXiv:1910.02054); Hu et al. 2021 (arXiv:2106.09685).
    """
    return held_params * params.weights + wide_params * BYTES_16_BIT + adapter_params * params.adapters


@formula(unit="B", source="Rajbhandari et al. 2020 (arXiv:1910.02054)")
def optimizer_state_bytes(updated_params: Column, params: ParamBytes) -> Column:
    """States of what one accelerator's optimizer steps.

    Source: Rajbhandari et al. 2020 (arXiv:1910.02054), section 3.1.
    """
    return updated_params * params.states


@formula(unit="B", source="Rajbhandari et al. 2020 (arXiv:1910.02054)")
def formed_gradient_bytes(trained_params: Column, params: ParamBytes) -> Column:
    """Gradients that one accelerator holds at the end of backward; none where the optimizer steps in backward.

    Source: Rajbhandari et al. 2020 (arXiv:1910.02054); Lv et al. 2023 (arXiv:2306.09782) for steps in backward.
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
    """Beside all gradients when the last of them, of the embedding, forms: one that is the head too has three; one that
    is added to a sum is there twice; shards are reduced in 32 bit, those of a tied end while what is gathered is still
    there; in a step within backward a unit's is all there is.

    Source: traced steps of PyTorch 2.15.
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
    """Beside all gradients while the first layer's form: its activations, less the gradients that are still to come; of
    shards the layer's whole gradient and the one before it on its way in 32 bit.

    Source: traced steps of PyTorch 2.15.
    """
    layer = micro.layer_bytes + micro.working_bytes
    coming = (layer_params_per_rank + end_params_per_rank / 2) * params.gradients
    alone = np.where(params.in_backward, layer_params_per_rank * params.gradients, np.where(accumulates, 0.0, -coming))
    reduced = layer_params_per_rank * (recipe.element_bytes + BYTES_32_BIT)
    trained = np.where(gathers, reduced, alone)
    return layer + np.where(recipe.frozen, 0.0, trained)


@formula(unit="B", source="definition")
def last_bytes(last_gradients_bytes: Column, last_layer_bytes: Column, end_gathered_bytes: Column) -> Column:
    """The most that there is beside all gradients at the end of backward.

    Source: definition.
    """
    return np.maximum(last_gradients_bytes, last_layer_bytes + end_gathered_bytes)


@formula(unit="B", source="PyTorch's optimizers")
def update_bytes(
    counts: Counts, plans: TrainingPlans, updated_params: Column, data_group: Column, params: ParamBytes, recipe: Recipe
) -> Column:
    """Temporaries of the optimizer's step: a copy of what it steps at once, or one matrix.

    Source: PyTorch's documentation of `foreach`; traced steps of PyTorch 2.15, Adafactor 16 bytes of a matrix.
    """
    matrix = counts.largest_matrix_params / (plans.tensor_parallel * np.where(plans.zero_stage >= 3, data_group, 1.0))
    at_once = updated_params * params.update
    one = np.minimum(matrix, updated_params) * recipe.matrix_update_bytes_per_param
    stepped = np.where(recipe.matrix_update_bytes_per_param > 0, one, at_once)
    return np.where(params.in_backward | params.on_host | plans.optimizer_offload, 0.0, stepped)


def held_bytes(
    counts: Counts, plans: TrainingPlans, rank: RankParams, spread: Spread, micro: MicroBatchMemory
) -> HeldBytes:
    """Every part of an accelerator's memory, before context and slack.

    States are sharded by ZeRO stage over the ranks that share them; the first pipeline stage holds
    the activations of as many micro-batches as there are stages, the last forms the logits.
    """
    recipe, params = counts.recipe, plans.keeping(counts).params
    states = _states(counts, plans, rank, spread, params)
    gathers = (plans.zero_stage >= 3) & ((spread.data_group > 1) | plans.parameter_offload)
    accumulates = ((spread.micro_batches > 1) | params.lasting) & ~params.in_backward
    first_stage, last_stage = _in_flight(micro, spread)
    kept = in_flight_bytes(micro.activation_bytes, first_stage)
    with told_as("offloaded"):
        beyond = in_flight_bytes(micro.offloaded_bytes, first_stage)
    with told_as("last stage"):
        at_last = in_flight_bytes(micro.activation_bytes, last_stage)
    ends, layer = end_params_per_rank(counts, plans), layer_params_per_rank(counts, plans, rank.expert_shards)
    framework, group, casts = plans.stack.recipe, spread.data_group, cast_bytes(counts, plans, params)
    live = live_bytes(gathers, rank.dense + rank.routed, framework.live_params)
    unit = gathered_unit_params(layer, counts.largest_matrix_params, plans.tensor_parallel, framework.live_params)
    with told_as("loss"):
        at_loss = np.maximum(live, gathered_bytes(gathers, ends, unit, np.ones(len(plans)), params))
    with told_as("backward"):
        in_backward = np.maximum(live, gathered_bytes(gathers, ends, unit, framework.gathered_units + 1, params))
    with told_as("end"):
        at_end = gathered_bytes(gathers, ends, unit, framework.gathered_units, params)
    whole = last_gradients_bytes(
        counts, plans, gathers, accumulates, ends, layer, at_end, group, micro.stream_bytes, params, recipe
    )
    first = last_layer_bytes(gathers, accumulates, ends, layer, micro, params, recipe)
    head, host, buckets = micro.loss.head_gradient_bytes, states.host, _buckets(plans, rank, spread, params)
    return HeldBytes(
        weights_bytes=states.weights_bytes,
        optimizer_bytes=states.optimizer_bytes,
        host_bytes=host_bytes_per_machine(host, beyond, spread.accelerators, plans.accelerators_per_node),
        gradient_bytes=states.gradient_bytes + buckets,
        lasting_gradient_bytes=np.where(accumulates, states.gradient_bytes, 0.0) + buckets,
        head_gradient_bytes=np.where(accumulates, 0.0, head),
        kept_bytes=kept,
        logits_bytes=loss_beyond_bytes(micro, micro.loss.logits_bytes, at_last, kept),
        last_norm_bytes=micro.loss.norm_bytes,
        working_bytes=micro.working_bytes,
        last_bytes=last_bytes(whole, first, at_end),
        loss_gathered_bytes=at_loss + casts + head_cast_bytes(counts, plans, framework, params, recipe),
        backward_gathered_bytes=in_backward + casts,
        update_bytes=update_bytes(counts, plans, spread.updated_params, group, params, recipe),
        communicators=communicators(plans, spread),
    )


@formula(unit="groups", source="counted")
def communicators(plans: TrainingPlans, spread: Spread) -> Column:
    """Groups of ranks that one accelerator talks in: of replicas, tensors, stages, sequences and experts.

    Source: counted.
    """
    split = np.where(plans.tensor_parallel > 1, 1.0, 0.0) + np.where(plans.pipeline_parallel > 1, 1.0, 0.0)
    split = split + np.where(plans.context_parallel > 1, 1.0, 0.0) + np.where(plans.expert_parallel > 1, 1.0, 0.0)
    return split + np.where(spread.data_group > plans.context_parallel, 1.0, 0.0)


def _buckets(plans: TrainingPlans, rank: RankParams, spread: Spread, params: ParamBytes) -> Column:
    """Buckets of gradients: of whole replicas, and of shards where these too are exchanged in buckets."""
    recipe, whole = plans.stack.recipe, (rank.trained_dense + rank.trained_routed) * params.gradients
    exchanges = (spread.data_group > 1) & ((plans.zero_stage == 0) | (recipe.live_params > 0))
    return gradient_bucket_bytes(recipe.bucket_bytes, whole, exchanges)


def _in_flight(micro: MicroBatchMemory, spread: Spread) -> tuple[Column, Column]:
    """Micro-batches that the first and the last stage hold."""
    stages, chunks = micro.stages, micro.virtual_pipeline
    with told_as("first stage"):
        first = micro_batches_in_flight(spread.micro_batches, stages, chunks, np.zeros(len(stages)))
    with told_as("last stage"):
        last = micro_batches_in_flight(spread.micro_batches, stages, chunks, stages - 1)
    return first, last


@dataclass(frozen=True, slots=True)
class _States(Columns):
    """What lies on an accelerator from step to step, and what of its share in host memory."""

    weights_bytes: Column
    gradient_bytes: Column
    optimizer_bytes: Column
    host: OnHost


def _states(counts: Counts, plans: TrainingPlans, rank: RankParams, spread: Spread, params: ParamBytes) -> _States:
    """Weights, gradients and states of an accelerator's share."""
    recipe, dense, routed = counts.recipe, spread.data_group, spread.expert_group
    trained_dense, trained_routed = rank.trained_dense, rank.trained_routed
    with told_as("weights"):
        held = held_params(rank.dense, rank.routed, plans.zero_stage >= 3, dense, routed)
    with told_as("gradients"):
        trained = held_params(trained_dense, trained_routed, plans.zero_stage >= 2, dense, routed)
    adapters = wide = np.zeros(len(plans))
    if recipe.frozen:
        with told_as("adapters"):
            adapters = held_params(trained_dense, trained_routed, plans.zero_stage >= 3, dense, routed)
        wide = np.where(params.widened, held * counts.unquantised_share, 0.0)
    weights, states = weights_bytes(held, params, wide, adapters), optimizer_state_bytes(spread.updated_params, params)
    gradients = formed_gradient_bytes(trained, params)
    host = on_host(plans, weights - adapters * params.adapters, gradients, states, spread)
    host = replace(host, state_bytes=np.where(params.on_host, states, host.state_bytes))
    return _States(weights - host.host_weights_bytes, gradients - host.gradient_bytes, states - host.state_bytes, host)


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
    return _at_peak(plans, held_bytes(counts, plans, rank, spread, micro), assumed)


def _at_peak(plans: TrainingPlans, held: HeldBytes, assumed: Assumptions) -> TrainingMemory:
    """What is held at the peak moment."""
    peak, capacity = peak_of(held, plans.stack.memory_factors), plans.node.memory_bytes
    return TrainingMemory(
        weights_bytes=held.weights_bytes,
        gradient_bytes=peak.gradient_bytes,
        optimizer_bytes=held.optimizer_bytes,
        activation_bytes=peak.activation_bytes,
        overhead_bytes=peak.overhead_bytes,
        capacity_bytes=capacity,
        usable_bytes=usable_bytes(capacity, usable_share(plans, assumed)),
        host_bytes=held.host_bytes,
        moment=peak.moment,
    )


def memory_of(
    counts: Counts, plans: TrainingPlans, data_parallel: Column, assumed: Assumptions
) -> tuple[HeldBytes, TrainingMemory]:
    """(what is counted, memory at the peak) of a table at a data-parallel degree."""
    rank = rank_params(counts, plans)
    spread, micro = spread_of(counts, plans, rank, data_parallel), micro_batch_memory(counts, plans, assumed)
    held = held_bytes(counts, plans, rank, spread, micro)
    return held, _at_peak(plans, held, assumed)
