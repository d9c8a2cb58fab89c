"""What an engine's scheduler puts into a step: its own rule by version and device, and what a caller sets of it."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from enum import StrEnum

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
    """The largest step on devices that have at least so much memory; `offline` where no server stands before it."""

    from_gib: float
    max_batched_tokens: int
    max_sequences: int
    offline_max_batched_tokens: int | None = None


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


@dataclass(frozen=True, slots=True)
class Scheduler:
    """One replica's scheduler, complete.

    `chunked`: a prompt longer than a step is split. `receive_interval_steps`: decode steps between two looks at what
    has arrived. `batch_wait_steps`: how many steps prompts wait for more of them, until they fill `batch_wait_share`
    of the tokens of a step. `planning_lag_steps`: steps that are planned ahead of the one that runs.
    `output_reserve_share`: share of a request's output whose cache is set aside when it is let in.
    """

    policy: Policy
    max_batched_tokens: float
    max_sequences: float
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
        if settings is None:
            return self
        said = {f.name: getattr(settings, f.name) for f in fields(settings)}
        return replace(self, **{name: value for name, value in said.items() if value is not None})


@dataclass(frozen=True, slots=True)
class Scheduling:
    """The scheduler of an engine at a version, when nothing is set. What is not said is as in vLLM.

    `steps` are told by memory, least first; `smaller_steps` names families that keep the first of them however large
    their memory is. The other fields are those of `Scheduler`. `sources` says of every field where it was read.
    """

    steps: tuple[StepSize, ...] = (StepSize(0, 2048, 256, 8192), StepSize(70, 8192, 1024, 16384))
    smaller_steps: tuple[str, ...] = ()
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
    sources: tuple[tuple[str, str], ...] = ()

    def step_size(self, memory_bytes: float, family: str = "") -> StepSize:
        """The largest step on a device of so much memory.

        Check:
            >>> Scheduling().step_size(24 * GIB).max_batched_tokens
            2048
        """
        memory_gib = 0.0 if family in self.smaller_steps else memory_bytes / GIB
        return next((s for s in reversed(self.steps) if memory_gib >= s.from_gib), self.steps[0])

    def on(self, memory_bytes: float, family: str = "", *, offline: bool = False) -> Scheduler:
        """The scheduler of a replica of such devices; `offline`: no server stands before it."""
        size = self.step_size(memory_bytes, family)
        own = {f.name: getattr(self, f.name) for f in fields(Scheduler) if not f.name.startswith("max_")}
        tokens = (size.offline_max_batched_tokens if offline else None) or size.max_batched_tokens
        return Scheduler(max_batched_tokens=tokens, max_sequences=size.max_sequences, **own)
