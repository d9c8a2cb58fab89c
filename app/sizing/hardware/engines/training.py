"""Frameworks that train only. One record each."""

from __future__ import annotations

from app.sizing.hardware import benchmarks
from app.sizing.hardware.engines.record import Engine, Framework

TRAINING = (
    # Training. Before fused attention and sequence parallelism were usual is another generation.
    Engine(
        "fsdp",
        aliases=("ddp", "fsdp2", "pytorch-fsdp", "torchrun"),
        published_as=("litgpt", "lightning", "flash-attn"),
        framework=Framework(offloads=True),
    ),
    Engine(
        "deepspeed",
        aliases=("deepspeed-chat",),
        published_as=("deepspeed", "hf trainer + deepspeed", "internevo", "colossal"),
        today=((0, 10), "2023-06"),
        framework=Framework(offloads=True),
    ),
    Engine(
        "peft+bitsandbytes",
        aliases=("bitsandbytes", "peft", "peft-bitsandbytes", "peft-plusbitsandbytes", "qlora"),
        published_as=("fsdp_qlora",),
    ),
    Engine(
        "optimum-neuron",
        runtime="eager",
        trial=benchmarks.NEURON_TRAINING,
        benchmark=benchmarks.NEURON,
    ),
    Engine(
        "unsloth",
        published_as=("unsloth", "litgpt thunder unsloth"),
        framework=Framework(single_accelerator=True),
        trial=benchmarks.UNSLOTH,
    ),
    Engine(
        "axolotl",
        framework=Framework(offloads=True),
        trial=benchmarks.AXOLOTL,
    ),
    Engine(
        "megatron",
        aliases=("mcore", "megatron-core", "megatron-lm"),
        published_as=("megatron", "mindspeed", "nemo"),
        today=((0, 4), "2023-06"),
        framework=Framework(splits=True, shards=False),
        trial=benchmarks.MEGATRON,
    ),
    Engine(
        "nemo",
        aliases=("megatron-bridge", "nemo-framework", "nvidia-nemo"),
        framework=Framework(splits=True, shards=False),
        trial=benchmarks.NEMO,
    ),
    Engine(
        "maxtext",
        published_as=("maxtext", "pax", "levanter", "lingvo", "jax"),
        framework=Framework(splits=True),
        trial=benchmarks.MAXTEXT,
    ),
    Engine(
        "torchtitan",
        aliases=("torch-titan",),
        published_as=("torchtitan", "nemo automodel"),
        framework=Framework(splits=True),
        trial=benchmarks.TORCHTITAN,
    ),
)
