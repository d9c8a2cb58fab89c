"""Schemas of the engines' default scheduler settings by version, with their sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from pydantic import Field

from app.api.schemas.base import ResponseModel
from app.api.schemas.names import PolicyName
from app.catalog.directory import CatalogIndex
from app.sizing.hardware.engines import ENGINES
from app.sizing.hardware.engines.record import Engine
from app.sizing.hardware.engines.scheduling import Scheduling, StepSize


class StepSizeListed(ResponseModel):
    """The largest step on devices with at least this much memory."""

    from_gib: float
    max_batched_tokens: int
    offline_max_batched_tokens: int = Field(
        description="Maximum tokens per step of an offline batch job without a server."
    )
    max_sequences: int


class SchedulingListed(ResponseModel):
    """An engine's default scheduling from one version on."""

    since: str | None = Field(description="First version that it applies to; null: every known earlier version.")
    steps: list[StepSizeListed] = Field(description="Step sizes by device memory, smallest first.")
    steps_of: dict[str, list[StepSizeListed]] = Field(description="Step sizes of accelerator families that differ.")
    slots: bool = Field(
        description="True if the engine needs the number of concurrent sequences at start; plans assume more than the "
        "default.",
    )
    policy: PolicyName
    chunked: bool = Field(description="True if a prompt is split to fill a step (chunked prefill).")
    preemption: str = Field(
        description="What happens to a running request if the cache is full; none: its cache is reserved in advance."
    )
    prefix_cache: bool
    kv_block_tokens: int
    receive_interval_steps: int
    batch_wait_steps: int
    batch_wait_share: float
    planning_lag_steps: int
    output_reserve_share: float = Field(description="Share of a request's output whose cache is reserved at its start.")
    sources: dict[str, str] = Field(description="Files in the engine's repository, by field.")
    read: str = Field(description="Day on which these files were read.")


class SchedulerListed(ResponseModel):
    """An engine with known scheduler defaults. The service assumes the scheduler of vLLM V1 for engines that are not
    listed.
    """

    engine: str
    also_called: list[str]
    judged_as: str | None = Field(description="The underlying engine whose scheduler it uses.")
    versions: list[SchedulingListed] = Field(description="Scheduling rules by version, oldest first.")


class SchedulerList(ResponseModel):
    """Engines with known scheduler defaults, by name."""

    items: list[SchedulerListed]
    next_cursor: str | None


def schedulers_json(_: CatalogIndex) -> list[dict[str, Any]]:
    """Every engine with known scheduler defaults as JSON, by name."""
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
    """An engine's scheduling rules as JSON by first version, oldest first."""
    if not engine.scheduling_since:
        return [scheduling_json(engine.scheduling, None)]
    since = [None, *(".".join(map(str, first)) for first, _ in engine.scheduling_since[1:])]
    return [scheduling_json(rule, first) for first, (_, rule) in zip(since, engine.scheduling_since, strict=True)]


def scheduling_json(rule: Scheduling, since: str | None) -> dict[str, Any]:
    """One scheduling rule as JSON."""
    same = {name: getattr(rule, name) for name in SchedulingListed.model_fields if name != "since"}
    return same | {
        "since": since,
        "steps": sizes_json(rule.steps),
        "steps_of": {family: sizes_json(sizes) for family, sizes in rule.steps_of.items()},
        "sources": dict(rule.sources),
    }


def sizes_json(sizes: Sequence[StepSize]) -> list[dict[str, Any]]:
    """Step sizes as JSON."""
    return [asdict(size) | {"offline_max_batched_tokens": size.offline_tokens} for size in sizes]
