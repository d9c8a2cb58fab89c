"""Layouts worth judging: degrees of parallelism, sharding, activation checkpointing and micro-batch, or as asked."""

from __future__ import annotations

import math

import numpy as np

from app.errors import Conflict
from app.sizing.columns import Column, Mask, column
from app.sizing.hardware.engines import ENGINES, Framework, engine_named
from app.sizing.hardware.engines.record import OFFLOADS
from app.sizing.hardware.recipes import RECOMPUTATIONS, WHOLE, as_said, recipe_of_framework
from app.sizing.question import Deployment
from app.sizing.workload import Method, TrainingWorkload

ACTIVATION_CHECKPOINTING = ("none", "selective", "full")
NONE, SELECTIVE, FULL = range(3)
# Columns of a layout.
LAYOUT = (
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
# What may lie in the host's memory together: of OFFLOADS.
STATES, ACTIVATIONS = frozenset({"optimizer"}), frozenset({"activations"})
TRAINED_MOVED = (STATES, ACTIVATIONS, STATES | ACTIVATIONS, STATES | {"parameters"}, frozenset(OFFLOADS))
FROZEN_MOVED = (ACTIVATIONS, frozenset({"parameters"}), ACTIVATIONS | {"parameters"})
_MICRO_BATCH = LAYOUT.index("micro_batch_sequences")

# The grid of a search: what is judged where a caller fixes nothing. A finer one finds the same within a percent.
TENSOR_DEGREES = (1, 2, 4, 8)
PIPELINE_DEGREES = (1, 2, 4, 8, 16)
CONTEXT_DEGREES = (1, 2, 4, 8, 16)  # of long sequences
EXPERT_DEGREES = (1, 8, 16, 32, 64)
ZERO_STAGES = (0, 1, 2, 3)  # of replicas
ALL_OR_NOTHING = (0, 3)  # of frameworks that split models too: their compilers shard everything
MICRO_BATCH_SEQUENCES = (1, 2, 4, 8, 16)
MICRO_BATCH_SAMPLES = (1, 2, 8, 32, 64, 128, 256)
MOST_SEQUENCES_OFFLOADED = 8
MOST_SEQUENCES_LAST_RESORT = 2  # of what is judged only where nothing else fits
MOST_VIRTUAL_PIPELINE = 8.0  # model chunks of a pipeline stage, where a framework interleaves
MOST_SEQUENCES_SPLIT = 4  # where layers or matrices are split
MOST_SEQUENCES_SPLIT_LARGE = 2  # of models and sequences whose matrices are large enough with fewer
LARGE_MODEL_PARAMS = 3e10  # from which small micro-batches fill matrices
SPLITS_SEQUENCES_PARAMS = 1e11  # of models that may split sequences that are not long
SPLIT_SEQUENCE_TOKENS = 4096  # of a piece at least, of sequences that are not long
LONG_SEQUENCE_TOKENS = 16384  # from which sequences are worth splitting

Degrees = tuple[float, ...]


def layouts_of(
    workload: TrainingWorkload, framework: Framework, fixed: Deployment | None, *, selective: bool = True
) -> Column:
    """Rows of LAYOUT worth judging for one framework.

    What a deployment fixes replaces what would be judged; a framework that cannot split a model
    has no row for a split that was asked for, nor one for `selective` recomputation where it has no way of it.
    """
    asked = fixed or Deployment(accelerator="")
    checkpointing: Degrees = (NONE,) if workload.in_samples else (NONE, SELECTIVE, FULL)
    if asked.activation_checkpointing:
        checkpointing = (ACTIVATION_CHECKPOINTING.index(asked.activation_checkpointing),)
    if not selective:
        checkpointing = tuple(kept for kept in checkpointing if kept != SELECTIVE)
    sizes = _micro_batches(workload, asked)
    rows = np.concatenate(
        [
            _replicated(framework, asked, checkpointing, sizes),
            _offloaded(workload, framework, asked, checkpointing, sizes),
            _split(workload, framework, asked, checkpointing, sizes),
        ]
    )
    return rows[_divides(workload, rows[:, _MICRO_BATCH])]


def _grid(*choices: Degrees) -> Column:
    """Every combination of one choice per column of LAYOUT, the last one changing fastest."""
    sizes = [len(choice) for choice in choices]
    places = np.unravel_index(np.arange(math.prod(sizes)), sizes)
    return np.stack([column(choice)[place] for choice, place in zip(choices, places, strict=True)], axis=1)


_NO_ROWS = np.zeros((0, len(LAYOUT)))


def _micro_batches(workload: TrainingWorkload, asked: Deployment) -> Degrees:
    """Sizes of micro-batches that the global batch takes."""
    if asked.micro_batch_sequences:
        return (asked.micro_batch_sequences,)
    usual = column(MICRO_BATCH_SAMPLES if workload.in_samples else MICRO_BATCH_SEQUENCES)
    return tuple(usual[_divides(workload, usual)].tolist()) or (1,)


def _divides(workload: TrainingWorkload, micro_batch_sequences: Column) -> Mask:
    """Whether steps come out even; samples fill a last micro-batch in part."""
    if workload.in_samples:
        return micro_batch_sequences <= workload.global_batch
    found: Mask = np.mod(workload.global_batch, micro_batch_sequences) == 0
    return found


def _replicates(framework: Framework, asked: Deployment) -> bool:
    """Whether layers lie whole on every accelerator, and their states may be sharded."""
    degrees = (asked.tensor_parallel, asked.pipeline_parallel, asked.context_parallel, asked.expert_parallel)
    return all((d or 1) == 1 for d in degrees) and (framework.shards or not framework.splits)


def _replicated(framework: Framework, asked: Deployment, checkpointing: Degrees, sizes: Degrees) -> Column:
    """Layouts that replicate layers and perhaps shard their states."""
    if _offload_asked(asked) or not _replicates(framework, asked):
        return _NO_ROWS
    usual = ALL_OR_NOTHING if framework.splits else ZERO_STAGES
    stages = usual if asked.zero_stage is None else (asked.zero_stage,)
    return _grid((1,), (1,), (1,), (1,), stages, checkpointing, sizes, (0,), (0,), (0,))


def _offload_asked(asked: Deployment) -> bool:
    """Whether a caller moves anything to the host's memory."""
    return bool(asked.optimizer_offload or asked.parameter_offload or asked.activation_offload)


def _offloaded(
    workload: TrainingWorkload, framework: Framework, asked: Deployment, checkpointing: Degrees, sizes: Degrees
) -> Column:
    """Layouts of which optimizer states, parameters or activations lie in the host's memory."""
    if workload.in_samples or not _replicates(framework, asked):
        return _NO_ROWS
    rows = [_NO_ROWS]
    for moved in TRAINED_MOVED if workload.method is Method.FULL else FROZEN_MOVED:
        if not _may_move(moved, framework, asked):
            continue
        most = MOST_SEQUENCES_OFFLOADED if moved == STATES else MOST_SEQUENCES_LAST_RESORT
        small = tuple(s for s in sizes if s <= most or asked.micro_batch_sequences)
        parts = [(float(part in moved),) for part in OFFLOADS]
        rows.append(_grid((1,), (1,), (1,), (1,), _stages_moved(moved, asked), checkpointing[-1:], small, *parts))
    return np.concatenate(rows)


def _may_move(moved: frozenset[str], framework: Framework, asked: Deployment) -> bool:
    """Whether a framework moves these parts to the host, and a caller says nothing else. Trained parameters take their
    states along, whatever the framework does with states alone.
    """
    said = {
        "optimizer": asked.optimizer_offload,
        "parameters": asked.parameter_offload,
        "activations": asked.activation_offload,
    }
    along = {"optimizer"} if "parameters" in moved else set()
    return moved - along <= set(framework.offloads) and all(
        wanted is None or wanted == (part in moved) for part, wanted in said.items()
    )


def _stages_moved(moved: frozenset[str], asked: Deployment) -> Degrees:
    """ZeRO stages of such a layout: states that nobody asked to move, and parameters, leave in shards."""
    if asked.zero_stage is None:
        return ALL_OR_NOTHING if moved == ACTIVATIONS else (3,)
    whole = "parameters" not in moved and (asked.optimizer_offload or "optimizer" not in moved)
    return (asked.zero_stage,) if asked.zero_stage == 3 or whole else ()


def _split(
    workload: TrainingWorkload,
    framework: Framework,
    asked: Deployment,
    checkpointing: Degrees,
    sizes: Degrees,
) -> Column:
    """Layouts that divide layers, matrices, sequences and experts over accelerators."""
    if not framework.splits or workload.method is Method.QLORA or workload.in_samples:
        return _NO_ROWS
    along = asked.parameter_offload and workload.method is Method.FULL
    moved = {
        "optimizer": float(asked.optimizer_offload or along or False),
        "parameters": float(asked.parameter_offload or False),
        "activations": float(asked.activation_offload or False),
    }
    if any(moved[part] and part not in framework.offloads for part in ("parameters", "activations")):
        return _NO_ROWS
    long = workload.units_per_sequence >= LONG_SEQUENCE_TOKENS
    stage = (3 if framework.shards else 1) if asked.zero_stage is None else asked.zero_stage
    rows = _grid(
        (asked.tensor_parallel,) if asked.tensor_parallel else TENSOR_DEGREES,
        (asked.pipeline_parallel,) if asked.pipeline_parallel else PIPELINE_DEGREES,
        (asked.context_parallel,) if asked.context_parallel else _context_degrees(workload),
        _expert_degrees(workload, asked),
        (stage,),
        checkpointing,
        _split_micro_batches(workload, asked, sizes, long=long),
        *((moved[part],) for part in OFFLOADS),
    )
    chunks = (asked.virtual_pipeline or 1) if asked.pipeline_parallel is None else 1
    return rows[_shape_allows(workload, rows, chunks)]


def _context_degrees(workload: TrainingWorkload) -> Degrees:
    """Degrees that leave each accelerator a piece of a sequence worth its kernels."""
    if workload.units_per_sequence >= LONG_SEQUENCE_TOKENS:
        return CONTEXT_DEGREES
    if workload.model.total_params < SPLITS_SEQUENCES_PARAMS:
        return (1,)
    return tuple(c for c in CONTEXT_DEGREES if workload.units_per_sequence >= c * SPLIT_SEQUENCE_TOKENS or c == 1)


def _expert_degrees(workload: TrainingWorkload, asked: Deployment) -> Degrees:
    """Degrees that divide the experts."""
    model = workload.model
    if asked.expert_parallel or not model.is_moe:
        return (asked.expert_parallel or 1,)
    return tuple(e for e in EXPERT_DEGREES if e == 1 or model.num_experts % e == 0)


def _split_micro_batches(workload: TrainingWorkload, asked: Deployment, sizes: Degrees, *, long: bool) -> Degrees:
    """Sizes where the model is split; large matrices gain nothing from larger ones."""
    if asked.micro_batch_sequences:
        return sizes
    large = workload.model.is_moe or long or workload.model.total_params > LARGE_MODEL_PARAMS
    most = MOST_SEQUENCES_SPLIT_LARGE if large else MOST_SEQUENCES_SPLIT
    return tuple(s for s in sizes if s <= most) or sizes[:1]


def _shape_allows(workload: TrainingWorkload, rows: Column, chunks: int) -> Mask:
    """Heads split evenly, KV heads split or copied, there is a layer for every chunk of a stage, and sequences
    divide.
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
    """Refuse a layout that the model cannot take, with what it could.

    Raises Conflict.
    """
    model = workload.model
    if (d.expert_parallel or 1) > 1 and (not model.is_moe or model.num_experts % (d.expert_parallel or 1)):
        experts = f"{model.num_experts} experts, which the degree must divide" if model.is_moe else "no experts"
        raise Conflict(f"expert_parallel {d.expert_parallel} does not go with {model.name}: it has {experts}.")
    if workload.units_per_sequence % (d.context_parallel or 1):
        raise Conflict(
            f"context_parallel {d.context_parallel} must divide the sequence of {workload.units_per_sequence:g} tokens."
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
            f"pipeline_parallel times virtual_pipeline is {chunks}, and {model.name} has {model.num_layers} layers: "
            "each chunk needs one."
        )


def _check_offload(workload: TrainingWorkload, d: Deployment) -> None:
    """Refuse what no documented switch of a framework moves to the host, and parts that only leave together."""
    for part, wanted in (("parameters", d.parameter_offload), ("activations", d.activation_offload)):
        if wanted and workload.in_samples:
            raise Conflict(f"Moving {part} to the host is modelled for models that work on tokens.")
        able = [name for name, e in ENGINES.items() if part in e.framework.offloads and e.judged_as is None]
        if wanted and d.framework is not None and part not in engine_named(d.framework).framework.offloads:
            raise Conflict(
                f"{d.framework} has no documented switch that moves {part} to the host: {', '.join(able)} do."
            )
    if not d.parameter_offload:
        return
    if d.zero_stage not in (None, 3):
        raise Conflict("parameter_offload moves shards of the weights to the host: it goes with zero_stage 3.")
    if workload.method is Method.FULL and d.optimizer_offload is False:
        raise Conflict(
            "parameter_offload takes the optimizer states of trained parameters along: optimizer_offload too."
        )


def _check_recomputation(workload: TrainingWorkload, d: Deployment) -> None:
    """Refuse selective recomputation of a framework that has no way of it."""
    if d.framework is None or d.activation_checkpointing != ACTIVATION_CHECKPOINTING[SELECTIVE] or workload.in_samples:
        return
    recipe = as_said(recipe_of_framework(d.framework, d.framework_version, workload.method.value), d.recipe)
    if recipe.selective == "none":
        ways = ", ".join(way for way in RECOMPUTATIONS if way not in WHOLE)
        raise Conflict(
            f"activation_checkpointing selective is no layout of {recipe.name}, which recomputes whole layers or none: "
            f"take none or full, or say in recipe.recomputation what is recomputed ({ways})."
        )
