"""Record of an engine: how it launches work, divides memory, lays out models and schedules requests."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Any, Literal, TypeVar

from app.sizing.columns import GIB
from app.sizing.hardware.benchmarks import BENCHMARKS, Benchmark
from app.sizing.model.tasks import TASKS, ModelTask


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
        every = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: value for name, value in every.items() if value is not None}

    def with_settings(self, settings: SchedulerSettings | None) -> SchedulerSettings:
        """A copy in which the fields that `settings` sets take precedence.

        Check:
            >>> SchedulerSettings(max_sequences=64).with_settings(SchedulerSettings(prefix_cache=False)).explicit_fields
            {'max_sequences': 64, 'prefix_cache': False}
        """
        return self if settings is None else replace(self, **settings.explicit_fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerRules:
    """How an engine schedules, whatever the device; the defaults are those of vLLM.

    `chunked`: a prompt may be split to fill a step (chunked prefill); otherwise a prompt waits until all of it fits.
    `receive_interval_steps`: decode steps between two polls for new requests; a step with a prompt is always
    followed by a poll. `batch_wait_steps`: steps that prompts wait for more prompts, unless they and the decodes
    already fill `batch_wait_share` of a step's tokens. `planning_lag_steps`: steps planned ahead of the running one.
    `output_reserve_share`: share of the expected output for which KV cache is reserved when a request is admitted.
    `graph_tokens`: most tokens of a step with prompts that captured graphs launch; 0 if none is captured, and never
    more than twice the sequences.
    """

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
    graph_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduler(SchedulerRules):
    """Complete scheduler of one replica."""

    max_batched_tokens: int
    max_sequences: int

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduling(SchedulerRules):
    """Default scheduling rules of an engine from a version on. Fields that are not given are as in vLLM.

    `steps` lists step sizes by memory, smallest first; `steps_of` has other step sizes for families of devices. If
    `slots` is true, the number of sequences is always given when the engine starts. `sources` and `read` say where and
    when the fields were read.
    """

    steps: tuple[StepSize, ...] = (StepSize(0, 2048, 256, 8192), StepSize(70, 8192, 1024, 16384))
    steps_of: Mapping[str, tuple[StepSize, ...]] = field(default_factory=dict)
    slots: bool = False
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
        own = {f.name: getattr(self, f.name) for f in fields(SchedulerRules)}
        own["graph_tokens"] = min(self.graph_tokens, 2 * size.max_sequences)
        tokens = size.offline_tokens if offline else size.max_batched_tokens
        return Scheduler(max_batched_tokens=tokens, max_sequences=size.max_sequences, **own)


Release = tuple[int, int]  # major and minor number
Rule = TypeVar("Rule")

# Memory that an engine uses by the meaning of its memory fraction. `beside_bytes` is workspace and overhead,
# `fixed_bytes` also includes the weights.
RULES: Mapping[str, str] = {
    "device": "capacity_bytes * memory_fraction",
    "static": "min((capacity_bytes - overhead_bytes) * memory_fraction + beside_bytes, capacity_bytes)",
    "free": "min(fixed_bytes, capacity_bytes) + memory_fraction * max(capacity_bytes - fixed_bytes, 0)",
}

LATENT_COPIES = ("none", "quantized", "always", "products")


@dataclass(frozen=True, slots=True)
class EngineMemory:
    """How an engine divides device memory: what its memory fraction covers, and what lies outside it.

    `fraction_of` is "device" (weights, workspace and KV cache share the fraction), "static" (weights and KV cache
    share it, workspace and overhead use the rest) or "free" (a fraction of the memory that is free after loading).
    `logits_copies` is the number of float32 copies of a full step's logits that sampling holds at once.
    `graphs_inside` is true if captured graphs count toward the fraction. `window_holds_step` is true if a layer with a
    sliding window reserves the tokens of a whole step too. `expert_chunk_tokens` limits the tokens that expert kernels
    take at once. `keeps_workspace` is true if their buffers, and those of an indexer, outlast a step. `index_contexts`
    is the number of longest contexts that an indexer's buffer holds. `latent_copies` says which matrices of latent
    attention the engine keeps in addition to the checkpoint: none, a 16-bit copy of the up-projection (always, or if it
    is quantized), or its products with other projections. `profiles_images` is true if it reads the largest images at
    start, to reserve memory for them. `latent_alignment_bytes` is the multiple to which it pads a cached latent.
    `reserves_for_steps` is true if the default is what a reserve for steps, graphs and ranks leaves, not `fraction`.
    `hopper_rows_as_stored` is true if Hopper kernels take rows of MXFP4 experts without padding.
    """

    fraction: float
    fraction_of: Literal["device", "static", "free"]
    logits_copies: float
    graphs_inside: bool
    window_holds_step: bool = False
    expert_chunk_tokens: int = 65536  # SGLang's and vLLM's Triton kernels take at most 64k tokens
    keeps_workspace: bool = False
    index_contexts: float = 0.0
    latent_copies: Literal["none", "quantized", "always", "products"] = "none"
    profiles_images: bool = False
    latent_alignment_bytes: int = 0
    reserves_for_steps: bool = False
    hopper_rows_as_stored: bool = False


# Current behavior of vLLM.
USUAL_MEMORY = EngineMemory(
    0.92,
    "device",
    3.8,
    graphs_inside=True,
    window_holds_step=True,
    expert_chunk_tokens=16384,
    keeps_workspace=True,
    index_contexts=40.0,
    latent_copies="quantized",
    profiles_images=True,
    hopper_rows_as_stored=True,
)
USUAL_SCHEDULING = Scheduling()


# What a documented option of a framework moves to host memory; optimizer states move with trained parameters.
OFFLOADS = ("optimizer", "parameters", "activations")


@dataclass(frozen=True, slots=True)
class WideExperts:
    """Data-parallel attention within one replica with experts over all ranks: bytes of a token's all-to-all exchange.

    Elements are dispatched in few bits and combined in 16 bits. If `splits_attention` is false, one accelerator
    computes the attention of each data-parallel rank. `source` and `read` say where and when this was read.
    """

    dispatch_bytes: float
    combine_bytes: float
    source: str
    read: str
    splits_attention: bool = True


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
    month, with the current scheduler and kernels; older versions are another generation, in which the coefficients
    `renewed` differ. `judged_as` names the engine underneath, whose coefficients apply; `adapts_as` names the one that
    trains adapters.
    """

    name: str
    aliases: tuple[str, ...] = ()  # other spellings in requests and benchmarks, normalized
    published_as: tuple[str, ...] = ()  # names in published training results
    runtime: Literal["captured", "eager", "compiled", "ggml"] = "captured"
    today: tuple[Release, str] | None = None
    renewed: tuple[str, ...] = ()  # coefficients that changed with `today`; all if empty
    memory: EngineMemory = USUAL_MEMORY
    memory_since: tuple[tuple[Release, EngineMemory], ...] = ()  # by first release, oldest first
    scheduling: Scheduling = USUAL_SCHEDULING
    scheduling_since: tuple[tuple[Release, Scheduling], ...] = ()  # by first release, oldest first
    large_image: bool = False  # its container image includes a whole toolkit
    small: bool = False  # small runtime; larger batches soon stop paying off
    ggml: bool = False  # uses ggml kernels
    splits_layers: bool = False  # splits by layers, not within layers
    on_host: tuple[
        Literal["experts", "layers"], ...
    ] = ()  # what it can compute from host memory, in the order of offloading
    pads_heads: bool = False  # pads attention heads to a multiple of the tensor-parallel degree
    pipelines_chunks: str = ""  # source for chunks of one prompt in several pipeline stages: file and date read
    host_prefixes: str = ""  # source for cached prefixes in host memory: file and date read
    splits_pools: str = ""  # source for disaggregated prefill and decode: file and date read
    serves_adapters: str = ""  # source for one LoRA adapter per request: file and date read
    drafts: Mapping[str, str] = field(default_factory=dict)  # source of each way to draft tokens, by DraftMethod
    drafts_across_stages: Mapping[str, str] = field(default_factory=dict)  # the same with pipeline stages
    licence: str = ""  # license to buy per accelerator; empty if none
    packs: bool = False  # packs the texts of a batch without padding
    beams: int = 1  # beams with which it decodes one sample by default
    wide_experts: WideExperts | None = None  # None: no data-parallel attention with expert parallelism
    context_parallel: ContextParallel | None = None  # None: no decode context parallelism
    formats_with_fp8_cache: tuple[str, ...] = ()  # weight formats whose checkpoints for it use an FP8 KV cache
    framework: Framework = Framework()  # layouts in training
    benchmark: Benchmark = BENCHMARKS["running-server"]  # for streamed tokens
    one_pass: Benchmark | None = None  # for embeddings and samples; None: by kind of model
    speech: Benchmark | None = None  # for recordings, where the engine has another one for them
    trial: Benchmark = BENCHMARKS["trl"]  # for training
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

    def generation_of(self, coefficient: str, generation: str) -> str:
        """Generation whose factors a coefficient has in a generation of the engine.

        Check:
            >>> llama = Engine("llama.cpp", renewed=("attention_compute_fraction",))
            >>> [llama.generation_of(name, "before") for name in ("attention_compute_fraction", "step_overhead_s")]
            ['before', 'today']
        """
        return generation if coefficient in (self.renewed or (coefficient,)) else "today"

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
        bare |= {
            "serves_adapters": "",
            "host_prefixes": "",
            "drafts": {},
            "drafts_across_stages": {},
            "memory_since": (),
            "scheduling_since": (),
        }
        return replace(self, **bare | own, name=name, aliases=aliases, judged_as=self.name, adapts_as=adapts_as)


def _rule_at(version: str | None, since: tuple[tuple[Release, Rule], ...], today: Rule) -> Rule:
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
