"""The candidate table of training: one row is a machine, a framework and a layout without its data-parallel degree."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.candidates import Candidates
from app.sizing.columns import Codes, Column, Columns, Mask
from app.sizing.market import Market
from app.sizing.rejections import Rejections
from app.sizing.workload import Constraints, Deployment, Method, TrainingWorkload

CHECKPOINTING = ("none", "selective", "full")

# Frameworks that split layers and matrices over devices; the others shard states over replicas.
MODEL_PARALLEL_FRAMEWORKS = ("megatron", "nemo", "maxtext", "neuronx", "torchtitan")
SPLIT_ONLY_FRAMEWORKS = ("megatron", "nemo")
FRAMEWORK_PREFERENCE = (
    "fsdp", "deepspeed", "peft+bitsandbytes", "optimum-habana", "optimum-neuron", "unsloth", "axolotl",
    "mlx", "transformers", "megatron", "nemo", "maxtext", "torchtitan", "neuronx",
)  # fmt: skip
OFFLOADING_FRAMEWORKS = ("fsdp", "deepspeed", "axolotl", "unsloth")

PRECISION_RATE = {"bf16": "16bit", "fp16": "16bit", "fp8": "fp8", "fp32": "fp32", "tf32": "fp32"}


@dataclass(frozen=True, slots=True)
class TrainingPlans(Columns):
    """Layouts without their data-parallel degree."""

    c: Candidates
    framework: Codes
    model_parallel: Mask
    tensor_parallel: Column
    pipeline_parallel: Column
    zero_stage: Column
    checkpointing: Codes  # index into CHECKPOINTING
    micro_batch: Column
    offload: Mask
    clusters: Mask  # training-class hardware; inference-class parts train within one machine
    flops_per_s: Column
    peak_flops_per_s: Column
    bytes_per_s: Column

    @property
    def accelerator(self) -> Codes:
        return self.c.m.accelerator


def _frameworks(market: Market, workload: TrainingWorkload, asked: str | None, constraints: Constraints) -> list[tuple[int, int, bool]]:
    """(family, engine, splits models) of every framework that trains this way in this precision."""
    order = {name: i for i, name in enumerate(FRAMEWORK_PREFERENCE)}
    wanted = {workload.precision}
    if workload.precision == "tf32":
        wanted = {"tf32", "fp32", "bf16"}
    if workload.method is Method.QLORA:
        wanted = {"nf4", "int4-mlx"}
    phases = {"training", "fine_tuning"} if workload.method is Method.FULL else {"fine_tuning"}
    if workload.phase == "training":
        phases = {"training"}
    best: dict[tuple[str, bool], tuple[int, str]] = {}
    for row in market.support:
        if row.phase not in phases or not wanted & set(row.weight_formats):
            continue
        if asked is not None and row.engine != asked:
            continue
        if constraints.engines and row.engine not in constraints.engines:
            continue
        if row.tentative and asked is None and not constraints.engines:
            continue
        splits = row.engine in MODEL_PARALLEL_FRAMEWORKS
        rank = (order.get(row.engine, len(order)), row.engine)
        key = (row.family, splits)
        best[key] = min(best.get(key, rank), rank)
    return [(market.family_index[family], market.engines.index(engine), splits) for (family, splits), (_, engine) in sorted(best.items())]


def _layouts(workload: TrainingWorkload, framework: str, fixed: Deployment | None) -> Column:
    """Rows of (tp, pp, zero, checkpointing, micro-batch, offload) worth judging for one framework.

    What a deployment fixes replaces what would be judged; a framework that cannot split a model
    has no row for a split that was asked for.
    """
    splits = framework in MODEL_PARALLEL_FRAMEWORKS and workload.method is Method.FULL and not workload.in_samples
    usual = (2, 8, 32, 64, 128, 256) if workload.in_samples else (1, 2, 4, 8, 16)
    sizes = tuple(s for s in usual if _divides(workload, s)) or (1,)
    recomputes = (0,) if workload.in_samples else (0, 1, 2)
    asked = fixed or Deployment(accelerator="")
    if asked.micro_batch_sequences:
        sizes = (asked.micro_batch_sequences,)
    if asked.activation_checkpointing:
        recomputes = (CHECKPOINTING.index(asked.activation_checkpointing),)
    degrees = (asked.tensor_parallel or 1, asked.pipeline_parallel or 1)
    rows: list[tuple[float, ...]] = []
    if degrees == (1, 1) and framework not in SPLIT_ONLY_FRAMEWORKS:
        stages = (0, 3) if asked.zero_stage is None else (asked.zero_stage,)
        if not asked.optimizer_offload:
            rows += [(1, 1, z, r, s, 0) for z in stages for r in recomputes for s in sizes]
        offloads = framework in OFFLOADING_FRAMEWORKS and workload.method is Method.FULL and not workload.in_samples
        if offloads and asked.optimizer_offload is not False and 3 in stages:
            rows += [(1, 1, 3, r, s, 1) for r in recomputes if r == recomputes[-1] for s in sizes if s <= 8]
    if splits and not asked.optimizer_offload:
        tps = (asked.tensor_parallel,) if asked.tensor_parallel else (1, 2, 4, 8)
        pps = (asked.pipeline_parallel,) if asked.pipeline_parallel else (1, 2, 4, 8, 16)
        stage = 1 if asked.zero_stage is None else asked.zero_stage
        small = sizes if asked.micro_batch_sequences else tuple(s for s in sizes if s <= 2) or sizes[:1]
        rows += [
            (t, p, stage, r, s, 0) for t in tps for p in pps if _shape_allows(workload, t, p) for r in recomputes for s in small
        ]  # fmt: skip
    whole = [row for row in rows if _divides(workload, row[4])]
    return np.array(whole, dtype=np.float64).reshape(-1, 6)


def _divides(workload: TrainingWorkload, micro_batch: float) -> bool:
    """Whether steps come out even; samples fill a last micro-batch in part."""
    return micro_batch <= workload.global_batch if workload.in_samples else workload.global_batch % micro_batch == 0


def _shape_allows(workload: TrainingWorkload, tensor_parallel: int, pipeline_parallel: int) -> bool:
    """Heads split evenly, KV heads split or copied, and there is a layer for every stage."""
    model, kv = workload.model, workload.model.kv_heads
    heads = model.num_heads % tensor_parallel == 0 and (kv % tensor_parallel == 0 or tensor_parallel % kv == 0)
    return heads and pipeline_parallel <= model.num_layers


def build_training_plans(
    workload: TrainingWorkload, market: Market, found: Candidates, constraints: Constraints, rejections: Rejections,
    *, fixed: Deployment | None = None,
) -> TrainingPlans:  # fmt: skip
    """Join machines, frameworks and layouts; types that cannot train this way fall out with that reason."""
    family = market.family_of[found.m.accelerator]
    machine: list[Codes] = []
    columns: list[Column] = []
    engines: list[Codes] = []
    splits_of: list[Mask] = []
    asked = fixed.framework if fixed is not None else None
    for code, engine, splits in _frameworks(market, workload, asked, constraints):
        rows = np.flatnonzero(family == code)
        layouts = _layouts(workload, market.engines[engine], fixed)
        if not len(rows) or not len(layouts):
            continue
        machine.append(np.repeat(rows, len(layouts)))
        columns.append(np.tile(layouts, (len(rows), 1)))
        engines.append(np.full(len(rows) * len(layouts), engine))
        splits_of.append(np.full(len(rows) * len(layouts), splits))
    a_machine = np.concatenate(machine) if machine else np.zeros(0, dtype=np.int64)
    rejections.reject(
        np.setdiff1d(found.m.accelerator, found.m.accelerator[a_machine]), "no_framework",
        f"No framework in the catalogue is known to do {workload.method.value} {workload.phase.replace('_', '-')} "
        f"in {workload.precision} on {{name}}.",
    )  # fmt: skip
    layout = np.concatenate(columns) if columns else np.zeros((0, 6))
    engine_codes = np.concatenate(engines) if engines else np.zeros(0, dtype=np.int64)
    model_parallel = np.concatenate(splits_of) if splits_of else np.zeros(0, dtype=bool)
    m = found.m.take(a_machine)
    # A machine can only be split as its own links allow, except along the pipeline.
    keep = (layout[:, 0] == 1) | (layout[:, 0] <= np.where(m.link_bytes_per_s > 0, np.maximum(m.count, m.domain), 1))
    a_machine, layout, engine_codes, model_parallel = a_machine[keep], layout[keep], engine_codes[keep], model_parallel[keep]

    accelerator = found.m.accelerator[a_machine]
    peak = _peak(market, accelerator, workload.precision)
    known = ~(np.isnan(peak) | np.isnan(market.columns.bytes_per_s[accelerator]) | np.isnan(found.m.memory_bytes[a_machine]))
    rejections.reject(
        np.setdiff1d(accelerator, accelerator[known]), "missing_data",
        f"The catalogue lacks a {workload.precision} rate, a bandwidth or a memory size for {{name}}; nothing is guessed.",
    )  # fmt: skip
    a_machine, layout, engine_codes, model_parallel = a_machine[known], layout[known], engine_codes[known], model_parallel[known]
    accelerator, peak = accelerator[known], peak[known]
    achieved = _achieved(market, workload, market.family_of[accelerator], engine_codes)
    return TrainingPlans(
        c=found.take(a_machine),
        framework=engine_codes,
        model_parallel=model_parallel,
        tensor_parallel=layout[:, 0],
        pipeline_parallel=layout[:, 1],
        zero_stage=layout[:, 2],
        checkpointing=layout[:, 3].astype(np.int64),
        micro_batch=layout[:, 4],
        offload=layout[:, 5] > 0,
        clusters=market.columns.training_class[accelerator],
        flops_per_s=peak * achieved,
        peak_flops_per_s=peak,
        bytes_per_s=market.columns.bytes_per_s[accelerator],
    )


def _peak(market: Market, accelerator: Codes, precision: str) -> Column:
    """Matrix rate of a training precision; BF16 needs hardware that has it."""
    columns = market.columns
    rate = {"16bit": columns.bit16, "fp8": columns.fp8, "fp32": columns.fp32}[PRECISION_RATE[precision]][accelerator]
    if precision == "bf16":
        return np.where(columns.has_bf16[accelerator], rate, np.nan)
    return rate


def _achieved(market: Market, workload: TrainingWorkload, family: Codes, engine: Codes) -> Column:
    """Achieved share of the peak by family and framework, before communication, bubble and optimizer."""
    sample = workload.model.sample
    name = "sample_training_fraction" if sample is not None and sample.convolutional else "training_compute_fraction"
    kind = PRECISION_RATE[workload.precision]
    pairs, row = np.unique(np.stack([family, engine]), axis=1, return_inverse=True)
    values = np.array(
        [
            market.coefficients.value(name, family=market.families[f], format_class=kind, engine=market.engines[e])
            for f, e in pairs.T.tolist()
        ]
    )
    moe = market.coefficients.value("training_moe_fraction") if workload.model.is_moe else 1.0
    return values[row.reshape(-1)] * moe if len(values) else np.zeros(0)
