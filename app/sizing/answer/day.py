"""Adds the daily load profile to estimates: the cost of a day and, for the first estimate, the day itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Column, at
from app.sizing.day.start import StartProfile
from app.sizing.day.whole import Service, simulate_day
from app.sizing.question import Question
from app.sizing.result import Estimate, Performance
from app.sizing.serving.daily import daily_usd_per_hour, startup_terms
from app.sizing.serving.options import PlanEvaluations
from app.sizing.units import HOURS_PER_DAY
from app.sizing.workload import InferenceWorkload


def with_days(
    question: Question,
    workload: InferenceWorkload,
    estimates: Sequence[Estimate],
    judged: PlanEvaluations[Any, Any, Any],
    sure_capacity_per_s: Column,
) -> list[Estimate]:
    """Estimates with their cost per day, and the first one with its day, where the workload states hourly shares."""
    if not workload.hourly_shares:
        return list(estimates)
    plans, cost = judged.plans, judged.cost
    hourly = daily_usd_per_hour(question, workload, plans, judged.fleet, cost, sure_capacity_per_s)
    with_cost = [with_daily_cost(each, usd) for each, usd in zip(estimates, hourly.tolist(), strict=True)]
    return [with_day(question, workload, with_cost[0], judged, sure_capacity_per_s, 0), *with_cost[1:]]


def with_daily_cost(estimate: Estimate, usd_per_hour: float) -> Estimate:
    """An estimate with the cost of a day at this mean cost in USD per hour."""
    if estimate.cost is None or estimate.cost.usd_per_hour is None:
        return estimate
    return replace(estimate, cost=replace(estimate.cost, usd_per_day=usd_per_hour * HOURS_PER_DAY))


def with_day(
    question: Question,
    workload: InferenceWorkload,
    estimate: Estimate,
    judged: PlanEvaluations[Any, Any, Any],
    sure_capacity_per_s: Column,
    row: int,
) -> Estimate:
    """An estimate with its day, where the workload states hourly shares and the plan fits.

    Parameters:
        sure_capacity_per_s: requests per second of one replica within the limits, at the requested confidence.
    """
    if not workload.hourly_shares or estimate.performance is None or estimate.cost is None:
        return estimate
    deployment, plans, fleet = estimate.deployment, judged.plans, judged.fleet
    service = Service(
        peak_per_s=workload.peak_per_s,
        shares=workload.hourly_shares,
        replicas=at(fleet.replicas, row),
        spare_replicas=at(fleet.spare_replicas, row),
        nodes=at(fleet.nodes, row),
        redundancy=workload.redundancy,
        accelerators_per_replica=at(plans.accelerators_per_replica, row),
        accelerators_per_node=at(plans.accelerators_per_node, row),
        capacity_per_s=at(sure_capacity_per_s, row),
        target_utilization=workload.target_utilization,
        max_per_s=saturation_per_s(estimate.performance, at(fleet.replicas, row)),
        unloaded_ttft_s=median_response_s(estimate.performance),
        ttft_curve=ttft_curve(estimate.performance, at(fleet.replicas, row)),
        usd_per_hour=estimate.cost.usd_per_hour,
        power_w=estimate.cost.power_w,
        pricing=deployment.pricing_model,
        starting=replica_start(workload, judged, row, question.assumptions),
    )
    return replace(estimate, day=simulate_day(service, question.assumptions, question.economics))


def median_response_s(performance: Performance) -> float:
    """Seconds until a request is answered, or its first token arrives: the median at the load."""
    shown = performance.ttft or performance.e2e
    return 0.0 if shown is None or shown.p50_s is None or not math.isfinite(shown.p50_s) else shown.p50_s


def saturation_per_s(performance: Performance, replicas: float) -> float:
    """Requests per second of one replica above which its queue grows."""
    whole = performance.unstable_above_requests_per_s or performance.requests_per_s_capacity
    return (whole or performance.samples_per_s or 0.0) / replicas


def ttft_curve(performance: Performance, replicas: float) -> tuple[tuple[float, float], ...]:
    """Pairs of (requests per second of one replica, p95 TTFT in seconds); empty where nothing was simulated."""
    curve = performance.load_curve
    return () if curve is None else tuple((point.requests_per_s / replicas, point.ttft_p95_s) for point in curve.points)


def replica_start(
    workload: InferenceWorkload, judged: PlanEvaluations[Any, Any, Any], row: int, assumed: Assumptions
) -> StartProfile:
    """What the start of a replica in a row loads, and the links it uses."""
    starts = startup_terms(workload, judged.plans.take(np.array([row])), assumed)
    return StartProfile(**{f.name: getattr(starts, f.name)[0].item() for f in fields(StartProfile)})
