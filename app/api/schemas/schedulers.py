"""Engines' schedulers on the wire: what each does when nothing is set, by version, with where it was read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from pydantic import Field

from app.api.schemas.base import Shown
from app.api.schemas.names import PolicyName
from app.catalog.directory import Directory
from app.sizing.hardware.engines import ENGINES
from app.sizing.hardware.engines.record import Engine
from app.sizing.hardware.engines.scheduling import Scheduling, StepSize


class StepSizeListed(Shown):
    """The largest step on devices that have at least so much memory."""

    from_gib: float
    max_batched_tokens: int
    offline_max_batched_tokens: int = Field(description="Of a batch job, with no server in front.")
    max_sequences: int


class SchedulingListed(Shown):
    """How an engine schedules from a version on, when nothing is set."""

    since: str | None = Field(description="First version that it holds for; null: as far back as is known.")
    steps: list[StepSizeListed] = Field(description="By memory of the device, least first.")
    steps_of: dict[str, list[StepSizeListed]] = Field(description="Of families of accelerators that have others.")
    slots: bool = Field(description="How many run at once is said when it is started; plans assume more than it takes.")
    policy: PolicyName
    chunked: bool = Field(description="A prompt is split to fill a step.")
    preemption: str = Field(description="Of a running request when the cache is full; none: room for it is set aside.")
    prefix_cache: bool
    kv_block_tokens: int
    receive_interval_steps: int
    batch_wait_steps: int
    batch_wait_share: float
    planning_lag_steps: int
    output_reserve_share: float = Field(description="Of a request's output, whose cache is set aside at its start.")
    sources: dict[str, str] = Field(description="Of single fields, the file of the engine's repository.")
    read: str = Field(description="Day on which these files were read.")


class SchedulerListed(Shown):
    """An engine whose scheduler was read; one that is not listed is taken to schedule as vLLM's second engine did."""

    engine: str
    also_called: list[str]
    judged_as: str | None = Field(description="The engine underneath, whose scheduler it has.")
    versions: list[SchedulingListed] = Field(description="How it schedules by version, oldest first.")


class SchedulerList(Shown):
    """Engines whose scheduler was read, by name."""

    items: list[SchedulerListed]
    next_cursor: str | None


def schedulers_json(_: Directory) -> list[dict[str, Any]]:
    """Every engine whose scheduler was read, by name."""
    return [
        {
            "engine": name,
            "also_called": list(engine.aliases),
            "judged_as": engine.judged_as,
            "versions": versions_json(engine),
        }
        for name, engine in sorted(ENGINES.items())
        if engine.scheduling.read
    ]


def versions_json(engine: Engine) -> list[dict[str, Any]]:
    """An engine's scheduler by first version, oldest first."""
    if not engine.scheduling_since:
        return [scheduling_json(engine.scheduling, None)]
    since = [None, *(".".join(map(str, first)) for first, _ in engine.scheduling_since[1:])]
    return [scheduling_json(rule, first) for first, (_, rule) in zip(since, engine.scheduling_since, strict=True)]


def scheduling_json(rule: Scheduling, since: str | None) -> dict[str, Any]:
    """One rule as it is listed."""
    same = {name: getattr(rule, name) for name in SchedulingListed.model_fields if name != "since"}
    return same | {
        "since": since,
        "steps": sizes_json(rule.steps),
        "steps_of": {family: sizes_json(sizes) for family, sizes in rule.steps_of.items()},
        "sources": dict(rule.sources),
    }


def sizes_json(sizes: Sequence[StepSize]) -> list[dict[str, Any]]:
    """Step sizes as they are listed."""
    return [asdict(size) | {"offline_max_batched_tokens": size.offline_tokens} for size in sizes]
