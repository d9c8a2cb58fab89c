"""A replica's scheduler as it is deployed: the engine's own on such devices and within its memory, and what is set."""

from __future__ import annotations

from app.sizing.columns import at
from app.sizing.hardware.engines.scheduling import Scheduler, SchedulerSettings
from app.sizing.hardware.tables import scheduler_at
from app.sizing.serving.memory import ServingMemory
from app.sizing.serving.plans import Plans


def scheduler_of(plans: Plans, memory: ServingMemory, row: int, asked: SchedulerSettings | None = None) -> Scheduler:
    """How the engine of one plan schedules. `memory` knows its tokens and sequences, also where these are set."""
    own = scheduler_at(
        plans.scheduling, row, tokens=at(memory.max_batched_tokens, row), sequences=at(memory.max_sequences, row)
    )
    return own.with_settings(asked)
