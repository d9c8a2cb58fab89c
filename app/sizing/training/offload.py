"""What lies in the host's memory while training: optimizer states, parameters, activations; what crosses PCIe."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Column, Columns, Mask
from app.sizing.formula import formula
from app.sizing.hardware.links import PCIE_BYTES_PER_S
from app.sizing.training.plans import TrainingPlans
from app.sizing.training.ranks import RankParams, Spread, held_params
from app.sizing.training.recipes import BYTES_32_BIT, Recipe


@dataclass(frozen=True, slots=True)
class OnHost(Columns):
    """Of one accelerator's share of the model what lies in the host's memory."""

    host_weights_bytes: Column
    gradient_bytes: Column  # that it does not keep itself
    state_bytes: Column
    stepped_bytes: Column  # 32-bit gradients that the host steps


def on_host(plans: TrainingPlans, weights: Column, gradients: Column, states: Column, spread: Spread) -> OnHost:
    """Weights leave in shards, and are gathered from the host layer by layer; gradients of states that are there leave
    as they form where they are sharded, else with the step.

    Source: Ren et al. 2021 (arXiv:2101.06840); Rajbhandari et al. 2021 (arXiv:2104.07857); PyTorch's CPUOffloadPolicy.
    """
    stepped = plans.optimizer_offload
    return OnHost(
        host_weights_bytes=np.where(plans.parameter_offload, weights, 0.0),
        gradient_bytes=np.where(stepped & (plans.zero_stage >= 2), gradients, 0.0),
        state_bytes=np.where(stepped, states, 0.0),
        stepped_bytes=np.where(stepped, spread.updated_params * BYTES_32_BIT, 0.0),
    )


@formula(unit="B", source="Rhu et al. 2016 (arXiv:1602.08124)")
def activations_on_host_bytes(plans: TrainingPlans, kept_bytes: Column, layers: Column, assumed: Assumptions) -> Column:
    """Kept activations that lie in the host's memory: all but those of layers on their way there or back.

    Source: Rhu et al. 2016 (arXiv:1602.08124); torchtune's OffloadActivations, Megatron's double buffering.
    Check: two of 32 layers stay.
        >>> moved = row(activation_offload=np.array([True, False]))
        >>> activations_on_host_bytes(moved, col(32e9, 32e9), col(32, 32), Assumptions()).tolist()
        [30000000000.0, 0.0]
    """
    share = np.maximum(0.0, 1.0 - assumed.offloaded_layers_near / layers)
    return np.where(plans.activation_offload, kept_bytes * share, 0.0)


@formula(unit="B", source="definition")
def host_bytes_per_machine(
    on_host: OnHost, offloaded_activation_bytes: Column, accelerators: Column, accelerators_per_node: Column
) -> Column:
    """Host memory of one machine for what its accelerators have there.

    Source: definition.
    Check: 12 bytes of states and 4 of gradients of 1e9 parameters each, of eight accelerators on two machines.
        >>> lying = row(host_weights_bytes=col(0), state_bytes=col(12e9), stepped_bytes=col(4e9))
        >>> host_bytes_per_machine(lying, col(0), col(8), col(4)).tolist()
        [64000000000.0]
    """
    each = on_host.host_weights_bytes + on_host.state_bytes + on_host.stepped_bytes + offloaded_activation_bytes
    return each * np.minimum(accelerators_per_node, accelerators)


@formula(unit="s", source="counted")
def activation_copy_s(plans: TrainingPlans, micro_batch_kept_bytes: Column) -> Column:
    """Seconds at PCIe's own rate that a micro-batch's activations take to the host and back.

    Source: counted.
    Check: 16 GB out and in.
        >>> activation_copy_s(row(activation_offload=np.array([True])), col(16e9)).tolist()
        [1.0]
    """
    return np.where(plans.activation_offload, 2.0 * micro_batch_kept_bytes / PCIE_BYTES_PER_S, 0.0)


@formula(unit="s", source="Rajbhandari et al. 2021 (arXiv:2104.07857)")
def shard_copy_s(shards_on_host: Mask, shard_params: Column, trained_shard_params: Column, recipe: Recipe) -> Column:
    """Seconds at PCIe's own rate of a micro-batch: a shard's weights in for forward and again for backward, its
    gradients out in 32 bit.

    Source: Rajbhandari et al. 2021 (arXiv:2104.07857), section 4.
    Check: 2e9 frozen parameters in 16 bit: 8 GB.
        >>> shard_copy_s(np.array([True]), col(2e9), col(0), row(gathered_bytes_per_param=2.0)).tolist()
        [0.25]
    """
    moved = 2.0 * shard_params * recipe.gathered_bytes_per_param + trained_shard_params * BYTES_32_BIT
    return np.where(shards_on_host, moved / PCIE_BYTES_PER_S, 0.0)


def parameter_copy_s(plans: TrainingPlans, rank: RankParams, spread: Spread, recipe: Recipe) -> Column:
    """Copies of a micro-batch where parameters lie in the host's memory; gradients of adapters stay."""
    sharded = plans.zero_stage >= 3
    held = held_params(rank.dense, rank.routed, sharded, spread.data_group, spread.expert_group)
    trained = np.zeros(len(plans)) if recipe.frozen else held
    return shard_copy_s(plans.parameter_offload, held, trained, recipe)
