"""How far runs may be off: the factors of time and memory that hold with a confidence, and how probable a limit is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.columns import Column, Columns, Mask
from app.sizing.uncertainty import FARTHEST, Around, Spread


@dataclass(frozen=True, slots=True)
class Margins(Columns):
    """What a stack's time is multiplied by so that it holds with the confidence asked, and what its memory is by."""

    asked: float
    time: Spread
    memory: Spread
    time_scale: Column  # how many times as far as next to many sources it may be off
    time_factor: Column
    recipe_known: Mask  # somebody published what the framework does with memory
    widened: Column


def margins_of(confidence: float, time: tuple[Spread, Around], memory: Spread, recipe_known: Mask) -> Margins:
    """Margins of stacks, by what was published around each."""
    of_time, around_time = time
    time_scale = of_time.scale(around_time)
    return Margins(
        asked=confidence,
        time=of_time,
        memory=memory,
        time_scale=time_scale,
        time_factor=of_time.factor(confidence, time_scale),
        recipe_known=recipe_known,
        widened=around_time.widened,
    )


def around_memory(counted_bytes: Column, total_bytes: Column, recipe_known: Mask, widened: Column) -> Around:
    """What a peak is surrounded by: weights, gradients and states are counted to the byte, and the share of what comes
    and goes is as far as a prediction is from them. All of it where nobody published the recipe.
    """
    share = np.where(recipe_known, 1.0 - counted_bytes / total_bytes, 1.0)
    none = np.zeros_like(share)
    return Around(none, FARTHEST * share, none, widened)


def surely_in_time(margins: Margins, wall_s: Column, deadline_s: float) -> Mask:
    """Whether runs end in time with the confidence asked."""
    found: Mask = wall_s * margins.time_factor <= deadline_s
    return found


def in_time(margins: Margins, wall_s: Column, deadline_s: float) -> Column:
    """Probability that runs end in time."""
    return margins.time.confidence(np.log(deadline_s / wall_s), margins.time_scale)
