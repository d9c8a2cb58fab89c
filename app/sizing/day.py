"""A day of a deployment: fixed, autoscaled and scale-to-zero fleets, cold start, failures and cost.

Values are numbers for one fleet, or columns with one row per fleet; minutes run along the last axis.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import (
    HOURS_PER_DAY,
    LEAST_PER_S,
    ROUNDING,
    SECONDS_PER_MINUTE,
    Codes,
    Column,
    Mask,
    column,
    one,
)
from app.sizing.day_results import (
    AutoscaledDay,
    ColdStart,
    Day,
    Failure,
    FailureMinute,
    FleetDay,
    Hour,
    ScaleOut,
    ZeroDay,
)
from app.sizing.decisions.cost import paid_usd_per_hour
from app.sizing.decisions.placement import (
    Fleet,
    max_items_in_groups,
    plan_fleet,
    replicas_for_rate,
    replicas_lost_with_zones,
)
from app.sizing.formula import formula, suspend_recording
from app.sizing.hardware.parts import BY_THE_HOUR, PricingModel
from app.sizing.question import Economics
from app.sizing.words import format_count, format_number
from app.sizing.workload import HOURS, Redundancy, Shares


@formula(unit="USD")
def fixed_usd_per_day(usd_per_hour: float) -> float:
    """Daily cost of a fleet that stays at its peak size.

    Parameters:
        usd_per_hour: hourly cost of the fleet, USD/h.
    Check:
        >>> fixed_usd_per_day(40.0)
        960.0
    """
    return usd_per_hour * HOURS_PER_DAY


def savings_note(pricing: PricingModel | None) -> str:
    """A sentence that says what idle hours save with a pricing model."""
    if pricing in BY_THE_HOUR:
        return "Idle machines are released and not billed."
    if pricing is PricingModel.OWNED:
        return "Owned machines cost the same whether they run or not; only energy is saved."
    if pricing is None:
        return "No price is known; only replica-hours are compared."
    return "Reserved machines are billed whether they run or not; nothing is saved."


PREFILL, DECODE = "prefill", "decode"


def merge_days(prefill: Day | None, decode: Day | None) -> Day | None:
    """One day of both pools; cold start and scale-out are those of the slower pool."""
    if prefill is None or decode is None:
        return None
    fixed, follows = add_fleet_days(prefill.fixed, decode.fixed), merge_autoscaled(prefill, decode)
    return Day(
        hours=tuple(
            Hour(first.requests_per_s, first.replicas + second.replicas)
            for first, second in zip(prefill.hours, decode.hours, strict=True)
        ),
        fixed=fixed,
        autoscaled=follows,
        scale_to_zero=merge_scale_to_zero(prefill.scale_to_zero, decode.scale_to_zero),
        cold_start=max(prefill.cold_start, decode.cold_start, key=lambda start: start.seconds),
        scale_out=slower_scale_out(prefill.scale_out, decode.scale_out),
        failures=(*label_failures(PREFILL, prefill.failures), *label_failures(DECODE, decode.failures)),
        cheaper="autoscaled" if follows.saving_share > 0 else "fixed",
    )


def add_fleet_days(first: FleetDay, second: FleetDay) -> FleetDay:
    """Replica-hours and cost of both pools; no cost if one has no price."""
    usd = None
    if first.usd_per_day is not None and second.usd_per_day is not None:
        usd = first.usd_per_day + second.usd_per_day
    return FleetDay(first.replica_hours + second.replica_hours, usd)


def merge_autoscaled(prefill: Day, decode: Day) -> AutoscaledDay:
    """The autoscaled day of both pools."""
    first, second = prefill.autoscaled, decode.autoscaled
    fixed, follows = add_fleet_days(prefill.fixed, decode.fixed), add_fleet_days(first, second)
    share = 1 - follows.replica_hours / fixed.replica_hours
    if follows.usd_per_day is not None and fixed.usd_per_day:
        share = 1 - follows.usd_per_day / fixed.usd_per_day
    return AutoscaledDay(
        follows.replica_hours,
        follows.usd_per_day,
        least_replicas=first.least_replicas + second.least_replicas,
        warm_replicas=first.warm_replicas + second.warm_replicas,
        saving_share=max(0.0, share),
        note=first.note if first.note == second.note else f"Prefill: {first.note} Decode: {second.note}",
    )


def merge_scale_to_zero(first: ZeroDay, second: ZeroDay) -> ZeroDay:
    """Both pools stopped without requests; both start at the same time."""
    stopped = add_fleet_days(first, second)
    return ZeroDay(
        stopped.replica_hours,
        stopped.usd_per_day,
        idle_hours=min(first.idle_hours, second.idle_hours),
        first_request_s=max(first.first_request_s, second.first_request_s),
    )


def slower_scale_out(prefill: ScaleOut, decode: ScaleOut) -> ScaleOut:
    """Scale-out of the pool that is not fast enough, else of the one that adds more replicas per minute."""
    named = ((PREFILL, prefill), (DECODE, decode))
    name, found = max(named, key=lambda pool: (not pool[1].fast_enough, pool[1].replicas_per_minute))
    return replace(found, why=f"The {name} pool: {found.why}")


def label_failures(name: str, failures: tuple[Failure, ...]) -> tuple[Failure, ...]:
    """The failures of a pool, labeled with its name."""
    return tuple(replace(failure, what=f"{name} {failure.what}") for failure in failures)


MINUTES = 60
MINUTES_PER_DAY = HOURS * MINUTES


@dataclass(frozen=True, slots=True)
class Autoscaler:
    """Capacity, start time and limits of a fleet that follows the load."""

    capacity_per_s: Column | float  # requests/s that one replica is planned to carry
    target_utilization: float  # share of it above which a replica is added; the rest lasts while it starts
    most_replicas: Column | float  # replicas of the fixed fleet, the upper limit
    start_s: Column | float  # time from a change of the load until a new replica answers, s
    supply_per_s: Column | float  # replicas per second that become ready, however many are ordered
    keep_s: float  # time that a replica is kept after it was last needed, s


@dataclass(frozen=True, slots=True)
class ReplicaTimeline:
    """Replicas in every minute of a day."""

    needed: Column  # replicas that the load needs, or recently needed, at the target utilization
    ordered: Column  # billed replicas, running or starting: those needed plus those ahead of the load

    @property
    def max_warm_replicas(self) -> int:
        """Most replicas that run ahead of the load."""
        return int((self.ordered - self.needed).max())


def load_per_minute(peak_per_s: float, shares: Shares) -> Column:
    """The load of every minute of a repeating day, interpolated linearly between the middles of the hours.

    Check: the mean of a day is that of its hours.
        >>> load = load_per_minute(8.0, (0.0, 1.0) * 12)
        >>> float(load[30]), float(load[90]), float(load[60]), round(float(load.mean()), 9)
        (0.0, 8.0, 4.0, 4.0)
    """
    middles = (np.arange(-1, HOURS + 1) + 0.5) * MINUTES
    around = np.array([shares[-1], *shares, shares[0]])
    load: Column = peak_per_s * np.interp(np.arange(MINUTES_PER_DAY), middles, around)
    return load


def window_max(values: Column, before: int, after: int) -> Column:
    """Largest value within `before` minutes before and `after` minutes after each minute of a repeating day.

    Check:
        >>> window_max(np.array([0.0, 1.0, 5.0, 2.0]), 1, 0).tolist()
        [2.0, 1.0, 5.0, 5.0]
    """
    day = len(values)
    before, after = min(before, day - 1), min(after, day - 1)
    rows = np.arange(day)[:, None] + np.arange(-before, after + 1)
    found: Column = values[rows % day].max(axis=1)
    return found


def min_replicas_for_load(load: Column, capacity_per_s: Column | float) -> Column:
    """Fewest replicas that carry a load within the limits, without headroom."""
    held: Column = np.ceil(load / np.maximum(capacity_per_s, LEAST_PER_S) - ROUNDING)
    return held


def whole_minutes(seconds: Column | float) -> Codes:
    """Seconds rounded up to whole minutes."""
    return np.ceil(np.asarray(seconds) / SECONDS_PER_MINUTE - ROUNDING).astype(np.int64)


def max_load_ahead(load: Column, minutes: Codes) -> Column:
    """Largest load within `minutes` after each minute, for every fleet."""
    each, which = np.unique(minutes, return_inverse=True)
    found: Column = np.stack([window_max(load, 0, after) for after in each.tolist()])[which.ravel()]
    return found if minutes.ndim else found[0]


def replicas_ahead_of_load(load: Column, autoscaler: Autoscaler, every: int) -> Column:
    """Replicas that must run or be ordered so that the limits hold until new replicas are ready.

    Replicas are ordered earlier where simultaneous starts share a registry and a weight store.
    """
    wanted = min_replicas_for_load(
        max_load_ahead(load, whole_minutes(autoscaler.start_s))[..., ::every], autoscaler.capacity_per_s
    )
    supply = np.minimum(autoscaler.supply_per_s * SECONDS_PER_MINUTE * every, autoscaler.most_replicas)
    count = wanted.shape[-1]
    twice = np.concatenate([wanted, wanted], axis=-1) - supply * np.arange(2 * count)
    later = np.maximum.accumulate(twice[..., ::-1], axis=-1)[..., ::-1][..., :count]
    early: Column = np.ceil(later + supply * np.arange(count) - ROUNDING)
    return np.maximum(wanted, early)


def simulate_autoscaling(load: Column, autoscaler: Autoscaler, every: int = 1) -> ReplicaTimeline:
    """Replicas of a fleet that scales with the load, and ahead of it where a start takes too long.

    The result has one value per `every` minutes.
    """
    recent = window_max(load, int(whole_minutes(autoscaler.keep_s)), 0)[::every]
    kept = np.minimum(
        replicas_for_rate(recent, np.asarray(autoscaler.capacity_per_s * autoscaler.target_utilization)),
        autoscaler.most_replicas,
    )
    ordered = np.minimum(np.maximum(kept, replicas_ahead_of_load(load, autoscaler, every)), autoscaler.most_replicas)
    return ReplicaTimeline(kept, ordered)


def steepest_rise_per_s(load: Column) -> float:
    """Largest rise of the load from one minute to the next, requests/s."""
    return max(0.0, float((np.roll(load, -1) - load).max()))


SAMPLING_MINUTES = 30  # sampling interval for many fleets, minutes
MAX_FLEETS_EVERY_MINUTE = 64  # largest number of fleets that are evaluated every minute


def fleet_per_minute(
    redundancy: Redundancy, peak: Fleet, per_replica: Column, per_node: Column, replicas: Column
) -> tuple[Column, Column]:
    """Replicas with spares, and machines, that hold the given replicas; never more than at the peak.

    Columns have one row per fleet; minutes run along the last axis.
    """
    found = plan_fleet(redundancy, per_replica, per_node, replicas)
    full = replicas >= peak.replicas
    spares = np.where(full, peak.spare_replicas, np.minimum(found.spare_replicas, peak.spare_replicas))
    nodes = np.where(full, peak.nodes, np.minimum(found.nodes, peak.nodes))
    return replicas + spares, nodes


def idle_shares(
    load: Column, autoscaler: Autoscaler, redundancy: Redundancy, peak: Fleet, per_replica: Column, per_node: Column
) -> Column:
    """Share of a day's machine-hours that each fleet saves by following the load."""
    rows = Fleet(*(np.reshape(c, (-1, 1)) for c in (peak.replicas, peak.spare_replicas, peak.nodes, peak.accelerators)))
    by_row = replace(
        autoscaler,
        capacity_per_s=np.reshape(autoscaler.capacity_per_s, (-1, 1)),
        most_replicas=rows.replicas,
        start_s=np.ravel(autoscaler.start_s),
        supply_per_s=np.reshape(autoscaler.supply_per_s, (-1, 1)),
    )
    ordered = simulate_autoscaling(
        load, by_row, 1 if len(rows.replicas) <= MAX_FLEETS_EVERY_MINUTE else SAMPLING_MINUTES
    ).ordered
    _, nodes = fleet_per_minute(
        redundancy, rows, np.reshape(per_replica, (-1, 1)), np.reshape(per_node, (-1, 1)), ordered
    )
    idle: Column = 1 - nodes.mean(axis=1) / peak.nodes
    return idle


BULK_START_REPLICAS = 10.0  # replicas of the bulk start that is shown next to a single start


@dataclass(frozen=True, slots=True)
class StartProfile:
    """Data that a replica start moves, and the links it uses, for one deployment or as columns for many.

    `machine_kept` means that the machine stays, with image and weights on its disk; otherwise a new machine fetches
    both.
    """

    machine_kept: Mask | bool  # whether the machine is kept
    image_bytes: Column | float  # compressed size of the container image, bytes
    stored_bytes: Column | float  # weights of one replica, bytes
    device_bytes: Column | float  # weights on each accelerator, bytes
    nodes_per_replica: Column | float  # machines that one replica spans
    replicas_per_node: Column | float  # replicas that one machine holds
    network_bytes_per_s: Column | float  # network bandwidth of one machine, bytes/s
    slot_bytes_per_s: Column | float  # slot bandwidth of one accelerator, bytes/s; infinite with shared memory


@formula(unit="machines")
def machines_starting(
    replicas_starting: float, nodes_per_replica: Column | float, replicas_per_node: Column | float
) -> Column:
    """Machines on which replicas start at the same time.

    Parameters:
        replicas_starting: replicas that start at the same time.
        nodes_per_replica: machines that one replica spans.
        replicas_per_node: replicas that one machine holds.
    Limits: replicas fill their machines.
    Check:
        >>> float(machines_starting(10.0, 1.0, 4.0))
        3.0
    """
    machines: Column = np.ceil(replicas_starting / replicas_per_node) * nodes_per_replica
    return machines


@formula(unit="s", source="definition; the rates are assumptions")
def image_pull_s(
    image_bytes: Column | float, machines_starting: Column, network_bytes_per_s: Column, assumed: Assumptions
) -> Column:
    """Time to pull and unpack a container image, once on every machine.

    Parameters:
        image_bytes: compressed image size, bytes.
        machines_starting: machines that pull at the same time.
        network_bytes_per_s: network bandwidth of one machine, bytes/s.
        assumed: assumptions: rates of one pull and of the registry.
    Limits: no layer is cached; the registry serves all machines equally.
    Check: 12 GB at 0.2 GB/s; a hundred machines share 5 GB/s.
        >>> [float(image_pull_s(12e9, machines, 12.5e9, Assumptions())) for machines in (1.0, 100.0)]
        [60.0, 240.0]
    """
    shared = np.minimum(network_bytes_per_s, assumed.registry_gb_per_s * 1e9 / machines_starting)
    taken: Column = image_bytes / np.minimum(assumed.image_pull_gb_per_s * 1e9, shared)
    return taken


@formula(unit="s", source="definition; the rates are assumptions")
def weights_read_s(
    stored_bytes: Column | float,
    nodes_per_replica: Column | float,
    machines_starting: Column,
    network_bytes_per_s: Column,
    store_bytes_per_s: Column,
    assumed: Assumptions,
) -> Column:
    """Time to read the weights, once on every machine; each machine of a multi-node replica reads its share.

    Parameters:
        stored_bytes: weights of one replica, bytes.
        nodes_per_replica: machines that one replica spans.
        machines_starting: machines that read at the same time.
        network_bytes_per_s: network bandwidth of one machine, bytes/s.
        store_bytes_per_s: bandwidth of the weight store, bytes/s.
        assumed: assumptions: rate at which one machine loads weights.
    Limits: replicas on one machine read together; the store serves all machines equally.
    Check: 140 GB at 2 GB/s; a hundred machines share 12.5 GB/s.
        >>> [float(weights_read_s(140e9, 1.0, n, 12.5e9, 12.5e9, Assumptions())) for n in (1.0, 100.0)]
        [70.0, 1120.0]
    """
    shared = np.minimum(network_bytes_per_s, store_bytes_per_s / machines_starting)
    taken: Column = stored_bytes / nodes_per_replica / np.minimum(assumed.model_load_gb_per_s * 1e9, shared)
    return taken


@formula(unit="s")
def weights_to_device_s(
    device_bytes: Column | float, slot_bytes_per_s: Column | float, assumed: Assumptions
) -> Column | float:
    """Time to copy an accelerator's weights to it over its PCIe slot.

    Parameters:
        device_bytes: weights on one accelerator, bytes.
        slot_bytes_per_s: bandwidth of the accelerator's slot, bytes/s; infinite where host and device share memory.
        assumed: assumptions: achieved share of the slot's bandwidth.
    Limits: accelerators copy in parallel, after the weights are read.
    Check:
        >>> round(float(weights_to_device_s(35e9, 63e9, Assumptions())), 3)
        0.794
    """
    return device_bytes / (slot_bytes_per_s * assumed.host_link_fraction)


@formula(unit="replicas/s")
def transfer_limit_per_s(
    image_bytes: Column | float,
    stored_bytes: Column | float,
    nodes_per_replica: Column | float,
    replicas_per_node: Column | float,
    store_bytes_per_s: Column,
    assumed: Assumptions,
) -> Column:
    """Replicas per second that the image registry and the weight store can supply, however many start.

    Parameters:
        image_bytes: compressed image size, bytes.
        stored_bytes: weights of one replica, bytes.
        nodes_per_replica: machines that one replica spans.
        replicas_per_node: replicas that one machine holds.
        store_bytes_per_s: bandwidth of the weight store, bytes/s.
        assumed: assumptions: bandwidth of the registry.
    Limits: registry and store run at their full rate.
    Check: images of 12 GB at 5 GB/s, weights of 140 GB at 12.5 GB/s.
        >>> round(float(transfer_limit_per_s(12e9, 140e9, 1.0, 1.0, 12.5e9, Assumptions())), 4)
        0.0893
    """
    by_store = store_bytes_per_s / np.maximum(stored_bytes, 1.0)
    by_registry = assumed.registry_gb_per_s * 1e9 / (image_bytes * nodes_per_replica)
    fed: Column = replicas_per_node * np.minimum(by_store, by_registry)
    return fed


def image_bytes(small: Mask | bool, large: Mask | bool, assumed: Assumptions) -> Column:
    """Compressed size of an engine's container image, by the size of its runtime.

    Check:
        >>> small, large = np.array([False, False, True]), np.array([False, True, False])
        >>> (image_bytes(small, large, Assumptions()) / 1e9).tolist()
        [12.0, 16.2, 2.5]
    """
    gigabytes = np.where(small, assumed.small_image_gb, np.where(large, assumed.large_image_gb, assumed.image_gb))
    return gigabytes * 1e9


def store_bytes_per_s(start: StartProfile, assumed: Assumptions) -> Column:
    """Total bandwidth of the weight store, bytes/s; infinite for machines that read from their own disks."""
    return np.where(start.machine_kept, np.inf, assumed.weight_store_gb_per_s * 1e9)


def start_phases_s(start: StartProfile, at_once: float, assumed: Assumptions) -> dict[str, Column]:
    """Seconds of each phase of a start when `at_once` replicas start at the same time."""
    machines = machines_starting(at_once, start.nodes_per_replica, start.replicas_per_node)
    network = np.where(start.machine_kept, np.inf, start.network_bytes_per_s)
    read = (start.stored_bytes, start.nodes_per_replica, machines, network, store_bytes_per_s(start, assumed))
    copied = weights_to_device_s(start.device_bytes, start.slot_bytes_per_s, assumed)
    return {
        "machine": np.where(start.machine_kept, 0.0, assumed.machine_start_s),
        "image": np.where(start.machine_kept, 0.0, image_pull_s(start.image_bytes, machines, network, assumed)),
        "weights_read": np.asarray(weights_read_s(*read, assumed)),
        "weights_to_device": np.asarray(copied),
        "engine_start": np.asarray(assumed.engine_start_s),
    }


def start_times_s(start: StartProfile, at_once: float, assumed: Assumptions) -> Column:
    """Seconds from ordering `at_once` replicas until the last one answers, for every deployment."""
    taken: Column = np.sum(np.broadcast_arrays(*start_phases_s(start, at_once, assumed).values()), axis=0)
    return taken


def start_time_s(start: StartProfile, at_once: float, assumed: Assumptions) -> float:
    """Seconds from ordering `at_once` replicas until the last one answers, for one deployment."""
    return float(start_times_s(start, at_once, assumed))


def restart_s(start: StartProfile, assumed: Assumptions) -> float:
    """Seconds to restart a replica in place: machine and image are present, and the weights are read again."""
    parts = start_phases_s(start, 1.0, assumed)
    return float(sum(parts[name] for name in ("weights_read", "weights_to_device", "engine_start")))


def supply_per_s(start: StartProfile, assumed: Assumptions) -> Column:
    """Replicas per second that become ready however many are ordered; infinite where machines are kept."""
    moved = (start.image_bytes, start.stored_bytes, start.nodes_per_replica, start.replicas_per_node)
    fed = transfer_limit_per_s(*moved, store_bytes_per_s(start, assumed), assumed)
    return np.where(start.machine_kept, np.inf, fed)


MAX_MINUTES = 60
NEVER_S = 1e9  # finite stand-in for an infinite time, s


@dataclass(frozen=True, slots=True)
class PeakFleet:
    """The fleet at the peak, and the TTFT of its replicas at each load."""

    peak_per_s: float  # request rate at the peak, requests/s
    replicas: float  # replicas that carry the load
    placed_replicas: float  # replicas, spares included
    hosts: float  # hosts: one machine each, or the machines that one replica spans
    zones: float  # zones over which the hosts are spread
    max_per_s: float  # request rate of one replica above which its queue grows, requests/s
    replaced: bool  # whether a lost machine is replaced: rented ones are, owned ones need repair
    ttft_curve: tuple[tuple[float, float], ...]  # (requests/s of one replica, p95 TTFT in s); empty if unknown


@formula(unit="requests", source="fluid queue")
def backlog_requests(
    after_s: Column, peak_per_s: float, remaining_per_s: float, full_per_s: float, restored_s: float
) -> Column:
    """Requests that wait at a time after a loss: they accumulate while capacity is missing and drain once it is
    restored.

    Parameters:
        after_s: time since the loss, s.
        peak_per_s: request rate at the peak, requests/s.
        remaining_per_s: capacity that remains after the loss, requests/s.
        full_per_s: capacity once all replicas are restored, requests/s.
        restored_s: time from the loss until all replicas are restored, s.
    Limits: the peak load continues; no user gives up.
    Check: 100 requests/s on a capacity of 90 for two minutes, then of 150.
        >>> backlog_requests(np.array([60.0, 120.0, 132.0, 200.0]), 100.0, 90.0, 150.0, 120.0).tolist()
        [600.0, 1200.0, 600.0, 0.0]
    """
    gathered = np.maximum(peak_per_s - remaining_per_s, 0.0) * np.minimum(after_s, restored_s)
    later = np.maximum(after_s - restored_s, 0.0)
    waiting: Column = np.maximum(gathered - (full_per_s - peak_per_s) * later, 0.0)
    return waiting


@formula(unit="s", source="fluid queue, first come, first served")
def wait_s(backlog_requests: Column, until_restored_s: Column, remaining_per_s: float, full_per_s: float) -> Column:
    """Time that a new request waits behind a backlog, served first at the remaining capacity and then at full capacity.

    Parameters:
        backlog_requests: requests that wait before it.
        until_restored_s: time until all replicas are restored, s.
        remaining_per_s: capacity until then, requests/s.
        full_per_s: capacity afterwards, requests/s.
    Limits: the peak load continues; no user gives up.
    Check: 900 requests wait before a new one: 60 s at 10 requests/s, the rest at 30.
        >>> wait_s(np.array([900.0, 300.0]), np.array([60.0, 60.0]), 10.0, 30.0).tolist()
        [70.0, 30.0]
    """
    done: Column = remaining_per_s * until_restored_s
    soon = backlog_requests / np.maximum(remaining_per_s, LEAST_PER_S)
    later = until_restored_s + (backlog_requests - done) / np.maximum(full_per_s, LEAST_PER_S)
    waits: Column = np.where((backlog_requests <= done) & (remaining_per_s > 0), soon, later)
    return waits


def simulate_failures(peak_fleet: PeakFleet, starting: StartProfile, assumed: Assumptions) -> tuple[Failure, ...]:
    """Every possible loss: of a replica, of the fullest machine, and of the fullest zone if there are several."""
    return tuple(
        _failure_timeline(peak_fleet, what, min(lost, peak_fleet.placed_replicas), back_s)
        for what, lost, back_s in _possible_losses(peak_fleet, starting, assumed)
    )


def _possible_losses(
    peak_fleet: PeakFleet, starting: StartProfile, assumed: Assumptions
) -> Iterator[tuple[str, float, float]]:
    """Kind of loss, replicas lost, and seconds until they are restored; infinite if not automatically."""
    seen = assumed.failure_detection_s
    fresh = replace(starting, machine_kept=False)
    placed, hosts = column([peak_fleet.placed_replicas]), column([peak_fleet.hosts])

    def replaced_s(lost: float) -> float:
        return seen + start_time_s(fresh, lost, assumed) if peak_fleet.replaced else math.inf

    yield "replica", 1.0, seen + restart_s(starting, assumed)
    on_machine = float(max_items_in_groups(placed, hosts, 1.0)[0])
    yield "machine", on_machine, replaced_s(on_machine)
    if peak_fleet.zones > 1:
        in_zone = float(replicas_lost_with_zones(placed, hosts, peak_fleet.zones, 1.0)[0])
        yield "zone", in_zone, replaced_s(in_zone)


def _failure_timeline(peak_fleet: PeakFleet, what: str, lost: float, back_s: float) -> Failure:
    """One loss, minute by minute until the queue is empty; minutes without a change are omitted."""
    left, most = (
        (peak_fleet.placed_replicas - lost) * peak_fleet.max_per_s,
        peak_fleet.placed_replicas * peak_fleet.max_per_s,
    )
    drained = recovery_s(peak_fleet, left, back_s)
    whole = MAX_MINUTES if math.isinf(drained) else min(MAX_MINUTES, math.ceil(drained / SECONDS_PER_MINUTE))
    after = column(range(whole + 1)) * SECONDS_PER_MINUTE
    serving = np.where(after < back_s, peak_fleet.placed_replicas - lost, peak_fleet.placed_replicas)
    back_s = min(back_s, NEVER_S)
    backlog = backlog_requests(after, peak_fleet.peak_per_s, left, most, back_s)
    first = wait_s(backlog, np.maximum(back_s - after, 0.0), left, most) + ttft_without_backlog_s(peak_fleet, serving)
    rows = zip(serving.tolist(), backlog.tolist(), first.tolist(), strict=True)
    minutes = [
        FailureMinute(minute, serves / peak_fleet.placed_replicas, waiting, late if late < NEVER_S / 2 else None)
        for minute, (serves, waiting, late) in enumerate(rows)
    ]
    back = None if math.isinf(drained) else drained / SECONDS_PER_MINUTE
    return Failure(what, int(lost), tuple(drop_unchanged_minutes(minutes)), back)


def recovery_s(peak_fleet: PeakFleet, remaining_per_s: float, back_s: float) -> float:
    """Seconds until all replicas are restored and the queue is empty; infinite if that never happens."""
    gathered = max(0.0, peak_fleet.peak_per_s - remaining_per_s)
    spare = peak_fleet.placed_replicas * peak_fleet.max_per_s - peak_fleet.peak_per_s
    if gathered == 0 or math.isinf(back_s):
        return back_s
    return back_s + gathered * back_s / spare if spare > 0 else math.inf


def ttft_without_backlog_s(peak_fleet: PeakFleet, serving: Column) -> Column:
    """p95 TTFT at the load of the serving replicas, without the backlog; NaN if unknown or if no replica serves."""
    stable = [(rate, late) for rate, late in peak_fleet.ttft_curve if rate <= peak_fleet.max_per_s]
    if not stable:
        return np.full(len(serving), np.nan)
    rates, late = (column(values) for values in zip(*stable, strict=True))
    each = peak_fleet.peak_per_s / np.maximum(np.minimum(serving, peak_fleet.replicas), LEAST_PER_S)
    found: Column = np.interp(each, rates, late)
    return found


def drop_unchanged_minutes(minutes: list[FailureMinute]) -> Iterator[FailureMinute]:
    """The minutes that differ from the minute before."""
    before: FailureMinute | None = None
    for found in minutes:
        if before is None or (found.capacity_share, found.backlog_requests, found.ttft_p95_s) != (
            before.capacity_share,
            before.backlog_requests,
            before.ttft_p95_s,
        ):
            yield found
        before = found


@formula(unit="1", source="renewal theory, Poisson arrivals")
def idle_share(load_per_s: Column, stops_after_s: float, start_s: float) -> Column:
    """Share of the time in which no replica runs, if the last one stops after a period without requests.

    A stop follows a gap between requests that is longer than this period; the next request starts a replica. The
    renewal cycle consists of the gaps until one is long enough, the rest of that gap, and the start.

    Parameters:
        load_per_s: mean request rate, requests/s.
        stops_after_s: time without requests after which the last replica stops, s.
        start_s: start time of a replica, s.
    Limits: answers take no time; one replica at low load.
    Check: a request every ten minutes, a stop after five minutes, three minutes to start.
        >>> round(float(idle_share(1 / 600, 300.0, 180.0)), 3)
        0.513
    """
    stopped = np.exp(-load_per_s * stops_after_s)
    return stopped / (1 + load_per_s * start_s * stopped)


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
    capacity_per_s: float  # requests/s that one replica is planned to carry
    target_utilization: float  # share of it above which a replica is added
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
