"""Scheduler of a deployed replica: the engine's own rules on its devices and memory, with the requested settings."""

from __future__ import annotations

from app.sizing.columns import at
from app.sizing.hardware.engines.scheduling import Scheduler, SchedulerSettings
from app.sizing.hardware.tables import scheduler_at
from app.sizing.serving.memory import ServingMemory
from app.sizing.serving.plans import Plans


def deployed_scheduler(
    plans: Plans, memory: ServingMemory, row: int, overrides: SchedulerSettings | None = None
) -> Scheduler:
    """Scheduler of the plan in row `row`.

    Parameters:
        memory: holds the token budget and sequence limit, also where the request sets them.
        overrides: settings of the request; omitted settings keep the engine's own.
    """
    own = scheduler_at(
        plans.scheduling_rules, row, tokens=at(memory.max_batched_tokens, row), sequences=at(memory.max_sequences, row)
    )
    return own.with_settings(overrides)
