"""How far runs may be off: the factors of time and memory that hold with a confidence, and how probable a limit is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.columns import Column, Columns, Mask
from app.sizing.uncertainty import Around, Spread


@dataclass(frozen=True, slots=True)
class Margins(Columns):
    """What a stack's time and memory are multiplied by so that they hold with the confidence asked."""

    asked: float
    time: Spread
    memory: Spread
    time_scale: Column  # how many times as far as next to many sources each may be off
    memory_scale: Column
    time_factor: Column
    memory_factor: Column


def margins_of(confidence: float, time: tuple[Spread, Around], memory: tuple[Spread, Around]) -> Margins:
    """Margins of stacks, by what was published around each."""
    (of_time, around_time), (of_memory, around_memory) = time, memory
    time_scale, memory_scale = of_time.scale(around_time), of_memory.scale(around_memory)
    return Margins(
        asked=confidence,
        time=of_time,
        memory=of_memory,
        time_scale=time_scale,
        memory_scale=memory_scale,
        time_factor=of_time.factor(confidence, time_scale),
        memory_factor=of_memory.factor(confidence, memory_scale),
    )


def surely_in_time(margins: Margins, wall_s: Column, deadline_s: float) -> Mask:
    """Whether runs end in time with the confidence asked."""
    found: Mask = wall_s * margins.time_factor <= deadline_s
    return found


def allowed_bytes(margins: Margins, usable_bytes: Column, capacity_bytes: Column) -> Column:
    """The most that may be predicted: what may be used keeps a reserve of its own, so doubt counts against the whole
    device.
    """
    return np.minimum(usable_bytes, capacity_bytes / margins.memory_factor)


def in_time(margins: Margins, wall_s: Column, deadline_s: float) -> Column:
    """Probability that runs end in time."""
    return margins.time.confidence(np.log(deadline_s / wall_s), margins.time_scale)


def within(margins: Margins, total_bytes: Column, capacity_bytes: Column) -> Column:
    """Probability that accelerators hold what they must."""
    return margins.memory.confidence(np.log(capacity_bytes / total_bytes), margins.memory_scale)
