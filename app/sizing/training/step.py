"""Duration of one training step: work at the achieved rates, communication that compute does not hide, and waiting
time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import TINY, Column, Columns, Mask
from app.sizing.formula import formula, trace_label
from app.sizing.hardware.achieved import SampleTrainingAchieved, TrainingAchieved
from app.sizing.training.traffic import Traffic, collective_s
from app.sizing.training.work import ComputeWork, MicroBatchWork, StateWork


@dataclass(frozen=True, slots=True)
class StepTime(Columns):
    """Seconds of one optimizer step. The parts add up to `step_s`."""

    compute_s: Column  # compute, s
    exposed_communication_s: Column  # communication that compute does not hide, s
    pipeline_bubble_s: Column  # idle time of the pipeline, s
    optimizer_s: Column  # the optimizer's update, s
    input_s: Column  # data loading, logging and checks between steps, s

    @property
    def step_s(self) -> Column:
        """Duration of the step, s."""
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
    """Duration of one optimizer step.

    Parameters:
        input_s: data loading, logging and checks between steps, s.
    Check: 4 s compute, 0.5 s communication, 0.3 s bubble, 0.1 s optimizer, 0.1 s between steps.
        >>> step_time_s(col(4), col(0.5), col(0.3), col(0.1), col(0.1)).round(3).tolist()
        [5.0]
    """
    return compute_s + exposed_communication_s + pipeline_bubble_s + optimizer_s + input_s


@dataclass(frozen=True, slots=True)
class MicroBatchTime(Columns):
    """Seconds of one micro-batch on one accelerator, the same at every data-parallel degree."""

    compute_s: Column  # compute, s
    exposed_s: Column  # communication within and between layers that compute does not hide, s
    bubble_micro_batches: Column  # idle slots of the pipeline per step, micro-batches
    pcie: Mask  # accelerators of a machine are connected by PCIe only
    stage_slowdown: Column  # slowdown by the fullest pipeline stage


@formula(unit="s", source="smooth maximum of compute and transfer; shares are fitted to published runs")
def exposed_s(computation_s: Column, transfer_s: Column, overlap_share: Column, assumed: Assumptions) -> Column:
    """Seconds of a transfer that compute does not hide.

    This is the share that cannot overlap, plus the part of the rest that exceeds the compute: (c^4 + x^4)^(1/4) - c.
    The exponent is `overlap_exponent`; the shares are fitted to published runs.

    Parameters:
        computation_s: compute that can hide the transfer, s.
        transfer_s: duration of the transfer, s.
        overlap_share: share of the transfer that can overlap with compute.
    Check: a transfer as long as the compute, all of which may overlap: 2^(1/4) - 1 of it is exposed.
        >>> round(exposed_s(col(1.0), col(1.0), col(1.0), Assumptions())[0], 4)
        np.float64(0.1892)
    """
    longer = np.maximum(np.maximum(computation_s, transfer_s), TINY)
    hidden = (computation_s / longer) ** assumed.overlap_exponent + (transfer_s / longer) ** assumed.overlap_exponent
    beyond = longer * hidden ** (1 / assumed.overlap_exponent) - computation_s
    return (1 - overlap_share) * transfer_s + overlap_share * beyond


@formula(unit="micro-batches", source="Narayanan et al. 2021 (arXiv:2104.04473), section 2.2")
def bubble_micro_batches(pipeline_parallel: Column, virtual_pipeline: Column) -> Column:
    """Idle slots of the pipeline per step, in micro-batches: (p - 1) / v.

    Parameters:
        pipeline_parallel: pipeline stages.
    Check: eight stages of two chunks.
        >>> bubble_micro_batches(col(8), col(2))[0]
        np.float64(3.5)
    """
    return (pipeline_parallel - 1) / virtual_pipeline


@formula(unit="s", source="roofline (Williams et al. 2009); shares of the rates and times per layer are fitted")
def micro_batch_compute_s(work: ComputeWork, achieved: TrainingAchieved) -> Column:
    """Compute of one micro-batch: matrices, experts, attention and memory traffic at the achieved share of their rates.

    The launches of its layers are added as a fitted time per layer.

    Limits: the parts run one after another; kernels that overlap them are part of the fitted shares.
    Check: 0.3 s of matrices at half the peak, 0.1 s of memory traffic at half the bandwidth, 32 layers of 1 ms.
        >>> names = ("head_s", "expert_s", "attention_s", "dequantization_s", "expert_layers", "adapted_layers")
        >>> work = row(**dict.fromkeys(names, 0), matrix_s=col(0.3), elementwise_s=col(0.1), layers=col(32))
        >>> shares = ("compute_fraction", "expert_fraction", "attention_fraction", "elementwise_fraction")
        >>> waits = row(training_layer_s=1e-3, training_expert_layer_s=0, adapter_layer_s=0, expert_imbalance_share=0)
        >>> fitted = row(**vars(waits), **{f"training_{share}": 0.5 for share in shares})
        >>> micro_batch_compute_s(work, fitted).round(3).tolist()
        [0.832]
    """
    matrices = (work.matrix_s + work.head_s) / achieved.training_compute_fraction
    expert_fraction = achieved.training_compute_fraction * achieved.training_expert_fraction
    experts = work.expert_s / expert_fraction * (1 + achieved.expert_imbalance_share)
    moved = (work.elementwise_s + work.dequantization_s) / achieved.training_elementwise_fraction
    launches = (
        work.layers * achieved.training_layer_s
        + work.expert_layers * achieved.training_expert_layer_s
        + work.adapted_layers * achieved.adapter_layer_s
    )
    return matrices + experts + work.attention_s / achieved.training_attention_fraction + moved + launches


@formula(unit="s", source="definition; the overlapped share is fitted")
def layer_exposed_s(exposed_within_s: Column, pipeline_s: Column, achieved: TrainingAchieved) -> Column:
    """Seconds of a micro-batch's communication that compute does not hide: within layers, and between pipeline stages.

    Parameters:
        exposed_within_s: exposed tensor, context and expert communication, s.
        pipeline_s: hand-over between pipeline stages, s.
    Check: 20 ms within layers, and 10 ms between stages of which 60 % overlap.
        >>> layer_exposed_s(col(0.02), col(0.01), row(tensor_overlap_share=0.6)).round(3).tolist()
        [0.024]
    """
    return exposed_within_s + pipeline_s * (1 - achieved.tensor_overlap_share)


def micro_batch_time(work: MicroBatchWork, achieved: TrainingAchieved, assumed: Assumptions) -> MicroBatchTime:
    """Return the duration of a micro-batch: its compute, and the communication of its layers that compute does not
    hide.
    """
    compute, traffic = micro_batch_compute_s(work.compute, achieved), work.traffic
    with trace_label("tensor parallel"):
        tensor = collective_s(traffic.tensor, work.pcie, achieved)
    with trace_label("context parallel"):
        context = collective_s(traffic.context, work.pcie, achieved)
    with trace_label("expert parallel"):
        expert = collective_s(traffic.expert, work.pcie, achieved)
    with trace_label("pipeline parallel"):
        pipeline = collective_s(traffic.pipeline, work.pcie, achieved)
    with trace_label("within layers"):
        within = exposed_s(compute, tensor + context + expert, achieved.tensor_overlap_share, assumed)
    copies = work.copied_s.any()
    with trace_label("without copies" if copies else ""):
        exposed = layer_exposed_s(within, pipeline, achieved)
    if copies:
        with trace_label("activations"):
            exposed = exposed + exposed_s(compute, host_copy_s(work.copied_s, assumed), np.ones(len(compute)), assumed)
    bubble = bubble_micro_batches(work.stages, work.virtual_pipeline)
    return MicroBatchTime(compute, exposed, bubble, work.pcie, work.stage_slowdown)


@formula(unit="s", source="definition")
def compute_s(micro_batches: Column, micro_batch_compute_s: Column) -> Column:
    """Compute of one step.

    Check: eight micro-batches of 0.5 s.
        >>> compute_s(col(8), col(0.5)).tolist()
        [4.0]
    """
    return micro_batches * micro_batch_compute_s


@formula(unit="s", source="definition; the straggler's share is fitted to published runs")
def exposed_communication_s(
    micro_batches: Column,
    layer_exposed_s: Column,
    sharding_exposed_s: Column,
    synchronization_exposed_s: Column,
    straggler_share: Column,
    machines: Column,
    micro_batch_compute_s: Column,
) -> Column:
    """Communication of a step that compute does not hide, and the wait for the slowest rank.

    ZeRO-3 traffic of weights and gradients overlaps with each micro-batch. Traffic once per step overlaps with one
    micro-batch. Every rank waits for the slowest one; the wait grows with the logarithm of the number of machines.

    Parameters:
        sharding_exposed_s: exposed ZeRO-3 traffic per micro-batch, s.
        synchronization_exposed_s: exposed gradient synchronization per step, s.
        straggler_share: compute that waiting adds per doubling of machines, as a share.
        machines: machines of the run.
    Limits: fitted to published runs on up to 16,384 accelerators.
    Check: eight micro-batches of 0.5 s with 30 ms exposed, 50 ms per step, 1 % wait per doubling of 16 machines.
        >>> waits, once = (col(0.02), col(0.01)), col(0.05)
        >>> exposed_communication_s(col(8), *waits, once, col(0.01), col(16), col(0.5)).round(3).tolist()
        [0.45]
    """
    waiting = straggler_share * np.log2(machines) * micro_batches * micro_batch_compute_s
    return micro_batches * (layer_exposed_s + sharding_exposed_s) + synchronization_exposed_s + waiting


@formula(unit="s", source="Narayanan et al. 2021 (arXiv:2104.04473)")
def pipeline_bubble_s(
    bubble_micro_batches: Column,
    micro_batches: Column,
    stage_slowdown: Column,
    micro_batch_compute_s: Column,
    layer_exposed_s: Column,
) -> Column:
    """Idle time of a pipeline per step: while it fills and drains, and while stages wait for the fullest stage.

    Check: 3.5 idle micro-batches, and a tenth of 32 by an uneven stage, at 0.5 s each.
        >>> pipeline_bubble_s(col(3.5), col(32), col(1.1), col(0.4), col(0.1)).round(3).tolist()
        [3.35]
    """
    idle = bubble_micro_batches + micro_batches * (stage_slowdown - 1)
    return idle * (micro_batch_compute_s + layer_exposed_s)


@formula(unit="s", source="definition; the share is assumed for pinned memory")
def host_copy_s(copied_s: Column, assumed: Assumptions) -> Column:
    """Seconds of copies to the host and back, at the achieved share of PCIe's nominal rate.

    Parameters:
        copied_s: copies over PCIe at its nominal rate, s.
    Check: one second at the nominal rate.
        >>> (host_copy_s(col(1.0), Assumptions()) * Assumptions().pcie_copy_fraction).tolist()
        [1.0]
    """
    return copied_s / assumed.pcie_copy_fraction


@formula(unit="s", source="bytes moved; Ren et al. 2021 (arXiv:2101.06840) for offloading; the host's rate is fitted")
def optimizer_s(state: StateWork, achieved: TrainingAchieved, assumed: Assumptions) -> Column:
    """Duration of the optimizer's update: at the achieved memory bandwidth, or with offloading as PCIe copies and CPU
    work.

    Check: 0.2 s at half the bandwidth; then offloaded: copies, and 3e9 parameters at 1.5e9/s.
        >>> state = row(optimizer_at_rates_s=col(0.2, 0), offload_s=col(0, 0.6), host_params=col(0, 3e9))
        >>> fitted = row(training_elementwise_fraction=0.5, host_optimizer_params_per_s=1.5e9)
        >>> optimizer_s(state, fitted, row(pcie_copy_fraction=0.75)).round(3).tolist()
        [0.4, 2.8]
    """
    host = state.offload_s / assumed.pcie_copy_fraction + state.host_params / achieved.host_optimizer_params_per_s
    return state.optimizer_at_rates_s / achieved.training_elementwise_fraction + host


@formula(unit="s", source="fitted; a reduction over n ranks is a tree of log2(n) rounds")
def between_steps_s(accelerators: Column, training_step_s: Column) -> Column:
    """Time between steps: data loading, logging, and the checks on which all accelerators agree.

    The checks (gradient norm, overflow) are all-reduces over all n ranks in log2(n) rounds; each waits for the last
    rank.

    Parameters:
        training_step_s: fitted time between steps on one accelerator, s.
    Check: 10 ms on one accelerator and on eight.
        >>> between_steps_s(col(1, 8), col(0.01))
        array([0.01, 0.04])
    """
    agreed: Column = training_step_s * (1 + np.log2(accelerators))
    return agreed


def step_time(
    micro_batch: MicroBatchTime, state: StateWork, achieved: TrainingAchieved, assumed: Assumptions
) -> StepTime:
    """Return the duration of one optimizer step of a model trained on tokens."""
    with trace_label("sharding"):
        transfer = collective_s(state.traffic.sharded, micro_batch.pcie, achieved)
        if state.copied_s.any():
            transfer = transfer + host_copy_s(state.copied_s, assumed)
        sharding = exposed_s(micro_batch.compute_s, transfer, achieved.data_overlap_share, assumed)
    with trace_label("synchronization"):
        transfer = collective_s(state.traffic.synchronized, micro_batch.pcie, achieved)
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
            micro_batch.stage_slowdown,
            micro_batch.compute_s,
            micro_batch.exposed_s,
        ),
        optimizer_s=optimizer_s(state, achieved, assumed),
        input_s=between_steps_s(state.accelerators, achieved.training_step_s),
    )


@formula(unit="s", source="roofline (Williams et al. 2009) with a smooth maximum; shares of the rates are fitted")
def sample_batch_compute_s(work: ComputeWork, achieved: SampleTrainingAchieved) -> Column:
    """Compute of a micro-batch of samples.

    A matrix computes while it reads and writes memory. Operators between matrices and grouped convolutions add their
    own memory time, and every kernel has a launch time. Matrix and memory time combine as sqrt(a^2 + b^2).

    Check: 0.3 s compute and 0.4 s memory at full rates, 0.1 s between matrices, 200 kernels of 0.1 ms.
        >>> times = dict(matrix_s=col(0.3), matrix_moved_s=col(0.4), elementwise_s=col(0.1), grouped_s=col(0))
        >>> shares = ("sample_training_fraction", "sample_elementwise_fraction", "sample_grouped_fraction")
        >>> fitted = row(**dict.fromkeys(shares, 1.0), sample_operation_s=1e-4)
        >>> sample_batch_compute_s(row(**times, layers=col(200)), fitted).round(3).tolist()
        [0.62]
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
    compute = sample_batch_compute_s(work.compute, achieved)
    none = np.zeros(len(compute))
    return MicroBatchTime(compute, none, none, work.pcie, work.stage_slowdown)


@formula(unit="s", source="definition; the share is fitted")
def sample_collective_s(traffic: Traffic, achieved: SampleTrainingAchieved) -> Column:
    """Seconds of the gradient all-reduce of a model trained on samples, inside and between machines.

    Check: 0.1 s at half the rate.
        >>> moved = row(scale_up_s=col(0.1), network_s=col(0))
        >>> sample_collective_s(moved, row(sample_collective_fraction=0.5)).tolist()
        [0.2]
    """
    return (traffic.scale_up_s + traffic.network_s) / achieved.sample_collective_fraction


@formula(unit="s", source="bytes moved; the achieved share is fitted")
def sample_optimizer_s(state: StateWork, achieved: SampleTrainingAchieved) -> Column:
    """Duration of the optimizer's update at the achieved memory bandwidth.

    Check: 0.1 s at 80 % of the bandwidth.
        >>> sample_optimizer_s(row(optimizer_at_rates_s=col(0.1)), row(sample_elementwise_fraction=0.8)).tolist()
        [0.125]
    """
    return state.optimizer_at_rates_s / achieved.sample_elementwise_fraction


def sample_step_time(
    micro_batch: MicroBatchTime, state: StateWork, achieved: SampleTrainingAchieved, assumed: Assumptions
) -> StepTime:
    """Return the duration of one optimizer step of a model trained on samples."""
    with trace_label("synchronization"):
        transfer = sample_collective_s(state.traffic.synchronized, achieved)
        once = exposed_s(micro_batch.compute_s, transfer, achieved.sample_overlap_share, assumed)
    with trace_label("sharding"):
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
