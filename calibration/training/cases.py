"""Published training results as cases: token rate, sample rate, and peak memory.

A row becomes a case if it names model, accelerator, count, sequence length, batch and precision. Every other row is
counted with the reason. Parts of the layout that a row leaves open are chosen as /estimate chooses them, at the base
coefficients: layouts that followed the fitted factors would change with each fit, and no refit would settle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from app.errors import AppError
from app.sizing.answer.confidence import training_setting
from app.sizing.assumptions import Assumptions
from app.sizing.columns import Column, Columns, Mask, column
from app.sizing.decisions.machines import Candidates, find_candidates, unpriced_machine
from app.sizing.decisions.prices import UNINTERRUPTIBLE
from app.sizing.decisions.rejections import Rejections
from app.sizing.evidence import Setting
from app.sizing.hardware.achieved import CoefficientTable
from app.sizing.hardware.engines import engine_named
from app.sizing.hardware.parts import KINDS
from app.sizing.hardware.recipes import RecipeSettings
from app.sizing.model.architecture import ModelArchitecture, ModelKind
from app.sizing.question import Constraints, Deployment, Economics
from app.sizing.snapshot import Catalog
from app.sizing.training.counts import Counts, counts_of
from app.sizing.training.degrees import degree_for_accelerators
from app.sizing.training.layouts import FULL
from app.sizing.training.memory import MemoryParts, estimate_training_memory
from app.sizing.training.plans import TrainingPlans
from app.sizing.training.run import run_at
from app.sizing.training.search import training_layouts
from app.sizing.training.work import TrainingWork, training_work
from app.sizing.workload import Method, TrainingWorkload
from calibration.case import NotCompared, Stack, collect_cases, parse_number
from calibration.training.networks import complete_row, kernels_of, sample_shape
from calibration.training.published import (
    Run,
    coefficient_framework,
    executed_precision,
    optimizer_of,
    precision_of,
    shape_of,
    trainer_of,
)
from calibration.training.recipes import Figure, SourceRecipe, recipe_of

ASSUMED = Assumptions()
MAX_SIZE_RATIO = 1.5  # size ratio from which a catalog model of the same name is a different model
SIZE_TOLERANCE = 0.95  # tolerance for rounded sizes
# Relative time within which layouts count as equally fast; the largest micro-batch wins.
TIE_TOLERANCE = 1e-3
# A deadline and a token budget that never bind: rows only ask for speed.
UNLIMITED = 1e15
# Notes of rows whose layers are split naively, or whose layout contradicts their own numbers.
UNSUPPORTED_SPLITS = (
    "naive layer split",
    "inconsistent in the source",
    "does not match 8 GPUs",
    "printed as H200 in the source",
)
METHODS = {
    "pretrain": ("training", Method.FULL),
    "full_ft": ("fine_tuning", Method.FULL),
    "lora": ("fine_tuning", Method.LORA),
    "qlora": ("fine_tuning", Method.QLORA),
}


@dataclass(frozen=True, slots=True)
class TrainingCase:
    """One published training result; `group` names the problem that it belongs to."""

    id: str
    source: str
    reference: str
    stack: Stack
    group: str
    model: str
    setting: Setting
    work: Columns
    measured: Mapping[str, float]
    exclusion_reason: str | None = None
    counted_bytes: float = 0.0  # weights, gradients and optimizer states at a peak
    recipe_known: bool = True


@dataclass(frozen=True, slots=True)
class RowQuestion:
    """A row as a question to the engine, with measured figures; units are tokens or samples of one accelerator."""

    run: Run
    workload: TrainingWorkload
    deployment: Deployment
    units_per_s: float | None
    peak_memory_bytes: float | None
    source_recipe: SourceRecipe


@dataclass(frozen=True, slots=True)
class SpeedTable(Columns):
    work: TrainingWork
    units: Column  # tokens or samples per step and accelerator


@dataclass(frozen=True, slots=True)
class MemoryTable(Columns):
    held: MemoryParts
    reserved: Mask  # the source counts memory that its allocator reserved, not memory of tensors
    driver: Mask  # the source counts memory that the device shows as used


def complete_training_row(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """A row with a training rate, completed from its source's recipe; raises NotCompared for any other row."""
    if not row.get("accelerator") or not row.get("num_accelerators"):
        raise NotCompared("accelerator or count is not given")
    if row["method"] not in METHODS:
        raise NotCompared("not a training rate (reinforcement learning, or training mixed with other work)")
    if "OOM" in (row.get("notes") or "")[:12]:
        raise NotCompared("ran out of memory")
    if any(words in (row.get("notes") or "") for words in UNSUPPORTED_SPLITS):
        raise NotCompared("split over accelerators in a way that is not modeled or contradicts itself")
    return complete_row(row)


class TrainingCases:
    """Builds cases from rows against one catalog."""

    def __init__(self, catalog: Catalog, model_named: Callable[[str], ModelArchitecture]) -> None:
        self.catalog, self.unfitted = catalog, copy(catalog)
        self.unfitted.coefficients = CoefficientTable(catalog.coefficients.rows.values())
        self._named = model_named
        self.model_named = cache(self._model_named)
        self.machines = cache(self._find_machines)

    def _model_named(self, name: str) -> ModelArchitecture | None:
        try:
            return self._named(name)
        except AppError:
            return None

    def _find_machines(self, accelerator: str) -> Candidates:
        found = find_candidates(
            self.catalog,
            Constraints(accelerators=(accelerator,), pricing_models=UNINTERRUPTIBLE, price_kinds=KINDS),
            Economics(),
            Assumptions(),
            Rejections(self.catalog.accelerators),
            fixed=Deployment(accelerator),
        )
        return found if len(found) else unpriced_machine(self.catalog, Deployment(accelerator), Assumptions())

    def choose_machine(self, run: Run) -> Candidates:
        """The machine of a row: accelerators per machine and network as published, else the best machine on sale."""
        found = self.machines(run.accelerator)
        m = found.node
        wanted = run.per_machine or min(
            run.accelerators, float(self.catalog.accelerators[int(m.accelerator[0])].typical_node_size)
        )
        rack = m.scale_up_domain.max() > Assumptions().largest_host_accelerators
        beyond = np.where(rack, -m.scale_up_domain, np.abs(m.accelerators_per_node - wanted))
        one = found.take(
            np.lexsort(
                (
                    -np.nan_to_num(m.network_bytes_per_s),
                    -m.link_bytes_per_s,
                    np.abs(m.accelerators_per_node - wanted),
                    beyond,
                )
            )[:1]
        )
        if run.per_machine is not None and not rack and run.per_machine < float(one.node.accelerators_per_node[0]):
            one = replace(
                one,
                node=replace(
                    one.node, accelerators_per_node=column([run.per_machine]), scale_up_domain=column([run.per_machine])
                ),
            )
        if run.network_bytes_per_s is not None:
            one = replace(one, node=replace(one.node, network_bytes_per_s=column([run.network_bytes_per_s / wanted])))
        return one

    def model_of(self, row: Mapping[str, Any]) -> ModelArchitecture:
        """The model by name, else by the shape in the row."""
        model = self.model_named(row.get("model") or "")
        size = parse_number(row.get("model_params_b"))
        if model is None or (size and not 1 / MAX_SIZE_RATIO < model.total_params / (size * 1e9) < MAX_SIZE_RATIO):
            model = shape_of(row, self.model_named) or model
        if model is None:
            raise NotCompared("model is not in the catalog under that name, and the row gives no shape")
        return model

    def read_question(self, row: Mapping[str, Any]) -> RowQuestion:
        """A row as /estimate takes it; raises NotCompared if the row states too little."""
        row = complete_training_row(row)
        model = self.model_of(row).with_sample_shape(sample_shape(row))
        run = Run.from_row(row)
        phase, method = METHODS[row["method"]]
        precision = precision_of(row)
        if precision is None:
            raise NotCompared("precision is not given")
        precision = executed_precision(
            precision, self.catalog.accelerators[self.catalog.accelerator_index[row["accelerator"]]]
        )
        samples = model.kind is ModelKind.SAMPLES
        length = 1.0 if samples else parse_number(row.get("seq_len"))
        if not length:
            raise NotCompared("sequence length is not given")
        known = recipe_of(row)
        deployment, batch = run.read_layout(trainer_of(row, phase, method, precision, model.task, self.catalog), model)
        deployment = replace(deployment, recipe=RecipeSettings(kernels=kernels_of(row))) if samples else deployment
        workload = TrainingWorkload(
            model,
            phase,
            method,
            UNLIMITED,
            length,
            batch,
            precision,
            optimizer_of(row) or "adamw",
            UNLIMITED,
            0.0,
            None,
            None,
            False,
            int(parse_number(row.get("lora_rank")) or known.lora_rank),
            known.lora_targets,
            published_stage_unevenness=np.inf,  # the fitted shares include it
        )
        memory = (
            run.peak_memory_bytes()
            if optimizer_of(row) is not None and not samples and run.layout_is_known(model)
            else None
        )
        return RowQuestion(
            run,
            workload,
            deployment,
            run.units_per_s_per_accelerator(model, workload, self.catalog, precision),
            memory,
            known,
        )

    def build_cases(self, row: Mapping[str, Any]) -> list[TrainingCase]:
        """The cases of one row; raises NotCompared if it states too little or cannot run."""
        asked = self.read_question(row)
        workload, run, counts = asked.workload, asked.run, counts_of(asked.workload)
        plans, degree = self.choose_layout(workload, asked.deployment, run)
        accelerator = self.catalog.accelerators[int(plans.accelerator[0])]
        framework = self.catalog.engines[int(plans.framework[0])]
        setting = training_setting(workload, accelerator, framework, run.accelerators)
        if not workload.in_samples:
            setting = replace(setting, engine=coefficient_framework(row, setting.engine))
        generation = engine_named(setting.engine).generation_at(None, row.get("source_date") or "")
        stack = Stack(setting.engine, generation, setting.family, setting.format_class)

        def make_case(
            group: str,
            work: Columns,
            metric: str,
            measured: float,
            *,
            excluded: str | None = None,
            counted_bytes: float = 0.0,
        ) -> TrainingCase:
            at = row["id"], row["source_key"], row["source_ref"]
            model, usable = workload.model.name, excluded is None
            figures = {metric: measured}
            return TrainingCase(*at, stack, group, model, setting, work, figures, excluded, counted_bytes, usable)

        found = []
        if asked.units_per_s is not None:
            self.check_rate(asked, counts, plans)
            units = column([workload.global_batch * workload.units_per_sequence / run.accelerators])
            group, metric = (
                ("samples", "training_samples_per_s") if workload.in_samples else ("tokens", "training_tokens_per_s")
            )
            found.append(
                make_case(group, SpeedTable(training_work(counts, plans, degree), units), metric, asked.units_per_s)
            )
        if asked.peak_memory_bytes is not None:
            table, counted_bytes = memory_table(asked, counts, plans, degree)
            found.append(
                make_case(
                    "memory",
                    table,
                    "peak_memory_bytes",
                    asked.peak_memory_bytes,
                    excluded=asked.source_recipe.open or None,
                    counted_bytes=counted_bytes,
                )
            )
        if not found:
            raise NotCompared("no speed and no peak memory is given")
        return found

    def check_rate(self, asked: RowQuestion, counts: Counts, plans: TrainingPlans) -> None:
        """Raises NotCompared if the measured rate exceeds the accelerator's peak FLOP/s."""
        if (asked.units_per_s or 0.0) * counts.flops_per_unit > float(plans.machine.peak_flops_per_s[0]):
            raise NotCompared("figures faster than the device's rates allow")

    def choose_layout(
        self, workload: TrainingWorkload, deployment: Deployment, run: Run
    ) -> tuple[TrainingPlans, Column]:
        """(layout, data-parallel degree) of the row; open parts are those of the fastest layout that fits."""
        machine = self.choose_machine(run)
        rejections = Rejections(self.catalog.accelerators)
        counts = counts_of(workload)
        plans = training_layouts(workload, self.unfitted, machine, Constraints(), rejections, ASSUMED, fixed=deployment)
        if deployment.zero_stage is None:
            plans = plans.take(~self.shards_some_states(plans))
        if deployment.activation_checkpointing is None:
            plans = plans.take(~self.recomputes_all_layers(plans))
        if not len(plans):
            raise NotCompared(
                f"declined: {rejections.closest_first()[0].code if rejections.closest_first() else 'layout'}"
            )
        degree, even = degree_for_accelerators(counts, plans, np.full(len(plans), run.accelerators))
        each = workload.global_batch / (degree * plans.micro_batch_sequences)
        whole = even & (degree >= 1) & ((np.mod(each, 1) == 0) | workload.in_samples)
        whole &= (each >= 1) | workload.in_samples
        if not whole.any():
            raise NotCompared("declined: the layout does not divide accelerators and batch")
        plans, degree = plans.take(whole), degree[whole]
        judged = run_at(counts, plans, degree, ASSUMED)
        memory, wall = judged.memory, judged.step.step_s
        over = np.where(memory.fits, 0.0, memory.total_bytes / memory.usable_bytes)
        first = np.lexsort((wall, over))[0]
        as_good = (over <= over[first]) & (wall <= (1 + TIE_TOLERANCE) * wall[first])
        row = np.lexsort((wall, -plans.micro_batch_sequences, ~as_good))[:1]
        return plans.take(row), degree[row]

    def recomputes_all_layers(self, plans: TrainingPlans) -> Mask:
        """Mask of plans with full recomputation in frameworks that split models.

        Tuned runs that do not mention recomputation found another way to fit.
        """
        splits = [engine_named(self.catalog.engines[code]).framework.splits for code in plans.framework.tolist()]
        found: Mask = np.array(splits, dtype=bool) & (plans.activation_checkpointing == FULL)
        return found

    def shards_some_states(self, plans: TrainingPlans) -> Mask:
        """Mask of plans that shard some states but not all; a run that does not mention sharding shards none or all."""
        splits = [engine_named(self.catalog.engines[code]).framework.splits for code in plans.framework.tolist()]
        found: Mask = ~np.array(splits, dtype=bool) & np.isin(plans.zero_stage, (1, 2))
        return found


def memory_table(asked: RowQuestion, counts: Counts, plans: TrainingPlans, degree: Column) -> tuple[MemoryTable, float]:
    """(memory of a row's run, memory counted to the byte), with the kind of peak that its source publishes."""
    held, memory = estimate_training_memory(counts, plans, degree, ASSUMED)
    if (asked.peak_memory_bytes or 0.0) < SIZE_TOLERANCE * float((held.weights_bytes + held.optimizer_bytes)[0]):
        raise NotCompared("the peak is below the memory of weights and optimizer states")
    source = asked.source_recipe
    counted = memory.weights_bytes + memory.gradient_bytes + memory.optimizer_bytes
    figure_is = np.array([source.figure is not Figure.ALLOCATED]), np.array([source.figure is Figure.DRIVER])
    return MemoryTable(held, *figure_is), float(counted[0])


def read_training_cases(
    rows: Sequence[Mapping[str, Any]], catalog: Catalog, model_named: Callable[[str], ModelArchitecture]
) -> tuple[list[TrainingCase], Counter[str]]:
    """Cases of all rows, and the number of other rows by reason."""
    return collect_cases(rows, TrainingCases(catalog, model_named).build_cases)
