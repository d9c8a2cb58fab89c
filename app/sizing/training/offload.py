"""Host offload of optimizer states, parameters and activations: bytes in host memory, and PCIe copy times."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Column, Columns, Mask
from app.sizing.formula import formula
from app.sizing.hardware.parts import PCIE_BYTES_PER_S
from app.sizing.training.plans import RankGroups, RankParams, TrainingPlans, held_params
from app.sizing.training.recipes import BYTES_32_BIT, Recipe


@dataclass(frozen=True, slots=True)
class HostBytes(Columns):
    """Bytes in host memory for one accelerator's share of the model."""

    host_weights_bytes: Column  # offloaded weights, bytes
    gradient_bytes: Column  # gradients that the accelerator does not keep, bytes
    state_bytes: Column  # optimizer states, bytes
    stepped_bytes: Column  # 32-bit gradients that the host's optimizer step reads, bytes
    copied_bytes: Column  # 16-bit gradients from which the host makes them, bytes


def offloaded_bytes(
    plans: TrainingPlans, weights: Column, gradients: Column, states: Column, spread: RankGroups, copies: Mask
) -> HostBytes:
    """Return the bytes that one accelerator keeps in host memory.

    Weights are offloaded in shards and gathered from the host layer by layer. If optimizer states are offloaded,
    sharded gradients move to the host as the backward pass produces them; other gradients move at the optimizer
    step. A framework that converts gradients there (`copies`) keeps both widths.

    Source: Ren et al. 2021 (arXiv:2101.06840); Rajbhandari et al. 2021 (arXiv:2104.07857); PyTorch's
    CPUOffloadPolicy; DeepSpeed's zero/stage3.py, grad_partitions_flat_buffer.
    """
    stepped = plans.optimizer_offload
    moved = np.where(stepped & (plans.zero_stage >= 2), gradients, 0.0)
    return HostBytes(
        host_weights_bytes=np.where(plans.parameter_offload, weights, 0.0),
        gradient_bytes=moved,
        state_bytes=np.where(stepped, states, 0.0),
        stepped_bytes=np.where(stepped, spread.updated_params * BYTES_32_BIT, 0.0),
        copied_bytes=np.where(copies, moved, 0.0),
    )


@formula(
    unit="B",
    source="Rhu et al. 2016 (arXiv:1602.08124); torchtune OffloadActivations; Megatron-LM double buffering",
)
def activations_on_host_bytes(plans: TrainingPlans, kept_bytes: Column, layers: Column, assumed: Assumptions) -> Column:
    """Kept activations in host memory: all except those of layers that are being copied out or back.

    Parameters:
        kept_bytes: activations kept for the backward pass, bytes.
        layers: layers per device.
    Check: two of 32 layers stay on the device.
        >>> moved = row(activation_offload=np.array([True, False]))
        >>> activations_on_host_bytes(moved, col(32e9, 32e9), col(32, 32), Assumptions()).tolist()
        [30000000000.0, 0.0]
    """
    share = np.maximum(0.0, 1.0 - assumed.offloaded_layers_near / layers)
    return np.where(plans.activation_offload, kept_bytes * share, 0.0)


@formula(unit="B", source="definition")
def host_bytes_per_machine(
    on_host: HostBytes,
    offloaded_activation_bytes: Column,
    accelerators: Column,
    accelerators_per_node: Column,
    process_bytes: float,
) -> Column:
    """Host memory that one machine needs for the offloaded data of its accelerators and their processes.

    Parameters:
        offloaded_activation_bytes: activations of one accelerator in host memory, bytes.
        accelerators_per_node: accelerators per machine.
        process_bytes: assumed host memory of one process without offloaded data, bytes.
    Check: 12 bytes of states and 4 of gradients for 1e9 parameters on each of eight accelerators in two machines, and
        3 GB per process.
        >>> states = row(host_weights_bytes=col(0), state_bytes=col(12e9), stepped_bytes=col(4e9), copied_bytes=col(0))
        >>> host_bytes_per_machine(states, col(0), col(8), col(4), 3e9).tolist()
        [76000000000.0]
    """
    states = on_host.state_bytes + on_host.stepped_bytes + on_host.copied_bytes
    each = on_host.host_weights_bytes + states + offloaded_activation_bytes
    return np.where(each > 0, each + process_bytes, 0.0) * np.minimum(accelerators_per_node, accelerators)


@formula(unit="s", source="definition")
def activation_copy_s(plans: TrainingPlans, micro_batch_kept_bytes: Column) -> Column:
    """Time to copy a micro-batch's activations to the host and back at the PCIe rate.

    Parameters:
        micro_batch_kept_bytes: activations that one micro-batch keeps, bytes.
    Check: 16 GB out and back take 1 s.
        >>> activation_copy_s(row(activation_offload=np.array([True])), col(16e9)).tolist()
        [1.0]
    """
    return np.where(plans.activation_offload, 2.0 * micro_batch_kept_bytes / PCIE_BYTES_PER_S, 0.0)


@formula(unit="s", source="Rajbhandari et al. 2021 (arXiv:2104.07857), section 4")
def shard_copy_s(shards_on_host: Mask, shard_params: Column, trained_shard_params: Column, recipe: Recipe) -> Column:
    """Time to copy a shard's weights and gradients over PCIe for one micro-batch.

    The weights move in for the forward pass and again for the backward pass; the gradients move out in 32 bit.

    Parameters:
        shards_on_host: whether parameters are in host memory.
        shard_params: parameters of the shard.
        trained_shard_params: trained parameters of the shard.
    Check: 2e9 frozen parameters in 16 bit move 8 GB.
        >>> shard_copy_s(np.array([True]), col(2e9), col(0), row(gathered_bytes_per_param=2.0)).tolist()
        [0.25]
    """
    moved = 2.0 * shard_params * recipe.gathered_bytes_per_param + trained_shard_params * BYTES_32_BIT
    return np.where(shards_on_host, moved / PCIE_BYTES_PER_S, 0.0)


def parameter_copy_s(plans: TrainingPlans, rank: RankParams, spread: RankGroups, recipe: Recipe) -> Column:
    """Time per micro-batch to copy offloaded parameters over PCIe; gradients of adapters stay on the device."""
    sharded = plans.zero_stage >= 3
    shard_params = held_params(rank.dense, rank.routed, sharded, spread.data_group, spread.expert_group)
    trained = np.zeros(len(plans)) if recipe.frozen else shard_params
    return shard_copy_s(plans.parameter_offload, shard_params, trained, recipe)
