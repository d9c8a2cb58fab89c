"""Uncertainty of runs: factors of time and memory at a confidence, and the probability that a run meets a limit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.columns import Column, Columns, Mask
from app.sizing.uncertainty import MAX_DISTANCE, Neighborhood, Spread


@dataclass(frozen=True, slots=True)
class Margins(Columns):
    """Time and memory uncertainty of each stack, at the requested confidence."""

    asked: float  # requested confidence
    time: Spread  # spread of time predictions
    memory: Spread  # spread of memory predictions
    time_scale: Column  # time spread relative to a stack with many published sources
    time_factor: Column  # factor on predicted time at the requested confidence
    recipe_known: Mask  # whether the framework's memory recipe is published
    widened: Column  # widening of the spread for stacks without published support; 1 if documented


def build_margins(confidence: float, time: tuple[Spread, Neighborhood], memory: Spread, recipe_known: Mask) -> Margins:
    """Build the margins of stacks from the published evidence near each of them."""
    of_time, time_neighbourhood = time
    time_scale = of_time.relative_spread(time_neighbourhood)
    return Margins(
        asked=confidence,
        time=of_time,
        memory=memory,
        time_scale=time_scale,
        time_factor=of_time.error_factor(confidence, time_scale),
        recipe_known=recipe_known,
        widened=time_neighbourhood.prior_width,
    )


def memory_neighbourhood(
    counted_bytes: Column, total_bytes: Column, recipe_known: Mask, widened: Column
) -> Neighborhood:
    """Evidence neighbourhood of a memory prediction.

    Weights, gradients and optimizer states are exact to the byte. Only the remaining share is uncertain, and the
    distance to evidence grows with it. The whole prediction is uncertain if no memory recipe of the framework is
    published.
    """
    share = np.where(recipe_known, 1.0 - counted_bytes / total_bytes, 1.0)
    none = np.zeros_like(share)
    return Neighborhood(none, MAX_DISTANCE * share, none, widened)


def meets_deadline_at_confidence(margins: Margins, wall_s: Column, deadline_s: float) -> Mask:
    """Whether each run meets the deadline at the requested confidence."""
    result: Mask = wall_s * margins.time_factor <= deadline_s
    return result


def deadline_probability(margins: Margins, wall_s: Column, deadline_s: float) -> Column:
    """Probability that each run meets the deadline."""
    return margins.time.probability_within(np.log(deadline_s / wall_s), margins.time_scale)
