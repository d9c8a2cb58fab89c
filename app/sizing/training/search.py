"""What one deployment would do in training: the layout asked for, or the best of those that fit."""

from __future__ import annotations

import numpy as np

from app.errors import Conflict
from app.sizing.columns import Mask
from app.sizing.decisions.machines import RUN_PRICING
from app.sizing.hardware.parts import Environment, PricingModel
from app.sizing.question import Constraints, Deployment, Question
from app.sizing.snapshot import Market
from app.sizing.training.plans import TrainingPlans
from app.sizing.training.run import Run, degree_of, filled, fits, run_at, smallest_run, wired
from app.sizing.workload import TrainingWorkload


def check_layout(workload: TrainingWorkload, d: Deployment) -> None:
    """Refuse a layout that the model cannot take, with what it could.

    Raises Conflict.
    """
    model = workload.model
    if (d.expert_parallel or 1) > 1 and (not model.is_moe or model.num_experts % (d.expert_parallel or 1)):
        experts = f"{model.num_experts} experts, which the degree must divide" if model.is_moe else "no experts"
        raise Conflict(f"expert_parallel {d.expert_parallel} does not go with {model.name}: it has {experts}.")
    if workload.units_per_sequence % (d.context_parallel or 1):
        raise Conflict(
            f"context_parallel {d.context_parallel} must divide the sequence of {workload.units_per_sequence:g} tokens."
        )
    if model.num_heads % (d.tensor_parallel or 1) and not workload.in_samples:
        raise Conflict(
            f"tensor_parallel {d.tensor_parallel} must divide the {model.num_heads} attention heads of {model.name}."
        )
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
        layouts.ranks * float(deployment.data_parallel)
        if deployment.data_parallel is not None
        else np.full(len(layouts), float(size or 1))
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


def run_pricing(constraints: Constraints) -> tuple[PricingModel, ...]:
    """Pricing models of a run where none are named: on demand, and owned where own machines are asked for."""
    own = constraints.max_purchase_usd is not None or constraints.environments == (Environment.ON_PREM,)
    return (*RUN_PRICING, PricingModel.OWNED) if own else RUN_PRICING
