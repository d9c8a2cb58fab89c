"""Layouts that tests of training start from, and a question about one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Column
from app.sizing.decisions.machines import find_candidates
from app.sizing.decisions.rejections import Rejections
from app.sizing.estimate import estimate_deployment
from app.sizing.hardware.recipes import RecipeSettings
from app.sizing.question import Constraints, Deployment, Economics, Question
from app.sizing.result import Estimate
from app.sizing.snapshot import Catalog
from app.sizing.training.counts import counts_of
from app.sizing.training.memory import MemoryParts, TrainingMemory, estimate_training_memory
from app.sizing.training.plans import TrainingPlans
from app.sizing.training.search import training_layouts
from app.sizing.training.work import TrainingWork, training_work
from app.sizing.workload import TrainingWorkload
from tests.examples import PRETRAIN

H100 = "nvidia-h100-sxm5-80gb"


WORKLOAD = replace(PRETRAIN, global_batch=64, deadline_s=1e9)


# Nothing but optimizer states in the host's memory.
IN_PLACE: dict[str, Any] = {"parameter_offload": False, "activation_offload": False}
SINGLE: dict[str, Any] = {"tensor_parallel": 1, "pipeline_parallel": 1, "context_parallel": 1}


def plans_of(catalog: Catalog, workload: TrainingWorkload, confidence: float = 0.5, **fixed: Any) -> TrainingPlans:
    """All layouts of one accelerator that a deployment leaves open; predictions are taken at their word unless said."""
    deployment = Deployment(**{"accelerator": H100, **fixed})
    rejections = Rejections(catalog.accelerators)
    found = find_candidates(
        catalog,
        Constraints(accelerators=(deployment.accelerator,)),
        Economics(),
        Assumptions(),
        rejections,
        fixed=deployment,
    )
    best = found.take(
        np.lexsort((-np.nan_to_num(found.node.network_bytes_per_s), -found.node.accelerators_per_node))[:1]
    )
    sure = Constraints(confidence=confidence)
    return training_layouts(workload, catalog, best, sure, rejections, Assumptions(), fixed=deployment)


# What tests of memory count by, whatever Megatron's own habits are.
RECIPE = RecipeSettings(gradients="as_weights")


def one(catalog: Catalog, workload: TrainingWorkload = WORKLOAD, **fixed: Any) -> TrainingPlans:
    known: dict[str, Any] = {"framework": "megatron", "micro_batch_sequences": 1, "activation_checkpointing": "none"}
    plans = plans_of(catalog, workload, **{**known, "recipe": RECIPE, **IN_PLACE, **fixed})
    assert len(plans) == 1
    return plans


def asked(
    catalog: Catalog,
    workload: TrainingWorkload = WORKLOAD,
    maximize: str | None = None,
    confidence: float = 0.5,
    **fixed: object,
) -> Estimate:
    """The estimate of a deployment; the median prediction unless a confidence is given."""
    deployment = Deployment(**{"accelerator": H100, **fixed})  # type: ignore[arg-type]
    return estimate_deployment(
        Question(workload, Constraints(confidence=confidence), maximize=maximize), deployment, catalog
    )


def held(workload: TrainingWorkload, plans: TrainingPlans, data_parallel: Column) -> MemoryParts:
    """The counted bytes of an accelerator's memory."""
    return estimate_training_memory(counts_of(workload), plans, data_parallel, Assumptions())[0]


def memory(workload: TrainingWorkload, plans: TrainingPlans, data_parallel: Column) -> TrainingMemory:
    """An accelerator's memory at its peak."""
    return estimate_training_memory(counts_of(workload), plans, data_parallel, Assumptions())[1]


def work(workload: TrainingWorkload, plans: TrainingPlans, data_parallel: Column) -> TrainingWork:
    """Counts of a step."""
    return training_work(counts_of(workload), plans, data_parallel)
