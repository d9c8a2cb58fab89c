"""The candidate table of training: one row is a machine, a framework and a layout without its data-parallel degree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from app.sizing.columns import Codes, Column, Columns, Mask, Table, column, names_of
from app.sizing.decisions.machines import Candidates
from app.sizing.decisions.rejections import Rejections
from app.sizing.hardware.achieved import SampleTrainingAchieved, TrainingAchieved, TrainingMemoryFactors
from app.sizing.hardware.engines import Framework, engine_named, training_order
from app.sizing.hardware.tables import Machines
from app.sizing.question import Constraints, Deployment
from app.sizing.snapshot import Market
from app.sizing.workload import Method, TrainingWorkload

CHECKPOINTING = ("none", "selective", "full")
NONE, SELECTIVE, FULL = range(3)


# The rate that matrices of a training precision run at.
PRECISION_RATE = {
    "bf16": "16bit",
    "fp16": "16bit",
    "bf16-true": "16bit",
    "fp8": "fp8",
    "mxfp8": "fp8",
    "nvfp4": "fp4",
    "fp32": "fp32",
    "tf32": "fp32",
}
# What a framework's list of formats must name for a training precision.
_SUPPORTED_AS = {
    "tf32": {"tf32", "fp32", "bf16"},
    "fp32": {"fp32", "tf32", "bf16", "fp16"},
    "bf16-true": {"bf16"},
    "mxfp8": {"fp8", "mxfp8"},
    "nvfp4": {"nvfp4"},
}
LONG_SEQUENCE = 16384  # tokens from which context parallelism is worth judging
LARGE_MODEL = 3e10  # parameters from which larger micro-batches do not pay: matrices are large enough
LAYOUT = ("tensor", "pipeline", "context", "expert", "zero", "recompute", "micro_batch", "offload")


@dataclass(frozen=True, slots=True)
class TrainingPlans(Columns):
    """Layouts without their data-parallel degree."""

    offered: Candidates
    framework: Codes
    tensor_parallel: Column
    pipeline_parallel: Column
    context_parallel: Column
    expert_parallel: Column
    zero_stage: Column
    checkpointing: Codes  # index into CHECKPOINTING
    micro_batch: Column
    offload: Mask
    alone: Mask  # on one accelerator only
    unified: Mask  # memory is the system's
    clusters: Mask  # training-class hardware; inference-class parts train within one machine
    interleaves: Mask
    sequence_parallel: Mask
    fused_attention: Mask
    fused_modules: Mask
    fused_loss: Mask
    wide_gradients: Mask
    sharded_master: Mask
    copies_gradients: Mask
    narrow: Mask  # matrices in 8 or 4 bit
    chunks: Column | None  # model chunks of a pipeline stage, where asked
    peak_flops_per_s: Column  # of matrices in the training precision
    wide_flops_per_s: Column  # of what stays in 16 bit
    bytes_per_s: Column
    achieved: TrainingAchieved | SampleTrainingAchieved  # by what the model works on
    memory_factors: TrainingMemoryFactors

    @property
    def node(self) -> Machines:
        return self.offered.node

    @property
    def accelerator(self) -> Codes:
        return self.node.accelerator

    @property
    def ranks(self) -> Column:
        """Devices that hold one copy of the model's work: all degrees but the data-parallel one."""
        return self.tensor_parallel * self.pipeline_parallel * self.context_parallel


def formats_wanted(method: Method, precision: str) -> set[str]:
    """Formats of which a framework must know one to train this way."""
    return {"nf4", "int4-mlx"} if method is Method.QLORA else _SUPPORTED_AS.get(precision, {precision})


def _frameworks(
    market: Market, workload: TrainingWorkload, asked: str | None, constraints: Constraints
) -> list[tuple[int, int]]:
    """(family, engine) of every framework that trains this way in this precision."""
    wanted = formats_wanted(workload.method, workload.precision)
    phases = {"training", "fine_tuning"} if workload.method is Method.FULL else {"fine_tuning"}
    if workload.phase == "training":
        phases = {"training"}
    best: dict[tuple[str, bool, bool], tuple[float, str]] = {}
    for row in market.support:
        if row.phase not in phases or not wanted & set(row.weight_formats):
            continue
        if asked is not None and row.engine != asked:
            continue
        if constraints.engines and row.engine not in constraints.engines:
            continue
        if row.tentative and asked is None and not constraints.engines:
            continue
        rank = training_order(row.engine)
        traits = engine_named(row.engine).framework
        key = (row.family, traits.splits, traits.alone)
        best[key] = min(best.get(key, rank), rank)
    return [
        (market.family_index[family], market.engines.index(engine))
        for (family, *_), (_, engine) in sorted(best.items())
    ]


def _layouts(workload: TrainingWorkload, framework: Framework, fixed: Deployment | None) -> Column:
    """Rows of LAYOUT worth judging for one framework.

    What a deployment fixes replaces what would be judged; a framework that cannot split a model
    has no row for a split that was asked for.
    """
    asked = fixed or Deployment(accelerator="")
    usual = (2, 8, 32, 64, 128, 256) if workload.in_samples else (1, 2, 4, 8, 16)
    sizes = tuple(s for s in usual if _divides(workload, s)) or (1,)
    recomputes = (NONE,) if workload.in_samples else (NONE, SELECTIVE, FULL)
    if asked.micro_batch_sequences:
        sizes = (asked.micro_batch_sequences,)
    if asked.activation_checkpointing:
        recomputes = (CHECKPOINTING.index(asked.activation_checkpointing),)
    rows = [
        *_sharded(workload, framework, asked, recomputes, sizes),
        *_split(workload, framework, asked, recomputes, sizes),
    ]
    whole = [row for row in rows if _divides(workload, row[6])]
    return np.array(whole, dtype=np.float64).reshape(-1, len(LAYOUT))


def _sharded(
    workload: TrainingWorkload,
    framework: Framework,
    asked: Deployment,
    recomputes: tuple[int, ...],
    sizes: tuple[int, ...],
) -> Iterator[tuple[float, ...]]:
    """Layouts that replicate layers and shard their states."""
    split = max(
        asked.tensor_parallel or 1,
        asked.pipeline_parallel or 1,
        asked.context_parallel or 1,
        asked.expert_parallel or 1,
    )
    if split > 1 or (framework.splits and not framework.shards):
        return
    stages = (0, 3) if asked.zero_stage is None else (asked.zero_stage,)
    if not asked.optimizer_offload:
        yield from ((1, 1, 1, 1, z, r, s, 0) for z in stages for r in recomputes for s in sizes)
    offloads = framework.offloads and workload.method is Method.FULL and not workload.in_samples
    if offloads and (asked.optimizer_offload or (asked.optimizer_offload is None and 3 in stages)):
        stage = 3 if asked.zero_stage is None else asked.zero_stage
        yield from ((1, 1, 1, 1, stage, recomputes[-1], s, 1) for s in sizes if s <= 8 or asked.micro_batch_sequences)


def _split(
    workload: TrainingWorkload,
    framework: Framework,
    asked: Deployment,
    recomputes: tuple[int, ...],
    sizes: tuple[int, ...],
) -> Iterator[tuple[float, ...]]:
    """Layouts that divide layers, matrices, sequences and experts over devices."""
    if not framework.splits or workload.method is Method.QLORA or workload.in_samples:
        return
    model = workload.model
    tps = (asked.tensor_parallel,) if asked.tensor_parallel else (1, 2, 4, 8)
    pps = (asked.pipeline_parallel,) if asked.pipeline_parallel else (1, 2, 4, 8, 16)
    long = workload.units_per_sequence >= LONG_SEQUENCE
    cps = (asked.context_parallel,) if asked.context_parallel else (1, 2, 4, 8, 16) if long else (1,)
    eps = (
        (asked.expert_parallel,)
        if asked.expert_parallel
        else tuple(e for e in (1, 8, 16, 32, 64) if e == 1 or model.num_experts % e == 0)
    )
    eps = eps if model.is_moe else (asked.expert_parallel or 1,)
    stage = (3 if framework.shards else 1) if asked.zero_stage is None else asked.zero_stage
    small = (
        sizes
        if asked.micro_batch_sequences
        else tuple(s for s in sizes if s <= (2 if model.is_moe or long or model.total_params > LARGE_MODEL else 4))
        or sizes[:1]
    )
    offload = float(asked.optimizer_offload or False)
    yield from (
        (t, p, c, e, stage, r, s, offload)
        for t in tps
        for p in pps
        if _shape_allows(workload, t, p)
        for c in cps
        if workload.units_per_sequence % c == 0
        for e in eps
        for r in recomputes
        for s in small
    )


def _divides(workload: TrainingWorkload, micro_batch: float) -> bool:
    """Whether steps come out even; samples fill a last micro-batch in part."""
    return micro_batch <= workload.global_batch if workload.in_samples else workload.global_batch % micro_batch == 0


def _shape_allows(workload: TrainingWorkload, tensor_parallel: int, pipeline_parallel: int) -> bool:
    """Heads split evenly, KV heads split or copied, and there is a layer for every stage."""
    model, kv = workload.model, workload.model.kv_heads
    heads = model.num_heads % tensor_parallel == 0 and (kv % tensor_parallel == 0 or tensor_parallel % kv == 0)
    return heads and pipeline_parallel <= model.num_layers


def build_training_plans(
    workload: TrainingWorkload,
    market: Market,
    found: Candidates,
    constraints: Constraints,
    rejections: Rejections,
    *,
    fixed: Deployment | None = None,
) -> TrainingPlans:
    """Join machines, frameworks and layouts; types that cannot train this way fall out with that reason."""
    family = market.family_of[found.node.accelerator]
    machine: list[Codes] = []
    columns: list[Column] = []
    engines: list[Codes] = []
    asked = fixed or Deployment(accelerator="")
    made: dict[Framework, Column] = {}
    for code, engine in _frameworks(market, workload, asked.framework, constraints):
        rows = np.flatnonzero(family == code)
        traits = engine_named(market.engines[engine]).framework
        if traits not in made:
            made[traits] = _layouts(workload, traits, fixed)
        layouts = made[traits]
        if not len(rows) or not len(layouts):
            continue
        machine.append(np.repeat(rows, len(layouts)))
        columns.append(np.tile(layouts, (len(rows), 1)))
        engines.append(np.full(len(rows) * len(layouts), engine))
    a_machine = np.concatenate(machine) if machine else np.zeros(0, dtype=np.int64)
    rejections.reject(
        np.setdiff1d(found.node.accelerator, found.node.accelerator[a_machine]),
        "no_framework",
        f"No framework in the catalogue is known to do {workload.method.value} {workload.phase.replace('_', '-')} "
        f"in {workload.precision} on {{name}}.",
    )
    layout = np.concatenate(columns) if columns else np.zeros((0, len(LAYOUT)))
    engine_codes = np.concatenate(engines) if engines else np.zeros(0, dtype=np.int64)
    m = found.node.take(a_machine)
    # A machine can only be split as its own links allow, except along the pipeline.
    keep = (layout[:, 0] == 1) | (
        layout[:, 0] <= np.where(m.link_bytes_per_s > 0, np.maximum(m.accelerators_per_node, m.scale_up_domain), 1)
    )
    keep |= asked.tensor_parallel is not None
    accelerator = m.accelerator
    peak, wide = _peak(market, accelerator, workload.precision), market.columns.bit16[accelerator]
    known = ~(np.isnan(peak) | np.isnan(market.columns.bytes_per_s[accelerator]) | np.isnan(m.memory_bytes))
    rejections.reject(
        np.setdiff1d(accelerator, accelerator[known]),
        "missing_data",
        f"The catalogue lacks a {workload.precision} rate, a bandwidth or a memory size for {{name}}; nothing is guessed.",
    )
    keep &= known
    a_machine, layout, engine_codes, peak, wide = (
        a_machine[keep],
        layout[keep],
        engine_codes[keep],
        peak[keep],
        wide[keep],
    )
    accelerator = accelerator[keep]
    rate = PRECISION_RATE[workload.precision]
    of_all = [engine_named(name).framework for name in market.engines]

    def trait(name: str, said: bool | None = None) -> Mask:
        if said is not None:
            return np.full(len(layout), said)
        of_engine: Mask = np.array([getattr(t, name) for t in of_all], dtype=bool)
        found: Mask = np.take(of_engine, engine_codes)
        return found

    stacks, stack = np.unique(market.family_of[accelerator] * len(market.engines) + engine_codes, return_inverse=True)

    def coefficients(table: type[Table]) -> Table:
        named = [
            (market.families[s // len(market.engines)], market.engines[s % len(market.engines)])
            for s in stacks.tolist()
        ]
        rows = [market.coefficients.row_of(table, family, engine, rate) for family, engine in named]
        return table(**{name: column([r[name] for r in rows])[stack] for name in names_of(table)})

    return TrainingPlans(
        offered=found.take(a_machine),
        framework=engine_codes,
        tensor_parallel=layout[:, 0],
        pipeline_parallel=layout[:, 1],
        context_parallel=layout[:, 2],
        expert_parallel=layout[:, 3],
        zero_stage=layout[:, 4],
        checkpointing=layout[:, 5].astype(np.int64),
        micro_batch=layout[:, 6],
        offload=layout[:, 7] > 0,
        alone=trait("alone"),
        unified=market.columns.unified[accelerator],
        clusters=market.columns.training_class[accelerator],
        interleaves=trait("splits"),
        sequence_parallel=trait("splits", asked.sequence_parallel),
        fused_attention=np.full(len(layout), asked.flash_attention is not False),
        fused_modules=trait("fused_modules"),
        fused_loss=trait("fused_loss", asked.fused_cross_entropy),
        wide_gradients=trait("wide_gradients", asked.fp32_gradients),
        sharded_master=trait("sharded_master"),
        copies_gradients=trait("copies_gradients"),
        narrow=np.full(len(layout), rate in ("fp8", "fp4")),
        chunks=None if asked.virtual_pipeline is None else np.full(len(layout), float(asked.virtual_pipeline)),
        peak_flops_per_s=peak,
        wide_flops_per_s=peak if rate == "fp32" else np.where(np.isnan(wide), peak, wide),
        bytes_per_s=market.columns.bytes_per_s[accelerator],
        achieved=coefficients(SampleTrainingAchieved) if workload.in_samples else coefficients(TrainingAchieved),
        memory_factors=coefficients(TrainingMemoryFactors),
    )


def _peak(market: Market, accelerator: Codes, precision: str) -> Column:
    """Matrix rate of a training precision; BF16 needs hardware that has it."""
    columns = market.columns
    rates = {"16bit": columns.bit16, "fp8": columns.fp8, "fp4": columns.fp4, "fp32": columns.fp32}
    rate = rates[PRECISION_RATE[precision]][accelerator]
    if precision in ("bf16", "bf16-true"):
        return np.where(columns.has_bf16[accelerator], rate, np.nan)
    return rate
