"""Frameworks that only train. One record each."""

from __future__ import annotations

from app.sizing.hardware.benchmarks import BENCHMARKS
from app.sizing.hardware.engines.record import OFFLOADS, Engine, Framework

TRAINING = (
    # Training. Versions before fused attention and sequence parallelism are another generation.
    Engine(
        "fsdp",
        aliases=("ddp", "fsdp2", "pytorch-fsdp", "torchrun"),
        published_as=("litgpt", "lightning", "flash-attn"),
        framework=Framework(offloads=OFFLOADS),  # CPUOffloadPolicy, offload_wrapper
    ),
    Engine(
        "deepspeed",
        aliases=("deepspeed-chat",),
        published_as=("deepspeed", "hf trainer + deepspeed", "internevo", "colossal"),
        today=((0, 10), "2023-06"),
        # zero_optimization.offload_optimizer and .offload_param, activation_checkpointing.cpu_checkpointing
        framework=Framework(offloads=OFFLOADS),
    ),
    Engine(
        "peft+bitsandbytes",
        aliases=("bitsandbytes", "peft", "peft-bitsandbytes", "peft-plusbitsandbytes", "qlora"),
        published_as=("fsdp_qlora",),
        # FSDP's CPU offload, TRL's activation_offloading
        framework=Framework(offloads=("parameters", "activations")),
    ),
    Engine(
        "optimum-neuron",
        runtime="eager",
        trial=BENCHMARKS["neuron-training"],
        benchmark=BENCHMARKS["neuron"],
    ),
    Engine(
        "unsloth",
        published_as=("unsloth", "litgpt thunder unsloth"),
        # use_gradient_checkpointing="unsloth"
        framework=Framework(single_accelerator=True, offloads=("activations",)),
        trial=BENCHMARKS["unsloth"],
    ),
    Engine(
        "axolotl",
        # activation_offloading, FSDP's and DeepSpeed's own
        framework=Framework(offloads=OFFLOADS),
        trial=BENCHMARKS["axolotl"],
    ),
    Engine(
        "megatron",
        aliases=("mcore", "megatron-core", "megatron-lm"),
        published_as=("megatron", "mindspeed", "nemo"),
        today=((0, 4), "2023-06"),
        # --optimizer-cpu-offload, --cpu-offloading-num-layers, --fine-grained-activation-offloading
        framework=Framework(splits=True, shards=False, offloads=("optimizer", "activations")),
        trial=BENCHMARKS["megatron"],
    ),
    Engine(
        "nemo",
        aliases=("megatron-bridge", "nemo-framework", "nvidia-nemo"),
        framework=Framework(splits=True, shards=False, offloads=("optimizer", "activations")),
        trial=BENCHMARKS["nemo"],
    ),
    Engine(
        "maxtext",
        published_as=("maxtext", "pax", "levanter", "lingvo", "jax"),
        # parameter_memory_host_offload, remat_policy minimal_offloaded
        framework=Framework(
            splits=True,
            offloads=("parameters", "activations"),
        ),
        trial=BENCHMARKS["maxtext"],
    ),
    Engine(
        "torchtitan",
        aliases=("torch-titan",),
        published_as=("torchtitan", "nemo automodel"),
        # training.enable_cpu_offload: parameters, gradients and states
        framework=Framework(splits=True, offloads=("parameters",)),
        trial=BENCHMARKS["torchtitan"],
    ),
)
