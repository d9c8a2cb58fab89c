"""Findings from accelerator telemetry: heat, power, clocks, PCIe lanes, utilization and errors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from app.sizing.columns import SECONDS_PER_DAY
from app.sizing.diagnosis.case import Case
from app.sizing.diagnosis.findings import Evidence, Finding, build_finding
from app.sizing.words import format_number


def find_low_clocks(case: Case) -> Iterator[Finding]:
    """Low clocks, caused by heat, by a power limit or by configuration."""
    d, assumed = case.devices, case.assumptions
    if d.clock_share is None or 1 - d.clock_share < 3 * assumed.diagnosed_least_share or not case.has_steady_work:
        return
    share = case.estimate_loss(compute=d.clock_share)
    if share < assumed.diagnosed_least_share:
        return
    code, more = diagnose_clock_limit(case)
    text = f"The accelerators run at {format_number(100 * d.clock_share)} % of their rated clock."
    evidence = (Evidence("clock_share", d.clock_share, 1.0, "1"), *more)
    yield build_finding(code, text, share, evidence, share, next="")


def find_heat(case: Case) -> Iterator[Finding]:
    """The accelerators are hot while their clocks are unknown."""
    d, hot = case.devices, case.assumptions.diagnosed_hot_c
    if d.temperature_c is None or d.temperature_c < hot or d.clock_share is not None:
        return
    text = (
        f"The accelerators are at {format_number(d.temperature_c)} C. They lower their clocks from about "
        f"{format_number(hot)} C."
    )
    evidence = (Evidence("temperature_c", d.temperature_c, hot, "C"),)
    found = build_finding("hot", text, None, evidence, next=" Send clock_share to see the loss.")
    yield replace(found, do_not_buy=None, explains=(), accounts_for=())  # the loss is unknown


def diagnose_clock_limit(case: Case) -> tuple[str, tuple[Evidence, ...]]:
    """Why clocks are low: the code of the finding and the evidence."""
    d, assumed = case.devices, case.assumptions
    if d.temperature_c is not None and d.temperature_c >= assumed.diagnosed_hot_c:
        shown = Evidence("temperature_c", d.temperature_c, assumed.diagnosed_hot_c, "C")
        return "hot", (shown,)
    full = assumed.diagnosed_full_share
    if d.power_w is not None and d.power_limit_w is not None and d.power_w >= full * d.power_limit_w:
        shown = Evidence("power_w", d.power_w, d.power_limit_w, "W")
        return "power_capped", (shown,)
    return "low_clocks", ()


def find_uneven_clocks(case: Case) -> Iterator[Finding]:
    """One accelerator runs slower than the others, which wait for it."""
    slowest, assumed = case.devices.slowest_clock_share, case.assumptions
    if slowest is None or 1 - slowest < 3 * assumed.diagnosed_least_share or not case.has_steady_work:
        return
    share = case.estimate_loss(compute=slowest)
    if share >= assumed.diagnosed_least_share:
        yield build_finding(
            "uneven_clocks",
            f"The slowest accelerator runs at {format_number(100 * slowest)} % of the mean clock.",
            share,
            (Evidence("slowest_clock_share", slowest, 1.0, "1"),),
            share,
        )


def find_narrow_link(case: Case) -> Iterator[Finding]:
    """The PCIe slot uses fewer lanes than it has."""
    width = case.devices.link_width_share
    if width is None or width >= 1:
        return
    share = case.estimate_loss(link=width)
    if share >= case.assumptions.diagnosed_least_share:
        yield build_finding(
            "narrow_link",
            f"The PCIe slot uses {format_number(100 * width)} % of its lanes.",
            share,
            (Evidence("link_width_share", width, 1.0, "1"),),
            share,
        )


def find_starved_accelerators(case: Case) -> Iterator[Finding]:
    """Accelerators are idle although there is work."""
    used, expected = case.devices.utilization, case.busy_share
    if used is None or expected <= 0:
        return
    share = 1 - used / expected
    if share > case.assumptions.diagnosed_idle_share:
        yield build_finding(
            "starved",
            f"Accelerator utilization is {format_number(100 * used)} %, although work is available "
            f"{format_number(100 * expected)} % of the time.",
            share,
            (Evidence("utilization", used, expected, "1"),),
            share,
        )


def find_device_errors(case: Case) -> Iterator[Finding]:
    """Accelerators report errors. The cost is that of failed requests or of restarts."""
    seen, s, t = case.devices.errors_per_day, case.service, case.training
    if not seen:
        return
    each = case.assumptions.restart_minutes * 60 + (t.checkpoint_interval_s or 0.0) / 2
    restarts = t.restarts_per_day if case.workload is None else s.restarts_per_day
    lost = s.error_share if restarts is None else min(1.0, restarts * each / SECONDS_PER_DAY)
    yield build_finding(
        "device_errors",
        f"The accelerators report {format_number(seen)} errors per day.",
        lost or None,
        (Evidence("errors_per_day", seen, 0.0, "1/day"),),
        lost or None,
    )


CHECKS = (
    find_low_clocks,
    find_heat,
    find_uneven_clocks,
    find_narrow_link,
    find_starved_accelerators,
    find_device_errors,
)
