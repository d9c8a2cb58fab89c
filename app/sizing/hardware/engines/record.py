"""What is told of an engine: how it issues work, divides memory, and lays models out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, TypeVar

from app.sizing.hardware import benchmarks
from app.sizing.hardware.benchmarks import Benchmark
from app.sizing.hardware.engines.scheduling import Scheduling
from app.sizing.model.tasks import TASKS, ModelTask

Release = tuple[int, int]  # major and minor number
Rule = TypeVar("Rule")

# What an engine's fraction is of, and what it will take then; `beside` is workspace and overhead, `fixed` weights too.
RULES: Mapping[str, str] = MappingProxyType(
    {
        "device": "capacity_bytes * memory_fraction",
        "static": "min(capacity_bytes * memory_fraction + beside_bytes, capacity_bytes)",
        "free": "min(fixed_bytes, capacity_bytes) + memory_fraction * max(capacity_bytes - fixed_bytes, 0)",
    }
)


@dataclass(frozen=True, slots=True)
class EngineMemory:
    """How an engine divides a device: what its fraction is of, and what it keeps beside the cache.

    `fraction_of` is "device" (weights, workspace and cache share it), "static" (weights and cache
    share it, the workspace lives in the rest) or "free" (of what loading left). `logits_copies` is
    how many float32 copies of a full step's logits sampling holds at once. `graphs_inside` says
    whether captured graphs come out of the fraction or lie beside it.
    """

    fraction: float
    fraction_of: str
    logits_copies: float
    graphs_inside: bool


# What vLLM does today.
USUAL_MEMORY = EngineMemory(0.92, "device", 3.8, graphs_inside=True)
USUAL_SCHEDULING = Scheduling()


# What a documented switch of a framework moves to the host's memory; trained parameters take their states along.
OFFLOADS = ("optimizer", "parameters", "activations")


@dataclass(frozen=True, slots=True)
class WideExperts:
    """Attention data parallel inside one replica, its experts over all ranks: what a token's exchange takes.

    Elements are sent in few bits and come back in 16. `source` says where it was read, on the day `read`.
    """

    dispatch_bytes: float
    combine_bytes: float
    source: str
    read: str


@dataclass(frozen=True, slots=True)
class ContextParallel:
    """A cache split by tokens over tensor-parallel ranks that would keep copies of it: how an engine decodes over it.

    `latent` engines split caches of latents alone. Queries are gathered and outputs scattered: `exchanged_bytes` are
    those of one of their elements, in the mean. `source` says where it was read, on the day `read`.
    """

    latent: bool
    exchanged_bytes: float
    source: str
    read: str


@dataclass(frozen=True, slots=True)
class Framework:
    """What sets a framework's layouts apart.

    `splits` are tensor, pipeline and context parallelism; `shards` ZeRO-3 over replicas. How it computes and keeps
    what it trains is its recipe (`app/sizing/hardware/recipes/`).
    """

    splits: bool = False
    shards: bool = True
    offloads: tuple[str, ...] = ()  # of OFFLOADS
    single_accelerator: bool = False


@dataclass(frozen=True, slots=True)
class Engine:
    """One engine or framework, whole.

    `runtime` says how work is issued: "captured" replays whole steps as graphs, "eager" launches kernel by kernel,
    "compiled" runs a program built ahead of time, "ggml" is llama.cpp's own. `today` is the first version, and its
    month, of what the scheduler and kernels are now; what is older is another generation. `judged_as` names the
    engine that does the work underneath, whose coefficients are its own; `adapts_as` the one that trains adapters.
    """

    name: str
    aliases: tuple[str, ...] = ()  # as people and benchmarks write it, folded
    published_as: tuple[str, ...] = ()  # words of published training results that mean it
    runtime: str = "captured"
    today: tuple[Release, str] | None = None
    memory: EngineMemory = USUAL_MEMORY
    memory_since: tuple[tuple[Release, EngineMemory], ...] = ()  # by first release, oldest first
    scheduling: Scheduling = USUAL_SCHEDULING
    scheduling_since: tuple[tuple[Release, Scheduling], ...] = ()  # likewise
    large_image: bool = False  # a whole toolkit comes along in its container image
    small: bool = False  # batching stops paying early, and the runtime is small
    ggml: bool = False  # multiplies with ggml's kernels
    splits_layers: bool = False  # gives each accelerator its share of the layers, not of every layer
    on_host: tuple[str, ...] = ()  # what it computes in the host's memory, first that which goes there first
    pads_heads: bool = False  # to a tensor-parallel degree that does not divide them
    splits_pools: str = ""  # where it is told that prefill and decode may run apart: file, and the day it was read
    serves_adapters: str = ""  # where it is told that requests of one batch may each have their own: file, day read
    licence: str = ""  # what has to be bought per accelerator to use it; most are free
    packs: bool = False  # texts of a batch, without padding the shorter ones
    wide_experts: WideExperts | None = None  # where it lays models out like that
    context_parallel: ContextParallel | None = None  # where it splits contexts in decoding
    fp8_checkpoints_cache_fp8: bool = False  # checkpoints made for it in FP8 carry an FP8 cache
    framework: Framework = Framework()
    benchmark: Benchmark = benchmarks.RUNNING  # of a stream of tokens
    one_pass: Benchmark | None = None  # of embeddings and samples; None: by what the model is
    trial: Benchmark = benchmarks.TRL  # of training
    competes: tuple[ModelTask, ...] = TASKS  # kinds of model that people run on it unasked; the others if named
    judged_as: str | None = None
    adapts_as: str | None = None

    def memory_at(self, version: str | None) -> EngineMemory:
        """Its rule of memory at a version; today's where none is said.

        Check:
            >>> old = EngineMemory(0.9, "device", 9.6, graphs_inside=False)
            >>> Engine("vllm", memory_since=(((0, 0), old),)).memory_at("0.11.2.dev690+g67475a6e8").fraction
            0.9
        """
        return _at(version, self.memory_since, self.memory)

    def scheduling_at(self, version: str | None) -> Scheduling:
        """Its scheduler at a version; today's where none is said.

        Check:
            >>> old = Scheduling(prefix_cache=False)
            >>> engine = Engine("vllm", scheduling_since=(((0, 0), old), ((0, 8), Scheduling())))
            >>> [engine.scheduling_at(version).prefix_cache for version in ("0.6.3", "0.9.1", None)]
            [False, True, True]
        """
        return _at(version, self.scheduling_since, self.scheduling)

    def generation(self, version: str | None, date: str = "") -> str:
        """Which generation a version is, else a date it was run at; what is not said is today's.

        Check:
            >>> Engine("tensorrt-llm", today=((1, 0), "2025-09")).generation(None, "2024-11")
            'before'
        """
        if self.today is None:
            return "today"
        first, month = self.today
        released = release_of(version)
        if released is not None:
            return "today" if released >= first else "before"
        return "before" if date and date < month else "today"

    def underneath(self, *, adapts: bool = False) -> str:
        """Whose coefficients it has, in training of adapters where `adapts`; its own unless it is another's front.

        Check:
            >>> [Engine("trl", judged_as="fsdp", adapts_as="peft").underneath(adapts=a) for a in (False, True)]
            ['fsdp', 'peft']
        """
        return (self.adapts_as if adapts else None) or self.judged_as or self.name

    def under(self, name: str, *aliases: str, adapts_as: str | None = None, **own: Any) -> Engine:
        """Another name that does its work with this engine, and has versions of its own; it competes where it says.

        Check:
            >>> Engine("llama.cpp", runtime="ggml").under("ollama").runtime
            'ggml'
        """
        bare: dict[str, Any] = {"published_as": (), "today": None, "competes": (), "splits_pools": ""}
        bare |= {"serves_adapters": "", "memory_since": (), "scheduling_since": ()}
        return replace(self, **bare | own, name=name, aliases=aliases, judged_as=self.name, adapts_as=adapts_as)


def _at(version: str | None, since: tuple[tuple[Release, Rule], ...], today: Rule) -> Rule:
    """What holds at a version, of what is told by first releases."""
    released = release_of(version)
    if released is None:
        return today
    return next((rule for first, rule in reversed(since) if released >= first), today)


def release_of(version: str | None) -> Release | None:
    """Major and minor number of a version; None where there are none.

    Check:
        >>> release_of("0.11.2.dev690+g67475a6e8")
        (0, 11)
    """
    digits = re.match(r"v?(\d+)\.(\d+)", version or "")
    return (int(digits[1]), int(digits[2])) if digits else None
