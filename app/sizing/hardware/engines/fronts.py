"""Engines and frameworks that run on top of another engine and share its coefficients and memory rules.

Sources: their own pages of August 2026 (what they import, or which process they start).
"""

from __future__ import annotations

from app.sizing.hardware import benchmarks
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
    _VLLM.under("aphrodite", "aphrodite-engine", benchmark=benchmarks.RUNNING),
    _VLLM.under("llm-d", benchmark=benchmarks.RUNNING),
    _VLLM.under("ray-serve", "ray-llm", "ray-serve-llm", benchmark=benchmarks.RUNNING),
    _OF["tensorrt-llm"].under("nim", "nvidia-nim", benchmark=benchmarks.RUNNING, licence=_NVIDIA),
    _OF["tensorrt-llm"].under("tensorrt-edge-llm", benchmark=benchmarks.RUNNING),
    _OF["tgi"].under("lorax", benchmark=benchmarks.RUNNING),
    _OF["exllamav3"].under("tabbyapi", benchmark=benchmarks.RUNNING),
    _LLAMA_CPP.under("lm-studio", "lmstudio", benchmark=benchmarks.RUNNING),
    _LLAMA_CPP.under("llamafile", benchmark=benchmarks.RUNNING),
    _LLAMA_CPP.under("koboldcpp", "kobold", benchmark=benchmarks.RUNNING),
    _LLAMA_CPP.under("ik-llama.cpp", "ik-llama"),
    _LLAMA_CPP.under("localai", "local-ai", benchmark=benchmarks.RUNNING),
    _LLAMA_CPP.under("ramalama", benchmark=benchmarks.RUNNING),
    _PYTORCH.under("diffusers", "huggingface-diffusers", competes=(ModelTask.DIFFUSION,)),
    _PYTORCH.under("comfyui", "comfy"),
    _PYTORCH.under("sentence-transformers", "sbert"),
    _PYTORCH.under("infinity", "infinity-emb", "michaelfeil-infinity", one_pass=benchmarks.INFINITY),
    # Training with PyTorch's sharding, adapters with PEFT.
    _FSDP.under("accelerate", "hf-trainer", "huggingface-accelerate", "transformers-trainer", adapts_as=_ADAPTERS),
    _FSDP.under("trl", adapts_as=_ADAPTERS),
    _FSDP.under("torchtune", "torch-tune", adapts_as=_ADAPTERS, trial=benchmarks.TORCHTUNE),
    _FSDP.under("llama-factory", "llamafactory", adapts_as=_ADAPTERS, trial=benchmarks.LLAMA_FACTORY),
    _FSDP.under("ms-swift", "swift", adapts_as=_ADAPTERS),
    _FSDP.under("litgpt", "lit-gpt", adapts_as=_ADAPTERS),
    _FSDP.under("lightning", "pytorch-lightning", adapts_as=_ADAPTERS),
    _FSDP.under("llm-foundry", "composer", "llmfoundry", "mosaicml-composer", adapts_as=_ADAPTERS),
    _FSDP.under("autotrain", "autotrain-advanced", adapts_as=_ADAPTERS),
    _FSDP.under("verl", adapts_as=_ADAPTERS),
    _FSDP.under("kohya", "kohya-ss", "sd-scripts", adapts_as=_ADAPTERS),
    _FSDP.under("simpletuner", adapts_as=_ADAPTERS),
    _OF["torchtitan"].under("nemo-automodel", "automodel"),
    # Training with ZeRO, Megatron layouts or JAX.
    _DEEPSPEED.under("openrlhf"),
    _DEEPSPEED.under("xtuner", adapts_as=_ADAPTERS),
    _DEEPSPEED.under("colossalai", "colossal-ai"),
    _MEGATRON.under("primus", "primus-megatron"),
    _MEGATRON.under("mindspeed", "mindspeed-llm", "modellink"),
    _MEGATRON.under("megatron-deepspeed", published_as=("megatron-deepspeed",)),
    _MEGATRON.under("gpt-neox", "neox"),
    _MEGATRON.under("nanotron"),
    _OF["nemo"].under("nemo-rl", "nemo-aligner"),
    _MAXTEXT.under("axlearn"),
    _MAXTEXT.under("easydel"),
    _MAXTEXT.under("levanter"),
    _MAXTEXT.under("maxdiffusion"),
    _MAXTEXT.under("paxml", "pax"),
)
