"""Builds of what serves encoders, speech, pictures and images, and of vendors' own engines."""

from __future__ import annotations

from app.sizing.hardware.support.records import Build, widened
from app.sizing.model.tasks import ModelTask

_AS_OF = "2026-11-22"
_D, _E, _R = ModelTask.DECODER, ModelTask.EMBEDDING, ModelTask.RERANKER
_S, _P, _V = ModelTask.SPEECH, ModelTask.DIFFUSION, ModelTask.VISION
_ALL = tuple(ModelTask)
_WIDE = ("bf16", "fp16")
_KV16 = ("bf16", "fp16")
_HF = "transformers documentation: quantization overview"
_EVERYWHERE = ("cuda", "jetpack", "rocm", "xpu", "gaudi", "xla", "metal", "cpu", "cann")
_ADAPTED = widened("int4-gptq", "int4-awq", "nf4", "int8-gptq")

_ENCODERS_AND_SAMPLES = (
    Build(
        "pytorch",
        _EVERYWHERE,
        "PyTorch: get started, accelerators",
        _AS_OF,
        serves=_ALL,
        multiplies=("fp32", *_WIDE),
        kv=_KV16,
        least=5.0,
    ),
    Build(
        "transformers",
        _EVERYWHERE,
        _HF,
        _AS_OF,
        serves=(_D, _E, _R, _S, _V),
        multiplies=("fp32", *_WIDE, "fp8"),
        unpacks=_ADAPTED | widened("mxfp4", least=7.5),
        kv=_KV16,
        least=5.0,
    ),
    Build(
        "diffusers",
        _EVERYWHERE,
        "diffusers documentation: installation, optimization",
        _AS_OF,
        serves=(_P,),
        multiplies=("fp32", *_WIDE),
        unpacks=widened("nf4", "fp8"),
        least=5.0,
    ),
    Build(
        "text-embeddings-inference",
        ("cuda",),
        "text-embeddings-inference README: docker images",
        _AS_OF,
        serves=(_E, _R),
        multiplies=("fp16", "fp32", "bf16"),
        least=7.5,
    ),
    Build(
        "text-embeddings-inference",
        ("cpu", "metal"),
        "text-embeddings-inference README",
        _AS_OF,
        serves=(_E, _R),
        multiplies=("fp32", "fp16"),
    ),
    Build(
        "text-embeddings-inference",
        ("gaudi",),
        "text-embeddings-inference README: Gaudi",
        _AS_OF,
        serves=(_E, _R),
        multiplies=("bf16",),
        on=("Gaudi 2", "Gaudi 3"),
    ),
    Build(
        "infinity",
        ("cuda", "rocm", "cpu", "metal"),
        "infinity README: supported hardware",
        _AS_OF,
        serves=(_E, _R, _V),
        multiplies=("fp32", *_WIDE, "int8"),
        least=7.0,
    ),
    Build(
        "onnxruntime",
        ("cuda", "jetpack", "cpu", "rocm", "metal", "xpu", "cann"),
        "ONNX Runtime: execution providers",
        _AS_OF,
        serves=(_E, _R, _S, _V, _P),
        multiplies=("fp32", "fp16", "int8"),
        least=6.0,
    ),
    Build(
        "faster-whisper",
        ("cuda",),
        "faster-whisper README; CTranslate2: quantization",
        _AS_OF,
        serves=(_S,),
        multiplies=("fp32", *_WIDE, "int8"),
        least=5.0,
    ),
    Build(
        "faster-whisper",
        ("cpu",),
        "faster-whisper README; CTranslate2: hardware support",
        _AS_OF,
        serves=(_S,),
        multiplies=("fp32", "int8"),
    ),
    Build(
        "tensorrt",
        ("cuda", "jetpack"),
        "TensorRT support matrix",
        _AS_OF,
        serves=(_E, _R, _S, _V, _P),
        multiplies=("fp32", *_WIDE, "int8", "fp8", "nvfp4"),
        least=7.5,
    ),
)
_VENDORS = (
    Build(
        "efficient-transformers",
        ("qaic",),
        "Qualcomm efficient-transformers README",
        _AS_OF,
        serves=_ALL,
        multiplies=("fp16", "int8"),
        kv=("fp16",),
    ),
    Build(
        "tt-metal",
        ("tt-metal",),
        "tt-metal README: model table",
        _AS_OF,
        serves=_ALL,
        multiplies=("bf16",),
        kv=("bf16",),
    ),
    Build(
        "sambaflow", ("sambanova",), "SambaNova documentation", _AS_OF, serves=(_D,), multiplies=("bf16",), kv=("bf16",)
    ),
    Build("cerebras", ("cerebras",), "Cerebras documentation", _AS_OF, serves=(_D,), multiplies=_WIDE, kv=("fp16",)),
    Build(
        "cambricon-bangtransformer",
        ("neuware",),
        "Cambricon documentation",
        _AS_OF,
        serves=(_D,),
        multiplies=(*_WIDE, "int8"),
        kv=("fp16", "int8"),
    ),
)
SAMPLE_BUILDS: tuple[Build, ...] = (*_ENCODERS_AND_SAMPLES, *_VENDORS)
