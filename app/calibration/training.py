"""Published training results as cases: speed of token streams, speed of samples, and peak memory.

A row becomes a case where it names model, accelerator, count, sequence, batch and precision; every
other row is counted with the reason why it does not. What a row leaves open of its layout is chosen
as /estimate would choose it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np

from app.calibration.case import NotCompared, Stack, figure, gathered
from app.calibration.fit import Levels, Problem
from app.calibration.published_training import Run, optimizer_of, precision_of, shape_of, trainer_of
from app.errors import AppError
from app.sizing.answer.certainty import training_setting
from app.sizing.assumptions import Assumptions
from app.sizing.columns import Column, Columns, Mask, column, stacked
from app.sizing.decisions.machines import LARGEST_HOST, Candidates, candidates, unpriced
from app.sizing.decisions.rejections import Rejections
from app.sizing.evidence import Setting
from app.sizing.hardware.achieved import SampleTrainingAchieved, TrainingAchieved, TrainingMemoryFactors
from app.sizing.hardware.engines import engine_named
from app.sizing.model.architecture import ModelArchitecture, ModelKind
from app.sizing.question import Constraints, Deployment, Economics
from app.sizing.snapshot import Market
from app.sizing.training.memory import HeldBytes, held_bytes, peak_bytes, training_memory
from app.sizing.training.plans import TrainingPlans, build_training_plans
from app.sizing.training.run import step_of
from app.sizing.training.step import micro_batch_time, sample_batch_time, sample_step_time, step_time
from app.sizing.training.work import TrainingWork, training_work
from app.sizing.workload import Method, TrainingWorkload

TRAINING_LEVELS: Levels = MappingProxyType(
    {
        "training_compute_fraction": {
            (): 0.4,
            ("family",): 0.1,
            ("format_class",): 0.1,
            ("engine",): 0.1,
            ("vendor",): 0.1,
            ("engine", "generation"): 0.1,
            ("family", "format_class"): 0.1,
        },
        "training_expert_fraction": {(): 0.8, ("format_class",): 0.15, ("engine",): 0.15, ("family",): 0.1},
        "training_attention_fraction": {(): 0.6, ("family",): 0.1, ("engine", "generation"): 0.3},
        "training_elementwise_fraction": {(): 0.6, ("engine",): 0.15, ("family",): 0.1, ("engine", "generation"): 0.2},
        "training_layer_s": {(): 0.4, ("engine",): 0.2, ("vendor",): 0.15},
        "training_expert_layer_s": {(): 0.5, ("engine",): 0.15},
        "adapter_layer_s": {(): 0.5, ("engine",): 0.15},
        "training_step_s": {(): 0.5, ("engine",): 0.2},
        "straggler_share": {(): 1.2},
        "tensor_overlap_share": {(): 0.4, ("engine", "generation"): 0.5},
        "data_overlap_share": {(): 0.4, ("engine", "generation"): 0.4},
        "expert_imbalance_share": {(): 0.6},
        "collective_scale_up_fraction": {(): 0.2, ("vendor",): 0.15},
        "collective_pcie_fraction": {(): 0.4},
        "collective_network_fraction": {(): 0.3, ("vendor",): 0.1},
        "collective_latency_s": {(): 0.15, ("vendor",): 0.15},
        "collective_network_latency_s": {(): 0.15},
        "host_optimizer_params_per_s": {(): 0.4},
    }
)
SAMPLE_LEVELS: Levels = MappingProxyType(
    {
        "sample_training_fraction": {(): 0.4, ("family",): 0.2, ("format_class",): 0.3, ("vendor",): 0.2},
        "sample_elementwise_fraction": {(): 0.4, ("family",): 0.2, ("format_class",): 0.2},
        "sample_layer_s": {(): 0.5, ("vendor",): 0.3},
        "sample_collective_fraction": {(): 0.4},
        "sample_overlap_share": {(): 0.3},
        "sample_step_s": {(): 0.5},
    }
)
MEMORY_LEVELS: Levels = MappingProxyType(
    {
        "training_activation_factor": {(): 0.3, ("engine",): 0.1, ("engine", "generation"): 0.075},
        "training_workspace_factor": {(): 0.3, ("engine",): 0.1},
        "training_loss_factor": {(): 0.4, ("engine",): 0.1},
        "training_context_bytes": {(): 0.2, ("vendor",): 0.1},
        "training_collective_bytes": {(): 0.2},
        "training_fragmentation_fraction": {(): 0.3, ("engine", "generation"): 0.25},
    }
)

STATES_HELD = 0.95  # rounding of printed sizes
# A deadline and a token budget that never bind: the rows ask for speed alone.
ENDLESS = 1e15
METHODS = {
    "pretrain": ("training", Method.FULL),
    "full_ft": ("fine_tuning", Method.FULL),
    "lora": ("fine_tuning", Method.LORA),
    "qlora": ("fine_tuning", Method.QLORA),
}


@dataclass(frozen=True, slots=True)
class TrainingCase:
    """One published training result; `group` tells which problem it belongs to."""

    id: str
    source: str
    reference: str
    stack: Stack
    group: str
    model: str
    setting: Setting
    work: Columns
    measured: Mapping[str, float]
    set_aside: str | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """A row as a question, with what was measured: units are tokens or samples of one accelerator."""

    run: Run
    workload: TrainingWorkload
    deployment: Deployment
    units_per_s: float | None
    peak_memory_bytes: float | None


@dataclass(frozen=True, slots=True)
class SpeedTable(Columns):
    work: TrainingWork
    units: Column  # tokens or samples of a step per accelerator


@dataclass(frozen=True, slots=True)
class MemoryTable(Columns):
    held: HeldBytes
    allocated: Mask  # the source counts what its allocator does, not what the driver reports


def table_of(cases: Sequence[TrainingCase]) -> Columns:
    return stacked([c.work for c in cases])


def predict_tokens(t: SpeedTable, k: TrainingAchieved) -> dict[str, Column]:
    return {"training_tokens_per_s": t.units / step_time(micro_batch_time(t.work.micro, k), t.work.state, k).step_s}


def predict_samples(t: SpeedTable, s: SampleTrainingAchieved) -> dict[str, Column]:
    return {
        "training_samples_per_s": t.units / sample_step_time(sample_batch_time(t.work.micro, s), t.work.state, s).step_s
    }


def predict_memory(t: MemoryTable, k: TrainingMemoryFactors) -> dict[str, Column]:
    gradients, activations, overhead, _ = peak_bytes(t.held, k)
    outside = np.where(t.allocated, 0.0, overhead)
    return {"peak_memory_bytes": t.held.weights + t.held.optimizer + gradients + activations + outside}


TRAINING = Problem(TrainingAchieved, TRAINING_LEVELS, {}, table_of, predict_tokens)
SAMPLES = Problem(SampleTrainingAchieved, SAMPLE_LEVELS, {}, table_of, predict_samples)
MEMORY = Problem(TrainingMemoryFactors, MEMORY_LEVELS, {}, table_of, predict_memory, caution=3.0)


class TrainingCases:
    """Turns rows into cases against one catalogue."""

    def __init__(self, market: Market, model_named: Callable[[str], ModelArchitecture]) -> None:
        self.market = market
        self._named = model_named
        self.model_named = cache(self._model_named)
        self.machines = cache(self._machines)

    def _model_named(self, name: str) -> ModelArchitecture | None:
        try:
            return self._named(name)
        except AppError:
            return None

    def _machines(self, accelerator: str) -> Candidates:
        found = candidates(
            self.market,
            Constraints(accelerators=(accelerator,)),
            Economics(),
            Assumptions(),
            Rejections(self.market),
            fixed=Deployment(accelerator),
        )
        return found if len(found) else unpriced(self.market, Deployment(accelerator), Assumptions())

    def machine(self, run: Run) -> Candidates:
        """The machine of a row: its accelerators per machine and its network where stated, else the best on sale."""
        found = self.machines(run.accelerator)
        m = found.node
        wanted = run.per_machine or min(
            run.accelerators, float(self.market.accelerators[int(m.accelerator[0])].typical_node_size)
        )
        rack = m.scale_up_domain.max() > LARGEST_HOST
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
        """The model by name, else by the shape that the row gives."""
        model = self.model_named(row.get("model") or "") or shape_of(row, self.model_named)
        if model is None:
            raise NotCompared("model is not in the catalogue under that name, and the row gives no shape")
        return model

    def asked(self, row: Mapping[str, Any]) -> Asked:
        """A row as /estimate takes it; NotCompared where it does not say enough."""
        if not row.get("accelerator") or not row.get("num_accelerators"):
            raise NotCompared("accelerator or count is not given")
        if row["method"] not in METHODS:
            raise NotCompared("not a training rate (reinforcement learning, or other work beside)")
        if "OOM" in (row.get("notes") or "")[:12]:
            raise NotCompared("ran out of memory")
        model = self.model_of(row)
        run = Run.of(row)
        phase, method = METHODS[row["method"]]
        precision = precision_of(row)
        if precision is None:
            raise NotCompared("precision is not given")
        samples = model.kind is ModelKind.SAMPLES
        length = 1.0 if samples else figure(row.get("seq_len"))
        if not length:
            raise NotCompared("sequence length is not given")
        deployment, batch = run.layout(trainer_of(row, method, precision, self.market), model)
        workload = TrainingWorkload(
            model,
            phase,
            method,
            ENDLESS,
            length,
            batch,
            precision,
            optimizer_of(row) or "adamw",
            ENDLESS,
            0.0,
            None,
            None,
            False,
            int(figure(row.get("lora_rank")) or 16),
            "all-linear",
        )
        memory = (
            run.peak_memory_bytes()
            if optimizer_of(row) is not None and not samples and run.layout_is_known(model)
            else None
        )
        return Asked(
            run, workload, deployment, run.units_per_s_per_accelerator(model, workload, self.market, precision), memory
        )

    def cases(self, row: Mapping[str, Any]) -> list[TrainingCase]:
        """The cases of one row; NotCompared where it does not say enough, or cannot be."""
        asked = self.asked(row)
        workload, run = asked.workload, asked.run
        plans, degree = self.plan(workload, asked.deployment, run)
        setting = training_setting(workload, plans, run.accelerators, self.market)
        generation = engine_named(setting.engine).generation(None, row.get("source_date") or "")
        stack = Stack(setting.engine, generation, setting.family, setting.format_class)

        def case(group: str, work: Columns, metric: str, measured: float) -> TrainingCase:
            return TrainingCase(
                row["id"],
                row["source_key"],
                row["source_ref"],
                stack,
                group,
                workload.model.name,
                setting,
                work,
                {metric: measured},
            )

        found = []
        if asked.units_per_s is not None:
            units = column([workload.global_batch * workload.units_per_sequence / run.accelerators])
            group, metric = (
                ("samples", "training_samples_per_s") if workload.in_samples else ("tokens", "training_tokens_per_s")
            )
            found.append(
                case(group, SpeedTable(training_work(workload, plans, degree), units), metric, asked.units_per_s)
            )
        if asked.peak_memory_bytes is not None:
            held = held_bytes(workload, plans, degree)
            if asked.peak_memory_bytes < STATES_HELD * float((held.weights + held.optimizer)[0]):
                raise NotCompared("a peak below the states that the run must hold")
            table = MemoryTable(held, np.array([run.counts_allocated]))
            found.append(case("memory", table, "peak_memory_bytes", asked.peak_memory_bytes))
        if not found:
            raise NotCompared("no speed and no peak memory is given")
        return found

    def plan(self, workload: TrainingWorkload, deployment: Deployment, run: Run) -> tuple[TrainingPlans, Column]:
        """The row's layout and its data-parallel degree; what is open is the fastest that fits."""
        machine = self.machine(run)
        rejections = Rejections(self.market)
        plans = build_training_plans(workload, self.market, machine, Constraints(), rejections, fixed=deployment)
        if not len(plans):
            raise NotCompared(f"declined: {rejections.nearest()[0].code if rejections.nearest() else 'layout'}")
        degree = run.accelerators / plans.ranks
        each = workload.global_batch / (degree * plans.micro_batch)
        whole = (degree >= 1) & (np.mod(degree, 1) == 0) & ((np.mod(each, 1) == 0) | workload.in_samples)
        whole &= (each >= 1) | workload.in_samples
        if not whole.any():
            raise NotCompared("declined: the layout does not divide accelerators and batch")
        plans, degree = plans.take(whole), degree[whole]
        memory = training_memory(workload, plans, degree, Assumptions())
        wall = step_of(workload, plans, degree).step_s
        row = np.lexsort((wall, np.where(memory.fits, 0.0, memory.total_bytes / memory.usable_bytes)))[:1]
        return plans.take(row), degree[row]


def read_training_cases(
    rows: Sequence[Mapping[str, Any]], market: Market, model_named: Callable[[str], ModelArchitecture]
) -> tuple[list[TrainingCase], Counter[str]]:
    """Every row that can be asked about, and the others by reason."""
    return gathered(rows, TrainingCases(market, model_named).cases)
