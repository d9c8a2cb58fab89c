"""Fitting problems of training: token rate, sample rate and memory, by the formulas of /estimate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Column, Columns, column, concat_tables
from app.sizing.hardware.achieved import SampleTrainingAchieved, TrainingAchieved, TrainingMemoryFactors
from app.sizing.training.memory import collective_buffer_bytes, find_peak
from app.sizing.training.plans import memory_neighbourhood
from app.sizing.training.step import micro_batch_time, sample_batch_time, sample_step_time, step_time
from calibration.fit import Levels, Problem
from calibration.training.cases import MemoryTable, SpeedTable, TrainingCase

ASSUMED = Assumptions()

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
        "sample_grouped_fraction": {(): 0.5},
        "sample_operation_s": {(): 0.5, ("vendor",): 0.3},
        "sample_collective_fraction": {(): 0.4},
        "sample_overlap_share": {(): 0.3},
        "sample_step_s": {(): 0.5},
    }
)

MEMORY_LEVELS: Levels = MappingProxyType(
    {
        "training_context_bytes": {(): 0.3, ("vendor",): 0.1},
        "training_collective_bytes": {(): 0.5, ("engine", "generation"): 0.3},
        "training_fragmentation_fraction": {(): 0.2, ("engine", "generation"): 0.2},
    }
)


def table_of(cases: Sequence[TrainingCase]) -> Columns:
    return concat_tables([c.work for c in cases])


def predict_tokens(table: SpeedTable, achieved: TrainingAchieved) -> dict[str, Column]:
    micro = micro_batch_time(table.work.micro, achieved, ASSUMED)
    return {"training_tokens_per_s": table.units / step_time(micro, table.work.state, achieved, ASSUMED).step_s}


def predict_samples(table: SpeedTable, achieved: SampleTrainingAchieved) -> dict[str, Column]:
    micro = sample_batch_time(table.work.micro, achieved)
    return {"training_samples_per_s": table.units / sample_step_time(micro, table.work.state, achieved, ASSUMED).step_s}


def predict_memory(table: MemoryTable, factors: TrainingMemoryFactors) -> dict[str, Column]:
    peak, states = find_peak(table.held, factors), table.held.weights_bytes + table.held.optimizer_bytes
    around = factors.training_context_bytes + collective_buffer_bytes(table.held, factors)
    outside = np.where(table.reserved, peak.overhead_bytes - around, 0.0) + np.where(table.driver, around, 0.0)
    return {"peak_memory_bytes": states + peak.gradient_bytes + peak.activation_bytes + outside}


# Prior centers: until 2023 Megatron's tensor parallelism overlapped no communication with compute.
TRAINING_BEFORE: Mapping[tuple[str, ...], float] = MappingProxyType(
    {("tensor_overlap_share", "megatron", "before"): -3.0}
)

TRAINING = Problem(TrainingAchieved, TRAINING_LEVELS, TRAINING_BEFORE, table_of, predict_tokens)

SAMPLES = Problem(SampleTrainingAchieved, SAMPLE_LEVELS, {}, table_of, predict_samples)


def distance_of(case: TrainingCase, predicted_bytes: float) -> float:
    """Distance of a predicted peak from the memory that is counted to the byte."""
    known = np.array([case.recipe_known])
    return float(
        memory_neighbourhood(column([case.counted_bytes]), column([predicted_bytes]), known, column([1.0])).distance[0]
    )


# Plans keep a separate reserve for uncertainty, so an under-predicted peak counts only 1.5 times.
MEMORY = Problem(TrainingMemoryFactors, MEMORY_LEVELS, {}, table_of, predict_memory, caution=1.5, distance=distance_of)
