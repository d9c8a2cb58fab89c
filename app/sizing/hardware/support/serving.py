"""Builds of data center serving engines: runtimes, lowest chip generation and formats."""

from __future__ import annotations

from app.sizing.hardware.support.records import Build, conversion_formats
from app.sizing.model.tasks import ModelTask

_AS_OF = "2026-11-22"
_D, _E, _R = ModelTask.DECODER, ModelTask.EMBEDDING, ModelTask.RERANKER
_S, _V = ModelTask.SPEECH, ModelTask.VISION
_TEXT, _ALL = (_D, _E, _R), tuple(ModelTask)
_HEARD = (*_TEXT, _S)  # vLLM lists Whisper as supported
_WIDE = ("bf16", "fp16")
_KV16, _KV8 = ("bf16", "fp16"), ("bf16", "fp16", "fp8")

_VLLM = "vLLM docs: installation pages, features/quantization, features/quantized_kvcache"
_SGLANG = "SGLang docs: get_started/install, platforms, advanced_features/quantization"
_TRTLLM = "TensorRT-LLM docs: support matrix, features/quantization"
_TGI = "text-generation-inference docs: supported hardware, quantization"
_LMDEPLOY = "LMDeploy README and docs: quantization, get_started per platform"
_OPENVINO = "OpenVINO documentation: system requirements; LLM weight compression"
_HABANA = "optimum-habana docs: validated models, quantization"
_NEURON = "AWS Neuron SDK docs: NxD Inference, model architecture fit"

# Formats that each converts to 16 bits, by lowest compute capability.
_MARLIN = conversion_formats("int4-gptq", "nf4", least=7.0)
_MARLIN |= conversion_formats("int4-awq", "int8-gptq", least=7.5) | conversion_formats(
    "fp8", "mxfp4", "nvfp4", least=8.0
)
_MARLIN_SGLANG = conversion_formats("int4-gptq", "int4-awq", "int8-gptq", "nf4", least=7.5) | conversion_formats(
    "fp8", "mxfp4", "nvfp4", least=8.0
)
_ROCM_4_BIT = conversion_formats("int4-awq", "int4-gptq", "mxfp4")

_VLLM_BUILDS = (
    Build(
        "vllm",
        ("cuda",),
        _VLLM,
        _AS_OF,
        serves=_HEARD,
        multiplies=("fp32", *_WIDE, "fp8", "int8", "nvfp4"),
        unpacks=_MARLIN,
        kv=_KV8,
        least=7.0,
    ),
    # On other devices Marlin unpacks MXFP4, also on compute capability 12.0 (vLLM issues 30135 and 31085).
    Build(
        "vllm",
        ("cuda",),
        _VLLM,
        _AS_OF,
        serves=_HEARD,
        multiplies=("mxfp4",),
        kv=_KV8,
        on=("compute capability 10.0", "compute capability 10.3", "Rubin"),
    ),
    Build(
        "vllm",
        ("jetpack",),
        _VLLM,
        _AS_OF,
        serves=_TEXT,
        multiplies=(*_WIDE, "fp8", "nvfp4", "int8"),
        unpacks=_MARLIN,
        kv=_KV8,
    ),
    Build(
        "vllm",
        ("rocm",),
        _VLLM,
        _AS_OF,
        serves=_HEARD,
        multiplies=("fp32", *_WIDE, "fp8", "int8", "mxfp4"),
        unpacks=_ROCM_4_BIT,
        kv=_KV8,
        on=("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1151", "gfx1201"),
    ),
    Build(
        "vllm",
        ("xpu",),
        _VLLM,
        _AS_OF,
        serves=_TEXT,
        multiplies=_WIDE,
        unpacks=conversion_formats("int4-awq", "int4-gptq", "fp8", "mxfp4"),
        kv=_KV8,
    ),
    Build(
        "vllm",
        ("gaudi",),
        "vllm-gaudi docs: supported features, release notes 0.13 to 0.21",
        _AS_OF,
        serves=_TEXT,
        multiplies=("bf16", "fp8"),
        unpacks=conversion_formats("int4-awq", "int4-gptq", "mxfp4"),
        kv=("bf16", "fp8"),
        on=("Gaudi 2", "Gaudi 3"),
    ),
    Build(
        "vllm",
        ("cpu",),
        _VLLM,
        _AS_OF,
        serves=_TEXT,
        multiplies=("fp32", *_WIDE, "int8"),
        unpacks=conversion_formats("int4-awq", "int4-gptq"),
        kv=_KV8,
    ),
    Build(
        "vllm",
        ("xla",),
        "tpu-inference README: v5e, v6e and v7 are recommended, v3 to v5p experimental",
        _AS_OF,
        serves=(_D,),
        multiplies=("bf16", "fp8", "int8"),
        unpacks=conversion_formats("fp8", "mxfp4", "int4-awq"),
        kv=("bf16", "fp8"),
        on=("TPU v4", "TPU v5e", "TPU v5p", "TPU v6e", "TPU v7"),
    ),
    Build(
        "vllm",
        ("neuronx",),
        "AWS Neuron docs: vLLM on NxD Inference; recipe of gpt-oss, MXFP4 on Trn3 only",
        _AS_OF,
        serves=(_D,),
        multiplies=(*_WIDE, "fp8", "mxfp4"),
        unpacks=conversion_formats("int8"),
        kv=("bf16", "fp8"),
    ),
    Build(
        "vllm",
        ("cann",),
        "vllm-ascend docs: installation, quantization",
        _AS_OF,
        serves=_TEXT,
        multiplies=(*_WIDE, "int8"),
        kv=("bf16", "int8"),
    ),
    Build("vllm", ("metal",), "vllm-metal plugin", _AS_OF, serves=(_D,), multiplies=_WIDE, kv=_KV16),
    Build("vllm", ("tt-metal",), "tt-inference-server", _AS_OF, serves=(_D,), multiplies=("bf16",), kv=("bf16",)),
)
_SGLANG_BUILDS = (
    Build(
        "sglang",
        ("cuda",),
        _SGLANG,
        _AS_OF,
        serves=_TEXT,
        multiplies=(*_WIDE, "fp8", "int8", "nvfp4", "mxfp4"),
        unpacks=_MARLIN_SGLANG,
        kv=_KV8,
        least=7.5,
    ),
    Build(
        "sglang",
        ("rocm",),
        _SGLANG,
        _AS_OF,
        serves=_TEXT,
        multiplies=(*_WIDE, "fp8", "int8", "mxfp4"),
        unpacks=_ROCM_4_BIT | conversion_formats("nvfp4"),
        kv=_KV8,
        on=("gfx90a", "gfx942", "gfx950"),
    ),
    Build("sglang", ("cpu",), _SGLANG, _AS_OF, serves=(_D,), multiplies=("bf16", "int8"), kv=_KV16, on=("AMX",)),
    Build("sglang", ("xla",), "sglang-jax README", _AS_OF, serves=(_D,), multiplies=("bf16", "fp8"), kv=("bf16",)),
    Build(
        "sglang",
        ("cann",),
        _SGLANG,
        _AS_OF,
        serves=_TEXT,
        multiplies=(*_WIDE, "int8"),
        unpacks=conversion_formats("int4-awq", "int4-gptq"),
        kv=("bf16",),
    ),
    Build("sglang", ("xpu",), _SGLANG, _AS_OF, serves=(_D,), multiplies=_WIDE, kv=("bf16",)),
    Build("sglang", ("jetpack",), _SGLANG, _AS_OF, serves=(_D,), multiplies=(*_WIDE, "fp8", "nvfp4"), kv=_KV16),
)
_OTHER_SERVERS = (
    Build(
        "deepspeed",
        ("cuda", "rocm"),
        "DeepSpeed: ZeRO-Inference",
        _AS_OF,
        serves=(_D,),
        multiplies=_WIDE,
        kv=_KV16,
    ),
    Build(
        "tensorrt-llm",
        ("cuda",),
        _TRTLLM,
        _AS_OF,
        serves=(_D,),
        multiplies=(*_WIDE, "fp8", "int8", "nvfp4", "mxfp4"),
        unpacks=conversion_formats("int4-awq", "int4-gptq", least=8.0) | conversion_formats("mxfp4", least=9.0),
        kv=("bf16", "fp16", "fp8", "int8"),
        least=8.0,
    ),
    Build(
        "tensorrt-llm",
        ("jetpack",),
        "TensorRT-LLM v0.12.0-jetson: README4Jetson, AGX Orin",
        _AS_OF,
        serves=(_D,),
        multiplies=("fp16", "int8", "fp8"),
        unpacks=conversion_formats("int4-awq", "int4-gptq"),
        kv=("fp16",),
    ),
    Build(
        "zhilight",
        ("cuda",),
        "zhihu/ZhiLight README: Ampere, Ada and Hopper",
        _AS_OF,
        serves=(_D,),
        multiplies=_WIDE,
        unpacks=conversion_formats("int4-awq", "int4-gptq", least=8.0),
        kv=_KV16,
        least=8.0,
    ),
    Build(
        "deepspeed-mii",
        ("cuda",),
        "DeepSpeed-MII README: FastGen, compute capability 8.0 and later",
        _AS_OF,
        serves=(_D,),
        multiplies=_WIDE,
        kv=_KV16,
        least=8.0,
    ),
    Build(
        "tgi",
        ("cuda",),
        _TGI,
        _AS_OF,
        serves=(_D,),
        multiplies=_WIDE,
        unpacks=conversion_formats("int4-gptq", "int4-awq", "nf4", "int8-gptq", least=7.0)
        | conversion_formats("fp8", least=8.0),
        kv=_KV8,
        least=7.0,
    ),
    # Before Hopper it uses Marlin for FP8, which converts to 16 bits (server/layers/fp8.py).
    Build("tgi", ("cuda",), _TGI, _AS_OF, serves=(_D,), multiplies=("fp8",), kv=_KV8, least=9.0),
    Build(
        "tgi",
        ("rocm",),
        _TGI,
        _AS_OF,
        serves=(_D,),
        multiplies=(*_WIDE, "fp8"),
        unpacks=conversion_formats("int4-gptq", "int4-awq"),
        kv=_KV8,
        on=("gfx90a", "gfx942"),
    ),
    Build("tgi", ("gaudi",), _TGI, _AS_OF, serves=(_D,), multiplies=("bf16", "fp8"), kv=("bf16", "fp8")),
    Build("tgi", ("neuronx", "xla"), _TGI, _AS_OF, serves=(_D,), multiplies=_WIDE, kv=("bf16",)),
    Build("tgi", ("xpu", "cpu"), _TGI, _AS_OF, serves=(_D,), multiplies=_WIDE, kv=_KV16),
    Build(
        "lmdeploy",
        ("cuda",),
        _LMDEPLOY,
        _AS_OF,
        serves=(_D,),
        multiplies=(*_WIDE, "fp8", "int8", "mxfp4"),
        unpacks=conversion_formats("int4-awq", "int4-gptq", "mxfp4", least=7.0),
        kv=("fp16", "bf16", "int8"),
        least=7.0,
    ),
    Build("lmdeploy", ("rocm",), _LMDEPLOY, _AS_OF, serves=(_D,), multiplies=_WIDE, kv=_KV16),
    Build("lmdeploy", ("cann",), _LMDEPLOY, _AS_OF, serves=(_D,), multiplies=(*_WIDE, "int8"), kv=_KV16),
    Build(
        "openvino",
        ("cpu",),
        _OPENVINO,
        _AS_OF,
        serves=_ALL,
        multiplies=("fp32", *_WIDE, "int8"),
        unpacks=conversion_formats("int4-gptq", "int4-awq", "nf4", "mxfp4"),
        kv=("fp16", "int8"),
    ),
    Build(
        "openvino",
        ("xpu",),
        _OPENVINO,
        _AS_OF,
        serves=_ALL,
        multiplies=("fp16", "int8"),
        unpacks=conversion_formats("int4-gptq", "int4-awq"),
        kv=("fp16", "int8"),
    ),
    Build("jetstream", ("xla",), "JetStream README", _AS_OF, serves=(_D,), multiplies=("bf16", "int8"), kv=("bf16",)),
    Build("mindie", ("cann",), "MindIE docs", _AS_OF, serves=(_D,), multiplies=(*_WIDE, "int8"), kv=("bf16", "int8")),
    Build(
        "optimum-habana",
        ("gaudi",),
        _HABANA,
        _AS_OF,
        serves=_ALL,
        multiplies=("bf16", "fp8"),
        unpacks=conversion_formats("int4-gptq", "int4-awq"),
        kv=("bf16", "fp8"),
    ),
    Build(
        "neuronx",
        ("neuronx",),
        _NEURON,
        _AS_OF,
        serves=_ALL,
        multiplies=(*_WIDE, "fp8", "mxfp4"),
        unpacks=conversion_formats("int8"),
        kv=("bf16", "fp8"),
    ),
    Build("neuronx", ("neuron",), _NEURON, _AS_OF, serves=(_E, _R, _V, _S), multiplies=_WIDE),
    Build("optimum-neuron", ("neuronx",), _NEURON, _AS_OF, serves=_ALL, multiplies=_WIDE, kv=("bf16",)),
)
SERVING_BUILDS: tuple[Build, ...] = (*_VLLM_BUILDS, *_SGLANG_BUILDS, *_OTHER_SERVERS)
