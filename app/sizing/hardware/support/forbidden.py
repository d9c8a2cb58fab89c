"""Combinations that do not run although evidence for the family, or a build, would allow them."""

from __future__ import annotations

from app.sizing.hardware.support.local import GGUF
from app.sizing.hardware.support.records import SERVING, Forbidden
from app.sizing.model.tasks import ModelTask

_AS_OF = "2026-11-22"

FORBIDDEN: tuple[Forbidden, ...] = (
    Forbidden(
        "{name} runs only compiled networks of fixed shape; no engine is known to generate text on it.",
        "AWS Neuron SDK docs: model architecture fit, Inf1",
        _AS_OF,
        generations=("Inferentia 1",),
        tasks=(ModelTask.DECODER,),
        phases=(SERVING,),
    ),
    Forbidden(
        "vLLM reads GGUF files only through a plugin (since 0.24) and not for every model; use llama.cpp for GGUF.",
        "vllm-project/vllm pull request 39612 (2026-04); gpustack/runner pull request 225 (2026-07)",
        _AS_OF,
        engines=("vllm",),
        formats=GGUF,
    ),
    Forbidden(
        "The optimizer of Megatron-LM keeps a 32-bit copy of the trained weights: use precision bf16, not bf16-true.",
        "Megatron-LM, core/optimizer/optimizer_config.py at 2026-08-22: main_params_dtype",
        _AS_OF,
        engines=("megatron", "mindspeed", "nemo", "primus"),
        in_16_bit=True,
    ),
)
