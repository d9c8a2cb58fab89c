"""Options of a search: plans with their fleet and cost, and the measures that rank them."""

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
from app.sizing.serving.measured import Memory, OperatingPoint, Settings, Speed
from app.sizing.serving.plans import Plans
from app.sizing.workload import InferenceWorkload, Load


@dataclass(frozen=True, slots=True)
class Options(Columns):
    """Plans with the resulting deployment and the figures that rank them."""

    plans: Plans
    settings: Settings  # complete settings for which the other columns hold
    slo_batch: Column  # largest batch of a replica within the limits
    capacity_per_s: Column  # requests per second of one replica within the limits
    rate_per_s: Column  # requests per second of one replica at the load
    cold_start_s: Column  # cold start of a replica, in seconds
    e2e_p50_s: Column  # median end-to-end latency at the load, in seconds
    fleet: Fleet
    cost: Cost
    daily_usd_per_hour: Column  # mean cost over a day in USD/h; the plain cost if there is no hourly profile

    @property
    def accelerator(self) -> Codes:
        return self.plans.accelerator


M = TypeVar("M", bound=Memory)
S = TypeVar("S", bound=Speed)
R = TypeVar("R", bound=OperatingPoint)


@dataclass(frozen=True, slots=True)
class PlanEvaluations(Columns, Generic[M, S, R]):
    """Plans with their complete evaluation: options, memory, speed and operating point."""

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


def startup_s(question: Question, plans: Plans) -> Column:
    """Cold start of a replica of every plan, in seconds."""
    return cold_start_s(plans.stored_bytes, plans.nodes_per_replica, question.assumptions)


def within_constraints(question: Question, options: Options, rejections: Rejections) -> Mask:
    """Mask of plans within the limits on accelerators, cost and power."""
    return within_limits(
        options.accelerator, options.fleet.accelerators, options.cost, question.constraints, rejections
    )


def throughput_per_s(workload: InferenceWorkload, options: Options) -> Column:
    """Requests (or samples) per second of the whole deployment, without spares.

    Open-loop and offline work use the capacity within the SLO; other work uses the rate at the given load.
    """
    if workload.load in (Load.OPEN, Load.OFFLINE):
        return options.fleet.replicas * options.capacity_per_s
    return options.fleet.replicas * options.rate_per_s


def served_per_s(workload: InferenceWorkload, options: Options) -> Column:
    """Requests per second over which cost and energy are spread: the actual load, never the unused capacity.

    If the load exceeds the capacity, the result is the capacity.
    """
    if workload.load is Load.OPEN:
        return np.minimum(workload.average_per_s, throughput_per_s(workload, options))
    if workload.volume_requests is not None:
        return workload.volume_requests / duration_s(workload.volume_requests, options)
    return throughput_per_s(workload, options)


def duration_s(volume_requests: float, options: Options) -> Column:
    """Seconds from starting the machines to finishing the volume of requests."""
    replicas, start = options.fleet.replicas, options.cold_start_s
    return run_s(volume_requests, replicas, options.capacity_per_s, options.slo_batch, start)


def units_per_request(workload: InferenceWorkload) -> float:
    """Tokens of a request, or 1 for samples."""
    return 1.0 if workload.model.sample is not None else max(1.0, workload.tokens_per_request)


def measures(workload: InferenceWorkload, options: Options) -> Measures:
    """Figures that rank plans.

    A service is ranked by its mean cost over a day. Work with a volume is ranked by total cost and duration. Offline
    work without a volume is ranked by cost per unit.
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
    """Tie-break order of equal plans: fewer accelerators first, then smaller replicas, then catalog order."""
    plans = options.plans
    return options.fleet.accelerators * 1e6 + plans.accelerators_per_replica * 1e3 + plans.stacks.rows
