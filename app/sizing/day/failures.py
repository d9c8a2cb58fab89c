"""Effect of losing a replica, a machine or a zone at the peak: a queue that builds up and drains."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Column, column
from app.sizing.day.start import StartProfile, restart_s, start_time_s
from app.sizing.decisions.placement import max_items_in_groups, replicas_lost_with_zones
from app.sizing.formula import formula
from app.sizing.units import LEAST_PER_S
from app.sizing.values.day import Failure, FailureMinute

SECONDS_PER_MINUTE = 60.0
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
