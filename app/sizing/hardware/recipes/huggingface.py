"""Recipes of the Transformers Trainer and of frameworks built on it."""

from __future__ import annotations

from dataclasses import replace

from app.sizing.hardware.recipes.record import EVERY_BUCKET_BYTES, TrainingRecipe
from app.sizing.hardware.support.records import QLORA

_TRAINER = TrainingRecipe(
    "transformers",
    version="4.45",
    bucket_bytes=EVERY_BUCKET_BYTES,
    loss="shifted",
    weights="sharded",
    selective="none",
    adapter_precision="autocast",
    packing="padded",
    source="transformers 4.x, TrainingArguments, modeling_llama.py: logits widened, then shifted; adamw_torch",
    as_of="2024-09-25",
    sources={
        "weights": "from_pretrained loads 32 bit before 5.0, bf16=True computes under accelerate's autocast; FSDP "
        "widens what it shards (accelerate fsdp_utils.py)",
        "adapter_precision": "PEFT autocast_adapter_dtype since 0.12 (2024-05-16)",
    },
)
_TRAINER_449 = replace(
    _TRAINER,
    since=(4, 49),
    version="4.49",
    loss="upcast",
    source="transformers 4.49, loss/loss_utils.py: labels are shifted, not logits (pull request 35646)",
    as_of="2025-02-17",
)
_TRAINER_454 = replace(
    _TRAINER_449,
    since=(4, 54),
    version="4.54",
    optimizer_implementation="fused",
    source="transformers 4.54: adamw_torch_fused with PyTorch 2.8 and later (pull request 37358)",
    as_of="2025-07-25",
)
_TRAINER_523 = replace(
    _TRAINER_454,
    since=(5, 23),
    version="5.23",
    selective="every_second_layer",
    source="transformers 5.23.0, training_args.py, loss/loss_utils.py",
    as_of="2026-11-22",
    sources={
        **_TRAINER.sources,
        "weights": "since 5.0 from_pretrained loads what the checkpoint has: full fine-tuning of a 16-bit one in "
        "bf16=True keeps nothing in 32 bit unless dtype says so (precision bf16-true here)",
        "selective": "activation_checkpointing_kwargs: every_n_layers (pull request 48200, 2026-08)",
    },
)
_TRAINERS = (_TRAINER, _TRAINER_449, _TRAINER_454, _TRAINER_523)

_ACCELERATE = replace(
    _TRAINER_449,
    framework="accelerate",
    since=None,
    version="1.9",
    loss="held",
    source="Accelerate v1.9.0, accelerator.py: autocast, outputs widened; the loop is the caller's",
    as_of="2026-07-24",
    sources={"loss": "convert_outputs_to_fp32 and a loop that holds the outputs"},
)

_TRL_011 = replace(
    _TRAINER,
    framework="trl",
    version="0.11",
    adapter_dropout=True,
    kbit_widening=True,
    source="TRL v0.11, trainer/sft_trainer.py, model_config.py: kbit preparation, lora_dropout 0.05",
    as_of="2024-09-19",
    sources={},
)
_TRL_020 = replace(
    _TRL_011,
    since=(0, 20),
    version="0.24",
    loss="upcast",
    recomputation="full",
    optimizer_implementation="fused",
    source="TRL v0.24, trainer/sft_config.py: gradient_checkpointing on, bf16 on; models/utils.py: kbit preparation",
    as_of="2025-10-15",
)
_TRL_026 = replace(
    _TRL_020,
    since=(0, 26),
    version="0.26",
    kbit_widening=False,
    source="TRL v0.26, trainer/sft_trainer.py: no kbit preparation, QLoRA's adapters in bf16",
    as_of="2025-12-09",
)
_TRL_16 = replace(
    _TRL_026,
    since=(1, 6),
    version="1.9",
    loss="fused",
    source="TRL v1.9.0, trainer/sft_config.py: loss_type chunked_nll since 1.6, head and loss in 256 tokens",
    as_of="2026-07-24",
)
_TRL = (
    _TRL_011,
    _TRL_020,
    _TRL_026,
    replace(_TRL_026, methods=(QLORA,), adapter_precision="16bit"),
    _TRL_16,
    replace(_TRL_16, methods=(QLORA,), adapter_precision="16bit"),
)

_PEFT = TrainingRecipe(
    "peft+bitsandbytes",
    version="0.20",
    bucket_bytes=EVERY_BUCKET_BYTES,
    loss="upcast",
    weights="sharded",
    selective="none",
    recomputation="full",
    optimizer_implementation="fused",
    adapter_precision="autocast",
    adapter_dropout=True,
    kbit_widening=True,
    packing="padded",
    source="PEFT v0.20.0, utils/other.py, prepare_model_for_kbit_training; transformers 5.23.0, Trainer",
    as_of="2026-08-21",
    sources={
        "adapter_precision": "tuners_utils.py, cast_adapter_dtype: 32 bit; Trainer's bf16=True computes under autocast",
        "adapter_dropout": "0.05 to 0.1 in QLoRA's own scripts and in the documentation; LoraConfig's default is 0",
        "recomputation": "prepare_model_for_kbit_training turns gradient checkpointing on",
    },
)

_AXOLOTL = TrainingRecipe(
    "axolotl",
    version="0.16",
    bucket_bytes=EVERY_BUCKET_BYTES,
    loss="upcast",
    weights="sharded",
    selective="none",
    recomputation="full",
    optimizer_implementation="fused",
    adapter_precision="autocast",
    adapter_dropout=True,
    kbit_widening=True,
    source="Axolotl v0.17, utils/schemas: adamw_torch_fused; examples: gradient_checkpointing, sample_packing",
    as_of="2026-07-24",
    sources={
        "loss": "Cut Cross Entropy or Liger are plugins, in 92 of 252 examples",
        "weights": "loads 16 bit; FSDP widens what it shards; on one device precision bf16-true is what it does",
        "kbit_widening": "loaders/model.py",
        "adapter_dropout": "0.05 in most examples; the schema's default is 0",
        "packing": "sample_packing: true in 158 of 252 examples; off by default",
    },
)
_AXOLOTL_018 = replace(
    _AXOLOTL,
    since=(0, 18),
    version="0.18",
    selective="operators",
    source="Axolotl v0.18.0, utils/schemas/config.py: selective_checkpointing since 2026-07-03",
)

_UNSLOTH = TrainingRecipe(
    "unsloth",
    version="2026.8",
    loss="fused",
    kernels="fused",
    weights="autocast",
    selective="none",
    recomputation="full",
    optimizer_implementation="fused",
    adapter_precision="autocast",
    offloads_checkpoints=True,
    packing="padded",
    source="Unsloth models/loader.py, models/llama.py; unsloth_zoo/fused_losses: head and loss in chunks",
    as_of="2026-08-22",
    sources={
        "recomputation": 'use_gradient_checkpointing "unsloth": a layer\'s input goes to the host',
        "adapter_precision": "unsloth_zoo/training_utils.py: adapters in 32 bit under autocast; lora_dropout 0",
        "weights": "full_finetuning takes 16 bit unless float32_mixed_precision (precision bf16-true here)",
        "kbit_widening": "prepare_model_for_training leaves embeddings and head in 16 bit",
    },
)

_LLAMA_FACTORY = replace(
    _TRAINER_454,
    framework="llama-factory",
    since=None,
    version="0.9",
    recomputation="full",
    source="LLaMA-Factory v0.9.5, hparams, model/adapter.py: gradient checkpointing on, trained weights in 32 bit",
    as_of="2026-08-18",
    sources={
        "adapter_dropout": "finetuning_args.py: lora_dropout 0",
        "kbit_widening": "model_args.py: upcast_layernorm and upcast_lmhead_output off",
        "packing": "data_args.py: on in pretraining only",
    },
)

_SWIFT = replace(
    _TRAINER_454,
    framework="ms-swift",
    since=None,
    version="4.5",
    weights="16bit",
    recomputation="full",
    adapter_dropout=True,
    source="ms-swift v4.5.2, trainers/arguments.py: gradient_checkpointing on; tuner_args.py: lora_dropout 0.05",
    as_of="2026-08-22",
    sources={"weights": "pipelines/train/tuner.py widens only 16-bit floats of fp16; bf16 stays"},
)

_OPEN_INSTRUCT = replace(
    _TRAINER_454,
    framework="open-instruct",
    since=None,
    version="0.3",
    loss="held",
    weights="master",
    gradients="copied",
    adapter_dropout=True,
    kbit_widening=True,
    source="open-instruct finetune.py: DeepSpeed, fused AdamW, lora_dropout 0.1, prepare_model_for_kbit_training",
    as_of="2026-08-20",
    sources={},
)

_HABANA = replace(
    _TRAINER,
    framework="optimum-habana",
    version="1.19",
    loss="upcast",
    kernels="compiled",
    optimizer_implementation="fused",
    adapter_dropout=True,
    source="optimum-habana models/llama: FusedRMSNorm, lazy graphs; examples: lora_dropout 0.05",
    as_of="2026-01-14",
    sources={"loss": "modeling_llama.py widens logits, labels are shifted", "optimizer_implementation": "recall"},
)

_NEURON = TrainingRecipe(
    "optimum-neuron",
    version="0.4",
    loss="in_place",
    kernels="compiled",
    weights="master",
    gradients="32bit",
    selective="none",
    optimizer_implementation="fused",
    adapter_precision="autocast",
    source="optimum-neuron v0.4.5, trainers/training_args.py: zero_1, 32-bit master weights and accumulation",
    as_of="2026-08-19",
    sources={"loss": "recall: NxD's parallel cross entropy, Megatron's"},
)

HUGGING_FACE = (
    *_TRAINERS,
    _ACCELERATE,
    *_TRL,
    _PEFT,
    _AXOLOTL,
    _AXOLOTL_018,
    _UNSLOTH,
    _LLAMA_FACTORY,
    _SWIFT,
    replace(
        _TRAINER_454, framework="autotrain", since=None, version="", source="recall: AutoTrain on Trainer and PEFT"
    ),
    _OPEN_INSTRUCT,
    _HABANA,
    _NEURON,
)
