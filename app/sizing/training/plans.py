"""Table of training plans: machine, framework, layout, pipeline stages, the share of a rank, and uncertainty.

The first stage keeps the most micro-batches; the last stage, which computes the loss, keeps the fewest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Codes, Column, Columns, Mask, lazy_rows
from app.sizing.decisions.machines import Candidates
from app.sizing.decisions.ranking import PublishedUse, tie_share
from app.sizing.decisions.rejections import Rejections, SupportFilter
from app.sizing.formula import formula, is_recording, trace_label
from app.sizing.hardware.achieved import SampleTrainingAchieved, TrainingAchieved, TrainingMemoryFactors
from app.sizing.hardware.engines import Framework
from app.sizing.hardware.published_use import use_task
from app.sizing.hardware.recipes import Recipes, vocabulary_code
from app.sizing.hardware.support.records import Work
from app.sizing.hardware.tables import Machines
from app.sizing.measured import MeasuredEffect
from app.sizing.question import Deployment
from app.sizing.training.counts import Counts, counts_of
from app.sizing.training.layer import FrameworkBytes, FrameworkBytesTable, build_framework_bytes_table, framework_bytes
from app.sizing.training.layouts import FULL, LAYOUT_COLUMNS, MAX_VIRTUAL_PIPELINE, SELECTIVE, candidate_layouts
from app.sizing.uncertainty import MAX_DISTANCE, Neighborhood, Spread
from app.sizing.words import format_name
from app.sizing.workload import TrainingWorkload


@dataclass(frozen=True, slots=True)
class Margins(Columns):
    """Time and memory uncertainty of each stack, at the requested confidence."""

    asked: float  # requested confidence
    time: Spread  # spread of time predictions
    memory: Spread  # spread of memory predictions
    time_scale: Column  # time spread relative to a stack with many published sources
    time_factor: Column  # factor on predicted time at the requested confidence
    recipe_known: Mask  # whether the framework's memory recipe is published
    widened: Column  # widening of the spread for stacks without published support; 1 if documented


def build_margins(confidence: float, time: tuple[Spread, Neighborhood], memory: Spread, recipe_known: Mask) -> Margins:
    """Build the margins of stacks from the published evidence near each of them."""
    of_time, time_neighbourhood = time
    time_scale = of_time.relative_spread(time_neighbourhood)
    return Margins(
        asked=confidence,
        time=of_time,
        memory=memory,
        time_scale=time_scale,
        time_factor=of_time.error_factor(confidence, time_scale),
        recipe_known=recipe_known,
        widened=time_neighbourhood.prior_width,
    )


def memory_neighbourhood(
    counted_bytes: Column, total_bytes: Column, recipe_known: Mask, widened: Column
) -> Neighborhood:
    """Evidence neighbourhood of a memory prediction.

    Weights, gradients and optimizer states are exact to the byte. Only the remaining share is uncertain, and the
    distance to evidence grows with it. The whole prediction is uncertain if no memory recipe of the framework is
    published.
    """
    share = np.where(recipe_known, 1.0 - counted_bytes / total_bytes, 1.0)
    none = np.zeros_like(share)
    return Neighborhood(none, MAX_DISTANCE * share, none, widened)


def meets_deadline_at_confidence(margins: Margins, wall_s: Column, deadline_s: float) -> Mask:
    result: Mask = wall_s * margins.time_factor <= deadline_s
    return result


def deadline_probability(margins: Margins, wall_s: Column, deadline_s: float) -> Column:
    return margins.time.probability_within(np.log(deadline_s / wall_s), margins.time_scale)


@formula(unit="micro-batches", source="Narayanan et al. 2021 (arXiv:2104.04473), section 2.2; Megatron-LM schedules")
def micro_batches_in_flight(micro_batches: Column, stages: Column, virtual_pipeline: Column, place: Column) -> Column:
    """Micro-batches whose activations a pipeline stage keeps.

    In the one-forward-one-backward (1F1B) schedule, a stage keeps one micro-batch for itself and for each later
    stage. In the interleaved schedule it keeps 2 (p - i - 1) + (v - 1) p + 1 chunks; each micro-batch has v chunks.
    The number never exceeds the micro-batches of a step.
    Parameters:
        stages: pipeline stages (p).
        virtual_pipeline: model chunks per stage (v).
        place: position of the stage (i), 0 for the first stage.
    Check: first and last of four stages with many micro-batches, without chunks and then with two chunks.
        >>> four, of = col(4, 4, 4, 4), col(0, 3, 0, 3)
        >>> micro_batches_in_flight(col(64, 64, 64, 64), four, col(1, 1, 2, 2), of).tolist()
        [4.0, 1.0, 5.5, 2.5]
    """
    behind = stages - 1 - place
    warm_up = np.where(
        virtual_pipeline > 1, (2 * behind + (virtual_pipeline - 1) * stages + 1) / virtual_pipeline, behind + 1
    )
    return np.minimum(micro_batches, warm_up)


@formula(unit="layers", source="Narayanan et al. 2021 (arXiv:2104.04473)")
def stage_layers(num_layers: float, stages: Column) -> Column:
    """Layers of the fullest pipeline stage; stages hold whole layers.

    Parameters:
        num_layers: layers of the model.
        stages: pipeline stages.
    Check: 126 layers on sixteen stages put eight layers on the fullest stage.
        >>> stage_layers(126.0, col(1, 16)).tolist()
        [126.0, 8.0]
    """
    return np.ceil(num_layers / stages)


@formula(unit="1", source="definition")
def stage_share(num_layers: float, stages: Column) -> Column:
    """Share of a model's layers on the fullest pipeline stage.

    Parameters:
        num_layers: layers of the model.
        stages: pipeline stages.
    Check: 8 of 126 layers.
        >>> stage_share(126.0, col(1, 16)).round(4).tolist()
        [1.0, 0.0635]
    """
    share: Column = stage_layers(num_layers, stages) / np.maximum(1.0, num_layers)
    return share


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
    largest_scale_up: Column  # accelerators in the largest affordable scale-up domain of the same type
    torus: Mask  # whether the scale-up domain is a torus, of which slices are rented
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
    published_recipes: Column  # published recipes for this work with the framework on this family
    unmeasured: Mask  # whether no source has results of the framework on this family
    recipes_on_one: Column  # the same for a run on one accelerator
    interleaved_pipeline: Mask  # whether the framework interleaves pipeline stages
    sequence_parallel: Mask  # whether the framework uses sequence parallelism
    recipe: Recipes  # memory recipe of the framework
    single_accelerator: Mask  # whether the framework runs on a single accelerator only
    token_achieved: TrainingAchieved  # achieved rates for models that process tokens
    sample_achieved: SampleTrainingAchieved  # achieved rates for models that process samples
    memory_factors: TrainingMemoryFactors  # fitted memory factors
    margins: Margins  # time and memory uncertainty
    measured: MeasuredEffect | None = None  # effect of the user's own measurements; None where there are none


def published_tasks(workload: TrainingWorkload) -> tuple[str | None, str | None]:
    """Tasks of the table of published use: of a run on several accelerators, and on one."""
    work, experts = Work(workload.phase, workload.method.value, workload.model.task), workload.model.is_moe
    return use_task(work, experts=experts), use_task(work, experts=experts, on_one=True)


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

    def use_at(self, accelerators: Column) -> PublishedUse:
        """Published use of the framework for this work, for runs on this number of accelerators."""
        recipes = np.where(accelerators == 1, self.stack.recipes_on_one, self.stack.published_recipes)
        return PublishedUse(recipes, self.stack.unmeasured)

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


@formula(unit="accelerators", source="definition")
def accelerators(plans: TrainingPlans, data_parallel: Column) -> Column:
    """Number of accelerators of a run: the product of all degrees of parallelism, data parallelism included.

    Parameters:
        data_parallel: replicas of the model.
    Limits: expert parallelism uses these ranks and adds none.
    Check: tensor 8, pipeline 4, context 2 and 16 replicas.
        >>> layout = row(tensor_parallel=col(8), pipeline_parallel=col(4), context_parallel=col(2))
        >>> accelerators(layout, col(16)).tolist()
        [1024.0]
    """
    return plans.tensor_parallel * plans.pipeline_parallel * plans.context_parallel * data_parallel


@formula(unit="chunks", source="Narayanan et al. 2021 (arXiv:2104.04473), section 2.2")
def virtual_pipeline(counts: Counts, plans: TrainingPlans) -> Column:
    """Model chunks per pipeline stage.

    This is the requested number; otherwise one layer per chunk, up to the usual maximum, in frameworks that
    interleave.

    Limits: some frameworks require the layers to divide evenly by stages and chunks; this schedule may be uneven.
    Check: 32 layers on four stages with an interleaved schedule, without one, and with two chunks requested.
        >>> interleaved, requested = np.array([True, False, True]), col(0, 0, 2)
        >>> stages = col(4, 4, 4)
        >>> layout = row(
        ...     pipeline_parallel=stages, interleaved_pipeline=interleaved, asked_virtual_pipeline=requested
        ... )
        >>> virtual_pipeline(PRETRAIN_COUNTS, layout).tolist()
        [8.0, 1.0, 2.0]
    """
    chunks = np.clip(np.floor(counts.num_layers / plans.pipeline_parallel), 1.0, MAX_VIRTUAL_PIPELINE)
    usual = np.where(plans.interleaved_pipeline, chunks, 1.0)
    requested = np.where(plans.asked_virtual_pipeline > 0, plans.asked_virtual_pipeline, usual)
    return np.where(plans.pipeline_parallel > 1, requested, 1.0)


@formula(unit="1", source="Narayanan et al. 2021 (arXiv:2104.04473)")
def stage_unevenness(
    pipeline_parallel: Column, virtual_pipeline: Column, num_layers: float, head_layers: float
) -> Column:
    """Work of a pipeline's fullest stage over the mean stage: whole layers per stage, plus the output head on the last
    stage.

    Parameters:
        pipeline_parallel: pipeline stages.
        num_layers: layers of the model.
        head_layers: layers that the output head costs as much as.
    Limits: the embedding is a look-up and costs nothing; the last stage has at least one layer per chunk.
    Check: 32 layers and a head worth 2.4 on four stages: 10.4 where the mean is 8.6. 126 layers on 16: eight each.
        >>> stage_unevenness(col(4, 1), col(8, 1), 32, 2.4).round(3).tolist()
        [1.209, 1.0]
        >>> stage_unevenness(col(16), col(7), 126, 0.66).round(3)[0]
        np.float64(1.011)
    """
    each = np.ceil(num_layers / pipeline_parallel)
    last = np.maximum(virtual_pipeline, num_layers - (pipeline_parallel - 1) * each) + head_layers
    return np.maximum(each, last) * pipeline_parallel / (num_layers + head_layers)


@formula(unit="1", source="fitted to published pipelines: the fullest stage sets the step time")
def stage_slowdown(stage_unevenness: Column, published_stage_unevenness: float) -> Column:
    """Slowdown of a pipeline that is less even than the published pipelines.

    The fitted shares already contain the unevenness of published pipelines. Up to an unevenness of 1.1, published
    pipelines are predicted as well as runs without a pipeline; beyond 1.2 they are a third slower.

    Parameters:
        published_stage_unevenness: unevenness that the fit contains.
    Check: an unevenness of 1.05 and of 1.21 where published pipelines have 1.1.
        >>> stage_slowdown(col(1.05, 1.21), 1.1).round(3).tolist()
        [1.0, 1.1]
    """
    return np.maximum(1.0, stage_unevenness / published_stage_unevenness)


@formula(unit="tokens", source="definition")
def tokens_per_micro_batch(counts: Counts, plans: TrainingPlans) -> Column:
    """Tokens of a micro-batch on one rank of the context group.

    Check: two sequences of 4,096 tokens on four context-parallel ranks.
        >>> two = row(micro_batch_sequences=col(2), context_parallel=col(4))
        >>> tokens_per_micro_batch(PRETRAIN_COUNTS, two)[0]
        np.float64(2048.0)
    """
    return plans.micro_batch_sequences * counts.units_per_sequence / plans.context_parallel


@formula(unit="micro-batches", source="definition")
def micro_batches(counts: Counts, plans: TrainingPlans, data_parallel: Column) -> Column:
    """Micro-batches that each replica processes per step: the number whose batch is nearest to the requested batch.

    Parameters:
        data_parallel: replicas of the model.
    Limits: for training on samples the number may be fractional: the last micro-batch is partly filled.
    Check: 512 sequences on 24 replicas of two at a time are 10.7 micro-batches: eleven.
        >>> micro_batches(PRETRAIN_COUNTS, row(micro_batch_sequences=col(2)), col(24))[0]
        np.float64(11.0)
    """
    requested = counts.global_batch / (data_parallel * plans.micro_batch_sequences)
    return np.maximum(1.0, np.where(counts.in_samples, requested, np.floor(requested + 0.5)))


@formula(unit="sequences", source="definition")
def step_batch(plans: TrainingPlans, data_parallel: Column, micro_batches: Column) -> Column:
    """Batch of one step: the requested global batch, or the nearest one that divides over the replicas.

    Parameters:
        data_parallel: replicas of the model.
    Check: eleven micro-batches of two sequences on 24 replicas.
        >>> step_batch(row(micro_batch_sequences=col(2)), col(24), col(11))[0]
        np.float64(528.0)
    """
    return data_parallel * plans.micro_batch_sequences * micro_batches


@formula(unit="ranks", source="definition")
def data_group(plans: TrainingPlans, data_parallel: Column) -> Column:
    """Ranks that hold the same dense weights: all replicas and their context-parallel ranks.

    Parameters:
        data_parallel: replicas of the model.
    Check: 16 replicas of two context-parallel ranks.
        >>> data_group(row(context_parallel=col(2)), col(16)).tolist()
        [32.0]
    """
    return data_parallel * plans.context_parallel


@formula(unit="ranks", source="Fedus et al. 2021 (arXiv:2101.03961)")
def expert_shards(plans: TrainingPlans) -> Column:
    """Ranks that share a layer's routed experts: the expert-parallel group, otherwise the tensor-parallel group.

    Check: expert parallel 16, then none, with tensor parallel 4.
        >>> expert_shards(row(expert_parallel=col(16, 1), tensor_parallel=col(4, 4))).tolist()
        [16.0, 4.0]
    """
    return np.where(plans.expert_parallel > 1, plans.expert_parallel, plans.tensor_parallel)


@formula(unit="ranks", source="definition")
def expert_group(plans: TrainingPlans, data_parallel: Column, expert_shards: Column) -> Column:
    """Ranks that hold the same routed experts.

    Parameters:
        data_parallel: replicas of the model.
    Check: 16 replicas of tensor parallel 4, experts over 16 ranks.
        >>> expert_group(row(context_parallel=col(1), tensor_parallel=col(4)), col(16), col(16)).tolist()
        [4.0]
    """
    return np.maximum(1.0, data_parallel * plans.context_parallel * plans.tensor_parallel / expert_shards)


@formula(unit="ranks", source="Korthikanti et al. 2022 (arXiv:2205.05198), section 4.2.2")
def sequence_split(plans: TrainingPlans) -> Column:
    """Ranks that share the tokens between matrices: the tensor-parallel group with sequence parallelism, otherwise one.

    Check: tensor parallel 8 with and without sequence parallelism.
        >>> sequence_split(row(sequence_parallel=np.array([True, False]), tensor_parallel=col(8, 8))).tolist()
        [8.0, 1.0]
    """
    return np.where(plans.sequence_parallel, plans.tensor_parallel, 1.0)


@formula(unit="parameters", source="Narayanan et al. 2021 (arXiv:2104.04473)")
def dense_params_per_rank(counts: Counts, plans: TrainingPlans) -> Column:
    """Dense parameters of the fullest model-parallel rank: its share of the layers, and embedding, head or both.

    Limits: layers count as equal. The first pipeline stage has the embedding, the last the head.
    Check: Llama-3.1-8B on one rank, and on tensor parallel 2 times pipeline parallel 4.
        >>> layout = row(tensor_parallel=col(1, 2), pipeline_parallel=col(1, 4))
        >>> (dense_params_per_rank(PRETRAIN_COUNTS, layout) / 1e9).round(3).tolist()
        [8.03, 1.135]
    """
    ends = counts.embedding_params + counts.head_params
    largest_end = np.maximum(counts.embedding_params, counts.head_params)
    share = stage_share(counts.num_layers, plans.pipeline_parallel)
    layers = (counts.total_params - counts.routed_params - ends) * share / plans.tensor_parallel
    return layers + np.where(plans.pipeline_parallel > 1, largest_end, ends) / plans.tensor_parallel


@formula(unit="parameters", source="definition")
def trained_dense_params_per_rank(counts: Counts, plans: TrainingPlans, dense_params_per_rank: Column) -> Column:
    """Dense parameters of a rank that are trained: all except the frozen text encoders and decoder of a diffusion
    model.

    Check: 2.6e9 parameters of which 0.2e9 are frozen, on two tensor-parallel ranks.
        >>> layout = row(tensor_parallel=col(2), pipeline_parallel=col(1))
        >>> trained_dense_params_per_rank(row(frozen_params=0.2e9), layout, col(1.3e9)).tolist()
        [1200000000.0]
    """
    return dense_params_per_rank - counts.frozen_params / (plans.tensor_parallel * plans.pipeline_parallel)


@formula(unit="parameters", source="Fedus et al. 2021 (arXiv:2101.03961)")
def routed_params_per_rank(counts: Counts, plans: TrainingPlans, expert_shards: Column) -> Column:
    """Parameters of routed experts on one model-parallel rank.

    Check: 28e9 parameters in 48 layers on four stages, experts over eight ranks.
        >>> experts = row(routed_params=28e9, num_layers=48.0)
        >>> routed_params_per_rank(experts, row(pipeline_parallel=col(4)), col(8)).tolist()
        [875000000.0]
    """
    return counts.routed_params * stage_share(counts.num_layers, plans.pipeline_parallel) / expert_shards


@formula(unit="parameters", source="Hu et al. 2021 (arXiv:2106.09685)")
def adapter_params_per_rank(counts: Counts, plans: TrainingPlans) -> Column:
    """Parameters of adapters on one model-parallel rank.

    Check: 40e6 parameters in 32 layers on two stages and tensor parallel 2.
        >>> layout = row(tensor_parallel=col(2), pipeline_parallel=col(2))
        >>> adapter_params_per_rank(row(adapter_params=40e6, num_layers=32.0), layout).tolist()
        [10000000.0]
    """
    return counts.adapter_params * stage_share(counts.num_layers, plans.pipeline_parallel) / plans.tensor_parallel


@formula(unit="parameters", source="Rajbhandari et al. 2020 (arXiv:1910.02054)")
def held_params(
    dense_params: Column,
    routed_params: Column,
    shards: Mask,
    data_group: Column,
    expert_group: Column,
) -> Column:
    """Parameters of a rank that one accelerator holds: its shard where ZeRO shards them, otherwise all.

    Parameters:
        dense_params: dense parameters of the rank.
        routed_params: routed-expert parameters of the rank.
        shards: whether ZeRO shards them.
    Check: 8e9 dense parameters, in millions: sharded over 64 ranks, and whole.
        >>> held_params(col(8e9, 8e9), col(0, 0), np.array([True, False]), col(64, 64), col(64, 64)) / 1e6
        array([ 125., 8000.])
    """
    dense = dense_params / np.where(shards, data_group, 1.0)
    return dense + routed_params / np.where(shards, expert_group, 1.0)


@dataclass(frozen=True, slots=True)
class RankParams(Columns):
    """Parameters of the fullest rank, the same at every data-parallel degree. `trained` parameters have gradients."""

    dense: Column  # dense parameters
    routed: Column  # routed-expert parameters
    trained_dense: Column  # trained dense parameters, or adapter parameters
    trained_routed: Column  # trained routed-expert parameters
    expert_shards: Column  # ranks that share a layer's routed experts


def rank_params(counts: Counts, plans: TrainingPlans) -> RankParams:
    shards = expert_shards(plans)
    dense, none = dense_params_per_rank(counts, plans), np.zeros(len(plans))
    routed = routed_params_per_rank(counts, plans, shards) if counts.routed_params else none
    if not counts.recipe.frozen:
        return RankParams(dense, routed, trained_dense_params_per_rank(counts, plans, dense), routed, shards)
    return RankParams(dense, routed, adapter_params_per_rank(counts, plans), none, shards)


@dataclass(frozen=True, slots=True)
class RankGroups(Columns):
    """Groups of ranks and sizes per step of a run at a data-parallel degree."""

    accelerators: Column  # accelerators of the run
    micro_batches: Column  # micro-batches per replica and step
    batch: Column  # batch of one step, sequences or samples
    data_group: Column  # ranks that hold the same dense weights
    expert_group: Column  # ranks that hold the same routed experts
    updated_params: Column  # parameters that the optimizer of one accelerator updates


def rank_groups(counts: Counts, plans: TrainingPlans, rank: RankParams, data_parallel: Column) -> RankGroups:
    """Return the groups of ranks, the micro-batches and the optimizer's share at a data-parallel degree."""
    dense, routed = data_group(plans, data_parallel), expert_group(plans, data_parallel, rank.expert_shards)
    with trace_label("optimizer"):
        updated = held_params(rank.trained_dense, rank.trained_routed, plans.zero_stage >= 1, dense, routed)
    micro = micro_batches(counts, plans, data_parallel)
    batch = step_batch(plans, data_parallel, micro)
    return RankGroups(accelerators(plans, data_parallel), micro, batch, dense, routed, updated)


def scores_that_tie(best: TrainingPlans, best_score: Column, plans: TrainingPlans, assumed: Assumptions) -> Column:
    """Largest score with which each plan ties with the best run of its type; infinite for types without one.

    Parameters:
        best: the plan of the best run of each type.
        best_score: scores of these runs.
    """
    types = int(plans.accelerator.max(initial=-1)) + 1
    score, share = np.full(types, np.inf), np.full(types, assumed.near_tie_share)
    score[best.accelerator] = best_score
    fewer = np.minimum(best.stack.published_recipes, best.stack.recipes_on_one)
    share[best.accelerator] = tie_share(PublishedUse(fewer, best.stack.unmeasured), assumed)
    used = np.maximum(plans.stack.published_recipes, plans.stack.recipes_on_one) > 0
    ties = np.where(used, share[plans.accelerator], assumed.near_tie_share)
    threshold: Column = score[plans.accelerator] * (1 + ties)
    return threshold
