"""Recipes of Megatron-LM and DeepSpeed and of frameworks built on them, of JAX, and of vendors' frameworks."""

from __future__ import annotations

from dataclasses import replace

from app.sizing.hardware.recipes.record import TrainingRecipe

_AS_OF = "2026-11-22"

_MEGATRON = TrainingRecipe(
    "megatron",
    version="core 0.19",
    loss="in_place",
    kernels="fused",
    weights="master",
    gradients="32bit",
    selective="attention",
    optimizer_implementation="fused",
    sent_copies=1.0,
    source="Megatron-LM core_v0.19.0, training/arguments.py, tensor_parallel/cross_entropy.py, optimizer",
    as_of="2026-08-19",
    sources={
        "sent_copies": "moe/experts.py weights tokens within the gate; permute and unpermute keep places alone",
        "gradients": "arguments.py: --bf16 accumulates and reduces in 32 bit unless --grad-reduce-in-bf16",
        "loss": "vocab_parallel_cross_entropy: one 32-bit copy, whose softmax becomes the gradient",
        "selective": "transformer_config.py: recompute_modules core_attn unless named",
        "bucket_bytes": "param_and_grad_buffer.py: buckets are views of the gradients, reduced in place",
    },
)
_NEMO = replace(
    _MEGATRON,
    framework="nemo",
    version="bridge 0.6",
    adapter_precision="16bit",
    source="Megatron Bridge v0.6.0, recipes/llama/h100/llama3.py, training/mixed_precision.py",
    as_of="2026-08-22",
    sources={
        **_MEGATRON.sources,
        "gradients": "grad_reduce_in_fp32 True in recipes; performance recipes say False (perf_recipes/_common.py)",
        "loss": "cross_entropy_fusion_impl te: the gradient in 32 bits with 16-bit logits since TE 2.18 (2026-07-09)",
        "adapter_precision": "peft/lora.py: dropout 0; adapters in the model's own type (recall)",
    },
)
_NEOX = replace(
    _MEGATRON,
    framework="gpt-neox",
    version="2.0",
    kernels="eager",
    gradients="copied",
    selective="none",
    bucket_bytes=1e9,
    source="GPT-NeoX configs/neox_arguments.md: DeepSpeed beneath, checkpoint_activations off, no fusion by default",
    as_of="2026-05-19",
    sources={},
)
_NANOTRON = replace(
    _MEGATRON,
    framework="nanotron",
    version="0.5",
    kernels="eager",
    selective="none",
    source="nanotron config/config.py, examples: accumulate_grad_in_fp32, torch_adam_is_fused, recompute_layer off",
    as_of="2026-04-07",
    sources={"loss": "parallel/tensor_parallel/functional.py, sharded_cross_entropy"},
)
_MINDSPEED = replace(
    _MEGATRON,
    framework="mindspeed",
    version="",
    source="recall: MindSpeed-LLM patches Megatron-LM for Ascend and keeps its defaults",
    as_of=_AS_OF,
    sources={},
)
_PRIMUS = replace(_MINDSPEED, framework="primus", source="recall: Primus runs Megatron-LM with its defaults")

_DEEPSPEED = TrainingRecipe(
    "deepspeed",
    version="0.16",
    loss="upcast",
    weights="master",
    gradients="copied",
    selective="none",
    optimizer_implementation="fused",
    adapter_precision="autocast",
    gathers_to_recompute=True,
    bucket_bytes=1e9,
    live_params=1e9,
    source="DeepSpeed v0.16, runtime/zero/config.py, engine.py, zero/stage3.py; FusedAdam",
    as_of="2025-02-21",
    sources={
        "loss": "the model's own: transformers' ForCausalLMLoss",
        "gradients": "16 bit under ZeRO (engine.py, get_data_types); stage_1_and_2.py and stage3.py step a 32-bit copy",
        "gathers_to_recompute": "Rajbhandari et al. 2021 (arXiv:2104.07857), section 4.1",
        "bucket_bytes": "reduce_bucket_size 5e8 elements, one buffer of it (stage_1_and_2.py, stage3.py)",
        "live_params": "stage3_max_live_parameters and stage3_max_reuse_distance 1e9",
        "adapter_precision": "recall",
    },
)
_OPENRLHF = replace(
    _DEEPSPEED,
    framework="openrlhf",
    version="",
    recomputation="full",
    source="recall: OpenRLHF on DeepSpeed, gradient_checkpointing in its scripts, packing_samples",
    as_of=_AS_OF,
    sources={},
)
_XTUNER = replace(
    _OPENRLHF,
    framework="xtuner",
    kbit_widening=True,
    adapter_dropout=True,
    source="recall: XTuner's configs: DeepSpeed, activation checkpointing, pack_to_max_length, lora_dropout 0.1",
)
_MEGATRON_DEEPSPEED = replace(
    _MEGATRON,
    framework="megatron-deepspeed",
    version="",
    gradients="copied",
    bucket_bytes=1e9,
    source="recall: Megatron-DeepSpeed, Megatron's layers under DeepSpeed's optimizers of stage 1",
    as_of=_AS_OF,
    sources={},
)
_COLOSSALAI = replace(
    _DEEPSPEED,
    framework="colossalai",
    version="0.5",
    gradients="as_weights",
    recomputation="none",
    bucket_bytes=24e6,
    source="ColossalAI v0.5.1, booster/plugin: master_weights, HybridAdam; low_level_zero: buckets of 12 million",
    as_of="2026-04-09",
    sources={"loss": "recall: transformers' own loss, sharded with tensor parallelism"},
)
_INTERNEVO = replace(
    _MEGATRON,
    framework="internevo",
    version="0.3",
    loss="compiled",
    gradients="as_weights",
    selective="none",
    bucket_bytes=512 * 2**20,
    source="InternEvo configs/7B_sft.py: bf16, zero1, parallel_output, reduce_bucket_size 512 MiB, checkpoint off",
    as_of="2024-03-28",
    sources={"loss": "recall: flash-attn's cross entropy", "gradients": "recall"},
)

# XLA compiles loss and layers; which intermediates it stores is inferred.
_MAXTEXT = TrainingRecipe(
    "maxtext",
    loss="compiled",
    kernels="compiled",
    weights="sharded",
    gradients="32bit",
    recomputation="full",
    optimizer_implementation="fused",
    adapter_precision="16bit",
    source="MaxText configs/base.yml: weight_dtype float32, dtype bfloat16, remat_policy full, packing",
    as_of="2026-08-22",
    sources={
        "loss": "utils/max_utils.py, cross_entropy_with_logits; num_vocab_tiling 1; what XLA keeps is inferred",
        "selective": "remat_policy minimal keeps the outputs of matrices",
        "gradients": "grad_dtype float32",
    },
)

_NEURONX = TrainingRecipe(
    "neuronx",
    loss="in_place",
    kernels="compiled",
    weights="master",
    gradients="32bit",
    selective="attention",
    optimizer_implementation="fused",
    source="recall: NxD Training documentation: ZeRO-1 with 32-bit master weights and gradients, selective granularity",
    as_of=_AS_OF,
)

_MLX = TrainingRecipe(
    "mlx",
    version="0.31",
    loss="narrow",
    kernels="compiled",
    weights="16bit",
    selective="none",
    optimizer_implementation="fused",
    adapter_precision="fp32",
    packing="padded",
    source="mlx-lm v0.31.3, tuner/trainer.py, lora.py: cross entropy in the model's type, grad_checkpoint off",
    as_of="2026-08-22",
    sources={"adapter_precision": "tuner/lora.py: matrices made in 32 bit, dropout 0"},
)

CLUSTERS = (
    _MEGATRON,
    _NEMO,
    _NEOX,
    _NANOTRON,
    _MINDSPEED,
    _PRIMUS,
    _DEEPSPEED,
    _MEGATRON_DEEPSPEED,
    _OPENRLHF,
    _XTUNER,
    _COLOSSALAI,
    _INTERNEVO,
    _MAXTEXT,
    _NEURONX,
    _MLX,
)
