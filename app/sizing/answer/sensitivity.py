"""What would change with one thing changed: load, redundancy, machines, rent or buy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from app.sizing.answer.money import price_words, usd
from app.sizing.assumptions import Assumptions
from app.sizing.decisions.cost import deployment_cost
from app.sizing.decisions.placement import fleet, replicas_needed
from app.sizing.question import Economics
from app.sizing.result import Change, Estimate
from app.sizing.serving.search import Options
from app.sizing.workload import InferenceWorkload, Load


def first_of(estimates: Sequence[Estimate]) -> str:
    """The best answer of a changed question, in a clause."""
    if not estimates:
        return "still nothing fits"
    e = estimates[0]
    return f"{e.deployment.total_accelerators:,} x {e.deployment.accelerator}, {price_words(e)}"


def sensitivity(
    workload: InferenceWorkload, options: Options, assumed: Assumptions, economics: Economics
) -> tuple[Change, ...]:
    """What the best plan would cost with more load, less redundancy or a tighter plan."""
    if workload.load is not Load.OPEN:
        return ()

    plans, none = options.plans, np.zeros(len(options))
    machines, size, per_node = plans.offered, plans.accelerators_per_replica, plans.accelerators_per_node

    def cost_of(changed: InferenceWorkload) -> float:
        replicas = replicas_needed(changed, options.capacity_per_s, options.slo_batch)
        placed = fleet(changed.redundancy, size, per_node, replicas)
        cost = deployment_cost(machines, placed.nodes, none, assumed, economics)
        return float(cost.usd_per_hour.min())

    now = float(options.cost.usd_per_hour.min())
    if not np.isfinite(now) or now <= 0:
        return ()
    cases = [("twice the peak load", replace(workload, peak_per_s=2 * workload.peak_per_s))]
    if workload.redundancy.label != "none":
        cases.append(("no redundancy", replace(workload, redundancy=workload.redundancy.with_spare(0))))
    else:
        cases.append(("redundancy n+1", replace(workload, redundancy=workload.redundancy.with_spare(1))))
    if workload.target_utilization > 0.5:
        cases.append(
            ("half of each replica kept free (target utilisation 0.5)", replace(workload, target_utilization=0.5))
        )
    told = [
        Change(label, f"the cheapest plan costs {usd(cost_of(w))} per hour instead of {usd(now)}") for label, w in cases
    ]
    return (*told, *rent_or_buy(options))


def rent_or_buy(options: Options) -> tuple[Change, ...]:
    """The cheapest way to own what the load needs against the cheapest way to rent it."""
    hourly, owned = options.cost.usd_per_hour, ~np.isnan(options.cost.purchase_usd)
    if owned.all() or not owned.any():
        return ()
    buy = int(np.flatnonzero(owned)[np.argmin(hourly[owned])])
    rent = int(np.flatnonzero(~owned)[np.argmin(hourly[~owned])])
    price = float(options.cost.purchase_usd[buy])
    text = (
        f"owning costs {usd(price)} up front and {usd(float(hourly[buy]))} per hour over the horizon, "
        f"renting {usd(float(hourly[rent]))} per hour"
    )
    return (Change("rent or buy", text),)
