"""What a run comes to: speed, use of the hardware, duration, money, and what the cluster must bring."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Column, Columns
from app.sizing.decisions.cost import Cost, usd_total
from app.sizing.formula import formula, unrecorded
from app.sizing.question import Economics
from app.sizing.training.counts import Counts
from app.sizing.training.plans import TrainingPlans
from app.sizing.training.run import Run, checkpoint_bytes
from app.sizing.units import GIB, SECONDS_PER_DAY, SECONDS_PER_HOUR


@dataclass(frozen=True, slots=True)
class Outcome(Columns):
    """Figures of a run, beside its time and its memory."""

    units_per_s: Column  # tokens or samples while it steps
    mfu: Column
    days: Column
    accelerator_hours: Column
    scaling_efficiency: Column
    usd_total: Column
    checkpoint_bytes: float
    storage_bytes_per_s: Column
    ingest_bytes_per_s: Column
    checkpoint_capacity_bytes: float
    host_memory_bytes_per_node: Column
    cooling_w: Column


@formula(unit="1/s", source="definition")
def units_per_s(counts: Counts, step_batch: Column, step_time_s: Column) -> Column:
    """Tokens (or samples) per second of the whole run while it steps.

    Source: definition.
    """
    return step_batch * counts.units_per_sequence / step_time_s


@formula(unit="1", source="Chowdhery et al. 2022 (arXiv:2204.02311)")
def mfu(counts: Counts, units_per_s: Column, accelerators: Column, peak_flops_per_s: Column) -> Column:
    """Share of the peak that is useful work: model FLOPs, without recomputation.

    Source: Chowdhery et al. 2022 (arXiv:2204.02311), appendix B.
    Limits: FLOPs of FP8 and FP4 runs are over the rate of their own format.
    """
    return units_per_s * counts.flops_per_unit / (accelerators * peak_flops_per_s)


@formula(unit="days", source="definition")
def days(wall_s: Column) -> Column:
    """Wall time in days.

    Source: definition.
    """
    return wall_s / SECONDS_PER_DAY


@formula(unit="h", source="definition")
def accelerator_hours(wall_s: Column, accelerators: Column) -> Column:
    """Hours of all accelerators at work.

    Source: definition.
    Limits: accelerators of a machine that the run leaves idle are paid for and not counted here.
    """
    return wall_s / SECONDS_PER_HOUR * accelerators


@formula(unit="1", source="definition")
def scaling_efficiency(
    one_machine_units_per_s: Column, one_machine_accelerators: Column, units_per_s: Column, accelerators: Column
) -> Column:
    """Speed per accelerator over that of one machine's worth of the same layout, capped at 1.

    Source: definition.
    Limits: the same global batch on fewer accelerators takes proportionally more micro-batches.
    """
    return np.minimum(1.0, units_per_s / accelerators / (one_machine_units_per_s / one_machine_accelerators))


@formula(unit="B/s", source="definition")
def storage_bytes_per_s(checkpoint_bytes: float, checkpoint_interval_s: Column, assumed: Assumptions) -> Column:
    """What storage must take so that a checkpoint is written well before the next one.

    Source: definition.
    """
    return checkpoint_bytes / (assumed.checkpoint_write_window * checkpoint_interval_s)


@formula(unit="B/s", source="definition")
def ingest_bytes_per_s(counts: Counts, units_per_s: Column, unit_bytes: float) -> Column:
    """Data that the run reads: its data set once per pass, or a usual size per token or sample.

    Source: definition.
    """
    said = counts.dataset_bytes / (counts.units / units_per_s)
    return np.where(counts.dataset_bytes > 0, said, units_per_s * unit_bytes)


@formula(unit="B", source="definition")
def checkpoint_capacity_bytes(checkpoint_bytes: float, assumed: Assumptions) -> float:
    """Room for the checkpoints that are kept.

    Source: definition.
    """
    return checkpoint_bytes * assumed.retained_checkpoints


@formula(unit="B", source="definition")
def host_memory_bytes_per_node(
    counts: Counts,
    host_bytes: Column,
    checkpoint_bytes: float,
    accelerators: Column,
    accelerators_per_node: Column,
    nodes: Column,
    assumed: Assumptions,
) -> Column:
    """What a host holds: offloaded states, its share of a checkpoint on the way to storage, a process per accelerator.

    Source: definition.
    """
    processes = np.minimum(accelerators_per_node, accelerators) * assumed.host_memory_per_accelerator_gib * GIB
    return host_bytes + processes + np.where(counts.synchronous_checkpoints, 0.0, checkpoint_bytes / nodes)


@formula(unit="W", source="definition")
def cooling_w(power_w: Column, pue: float) -> Column:
    """Power that cooling and distribution take beside the machines.

    Source: definition of the power usage effectiveness (ISO/IEC 30134-2).
    """
    beyond: Column = power_w * np.maximum(0.0, pue - 1.0)
    return beyond


def outcome_of(
    counts: Counts,
    plans: TrainingPlans,
    run: Run,
    cost: Cost,
    one_machine: Run,
    assumed: Assumptions,
    economics: Economics,
) -> Outcome:
    """Figures of every run of a table."""
    step_s, wall = run.step.step_s, run.wall_s
    rate, size = units_per_s(counts, run.batch, step_s), checkpoint_bytes(counts.checkpointed_params)
    with unrecorded():
        alone = units_per_s(counts, one_machine.batch, one_machine.step.step_s)
    per_node = plans.accelerators_per_node
    unit_bytes = assumed.dataset_bytes_per_sample if counts.in_samples else assumed.dataset_bytes_per_token
    return Outcome(
        units_per_s=rate,
        mfu=mfu(counts, rate, run.accelerators, plans.machine.peak_flops_per_s),
        days=days(wall),
        accelerator_hours=accelerator_hours(wall, run.accelerators),
        scaling_efficiency=scaling_efficiency(alone, one_machine.accelerators, rate, run.accelerators),
        usd_total=usd_total(cost.usd_per_hour, wall),
        checkpoint_bytes=size,
        storage_bytes_per_s=storage_bytes_per_s(size, run.losses.checkpoint_interval_s, assumed),
        ingest_bytes_per_s=ingest_bytes_per_s(counts, rate, unit_bytes),
        checkpoint_capacity_bytes=checkpoint_capacity_bytes(size, assumed),
        host_memory_bytes_per_node=host_memory_bytes_per_node(
            counts, run.memory.host_bytes, size, run.accelerators, per_node, run.nodes, assumed
        ),
        cooling_w=cooling_w(cost.power_w, economics.pue),
    )
