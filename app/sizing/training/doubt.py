"""How far the memory of plans may be off: what they surely hold, and how probably they fit."""

from __future__ import annotations

import numpy as np

from app.sizing.columns import Column, Mask
from app.sizing.training.margins import around_memory
from app.sizing.training.memory import TrainingMemory
from app.sizing.training.plans import TrainingPlans


def memory_scale(plans: TrainingPlans, memory: TrainingMemory) -> Column:
    """How many times as far as what is counted to the byte the memory of each plan may be off."""
    margins = plans.stack.margins
    counted = memory.weights_bytes + memory.gradient_bytes + memory.optimizer_bytes
    return margins.memory.scale(around_memory(counted, memory.total_bytes, margins.recipe_known, margins.widened))


def memory_factor(plans: TrainingPlans, memory: TrainingMemory, confidence: float) -> Column:
    """What the memory of each plan is multiplied by so that it holds with a confidence."""
    return plans.stack.margins.memory.factor(confidence, memory_scale(plans, memory))


def allowed_bytes(plans: TrainingPlans, memory: TrainingMemory) -> Column:
    """The most that may be predicted: what may be used keeps a reserve of its own, so doubt counts against the whole
    device.
    """
    factor = memory_factor(plans, memory, plans.stack.margins.asked)
    return np.minimum(memory.usable_bytes, memory.capacity_bytes / factor)


def surely_held(plans: TrainingPlans, memory: TrainingMemory) -> Mask:
    """Whether accelerators hold what they must, with the confidence asked."""
    found: Mask = memory.total_bytes <= allowed_bytes(plans, memory)
    return found


def probably_held(plans: TrainingPlans, memory: TrainingMemory) -> Column:
    """Probability that accelerators hold what they must."""
    room = np.log(memory.capacity_bytes / memory.total_bytes)
    return plans.stack.margins.memory.confidence(room, memory_scale(plans, memory))
