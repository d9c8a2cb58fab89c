"""A training run as a system of its own: ranks that compute, talk, wait for data and write checkpoints.

What healthy hardware needs for the parts of a step is taken from the core; causes change the hardware, the data, the
storage or the settings. It knows nothing of findings; figures are read off as a profiler and a log would give them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from app.sizing.columns import SECONDS_PER_DAY
from app.sizing.diagnosis.case import DevicesObservation, Observations, ScalePoint, TrainingObservation
from app.sizing.estimate import estimate_deployment
from app.sizing.question import Deployment, Question
from app.sizing.result import Estimate
from app.sizing.snapshot import Catalog

STEPS, RANKS = 60, 16  # that are looked at
HIDDEN = 0.8  # of computing, under which communication can hide
DAY = SECONDS_PER_DAY


@dataclass(frozen=True)
class System:
    """The simulated training system and its faults; every default is a healthy one."""

    clock: float = 1.0
    kernels: float = 1.0  # times as long as good ones
    network: float = 1.0  # of the rate between machines
    sent_s: float = 0.0  # of a step's communication at the full rate, hidden or not
    read_share: float = 0.5  # of a step, to read and prepare its data, in separate loader processes
    launch_share: float = 0.0  # of a step, in which the host has launched nothing
    uneven: float = 0.0  # spread of the ranks' work over its mean
    straggler: float = 1.0  # times as long as the others the slowest rank computes
    optimizer: float = 1.0  # times as long
    checkpoint_bytes: float = 0.0  # that are written while the run waits
    storage_bytes_per_s: float = 1e10
    interval_s: float | None = None  # between checkpoints
    restarts_per_day: float = 0.0
    warmup_s: float = 60.0
    evaluation: float = 0.0  # of the time
    flushes: float = 0.0  # of the allocator's cache in a step, each with the time of many launches
    flush_s: float = 0.4
    reported: tuple[str, ...] = ()  # figures that the operator has; none: all
    scales: tuple[float, ...] = ()  # numbers of accelerators that were tried
    seen: dict[str, Any] = field(default_factory=dict)  # reported by other tools, unchanged


def run_of(question: Question, deployment: Deployment, catalog: Catalog) -> Estimate:
    """What the core expects of a deployment, with its layout written out."""
    return estimate_deployment(question, estimate_deployment(question, deployment, catalog).deployment, catalog)


def steps_of(parts: dict[str, float], s: System, rng: np.random.Generator) -> dict[str, float]:
    """Seconds of a step and of its parts: medians over many, as the median rank meets them."""
    compute = parts["compute"] * s.kernels / s.clock
    ranks = compute * np.exp((0.01 + s.uneven) * rng.standard_normal((STEPS, RANKS)))
    ranks[:, 0] *= s.straggler
    slowest = ranks.max(axis=1)
    sent = s.sent_s / s.network
    exposed = parts["exposed_communication"] + max(0.0, sent - max(s.sent_s, HIDDEN * compute))
    optimizer, bubble = parts["optimizer"] * s.optimizer, parts["pipeline_bubble"] * slowest / parts["compute"]
    healthy = sum(parts.values())
    outside = s.launch_share * healthy + s.flushes * s.flush_s
    busy = slowest + exposed + optimizer + bubble
    data = parts["input"] + np.maximum(0.0, s.read_share * healthy - busy - outside)
    step = busy + outside + data
    alone = np.median(ranks, axis=0) + exposed + optimizer + np.median(bubble) + outside
    found = {
        "step_time_s": step,
        "compute_s": np.median(ranks, axis=1),
        "input_s": data,
        "synchronisation_s": slowest - np.median(ranks, axis=1),
        "bubble_s": bubble,
        "slowest_rank_s": alone.max(),
        "median_rank_s": np.median(alone),
        "communication_s": exposed,
        "outside_kernels_s": outside,
        "optimizer_s": optimizer,
        "busy_s": busy,
    }
    return {name: float(np.median(values)) for name, values in found.items()}


def observe(
    question: Question, found: Estimate, catalog: Catalog, system: System, seed: int, noise: float = 0.03
) -> Observations:
    """What an operator sees of such a run."""
    rng, p = np.random.default_rng(seed), found.performance
    assert p is not None and p.step_breakdown_s is not None and p.tokens_per_s and p.step_time_s and p.mfu

    def noisy(value: float) -> float:
        return float(value * np.exp(noise * rng.standard_normal()))

    step = steps_of(dict(p.step_breakdown_s), system, rng)
    interval = system.interval_s or p.checkpoint_interval_s or 3600.0
    stall = (p.checkpoint_stall_s or 0.0) + system.checkpoint_bytes / system.storage_bytes_per_s
    busy = step.pop("busy_s") / step["step_time_s"] * interval / (interval + stall) * (1 - system.evaluation)
    speed = p.tokens_per_s * p.step_time_s / step["step_time_s"]
    figures: dict[str, Any] = {
        **step,
        "tokens_per_s": speed,
        "mfu": p.mfu * p.step_time_s / step["step_time_s"],
        "checkpoint_s": stall,
        "checkpoint_interval_s": interval,
        "restarts_per_day": system.restarts_per_day,
        "warmup_s": system.warmup_s,
        "evaluation_share": system.evaluation,
        "allocator_retries_per_step": system.flushes,
        "memory_peak_bytes": found.memory.total_bytes if found.memory else None,
    }
    figures.update({k: v for k, v in system.seen.items() if k in TrainingObservation.__dataclass_fields__})
    known = {k: noisy(v) for k, v in figures.items() if v is not None and (not system.reported or k in system.reported)}
    scales = tuple(ScalePoint(n, noisy(speed_at(question, found, catalog, system, n, rng))) for n in system.scales)
    seen = {k: v for k, v in system.seen.items() if k in DevicesObservation.__dataclass_fields__}
    seen.setdefault("clock_share", min(1.0, noisy(system.clock)))
    seen.setdefault("utilization", min(1.0, noisy(busy)))
    return Observations(training=TrainingObservation(**known, scales=scales), devices=DevicesObservation(**seen))


def speed_at(
    question: Question, found: Estimate, catalog: Catalog, system: System, count: float, rng: np.random.Generator
) -> float:
    """Tokens in a second on another number of accelerators; one machine has no network to wait for."""
    d = found.deployment
    kept = {"total_accelerators": int(count), "nodes": None, "data_parallel": None, "accelerators_per_replica": None}
    other = estimate_deployment(question, Deployment(**{**fields_of(d), **kept}), catalog)
    p = other.performance
    assert p is not None and p.step_breakdown_s is not None and p.tokens_per_s and p.step_time_s
    share = count / (d.total_accelerators or count)
    alone = count <= 8
    there = System(
        network=1.0 if alone else system.network, sent_s=0.0 if alone else system.sent_s, read_share=0.5 * share
    )
    return p.tokens_per_s * p.step_time_s / steps_of(dict(p.step_breakdown_s), there, rng)["step_time_s"]


def fields_of(d: Deployment) -> dict[str, Any]:
    return {name: getattr(d, name) for name in Deployment.__dataclass_fields__}
