"""Recipes of PyTorch's own loop and of frameworks built on its sharding."""

from __future__ import annotations

from dataclasses import replace

from app.sizing.hardware.recipes.record import EVERY_BUCKET_BYTES, TrainingRecipe

_AS_OF = "2026-11-22"

# A loop as in tutorials: the logits are a local variable of the step; AdamW is PyTorch's default.
USUAL = TrainingRecipe(
    "pytorch",
    loss="held",
    weights="sharded",
    bucket_bytes=EVERY_BUCKET_BYTES,
    source="PyTorch's FSDP2 tutorial; torch.optim.AdamW: foreach on CUDA",
    as_of=_AS_OF,
    sources={"selective": "torch.utils.checkpoint, create_selective_checkpoint_contexts"},
)

_TORCHTUNE_02 = TrainingRecipe(
    "torchtune",
    version="0.2",
    loss="held",
    weights="16bit",
    selective="every_second_layer",
    recomputation="full",
    adapter_precision="16bit",
    packing="padded",
    source="torchtune v0.2.1, recipes/configs/llama3: bf16, torch.nn.CrossEntropyLoss, AdamW",
    as_of="2024-07-25",
)
_TORCHTUNE_03 = replace(
    _TORCHTUNE_02,
    since=(0, 3),
    version="0.3",
    loss="chunked_eager",
    source="torchtune v0.3.0, recipes/configs/llama3_1: CEWithChunkedOutputLoss of 8 chunks, compile off",
    as_of="2024-09-17",
)
_TORCHTUNE_04 = replace(
    _TORCHTUNE_03,
    since=(0, 4),
    version="0.6",
    optimizer_implementation="fused",
    source="torchtune v0.6.1, recipes/configs/llama3_1: CEWithChunkedOutputLoss, fused AdamW, bf16, lora_dropout 0",
    as_of="2025-04-07",
    sources={
        "optimizer_implementation": "fused: True from v0.3.1 on; full fine-tuning on one device steps PagedAdamW8bit "
        "inside backward (8B_full_single_device.yaml)",
        "selective": "recipes/full_finetune_distributed.py: ac_mode selective, ac_option 2",
        "loss": "compile: False, so the softmax of every chunk is kept; the unreleased main has LinearCrossEntropyLoss",
    },
)

_TORCHTITAN = TrainingRecipe(
    "torchtitan",
    version="0.2",
    loss="compiled",
    kernels="compiled",
    weights="sharded",
    gradients="32bit",
    recomputation="operators",
    optimizer_implementation="fused",
    source="torchtitan v0.2.2, config/job_config.py, models/llama3/train_configs, docs/performance.md",
    as_of="2026-02-20",
    sources={
        "kernels": "[compile] is off in llama3_8b.toml and on in llama3_405b.toml and every published benchmark",
        "selective": "activation_checkpoint.mode selective, selective_ac_option op",
        "weights": "mixed_precision_param bfloat16, reduce float32; autocast where nothing is sharded",
    },
)
_TORCHTITAN_03 = replace(
    _TORCHTITAN,
    since=(0, 3),
    version="0.3",
    loss="fused",
    source="torchtitan main, models/llama3/config_registry.py: ChunkedLossWrapper of head and loss",
    as_of="2026-08-21",
    sources={
        **_TORCHTITAN.sources,
        "loss": "components/loss.py, ChunkedCELoss, on since 2026-04-27 (pull request 2937, issue 3117)",
    },
)

_LITGPT = TrainingRecipe(
    "litgpt",
    version="0.5",
    loss="narrow_chunked",
    weights="16bit",
    selective="none",
    adapter_precision="16bit",
    adapter_dropout=True,
    packing="padded",
    source="LitGPT v0.5.13, finetune/lora.py: bf16-true, lm_head_chunk_size 128, AdamW, lora_dropout 0.05",
    as_of="2026-06-29",
    sources={
        "loss": "utils.py, chunked_cross_entropy: nothing is widened; pretraining compiles the model and takes chunks",
        "recomputation": "finetune/full.py: full under FSDP; none on one device",
    },
)

_LIGHTNING = TrainingRecipe(
    "lightning",
    version="2.4",
    loss="held",
    weights="autocast",
    bucket_bytes=EVERY_BUCKET_BYTES,
    selective="none",
    packing="padded",
    source="Lightning 2.4.0, fabric/plugins/precision/fsdp.py: bf16-mixed gathers 32 bit under autocast",
    as_of="2024-08-07",
    sources={"loss": "recall: the module's own training_step, logits a local of it"},
)
_LIGHTNING_26 = replace(
    _LIGHTNING,
    since=(2, 6),
    version="2.6",
    weights="sharded",
    source="Lightning 2.6, fabric/plugins/precision/fsdp.py: bf16-mixed gathers 16 bit since 2025-11-21",
    as_of="2026-07-20",
)

_LLM_FOUNDRY = TrainingRecipe(
    "llm-foundry",
    version="0.21",
    loss="compiled",
    weights="sharded",
    selective="none",
    recomputation="full",
    optimizer_implementation="fused",
    source="llm-foundry v0.21.0, scripts/train/yamls/pretrain/mpt-7b.yaml: amp_bf16, PURE, activation_checkpointing",
    as_of="2025-07-21",
    sources={
        "loss": "models/mpt/modeling_mpt.py: loss_fn fused_crossentropy, flash-attn's kernel",
        "optimizer_implementation": "recall: Composer's DecoupledAdamW steps one tensor at a time",
    },
)

_FSDP_QLORA = TrainingRecipe(
    "fsdp_qlora",
    loss="shifted",
    weights="16bit",
    selective="none",
    recomputation="full",
    adapter_precision="16bit",
    adapter_dropout=True,
    packing="padded",
    source="fsdp_qlora train.py: bf16, FSDP full_shard, gradient checkpointing, AdamW, lora_dropout 0.1",
    as_of="2024-06-13",
    sources={"loss": "transformers of its day shifts widened logits (before 4.49)"},
)

_AUTOMODEL = replace(
    _TORCHTITAN,
    framework="nemo-automodel",
    version="0.5",
    loss="upcast",
    kernels="eager",
    gradients="as_weights",
    selective="none",
    recomputation="none",
    optimizer_implementation="foreach",
    adapter_precision="16bit",
    packing="padded",
    source="NeMo Automodel v0.5.0, examples/llm_finetune/llama3_2: fsdp2, MaskedCrossEntropy, torch.optim.Adam",
    as_of="2026-08-22",
    sources={"selective": "recall: activation_checkpointing is on or off", "adapter_precision": "recall"},
)

_VERL = TrainingRecipe(
    "verl",
    loss="compiled",
    weights="sharded",
    selective="none",
    recomputation="full",
    source="recall: verl fsdp_workers.py: 32-bit FSDP shards, enable_gradient_checkpointing, remove_padding",
    as_of=_AS_OF,
    sources={"loss": "recall: flash-attn's cross entropy for log-probabilities"},
)

PYTORCH = (
    USUAL,
    replace(USUAL, framework="fsdp"),
    _TORCHTUNE_02,
    _TORCHTUNE_03,
    _TORCHTUNE_04,
    _TORCHTITAN,
    _TORCHTITAN_03,
    _LITGPT,
    _LIGHTNING,
    _LIGHTNING_26,
    _LLM_FOUNDRY,
    _FSDP_QLORA,
    _AUTOMODEL,
    _VERL,
)
