"""Result figures of a run: speed, utilization, duration, cost, and the cluster resources that it requires."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Column, Columns
from app.sizing.decisions.cost import Cost, usd_total
from app.sizing.formula import formula, suspend_recording
from app.sizing.question import Economics
from app.sizing.training.counts import Counts
from app.sizing.training.plans import TrainingPlans
from app.sizing.training.run import Run, checkpoint_bytes
from app.sizing.units import GIB, SECONDS_PER_DAY, SECONDS_PER_HOUR


@dataclass(frozen=True, slots=True)
class Outcome(Columns):
    """Result figures of each run."""

    units_per_s: Column  # tokens or samples per second, excluding stalls and interruptions
    mfu: Column  # model FLOPs utilization
    days: Column  # wall time, days
    accelerator_hours: Column  # accelerator-hours
    scaling_efficiency: Column  # speed per accelerator relative to one machine
    usd_total: Column  # cost of the run, USD
    checkpoint_bytes: float  # size of one checkpoint, bytes
    storage_bytes_per_s: Column  # write rate that checkpoints need, bytes/s
    ingest_bytes_per_s: Column  # read rate of training data, bytes/s
    checkpoint_capacity_bytes: float  # capacity for retained checkpoints, bytes
    host_memory_bytes_per_node: Column  # host memory per machine, bytes
    cooling_w: Column  # power for cooling and distribution, watts


@formula(unit="1/s", source="definition")
def units_per_s(counts: Counts, step_batch: Column, step_time_s: Column) -> Column:
    """Tokens or samples per second of the whole run, excluding stalls and interruptions.

    Parameters:
        counts: the workload's sequence length.
        step_batch: sequences or samples per step.
        step_time_s: step time, seconds.
    Check: 512 sequences of 4,096 tokens every 8 s.
        >>> units_per_s(PRETRAIN_COUNTS, col(512), col(8.0)).tolist()
        [262144.0]
    """
    return step_batch * counts.units_per_sequence / step_time_s


@formula(unit="1", source="Chowdhery et al. 2022 (arXiv:2204.02311), appendix B")
def mfu(counts: Counts, units_per_s: Column, accelerators: Column, peak_flops_per_s: Column) -> Column:
    """Model FLOPs utilization: share of peak FLOPs that the model needs, without recomputation.

    Parameters:
        counts: FLOPs per token or sample.
        units_per_s: tokens or samples per second.
        accelerators: accelerators of the run.
        peak_flops_per_s: peak rate of one accelerator in the training precision, FLOP/s.
    Limits: FP8 and FP4 runs are measured against the peak rate of their own format.
    Check: 8,000 tokens/s of 50 GFLOPs on one accelerator with a peak of 1 PFLOP/s.
        >>> mfu(row(flops_per_unit=5e10), col(8000.0), col(1), col(1e15)).tolist()
        [0.4]
    """
    return units_per_s * counts.flops_per_unit / (accelerators * peak_flops_per_s)


@formula(unit="days", source="definition")
def days(wall_s: Column) -> Column:
    """Wall time in days.

    Parameters:
        wall_s: wall time, seconds.
    Check: 129,600 s are one and a half days.
        >>> days(col(129600.0)).tolist()
        [1.5]
    """
    return wall_s / SECONDS_PER_DAY


@formula(unit="h", source="definition")
def accelerator_hours(wall_s: Column, accelerators: Column) -> Column:
    """Accelerator-hours of a run.

    Parameters:
        wall_s: wall time, seconds.
        accelerators: accelerators of the run.
    Limits: excludes idle accelerators of a machine, although they are paid for.
    Check: 16 accelerators for two hours.
        >>> accelerator_hours(col(7200.0), col(16)).tolist()
        [32.0]
    """
    return wall_s / SECONDS_PER_HOUR * accelerators


@formula(unit="1", source="definition")
def scaling_efficiency(
    one_machine_units_per_s: Column, one_machine_accelerators: Column, units_per_s: Column, accelerators: Column
) -> Column:
    """Speed per accelerator relative to the same layout on one machine, at most 1.

    Parameters:
        one_machine_units_per_s: tokens or samples per second on one machine.
        one_machine_accelerators: accelerators of that machine.
        units_per_s: tokens or samples per second of the run.
        accelerators: accelerators of the run.
    Limits: at the same global batch, fewer accelerators run proportionally more micro-batches.
    Check: 8 accelerators reach 80,000 tokens/s and 64 reach 576,000.
        >>> scaling_efficiency(col(80e3), col(8), col(576e3), col(64)).tolist()
        [0.9]
    """
    return np.minimum(1.0, units_per_s / accelerators / (one_machine_units_per_s / one_machine_accelerators))


@formula(unit="B/s", source="definition")
def storage_bytes_per_s(checkpoint_bytes: float, checkpoint_interval_s: Column, assumed: Assumptions) -> Column:
    """Write rate that storage needs to finish a checkpoint well before the next one starts.

    Parameters:
        checkpoint_bytes: size of one checkpoint, bytes.
        checkpoint_interval_s: time between checkpoints, seconds.
        assumed: assumptions, with the share of the interval in which a checkpoint is written.
    Check: 112 GB every 1,800 s, written within a quarter of that time.
        >>> (storage_bytes_per_s(112e9, col(1800.0), Assumptions()) / 1e9).round(3).tolist()
        [0.249]
    """
    return checkpoint_bytes / (assumed.checkpoint_write_window * checkpoint_interval_s)


@formula(unit="B/s", source="definition")
def ingest_bytes_per_s(counts: Counts, units_per_s: Column, unit_bytes: float) -> Column:
    """Rate at which the run reads training data.

    The rate follows from the size of the data set, read once per pass, or else from an assumed size per token or
    sample.
    Parameters:
        counts: the workload's data set size and number of tokens or samples.
        units_per_s: tokens or samples per second.
        unit_bytes: assumed size of one token or sample, bytes.
    Check: 4 bytes per token without a stated data set size; 8e9 bytes for 1e9 tokens with one.
        >>> ingest_bytes_per_s(row(dataset_bytes=0.0, units=1e9), col(1e6), 4.0).tolist()
        [4000000.0]
        >>> ingest_bytes_per_s(row(dataset_bytes=8e9, units=1e9), col(1e6), 4.0).tolist()
        [8000000.0]
    """
    stated = counts.dataset_bytes / (counts.units / units_per_s)
    return np.where(counts.dataset_bytes > 0, stated, units_per_s * unit_bytes)


@formula(unit="B", source="definition")
def checkpoint_capacity_bytes(checkpoint_bytes: float, assumed: Assumptions) -> float:
    """Storage capacity for all retained checkpoints.

    Parameters:
        checkpoint_bytes: size of one checkpoint, bytes.
        assumed: assumptions, with the number of retained checkpoints.
    Check: the assumed number of checkpoints of 112 GB each.
        >>> checkpoint_capacity_bytes(112e9, Assumptions()) / 112e9 == Assumptions().retained_checkpoints
        True
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
    """Host memory that each machine needs.

    It covers offloaded states, the machine's share of a checkpoint that is being written asynchronously, and one
    process per accelerator.
    Parameters:
        counts: whether checkpoints are synchronous.
        host_bytes: offloaded states per machine, bytes.
        checkpoint_bytes: size of one checkpoint, bytes.
        accelerators: accelerators of the run.
        accelerators_per_node: accelerators per machine.
        nodes: machines of the run.
        assumed: assumptions, with the host memory per process.
    Check: 16 GB of a 32 GB checkpoint on each of two machines, and no processes.
        >>> counts = row(synchronous_checkpoints=False)
        >>> no_process = row(host_memory_per_accelerator_gib=0.0)
        >>> host_memory_bytes_per_node(counts, col(0), 32e9, col(16), col(8), col(2), no_process).tolist()
        [16000000000.0]
    """
    processes = np.minimum(accelerators_per_node, accelerators) * assumed.host_memory_per_accelerator_gib * GIB
    return host_bytes + processes + np.where(counts.synchronous_checkpoints, 0.0, checkpoint_bytes / nodes)


@formula(unit="W", source="power usage effectiveness (ISO/IEC 30134-2)")
def cooling_w(power_w: Column, pue: float) -> Column:
    """Power for cooling and distribution in addition to the machines' own power.

    Parameters:
        power_w: power of the machines, watts.
        pue: power usage effectiveness of the building.
    Check: 10 kW of machines at a PUE of 1.5.
        >>> cooling_w(col(10e3), 1.5).tolist()
        [5000.0]
    """
    overhead: Column = power_w * np.maximum(0.0, pue - 1.0)
    return overhead


def run_outcome(
    counts: Counts,
    plans: TrainingPlans,
    run: Run,
    cost: Cost,
    one_machine_run: Run,
    assumed: Assumptions,
    economics: Economics,
) -> Outcome:
    """Return the result figures of every run of a table."""
    step_s, wall = run.step.step_s, run.wall_s
    rate, size = units_per_s(counts, run.batch, step_s), checkpoint_bytes(counts.checkpointed_params)
    with suspend_recording():
        one_machine_units_per_s = units_per_s(counts, one_machine_run.batch, one_machine_run.step.step_s)
    per_node = plans.accelerators_per_node
    unit_bytes = assumed.dataset_bytes_per_sample if counts.in_samples else assumed.dataset_bytes_per_token
    return Outcome(
        units_per_s=rate,
        mfu=mfu(counts, rate, run.accelerators, plans.machine.peak_flops_per_s),
        days=days(wall),
        accelerator_hours=accelerator_hours(wall, run.accelerators),
        scaling_efficiency=scaling_efficiency(
            one_machine_units_per_s, one_machine_run.accelerators, rate, run.accelerators
        ),
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
