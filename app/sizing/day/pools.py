"""The day of separate prefill and decode pools: each follows the load independently, and both are billed."""

from __future__ import annotations

from dataclasses import replace

from app.sizing.values.day import AutoscaledDay, Day, Failure, FleetDay, Hour, ScaleOut, ZeroDay

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
