"""Engines and frameworks that run on top of another engine and share its coefficients and memory rules.

Sources: their own pages of August 2026 (what they import, or which process they start).
"""

from __future__ import annotations

from app.sizing.hardware.benchmarks import BENCHMARKS
from app.sizing.hardware.engines.serving import SERVING
from app.sizing.hardware.engines.training import TRAINING
from app.sizing.model.tasks import ModelTask

_OF = {engine.name: engine for engine in (*SERVING, *TRAINING)}
_VLLM, _LLAMA_CPP, _PYTORCH = _OF["vllm"], _OF["llama.cpp"], _OF["pytorch"]
_FSDP, _DEEPSPEED, _MEGATRON, _MAXTEXT = _OF["fsdp"], _OF["deepspeed"], _OF["megatron"], _OF["maxtext"]
_ADAPTERS = "peft+bitsandbytes"
# NVIDIA's licensing guide of April 2026; H100 PCIe, H100 NVL and H200 NVL include the license.
_NVIDIA = "NVIDIA AI Enterprise"

FRONTS = (
    # Serving.
    _VLLM.derive_engine("aphrodite", "aphrodite-engine", benchmark=BENCHMARKS["running-server"]),
    _VLLM.derive_engine("llm-d", benchmark=BENCHMARKS["running-server"]),
    _VLLM.derive_engine("ray-serve", "ray-llm", "ray-serve-llm", benchmark=BENCHMARKS["running-server"]),
    _OF["tensorrt-llm"].derive_engine("nim", "nvidia-nim", benchmark=BENCHMARKS["running-server"], licence=_NVIDIA),
    _OF["tensorrt-llm"].derive_engine("tensorrt-edge-llm", benchmark=BENCHMARKS["running-server"]),
    _OF["tgi"].derive_engine("lorax", benchmark=BENCHMARKS["running-server"]),
    _OF["exllamav3"].derive_engine("tabbyapi", benchmark=BENCHMARKS["running-server"]),
    _LLAMA_CPP.derive_engine("lm-studio", "lmstudio", benchmark=BENCHMARKS["running-server"]),
    _LLAMA_CPP.derive_engine("llamafile", benchmark=BENCHMARKS["running-server"]),
    _LLAMA_CPP.derive_engine("koboldcpp", "kobold", benchmark=BENCHMARKS["running-server"]),
    _LLAMA_CPP.derive_engine("ik-llama.cpp", "ik-llama"),
    _LLAMA_CPP.derive_engine("localai", "local-ai", benchmark=BENCHMARKS["running-server"]),
    _LLAMA_CPP.derive_engine("ramalama", benchmark=BENCHMARKS["running-server"]),
    _PYTORCH.derive_engine("diffusers", "huggingface-diffusers", competes=(ModelTask.DIFFUSION,)),
    _PYTORCH.derive_engine("comfyui", "comfy"),
    _PYTORCH.derive_engine("sentence-transformers", "sbert"),
    _PYTORCH.derive_engine("infinity", "infinity-emb", "michaelfeil-infinity", one_pass=BENCHMARKS["infinity"]),
    # Training with PyTorch's sharding, adapters with PEFT.
    _FSDP.derive_engine(
        "accelerate", "hf-trainer", "huggingface-accelerate", "transformers-trainer", adapts_as=_ADAPTERS
    ),
    _FSDP.derive_engine("trl", adapts_as=_ADAPTERS),
    _FSDP.derive_engine("torchtune", "torch-tune", adapts_as=_ADAPTERS, trial=BENCHMARKS["torchtune"]),
    _FSDP.derive_engine("llama-factory", "llamafactory", adapts_as=_ADAPTERS, trial=BENCHMARKS["llama-factory"]),
    _FSDP.derive_engine("ms-swift", "swift", adapts_as=_ADAPTERS),
    _FSDP.derive_engine("litgpt", "lit-gpt", adapts_as=_ADAPTERS),
    _FSDP.derive_engine("lightning", "pytorch-lightning", adapts_as=_ADAPTERS),
    _FSDP.derive_engine("llm-foundry", "composer", "llmfoundry", "mosaicml-composer", adapts_as=_ADAPTERS),
    _FSDP.derive_engine("autotrain", "autotrain-advanced", adapts_as=_ADAPTERS),
    _FSDP.derive_engine("verl", adapts_as=_ADAPTERS),
    _FSDP.derive_engine("kohya", "kohya-ss", "sd-scripts", adapts_as=_ADAPTERS),
    _FSDP.derive_engine("simpletuner", adapts_as=_ADAPTERS),
    _OF["torchtitan"].derive_engine("nemo-automodel", "automodel"),
    # Training with ZeRO, Megatron layouts or JAX.
    _DEEPSPEED.derive_engine("openrlhf"),
    _DEEPSPEED.derive_engine("xtuner", adapts_as=_ADAPTERS),
    _DEEPSPEED.derive_engine("colossalai", "colossal-ai"),
    _MEGATRON.derive_engine("primus", "primus-megatron"),
    _MEGATRON.derive_engine("mindspeed", "mindspeed-llm", "modellink"),
    _MEGATRON.derive_engine("megatron-deepspeed", published_as=("megatron-deepspeed",)),
    _MEGATRON.derive_engine("gpt-neox", "neox"),
    _MEGATRON.derive_engine("nanotron"),
    _OF["nemo"].derive_engine("nemo-rl", "nemo-aligner"),
    _MAXTEXT.derive_engine("axlearn"),
    _MAXTEXT.derive_engine("easydel"),
    _MAXTEXT.derive_engine("levanter"),
    _MAXTEXT.derive_engine("maxdiffusion"),
    _MAXTEXT.derive_engine("paxml", "pax"),
)
