"""A training or fine-tuning run: duration, accelerators, time lost to interruptions, and its figures."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import GIB, SECONDS_PER_DAY, SECONDS_PER_HOUR, TINY, Column, Columns, Mask
from app.sizing.decisions.acquisition import DeployedMachines
from app.sizing.decisions.cost import Cost, deployment_cost, usd_total
from app.sizing.formula import formula, suspend_recording
from app.sizing.question import Economics
from app.sizing.training.activations import MicroBatchMemory, micro_batch_memory
from app.sizing.training.counts import Counts
from app.sizing.training.memory import (
    MemoryParts,
    TrainingMemory,
    count_memory_parts,
    fits_at_confidence,
    memory_at_peak,
    training_memory,
)
from app.sizing.training.plans import RankGroups, RankParams, TrainingPlans, rank_groups, rank_params
from app.sizing.training.recipes import CHECKPOINT_BYTES_PER_PARAM
from app.sizing.training.step import (
    MicroBatchTime,
    StepTime,
    micro_batch_time,
    sample_batch_time,
    sample_step_time,
    step_time,
)
from app.sizing.training.work import micro_batch_work, state_work


@dataclass(frozen=True, slots=True)
class Losses(Columns):
    """Time that a run loses in addition to its steps."""

    interruptions_per_s: Column  # interruptions per second
    checkpoint_interval_s: Column  # time between checkpoints, seconds
    checkpoint_stall_s: Column  # stall of one checkpoint, seconds
    checkpoint_write_s: Column  # write time of one checkpoint, seconds
    lost_share: Column  # share of time lost to restarts and to half an interval of work per interruption


@dataclass(frozen=True, slots=True)
class Run(Columns):
    """A whole run at a data-parallel degree."""

    data_parallel: Column  # data-parallel degree
    accelerators: Column  # accelerators in use
    nodes: Column  # machines
    batch: Column  # global batch of a step: as requested, or the nearest that divides
    wall_s: Column  # wall time, seconds
    interruptions: Column  # expected interruptions of the whole run
    losses: Losses  # checkpoints and interruptions
    step: StepTime  # time of one step
    memory: TrainingMemory  # memory per device and host


@dataclass(frozen=True, slots=True)
class RunParts(Columns):
    """Intermediate results that are the same at every data-parallel degree."""

    rank: RankParams  # parameters per rank
    activations: MicroBatchMemory  # activations per micro-batch
    time: MicroBatchTime  # time per micro-batch


def time_micro_batch(counts: Counts, plans: TrainingPlans, assumed: Assumptions) -> MicroBatchTime:
    """Time of one micro-batch, which does not depend on the data-parallel degree."""
    work = micro_batch_work(counts, plans)
    if counts.in_samples:
        return sample_batch_time(work, plans.stack.sample_achieved)
    return micro_batch_time(work, plans.stack.token_achieved, assumed)


def build_run_parts(counts: Counts, plans: TrainingPlans, assumed: Assumptions) -> RunParts:
    """Return the intermediate results that are the same at every data-parallel degree."""
    return RunParts(
        rank_params(counts, plans),
        micro_batch_memory(counts, plans, assumed),
        time_micro_batch(counts, plans, assumed),
    )


def time_step(
    counts: Counts, plans: TrainingPlans, spread: RankGroups, parts: RunParts, assumed: Assumptions
) -> StepTime:
    """Time of one optimizer step at a data-parallel degree."""
    state = state_work(counts, plans, parts.rank, spread)
    if counts.in_samples:
        return sample_step_time(parts.time, state, plans.stack.sample_achieved, assumed)
    return step_time(parts.time, state, plans.stack.token_achieved, assumed)


@formula(unit="machines", source="definition")
def nodes(accelerators: Column, accelerators_per_node: Column) -> Column:
    """Machines of a run.

    Parameters:
        accelerators_per_node: accelerators per machine.
    Check: 20 accelerators need three machines of eight.
        >>> nodes(col(20), col(8)).tolist()
        [3.0]
    """
    return np.ceil(accelerators / accelerators_per_node)


@formula(unit="B", source="16-bit weights, 32-bit master copy and two moments")
def checkpoint_bytes(checkpointed_params: float) -> float:
    """Size of a full checkpoint, or of the adapters alone.

    Parameters:
        checkpointed_params: trained parameters.
    Limits: assumes AdamW states for every optimizer.
    Check: 405.9e9 parameters are 5.68 TB.
        >>> round(checkpoint_bytes(405.9e9) / 1e12, 2)
        5.68
    """
    return checkpointed_params * CHECKPOINT_BYTES_PER_PARAM


@formula(unit="1/day", source="published interruption rates of spot capacity")
def spot_reclaims_per_day(nodes: Column, spot: Mask, assumed: Assumptions) -> Column:
    """Spot machines that the provider reclaims per day; 0 for machines that are not spot.

    Parameters:
        spot: whether the machines are spot capacity.
    Limits: rates differ by region, machine type and time of day.
    Check: twice the rate for two spot machines, none for on-demand machines.
        >>> rate = Assumptions().spot_interruptions_per_machine_day
        >>> (spot_reclaims_per_day(col(2, 2), np.array([True, False]), Assumptions()) / rate).tolist()
        [2.0, 0.0]
    """
    return np.where(spot, assumed.spot_interruptions_per_machine_day * nodes, 0.0)


@formula(unit="1/s", source="Grattafiori et al. 2024 (arXiv:2407.21783), table 5")
def interruptions_per_s(accelerators: Column, spot_reclaims_per_day: Column, assumed: Assumptions) -> Column:
    """Interruptions per second: hardware failures, and spot machines that the provider reclaims.

    Limits: failures are independent; new or badly cooled fleets fail more often.
    Check: 16,384 accelerators are interrupted 7.8 times per day; the source counts 419 interruptions in 54 days.
        >>> round(interruptions_per_s(col(16384), col(0), Assumptions())[0] * 86400, 2)
        np.float64(7.77)
    """
    return (assumed.interruptions_per_accelerator_day * accelerators + spot_reclaims_per_day) / SECONDS_PER_DAY


@formula(unit="s", source="storage of published clusters (BLOOM, Llama 3)")
def checkpoint_write_s(checkpoint_bytes: float, nodes: Column, assumed: Assumptions) -> Column:
    """Time that storage needs to write a checkpoint from all machines at once.

    Check: two machines write twice as fast as one below the limit.
        >>> one_s, two_s = checkpoint_write_s(112e9, col(1, 2), Assumptions())
        >>> round(float(one_s / two_s), 3)
        2.0
    """
    gb_per_s = np.minimum(
        nodes * assumed.checkpoint_write_gb_per_s_per_machine, assumed.checkpoint_write_gb_per_s_limit
    )
    return checkpoint_bytes / (gb_per_s * 1e9)


@formula(unit="s", source="Mohan et al. 2021 (CheckFreq, FAST 21)")
def checkpoint_stall_s(
    checkpoint_bytes: float, accelerators: Column, checkpoint_write_s: Column, counts: Counts, assumed: Assumptions
) -> Column:
    """Time that training stops for one checkpoint.

    An asynchronous checkpoint stalls for the copy to host memory; a synchronous checkpoint stalls for the whole
    write.
    Check: a synchronous checkpoint stalls for its whole write.
        >>> checkpoint_stall_s(112e9, col(8), col(30.0), row(synchronous_checkpoints=True), Assumptions()).tolist()
        [30.0]
    """
    copied = checkpoint_bytes / (accelerators * assumed.checkpoint_copy_gb_per_s * 1e9) + assumed.checkpoint_pause_s
    overlapped = np.minimum(copied, checkpoint_write_s + assumed.checkpoint_pause_s)
    return np.where(counts.synchronous_checkpoints, checkpoint_write_s, overlapped)


@formula(unit="s", source="Young 1974 (doi:10.1145/361147.361115)")
def checkpoint_interval_s(
    checkpoint_stall_s: Column,
    interruptions_per_s: Column,
    checkpoint_write_s: Column,
    counts: Counts,
    assumed: Assumptions,
) -> Column:
    """Time between checkpoints: as requested, or the interval that minimizes stalls plus lost work.

    The best interval is sqrt(2 * stall / rate), within the usual range. A checkpoint cannot start before the
    previous one is written.
    Check: a 10 s stall and 7.8 interruptions per day.
        >>> asked = row(asked_checkpoint_interval_s=0.0)
        >>> round(checkpoint_interval_s(col(10.0), col(7.8 / 86400), col(5.0), asked, Assumptions())[0])
        471
    """
    best = np.sqrt(2 * checkpoint_stall_s / np.maximum(interruptions_per_s, TINY))
    usual = np.clip(best, assumed.shortest_checkpoint_interval_s, assumed.longest_checkpoint_interval_s)
    chosen = np.maximum(usual, checkpoint_write_s)
    return np.where(counts.asked_checkpoint_interval_s > 0, counts.asked_checkpoint_interval_s, chosen)


@formula(unit="1", source="Young 1974 (doi:10.1145/361147.361115)")
def lost_share(interruptions_per_s: Column, checkpoint_interval_s: Column, assumed: Assumptions) -> Column:
    """Share of a run's time lost to interruptions: the restart, and half a checkpoint interval of work each time.

    Limits: capped; a run that loses more would not finish.
    Check: one interruption per day, a restart of 10 minutes and checkpoints every 40 minutes lose 30 minutes per
    day.
        >>> restart = row(restart_minutes=10.0, most_lost_share=0.9)
        >>> lost_share(col(1 / 86400), col(2400.0), restart).round(4).tolist()
        [0.0208]
    """
    each = assumed.restart_minutes * 60 + checkpoint_interval_s / 2
    return np.minimum(interruptions_per_s * each, assumed.most_lost_share)


@formula(unit="s", source="definition")
def wall_s(
    counts: Counts,
    step_batch: Column,
    step_time_s: Column,
    checkpoint_stall_s: Column,
    checkpoint_interval_s: Column,
    lost_share: Column,
    assumed: Assumptions,
) -> Column:
    """Wall time of the run: steps, validation, experiments, checkpoint stalls and interruptions.

    Check: 1,000 steps of 2 s, 10 % of validation, a 10 s stall every 1,000 s and 1 % lost.
        >>> counts = row(units=4e6, units_per_sequence=1000.0, experiment_overhead=0.0)
        >>> ten_percent = row(validation_overhead=0.1)
        >>> wall_s(counts, col(4), col(2.0), col(10.0), col(1000.0), col(0.01), ten_percent).round(1).tolist()
        [2244.4]
    """
    steps = counts.units / (step_batch * counts.units_per_sequence)
    overhead = (1 + assumed.validation_overhead) * (1 + counts.experiment_overhead)
    busy = steps * step_time_s * overhead * (1 + checkpoint_stall_s / checkpoint_interval_s)
    return busy / (1 - lost_share)


@formula(unit="interruptions", source="definition")
def expected_interruptions(interruptions_per_s: Column, wall_s: Column) -> Column:
    """Expected number of interruptions of the whole run.

    Check: 7.8 interruptions per day for ten days.
        >>> expected_interruptions(col(7.8 / 86400), col(864000.0)).round(3).tolist()
        [78.0]
    """
    return interruptions_per_s * wall_s


def estimate_losses(
    counts: Counts, plans: TrainingPlans, accelerators: Column, machines: Column, assumed: Assumptions
) -> Losses:
    """Return checkpoint and interruption losses of each run."""
    size = checkpoint_bytes(counts.checkpointed_params)
    write = checkpoint_write_s(size, machines, assumed)
    stall = checkpoint_stall_s(size, accelerators, write, counts, assumed)
    spot = plans.machine.spot
    taken = spot_reclaims_per_day(machines, spot, assumed) if spot.any() else np.zeros(len(plans))
    rate = interruptions_per_s(accelerators, taken, assumed)
    interval = checkpoint_interval_s(stall, rate, write, counts, assumed)
    return Losses(rate, interval, stall, write, lost_share(rate, interval, assumed))


def run_at(
    counts: Counts,
    plans: TrainingPlans,
    data_parallel: Column,
    assumed: Assumptions,
    parts: RunParts | None = None,
    memory: TrainingMemory | None = None,
) -> Run:
    """Return the run of every row at a data-parallel degree.

    Pass `parts` and `memory` if they are already known.
    """
    parts = parts if parts is not None else build_run_parts(counts, plans, assumed)
    spread = rank_groups(counts, plans, parts.rank, data_parallel)
    step = time_step(counts, plans, spread, parts, assumed)
    machines = nodes(spread.accelerators, plans.accelerators_per_node)
    losses = estimate_losses(counts, plans, spread.accelerators, machines, assumed)
    stall, interval = losses.checkpoint_stall_s, losses.checkpoint_interval_s
    wall = wall_s(counts, spread.batch, step.step_s, stall, interval, losses.lost_share, assumed)
    if memory is None:
        memory = training_memory(counts, plans, parts.rank, spread, parts.activations, assumed)
    return Run(
        data_parallel=data_parallel,
        accelerators=spread.accelerators,
        nodes=machines,
        batch=spread.batch,
        wall_s=wall,
        interruptions=expected_interruptions(losses.interruptions_per_s, wall),
        losses=losses,
        step=step,
        memory=memory,
    )


def run_with_memory_parts(
    counts: Counts, plans: TrainingPlans, data_parallel: Column, assumed: Assumptions
) -> tuple[Run, MemoryParts]:
    """Return the run of every row at a data-parallel degree, and its memory by kind."""
    parts = build_run_parts(counts, plans, assumed)
    spread = rank_groups(counts, plans, parts.rank, data_parallel)
    held = count_memory_parts(counts, plans, parts.rank, spread, parts.activations, assumed)
    return run_at(counts, plans, data_parallel, assumed, parts, memory_at_peak(plans, held, assumed)), held


def run_cost(plans: TrainingPlans, run: Run, assumed: Assumptions, economics: Economics) -> Cost:
    """Cost of a run: machines, the network between several machines, and missing host memory."""
    host = run.memory.host_bytes
    cost = deployment_cost(plans.offered, run.nodes, run.nodes, assumed, economics, host_bytes=host)
    return cost.for_hours(run.wall_s / SECONDS_PER_HOUR)


def deployed_machines(plans: TrainingPlans, run: Run, cost: Cost) -> DeployedMachines:
    """Return the machines that each run uses, with cost and host memory."""
    host, always = run.memory.host_bytes, np.zeros(len(run.nodes))
    return DeployedMachines(plans.offered, cost, run.nodes, run.nodes, run.nodes > 1, host, always)


def fits_memory(plans: TrainingPlans, run: Run, assumed: Assumptions) -> Mask:
    """Whether accelerators and hosts have enough memory, by the median prediction."""
    return run.memory.fits & host_fits_memory(plans, run.memory, assumed)


def run_fits_at_confidence(plans: TrainingPlans, run: Run, assumed: Assumptions) -> Mask:
    """Whether accelerators and hosts have enough memory, at the requested confidence."""
    return fits_at_confidence(plans, run.memory) & host_fits_memory(plans, run.memory, assumed)


def host_fits_memory(plans: TrainingPlans, memory: TrainingMemory, assumed: Assumptions) -> Mask:
    """Whether hosts have enough memory for offloaded data.

    A host of unknown memory passes with offloaded optimizer states only. For last-resort layouts, a host of unknown
    memory is assumed to have the usual ratio of host to accelerator memory. Machines whose accelerators use the memory
    of the system have no other memory for it.
    """
    ram, resort = plans.offered.ram_bytes, plans.last_resort
    usual = plans.accelerators_per_node * plans.node.memory_bytes * assumed.host_memory_ratio
    ram = np.where(np.isnan(ram), np.where(resort, usual, np.inf), ram)
    ram = np.where(plans.machine.unified_memory, 0.0, ram)
    result: Mask = memory.host_bytes <= assumed.host_memory_share * ram
    return result


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

    Check: 512 sequences of 4,096 tokens every 8 s.
        >>> units_per_s(PRETRAIN_COUNTS, col(512), col(8.0)).tolist()
        [262144.0]
    """
    return step_batch * counts.units_per_sequence / step_time_s


@formula(unit="1", source="Chowdhery et al. 2022 (arXiv:2204.02311), appendix B")
def mfu(counts: Counts, units_per_s: Column, accelerators: Column, peak_flops_per_s: Column) -> Column:
    """Model FLOPs utilization: share of peak FLOPs that the model needs, without recomputation.

    Parameters:
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

    Check: 129,600 s are one and a half days.
        >>> days(col(129600.0)).tolist()
        [1.5]
    """
    return wall_s / SECONDS_PER_DAY


@formula(unit="h", source="definition")
def accelerator_hours(wall_s: Column, accelerators: Column) -> Column:
    """Accelerator-hours of a run.

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
    Limits: at the same global batch, fewer accelerators run proportionally more micro-batches.
    Check: 8 accelerators reach 80,000 tokens/s and 64 reach 576,000.
        >>> scaling_efficiency(col(80e3), col(8), col(576e3), col(64)).tolist()
        [0.9]
    """
    return np.minimum(1.0, units_per_s / accelerators / (one_machine_units_per_s / one_machine_accelerators))


@formula(unit="B/s", source="definition")
def storage_bytes_per_s(checkpoint_bytes: float, checkpoint_interval_s: Column, assumed: Assumptions) -> Column:
    """Write rate that storage needs to finish a checkpoint well before the next one starts.

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
        host_bytes: offloaded states per machine, bytes.
        accelerators_per_node: accelerators per machine.
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
