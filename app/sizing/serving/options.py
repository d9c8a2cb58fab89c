"""What a search chooses between: plans with their fleet and cost, and the figures they are ranked by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from app.sizing.columns import Codes, Column, Columns, Mask
from app.sizing.decisions.cost import Cost, usd_total, within_limits
from app.sizing.decisions.placement import Fleet
from app.sizing.decisions.ranking import Measures
from app.sizing.decisions.rejections import Rejections
from app.sizing.decisions.volume import cold_start_s, run_s
from app.sizing.question import Question
from app.sizing.serving.measured import Memory, Operation, Settings, Speed
from app.sizing.serving.plans import Plans
from app.sizing.workload import InferenceWorkload, Load


@dataclass(frozen=True, slots=True)
class Options(Columns):
    """Plans with the deployment each comes to and what they are chosen by."""

    plans: Plans
    settings: Settings  # at which the rest holds: those of a complete deployment
    slo_batch: Column
    capacity_per_s: Column
    rate_per_s: Column  # of one replica at the load
    cold_start_s: Column
    e2e_p50_s: Column
    fleet: Fleet
    cost: Cost
    daily_usd_per_hour: Column  # in the mean of a day, as it is paid; of no day as the cost says

    @property
    def accelerator(self) -> Codes:
        return self.plans.accelerator


M = TypeVar("M", bound=Memory)
S = TypeVar("S", bound=Speed)
R = TypeVar("R", bound=Operation)


@dataclass(frozen=True, slots=True)
class Judged(Columns, Generic[M, S, R]):
    """Plans with everything that was found out about them."""

    options: Options
    memory: M
    speed: S
    operation: R

    @property
    def plans(self) -> Plans:
        return self.options.plans

    @property
    def fleet(self) -> Fleet:
        return self.options.fleet

    @property
    def cost(self) -> Cost:
        return self.options.cost

    @property
    def accelerator(self) -> Codes:
        return self.plans.accelerator


def start_s(question: Question, plans: Plans) -> Column:
    """Seconds until a fresh replica of every plan answers."""
    return cold_start_s(plans.stored_bytes, plans.nodes_per_replica, question.assumptions)


def allowed(question: Question, options: Options, rejections: Rejections) -> Mask:
    """Plans that stay within the limits of number, money and power."""
    return within_limits(
        options.accelerator, options.fleet.accelerators, options.cost, question.constraints, rejections
    )


def throughput_per_s(workload: InferenceWorkload, options: Options) -> Column:
    """Requests (or samples) per second that the whole deployment can do, spares idle.

    For open load and work in a queue this is its capacity within the SLO; otherwise what it does at the given load.
    """
    if workload.load in (Load.OPEN, Load.OFFLINE):
        return options.fleet.replicas * options.capacity_per_s
    return options.fleet.replicas * options.rate_per_s


def served_per_s(workload: InferenceWorkload, options: Options) -> Column:
    """Requests per second over which cost and energy are spread: the real load, never the capacity; of more load than
    can be carried what is.
    """
    if workload.load is Load.OPEN:
        return np.minimum(workload.average_per_s, throughput_per_s(workload, options))
    if workload.volume_requests is not None:
        return workload.volume_requests / duration_s(workload.volume_requests, options)
    return throughput_per_s(workload, options)


def duration_s(volume_requests: float, options: Options) -> Column:
    """Seconds from the start of the machines to the end of a volume."""
    replicas, start = options.fleet.replicas, options.cold_start_s
    return run_s(volume_requests, replicas, options.capacity_per_s, options.slo_batch, start)


def units_per_request(workload: InferenceWorkload) -> float:
    """Tokens of a request, or 1 for samples."""
    return 1.0 if workload.model.sample is not None else max(1.0, workload.tokens_per_request)


def measures(workload: InferenceWorkload, options: Options) -> Measures:
    """What plans are ranked by: a service by what it costs in the mean of its day, work that ends by what all of it
    costs and how long it takes, offline work without a volume by what a unit of it costs.
    """
    served = np.maximum(served_per_s(workload, options) * units_per_request(workload), 1e-12)
    usd = options.daily_usd_per_hour
    latency, work = options.e2e_p50_s, throughput_per_s(workload, options) / options.fleet.accelerators
    if workload.volume_requests is not None:
        latency = duration_s(workload.volume_requests, options)
        usd = usd_total(usd, latency)
    elif workload.load is Load.OFFLINE:
        usd = usd / served
    return Measures(usd, latency, work, options.cost.power_w / served)


def stable_key(options: Options) -> Column:
    """Orders plans that are equal in everything that matters: fewer devices, then catalogue order."""
    plans = options.plans
    return options.fleet.accelerators * 1e6 + plans.accelerators_per_replica * 1e3 + plans.stacks.rows
