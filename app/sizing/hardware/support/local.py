"""Builds of engines that people run on their own machines."""

from __future__ import annotations

from app.sizing.hardware.support.records import Build, conversion_formats
from app.sizing.model.formats import WEIGHT_FORMATS
from app.sizing.model.tasks import ModelTask

_AS_OF = "2026-11-22"
_D, _E, _R = ModelTask.DECODER, ModelTask.EMBEDDING, ModelTask.RERANKER
_S, _P = ModelTask.SPEECH, ModelTask.DIFFUSION
_TEXT = (_D, _E, _R)
GGUF = tuple(f for f in WEIGHT_FORMATS if f.startswith("gguf-"))
_WIDE = ("bf16", "fp16")
_KV16, _KV8 = ("bf16", "fp16"), ("bf16", "fp16", "fp8")
_KV_GGUF = ("fp16", "bf16", "gguf-q8_0", "gguf-q4_0")

_LLAMA = "llama.cpp README: supported back ends; docs/build.md"
_OLLAMA = "Ollama docs/gpu.md"
_MISTRAL = "mistral.rs docs: reference/hardware-support, reference/quantization-types"
_GGUF = conversion_formats(*GGUF, "mxfp4")

LOCAL_BUILDS: tuple[Build, ...] = (
    Build(
        "mlx",
        ("metal",),
        "MLX README; mlx-lm README",
        _AS_OF,
        serves=(_D,),
        multiplies=_WIDE,
        unpacks=conversion_formats("int4-mlx", "int8-mlx", "mxfp4", "nvfp4"),
        kv=_KV16,
    ),
    Build(
        "llama.cpp",
        ("cuda", "jetpack", "rocm", "xpu", "metal", "vulkan", "opencl", "cpu", "cann"),
        _LLAMA,
        _AS_OF,
        serves=_TEXT,
        unpacks=_GGUF,
        kv=_KV_GGUF,
        least=5.0,
    ),
    Build(
        "ollama",
        ("cuda", "jetpack", "metal", "cpu", "vulkan"),
        _OLLAMA,
        _AS_OF,
        serves=(_D, _E),
        unpacks=_GGUF,
        kv=("fp16", "gguf-q8_0", "gguf-q4_0"),
        least=5.0,
    ),
    Build(
        "ollama",
        ("rocm",),
        _OLLAMA,
        _AS_OF,
        serves=(_D, _E),
        unpacks=_GGUF,
        kv=("fp16", "gguf-q8_0", "gguf-q4_0"),
    ),
    Build(
        "mlc-llm",
        ("cuda", "jetpack", "rocm", "metal", "vulkan", "opencl"),
        "MLC LLM README: platforms; docs/compilation",
        _AS_OF,
        serves=(_D,),
        multiplies=("fp16", "bf16", "fp8"),
        unpacks=conversion_formats("int4-awq", "int4-gptq"),
        kv=("fp16",),
        least=7.0,
    ),
    Build(
        "exllamav2",
        ("cuda", "rocm"),
        "ExLlamaV2 README",
        _AS_OF,
        serves=(_D,),
        multiplies=_WIDE,
        unpacks=conversion_formats("int4-gptq"),
        kv=_KV16,
        least=6.0,
    ),
    Build("exllamav3", ("cuda",), "ExLlamaV3 README", _AS_OF, serves=(_D,), multiplies=_WIDE, kv=_KV16, least=8.0),
    Build(
        "mistral.rs",
        ("cuda",),
        _MISTRAL,
        _AS_OF,
        serves=(_D, _E, _P, _S),
        multiplies=(*_WIDE, "fp8"),
        unpacks=conversion_formats(*GGUF, "int4-gptq", "int4-awq", "nf4", "fp8", "mxfp4"),
        kv=_KV8,
        least=8.0,
    ),
    Build(
        "mistral.rs",
        ("metal",),
        _MISTRAL,
        _AS_OF,
        serves=(_D, _E, _P, _S),
        multiplies=_WIDE,
        unpacks=conversion_formats(*GGUF, "fp8", "mxfp4"),
        kv=_KV16,
    ),
    Build(
        "mistral.rs",
        ("cpu",),
        _MISTRAL,
        _AS_OF,
        serves=(_D, _E, _P, _S),
        multiplies=_WIDE,
        unpacks=conversion_formats(*GGUF, "fp8"),
        kv=_KV16,
    ),
    Build(
        "whisper.cpp",
        ("cuda", "jetpack", "rocm", "metal", "vulkan", "cpu", "cann"),
        "whisper.cpp README: supported platforms and back ends",
        _AS_OF,
        serves=(_S,),
        unpacks=conversion_formats(*GGUF),
        least=5.0,
    ),
    Build(
        "stable-diffusion.cpp",
        ("cuda", "rocm", "xpu", "metal", "vulkan", "cpu"),
        "stable-diffusion.cpp README: back ends",
        _AS_OF,
        serves=(_P,),
        unpacks=conversion_formats(*GGUF),
        least=5.0,
    ),
    Build(
        "ktransformers",
        ("cuda",),
        "KTransformers README",
        _AS_OF,
        serves=(_D,),
        multiplies=("bf16", "fp8", "int8"),
        unpacks=conversion_formats("int4-gptq", *GGUF),
        kv=_KV16,
        least=8.0,
    ),
    Build(
        "gpt-fast",
        ("cuda", "rocm"),
        "gpt-fast README",
        _AS_OF,
        serves=(_D,),
        multiplies=("bf16", "int8"),
        unpacks=conversion_formats("int4-gptq"),
        kv=("bf16",),
        least=8.0,
    ),
    Build(
        "autoawq",
        ("cuda",),
        "AutoAWQ README",
        _AS_OF,
        serves=(_D,),
        unpacks=conversion_formats("int4-awq", least=7.5),
        kv=_KV16,
        least=7.5,
    ),
    Build(
        "ipex-llm",
        ("xpu", "cpu"),
        "ipex-llm README",
        _AS_OF,
        serves=(_D,),
        multiplies=_WIDE,
        unpacks=conversion_formats("int4-gptq", "int4-awq", "fp8", "nf4"),
        kv=("fp16", "fp8"),
    ),
)
