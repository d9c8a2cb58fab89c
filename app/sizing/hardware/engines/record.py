"""Record of an engine: how it launches work, divides memory and lays out models."""

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

# Memory that an engine uses by the meaning of its memory fraction. `beside_bytes` is workspace and overhead,
# `fixed_bytes` also includes the weights.
RULES: Mapping[str, str] = MappingProxyType(
    {
        "device": "capacity_bytes * memory_fraction",
        "static": "min(capacity_bytes * memory_fraction + beside_bytes, capacity_bytes)",
        "free": "min(fixed_bytes, capacity_bytes) + memory_fraction * max(capacity_bytes - fixed_bytes, 0)",
    }
)


@dataclass(frozen=True, slots=True)
class EngineMemory:
    """How an engine divides device memory: what its memory fraction covers, and what lies outside it.

    `fraction_of` is "device" (weights, workspace and KV cache share the fraction), "static" (weights and KV cache
    share it, the workspace uses the rest) or "free" (a fraction of the memory that is free after loading).
    `logits_copies` is the number of float32 copies of a full step's logits that sampling holds at once.
    `graphs_inside` is true if captured graphs count toward the fraction.
    """

    fraction: float
    fraction_of: str
    logits_copies: float
    graphs_inside: bool


# Current behavior of vLLM.
USUAL_MEMORY = EngineMemory(0.92, "device", 3.8, graphs_inside=True)
USUAL_SCHEDULING = Scheduling()


# What a documented option of a framework moves to host memory; optimizer states move with trained parameters.
OFFLOADS = ("optimizer", "parameters", "activations")


@dataclass(frozen=True, slots=True)
class WideExperts:
    """Data-parallel attention within one replica with experts over all ranks: bytes of a token's all-to-all exchange.

    Elements are dispatched in few bits and combined in 16 bits. `source` and `read` say where and when this was
    read.
    """

    dispatch_bytes: float
    combine_bytes: float
    source: str
    read: str


@dataclass(frozen=True, slots=True)
class ContextParallel:
    """Decode context parallelism: tensor-parallel ranks split a KV cache by tokens instead of copying it.

    If `latent` is true, the engine splits only latent caches (MLA). Queries are gathered and outputs scattered:
    `exchanged_bytes` is the mean size of one exchanged element. `source` and `read` say where and when this was
    read.
    """

    latent: bool
    exchanged_bytes: float
    source: str
    read: str


@dataclass(frozen=True, slots=True)
class Framework:
    """Layout capabilities of a training framework.

    `splits`: tensor, pipeline and context parallelism; `shards`: ZeRO-3 over replicas. Its recipe
    (`app/sizing/hardware/recipes/`) says how it computes and stores what it trains.
    """

    splits: bool = False
    shards: bool = True
    offloads: tuple[str, ...] = ()  # of OFFLOADS
    single_accelerator: bool = False


@dataclass(frozen=True, slots=True)
class Engine:
    """One engine or framework.

    `runtime` is how work is launched: "captured" replays whole steps as graphs, "eager" launches kernel by kernel,
    "compiled" runs a program built ahead of time, "ggml" is llama.cpp's own. `today` is the first version, and its
    month, with the current scheduler and kernels; older versions are another generation. `judged_as` names the
    engine underneath, whose coefficients apply; `adapts_as` names the one that trains adapters.
    """

    name: str
    aliases: tuple[str, ...] = ()  # other spellings in requests and benchmarks, normalized
    published_as: tuple[str, ...] = ()  # names in published training results
    runtime: str = "captured"
    today: tuple[Release, str] | None = None
    memory: EngineMemory = USUAL_MEMORY
    memory_since: tuple[tuple[Release, EngineMemory], ...] = ()  # by first release, oldest first
    scheduling: Scheduling = USUAL_SCHEDULING
    scheduling_since: tuple[tuple[Release, Scheduling], ...] = ()  # by first release, oldest first
    large_image: bool = False  # its container image includes a whole toolkit
    small: bool = False  # small runtime; larger batches soon stop paying off
    ggml: bool = False  # uses ggml kernels
    splits_layers: bool = False  # splits by layers, not within layers
    on_host: tuple[str, ...] = ()  # what it can compute from host memory, in the order of offloading
    pads_heads: bool = False  # pads attention heads to a multiple of the tensor-parallel degree
    splits_pools: str = ""  # source for disaggregated prefill and decode: file and date read
    serves_adapters: str = ""  # source for one LoRA adapter per request: file and date read
    licence: str = ""  # license to buy per accelerator; empty if none
    packs: bool = False  # packs the texts of a batch without padding
    wide_experts: WideExperts | None = None  # None: no data-parallel attention with expert parallelism
    context_parallel: ContextParallel | None = None  # None: no decode context parallelism
    fp8_checkpoints_cache_fp8: bool = False  # its FP8 checkpoints use an FP8 KV cache
    framework: Framework = Framework()  # layouts in training
    benchmark: Benchmark = benchmarks.RUNNING  # for streamed tokens
    one_pass: Benchmark | None = None  # for embeddings and samples; None: by kind of model
    trial: Benchmark = benchmarks.TRL  # for training
    competes: tuple[ModelTask, ...] = TASKS  # kinds of model for which it competes without being named
    judged_as: str | None = None  # engine underneath
    adapts_as: str | None = None  # engine that trains adapters

    def memory_at(self, version: str | None) -> EngineMemory:
        """Memory rule at a version; the current rule if `version` is None.

        Check:
            >>> old = EngineMemory(0.9, "device", 9.6, graphs_inside=False)
            >>> Engine("vllm", memory_since=(((0, 0), old),)).memory_at("0.11.2.dev690+g67475a6e8").fraction
            0.9
        """
        return _rule_at(version, self.memory_since, self.memory)

    def scheduling_at(self, version: str | None) -> Scheduling:
        """Scheduling rules at a version; the current rules if `version` is None.

        Check:
            >>> old = Scheduling(prefix_cache=False)
            >>> engine = Engine("vllm", scheduling_since=(((0, 0), old), ((0, 8), Scheduling())))
            >>> [engine.scheduling_at(version).prefix_cache for version in ("0.6.3", "0.9.1", None)]
            [False, True, True]
        """
        return _rule_at(version, self.scheduling_since, self.scheduling)

    def generation_at(self, version: str | None, date: str = "") -> str:
        """Generation of a version, or of the date of a run if the version is unknown; "today" if both are.

        Check:
            >>> Engine("tensorrt-llm", today=((1, 0), "2025-09")).generation_at(None, "2024-11")
            'before'
        """
        if self.today is None:
            return "today"
        first, month = self.today
        released = release_of(version)
        if released is not None:
            return "today" if released >= first else "before"
        return "before" if date and date < month else "today"

    def base_engine(self, *, adapts: bool = False) -> str:
        """Name of the engine whose coefficients apply, in adapter training if `adapts`; its own name if it is no front.

        Check:
            >>> [Engine("trl", judged_as="fsdp", adapts_as="peft").base_engine(adapts=a) for a in (False, True)]
            ['fsdp', 'peft']
        """
        return (self.adapts_as if adapts else None) or self.judged_as or self.name

    def derive_engine(self, name: str, *aliases: str, adapts_as: str | None = None, **own: Any) -> Engine:
        """Record of an engine that runs on top of this one, with its own name and versions.

        It competes for no kind of model unless `competes` is given.

        Check:
            >>> Engine("llama.cpp", runtime="ggml").derive_engine("ollama").runtime
            'ggml'
        """
        bare: dict[str, Any] = {"published_as": (), "today": None, "competes": (), "splits_pools": ""}
        bare |= {"serves_adapters": "", "memory_since": (), "scheduling_since": ()}
        return replace(self, **bare | own, name=name, aliases=aliases, judged_as=self.name, adapts_as=adapts_as)


def _rule_at(version: str | None, since: tuple[tuple[Release, Rule], ...], today: Rule) -> Rule:
    """The rule that applies at a version, from rules by first release."""
    released = release_of(version)
    if released is None:
        return today
    return next((rule for first, rule in reversed(since) if released >= first), today)


def release_of(version: str | None) -> Release | None:
    """Major and minor number of a version; None if the text has none.

    Check:
        >>> release_of("0.11.2.dev690+g67475a6e8")
        (0, 11)
    """
    digits = re.match(r"v?(\d+)\.(\d+)", version or "")
    return (int(digits[1]), int(digits[2])) if digits else None
