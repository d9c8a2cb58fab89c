"""What an engine's scheduler puts into a step: its own rule by version and device, and what a caller sets of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Any

from app.sizing.units import GIB


class Policy(StrEnum):
    """What shares a step. Mixed: chunks of prompts beside the decodes. Prefill first: prompts alone, and before
    any decode. Static: a batch starts together and ends together.
    """

    MIXED = "mixed"
    PREFILL_FIRST = "prefill_first"
    STATIC = "static"


class Preemption(StrEnum):
    """What becomes of a running request when the cache is full. None: room for all of it was set aside before."""

    RECOMPUTE = "recompute"
    SWAP = "swap"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class StepSize:
    """The largest step on devices that have at least so much memory. Without a server in front, as in a batch job,
    it may hold more tokens.
    """

    from_gib: float
    max_batched_tokens: int
    max_sequences: int
    offline_max_batched_tokens: int | None = None

    @property
    def offline_tokens(self) -> int:
        return self.offline_max_batched_tokens or self.max_batched_tokens


@dataclass(frozen=True, slots=True)
class SchedulerSettings:
    """What a caller sets of a scheduler; None is the engine's own."""

    max_batched_tokens: int | None = None
    max_sequences: int | None = None
    policy: Policy | None = None
    prefix_cache: bool | None = None
    receive_interval_steps: int | None = None
    batch_wait_steps: int | None = None
    batch_wait_share: float | None = None
    planning_lag_steps: int | None = None

    @property
    def said(self) -> dict[str, Any]:
        """What is set, by name."""
        every = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: value for name, value in every.items() if value is not None}

    def with_settings(self, settings: SchedulerSettings | None) -> SchedulerSettings:
        """The same with what another sets.

        Check:
            >>> SchedulerSettings(max_sequences=64).with_settings(SchedulerSettings(prefix_cache=False)).said
            {'max_sequences': 64, 'prefix_cache': False}
        """
        return self if settings is None else replace(self, **settings.said)


@dataclass(frozen=True, slots=True)
class Scheduler:
    """One replica's scheduler, complete.

    `chunked`: a prompt is split to fill a step; else one that fits into a step waits for room for all of it.
    `receive_interval_steps`: decode steps between two looks at what has arrived; a step with a prompt is always
    followed by one. `batch_wait_steps`: how many steps prompts wait for more of them, until they and the decodes fill
    `batch_wait_share` of a step's tokens. `planning_lag_steps`: steps planned ahead of the one that runs.
    `output_reserve_share`: share of the output of a request whose cache is set aside when it is let in.
    """

    policy: Policy
    max_batched_tokens: int
    max_sequences: int
    chunked: bool
    preemption: Preemption
    prefix_cache: bool
    kv_block_tokens: int
    receive_interval_steps: int
    batch_wait_steps: int
    batch_wait_share: float
    planning_lag_steps: int
    output_reserve_share: float

    def with_settings(self, settings: SchedulerSettings | None) -> Scheduler:
        """The same with what a caller sets.

        Check:
            >>> usual = Scheduling().on(80 * GIB)
            >>> usual.with_settings(SchedulerSettings(max_sequences=64)).max_sequences
            64
        """
        return self if settings is None else replace(self, **settings.said)

    @property
    def settings(self) -> SchedulerSettings:
        """The same as a caller would set it; what cannot be set is left out."""
        return SchedulerSettings(**{f.name: getattr(self, f.name) for f in fields(SchedulerSettings)})


@dataclass(frozen=True, slots=True)
class Scheduling:
    """The scheduler of an engine from a version on, when nothing is set. What is not said is as in vLLM.

    `steps` are told by memory, least first, and `steps_of` for families of devices that have others. The other
    fields are those of `Scheduler`; with `slots`, how many sequences run is always said when it is started.
    `sources` says of fields where they were read, on the day `read`.
    """

    steps: tuple[StepSize, ...] = (StepSize(0, 2048, 256, 8192), StepSize(70, 8192, 1024, 16384))
    steps_of: Mapping[str, tuple[StepSize, ...]] = field(default_factory=dict)
    slots: bool = False
    policy: Policy = Policy.MIXED
    chunked: bool = True
    preemption: Preemption = Preemption.RECOMPUTE
    prefix_cache: bool = True
    kv_block_tokens: int = 16
    receive_interval_steps: int = 1
    batch_wait_steps: int = 0
    batch_wait_share: float = 0.0
    planning_lag_steps: int = 0
    output_reserve_share: float = 0.0
    sources: Mapping[str, str] = field(default_factory=dict)
    read: str = ""

    def of_family(self, family: str) -> tuple[StepSize, ...]:
        """The largest steps on devices of a family, by memory.

        Check:
            >>> [size.max_sequences for size in Scheduling().of_family("nvidia_hopper")]
            [256, 1024]
        """
        return self.steps_of.get(family, self.steps)

    def on(self, memory_bytes: float, family: str = "", *, offline: bool = False) -> Scheduler:
        """The scheduler of a replica of such devices; `offline`: no server stands before it."""
        sizes = self.of_family(family)
        size = next((s for s in reversed(sizes) if memory_bytes / GIB >= s.from_gib), sizes[0])
        own = {f.name: getattr(self, f.name) for f in fields(Scheduler) if not f.name.startswith("max_")}
        tokens = size.offline_tokens if offline else size.max_batched_tokens
        return Scheduler(max_batched_tokens=tokens, max_sequences=size.max_sequences, **own)
