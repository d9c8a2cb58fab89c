"""A training or fine-tuning run: how long, on how many devices, and what it loses on the way.

Each layout is taken at the smallest data-parallel degree that fits memory and deadline, found by
bisection over the divisors of the global batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Codes, Column, Columns, Mask
from app.sizing.decisions.cost import Cost, deployment_cost
from app.sizing.hardware.achieved import SampleTrainingAchieved
from app.sizing.hardware.listings import PRICING
from app.sizing.hardware.parts import PricingModel
from app.sizing.question import Economics
from app.sizing.snapshot import Market
from app.sizing.training.memory import TrainingMemory, training_memory
from app.sizing.training.plans import TrainingPlans
from app.sizing.training.step import (
    MicroBatchTime,
    StepTime,
    micro_batch_time,
    sample_batch_time,
    sample_step_time,
    step_time,
)
from app.sizing.training.work import micro_batch_work, state_work
from app.sizing.workload import Method, TrainingWorkload

LARGEST_CLUSTER = 131072
HOST_MEMORY_SHARE = 0.8  # of a machine's own, for offloaded states
CHECKPOINT_BYTES_PER_PARAMETER = 14.0  # 16-bit weights, 32-bit master copy and two moments
SHORTEST_INTERVAL_S, LONGEST_INTERVAL_S = 120.0, 3600.0
# A run that loses more than this to interruptions is not shown as slower still: it would not finish.
MOST_LOST = 0.95


def micro_of(workload: TrainingWorkload, plans: TrainingPlans) -> MicroBatchTime:
    """Time of one micro-batch, whatever the data-parallel degree."""
    work = micro_batch_work(workload, plans)
    return (
        sample_batch_time(work, plans.achieved)
        if isinstance(plans.achieved, SampleTrainingAchieved)
        else micro_batch_time(work, plans.achieved)
    )


def step_of(
    workload: TrainingWorkload, plans: TrainingPlans, data_parallel: Column, micro: MicroBatchTime | None = None
) -> StepTime:
    """Time of one optimizer step at a data-parallel degree; `micro` where it is known already."""
    micro = micro if micro is not None else micro_of(workload, plans)
    state = state_work(workload, plans, data_parallel)
    k = plans.achieved
    return sample_step_time(micro, state, k) if isinstance(k, SampleTrainingAchieved) else step_time(micro, state, k)


@dataclass(frozen=True, slots=True)
class Losses(Columns):
    """What a run loses beside its steps."""

    interruptions_per_s: Column
    checkpoint_interval_s: Column
    checkpoint_stall_s: Column  # of one checkpoint
    checkpoint_write_s: Column
    restart_s: float

    @property
    def share(self) -> Column:
        """Of the run's time: restarts, and half an interval of work with each."""
        return np.minimum(self.interruptions_per_s * (self.restart_s + self.checkpoint_interval_s / 2), MOST_LOST)


@dataclass(frozen=True, slots=True)
class Run(Columns):
    """A whole run at a data-parallel degree."""

    data_parallel: Column
    devices: Column
    nodes: Column
    wall_s: Column
    interruptions: Column
    losses: Losses
    step: StepTime
    memory: TrainingMemory


def checkpoint_bytes(workload: TrainingWorkload) -> float:
    """A full checkpoint, or the adapters alone. Check: 405.9e9 parameters are 5.68 TB."""
    if workload.method is Method.FULL:
        return workload.model.total_params * CHECKPOINT_BYTES_PER_PARAMETER
    return workload.model.lora_params(workload.lora_rank, workload.lora_targets) * CHECKPOINT_BYTES_PER_PARAMETER


def interruptions_per_s(plans: TrainingPlans, devices: Column, market: Market, assumed: Assumptions) -> Column:
    """Failures of devices and what is around them, and machines taken back where they are rented as spot.

    Check: 16 384 devices at 4.74e-4 a day each are interrupted 7.8 times a day.
    """
    listing = plans.offered.listing
    spot = np.where(
        listing >= 0, market.listings.pricing[np.maximum(listing, 0)] == PRICING.index(PricingModel.SPOT), False
    )
    taken = np.where(
        spot, assumed.spot_interruptions_per_machine_day * np.ceil(devices / plans.node.accelerators_per_node), 0.0
    )
    return (assumed.interruptions_per_accelerator_day * devices + taken) / 86400.0


def losses_of(
    workload: TrainingWorkload, plans: TrainingPlans, devices: Column, market: Market, assumed: Assumptions
) -> Losses:
    """Checkpoints and interruptions.

    Written while training goes on, a checkpoint stalls it for the copy to host memory only, and a new one
    cannot start before the last is written; otherwise for the whole write. The interval is as asked, or
    where stalls and lost work cost the same: sqrt(2 * stall / rate), from two minutes to an hour.
    Source: Young 1974. Check: a 10 s stall and 7.8 interruptions a day is 471 s.
    """
    size = checkpoint_bytes(workload)
    machines = np.ceil(devices / plans.node.accelerators_per_node)
    writers = np.minimum(
        machines * assumed.checkpoint_write_gb_per_s_per_machine, assumed.checkpoint_write_gb_per_s_limit
    )
    write = size / (writers * 1e9)
    copy = size / (devices * assumed.checkpoint_copy_gb_per_s * 1e9) + assumed.checkpoint_pause_s
    stall = write if workload.synchronous_checkpoints else np.minimum(copy, write + assumed.checkpoint_pause_s)
    rate = interruptions_per_s(plans, devices, market, assumed)
    if workload.checkpoint_interval_s is not None:
        interval = np.full(len(plans), workload.checkpoint_interval_s)
    else:
        best = np.clip(np.sqrt(2 * stall / np.maximum(rate, 1e-12)), SHORTEST_INTERVAL_S, LONGEST_INTERVAL_S)
        interval = np.maximum(best, write)
    return Losses(rate, interval, stall, write, assumed.restart_minutes * 60)


def run_at(
    workload: TrainingWorkload,
    plans: TrainingPlans,
    data_parallel: Column,
    market: Market,
    assumed: Assumptions,
    micro: MicroBatchTime | None = None,
) -> Run:
    """Wall time of the run: steps, validation and experiments on top, and time lost to checkpoints and interruptions."""
    step = step_of(workload, plans, data_parallel, micro)
    devices = plans.ranks * data_parallel
    losses = losses_of(workload, plans, devices, market, assumed)
    steps = workload.units / (workload.global_batch * workload.units_per_sequence)
    overhead = (1 + assumed.validation_overhead) * (1 + workload.experiment_overhead)
    busy = steps * step.step_s * overhead * (1 + losses.checkpoint_stall_s / losses.checkpoint_interval_s)
    wall = busy / (1 - losses.share)
    return Run(
        data_parallel=data_parallel,
        devices=devices,
        nodes=np.ceil(devices / plans.node.accelerators_per_node),
        wall_s=wall,
        interruptions=losses.interruptions_per_s * wall,
        losses=losses,
        step=step,
        memory=training_memory(workload, plans, data_parallel, assumed),
    )


def run_cost(plans: TrainingPlans, run: Run, assumed: Assumptions, economics: Economics) -> Cost:
    """Cost of a run's machines, and of a network between them where there are several."""
    return deployment_cost(plans.offered, run.nodes, np.where(run.nodes > 1, run.nodes, 0.0), assumed, economics)


def units_per_s(workload: TrainingWorkload, run: Run) -> Column:
    """Tokens (or samples) per second of the whole run while it steps."""
    return workload.global_batch * workload.units_per_sequence / run.step.step_s


def divides(divisor: Column, number: Column) -> Mask:
    """Whether whole numbers divide; a division and a floor, which cost a quarter of a remainder."""
    quotient = number / divisor
    found: Mask = quotient == np.floor(quotient)
    return found


def legal(workload: TrainingWorkload, plans: TrainingPlans, degrees: Column) -> Mask:
    """Whether each row may take a data-parallel degree (broadcast: one per row, or a row of options).

    A degree divides the global batch into whole micro-batches (of samples the last may be part full), and experts
    spread evenly over the ranks that share a batch.
    """
    rows = (slice(None),) + (None,) * (degrees.ndim - 1)
    shares = workload.global_batch / plans.micro_batch[rows]
    even: Mask = shares >= degrees if workload.in_samples else divides(degrees, shares)
    if plans.alone.any():
        even = even & (~plans.alone[rows] | (degrees == 1))
    if workload.model.is_moe:
        even = even & divides(
            plans.expert_parallel[rows], (plans.tensor_parallel * plans.context_parallel)[rows] * degrees
        )
    return even


def degree_of(workload: TrainingWorkload, plans: TrainingPlans, devices: Column) -> tuple[Column, Mask]:
    """(data-parallel degree that makes up so many devices, whether each row may take it); one number per row, or a row
    of options.
    """
    degree = devices / plans.ranks[(slice(None),) + (None,) * (devices.ndim - 1)]
    whole = np.maximum(1.0, np.floor(degree))
    return degree, (degree == whole) & legal(workload, plans, whole)


def filled(plans: TrainingPlans, devices: Column) -> Mask:
    """Whether devices (one number per row, or a row of options) fill whole machines beyond the first."""
    count = plans.node.accelerators_per_node[(slice(None),) + (None,) * (devices.ndim - 1)]
    found: Mask = (devices <= count) | divides(count, devices)
    return found


def wired(plans: TrainingPlans, devices: Column) -> Mask:
    """Whether devices are of one machine or one domain, or have a known network between their machines."""
    rows = (slice(None),) + (None,) * (devices.ndim - 1)
    near: Mask = devices <= np.maximum(plans.node.accelerators_per_node, plans.node.scale_up_domain)[rows]
    return near | ~np.isnan(plans.node.network_bytes_per_s)[rows]


def joined(plans: TrainingPlans, devices: Column) -> Mask:
    """Whether devices are machines that are built into one cluster; inference-class hardware, nobody does, and it stays
    alone.
    """
    rows = (slice(None),) + (None,) * (devices.ndim - 1)
    return (
        filled(plans, devices)
        & wired(plans, devices)
        & ((devices <= plans.node.accelerators_per_node[rows]) | plans.clusters[rows])
    )


def degrees_of(workload: TrainingWorkload, plans: TrainingPlans) -> tuple[Column, Codes]:
    """Data-parallel degrees each row may take, ascending: (rows x options padded, how many)."""
    batch = workload.global_batch
    divisors = np.array([d for d in range(1, min(batch, 65536) + 1) if batch % d == 0], dtype=np.float64)
    if len(divisors) > 48:
        divisors = divisors[np.unique(np.geomspace(1, len(divisors), 48).astype(int) - 1)]
    options = np.broadcast_to(divisors, (len(plans), len(divisors)))
    devices = plans.ranks[:, None] * options
    allowed = legal(workload, plans, options) & joined(plans, devices) & (devices <= LARGEST_CLUSTER)
    row, option = np.nonzero(allowed)
    packed = np.full(allowed.shape, np.inf)
    packed[row, np.cumsum(allowed, axis=1)[row, option] - 1] = divisors[option]
    return packed, allowed.sum(axis=1)


def smallest_run(
    workload: TrainingWorkload, plans: TrainingPlans, market: Market, assumed: Assumptions
) -> tuple[TrainingPlans, Run, Mask, Mask]:
    """Each row at its smallest degree that fits memory and meets the deadline.

    Rows without a legal degree are dropped. Returns (plans, run, fits, in time); a row that fails
    is shown at its largest degree, its best attempt.
    """
    options, count = degrees_of(workload, plans)
    if not count.all():
        rows = np.flatnonzero(count)
        plans, options, count = plans.take(rows), options[rows], count[rows]
    micro = micro_of(workload, plans)
    degree = options[np.arange(len(plans)), count - 1]
    most = run_at(workload, plans, degree, market, assumed, micro)
    able = np.flatnonzero(most.memory.fits & (most.wall_s <= workload.deadline_s))
    open_plans, options, open_micro = plans.take(able), options[able], micro.take(able)
    index, low, high = np.arange(len(able)), np.zeros(len(able), dtype=np.int64), count[able] - 1
    for _ in range(int(np.ceil(np.log2(max(1, int(count.max(initial=1))))))):
        middle = (low + high) // 2
        run = run_at(workload, open_plans, options[index, middle], market, assumed, open_micro)
        good = run.memory.fits & (run.wall_s <= workload.deadline_s)
        high = np.where(good, middle, high)
        low = np.where(good, low, np.minimum(middle + 1, high))
    degree[able] = options[index, high]
    run = run_at(workload, plans, degree, market, assumed, micro)
    return plans, run, fits(plans, run), run.wall_s <= workload.deadline_s


def fits(plans: TrainingPlans, run: Run) -> Mask:
    """Whether devices and hosts hold what they must; a host whose memory is not known is taken to."""
    ram = np.where(np.isnan(plans.offered.ram_bytes), np.inf, plans.offered.ram_bytes)
    return run.memory.fits & (run.memory.host_bytes <= HOST_MEMORY_SHARE * ram)


def scaling_efficiency(workload: TrainingWorkload, plans: TrainingPlans, run: Run) -> Column:
    """Speed per device over that of one machine's worth of the same layout, capped at 1."""
    alone = np.maximum(1.0, np.floor(np.maximum(plans.node.accelerators_per_node, plans.ranks) / plans.ranks))
    base = np.minimum(alone, run.data_parallel)
    reference = step_of(workload, plans, base)
    # The same global batch on fewer devices takes proportionally more micro-batches.
    return np.minimum(1.0, reference.step_s * base / (run.step.step_s * run.data_parallel))
