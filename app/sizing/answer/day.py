"""The day of a deployment: what of everything known about it its day rests on."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Column, at
from app.sizing.day.money import BY_THE_HOUR
from app.sizing.day.start import Starting, image_bytes
from app.sizing.day.whole import Service, day_of
from app.sizing.decisions.placement import replicas_per_node
from app.sizing.formula import unrecorded
from app.sizing.hardware.links import known_network_bytes_per_s
from app.sizing.question import Question
from app.sizing.result import Estimate, Performance
from app.sizing.serving.options import Judged
from app.sizing.workload import InferenceWorkload


def with_day(
    question: Question,
    workload: InferenceWorkload,
    found: Estimate,
    judged: Judged[Any, Any, Any],
    sure_capacity_per_s: Column,
    row: int,
) -> Estimate:
    """An estimate with its day, where the hours of one are told and it fits; `sure_capacity_per_s` is a replica's
    within the limits with the confidence asked.
    """
    if not workload.hourly_shares or found.performance is None or found.cost is None:
        return found
    deployment, plans, fleet = found.deployment, judged.plans, judged.fleet
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
        most_per_s=most_per_s(found.performance, at(fleet.replicas, row)),
        first_s=first_s(found.performance),
        ttft_curve=ttft_curve(found.performance, at(fleet.replicas, row)),
        usd_per_hour=found.cost.usd_per_hour,
        power_w=found.cost.power_w,
        pricing=deployment.pricing_model,
        starting=starting_of(question.assumptions, found, judged, row),
    )
    return replace(found, day=day_of(service, question.assumptions, question.economics))


def first_s(performance: Performance) -> float:
    """Until a request that nothing waits for is answered, or begins to be."""
    shown = performance.ttft or performance.e2e
    return 0.0 if shown is None or shown.p50_s is None or not math.isfinite(shown.p50_s) else shown.p50_s


def most_per_s(performance: Performance, replicas: float) -> float:
    """Requests per second of a replica beyond which its queue grows."""
    whole = performance.unstable_above_requests_per_s or performance.requests_per_s_capacity
    return (whole or performance.samples_per_s or 0.0) / replicas


def ttft_curve(performance: Performance, replicas: float) -> tuple[tuple[float, float], ...]:
    """TTFT at p95 by the requests per second of a replica, where it was simulated."""
    curve = performance.load_curve
    return () if curve is None else tuple((point.requests_per_s / replicas, point.ttft_p95_s) for point in curve.points)


def starting_of(assumed: Assumptions, found: Estimate, judged: Judged[Any, Any, Any], row: int) -> Starting:
    """What a start of a row's replica moves, and over what."""
    plans = judged.plans
    each, count = plans.accelerators_per_replica, plans.accelerators_per_node
    network = known_network_bytes_per_s(plans.node.network_bytes_per_s, assumed) * count
    slot = at(plans.types.table.slot_bytes_per_s[plans.accelerator], row)
    own = bool(plans.unified[row] or plans.is_processor[row])
    with unrecorded():
        inside = replicas_per_node(each, count)
    return Starting(
        stands=found.deployment.pricing_model not in BY_THE_HOUR,
        image_bytes=image_bytes(found.deployment.engine or "", assumed),
        stored_bytes=at(plans.stored_bytes, row),
        device_bytes=at(judged.memory.weights_bytes, row),
        nodes_per_replica=at(plans.nodes_per_replica, row),
        replicas_per_node=at(inside, row),
        network_bytes_per_s=at(network, row),
        slot_bytes_per_s=math.inf if own or not slot else slot,
    )
