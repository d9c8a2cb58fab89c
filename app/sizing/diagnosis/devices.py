"""What the accelerators themselves say: heat, power, clocks, slots, idleness, errors."""

from __future__ import annotations

from collections.abc import Iterator

from app.sizing.diagnosis.case import Case, Evidence, Finding
from app.sizing.units import SECONDS_PER_DAY
from app.sizing.words import figure

WAITS = ("queueing", "early_knee", "low_throughput", "slow_tail", "cache_full", "overloaded", "saturated", "idle_fleet")
SLOW = ("slow_decode", "late_first_token", "slow_at_light_load", "slow_kernels", "slow_step", "low_mfu")


def clocks(case: Case) -> Iterator[Finding]:
    """Clocks are low: by heat, by a limit of power, or as set."""
    d, assumed = case.devices, case.assumed
    if d.clock_share is None or 1 - d.clock_share < 3 * assumed.diagnosed_least_share or not case.works:
        return
    share = case.loss(compute=d.clock_share)
    if share < assumed.diagnosed_least_share:
        return
    code, cause, change, more = lowered(case)
    text = f"Accelerators run at {figure(100 * d.clock_share)} % of their clock."
    evidence = (Evidence("clock_share", d.clock_share, 1.0, "1"), *more)
    yield Finding(code, text, share, evidence, cause, change, share, "more accelerators", WAITS, SLOW)


def lowered(case: Case) -> tuple[str, str, str, tuple[Evidence, ...]]:
    """What lowers clocks: its code, its cause, what to change, and what shows it."""
    d, assumed = case.devices, case.assumed
    if d.temperature_c is not None and d.temperature_c >= assumed.diagnosed_hot_c:
        shown = Evidence("temperature_c", d.temperature_c, assumed.diagnosed_hot_c, "C")
        return "hot", "They are too warm.", "Look at fans, air flow and inlet temperature.", (shown,)
    full = assumed.diagnosed_full_share
    if d.power_w is not None and d.power_limit_w is not None and d.power_w >= full * d.power_limit_w:
        shown = Evidence("power_w", d.power_w, d.power_limit_w, "W")
        change = "Raise the power limit, where supply and cooling allow."
        return "power_capped", "They draw as much power as they may.", change, (shown,)
    change = "Reset application clocks; turn persistence on."
    return "low_clocks", "Clocks were set low, or the driver saves power.", change, ()


def uneven_clocks(case: Case) -> Iterator[Finding]:
    """One accelerator runs slower than the others, which wait for it."""
    slowest, assumed = case.devices.slowest_clock_share, case.assumed
    if slowest is None or 1 - slowest < 3 * assumed.diagnosed_least_share or not case.works:
        return
    share = case.loss(compute=slowest)
    if share >= assumed.diagnosed_least_share:
        yield Finding(
            "uneven_clocks",
            f"The slowest accelerator runs at {figure(100 * slowest)} % of the mean clock.",
            share,
            (Evidence("slowest_clock_share", slowest, 1.0, "1"),),
            "It is hot, limited in power or failing; all that share its work wait for it.",
            "Find it, cool it or have it replaced; leave its machine out until then.",
            share,
            "more accelerators",
            WAITS,
            (*SLOW, "slow_rank", "synchronisation"),
        )


def narrow_link(case: Case) -> Iterator[Finding]:
    """The slot runs on fewer lanes than it has."""
    width = case.devices.link_width_share
    if width is None or width >= 1:
        return
    share = case.loss(link=width)
    if share >= case.assumed.diagnosed_least_share:
        yield Finding(
            "narrow_link",
            f"The slot runs on {figure(100 * width)} % of its lanes.",
            share,
            (Evidence("link_width_share", width, 1.0, "1"),),
            "A riser, a slot that shares its lanes, or a card that is not seated well.",
            "Seat the card again, or move it to a slot with all its lanes.",
            share,
            "faster accelerators: they would wait on the same slot",
            WAITS,
            (*SLOW, "exposed_communication"),
        )


def starved(case: Case) -> Iterator[Finding]:
    """Accelerators idle while there is work."""
    used, expected = case.devices.utilization, case.busy_share
    if used is None or expected <= 0:
        return
    share = 1 - used / expected
    if share > case.assumed.diagnosed_idle_share:
        yield Finding(
            "starved",
            f"Accelerators are busy {figure(100 * used)} % of the time, and there is work {figure(100 * expected)} % "
            "of it.",
            share,
            (Evidence("utilization", used, expected, "1"),),
            "The host, the data or the network keeps them waiting.",
            "Profile the host: more and faster cores, fewer processes on them, graphs or asynchronous scheduling.",
            share,
            "more or faster accelerators",
            WAITS,
            ("slow_decode", "late_first_token", "slow_at_light_load", "slow_step", "low_mfu"),
        )


def broken(case: Case) -> Iterator[Finding]:
    """Accelerators report errors; what that costs is what fails or starts again."""
    seen, s, t = case.devices.errors_per_day, case.service, case.training
    if not seen:
        return
    each = case.assumed.restart_minutes * 60 + (t.checkpoint_interval_s or 0.0) / 2
    restarts = t.restarts_per_day if case.workload is None else s.restarts_per_day
    lost = s.error_share if restarts is None else min(1.0, restarts * each / SECONDS_PER_DAY)
    yield Finding(
        "device_errors",
        f"Accelerators report {figure(seen)} errors a day.",
        lost or None,
        (Evidence("errors_per_day", seen, 0.0, "1/day"),),
        "Memory, a link or the card itself fails.",
        "Drain the machine, run its diagnostics, have the card replaced.",
        lost or None,
        "anything before it is replaced under warranty",
        ("errors", "run_restarts", "service_restarts"),
    )


FINDINGS = (clocks, uneven_clocks, narrow_link, starved, broken)
