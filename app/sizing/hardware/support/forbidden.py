"""What does not run although a row of its family, or a build, might say so."""

from __future__ import annotations

from app.sizing.hardware.support.local import GGUF
from app.sizing.hardware.support.records import SERVING, Forbidden
from app.sizing.model.tasks import ModelTask

_AS_OF = "2026-11-22"

FORBIDDEN: tuple[Forbidden, ...] = (
    Forbidden(
        "{name} runs compiled networks of fixed shape; nobody's engine generates text on it.",
        "AWS Neuron SDK docs: model architecture fit, Inf1",
        _AS_OF,
        generations=("Inferentia 1",),
        tasks=(ModelTask.DECODER,),
        phases=(SERVING,),
    ),
    Forbidden(
        "vllm reads GGUF through a plugin only since 0.24, and not every model; llama.cpp reads these files.",
        "vllm-project/vllm pull request 39612 (2026-04); gpustack/runner pull request 225 (2026-07)",
        _AS_OF,
        engines=("vllm",),
        formats=GGUF,
    ),
    Forbidden(
        "Megatron's optimizer keeps a 32-bit copy of what it trains: precision bf16 runs there, bf16-true does not.",
        "Megatron-LM, core/optimizer/optimizer_config.py at 2026-08-22: main_params_dtype",
        _AS_OF,
        engines=("megatron", "mindspeed", "nemo", "primus"),
        in_16_bit=True,
    ),
)
