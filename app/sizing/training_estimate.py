"""What one deployment would do in training: the layout asked for, or the best of those that fit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from app.errors import Conflict
from app.sizing import narrate
from app.sizing.candidates import Candidates, oversubscribed
from app.sizing.columns import Mask
from app.sizing.explain_training import training_estimate
from app.sizing.market import Market
from app.sizing.maximum import Maximum, largest, with_value
from app.sizing.rejections import Rejections
from app.sizing.result import Estimate
from app.sizing.scaling import alike, curve_of
from app.sizing.training import Run, degree_of, filled, fits, run_at, run_cost, smallest_run, wired
from app.sizing.training_plan import TrainingPlans, build_training_plans
from app.sizing.workload import Constraints, Deployment, Question, TrainingWorkload


def estimate_training(
    question: Question, workload: TrainingWorkload, deployment: Deployment, machines: Candidates, market: Market
) -> Estimate:
    """The layout asked for, or the fastest that fits the accelerators asked for, at the maximum where one is wanted."""
    check_layout(workload, deployment)
    machines = oversubscribed(machines, question.assumptions)
    maximum: Maximum | None = None
    if question.maximize is not None:
        size = _size(deployment) or deployment.data_parallel or int(machines.m.count[0])
        if deployment.data_parallel is None:
            deployment = replace(deployment, accelerators_per_replica=size)

        def fitting_layout(w: TrainingWorkload, d: Deployment) -> bool:
            layouts = build_training_plans(w, market, machines, Constraints(), Rejections(market), fixed=d)
            return bool(_runs(question, w, layouts, d, market)[2].any())

        maximum = largest(question.maximize, workload, deployment, size, fitting_layout)
        workload, deployment = with_value(workload, deployment, maximum.quantity, maximum.value, size)
    assumed = question.assumptions
    rejections = Rejections(market)
    layouts = build_training_plans(workload, market, machines, Constraints(), rejections, fixed=deployment)
    if not len(layouts):
        return narrate.impossible(deployment, workload.model, market, rejections)
    plans, run, fitting, timely = _runs(question, workload, layouts, deployment, market)
    if not len(plans):
        raise Conflict(
            "The layout cannot be laid out: tensor_parallel * pipeline_parallel * context_parallel * data_parallel must equal the "
            "accelerators, expert_parallel must divide the ranks that share a stage, the data-parallel degree must divide the "
            "global batch into whole micro-batches, and several machines are filled whole."
        )
    cost = run_cost(plans, run, assumed, question.economics)
    total = np.nan_to_num(cost.usd_per_hour, nan=0.0) * run.wall_s
    short = np.where(fitting, 0.0, run.memory.total_bytes / run.memory.usable_bytes)
    key = total if _size(deployment) is None and deployment.data_parallel is None else run.wall_s
    row = np.lexsort((total, key, ~timely, short))[:1]
    found = training_estimate(
        workload,
        plans.take(row),
        run.take(row),
        cost.take(row),
        market,
        assumed,
        question.economics,
        fits=bool(fitting[row][0]),
        trace=question.trace,
    )
    curve = curve_of(workload, alike(layouts, plans.take(row)), market, assumed, question.economics)
    return replace(found, scaling=curve, maximum=maximum)


def check_layout(workload: TrainingWorkload, d: Deployment) -> None:
    """Refuse a layout that the model cannot take, with what it could.

    Raises Conflict.
    """
    model = workload.model
    if (d.expert_parallel or 1) > 1 and (not model.is_moe or model.num_experts % (d.expert_parallel or 1)):
        experts = f"{model.num_experts} experts, which the degree must divide" if model.is_moe else "no experts"
        raise Conflict(f"expert_parallel {d.expert_parallel} does not go with {model.name}: it has {experts}.")
    if workload.units_per_sequence % (d.context_parallel or 1):
        raise Conflict(f"context_parallel {d.context_parallel} must divide the sequence of {workload.units_per_sequence:g} tokens.")
    if model.num_heads % (d.tensor_parallel or 1) and not workload.in_samples:
        raise Conflict(f"tensor_parallel {d.tensor_parallel} must divide the {model.num_heads} attention heads of {model.name}.")
    chunks = (d.pipeline_parallel or 1) * (d.virtual_pipeline or 1)
    if chunks > model.num_layers and not workload.in_samples:
        raise Conflict(
            f"pipeline_parallel times virtual_pipeline is {chunks}, and {model.name} has {model.num_layers} layers: each chunk needs one."
        )


def _size(deployment: Deployment) -> int | None:
    """Accelerators that the caller fixed."""
    return deployment.accelerators_per_replica or deployment.total_accelerators


def _runs(
    question: Question, workload: TrainingWorkload, layouts: TrainingPlans, deployment: Deployment, market: Market
) -> tuple[TrainingPlans, Run, Mask, Mask]:
    """Runs at the degree the caller fixed, or at the smallest that fits and is in time: (plans, run, fit, in time)."""
    assumed = question.assumptions
    size = _size(deployment)
    if deployment.data_parallel is None and size is None:
        return smallest_run(workload, layouts, market, assumed)
    devices = (
        layouts.ranks * float(deployment.data_parallel) if deployment.data_parallel is not None else np.full(len(layouts), float(size or 1))
    )
    degree, keep = degree_of(workload, layouts, devices)
    # A cluster fills whole machines, with a known network where one is on sale; else a usual one is assumed.
    whole = filled(layouts, devices)
    for wanted in (whole & wired(layouts, devices), whole):
        if (keep & wanted).any():
            keep = keep & wanted
            break
    plans, degree = layouts.take(keep), degree[keep]
    run = run_at(workload, plans, degree, market, assumed)
    return plans, run, fits(plans, run), run.wall_s <= workload.deadline_s
