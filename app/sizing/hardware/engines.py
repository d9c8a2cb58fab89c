"""What each engine and framework is: how it issues work, divides memory, and lays models out. One record each.

An engine that is not listed here serves, or trains, as most do: whole steps replayed as captured graphs, vLLM's
rule of memory, states sharded over replicas. Where it runs, and in which formats, are rows of the catalogue.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from app.sizing.hardware import benchmarks
from app.sizing.hardware.benchmarks import Benchmark

Release = tuple[int, int]  # major and minor number

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
    sequences: float | None = None  # most at once, where it is not the usual
    reserves: bool = False  # keeps room for a whole request from its start


# Start-up logs of vLLM 0.6 to 0.28: it took 0.90 by default before 0.22 and kept graphs beside its fraction before
# 0.21; activation peaks of 49 runs of 0.19 on H100 are 3.8 times 1,024 sequences x vocabulary x 4 bytes, of 0.11
# they were 9.6 times that.
_USUAL_MEMORY = EngineMemory(0.92, "device", 3.8, graphs_inside=True)
_VLLM_MEMORY = (
    ((0, 0), EngineMemory(0.9, "device", 9.6, graphs_inside=False)),
    ((0, 12), EngineMemory(0.9, "device", 3.8, graphs_inside=False)),
    ((0, 21), EngineMemory(0.9, "device", 3.8, graphs_inside=True)),
    ((0, 22), _USUAL_MEMORY),
)


@dataclass(frozen=True, slots=True)
class Framework:
    """What sets a framework's layouts and memory apart.

    `splits` are tensor, pipeline and context parallelism; `shards` ZeRO-3 over replicas. Trained
    weights that are sharded are their own 32-bit master copy (`sharded_master`), or have one beside them.
    """

    splits: bool = False
    shards: bool = True
    fused_modules: bool = False
    fp32_gradients: bool = False
    sharded_master: bool = False
    fused_cross_entropy: bool = False
    offloads: bool = False
    copies_gradients: bool = False  # of its shard, in 32 bit
    single_accelerator: bool = False


@dataclass(frozen=True, slots=True)
class Engine:
    """One engine or framework, whole.

    `runtime` says how work is issued: "captured" replays whole steps as graphs, "eager" launches kernel by kernel,
    "compiled" runs a program built ahead of time, "ggml" is llama.cpp's own. `today` is the first version, and its
    month, of what the scheduler and kernels are now; what is older is another generation.
    """

    name: str
    aliases: tuple[str, ...] = ()  # as people and benchmarks write it, folded
    published_as: tuple[str, ...] = ()  # words of published training results that mean it
    runtime: str = "captured"
    today: tuple[Release, str] | None = None
    memory: EngineMemory = _USUAL_MEMORY
    memory_since: tuple[tuple[Release, EngineMemory], ...] = ()  # by first release, oldest first
    small: bool = False  # batching stops paying early, and the runtime is small
    ggml: bool = False  # multiplies with ggml's kernels
    splits_layers: bool = False  # gives each accelerator its share of the layers, not of every layer
    pads_heads: bool = False  # to a tensor-parallel degree that does not divide them
    fp8_checkpoints_cache_fp8: bool = False  # checkpoints made for it in FP8 carry an FP8 cache
    framework: Framework = Framework()
    benchmark: Benchmark = benchmarks.RUNNING  # of a stream of tokens
    one_pass: Benchmark | None = None  # of embeddings and samples; None: by what the model is
    trial: Benchmark = benchmarks.TRL  # of training

    def memory_at(self, version: str | None) -> EngineMemory:
        """Its rule of memory at a version; today's where none is said.

        Check:
            >>> engine_named("vllm").memory_at("0.11.2.dev690+g67475a6e8").fraction
            0.9
        """
        released = release_of(version)
        if released is None:
            return self.memory
        return next((rule for first, rule in reversed(self.memory_since) if released >= first), self.memory)

    def generation(self, version: str | None, date: str = "") -> str:
        """Which generation a version is, else a date it was run at; what is not said is today's.

        Check:
            >>> engine_named("tensorrt-llm").generation(None, "2024-11")
            'before'
        """
        if self.today is None:
            return "today"
        first, month = self.today
        released = release_of(version)
        if released is not None:
            return "today" if released >= first else "before"
        return "before" if date and date < month else "today"


def release_of(version: str | None) -> Release | None:
    """Major and minor number of a version; None where there are none.

    Check:
        >>> release_of("0.11.2.dev690+g67475a6e8")
        (0, 11)
    """
    digits = re.match(r"v?(\d+)\.(\d+)", version or "")
    return (int(digits[1]), int(digits[2])) if digits else None


# Families whose devices keep the smaller steps however large their memory is: vLLM leaves the A100 out of its larger
# defaults (vllm/engine/arg_utils.py, get_batch_defaults).
SMALL_STEP_FAMILIES = ("nvidia_ampere",)


_RECORDS = (
    # Serving. vLLM's second engine became the default with 0.8, TensorRT-LLM's PyTorch runtime with 1.0.
    Engine("vllm", today=((0, 8), "2025-03"), memory_since=_VLLM_MEMORY, benchmark=benchmarks.VLLM),
    Engine(
        "sglang",
        today=((0, 5), "2025-08"),
        memory=EngineMemory(0.88, "static", 3.8, graphs_inside=False),
        benchmark=benchmarks.SGLANG,
    ),
    Engine(
        "tensorrt-llm",
        aliases=("trt-llm", "tensorrtllm"),
        today=((1, 0), "2025-09"),
        memory=EngineMemory(0.9, "free", 1.0, graphs_inside=True, sequences=2048, reserves=True),
        fp8_checkpoints_cache_fp8=True,
        benchmark=benchmarks.TENSORRT_LLM,
    ),
    Engine(
        "llama.cpp",
        aliases=("llamacpp", "llama-cpp"),
        runtime="ggml",
        small=True,
        ggml=True,
        splits_layers=True,
        benchmark=benchmarks.LLAMA_CPP,
    ),
    Engine("jetstream", runtime="compiled", benchmark=benchmarks.JETSTREAM),
    Engine("mindie", runtime="compiled"),
    Engine("openvino", runtime="compiled", benchmark=benchmarks.OPENVINO),
    Engine(
        "lmdeploy",
        memory=EngineMemory(0.8, "free", 3.8, graphs_inside=True),
        benchmark=benchmarks.LMDEPLOY,
    ),
    Engine("tgi", aliases=("text-generation-inference",), benchmark=benchmarks.TGI),
    Engine("pytorch", runtime="eager"),
    Engine("ollama", runtime="ggml", small=True, ggml=True, splits_layers=True, benchmark=benchmarks.OLLAMA),
    Engine("ktransformers", runtime="ggml"),
    Engine("mlc-llm", aliases=("mlc",), runtime="ggml", small=True),
    Engine("exllamav3", runtime="eager", small=True),
    Engine("exllamav2", runtime="eager"),
    Engine("autoawq", runtime="eager"),
    Engine("deepspeed-mii", runtime="eager"),
    Engine("ipex-llm", runtime="eager"),
    Engine("sambaflow", runtime="compiled"),
    Engine("fastertransformer", runtime="compiled"),
    Engine("torchax", runtime="compiled"),
    Engine("tt-metal", runtime="compiled"),
    Engine("tensorrt", runtime="compiled", one_pass=benchmarks.TENSORRT),
    Engine("efficient-transformers", runtime="compiled"),
    Engine("gpt-fast", runtime="compiled"),
    # Serving and training.
    Engine(
        "mlx",
        runtime="ggml",
        small=True,
        benchmark=benchmarks.MLX,
        trial=benchmarks.MLX_TRAINING,
    ),
    Engine(
        "neuronx",
        aliases=("transformers-neuronx", "neuron-neuronx-distributed", "nxd-inference"),
        published_as=("neuron",),
        runtime="compiled",
        pads_heads=True,
        framework=Framework(splits=True, shards=False, fused_modules=True, fp32_gradients=True),
        benchmark=benchmarks.NEURON,
        trial=benchmarks.NEURON_TRAINING,
    ),
    Engine(
        "optimum-habana",
        aliases=("deepspeed-optimum-habana",),
        runtime="compiled",
        pads_heads=True,
        benchmark=benchmarks.OPTIMUM_HABANA,
        trial=benchmarks.OPTIMUM_HABANA_TRAINING,
    ),
    Engine(
        "transformers",
        aliases=("hf-transformers", "huggingface-transformers", "huggingface"),
        runtime="eager",
        benchmark=benchmarks.TRANSFORMERS,
    ),
    # Training. Before fused attention and sequence parallelism were usual is another generation.
    Engine(
        "fsdp",
        published_as=("litgpt", "lightning", "flash-attn"),
        framework=Framework(sharded_master=True, offloads=True),
    ),
    Engine(
        "deepspeed",
        published_as=("deepspeed", "hf trainer + deepspeed", "internevo", "colossal"),
        today=((0, 10), "2023-06"),
        framework=Framework(offloads=True, copies_gradients=True),
    ),
    Engine(
        "peft+bitsandbytes",
        published_as=("fsdp_qlora",),
        framework=Framework(sharded_master=True),
    ),
    Engine(
        "optimum-neuron",
        runtime="eager",
        framework=Framework(fused_modules=True),
        trial=benchmarks.NEURON_TRAINING,
        benchmark=benchmarks.NEURON,
    ),
    Engine(
        "unsloth",
        published_as=("unsloth", "litgpt thunder unsloth"),
        framework=Framework(fused_modules=True, fused_cross_entropy=True, single_accelerator=True),
        trial=benchmarks.UNSLOTH,
    ),
    Engine(
        "axolotl",
        framework=Framework(sharded_master=True, fused_cross_entropy=True, offloads=True),
        trial=benchmarks.AXOLOTL,
    ),
    Engine(
        "megatron",
        published_as=("megatron", "mindspeed", "nemo"),
        today=((0, 4), "2023-06"),
        framework=Framework(splits=True, shards=False, fused_modules=True),
        trial=benchmarks.MEGATRON,
    ),
    Engine(
        "nemo",
        framework=Framework(splits=True, shards=False, fused_modules=True),
        trial=benchmarks.NEMO,
    ),
    Engine(
        "maxtext",
        published_as=("maxtext", "pax", "levanter", "lingvo", "jax"),
        framework=Framework(splits=True, fused_modules=True, fp32_gradients=True, sharded_master=True),
        trial=benchmarks.MAXTEXT,
    ),
    Engine(
        "torchtitan",
        published_as=("torchtitan", "nemo automodel"),
        framework=Framework(splits=True, fused_modules=True, sharded_master=True),
        trial=benchmarks.TORCHTITAN,
    ),
)
_PLACES = {engine.name: i for i, engine in enumerate(_RECORDS)}
ENGINES: Mapping[str, Engine] = MappingProxyType({engine.name: engine for engine in _RECORDS})
ALIASES: Mapping[str, str] = MappingProxyType({alias: e.name for e in _RECORDS for alias in e.aliases})


@cache
def engine_named(name: str) -> Engine:
    """The record of an engine; one that has none is as most are."""
    return ENGINES.get(name) or Engine(name)


def place_of(name: str) -> int:
    """Where an engine is listed here; those without a record come after all others."""
    return _PLACES.get(name, len(_PLACES))
