"""A training or fine-tuning run: how long, on how many accelerators, and what it loses on the way.

Each layout is taken at the smallest data-parallel degree that fits memory and deadline, found by
bisection over the divisors of the global batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Column, Columns, Mask
from app.sizing.decisions.acquisition import Deployed
from app.sizing.decisions.cost import Cost, deployment_cost
from app.sizing.formula import formula
from app.sizing.question import Economics
from app.sizing.training.activations import MicroBatchMemory, micro_batch_memory
from app.sizing.training.counts import Counts
from app.sizing.training.doubt import surely_held
from app.sizing.training.memory import TrainingMemory, training_memory
from app.sizing.training.plans import TrainingPlans
from app.sizing.training.ranks import RankParams, Spread, rank_params, spread_of
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
from app.sizing.units import SECONDS_PER_DAY


@dataclass(frozen=True, slots=True)
class Losses(Columns):
    """What a run loses beside its steps."""

    interruptions_per_s: Column
    checkpoint_interval_s: Column
    checkpoint_stall_s: Column  # of one checkpoint
    checkpoint_write_s: Column
    lost_share: Column  # of the run's time: restarts, and half an interval of work with each


@dataclass(frozen=True, slots=True)
class Run(Columns):
    """A whole run at a data-parallel degree."""

    data_parallel: Column
    accelerators: Column
    nodes: Column
    batch: Column  # of a step: as asked, or the nearest that divides
    wall_s: Column
    interruptions: Column
    losses: Losses
    step: StepTime
    memory: TrainingMemory


@dataclass(frozen=True, slots=True)
class Parts(Columns):
    """What is the same at every data-parallel degree."""

    rank: RankParams
    held: MicroBatchMemory
    time: MicroBatchTime


def micro_batch_time_of(counts: Counts, plans: TrainingPlans, assumed: Assumptions) -> MicroBatchTime:
    """Time of one micro-batch, whatever the data-parallel degree."""
    work = micro_batch_work(counts, plans)
    if counts.in_samples:
        return sample_batch_time(work, plans.stack.sample_achieved)
    return micro_batch_time(work, plans.stack.token_achieved, assumed)


def parts_of(counts: Counts, plans: TrainingPlans, assumed: Assumptions) -> Parts:
    """What is the same at every data-parallel degree."""
    return Parts(
        rank_params(counts, plans),
        micro_batch_memory(counts, plans, assumed),
        micro_batch_time_of(counts, plans, assumed),
    )


def step_of(counts: Counts, plans: TrainingPlans, spread: Spread, parts: Parts, assumed: Assumptions) -> StepTime:
    """Time of one optimizer step."""
    state = state_work(counts, plans, parts.rank, spread)
    if counts.in_samples:
        return sample_step_time(parts.time, state, plans.stack.sample_achieved, assumed)
    return step_time(parts.time, state, plans.stack.token_achieved, assumed)


@formula(unit="machines", source="definition")
def nodes(accelerators: Column, accelerators_per_node: Column) -> Column:
    """Machines of a run.

    Source: definition.
    """
    return np.ceil(accelerators / accelerators_per_node)


@formula(unit="B", source="counted: 16-bit weights, 32-bit master copy and two moments")
def checkpoint_bytes(checkpointed_params: float) -> float:
    """A full checkpoint, or the adapters alone.

    Source: counted.
    Limits: AdamW's states, whatever the optimizer.
    Check: 405.9e9 parameters are 5.68 TB.
        >>> round(checkpoint_bytes(405.9e9) / 1e12, 2)
        5.68
    """
    return checkpointed_params * CHECKPOINT_BYTES_PER_PARAM


@formula(unit="1/day", source="published interruption rates of spot capacity")
def taken_per_day(nodes: Column, spot: Mask, assumed: Assumptions) -> Column:
    """Machines taken back, where they are rented as spot capacity.

    Source: published interruption rates of spot capacity.
    Limits: rates differ by region, type and hour.
    """
    return np.where(spot, assumed.spot_interruptions_per_machine_day * nodes, 0.0)


@formula(unit="1/s", source="Grattafiori et al. 2024 (arXiv:2407.21783)")
def interruptions_per_s(accelerators: Column, taken_per_day: Column, assumed: Assumptions) -> Column:
    """Failures of accelerators and what is around them, and machines taken back where they are rented as spot.

    Source: Grattafiori et al. 2024 (arXiv:2407.21783), table 5: 419 in 54 days on 16,384 accelerators.
    Limits: failures are independent; a fleet that is new or badly cooled fails more.
    Check: 16,384 accelerators are interrupted 7.8 times a day.
        >>> round(interruptions_per_s(col(16384), col(0), Assumptions())[0] * 86400, 2)
        np.float64(7.77)
    """
    return (assumed.interruptions_per_accelerator_day * accelerators + taken_per_day) / SECONDS_PER_DAY


@formula(unit="s", source="storage of published clusters")
def checkpoint_write_s(checkpoint_bytes: float, nodes: Column, assumed: Assumptions) -> Column:
    """Seconds in which storage takes a checkpoint from all machines at once.

    Source: storage of published clusters (BLOOM, Llama 3).
    """
    gb_per_s = np.minimum(
        nodes * assumed.checkpoint_write_gb_per_s_per_machine, assumed.checkpoint_write_gb_per_s_limit
    )
    return checkpoint_bytes / (gb_per_s * 1e9)


@formula(unit="s", source="Mohan et al. 2021 (CheckFreq)")
def checkpoint_stall_s(
    checkpoint_bytes: float, accelerators: Column, checkpoint_write_s: Column, counts: Counts, assumed: Assumptions
) -> Column:
    """Seconds that training stands still for one checkpoint: for the copy to host memory only, where it is written
    while training goes on; otherwise for the whole write.

    Source: Mohan et al. 2021 (CheckFreq, FAST 21).
    """
    copied = checkpoint_bytes / (accelerators * assumed.checkpoint_copy_gb_per_s * 1e9) + assumed.checkpoint_pause_s
    beside = np.minimum(copied, checkpoint_write_s + assumed.checkpoint_pause_s)
    return np.where(counts.synchronous_checkpoints, checkpoint_write_s, beside)


@formula(unit="s", source="Young 1974")
def checkpoint_interval_s(
    checkpoint_stall_s: Column,
    interruptions_per_s: Column,
    checkpoint_write_s: Column,
    counts: Counts,
    assumed: Assumptions,
) -> Column:
    """Time between checkpoints: as asked, or where stalls and lost work cost the same, sqrt(2 * stall / rate), within
    what is usual. A new one cannot start before the last is written.

    Source: Young 1974 (doi:10.1145/361147.361115).
    Check: a 10 s stall and 7.8 interruptions a day.
        >>> asked = row(asked_checkpoint_interval_s=0.0)
        >>> round(checkpoint_interval_s(col(10.0), col(7.8 / 86400), col(5.0), asked, Assumptions())[0])
        471
    """
    best = np.sqrt(2 * checkpoint_stall_s / np.maximum(interruptions_per_s, 1e-12))
    usual = np.clip(best, assumed.shortest_checkpoint_interval_s, assumed.longest_checkpoint_interval_s)
    chosen = np.maximum(usual, checkpoint_write_s)
    return np.where(counts.asked_checkpoint_interval_s > 0, counts.asked_checkpoint_interval_s, chosen)


@formula(unit="1", source="Young 1974")
def lost_share(interruptions_per_s: Column, checkpoint_interval_s: Column, assumed: Assumptions) -> Column:
    """Share of a run's time that interruptions cost: restarts, and half an interval of work with each.

    Source: Young 1974 (doi:10.1145/361147.361115).
    Limits: beyond the most that is shown a run would not finish.
    """
    each = assumed.restart_minutes * 60 + checkpoint_interval_s / 2
    return np.minimum(interruptions_per_s * each, assumed.most_lost_share)


@formula(unit="s", source="steps, experiments and lost time")
def wall_s(
    counts: Counts,
    step_batch: Column,
    step_time_s: Column,
    checkpoint_stall_s: Column,
    checkpoint_interval_s: Column,
    lost_share: Column,
    assumed: Assumptions,
) -> Column:
    """Wall time of the run: steps, validation and experiments on top, and time lost to checkpoints and interruptions.

    Source: definition.
    """
    steps = counts.units / (step_batch * counts.units_per_sequence)
    overhead = (1 + assumed.validation_overhead) * (1 + counts.experiment_overhead)
    busy = steps * step_time_s * overhead * (1 + checkpoint_stall_s / checkpoint_interval_s)
    return busy / (1 - lost_share)


@formula(unit="interruptions", source="definition")
def expected_interruptions(interruptions_per_s: Column, wall_s: Column) -> Column:
    """Interruptions in the whole run.

    Source: definition.
    """
    return interruptions_per_s * wall_s


def losses_of(
    counts: Counts, plans: TrainingPlans, accelerators: Column, machines: Column, assumed: Assumptions
) -> Losses:
    """Checkpoints and interruptions."""
    size = checkpoint_bytes(counts.checkpointed_params)
    write = checkpoint_write_s(size, machines, assumed)
    stall = checkpoint_stall_s(size, accelerators, write, counts, assumed)
    spot = plans.machine.spot
    taken = taken_per_day(machines, spot, assumed) if spot.any() else np.zeros(len(plans))
    rate = interruptions_per_s(accelerators, taken, assumed)
    interval = checkpoint_interval_s(stall, rate, write, counts, assumed)
    return Losses(rate, interval, stall, write, lost_share(rate, interval, assumed))


def run_at(
    counts: Counts,
    plans: TrainingPlans,
    data_parallel: Column,
    assumed: Assumptions,
    parts: Parts | None = None,
    memory: TrainingMemory | None = None,
) -> Run:
    """The run of every row at a data-parallel degree; `parts` and `memory` where they are known already."""
    parts = parts if parts is not None else parts_of(counts, plans, assumed)
    spread = spread_of(counts, plans, parts.rank, data_parallel)
    step = step_of(counts, plans, spread, parts, assumed)
    machines = nodes(spread.accelerators, plans.accelerators_per_node)
    losses = losses_of(counts, plans, spread.accelerators, machines, assumed)
    stall, interval = losses.checkpoint_stall_s, losses.checkpoint_interval_s
    wall = wall_s(counts, spread.batch, step.step_s, stall, interval, losses.lost_share, assumed)
    if memory is None:
        memory = training_memory(counts, plans, parts.rank, spread, parts.held, assumed)
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


def run_cost(plans: TrainingPlans, run: Run, assumed: Assumptions, economics: Economics) -> Cost:
    """Cost of a run's machines, of a network between them where there are several, and of memory that they lack."""
    host = run.memory.host_bytes
    return deployment_cost(plans.offered, run.nodes, run.nodes, assumed, economics, host_bytes=host)


def deployed(plans: TrainingPlans, run: Run, cost: Cost) -> Deployed:
    """What runs ask of the machines that they are on."""
    return Deployed(plans.offered, cost, run.nodes, run.nodes, run.nodes > 1, run.memory.host_bytes)


def fits(plans: TrainingPlans, run: Run, assumed: Assumptions) -> Mask:
    """Whether accelerators and hosts hold what they must."""
    return run.memory.fits & host_holds(plans, run.memory, assumed)


def surely_fits(plans: TrainingPlans, run: Run, assumed: Assumptions) -> Mask:
    """Whether accelerators and hosts hold what they must, with the confidence asked."""
    return surely_held(plans, run.memory) & host_holds(plans, run.memory, assumed)


def host_holds(plans: TrainingPlans, memory: TrainingMemory, assumed: Assumptions) -> Mask:
    """Whether hosts hold what is offloaded to them: states one whose memory is not known is taken to, more than these
    one with as much memory as is usual beside its accelerators.
    """
    ram, resort = plans.offered.ram_bytes, plans.last_resort
    usual = plans.accelerators_per_node * plans.node.memory_bytes * assumed.host_memory_ratio
    ram = np.where(np.isnan(ram), np.where(resort, usual, np.inf), ram)
    found: Mask = memory.host_bytes <= assumed.host_memory_share * ram
    return found
