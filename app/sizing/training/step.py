"""How long one training step takes: its work over achieved rates, with what overlaps and what waits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Column, Columns, Mask
from app.sizing.formula import formula, told_as
from app.sizing.hardware.achieved import SampleTrainingAchieved, TrainingAchieved
from app.sizing.training.traffic import Traffic, collective_s
from app.sizing.training.work import ComputeWork, MicroBatchWork, StateWork


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
        return step_time_s(
            self.compute_s, self.exposed_communication_s, self.pipeline_bubble_s, self.optimizer_s, self.input_s
        )


@formula(unit="s", source="sum of the parts of a step")
def step_time_s(
    compute_s: Column,
    exposed_communication_s: Column,
    pipeline_bubble_s: Column,
    optimizer_s: Column,
    input_s: Column,
) -> Column:
    """One optimizer step.

    Source: definition.
    """
    return compute_s + exposed_communication_s + pipeline_bubble_s + optimizer_s + input_s


@dataclass(frozen=True, slots=True)
class MicroBatchTime(Columns):
    """Seconds of one micro-batch on one accelerator, the same at every data-parallel degree."""

    compute_s: Column
    exposed_s: Column  # traffic within and between layers that computation does not hide
    bubble_micro_batches: Column
    pcie: Mask
    stage_pace: Column  # of the fullest stage of a pipeline over an even one's


@formula(unit="s", source="overlap with a rounded knee; shares are fitted")
def exposed_s(computation_s: Column, transfer_s: Column, overlap_share: Column, assumed: Assumptions) -> Column:
    """Seconds of a transfer that computation does not hide: the share that cannot overlap, and what sticks out of the
    rest: (c^4 + x^4)^(1/4) - c.

    Source: fitted to published runs; the knee is `overlap_exponent`.
    Check: a transfer as long as the computation, all of which may overlap, sticks out by 2^(1/4) - 1.
        >>> round(exposed_s(col(1.0), col(1.0), col(1.0), Assumptions())[0], 4)
        np.float64(0.1892)
    """
    longer = np.maximum(np.maximum(computation_s, transfer_s), 1e-12)
    hidden = (computation_s / longer) ** assumed.overlap_exponent + (transfer_s / longer) ** assumed.overlap_exponent
    beyond = longer * hidden ** (1 / assumed.overlap_exponent) - computation_s
    return (1 - overlap_share) * transfer_s + overlap_share * beyond


@formula(unit="micro-batches", source="Narayanan et al. 2021 (arXiv:2104.04473)")
def bubble_micro_batches(pipeline_parallel: Column, virtual_pipeline: Column) -> Column:
    """Idle slots of the pipeline per step, in micro-batches: (p - 1) / v.

    Source: Narayanan et al. 2021 (arXiv:2104.04473), section 2.2.
    Check: eight stages of two chunks.
        >>> bubble_micro_batches(col(8), col(2))[0]
        np.float64(3.5)
    """
    return (pipeline_parallel - 1) / virtual_pipeline


@formula(unit="s", source="roofline; shares of the rates are fitted")
def micro_batch_compute_s(work: ComputeWork, achieved: TrainingAchieved) -> Column:
    """Matrices, experts, attention and memory traffic of a micro-batch over what is achieved of their rates, and the
    launches of its layers.

    Source: roofline (Williams et al. 2009); shares of the rates and times per layer are fitted.
    Limits: the parts follow one another; kernels that overlap them are in the shares.
    """
    matrices = (work.matrix_s + work.head_s) / achieved.training_compute_fraction
    expert_fraction = achieved.training_compute_fraction * achieved.training_expert_fraction
    experts = work.expert_s / expert_fraction * (1 + achieved.expert_imbalance_share)
    moved = (work.elementwise_s + work.dequantisation_s) / achieved.training_elementwise_fraction
    launches = (
        work.layers * achieved.training_layer_s
        + work.expert_layers * achieved.training_expert_layer_s
        + work.adapted_layers * achieved.adapter_layer_s
    )
    return matrices + experts + work.attention_s / achieved.training_attention_fraction + moved + launches


@formula(unit="s", source="definition")
def layer_exposed_s(exposed_within_s: Column, pipeline_s: Column, achieved: TrainingAchieved) -> Column:
    """Seconds of a micro-batch's traffic that computation does not hide: within layers, and from stage to stage.

    Source: definition; the overlapped share is fitted.
    """
    return exposed_within_s + pipeline_s * (1 - achieved.tensor_overlap_share)


def micro_batch_time(work: MicroBatchWork, achieved: TrainingAchieved, assumed: Assumptions) -> MicroBatchTime:
    """Time of a micro-batch, and what its layers say to one another."""
    compute, traffic = micro_batch_compute_s(work.compute, achieved), work.traffic
    with told_as("tensor parallel"):
        tensor = collective_s(traffic.tensor, work.pcie, achieved)
    with told_as("context parallel"):
        context = collective_s(traffic.context, work.pcie, achieved)
    with told_as("expert parallel"):
        expert = collective_s(traffic.expert, work.pcie, achieved)
    with told_as("pipeline parallel"):
        pipeline = collective_s(traffic.pipeline, work.pcie, achieved)
    with told_as("within layers"):
        within = exposed_s(compute, tensor + context + expert, achieved.tensor_overlap_share, assumed)
    copies = work.copied_s.any()
    with told_as("without copies" if copies else ""):
        exposed = layer_exposed_s(within, pipeline, achieved)
    if copies:
        with told_as("activations"):
            exposed = exposed + exposed_s(compute, host_copy_s(work.copied_s, assumed), np.ones(len(compute)), assumed)
    bubble = bubble_micro_batches(work.stages, work.virtual_pipeline)
    return MicroBatchTime(compute, exposed, bubble, work.pcie, work.stage_pace)


@formula(unit="s", source="definition")
def compute_s(micro_batches: Column, micro_batch_compute_s: Column) -> Column:
    """Computation of a step.

    Source: definition.
    """
    return micro_batches * micro_batch_compute_s


@formula(unit="s", source="definition; the straggler's share is fitted")
def exposed_communication_s(
    micro_batches: Column,
    layer_exposed_s: Column,
    sharding_exposed_s: Column,
    synchronisation_exposed_s: Column,
    straggler_share: Column,
    machines: Column,
    micro_batch_compute_s: Column,
) -> Column:
    """Communication of a step that computation does not hide. Weights and gradients of ZeRO-3 hide behind each
    micro-batch, those of a step behind one; every rank waits for the slowest, the longer the more machines there are.

    Source: fitted to published runs at up to 16,384 accelerators.
    """
    waiting = straggler_share * np.log2(machines) * micro_batches * micro_batch_compute_s
    return micro_batches * (layer_exposed_s + sharding_exposed_s) + synchronisation_exposed_s + waiting


@formula(unit="s", source="Narayanan et al. 2021 (arXiv:2104.04473)")
def pipeline_bubble_s(
    bubble_micro_batches: Column,
    micro_batches: Column,
    stage_pace: Column,
    micro_batch_compute_s: Column,
    layer_exposed_s: Column,
) -> Column:
    """Idle time of a pipeline in a step: while it fills and empties, and while stages wait for the fullest.

    Source: Narayanan et al. 2021 (arXiv:2104.04473).
    """
    idle = bubble_micro_batches + micro_batches * (stage_pace - 1)
    return idle * (micro_batch_compute_s + layer_exposed_s)


@formula(unit="s", source="chosen: pinned memory")
def host_copy_s(copied_s: Column, assumed: Assumptions) -> Column:
    """Seconds of copies to the host and back, at what is reached of PCIe's rate.

    Source: definition; the share is an assumption.
    """
    return copied_s / assumed.pcie_copy_fraction


@formula(unit="s", source="counted; the host's rate is fitted")
def optimizer_s(state: StateWork, achieved: TrainingAchieved, assumed: Assumptions) -> Column:
    """The optimizer's step: at the achieved bandwidth, or offloaded, copies over PCIe and the host's processors.

    Source: Ren et al. 2021 (arXiv:2101.06840) for offloading; the host's rate is fitted.
    """
    host = state.offload_s / assumed.pcie_copy_fraction + state.host_params / achieved.host_optimizer_params_per_s
    return state.optimizer_at_rates_s / achieved.training_elementwise_fraction + host


@formula(unit="s", source="fitted; reductions over all ranks are trees")
def between_steps_s(accelerators: Column, training_step_s: Column) -> Column:
    """What a step takes beside its work: data, logging, and the checks that all accelerators agree on (norm of the
    gradients, overflow), each of which waits for the last of them.

    Source: fitted; a reduction over n ranks has log2(n) rounds.
    Check:
        >>> between_steps_s(col(1, 8), col(0.01))
        array([0.01, 0.04])
    """
    agreed: Column = training_step_s * (1 + np.log2(accelerators))
    return agreed


def step_time(
    micro_batch: MicroBatchTime, state: StateWork, achieved: TrainingAchieved, assumed: Assumptions
) -> StepTime:
    """Time of one optimizer step of a model on tokens."""
    with told_as("sharding"):
        transfer = collective_s(state.traffic.sharded, micro_batch.pcie, achieved)
        if state.copied_s.any():
            transfer = transfer + host_copy_s(state.copied_s, assumed)
        sharding = exposed_s(micro_batch.compute_s, transfer, achieved.data_overlap_share, assumed)
    with told_as("synchronisation"):
        transfer = collective_s(state.traffic.synchronised, micro_batch.pcie, achieved)
        once = exposed_s(micro_batch.compute_s + micro_batch.exposed_s, transfer, achieved.data_overlap_share, assumed)
    return StepTime(
        compute_s=compute_s(state.micro_batches, micro_batch.compute_s),
        exposed_communication_s=exposed_communication_s(
            state.micro_batches,
            micro_batch.exposed_s,
            sharding,
            once,
            achieved.straggler_share,
            state.machines,
            micro_batch.compute_s,
        ),
        pipeline_bubble_s=pipeline_bubble_s(
            micro_batch.bubble_micro_batches,
            state.micro_batches,
            micro_batch.stage_pace,
            micro_batch.compute_s,
            micro_batch.exposed_s,
        ),
        optimizer_s=optimizer_s(state, achieved, assumed),
        input_s=between_steps_s(state.accelerators, achieved.training_step_s),
    )


@formula(unit="s", source="roofline; shares of the rates are fitted")
def sample_batch_compute_s(work: ComputeWork, achieved: SampleTrainingAchieved) -> Column:
    """A micro-batch of samples: a matrix computes while it moves what it reads and writes, everything between the
    matrices moves on its own, grouped convolutions at a rate of their own; and every kernel is launched.

    Source: roofline with a rounded knee; shares of the rates are fitted.
    """
    moved = work.matrix_moved_s / achieved.sample_elementwise_fraction
    matrices = np.hypot(work.matrix_s / achieved.sample_training_fraction, moved)
    between = work.elementwise_s / achieved.sample_elementwise_fraction
    return (
        matrices
        + between
        + work.grouped_s / achieved.sample_grouped_fraction
        + work.layers * achieved.sample_operation_s
    )


def sample_batch_time(work: MicroBatchWork, achieved: SampleTrainingAchieved) -> MicroBatchTime:
    """Of a network on samples."""
    compute = sample_batch_compute_s(work.compute, achieved)
    none = np.zeros(len(compute))
    return MicroBatchTime(compute, none, none, work.pcie, work.stage_pace)


@formula(unit="s", source="definition; the share is fitted")
def sample_collective_s(traffic: Traffic, achieved: SampleTrainingAchieved) -> Column:
    """Gradients of a network on samples, over whichever link.

    Source: definition; the achieved share is fitted.
    """
    return (traffic.scale_up_s + traffic.network_s) / achieved.sample_collective_fraction


@formula(unit="s", source="counted")
def sample_optimizer_s(state: StateWork, achieved: SampleTrainingAchieved) -> Column:
    """The optimizer's step at the achieved bandwidth.

    Source: counted; the achieved share is fitted.
    """
    return state.optimizer_at_rates_s / achieved.sample_elementwise_fraction


def sample_step_time(
    micro_batch: MicroBatchTime, state: StateWork, achieved: SampleTrainingAchieved, assumed: Assumptions
) -> StepTime:
    """Time of one optimizer step of a network on samples."""
    with told_as("synchronisation"):
        transfer = sample_collective_s(state.traffic.synchronised, achieved)
        once = exposed_s(micro_batch.compute_s, transfer, achieved.sample_overlap_share, assumed)
    with told_as("sharding"):
        transfer = sample_collective_s(state.traffic.sharded, achieved)
        sharding = exposed_s(micro_batch.compute_s, transfer, achieved.sample_overlap_share, assumed)
    none = micro_batch.bubble_micro_batches
    return StepTime(
        compute_s=compute_s(state.micro_batches, micro_batch.compute_s),
        exposed_communication_s=exposed_communication_s(
            state.micro_batches, micro_batch.exposed_s, sharding, once, none, state.machines, micro_batch.compute_s
        ),
        pipeline_bubble_s=none,
        optimizer_s=sample_optimizer_s(state, achieved),
        input_s=achieved.sample_step_s,
    )
