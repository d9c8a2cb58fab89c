"""A day of a deployment: fixed, autoscaled and scale-to-zero fleets, cold start, scale-out and failures."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Column, one
from app.sizing.day.failures import PeakFleet, simulate_failures
from app.sizing.day.idle import fleet_per_minute
from app.sizing.day.money import fixed_usd_per_day, paid_usd_per_hour, savings_note
from app.sizing.day.scaling import (
    MINUTES,
    SECONDS_PER_MINUTE,
    Autoscaler,
    ReplicaTimeline,
    load_per_minute,
    simulate_autoscaling,
    steepest_rise_per_s,
)
from app.sizing.day.start import BULK_START_REPLICAS, StartProfile, start_phases_s, start_time_s, supply_per_s
from app.sizing.day.zero import idle_share
from app.sizing.decisions.placement import Fleet
from app.sizing.formula import suspend_recording
from app.sizing.hardware.parts import BY_THE_HOUR, PricingModel
from app.sizing.question import Economics
from app.sizing.units import HOURS_PER_DAY, LEAST_PER_S
from app.sizing.values.day import AutoscaledDay, ColdStart, Day, FleetDay, Hour, ScaleOut, ZeroDay
from app.sizing.words import format_count, format_number
from app.sizing.workload import HOURS, Redundancy, Shares


@dataclass(frozen=True, slots=True)
class Service:
    """A deployment as input of its day; `replicas`, spares and machines are those of the peak."""

    peak_per_s: float  # request rate at the peak, requests/s
    shares: Shares  # load of each hour as a share of the peak
    replicas: float  # replicas at the peak, without spares
    spare_replicas: float  # spare replicas at the peak
    nodes: float  # machines at the peak
    redundancy: Redundancy  # losses that the fleet survives
    accelerators_per_replica: float
    accelerators_per_node: float
    capacity_per_s: float  # capacity of one replica within the SLO at the requested confidence, requests/s
    target_utilization: float  # highest planned share of that capacity, from 0 to 1
    max_per_s: float  # request rate of one replica above which its queue grows, requests/s
    unloaded_ttft_s: float  # TTFT of a request with no other load, s
    ttft_curve: tuple[tuple[float, float], ...]  # (requests/s of one replica, p95 TTFT in s)
    usd_per_hour: float | None  # hourly cost of the fleet at the peak, USD/h; None without a price
    power_w: float  # mean power of the fleet under load, W
    pricing: PricingModel | None  # pricing model of the machines; None without a price
    starting: StartProfile  # data and bandwidths of a replica start

    @property
    def placed_replicas(self) -> float:
        """Replicas at the peak, spares included."""
        return self.replicas + self.spare_replicas

    @property
    def peak_fleet(self) -> Fleet:
        """The fleet of the peak, as columns of one row."""
        machines = np.array([self.nodes])
        placed = np.array([self.replicas]), np.array([self.spare_replicas])
        return Fleet(*placed, machines, machines * self.accelerators_per_node)


def simulate_day(service: Service, assumed: Assumptions, economics: Economics) -> Day:
    """The day of a deployment whose hourly load is known."""
    with suspend_recording():
        load = load_per_minute(service.peak_per_s, service.shares)
        once = start_time_s(service.starting, 1.0, assumed)
        at = Autoscaler(
            capacity_per_s=service.capacity_per_s,
            target_utilization=service.target_utilization,
            most_replicas=service.replicas,
            start_s=once + assumed.autoscaler_reaction_s,
            supply_per_s=float(supply_per_s(service.starting, assumed)),
            keep_s=assumed.scale_in_delay_s,
        )
        running = simulate_autoscaling(load, at)
        each, count = np.array([service.accelerators_per_replica]), np.array([service.accelerators_per_node])
        placed, nodes = fleet_per_minute(service.redundancy, service.peak_fleet, each, count, running.ordered)
        idle = idle_share(load, assumed.scale_to_zero_after_s, once)
        fixed = fixed_day(service)
        autoscaled = autoscaled_day(service, running, placed, nodes, fixed, assumed, economics)
        awake, awake_nodes = placed * (1 - idle), nodes * (1 - idle)
        return Day(
            hours=summarize_hours(service, placed),
            fixed=fixed,
            autoscaled=autoscaled,
            scale_to_zero=ZeroDay(
                replica_hours=float(awake.mean()) * HOURS_PER_DAY,
                usd_per_day=daily_usd(service, fixed, awake_nodes, assumed, economics),
                idle_hours=float(idle.mean()) * HOURS_PER_DAY,
                first_request_s=once + service.unloaded_ttft_s,
            ),
            cold_start=ColdStart(
                once,
                start_time_s(service.starting, BULK_START_REPLICAS, assumed),
                {name: float(taken) for name, taken in start_phases_s(service.starting, 1.0, assumed).items()},
            ),
            scale_out=assess_scale_out(service, load, at, running),
            failures=simulate_failures(fleet_at_peak(service), service.starting, assumed),
            cheaper="autoscaled" if autoscaled.saving_share > 0 else "fixed",
        )


def fleet_at_peak(service: Service) -> PeakFleet:
    """The fleet at the peak, of which parts may be lost."""
    return PeakFleet(
        peak_per_s=service.peak_per_s,
        replicas=service.replicas,
        placed_replicas=service.placed_replicas,
        hosts=float(service.nodes / service.starting.nodes_per_replica),
        zones=float(service.redundancy.zones),
        max_per_s=service.max_per_s,
        replaced=service.pricing not in (PricingModel.OWNED, None),
        ttft_curve=service.ttft_curve,
    )


def summarize_hours(service: Service, placed: Column) -> tuple[Hour, ...]:
    """Load and largest number of replicas of every hour."""
    most = placed.reshape(HOURS, MINUTES).max(axis=1)
    return tuple(
        Hour(service.peak_per_s * share, int(replicas))
        for share, replicas in zip(service.shares, most.tolist(), strict=True)
    )


def fixed_day(service: Service) -> FleetDay:
    """The day of a fleet that stays at its peak size."""
    usd = None if service.usd_per_hour is None else fixed_usd_per_day(service.usd_per_hour)
    return FleetDay(service.placed_replicas * HOURS_PER_DAY, usd)


def daily_usd(
    service: Service, fixed: FleetDay, nodes: Column, assumed: Assumptions, economics: Economics
) -> float | None:
    """Daily cost with the given machines in use in every minute; None without a price."""
    if fixed.usd_per_day is None or service.usd_per_hour is None:
        return None
    paid = paid_usd_per_hour(
        np.array([service.usd_per_hour]),
        np.array([service.power_w]),
        np.array([1 - float(nodes.mean()) / service.nodes]),
        np.array([service.pricing in BY_THE_HOUR]),
        np.array([service.pricing is PricingModel.OWNED]),
        assumed,
        economics,
    )
    return fixed_usd_per_day(one(paid))


def autoscaled_day(
    service: Service,
    running: ReplicaTimeline,
    placed: Column,
    nodes: Column,
    fixed: FleetDay,
    assumed: Assumptions,
    economics: Economics,
) -> AutoscaledDay:
    """The day of a fleet that follows the load."""
    hours = float(placed.mean()) * HOURS_PER_DAY
    usd = daily_usd(service, fixed, nodes, assumed, economics)
    saving = 1 - hours / fixed.replica_hours
    if usd is not None and fixed.usd_per_day:
        saving = 1 - usd / fixed.usd_per_day
    return AutoscaledDay(
        replica_hours=hours,
        usd_per_day=usd,
        least_replicas=int(placed.min()),
        warm_replicas=running.max_warm_replicas,
        saving_share=max(0.0, saving),
        note=savings_note(service.pricing if usd is not None else None),
    )


def assess_scale_out(service: Service, load: Column, autoscaler: Autoscaler, running: ReplicaTimeline) -> ScaleOut:
    """Whether replicas that are ordered as the load rises start in time, and why."""
    steepest = steepest_rise_per_s(load)
    each = max(service.capacity_per_s * service.target_utilization, LEAST_PER_S)
    minutes, warm = float(autoscaler.start_s) / SECONDS_PER_MINUTE, running.max_warm_replicas
    rise = (
        f"The load rises by at most {format_number(steepest)} requests/s per minute, which "
        f"{format_number(steepest / each)} replicas can serve."
    )
    meanwhile = f"while a new replica starts ({format_number(minutes)} minutes)"
    if warm == 0:
        why = f"{rise} The running replicas meet the limits {meanwhile}."
    else:
        why = (
            f"{rise} The load outgrows the running replicas {meanwhile}. "
            f"Therefore, up to {format_count(warm, 'replica')} start ahead of the load."
        )
    fed = float(autoscaler.supply_per_s) * SECONDS_PER_MINUTE
    if steepest / each > fed:
        why += f" The image registry and the weight store supply at most {format_number(fed)} replicas per minute."
    return ScaleOut(warm == 0, steepest, steepest / each, why)
