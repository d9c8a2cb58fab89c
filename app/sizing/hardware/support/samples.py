"""Builds of engines for embedding, speech, diffusion and vision models, and of vendors' own engines."""

from __future__ import annotations

from app.sizing.hardware.support.records import Build, conversion_formats
from app.sizing.model.tasks import ModelTask

_AS_OF = "2026-11-22"
_D, _E, _R = ModelTask.DECODER, ModelTask.EMBEDDING, ModelTask.RERANKER
_S, _P, _V = ModelTask.SPEECH, ModelTask.DIFFUSION, ModelTask.VISION
_ALL = tuple(ModelTask)
_WIDE = ("bf16", "fp16")
_KV16 = ("bf16", "fp16")
_HF = "transformers documentation: quantization overview"
_TEI = "text-embeddings-inference docs: supported models and hardware"
_CTRANSLATE2 = "CTranslate2 docs: quantization, hardware support"
_HEARD = (_S, _D, _E)
_EVERYWHERE = ("cuda", "jetpack", "rocm", "xpu", "gaudi", "xla", "metal", "cpu", "cann")
_ADAPTED = conversion_formats("int4-gptq", "int4-awq", "nf4", "int8-gptq")

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
        "pytorch",
        ("cpu",),
        "Intel Extension for PyTorch: INT8 and weight-only INT4; MLPerf Inference submissions on Xeon",
        _AS_OF,
        serves=_ALL,
        multiplies=("int8",),
        unpacks=conversion_formats("int4-awq", "int4-gptq"),
        kv=_KV16,
    ),
    Build(
        "transformers",
        tuple(r for r in _EVERYWHERE if r != "metal"),
        _HF,
        _AS_OF,
        serves=(_D, _E, _R, _S, _V),
        multiplies=("fp32", *_WIDE, "fp8"),
        unpacks=_ADAPTED | conversion_formats("mxfp4", least=7.5),
        kv=_KV16,
        least=5.0,
    ),
    Build(
        "transformers",
        ("metal",),
        f"{_HF}; bitsandbytes 0.50 README: Metal",
        _AS_OF,
        serves=(_D, _E, _R, _S, _V),
        multiplies=("fp32", *_WIDE),
        unpacks=conversion_formats("nf4"),
        kv=_KV16,
    ),
    Build(
        "comfyui",
        ("cuda", "rocm", "xpu", "metal", "cpu", "cann"),
        "ComfyUI README: GPUs it runs on",
        _AS_OF,
        serves=(_P,),
        multiplies=("fp32", *_WIDE, "fp8"),
        unpacks=conversion_formats("fp8"),
        least=5.0,
    ),
    Build(
        "sentence-transformers",
        _EVERYWHERE,
        "sbert.net: installation; runs with PyTorch",
        _AS_OF,
        serves=(_E, _R),
        trains=(_E, _R),
        methods=("full", "lora"),
        multiplies=("fp32", *_WIDE),
        least=5.0,
    ),
    Build(
        "maxdiffusion",
        ("xla", "cuda"),
        "MaxDiffusion README: TPUs and GPUs",
        _AS_OF,
        serves=(_P,),
        trains=(_P,),
        methods=("full", "lora"),
        multiplies=("bf16", "fp32"),
        least=8.0,
    ),
    Build(
        "diffusers",
        _EVERYWHERE,
        "diffusers documentation: installation, optimization",
        _AS_OF,
        serves=(_P,),
        multiplies=("fp32", *_WIDE),
        unpacks=conversion_formats("nf4", "fp8"),
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
        ("rocm",),
        f"{_TEI}, experimental on MI200 and MI300",
        _AS_OF,
        serves=(_E, _R),
        multiplies=("fp32", "fp16", "bf16"),
        on=("gfx90a", "gfx942"),
    ),
    Build(
        "text-embeddings-inference",
        ("xpu",),
        f"{_TEI}; Intel containers",
        _AS_OF,
        serves=(_E, _R),
        multiplies=("fp32", "fp16", "bf16"),
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
        "infinity",
        ("neuronx",),
        "infinity README: AWS INF2",
        _AS_OF,
        serves=(_E,),
        multiplies=_WIDE,
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
    Build("ctranslate2", ("cuda",), _CTRANSLATE2, _AS_OF, serves=_HEARD, multiplies=("fp32",), least=3.5),
    Build(
        "ctranslate2",
        ("cuda",),
        _CTRANSLATE2,
        _AS_OF,
        serves=_HEARD,
        multiplies=("fp32", *_WIDE),
        unpacks=conversion_formats("int4-awq", least=7.5),
        kv=_KV16,
        least=7.0,
    ),
    # INT8 is disabled on compute capability 12.0 (CHANGELOG, pull request 1937).
    Build(
        "ctranslate2",
        ("cuda",),
        _CTRANSLATE2,
        _AS_OF,
        serves=_HEARD,
        multiplies=("int8",),
        unpacks=conversion_formats("int8", least=6.1),
        kv=_KV16,
        on=tuple(f"compute capability {c}" for c in (6.1, 7.0, 7.5, 8.0, 8.6, 8.9, 9.0, 10.0, 10.3)),
    ),
    Build("ctranslate2", ("rocm",), f"{_CTRANSLATE2}; CHANGELOG", _AS_OF, serves=_HEARD, multiplies=("fp32", *_WIDE)),
    Build("ctranslate2", ("cpu",), _CTRANSLATE2, _AS_OF, serves=_HEARD, multiplies=("fp32", "int8"), kv=("fp32",)),
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
