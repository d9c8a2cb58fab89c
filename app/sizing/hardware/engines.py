"""What each engine and framework is: how it issues work, divides memory, and lays models out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType

# How engines issue their work. What is not listed replays whole steps as captured graphs, as servers do.
RUNTIMES = {
    "ggml": ("llama.cpp", "ollama", "ktransformers", "mlc-llm", "mlx"),
    "eager": (
        "transformers",
        "autoawq",
        "exllamav2",
        "exllamav3",
        "deepspeed-mii",
        "pytorch",
        "optimum-neuron",
        "ipex-llm",
    ),
    "compiled": (
        "neuronx",
        "optimum-habana",
        "sambaflow",
        "fastertransformer",
        "jetstream",
        "openvino",
        "torchax",
        "tt-metal",
        "tensorrt",
        "efficient-transformers",
        "gpt-fast",
        "mindie",
    ),
}


def runtime_of(engine: str) -> str:
    return next((runtime for runtime, engines in RUNTIMES.items() if engine in engines), "captured")


# First version, and month, of what an engine's scheduler and kernels are today: vLLM's second engine became
# the default with 0.8, TensorRT-LLM's PyTorch runtime with 1.0. Training before fused attention and sequence
# parallelism were usual is another generation.
TODAY = {
    "vllm": ((0, 8), "2025-03"),
    "tensorrt-llm": ((1, 0), "2025-09"),
    "sglang": ((0, 5), "2025-08"),
    "megatron": ((0, 4), "2023-06"),
    "deepspeed": ((0, 10), "2023-06"),
}


def release_of(version: str | None) -> tuple[int, int] | None:
    """Major and minor number of a version; None where there are none.

    Check: "0.11.2.dev690+g67475a6e8" is (0, 11).
    """
    digits = re.match(r"v?(\d+)\.(\d+)", version or "")
    return (int(digits[1]), int(digits[2])) if digits else None


def generation_of(engine: str, version: str | None, date: str = "") -> str:
    """Generation of an engine by its version, else by the date it was run; what is not said is today's."""
    if engine not in TODAY:
        return "today"
    first, month = TODAY[engine]
    released = release_of(version)
    if released is not None:
        return "today" if released >= first else "before"
    return "before" if date and date < month else "today"


# Of engines that serve one family in one format the first is judged where none is named: they differ by less than
# predictions are sure of, and each more is another third of the search.
ENGINE_PREFERENCE = (
    "vllm",
    "sglang",
    "tensorrt-llm",
    "llama.cpp",
    "mlx",
    "neuronx",
    "optimum-habana",
    "jetstream",
    "mindie",
    "openvino",
    "lmdeploy",
    "tgi",
    "pytorch",
)


# Engines whose batching stops paying early, and whose runtime is small.
SMALL_ENGINES = ("llama.cpp", "ollama", "mlx", "mlc-llm", "exllamav3")


# Engines on ggml's kernels.
GGML_ENGINES = ("llama.cpp", "ollama")


# What an engine's fraction is of, and what it will take then; `beside` is workspace and overhead, `fixed` weights too.
RULES: Mapping[str, str] = MappingProxyType(
    {
        "device": "capacity_bytes * memory_fraction",
        "static": "min(capacity_bytes * memory_fraction + beside_bytes, capacity_bytes)",
        "free": "fixed_bytes + memory_fraction * max(capacity_bytes - fixed_bytes, 0)",
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
    sequences: float | None = None  # most at once, where it is not the usual
    reserves: bool = False  # keeps room for a whole request from its start


# Measured: start-up logs of vLLM 0.6 to 0.28; activation peaks of 49 runs of 0.19 on H100 are 3.8 times
# 1,024 sequences x vocabulary x 4 bytes, of 0.11 they were 9.6 times that.
_DEVICE = EngineMemory(0.92, "device", 3.8, graphs_inside=True)

ENGINES: Mapping[str, EngineMemory] = MappingProxyType(
    {
        "sglang": EngineMemory(0.88, "static", 3.8, graphs_inside=False),
        "tensorrt-llm": EngineMemory(0.9, "free", 1.0, graphs_inside=True, sequences=2048, reserves=True),
        "lmdeploy": EngineMemory(0.8, "free", 3.8, graphs_inside=True),
    }
)


@cache
def engine_memory(engine: str, version: str | None = None) -> EngineMemory:
    """The rule of an engine at a version; today's where none is said.

    vLLM took 0.90 by default before 0.22, kept graphs beside its fraction before 0.21, and sampled
    with more copies before 0.12.
    """
    found = ENGINES.get(engine, _DEVICE)
    released = release_of(version)
    if engine != "vllm" or released is None:
        return found
    return replace(
        found,
        fraction=0.92 if released >= (0, 22) else 0.9,
        logits_copies=3.8 if released >= (0, 12) else 9.6,
        graphs_inside=released >= (0, 21),
    )


# Engines that pad heads to a degree that does not divide them.
PADDING_ENGINES = ("neuronx", "optimum-habana")


@dataclass(frozen=True, slots=True)
class Framework:
    """What sets a framework's layouts and memory apart.

    `splits` are tensor, pipeline and context parallelism; `shards` ZeRO-3 over replicas. Trained
    weights that are sharded are their own 32-bit master copy (`sharded_master`), or have one beside them.
    """

    splits: bool = False
    shards: bool = True
    fused_modules: bool = False
    wide_gradients: bool = False
    sharded_master: bool = False
    fused_loss: bool = False
    offloads: bool = False
    copies_gradients: bool = False  # of its shard, in 32 bit
    alone: bool = False  # on one accelerator


FRAMEWORKS = {
    "fsdp": Framework(sharded_master=True, offloads=True),
    "deepspeed": Framework(offloads=True, copies_gradients=True),
    "peft+bitsandbytes": Framework(sharded_master=True),
    "optimum-habana": Framework(),
    "optimum-neuron": Framework(fused_modules=True),
    "unsloth": Framework(fused_modules=True, fused_loss=True, alone=True),
    "axolotl": Framework(sharded_master=True, fused_loss=True, offloads=True),
    "mlx": Framework(),
    "transformers": Framework(),
    "megatron": Framework(splits=True, shards=False, fused_modules=True),
    "nemo": Framework(splits=True, shards=False, fused_modules=True),
    "maxtext": Framework(splits=True, fused_modules=True, wide_gradients=True, sharded_master=True),
    "torchtitan": Framework(splits=True, fused_modules=True, sharded_master=True),
    "neuronx": Framework(splits=True, shards=False, fused_modules=True, wide_gradients=True),
}

_OTHER = Framework()


# Of frameworks that train a family alike the first is judged where none is named.
PREFERENCE = {name: i for i, name in enumerate(FRAMEWORKS)}


def framework_named(name: str) -> Framework:
    return FRAMEWORKS.get(name, _OTHER)
