"""Published checkpoints of models in other number formats: repository, the tool that made it, and who loads it.

The rows are in `app/sizing/data/published_checkpoints.csv`; `checkpoint_modules.csv` has the modules that a checkpoint
leaves in 16 bit. Of several checkpoints of a model in a format, the first one that the engine loads is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from app.sizing.facts import InvalidFact, build_rows
from app.sizing.hardware.engines import engine_named
from app.sizing.model.formats import SIXTEEN_BIT, WEIGHT_FORMATS

# Engines that load the checkpoints of a tool: lists of supported quantizations in the documentation of vLLM, SGLang,
# TensorRT-LLM, TGI and LMDeploy, read 2026-11-26.
LOADED_BY: Mapping[str, tuple[str, ...]] = {
    "modelopt": ("vllm", "sglang", "tensorrt-llm"),
    "compressed-tensors": ("vllm", "sglang"),
    "fp8-blocks": ("vllm", "sglang", "tensorrt-llm", "lmdeploy"),
    "autoawq": ("vllm", "sglang", "tgi", "lmdeploy"),
    "gptq": ("vllm", "sglang", "tgi", "lmdeploy"),
    "quark": ("vllm", "sglang"),
    "gguf": ("llama.cpp", "ollama"),
    "mlx": ("mlx",),
}
# Tools whose checkpoints an engine refuses on AMD: supported_quantization in vllm/platforms/rocm.py at 001eda31 and
# rocm_supported_quantization in sglang/srt/configs/model_config.py of 0.5.23, read 2026-11-27.
REFUSED_ON_AMD: Mapping[str, tuple[str, ...]] = {"vllm": ("modelopt",), "sglang": ("modelopt", "gptq")}
# ModelOpt's checkpoints whose hf_quant_config.json states no FP8 cache: ai-dynamo/aiconfigurator@095f58a5, 2026-11-27.
WIDE_CACHE = ("nvidia/minimax-m3-nvfp4",)
GGUF = "gguf"  # format of a row whose repository has all usual GGUF types
USUAL_GGUF_TYPES = ("gguf-q8_0", "gguf-q6_k", "gguf-q5_k_m", "gguf-q4_k_m", "gguf-q4_k_s", "gguf-q3_k_m")


@dataclass(frozen=True, slots=True)
class PublishedCheckpoint:
    """A checkpoint of a model in another format than the model's own."""

    model: str
    format: str
    tool: str
    repository: str
    source: str
    as_of: str

    def __post_init__(self) -> None:
        if self.tool not in LOADED_BY:
            raise InvalidFact(f"{self.repository}: no tool {self.tool!r}. Tools: {', '.join(LOADED_BY)}.")

    @property
    def states_fp8_cache(self) -> bool:
        """Whether ModelOpt wrote an FP8 KV cache into it."""
        return self.tool == "modelopt" and self.repository.lower() not in WIDE_CACHE

    def holds(self, stored: str) -> bool:
        """Whether the repository has weights in this format."""
        return self.format == stored or (self.format == GGUF and stored in USUAL_GGUF_TYPES)


PUBLISHED_CHECKPOINTS: tuple[PublishedCheckpoint, ...] = build_rows(PublishedCheckpoint, "published_checkpoints.csv")
_OF_MODEL: dict[str, list[PublishedCheckpoint]] = {}
for _checkpoint in PUBLISHED_CHECKPOINTS:
    _OF_MODEL.setdefault(_checkpoint.model, []).append(_checkpoint)


def published_checkpoint(model_name: str, stored: str, engine: str, maker: str = "") -> PublishedCheckpoint | None:
    """The checkpoint of a model in a format that an engine loads on the accelerators of a maker; None if none is known.

    Check:
        >>> published_checkpoint("meta-llama/Llama-3.1-70B-Instruct", "fp8", "vllm").repository
        'nvidia/Llama-3.1-70B-Instruct-FP8'
        >>> published_checkpoint("meta-llama/Llama-3.1-70B-Instruct", "fp8", "vllm", "amd").repository
        'amd/Llama-3.1-70B-Instruct-FP8-KV'
    """
    refused = REFUSED_ON_AMD.get(engine, ()) if maker == "amd" else ()
    fitting = (c for c in _OF_MODEL.get(model_name, ()) if c.holds(stored))
    return next((c for c in fitting if engine in LOADED_BY[c.tool] and c.tool not in refused), None)


@dataclass(frozen=True, slots=True)
class LoadedWeights:
    """How an engine gets a model's weights in a format.

    ModelOpt writes `kv_cache_quant_algo` into its checkpoints, and --kv-cache-dtype auto follows it.

    Source: vllm-project/vllm#29980; sgl-project/sglang: configure_kv_cache_dtype in model_runner.py, 2026-11-27.
    """

    user_converts: bool  # no repository is known to have them, and the user calibrates and converts them
    fp8_cache: bool  # the checkpoint states an FP8 KV cache


@cache
def loaded_weights(model_name: str, native: str, stored: str, engine: str, maker: str) -> LoadedWeights:
    """How an engine gets the weights of a model on the accelerators of a maker.

    GGUF and MLX files are published for nearly every model, and FP8 weights need no calibration data.

    Parameters:
        native: format of the model's own repository.
    Check: NVIDIA publishes FP8 weights of this model; no INT8 ones that LMDeploy loads are known.
        >>> fp8, int8 = [
        ...     loaded_weights("meta-llama/Llama-3.3-70B-Instruct", "bf16", stored, engine, "nvidia")
        ...     for stored, engine in (("fp8", "vllm"), ("int8", "lmdeploy"))
        ... ]
        >>> (fp8.user_converts, fp8.fp8_cache), (int8.user_converts, int8.fp8_cache)
        ((False, True), (True, False))
    """
    wide = native in SIXTEEN_BIT
    if stored == native or (wide and WEIGHT_FORMATS[stored].nominal_bits >= 16):
        return LoadedWeights(user_converts=False, fp8_cache=False)
    published = published_checkpoint(model_name, stored, engine, maker)
    if published is not None:
        return LoadedWeights(user_converts=False, fp8_cache=published.states_fp8_cache)
    usual = stored == "fp8" or "gguf" in stored or "mlx" in stored
    converts = usual or (wide and stored in engine_named(engine).benchmark.converts)
    return LoadedWeights(user_converts=not converts, fp8_cache=False)


@dataclass(frozen=True, slots=True)
class CheckpointModules:
    """The quantization of a published checkpoint that its name does not say: patterns of modules left in 16 bit."""

    repository: str
    method: str
    left_wide: tuple[str, ...]
    source: str
    as_of: str
    algorithm: str = ""


CHECKPOINT_MODULES = build_rows(CheckpointModules, "checkpoint_modules.csv")
_MODULES = {c.repository.lower(): c for c in CHECKPOINT_MODULES}


def checkpoint_quantization(repository: str) -> Mapping[str, Any]:
    """The quantization of a published checkpoint as its configuration states it; empty if its modules are not known.

    Check:
        >>> checkpoint_quantization("nvidia/Gemma-4-31B-IT-NVFP4")["ignore"]
        ['*self_attn*']
    """
    known = _MODULES.get(repository.lower())
    if known is None:
        return {}
    return {"quant_method": known.method, "quant_algo": known.algorithm, "ignore": [*known.left_wide]}


def gguf_reference(checkpoint: PublishedCheckpoint, stored: str) -> str:
    """A GGUF repository with its file type, as llama.cpp and Ollama read it.

    Check:
        >>> row = PublishedCheckpoint("a/M", "gguf", "gguf", "b/M-GGUF", "a script", "2026-11-26")
        >>> gguf_reference(row, "gguf-q4_k_m")
        'b/M-GGUF:Q4_K_M'
    """
    return f"{checkpoint.repository}:{stored.removeprefix('gguf-').upper()}"
