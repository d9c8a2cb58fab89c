"""Table of training plans: each row is a machine, a framework and a layout without its data-parallel degree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from app.sizing.columns import Codes, Column, Columns, Mask, lazy_rows
from app.sizing.decisions.machines import Candidates
from app.sizing.decisions.rejections import Rejections
from app.sizing.decisions.unsupported import SupportFilter
from app.sizing.formula import is_recording
from app.sizing.hardware.achieved import SampleTrainingAchieved, TrainingAchieved, TrainingMemoryFactors
from app.sizing.hardware.engines import Framework
from app.sizing.hardware.recipes import Recipes, vocabulary_code
from app.sizing.hardware.tables import Machines
from app.sizing.product_names import format_name
from app.sizing.question import Deployment
from app.sizing.training.counts import Counts, counts_of
from app.sizing.training.keeping import (
    FrameworkBytes,
    FrameworkBytesTable,
    build_framework_bytes_table,
    framework_bytes,
)
from app.sizing.training.layouts import FULL, LAYOUT_COLUMNS, SELECTIVE, candidate_layouts
from app.sizing.training.margins import Margins
from app.sizing.workload import TrainingWorkload

OPERATORS, EVERY_SECOND = vocabulary_code("selective", "operators"), vocabulary_code("selective", "every_second_layer")
EAGER, GRADIENTS_32_BIT, NO_SELECTIVE = (
    vocabulary_code("kernels", "eager"),
    vocabulary_code("gradients", "32bit"),
    vocabulary_code("selective", "none"),
)
WEIGHT_SHARDING_STAGE = 3  # lowest ZeRO stage that shards weights


@dataclass(frozen=True, slots=True)
class TrainingMachines(Columns):
    """Machines on sale, with the properties that training needs: price, accelerators and links."""

    offered: Candidates  # machines on sale, with price
    family: Codes  # accelerator family
    spot: Mask  # whether the provider may reclaim the machine
    training_class: Mask  # whether machines form clusters; others train within one machine
    unified_memory: Mask  # whether accelerator and system share their memory
    peak_flops_per_s: Column  # matrix rate in the training precision, FLOP/s; NaN if unsupported
    unquantised_flops_per_s: Column  # matrix rate for operations that stay in 16 bit, FLOP/s
    memory_bytes_per_s: Column  # memory bandwidth, bytes/s
    pcie: Mask  # whether PCIe links the machine's accelerators, instead of a scale-up link
    scale_up_bytes_per_s: Column  # link rate of one accelerator within a machine, one way, bytes/s
    network_bytes_per_s: Column  # network rate of one accelerator, bytes/s; assumed if unknown
    scale_up_accelerators: Column  # accelerators in one scale-up domain
    shape: Codes  # group of machines that allow the same data-parallel degrees

    @property
    def has_required_data(self) -> Mask:
        """Whether the catalog has the matrix rate, memory bandwidth and memory size that sizing needs."""
        missing = np.isnan(self.peak_flops_per_s) | np.isnan(self.memory_bytes_per_s)
        return ~(missing | np.isnan(self.offered.node.memory_bytes))


@dataclass(frozen=True, slots=True)
class TrainingStacks(Columns):
    """Frameworks on families of accelerators: their behavior, their achieved rates and their uncertainty."""

    family: Codes  # accelerator family
    framework: Codes  # training framework
    expected: Mask  # whether support is inferred from rules, neither documented nor measured
    interleaved_pipeline: Mask  # whether the framework interleaves pipeline stages
    sequence_parallel: Mask  # whether the framework uses sequence parallelism
    recipe: Recipes  # memory recipe of the framework
    single_accelerator: Mask  # whether the framework runs on a single accelerator only
    token_achieved: TrainingAchieved  # achieved rates for models that process tokens
    sample_achieved: SampleTrainingAchieved  # achieved rates for models that process samples
    memory_factors: TrainingMemoryFactors  # fitted memory factors
    margins: Margins  # time and memory uncertainty


@dataclass(frozen=True, slots=True)
class TrainingPlans(Columns):
    """Layouts without their data-parallel degree."""

    machine: TrainingMachines  # machine of each plan
    stack: TrainingStacks  # framework stack of each plan
    stack_row: Codes  # row of the framework stack
    layout_row: Codes  # row of the original layout, unaffected by later changes
    keeping_rows: FrameworkBytesTable  # bytes that each framework keeps, by sharding and recomputation
    tensor_parallel: Column  # tensor-parallel degree
    pipeline_parallel: Column  # pipeline stages
    context_parallel: Column  # context-parallel degree
    expert_parallel: Column  # expert-parallel degree
    zero_stage: Column  # ZeRO stage, 0 to 3
    activation_checkpointing: Codes  # index into ACTIVATION_CHECKPOINTING
    micro_batch_sequences: Column  # sequences or samples per micro-batch
    optimizer_offload: Mask  # whether optimizer states are in host memory
    parameter_offload: Mask  # whether parameters are in host memory
    activation_offload: Mask  # whether activations are in host memory
    flash_attention: Mask  # whether attention uses a fused kernel (FlashAttention)
    asked_virtual_pipeline: Column  # requested model chunks per pipeline stage; 0 if none

    def kept_bytes(self, counts: Counts) -> FrameworkBytes:
        """Return the bytes that each plan's framework keeps, given the plan's sharding and recomputation."""
        if is_recording():  # evaluate again, so that the trace records it
            flash, recipe = bool(self.flash_attention.all()), self.stack.recipe
            return framework_bytes(
                counts, recipe, self.zero_stage >= WEIGHT_SHARDING_STAGE, self.activation_checkpointing, flash=flash
            )
        return lazy_rows(
            self.keeping_rows.rows,
            self.keeping_rows.row_indices(self.stack_row, self.zero_stage, self.activation_checkpointing),
        )

    @property
    def offered(self) -> Candidates:
        return self.machine.offered

    @property
    def node(self) -> Machines:
        return self.machine.offered.node

    @property
    def accelerator(self) -> Codes:
        return self.machine.offered.node.accelerator

    @property
    def framework(self) -> Codes:
        return self.stack.framework

    @property
    def interleaved_pipeline(self) -> Mask:
        return self.stack.interleaved_pipeline

    @property
    def sequence_parallel(self) -> Mask:
        return self.stack.sequence_parallel

    @property
    def fused_kernels(self) -> Mask:
        """Whether norms, activation functions and residual sums run as fused kernels."""
        result: Mask = self.stack.recipe.kernels > EAGER
        return result

    @property
    def recomputes_half(self) -> Mask:
        """Whether the framework recomputes every second matrix or layer."""
        selective = self.stack.recipe.selective
        half = (selective == OPERATORS) | (selective == EVERY_SECOND)
        result: Mask = (self.activation_checkpointing == SELECTIVE) & half
        return result

    @property
    def gathers_to_recompute(self) -> Mask:
        """Whether sharded weights are gathered twice in the backward pass: for recomputation and for gradients."""
        result: Mask = (self.activation_checkpointing == FULL) & self.stack.recipe.gathers_to_recompute
        return result

    @property
    def fp32_gradients(self) -> Mask:
        """Whether gradients are kept in 32 bit."""
        result: Mask = self.stack.recipe.gradients == GRADIENTS_32_BIT
        return result

    @property
    def accelerators_per_node(self) -> Column:
        return self.machine.offered.node.accelerators_per_node

    @property
    def last_resort(self) -> Mask:
        """Layouts that offload more than optimizer states; the search evaluates them only if nothing else fits."""
        return self.parameter_offload | (self.activation_offload & ~self.stack.recipe.offloads_checkpoints)

    @property
    def ranks(self) -> Column:
        """Accelerators per model replica: the product of all degrees except the data-parallel degree."""
        return self.tensor_parallel * self.pipeline_parallel * self.context_parallel


def build_training_plans(
    workload: TrainingWorkload,
    machines: TrainingMachines,
    stacks: TrainingStacks,
    frameworks: Sequence[Framework],
    on: Mask,
    rejections: Rejections,
    unsupported: SupportFilter,
    *,
    fixed: Deployment | None = None,
) -> TrainingPlans:
    """Join machines, frameworks and layouts into one table of plans.

    `frameworks` has one entry per stack; `on` says which accelerators each stack supports. Accelerator types that
    cannot train this way are rejected with the reason.
    """
    requested = fixed or Deployment(accelerator="")
    ways = list(zip(frameworks, (stacks.recipe.selective != NO_SELECTIVE).tolist(), strict=True))
    machine, stack, layout_row, layout = _join_plans(workload, machines, on, ways, requested, rejections, unsupported)
    columns = dict(zip(LAYOUT_COLUMNS, layout, strict=True))
    flash = requested.flash_attention is not False
    return TrainingPlans(
        machine=lazy_rows(machines, machine),
        stack=lazy_rows(_apply_deployment(stacks, requested), stack),
        stack_row=stack,
        layout_row=layout_row,
        keeping_rows=build_framework_bytes_table(counts_of(workload), stacks.recipe, flash=flash),
        tensor_parallel=columns["tensor_parallel"],
        pipeline_parallel=columns["pipeline_parallel"],
        context_parallel=columns["context_parallel"],
        expert_parallel=columns["expert_parallel"],
        zero_stage=columns["zero_stage"],
        activation_checkpointing=columns["activation_checkpointing"].astype(np.int64),
        micro_batch_sequences=columns["micro_batch_sequences"],
        optimizer_offload=columns["optimizer_offload"] > 0,
        parameter_offload=columns["parameter_offload"] > 0,
        activation_offload=_offloads_activations(stacks, stack, columns, requested),
        flash_attention=np.full(len(machine), flash),
        asked_virtual_pipeline=np.full(len(machine), float(requested.virtual_pipeline or 0)),
    )


def _offloads_activations(
    stacks: TrainingStacks, stack: Codes, columns: Mapping[str, Column], requested: Deployment
) -> Mask:
    """Whether each plan keeps activations in host memory.

    A layout may offload them, and some frameworks always offload the inputs of recomputation.
    """
    recomputed = columns["activation_checkpointing"] == FULL
    unasked = stacks.recipe.offloads_checkpoints[stack] & recomputed & (requested.activation_offload is not False)
    result: Mask = (columns["activation_offload"] > 0) | unasked
    return result


def _apply_deployment(stacks: TrainingStacks, requested: Deployment) -> TrainingStacks:
    """Apply the framework options that a deployment fixes."""

    def override_column(usual: Mask, wanted: bool | None) -> Mask:
        return usual if wanted is None else np.full(len(stacks), wanted)

    return replace(
        stacks,
        sequence_parallel=override_column(stacks.sequence_parallel, requested.sequence_parallel),
    )


def _join_plans(
    workload: TrainingWorkload,
    machines: TrainingMachines,
    on: Mask,
    frameworks: Sequence[tuple[Framework, bool]],
    requested: Deployment,
    rejections: Rejections,
    unsupported: SupportFilter,
) -> tuple[Codes, Codes, Codes, Column]:
    """Return (machine, stack, layout, columns of `LAYOUT_COLUMNS`) of every plan.

    `frameworks` pairs each framework with whether it supports selective recomputation. Tensor parallelism stays
    within a machine's scale-up links unless the request fixes its degree; other degrees may cross machines.
    """
    node, known = machines.offered.node, machines.has_required_data
    reach = np.where(node.link_bytes_per_s > 0, machines.scale_up_accelerators, 1.0)
    trained: Mask = np.zeros(len(machines), dtype=bool)
    made = {way: candidate_layouts(workload, way[0], requested, selective=way[1]) for way in dict.fromkeys(frameworks)}
    first = dict(zip(made, np.cumsum([0, *map(len, made.values())]).tolist(), strict=False))
    none = np.zeros(0, dtype=np.int64)
    parts = [(none, none, none)]
    for stack, framework in enumerate(frameworks):
        rows, layouts = np.flatnonzero(on[stack, node.accelerator]), made[framework]
        if not len(layouts):
            continue
        trained[rows] = True
        tensor = layouts[:, LAYOUT_COLUMNS.index("tensor_parallel")]
        linked = (tensor == 1) | (tensor <= reach[rows][:, None]) | (requested.tensor_parallel is not None)
        machine, layout = np.nonzero(linked & known[rows][:, None])
        parts.append((rows[machine], np.full(len(machine), stack), first[framework] + layout))
    unsupported.reject_unsupported(rejections, node.accelerator, node.accelerator[trained])
    _reject_missing_data(workload, node.accelerator, trained, known, rejections)
    machine, stack_of, layout_of = (np.concatenate(column) for column in zip(*parts, strict=True))
    tables = np.concatenate([np.zeros((0, len(LAYOUT_COLUMNS))), *made.values()])
    return machine, stack_of, layout_of, tables.T.take(layout_of, axis=1)


def _reject_missing_data(
    workload: TrainingWorkload, accelerator: Codes, trained: Mask, known: Mask, rejections: Rejections
) -> None:
    """Reject accelerator types whose catalog entry lacks data that sizing needs."""
    rejections.reject(
        np.setdiff1d(accelerator[trained], accelerator[trained & known]),
        "missing_data",
        f"{{name}} cannot be sized: the catalog has no {format_name(workload.precision)} rate, memory bandwidth or "
        "memory size for it.",
    )
