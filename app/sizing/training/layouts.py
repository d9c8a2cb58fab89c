"""Candidate layouts: parallel degrees, ZeRO stage, activation checkpointing, micro-batch size and host offload."""

from __future__ import annotations

import math

import numpy as np

from app.errors import Conflict
from app.sizing.columns import Column, Mask, column
from app.sizing.hardware.engines import ENGINES, Framework, engine_named
from app.sizing.hardware.engines.record import OFFLOADS
from app.sizing.hardware.recipes import RECOMPUTATIONS, WHOLE, apply_settings, recipe_of_framework
from app.sizing.question import Deployment
from app.sizing.words import product_name
from app.sizing.workload import Method, TrainingWorkload

ACTIVATION_CHECKPOINTING = ("none", "selective", "full")
NONE, SELECTIVE, FULL = range(3)
# Columns of a layout table.
LAYOUT_COLUMNS = (
    "tensor_parallel",
    "pipeline_parallel",
    "context_parallel",
    "expert_parallel",
    "zero_stage",
    "activation_checkpointing",
    "micro_batch_sequences",
    "optimizer_offload",
    "parameter_offload",
    "activation_offload",
)
OFFLOAD_COLUMNS = LAYOUT_COLUMNS[-3:]  # whether a part of OFFLOADS is in host memory
# Combinations of parts (of OFFLOADS) that may be in host memory together.
OFFLOADED_STATES, OFFLOADED_ACTIVATIONS = frozenset({"optimizer"}), frozenset({"activations"})
TRAINED_OFFLOAD_SETS = (
    OFFLOADED_STATES,
    OFFLOADED_ACTIVATIONS,
    OFFLOADED_STATES | OFFLOADED_ACTIVATIONS,
    OFFLOADED_STATES | {"parameters"},
    frozenset(OFFLOADS),
)
FROZEN_OFFLOAD_SETS = (OFFLOADED_ACTIVATIONS, frozenset({"parameters"}), OFFLOADED_ACTIVATIONS | {"parameters"})
_MICRO_BATCH = LAYOUT_COLUMNS.index("micro_batch_sequences")
BATCH_TOLERANCE = 0.01  # change of the global batch for the sake of a micro-batch; 1,953 sequences become 1,952

# The grid of a search, for parts that the request leaves open. A finer grid finds the same results within 1 %.
TENSOR_DEGREES = (1, 2, 4, 8)
PIPELINE_DEGREES = (1, 2, 4, 8, 16)
CONTEXT_DEGREES = (1, 2, 4, 8, 16)  # for long sequences
EXPERT_DEGREES = (1, 8, 16, 32, 64)
ZERO_STAGES = (0, 1, 2, 3)  # for frameworks that replicate models
COMPILER_ZERO_STAGES = (0, 3)  # for frameworks that also split models: their compilers shard everything
MICRO_BATCH_SEQUENCES = (1, 2, 4, 8, 16)
MICRO_BATCH_SAMPLES = (1, 2, 8, 32, 64, 128, 256)
MAX_SEQUENCES_OFFLOADED = 8
MAX_SEQUENCES_LAST_RESORT = 2  # for layouts that are evaluated only if nothing else fits
MAX_VIRTUAL_PIPELINE = 8.0  # model chunks per pipeline stage, if a framework interleaves
MAX_SEQUENCES_SPLIT = 4  # for layouts that split layers or matrices
MAX_SEQUENCES_SPLIT_LARGE = 2  # for models and sequences whose matrices are large in small micro-batches too
LARGE_MODEL_PARAMS = 3e10  # size from which small micro-batches use matrix units fully
SPLITS_SEQUENCES_PARAMS = 1e11  # size from which models may split short sequences
SPLIT_SEQUENCE_TOKENS = 4096  # shortest piece of a short sequence
LONG_SEQUENCE_TOKENS = 16384  # length from which sequences are worth splitting

DegreeChoices = tuple[float, ...]


def candidate_layouts(
    workload: TrainingWorkload, framework: Framework, fixed: Deployment | None, *, selective: bool = True
) -> Column:
    """Return the rows of `LAYOUT_COLUMNS` to evaluate for one framework.

    Values that a deployment fixes replace the values of the grid. A framework that cannot split a model has no row
    for a requested split. A framework without `selective` recomputation has no row for it.
    """
    requested = fixed or Deployment(accelerator="")
    checkpointing: DegreeChoices = (NONE,) if workload.in_samples else (NONE, SELECTIVE, FULL)
    if requested.activation_checkpointing:
        checkpointing = (ACTIVATION_CHECKPOINTING.index(requested.activation_checkpointing),)
    if not selective:
        checkpointing = tuple(mode for mode in checkpointing if mode != SELECTIVE)
    sizes = _micro_batch_choices(workload, requested)
    rows = np.concatenate(
        [
            _replicated_layouts(framework, requested, checkpointing, sizes),
            _offloaded_layouts(workload, framework, requested, checkpointing, sizes),
            _split_layouts(workload, framework, requested, checkpointing, sizes),
        ]
    )
    return rows[_divides_batch(workload, rows[:, _MICRO_BATCH], fixed=bool(requested.micro_batch_sequences))]


def _combine_choices(*choices: DegreeChoices) -> Column:
    """Every combination of one choice per column of `LAYOUT_COLUMNS`; the last column changes fastest."""
    sizes = [len(choice) for choice in choices]
    places = np.unravel_index(np.arange(math.prod(sizes)), sizes)
    return np.stack([column(choice)[place] for choice, place in zip(choices, places, strict=True)], axis=1)


_NO_ROWS = np.zeros((0, len(LAYOUT_COLUMNS)))


def _micro_batch_choices(workload: TrainingWorkload, requested: Deployment) -> DegreeChoices:
    """Micro-batch sizes that divide the global batch, or nearly."""
    if requested.micro_batch_sequences:
        return (requested.micro_batch_sequences,)
    usual = column(MICRO_BATCH_SAMPLES if workload.in_samples else MICRO_BATCH_SEQUENCES)
    return tuple(usual[_divides_batch(workload, usual)].tolist()) or (1,)


def _divides_batch(workload: TrainingWorkload, micro_batch_sequences: Column, *, fixed: bool = False) -> Mask:
    """Whether micro-batches divide the global batch, or change it by at most BATCH_TOLERANCE.

    A step takes the nearest batch that divides over the replicas in any case. Models that process samples may fill the
    last micro-batch in part, and a micro-batch that a deployment fixes only has to be within the batch.
    """
    batch = workload.global_batch
    if workload.in_samples or fixed:
        return micro_batch_sequences <= batch
    nearest = np.floor(batch / micro_batch_sequences + 0.5) * micro_batch_sequences
    result: Mask = np.abs(nearest - batch) <= BATCH_TOLERANCE * batch
    return result


def _can_replicate(framework: Framework, requested: Deployment) -> bool:
    """Whether every accelerator may hold whole layers, with states that may be sharded."""
    degrees = (
        requested.tensor_parallel,
        requested.pipeline_parallel,
        requested.context_parallel,
        requested.expert_parallel,
    )
    return all((d or 1) == 1 for d in degrees) and (framework.shards or not framework.splits)


def _replicated_layouts(
    framework: Framework, requested: Deployment, checkpointing: DegreeChoices, sizes: DegreeChoices
) -> Column:
    """Layouts that replicate layers on every accelerator, with or without ZeRO sharding."""
    if _requests_offload(requested) or not _can_replicate(framework, requested):
        return _NO_ROWS
    usual = COMPILER_ZERO_STAGES if framework.splits else ZERO_STAGES
    stages = usual if requested.zero_stage is None else (requested.zero_stage,)
    return _combine_choices((1,), (1,), (1,), (1,), stages, checkpointing, sizes, (0,), (0,), (0,))


def _requests_offload(requested: Deployment) -> bool:
    """Whether the request offloads anything to host memory."""
    return bool(requested.optimizer_offload or requested.parameter_offload or requested.activation_offload)


def _offloaded_layouts(
    workload: TrainingWorkload,
    framework: Framework,
    requested: Deployment,
    checkpointing: DegreeChoices,
    sizes: DegreeChoices,
) -> Column:
    """Layouts that keep optimizer states, parameters or activations in host memory."""
    if workload.in_samples or not _can_replicate(framework, requested):
        return _NO_ROWS
    rows = [_NO_ROWS]
    for moved in TRAINED_OFFLOAD_SETS if workload.method is Method.FULL else FROZEN_OFFLOAD_SETS:
        if not _can_offload(moved, framework, requested):
            continue
        most = MAX_SEQUENCES_OFFLOADED if moved == OFFLOADED_STATES else MAX_SEQUENCES_LAST_RESORT
        small = tuple(s for s in sizes if s <= most or requested.micro_batch_sequences)
        parts = [(float(part in moved),) for part in OFFLOADS]
        rows.append(
            _combine_choices(
                (1,), (1,), (1,), (1,), _offload_zero_stages(moved, requested), checkpointing[-1:], small, *parts
            )
        )
    return np.concatenate(rows)


def _can_offload(moved: frozenset[str], framework: Framework, requested: Deployment) -> bool:
    """Whether the framework can offload these parts and the request does not contradict it.

    Offloaded trained parameters always take their optimizer states along, even if the framework cannot offload
    states alone.
    """
    requests = {
        "optimizer": requested.optimizer_offload,
        "parameters": requested.parameter_offload,
        "activations": requested.activation_offload,
    }
    along = {"optimizer"} if "parameters" in moved else set()
    return moved - along <= set(framework.offloads) and all(
        wanted is None or wanted == (part in moved) for part, wanted in requests.items()
    )


def _offload_zero_stages(moved: frozenset[str], requested: Deployment) -> DegreeChoices:
    """ZeRO stages of a layout with offload.

    Parameters are offloaded as ZeRO-3 shards, and so are optimizer states that the request does not mention.
    """
    if requested.zero_stage is None:
        return COMPILER_ZERO_STAGES if moved == OFFLOADED_ACTIVATIONS else (3,)
    allows_unsharded = "parameters" not in moved and (requested.optimizer_offload or "optimizer" not in moved)
    return (requested.zero_stage,) if requested.zero_stage == 3 or allows_unsharded else ()


def _split_layouts(
    workload: TrainingWorkload,
    framework: Framework,
    requested: Deployment,
    checkpointing: DegreeChoices,
    sizes: DegreeChoices,
) -> Column:
    """Layouts that split layers, matrices, sequences and experts over accelerators."""
    if not framework.splits or workload.method is Method.QLORA or workload.in_samples:
        return _NO_ROWS
    along = requested.parameter_offload and workload.method is Method.FULL
    moved = {
        "optimizer": float(requested.optimizer_offload or along or False),
        "parameters": float(requested.parameter_offload or False),
        "activations": float(requested.activation_offload or False),
    }
    if any(moved[part] and part not in framework.offloads for part in ("parameters", "activations")):
        return _NO_ROWS
    long = workload.units_per_sequence >= LONG_SEQUENCE_TOKENS
    stage = (3 if framework.shards else 1) if requested.zero_stage is None else requested.zero_stage
    rows = _combine_choices(
        (requested.tensor_parallel,) if requested.tensor_parallel else TENSOR_DEGREES,
        (requested.pipeline_parallel,) if requested.pipeline_parallel else PIPELINE_DEGREES,
        (requested.context_parallel,) if requested.context_parallel else _context_degrees(workload),
        _expert_degrees(workload, requested),
        (stage,),
        checkpointing,
        _split_micro_batches(workload, requested, sizes, long=long),
        *((moved[part],) for part in OFFLOADS),
    )
    chunks = (requested.virtual_pipeline or 1) if requested.pipeline_parallel is None else 1
    return rows[_model_allows(workload, rows, chunks)]


def _context_degrees(workload: TrainingWorkload) -> DegreeChoices:
    """Context-parallel degrees that keep each accelerator's piece of the sequence long enough for efficient kernels."""
    if workload.units_per_sequence >= LONG_SEQUENCE_TOKENS:
        return CONTEXT_DEGREES
    if workload.model.total_params < SPLITS_SEQUENCES_PARAMS:
        return (1,)
    return tuple(c for c in CONTEXT_DEGREES if workload.units_per_sequence >= c * SPLIT_SEQUENCE_TOKENS or c == 1)


def _expert_degrees(workload: TrainingWorkload, requested: Deployment) -> DegreeChoices:
    """Expert-parallel degrees that divide the number of experts."""
    model = workload.model
    if requested.expert_parallel or not model.is_moe:
        return (requested.expert_parallel or 1,)
    return tuple(e for e in EXPERT_DEGREES if e == 1 or model.num_experts % e == 0)


def _split_micro_batches(
    workload: TrainingWorkload, requested: Deployment, sizes: DegreeChoices, *, long: bool
) -> DegreeChoices:
    """Micro-batch sizes of layouts that split the model; large matrices do not benefit from larger micro-batches."""
    if requested.micro_batch_sequences:
        return sizes
    large = workload.model.is_moe or long or workload.model.total_params > LARGE_MODEL_PARAMS
    most = MAX_SEQUENCES_SPLIT_LARGE if large else MAX_SEQUENCES_SPLIT
    return tuple(s for s in sizes if s <= most) or sizes[:1]


def _model_allows(workload: TrainingWorkload, rows: Column, chunks: int) -> Mask:
    """Whether the model allows each layout.

    Attention heads must split evenly, KV heads must split or replicate evenly, each pipeline chunk needs a layer,
    and the context-parallel degree must divide the sequence.
    """
    model, kv = workload.model, workload.model.kv_heads
    tensor, pipeline, context = rows[:, 0], rows[:, 1], rows[:, 2]
    heads = (model.num_heads % tensor == 0) & ((kv % tensor == 0) | (tensor % kv == 0))
    allowed: Mask = (
        heads
        & ((pipeline * chunks <= model.num_layers) | (pipeline == 1))
        & (workload.units_per_sequence % context == 0)
    )
    return allowed


def check_layout(workload: TrainingWorkload, d: Deployment) -> None:
    """Reject a requested layout that the model does not allow. The message states the accepted values.

    Raises Conflict.
    """
    model = workload.model
    if (d.expert_parallel or 1) > 1 and (not model.is_moe or model.num_experts % (d.expert_parallel or 1)):
        if not model.is_moe:
            raise Conflict(f"{model.name} has no experts: omit expert_parallel {d.expert_parallel}.")
        raise Conflict(
            f"expert_parallel {d.expert_parallel} must divide the {model.num_experts} experts of {model.name}."
        )
    if workload.units_per_sequence % (d.context_parallel or 1):
        raise Conflict(
            f"context_parallel {d.context_parallel} must divide the sequence of "
            f"{workload.units_per_sequence:,.0f} tokens."
        )
    if model.num_heads % (d.tensor_parallel or 1) and not workload.in_samples:
        raise Conflict(
            f"tensor_parallel {d.tensor_parallel} must divide the {model.num_heads} attention heads of {model.name}."
        )
    _check_offload(workload, d)
    _check_recomputation(workload, d)
    chunks = (d.pipeline_parallel or 1) * (d.virtual_pipeline or 1)
    if chunks > model.num_layers and not workload.in_samples:
        raise Conflict(
            f"pipeline_parallel × virtual_pipeline is {chunks}, but {model.name} has {model.num_layers} layers: "
            "each chunk needs at least one."
        )


def _check_offload(workload: TrainingWorkload, d: Deployment) -> None:
    """Reject offload that no documented framework switch provides, and parts that must be offloaded together."""
    for part, wanted in (("parameters", d.parameter_offload), ("activations", d.activation_offload)):
        if wanted and workload.in_samples:
            raise Conflict(f"Host offload of {part} is supported only for models that process tokens.")
        able = [name for name, e in ENGINES.items() if part in e.framework.offloads and e.judged_as is None]
        if wanted and d.framework is not None and part not in engine_named(d.framework).framework.offloads:
            raise Conflict(
                f"{product_name(d.framework)} has no documented switch that offloads {part} to the host. "
                f"Set framework to one of: {', '.join(able)}."
            )
    if not d.parameter_offload:
        return
    if d.zero_stage not in (None, 3):
        raise Conflict("parameter_offload offloads shards of the weights: set zero_stage to 3, or omit it.")
    if workload.method is Method.FULL and d.optimizer_offload is False:
        raise Conflict(
            "parameter_offload also offloads the optimizer states of trained parameters: "
            "set optimizer_offload to true, or omit it."
        )


def _check_recomputation(workload: TrainingWorkload, d: Deployment) -> None:
    """Reject selective recomputation for a framework that does not support it."""
    if d.framework is None or d.activation_checkpointing != ACTIVATION_CHECKPOINTING[SELECTIVE] or workload.in_samples:
        return
    recipe = apply_settings(recipe_of_framework(d.framework, d.framework_version, workload.method.value), d.recipe)
    if recipe.selective == "none":
        ways = ", ".join(way for way in RECOMPUTATIONS if way not in WHOLE)
        name = f"{product_name(recipe.framework)} {recipe.version}".strip()
        raise Conflict(
            f"{name} recomputes whole layers or none, so it has no selective activation_checkpointing. "
            f"Use none or full, or set recipe.recomputation to one of: {ways}."
        )
