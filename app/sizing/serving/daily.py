"""Mean hourly cost of a deployment over a day, with autoscaling where it saves money."""

from __future__ import annotations

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Column, Mask
from app.sizing.day.idle import idle_shares
from app.sizing.day.money import paid_usd_per_hour
from app.sizing.day.scaling import Autoscaler, load_per_minute
from app.sizing.day.start import StartProfile, image_bytes, start_times_s, supply_per_s
from app.sizing.decisions.cost import Cost
from app.sizing.decisions.placement import Fleet, replicas_per_node
from app.sizing.formula import suspend_recording
from app.sizing.hardware.links import known_network_bytes_per_s
from app.sizing.question import Question
from app.sizing.serving.memory import device_weights_bytes
from app.sizing.serving.plans import Plans
from app.sizing.workload import InferenceWorkload


def startup_terms(workload: InferenceWorkload, plans: Plans, assumed: Assumptions) -> StartProfile:
    """What each plan's replica transfers at startup, and the links that it uses."""
    each, count, stacks = plans.accelerators_per_replica, plans.accelerators_per_node, plans.stacks
    small = stacks.table.small_engine | stacks.table.ggml
    slot = plans.types.table.slot_bytes_per_s[plans.accelerator]
    own: Mask = plans.has_unified_memory | plans.is_processor | ~(slot > 0)
    with suspend_recording():
        return StartProfile(
            machine_kept=~plans.offered.by_the_hour,
            image_bytes=image_bytes(small, stacks.table.large_image, assumed)[stacks.rows],
            stored_bytes=plans.stored_bytes,
            device_bytes=device_weights_bytes(workload.model, plans, assumed),
            nodes_per_replica=plans.nodes_per_replica,
            replicas_per_node=replicas_per_node(each, count),
            network_bytes_per_s=known_network_bytes_per_s(plans.node.network_bytes_per_s, assumed) * count,
            slot_bytes_per_s=np.where(own, np.inf, slot),
        )


def daily_usd_per_hour(
    question: Question, workload: InferenceWorkload, plans: Plans, fleet: Fleet, cost: Cost, capacity_per_s: Column
) -> Column:
    """Mean cost per hour over a day, in USD/h; equal to the plain hourly cost if the workload has no hourly profile."""
    if not workload.hourly_shares or not len(plans):
        return cost.usd_per_hour
    assumed = question.assumptions
    with suspend_recording():
        starting = startup_terms(workload, plans, assumed)
        at = Autoscaler(
            capacity_per_s=capacity_per_s,
            target_utilization=workload.target_utilization,
            most_replicas=fleet.replicas,
            start_s=start_times_s(starting, 1.0, assumed) + assumed.autoscaler_reaction_s,
            supply_per_s=supply_per_s(starting, assumed),
            keep_s=assumed.scale_in_delay_s,
        )
        load = load_per_minute(workload.peak_per_s, workload.hourly_shares)
        on = plans.accelerators_per_replica, plans.accelerators_per_node
        idle = idle_shares(load, at, workload.redundancy, fleet, *on)
        terms = plans.offered.by_the_hour, ~np.isnan(cost.purchase_usd)
        return paid_usd_per_hour(cost.usd_per_hour, cost.power_w, idle, *terms, assumed, question.economics)
