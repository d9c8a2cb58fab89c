"""How long one training step takes: its work over achieved rates, with what overlaps and what waits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.columns import Column, Columns, Mask
from app.sizing.hardware.achieved import SampleTrainingAchieved, TrainingAchieved
from app.sizing.training.traffic import Traffic
from app.sizing.training.work import MicroBatchWork, StateWork

# How sharply a longer transfer sticks out from behind computation: 1 adds both, large takes the longer.
OVERLAP_EXPONENT = 4.0
PCIE_COPY_FRACTION = 0.7


@dataclass(frozen=True, slots=True)
class StepTime(Columns):
    """Seconds of one optimizer step; the parts sum to `step_s`."""

    compute_s: Column
    exposed_communication_s: Column
    pipeline_bubble_s: Column
    optimizer_s: Column
    input_s: Column

    @property
    def step_s(self) -> Column:
        return self.compute_s + self.exposed_communication_s + self.pipeline_bubble_s + self.optimizer_s + self.input_s


def traffic_s(traffic: Traffic, pcie: Mask, k: TrainingAchieved) -> Column:
    """Seconds of collectives: bytes over the achieved share of the link, and a latency per message."""
    inside = traffic.inside_s / np.where(pcie, k.collective_pcie_fraction, k.collective_scale_up_fraction)
    across = traffic.across_s / k.collective_network_fraction
    waits = traffic.inside_messages * k.collective_latency_s + traffic.across_messages * k.collective_network_latency_s
    return inside + across + waits


def beyond(computation_s: Column, transfer_s: Column) -> Column:
    """What a transfer adds to the computation that hides it: (c^4 + x^4)^(1/4) - c."""
    longer = np.maximum(np.maximum(computation_s, transfer_s), 1e-12)
    p = OVERLAP_EXPONENT
    return longer * ((computation_s / longer) ** p + (transfer_s / longer) ** p) ** (1 / p) - computation_s


def exposed_s(computation_s: Column, transfer_s: Column, overlap: Column) -> Column:
    """Seconds of a transfer that computation does not hide: the share that cannot overlap, and what sticks out of the
    rest.
    """
    return (1 - overlap) * transfer_s + overlap * beyond(computation_s, transfer_s)


@dataclass(frozen=True, slots=True)
class MicroBatchTime(Columns):
    """Seconds of one micro-batch on one device, the same at every data-parallel degree."""

    compute_s: Column
    exposed_s: Column  # traffic within and between layers that computation does not hide
    bubble_micro_batches: Column
    pcie: Mask


def micro_batch_time(w: MicroBatchWork, k: TrainingAchieved) -> MicroBatchTime:
    """Matrices, attention and memory traffic of a micro-batch, the launches of its layers, and what its layers say to
    one another.
    """
    d = w.device
    matrices = (d.matrix_s + d.wide_matrix_s) / k.training_compute_fraction
    experts = d.expert_s / (k.training_compute_fraction * k.training_expert_fraction) * (1 + k.expert_imbalance_share)
    moved = (d.elementwise_s + d.dequantised_s) / k.training_elementwise_fraction
    launches = (
        d.layers * k.training_layer_s
        + d.expert_layers * k.training_expert_layer_s
        + d.adapted_layers * k.adapter_layer_s
    )
    compute = matrices + experts + d.attention_s / k.training_attention_fraction + moved + launches
    within = traffic_s(w.tensor, w.pcie, k) + traffic_s(w.context, w.pcie, k) + traffic_s(w.expert, w.pcie, k)
    exposed = exposed_s(compute, within, k.tensor_overlap_share) + traffic_s(w.hop, w.pcie, k) * (
        1 - k.tensor_overlap_share
    )
    return MicroBatchTime(compute, exposed, w.bubble_micro_batches, w.pcie)


def step_time(m: MicroBatchTime, w: StateWork, k: TrainingAchieved) -> StepTime:
    """Time of one optimizer step of a model on tokens.

    Weights and gradients of ZeRO-3 hide behind each micro-batch, those of a step behind one; the pipeline waits
    (p - 1) / v micro-batches; every rank waits for the slowest, the longer the more machines there are.
    """
    sharding = exposed_s(m.compute_s, traffic_s(w.shard, m.pcie, k), k.data_overlap_share)
    once = exposed_s(m.compute_s + m.exposed_s, traffic_s(w.data, m.pcie, k), k.data_overlap_share)
    waiting = k.straggler_share * np.log2(w.machines) * w.micro_batches * m.compute_s
    host = w.offload_s / PCIE_COPY_FRACTION + w.host_params / k.host_optimizer_params_per_s
    return StepTime(
        compute_s=w.micro_batches * m.compute_s,
        exposed_communication_s=w.micro_batches * (m.exposed_s + sharding) + once + waiting,
        pipeline_bubble_s=m.bubble_micro_batches * (m.compute_s + m.exposed_s),
        optimizer_s=w.optimizer_s / k.training_elementwise_fraction + host,
        input_s=k.training_step_s,
    )


def sample_batch_time(w: MicroBatchWork, s: SampleTrainingAchieved) -> MicroBatchTime:
    """Of a network on samples: matrices and activations moved overlap within kernels."""
    device = np.hypot(
        w.device.matrix_s / s.sample_training_fraction, w.device.elementwise_s / s.sample_elementwise_fraction
    )
    none = np.zeros(len(device))
    return MicroBatchTime(device + w.device.layers * s.sample_layer_s, none, none, w.pcie)


def sample_step_time(m: MicroBatchTime, w: StateWork, s: SampleTrainingAchieved) -> StepTime:
    """Time of one optimizer step of a network on samples."""
    once = exposed_s(
        m.compute_s, (w.data.inside_s + w.data.across_s) / s.sample_collective_fraction, s.sample_overlap_share
    )
    sharding = exposed_s(
        m.compute_s, (w.shard.inside_s + w.shard.across_s) / s.sample_collective_fraction, s.sample_overlap_share
    )
    return StepTime(
        compute_s=w.micro_batches * m.compute_s,
        exposed_communication_s=w.micro_batches * sharding + once,
        pipeline_bubble_s=np.zeros(len(once)),
        optimizer_s=w.optimizer_s / s.sample_elementwise_fraction,
        input_s=s.sample_step_s,
    )
