"""Uncertainty of predicted training memory.

Gives the largest prediction that is accepted at a confidence, and the probability that a plan fits.
"""

from __future__ import annotations

import numpy as np

from app.sizing.columns import Column, Mask
from app.sizing.training.margins import memory_neighbourhood
from app.sizing.training.memory import TrainingMemory
from app.sizing.training.plans import TrainingPlans


def memory_scale(plans: TrainingPlans, memory: TrainingMemory) -> Column:
    """Return how much wider the uncertainty of each plan's memory is than that of memory counted to the byte."""
    margins = plans.stack.margins
    counted = memory.weights_bytes + memory.gradient_bytes + memory.optimizer_bytes
    return margins.memory.relative_spread(
        memory_neighbourhood(counted, memory.total_bytes, margins.recipe_known, margins.widened)
    )


def memory_factor(plans: TrainingPlans, memory: TrainingMemory, confidence: float) -> Column:
    """Return the factor on each plan's predicted memory that covers a confidence."""
    return plans.stack.margins.memory.error_factor(confidence, memory_scale(plans, memory))


def allowed_bytes(plans: TrainingPlans, memory: TrainingMemory) -> Column:
    """Return the largest prediction that is accepted, bytes.

    The usable memory already has a reserve. The uncertainty is therefore compared with the capacity of the whole
    device, and does not add to the reserve.
    """
    factor = memory_factor(plans, memory, plans.stack.margins.asked)
    return np.minimum(memory.usable_bytes, memory.capacity_bytes / factor)


def fits_at_confidence(plans: TrainingPlans, memory: TrainingMemory) -> Mask:
    """Return whether each plan fits in memory at the requested confidence."""
    fits: Mask = memory.total_bytes <= allowed_bytes(plans, memory)
    return fits


def fit_probability(plans: TrainingPlans, memory: TrainingMemory) -> Column:
    """Return the probability that each plan fits in memory."""
    room = np.log(memory.capacity_bytes / memory.total_bytes)
    return plans.stack.margins.memory.probability_within(room, memory_scale(plans, memory))
