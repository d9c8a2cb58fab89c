"""Findings from accelerator telemetry: heat, power, clocks, PCIe lanes, utilization and errors."""

from __future__ import annotations

from collections.abc import Iterator

from app.sizing.columns import SECONDS_PER_DAY
from app.sizing.diagnosis.case import Case, Evidence, Finding
from app.sizing.words import format_number

WAITING_CODES = (
    "queueing",
    "queue_below_capacity",
    "early_knee",
    "low_throughput",
    "slow_tail",
    "cache_full",
    "overloaded",
    "saturated",
    "idle_fleet",
)
SLOWNESS_CODES = ("slow_decode", "late_first_token", "slow_at_light_load", "slow_kernels", "slow_step", "low_mfu")


def find_low_clocks(case: Case) -> Iterator[Finding]:
    """Low clocks, caused by heat, by a power limit or by configuration."""
    d, assumed = case.devices, case.assumptions
    if d.clock_share is None or 1 - d.clock_share < 3 * assumed.diagnosed_least_share or not case.has_steady_work:
        return
    share = case.estimate_loss(compute=d.clock_share)
    if share < assumed.diagnosed_least_share:
        return
    code, cause, change, more = diagnose_clock_limit(case)
    text = f"The accelerators run at {format_number(100 * d.clock_share)} % of their rated clock."
    evidence = (Evidence("clock_share", d.clock_share, 1.0, "1"), *more)
    yield Finding(code, text, share, evidence, cause, change, share, "more accelerators", WAITING_CODES, SLOWNESS_CODES)


def find_heat(case: Case) -> Iterator[Finding]:
    """The accelerators are hot while their clocks are unknown."""
    d, hot = case.devices, case.assumptions.diagnosed_hot_c
    if d.temperature_c is None or d.temperature_c < hot or d.clock_share is not None:
        return
    yield Finding(
        "hot",
        f"The accelerators are at {format_number(d.temperature_c)} C. They lower their clocks from about "
        f"{format_number(hot)} C.",
        None,
        (Evidence("temperature_c", d.temperature_c, hot, "C"),),
        "The accelerators are too hot.",
        "Check fans, airflow and inlet temperature. Send clock_share to see the loss.",
        None,
    )


def diagnose_clock_limit(case: Case) -> tuple[str, str, str, tuple[Evidence, ...]]:
    """Why clocks are low: the code of the finding, its cause, the change and the evidence."""
    d, assumed = case.devices, case.assumptions
    if d.temperature_c is not None and d.temperature_c >= assumed.diagnosed_hot_c:
        shown = Evidence("temperature_c", d.temperature_c, assumed.diagnosed_hot_c, "C")
        return "hot", "The accelerators are too hot.", "Check fans, airflow and inlet temperature.", (shown,)
    full = assumed.diagnosed_full_share
    if d.power_w is not None and d.power_limit_w is not None and d.power_w >= full * d.power_limit_w:
        shown = Evidence("power_w", d.power_w, d.power_limit_w, "W")
        change = "Raise the power limit if power supply and cooling allow it."
        return "power_capped", "The accelerators run at their power limit.", change, (shown,)
    change = "Reset the application clocks and enable persistence mode."
    return "low_clocks", "The clocks were set low, or the driver saves power.", change, ()


def find_uneven_clocks(case: Case) -> Iterator[Finding]:
    """One accelerator runs slower than the others, which wait for it."""
    slowest, assumed = case.devices.slowest_clock_share, case.assumptions
    if slowest is None or 1 - slowest < 3 * assumed.diagnosed_least_share or not case.has_steady_work:
        return
    share = case.estimate_loss(compute=slowest)
    if share >= assumed.diagnosed_least_share:
        yield Finding(
            "uneven_clocks",
            f"The slowest accelerator runs at {format_number(100 * slowest)} % of the mean clock.",
            share,
            (Evidence("slowest_clock_share", slowest, 1.0, "1"),),
            "It is hot, power-limited or failing. All accelerators that share its work wait for it.",
            "Find the accelerator, then cool or replace it. Exclude its machine until then.",
            share,
            "more accelerators",
            WAITING_CODES,
            (*SLOWNESS_CODES, "slow_rank", "synchronisation"),
        )


def find_narrow_link(case: Case) -> Iterator[Finding]:
    """The PCIe slot uses fewer lanes than it has."""
    width = case.devices.link_width_share
    if width is None or width >= 1:
        return
    share = case.estimate_loss(link=width)
    if share >= case.assumptions.diagnosed_least_share:
        yield Finding(
            "narrow_link",
            f"The PCIe slot uses {format_number(100 * width)} % of its lanes.",
            share,
            (Evidence("link_width_share", width, 1.0, "1"),),
            "The cause is a riser, a slot that shares its lanes, or a badly seated card.",
            "Reseat the card, or move it to a slot with all lanes.",
            share,
            "faster accelerators: the same slot would limit them",
            WAITING_CODES,
            (*SLOWNESS_CODES, "exposed_communication"),
        )


def find_starved_accelerators(case: Case) -> Iterator[Finding]:
    """Accelerators are idle although there is work."""
    used, expected = case.devices.utilization, case.busy_share
    if used is None or expected <= 0:
        return
    share = 1 - used / expected
    if share > case.assumptions.diagnosed_idle_share:
        yield Finding(
            "starved",
            f"Accelerator utilization is {format_number(100 * used)} %, although work is available "
            f"{format_number(100 * expected)} % of the time.",
            share,
            (Evidence("utilization", used, expected, "1"),),
            "The host, the data pipeline or the network keeps them waiting.",
            "Profile the host. Add CPU cores, run fewer processes, or enable CUDA graphs or asynchronous scheduling.",
            share,
            "more or faster accelerators",
            WAITING_CODES,
            ("slow_decode", "late_first_token", "slow_at_light_load", "slow_step", "low_mfu"),
        )


def find_device_errors(case: Case) -> Iterator[Finding]:
    """Accelerators report errors. The cost is that of failed requests or of restarts."""
    seen, s, t = case.devices.errors_per_day, case.service, case.training
    if not seen:
        return
    each = case.assumptions.restart_minutes * 60 + (t.checkpoint_interval_s or 0.0) / 2
    restarts = t.restarts_per_day if case.workload is None else s.restarts_per_day
    lost = s.error_share if restarts is None else min(1.0, restarts * each / SECONDS_PER_DAY)
    yield Finding(
        "device_errors",
        f"The accelerators report {format_number(seen)} errors per day.",
        lost or None,
        (Evidence("errors_per_day", seen, 0.0, "1/day"),),
        "Memory, a link or the card itself is failing.",
        "Drain the machine, run its diagnostics and have the card replaced.",
        lost or None,
        "any hardware before the card is replaced under warranty",
        ("errors", "run_restarts", "service_restarts"),
    )


CHECKS = (
    find_low_clocks,
    find_heat,
    find_uneven_clocks,
    find_narrow_link,
    find_starved_accelerators,
    find_device_errors,
)
