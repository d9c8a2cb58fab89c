"""Scheduling rules of engines by version and device, and the scheduler settings of a request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Any

from app.sizing.units import GIB


class Policy(StrEnum):
    """What shares a step.

    Mixed: prompt chunks and decodes share a step. Prefill first: prompts run alone, before any decode. Static: a
    batch starts together and ends together.
    """

    MIXED = "mixed"
    PREFILL_FIRST = "prefill_first"
    STATIC = "static"


class Preemption(StrEnum):
    """What happens to a running request if the KV cache is full. None: the whole request is reserved from its start."""

    RECOMPUTE = "recompute"
    SWAP = "swap"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class StepSize:
    """Largest step on devices with at least `from_gib` GiB; a batch job without a server may use larger steps."""

    from_gib: float
    max_batched_tokens: int
    max_sequences: int
    offline_max_batched_tokens: int | None = None

    @property
    def offline_tokens(self) -> int:
        return self.offline_max_batched_tokens or self.max_batched_tokens


@dataclass(frozen=True, slots=True)
class SchedulerSettings:
    """Scheduler settings of a request; None keeps the engine's default."""

    max_batched_tokens: int | None = None
    max_sequences: int | None = None
    policy: Policy | None = None
    prefix_cache: bool | None = None
    receive_interval_steps: int | None = None
    batch_wait_steps: int | None = None
    batch_wait_share: float | None = None
    planning_lag_steps: int | None = None

    @property
    def explicit_fields(self) -> dict[str, Any]:
        """The fields that are set, by name."""
        every = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: value for name, value in every.items() if value is not None}

    def with_settings(self, settings: SchedulerSettings | None) -> SchedulerSettings:
        """A copy in which the fields that `settings` sets take precedence.

        Check:
            >>> SchedulerSettings(max_sequences=64).with_settings(SchedulerSettings(prefix_cache=False)).explicit_fields
            {'max_sequences': 64, 'prefix_cache': False}
        """
        return self if settings is None else replace(self, **settings.explicit_fields)


@dataclass(frozen=True, slots=True)
class Scheduler:
    """Complete scheduler of one replica.

    `chunked`: a prompt may be split to fill a step (chunked prefill); otherwise a prompt waits until all of it fits.
    `receive_interval_steps`: decode steps between two polls for new requests; a step with a prompt is always
    followed by a poll. `batch_wait_steps`: steps that prompts wait for more prompts, unless they and the decodes
    already fill `batch_wait_share` of a step's tokens. `planning_lag_steps`: steps planned ahead of the running one.
    `output_reserve_share`: share of the expected output for which KV cache is reserved when a request is admitted.
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
        """A copy with the settings of a request.

        Check:
            >>> usual = Scheduling().for_device(80 * GIB)
            >>> usual.with_settings(SchedulerSettings(max_sequences=64)).max_sequences
            64
        """
        return self if settings is None else replace(self, **settings.explicit_fields)

    @property
    def to_settings(self) -> SchedulerSettings:
        """The fields that a request can set."""
        return SchedulerSettings(**{f.name: getattr(self, f.name) for f in fields(SchedulerSettings)})


@dataclass(frozen=True, slots=True)
class Scheduling:
    """Default scheduling rules of an engine from a version on. Fields that are not given are as in vLLM.

    `steps` lists step sizes by memory, smallest first; `steps_of` has other step sizes for families of devices. If
    `slots` is true, the number of sequences is always given when the engine starts. The other fields are those of
    `Scheduler`. `sources` and `read` say where and when the fields were read.
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

    def family_step_sizes(self, family: str) -> tuple[StepSize, ...]:
        """Largest steps on devices of a family, by memory.

        Check:
            >>> [size.max_sequences for size in Scheduling().family_step_sizes("nvidia_hopper")]
            [256, 1024]
        """
        return self.steps_of.get(family, self.steps)

    def for_device(self, memory_bytes: float, family: str = "", *, offline: bool = False) -> Scheduler:
        """Scheduler of a replica on devices with `memory_bytes` of memory; `offline` if no server runs in front of
        it.
        """
        sizes = self.family_step_sizes(family)
        size = next((s for s in reversed(sizes) if memory_bytes / GIB >= s.from_gib), sizes[0])
        own = {f.name: getattr(self, f.name) for f in fields(Scheduler) if not f.name.startswith("max_")}
        tokens = size.offline_tokens if offline else size.max_batched_tokens
        return Scheduler(max_batched_tokens=tokens, max_sequences=size.max_sequences, **own)
