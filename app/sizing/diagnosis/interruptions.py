"""Findings about interruptions of a training run: checkpoints, restarts, warm-up and evaluation."""

from __future__ import annotations

from collections.abc import Iterator

from app.sizing.diagnosis.case import Case, Evidence, Finding
from app.sizing.units import SECONDS_PER_DAY
from app.sizing.words import format_number


def find_checkpoint_stalls(case: Case) -> Iterator[Finding]:
    """Checkpoints stop the run for longer, or more often, than expected."""
    t, p = case.training, case.expected_performance
    if t.checkpoint_s is None or not t.checkpoint_interval_s or p is None or p.checkpoint_stall_s is None:
        return
    share = t.checkpoint_s / (t.checkpoint_s + t.checkpoint_interval_s)
    slow = case.exceeds_expected(t.checkpoint_s, p.checkpoint_stall_s)
    usual = p.checkpoint_interval_s or t.checkpoint_interval_s
    interval = t.checkpoint_interval_s if slow else usual
    gain = share - p.checkpoint_stall_s / (p.checkpoint_stall_s + interval)
    if gain < case.assumptions.diagnosed_least_share:
        return
    code, what = ("slow_checkpoints", "checkpoint_s") if slow else ("frequent_checkpoints", "checkpoint_interval_s")
    seen, expected = (t.checkpoint_s, p.checkpoint_stall_s) if slow else (t.checkpoint_interval_s, usual)
    cause = (
        "Storage is slow, or the run waits for each write."
        if slow
        else "Checkpoints are written more often than needed."
    )
    change = (
        "Write sharded checkpoints asynchronously." if slow else f"Write a checkpoint every {format_number(usual)} s."
    )
    text = f"Checkpoints stop the run for {format_number(100 * share)} % of its time."
    evidence = (Evidence(what, seen, expected, "s"),)
    yield Finding(code, text, share, evidence, cause, change, gain, "accelerators", ("starved",))


def find_frequent_restarts(case: Case) -> Iterator[Finding]:
    """The run is interrupted more often than its hardware should interrupt it."""
    t, p = case.training, case.expected_performance
    usual = expected_interruptions_per_day(case)
    if t.restarts_per_day is None or p is None or usual is None:
        return
    each = case.assumptions.restart_minutes * 60 + (t.checkpoint_interval_s or p.checkpoint_interval_s or 0.0) / 2
    share = min(1.0, (t.restarts_per_day - usual) * each / SECONDS_PER_DAY)
    if case.exceeds_expected(t.restarts_per_day, usual) and share >= case.assumptions.diagnosed_least_share:
        yield Finding(
            "run_restarts",
            f"The run restarts {format_number(t.restarts_per_day)} times per day (expected: {format_number(usual)}).",
            share,
            (Evidence("restarts_per_day", t.restarts_per_day, usual, "1/day"),),
            "A machine or the job fails repeatedly.",
            "Find the machine that fails first and remove it.",
            share,
            "spare machines before the failing machine is removed",
        )


def expected_interruptions_per_day(case: Case) -> float | None:
    """Expected hardware interruptions of the run per day."""
    p = case.expected_performance
    return p.expected_interruptions / p.days if p and p.days and p.expected_interruptions is not None else None


def find_slow_warm_up(case: Case) -> Iterator[Finding]:
    """Each start takes long to reach full speed. The cost depends on how often the run starts."""
    t, usual = case.training, case.assumptions.restart_minutes * 60
    often = t.restarts_per_day if t.restarts_per_day is not None else expected_interruptions_per_day(case)
    if t.warmup_s is None or often is None or not case.exceeds_expected(t.warmup_s, usual):
        return
    share = min(1.0, often * (t.warmup_s - usual) / SECONDS_PER_DAY)
    if share >= case.assumptions.diagnosed_least_share:
        yield Finding(
            "slow_warm_up",
            f"Each start takes {format_number(t.warmup_s)} s to reach full speed (planned: {format_number(usual)} s).",
            share,
            (Evidence("warmup_s", t.warmup_s, usual, "s"),),
            "Compilation, loading the checkpoint or rebuilding the data index takes the time.",
            "Cache compiled kernels and the data index. Load a sharded checkpoint from fast storage.",
            share,
            "more accelerators",
        )


def find_evaluation_overhead(case: Case) -> Iterator[Finding]:
    """Evaluation takes a large share of the time."""
    share = case.training.evaluation_share
    if share is not None and share >= 2 * case.assumptions.diagnosed_least_share:
        yield Finding(
            "evaluation",
            f"Evaluation takes {format_number(100 * share)} % of the run's time.",
            share,
            (Evidence("evaluation_share", share, 0.0, "1"),),
            "Evaluation occupies all accelerators, or runs often.",
            "Evaluate checkpoints on a separate machine.",
            share,
            "more accelerators for the run",
        )


CHECKS = (find_checkpoint_stalls, find_frequent_restarts, find_slow_warm_up, find_evaluation_overhead)
