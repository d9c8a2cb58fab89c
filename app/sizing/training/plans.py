"""The candidate table of training: one row is a machine, a framework and a layout without its data-parallel degree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from app.sizing.columns import Codes, Column, Columns, Mask, late
from app.sizing.decisions.machines import Candidates
from app.sizing.decisions.rejections import Rejections
from app.sizing.decisions.unsupported import Unsupported
from app.sizing.formula import is_recording
from app.sizing.hardware.achieved import SampleTrainingAchieved, TrainingAchieved, TrainingMemoryFactors
from app.sizing.hardware.engines import Framework
from app.sizing.hardware.recipes import Recipes, code
from app.sizing.hardware.tables import Machines
from app.sizing.question import Deployment
from app.sizing.training.counts import Counts, counts_of
from app.sizing.training.keeping import Keeping, KeepingTable, keeping, keeping_table
from app.sizing.training.layouts import FULL, LAYOUT, SELECTIVE, layouts_of
from app.sizing.training.margins import Margins
from app.sizing.workload import TrainingWorkload

OPERATORS, EVERY_SECOND = code("selective", "operators"), code("selective", "every_second_layer")
EAGER, GRADIENTS_32_BIT, NO_SELECTIVE = code("kernels", "eager"), code("gradients", "32bit"), code("selective", "none")
SHARDS_WEIGHTS = 3  # the ZeRO stage that does


@dataclass(frozen=True, slots=True)
class TrainingMachines(Columns):
    """Machines on sale as training reads them: what they cost, what their accelerators and links do."""

    offered: Candidates
    family: Codes
    spot: Mask  # may be taken back
    training_class: Mask  # built into clusters; the others train within one machine
    unified_memory: Mask  # the system's
    peak_flops_per_s: Column  # of matrices in the training precision; NaN: the hardware has none
    unquantised_flops_per_s: Column  # of what stays in 16 bit
    memory_bytes_per_s: Column
    pcie: Mask  # inside a machine; the rest have a scale-up link
    scale_up_bytes_per_s: Column  # of one accelerator, one way
    network_bytes_per_s: Column  # of one accelerator between machines; a usual one where it is not known
    scale_up_accelerators: Column  # that the faster link joins
    shape: Codes  # what data-parallel degrees read of a machine: those alike in it take the same

    @property
    def known(self) -> Mask:
        """Whether the catalogue has what speed and memory are worked out from."""
        missing = np.isnan(self.peak_flops_per_s) | np.isnan(self.memory_bytes_per_s)
        return ~(missing | np.isnan(self.offered.node.memory_bytes))


@dataclass(frozen=True, slots=True)
class TrainingStacks(Columns):
    """Frameworks on families of accelerators: what a framework does, and what is achieved with it."""

    family: Codes
    framework: Codes
    expected: Mask  # follows from rules; nobody wrote it down or measured it
    interleaved_pipeline: Mask
    sequence_parallel: Mask
    recipe: Recipes
    single_accelerator: Mask
    token_achieved: TrainingAchieved
    sample_achieved: SampleTrainingAchieved
    memory_factors: TrainingMemoryFactors
    margins: Margins


@dataclass(frozen=True, slots=True)
class TrainingPlans(Columns):
    """Layouts without their data-parallel degree."""

    machine: TrainingMachines
    stack: TrainingStacks
    stack_row: Codes  # of what its framework keeps
    layout_row: Codes  # of the layouts that were joined with machines, whatever was changed of it since
    kept: KeepingTable
    tensor_parallel: Column
    pipeline_parallel: Column
    context_parallel: Column
    expert_parallel: Column
    zero_stage: Column
    activation_checkpointing: Codes  # index into ACTIVATION_CHECKPOINTING
    micro_batch_sequences: Column
    optimizer_offload: Mask
    parameter_offload: Mask
    activation_offload: Mask
    flash_attention: Mask
    asked_virtual_pipeline: Column  # model chunks of a pipeline stage; 0: not asked

    def keeping(self, counts: Counts) -> Keeping:
        """What each plan's framework keeps, in the way that the plan shards and recomputes."""
        if is_recording():  # worked out again, to be told
            flash, recipe = bool(self.flash_attention.all()), self.stack.recipe
            return keeping(
                counts, recipe, self.zero_stage >= SHARDS_WEIGHTS, self.activation_checkpointing, flash=flash
            )
        return late(self.kept.rows, self.kept.places(self.stack_row, self.zero_stage, self.activation_checkpointing))

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
        """Norms, activations and sums are one kernel."""
        found: Mask = self.stack.recipe.kernels > EAGER
        return found

    @property
    def recomputes_half(self) -> Mask:
        """Whether every second matrix, or layer, is recomputed."""
        selective = self.stack.recipe.selective
        half = (selective == OPERATORS) | (selective == EVERY_SECOND)
        found: Mask = (self.activation_checkpointing == SELECTIVE) & half
        return found

    @property
    def gathers_to_recompute(self) -> Mask:
        """Whether sharded weights are gathered for a layer's recomputation and for its backward apart."""
        found: Mask = (self.activation_checkpointing == FULL) & self.stack.recipe.gathers_to_recompute
        return found

    @property
    def fp32_gradients(self) -> Mask:
        found: Mask = self.stack.recipe.gradients == GRADIENTS_32_BIT
        return found

    @property
    def accelerators_per_node(self) -> Column:
        return self.machine.offered.node.accelerators_per_node

    @property
    def last_resort(self) -> Mask:
        """Layouts that move more than optimizer states to the host: judged where nothing else fits."""
        return self.parameter_offload | (self.activation_offload & ~self.stack.recipe.offloads_checkpoints)

    @property
    def ranks(self) -> Column:
        """Accelerators that hold one copy of the model's work: all degrees but the data-parallel one."""
        return self.tensor_parallel * self.pipeline_parallel * self.context_parallel


def build_training_plans(
    workload: TrainingWorkload,
    machines: TrainingMachines,
    stacks: TrainingStacks,
    frameworks: Sequence[Framework],
    on: Mask,
    rejections: Rejections,
    unsupported: Unsupported,
    *,
    fixed: Deployment | None = None,
) -> TrainingPlans:
    """Join machines, frameworks (one per stack, and the accelerators it runs on) and layouts; types that cannot train
    this way fall out with that reason.
    """
    asked = fixed or Deployment(accelerator="")
    ways = list(zip(frameworks, (stacks.recipe.selective != NO_SELECTIVE).tolist(), strict=True))
    machine, stack, layout_row, layout = _joined(workload, machines, on, ways, asked, rejections, unsupported)
    columns = dict(zip(LAYOUT, layout, strict=True))
    flash = asked.flash_attention is not False
    return TrainingPlans(
        machine=late(machines, machine),
        stack=late(_as_asked(stacks, asked), stack),
        stack_row=stack,
        layout_row=layout_row,
        kept=keeping_table(counts_of(workload), stacks.recipe, flash=flash),
        tensor_parallel=columns["tensor_parallel"],
        pipeline_parallel=columns["pipeline_parallel"],
        context_parallel=columns["context_parallel"],
        expert_parallel=columns["expert_parallel"],
        zero_stage=columns["zero_stage"],
        activation_checkpointing=columns["activation_checkpointing"].astype(np.int64),
        micro_batch_sequences=columns["micro_batch_sequences"],
        optimizer_offload=columns["optimizer_offload"] > 0,
        parameter_offload=columns["parameter_offload"] > 0,
        activation_offload=_activations_moved(stacks, stack, columns, asked),
        flash_attention=np.full(len(machine), flash),
        asked_virtual_pipeline=np.full(len(machine), float(asked.virtual_pipeline or 0)),
    )


def _activations_moved(stacks: TrainingStacks, stack: Codes, columns: Mapping[str, Column], asked: Deployment) -> Mask:
    """Plans whose kept activations lie on the host: as a layout says, or because a framework does so unasked with what
    recomputation starts from.
    """
    recomputed = columns["activation_checkpointing"] == FULL
    unasked = stacks.recipe.offloads_checkpoints[stack] & recomputed & (asked.activation_offload is not False)
    found: Mask = (columns["activation_offload"] > 0) | unasked
    return found


def _as_asked(stacks: TrainingStacks, asked: Deployment) -> TrainingStacks:
    """What a deployment fixes of a framework's habits."""

    def said(usual: Mask, wanted: bool | None) -> Mask:
        return usual if wanted is None else np.full(len(stacks), wanted)

    return replace(
        stacks,
        sequence_parallel=said(stacks.sequence_parallel, asked.sequence_parallel),
    )


def _joined(
    workload: TrainingWorkload,
    machines: TrainingMachines,
    on: Mask,
    frameworks: Sequence[tuple[Framework, bool]],
    asked: Deployment,
    rejections: Rejections,
    unsupported: Unsupported,
) -> tuple[Codes, Codes, Codes, Column]:
    """(machine, stack, layout, columns of LAYOUT) of every plan; of frameworks, whether they recompute selectively.

    A model is split as far as a machine's own links reach, except along the pipeline.
    """
    node, known = machines.offered.node, machines.known
    reach = np.where(node.link_bytes_per_s > 0, machines.scale_up_accelerators, 1.0)
    trained: Mask = np.zeros(len(machines), dtype=bool)
    made = {way: layouts_of(workload, way[0], asked, selective=way[1]) for way in dict.fromkeys(frameworks)}
    first = dict(zip(made, np.cumsum([0, *map(len, made.values())]).tolist(), strict=False))
    none = np.zeros(0, dtype=np.int64)
    parts = [(none, none, none)]
    for stack, framework in enumerate(frameworks):
        rows, layouts = np.flatnonzero(on[stack, node.accelerator]), made[framework]
        if not len(layouts):
            continue
        trained[rows] = True
        tensor = layouts[:, LAYOUT.index("tensor_parallel")]
        linked = (tensor == 1) | (tensor <= reach[rows][:, None]) | (asked.tensor_parallel is not None)
        machine, layout = np.nonzero(linked & known[rows][:, None])
        parts.append((rows[machine], np.full(len(machine), stack), first[framework] + layout))
    unsupported.turn_down(rejections, node.accelerator, node.accelerator[trained])
    _turn_down(workload, node.accelerator, trained, known, rejections)
    machine, stack_of, layout_of = (np.concatenate(column) for column in zip(*parts, strict=True))
    tables = np.concatenate([np.zeros((0, len(LAYOUT))), *made.values()])
    return machine, stack_of, layout_of, tables.T.take(layout_of, axis=1)


def _turn_down(
    workload: TrainingWorkload, accelerator: Codes, trained: Mask, known: Mask, rejections: Rejections
) -> None:
    """Types of which the catalogue lacks what is needed."""
    rejections.reject(
        np.setdiff1d(accelerator[trained], accelerator[trained & known]),
        "missing_data",
        f"The catalogue lacks a {workload.precision} rate, a bandwidth or a memory size for {{name}}; nothing is "
        "guessed.",
    )
