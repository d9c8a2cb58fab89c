"""Memory recipes of published sources: one record per source or part of one, the most specific last.

The records are read from the sources' own scripts and configurations at the version that was run. Fields that a record
leaves out are those of the framework's own recipe.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from app.calibration.training.recipes import Figure, SourceRecipe
from app.sizing.hardware.recipes import RecipeSettings

LENGTHS = "lengths vary, and the longest batch is not published"
LOG = "peak of a long log, with unpublished allocator settings"
UNTRACED = "custom kernels that were not traced"
MODULES = "its recomputation or its precision of moments is outside the recipe vocabulary"
LOOPS = "optimizer loops of PyTorch 2.0 that were not traced"
BUFFERS = "buffers and pipeline of DeepSpeed in 2021 that were not traced"
RANK = "peak of the logging rank, which may not be the largest"
UNREAD = "the source's scripts were not read"
RECIPE = "micro-batch, recomputation or loss is not published"

LITGPT = "github.com/Lightning-AI/litgpt:litgpt/finetune@26857050fe and config_hub/finetune"
THUNDER = "github.com/Lightning-AI/litgpt:extensions/thunder/pretrain.py@26857050fe"
TITAN = "github.com/pytorch/torchtitan:torchtitan/components/loss.py and train_configs/llama3_8b.toml"
SWIFT = "github.com/modelscope/ms-swift:docs/source_en/LLM/Benchmark.md and swift/llm/utils/argument.py@cdb169b781"
MEGATRON = "github.com/NVIDIA-NeMo/Megatron-Bridge:skills@067f987df0"
UPGRADE = "github.com/stas00/ml-engineering:insights/when-to-upgrade-gpus/benchmark.py"
FSDP_QLORA = "github.com/AnswerDotAI/fsdp_qlora:train.py@05ed9f2a60"
INTERNEVO = "github.com/InternLM/InternEvo:configs/7B_sft.py and solver/optimizer@b3be333aa2"
BIGSCIENCE = "github.com/bigscience-workshop/bigscience:train/tr11-176B-ml@9e64edec2a"
PEFT = "github.com/huggingface/peft:method_comparison/MetaMathQA@5d602fdbff"
PEFT_DOCS = "github.com/huggingface/peft:examples/sft and docs/source/accelerate@5d602fdbff"
MLPERF = "github.com/mlcommons/training_results_v5.0: max_memory_usage of result logs"

_LITGPT = RecipeSettings(weights="16bit", gradients="as_weights", kernels="eager", loss="chunked")
_LITGPT_ADAPTERS = replace(
    _LITGPT, recomputation="none", adapter_precision="16bit", adapter_dropout=True, kbit_widening=False
)
_THUNDER = RecipeSettings(
    loss="compiled",
    kernels="eager",
    weights="16bit",
    gradients="as_weights",
    recomputation="none",
    optimizer_implementation="fused",
)
_TITAN = RecipeSettings(
    loss="upcast",
    kernels="compiled",
    weights="sharded",
    gradients="as_weights",
    recomputation="operators",
    optimizer_implementation="foreach",
)
_NEMO_ADAPTERS = RecipeSettings(adapter_precision="16bit", adapter_dropout=True, kbit_widening=False)
_SWIFT = RecipeSettings(
    loss="shifted",
    kernels="eager",
    weights="16bit",
    gradients="as_weights",
    recomputation="full",
    optimizer_implementation="foreach",
    adapter_precision="autocast",
    adapter_dropout=True,
    kbit_widening=False,
)
_UPGRADE = RecipeSettings(
    loss="fused", kernels="fused", weights="master", gradients="copied", optimizer_implementation="fused"
)

SOURCES: tuple[SourceRecipe, ...] = (
    SourceRecipe(
        "aws_awsome_training",
        Figure.RESERVED,
        f"{TITAN}@b291ad662 (2025-03): the loss is not compiled",
        "2025-03",
        replace(_TITAN, kernels="eager"),
        open=LOG,
    ),
    SourceRecipe(
        "aws_awsome_training",
        Figure.RESERVED,
        f"{TITAN}@b291ad662 (2025-03): the loss is not compiled",
        "2025-03",
        _TITAN,
        where={"notes": "torch.compile"},
        open=LOG,
    ),
    SourceRecipe(
        "bigscience_a100",
        Figure.DRIVER,
        BIGSCIENCE,
        "2021-12",
        RecipeSettings(kernels="fused", gradients="copied"),
        open=BUFFERS,
    ),
    SourceRecipe(
        "bigscience_a100",
        Figure.DRIVER,
        BIGSCIENCE,
        "2021-12",
        RecipeSettings(kernels="fused", gradients="32bit"),
        where={"notes": "fp32 gradient"},
        open=BUFFERS,
    ),
    SourceRecipe(
        "bigscience_v100",
        Figure.DRIVER,
        BIGSCIENCE,
        "2021-06",
        RecipeSettings(kernels="fused", gradients="copied"),
        open=BUFFERS,
    ),
    SourceRecipe(
        "colossalai_readme", Figure.DRIVER, "github.com/hpcaitech/ColossalAI:README.md", "2025-04", open=RECIPE
    ),
    SourceRecipe("deepspeed_posts", Figure.DRIVER, "github.com/deepspeedai/DeepSpeed:blogs", "2025-08", open=RECIPE),
    SourceRecipe(
        "fsdp_qlora_bench",
        Figure.RESERVED,
        FSDP_QLORA,
        "2024-03",
        RecipeSettings(
            loss="shifted",
            kernels="eager",
            weights="16bit",
            gradients="as_weights",
            recomputation="full",
            optimizer_implementation="foreach",
            adapter_precision="16bit",
            adapter_dropout=True,
            kbit_widening=False,
        ),
        lora_targets=("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj", "down_proj"),
        lora_rank=64,
    ),
    SourceRecipe(
        "internevo_perf",
        Figure.DRIVER,
        INTERNEVO,
        "2023-11",
        RecipeSettings(
            loss="compiled",
            kernels="fused",
            weights="master",
            gradients="copied",
            optimizer_implementation="foreach",
        ),
        open=LOOPS,
        sequence_parallel=False,
    ),
    SourceRecipe("lightning_fsdp_docs", Figure.ALLOCATED, "docs of Lightning 2.1", "2023-10", open=RECIPE),
    SourceRecipe(
        "litgpt_config_hub",
        Figure.ALLOCATED,
        LITGPT,
        "2025-02",
        replace(_LITGPT, recomputation="full", optimizer_implementation="foreach"),
        where={"method": "full_ft"},
        open=LENGTHS,
    ),
    SourceRecipe(
        "litgpt_config_hub",
        Figure.ALLOCATED,
        f"{LITGPT}: one device recomputes nothing",
        "2025-02",
        replace(_LITGPT, recomputation="none", optimizer_implementation="foreach"),
        where={"method": "full_ft", "num_accelerators": "^1$"},
        open=LENGTHS,
    ),
    SourceRecipe(
        "litgpt_config_hub",
        Figure.ALLOCATED,
        LITGPT,
        "2025-02",
        replace(_LITGPT_ADAPTERS, optimizer_implementation="foreach"),
        where={"method": "^lora"},
        open=LENGTHS,
        lora_targets="q_v",
    ),
    SourceRecipe(
        "litgpt_config_hub",
        Figure.ALLOCATED,
        LITGPT,
        "2025-02",
        replace(_LITGPT_ADAPTERS, optimizer_implementation="paged"),
        where={"method": "qlora"},
        open=LENGTHS,
        lora_targets="q_v",
    ),
    SourceRecipe(
        "litgpt_config_hub",
        Figure.ALLOCATED,
        LITGPT,
        "2025-02",
        replace(_LITGPT_ADAPTERS, optimizer_implementation="foreach"),
        where={"method": "^lora", "model": "gemma|phi|[Tt]iny"},
        open=LENGTHS,
        lora_targets="all-linear",
    ),
    SourceRecipe(
        "litgpt_config_hub",
        Figure.ALLOCATED,
        LITGPT,
        "2025-02",
        replace(_LITGPT_ADAPTERS, optimizer_implementation="paged"),
        where={"method": "qlora", "model": "gemma|phi|[Tt]iny"},
        open=LENGTHS,
        lora_targets="all-linear",
    ),
    SourceRecipe(
        "litgpt_thunder",
        Figure.ALLOCATED,
        f"{THUNDER}: the loss stays in 16 bit",
        "2024-05",
        _THUNDER,
        open=UNTRACED,
    ),
    SourceRecipe(
        "litgpt_thunder",
        Figure.ALLOCATED,
        f"{THUNDER}: the loss stays in 16 bit",
        "2024-05",
        replace(_THUNDER, kernels="compiled"),
        where={"framework": "Thunder"},
        open=UNTRACED,
    ),
    SourceRecipe(
        "ml_engineering_upgrade",
        Figure.RESERVED,
        UPGRADE,
        "2026-07",
        replace(_UPGRADE, loss="held", kernels="eager"),
    ),
    SourceRecipe(
        "ml_engineering_upgrade",
        Figure.RESERVED,
        UPGRADE,
        "2026-07",
        _UPGRADE,
        where={"notes": r"^Liger|with Liger"},
    ),
    SourceRecipe(
        "ml_engineering_upgrade",
        Figure.RESERVED,
        UPGRADE,
        "2026-07",
        replace(_UPGRADE, gradients="as_weights", recomputation="full", optimizer_implementation="offloaded"),
        where={"offload": "optimizer"},
    ),
    SourceRecipe(
        "mlperf_training_v5.0",
        Figure.ALLOCATED,
        f"{MLPERF}; llama31_405b/pretrain.py: grad_reduce_in_fp32=False, distributed optimizer",
        "2025-06",
        RecipeSettings(gradients="as_weights"),
        open=RANK,
    ),
    SourceRecipe(
        "mlperf_training_v5.0",
        Figure.ALLOCATED,
        f"{MLPERF}; adapters on the fused queries and on the output of attention",
        "2025-06",
        _NEMO_ADAPTERS,
        where={"method": "^lora"},
        lora_targets="attention",
    ),
    SourceRecipe(
        "mlperf_training_v5.0",
        Figure.ALLOCATED,
        f"{MLPERF}; llama2_70b_lora's configuration may offload activations and store the gate's input in 8 bit",
        "2025-06",
        _NEMO_ADAPTERS,
        where={"method": "^lora", "num_accelerators": "^8$"},
        open=MODULES,
        lora_targets="attention",
        may_offload=True,
    ),
    SourceRecipe(
        "ms_swift_benchmark",
        Figure.RESERVED,
        SWIFT,
        "2024-05",
        _SWIFT,
        open=LENGTHS,
        lora_targets="q_v",
    ),
    SourceRecipe(
        "ms_swift_benchmark",
        Figure.RESERVED,
        SWIFT,
        "2024-05",
        _SWIFT,
        where={"notes": "targets ALL"},
        open=LENGTHS,
        lora_targets="all-linear",
    ),
    SourceRecipe(
        "ms_swift_benchmark",
        Figure.RESERVED,
        SWIFT,
        "2024-05",
        replace(_SWIFT, recomputation="none"),
        where={"activation_checkpointing": "none"},
        open=LENGTHS,
        lora_targets="q_v",
    ),
    SourceRecipe("ms_swift_tuners", Figure.RESERVED, SWIFT, "2024-05", open=LENGTHS),
    SourceRecipe("ms_swift_examples", Figure.DRIVER, SWIFT, "2026-08", open=LENGTHS),
    SourceRecipe(
        "nemo_bridge_skills",
        Figure.ALLOCATED,
        MEGATRON,
        "2026-06",
        RecipeSettings(gradients="as_weights"),
        open=MODULES,
    ),
    SourceRecipe("nemo_model_verification_cards", Figure.ALLOCATED, MEGATRON, "2026-06", open=RECIPE),
    SourceRecipe("nvidia_dgxc_benchmarking", Figure.ALLOCATED, "sample log lines", "2025-05", open=RECIPE),
    SourceRecipe(
        "nvidia_dgxc_benchmarking",
        Figure.ALLOCATED,
        "sample log lines; NeMo's performance scripts adapt the fused queries alone",
        "2025-05",
        _NEMO_ADAPTERS,
        where={"method": "^lora", "framework": "NeMo"},
        open=RECIPE,
        lora_targets="q_v",
    ),
    SourceRecipe(
        "peft_docs",
        Figure.DRIVER,
        f"{PEFT_DOCS}: the peak may be that of saving",
        "2024-03",
        RecipeSettings(
            loss="shifted",
            kernels="eager",
            weights="16bit",
            recomputation="full",
            optimizer_implementation="foreach",
            adapter_precision="autocast",
            adapter_dropout=True,
        ),
        open=RECIPE,
    ),
    SourceRecipe(
        "peft_method_comparison",
        Figure.RESERVED,
        PEFT,
        "2026-06",
        RecipeSettings(
            loss="held",
            kernels="eager",
            weights="16bit",
            recomputation="none",
            optimizer_implementation="foreach",
            adapter_precision="fp32",
            adapter_dropout=False,
            kbit_widening=False,
        ),
        where={"framework": "transformers"},
        open=LENGTHS,
        lora_targets="q_v",
    ),
    SourceRecipe(
        "torchao_bench",
        Figure.RESERVED,
        f"{TITAN}, torchtitan 0.0.2 (2025-03): the loss is not compiled",
        "2025-03",
        _TITAN,
        where={"framework": "torchtitan", "activation_checkpointing": "selective"},
    ),
    SourceRecipe(
        "torchao_bench",
        Figure.RESERVED,
        f"{TITAN}@2c8b59479 and 6fc499f6f (2025-08): the loss is compiled",
        "2025-08",
        replace(_TITAN, loss="compiled"),
        where={
            "framework": "torchtitan",
            "activation_checkpointing": "selective",
            "accelerator": "b200|mi300x",
        },
    ),
    SourceRecipe(
        "torchao_bench",
        Figure.RESERVED,
        f"{TITAN}, 2024: every second layer is recomputed",
        "2024-08",
        replace(_TITAN, kernels="eager", recomputation="every_second_layer"),
        where={"notes": "every 2nd layer", "activation_checkpointing": "selective"},
        open=RECIPE,
    ),
)


def recipe_of(row: Mapping[str, Any]) -> SourceRecipe:
    """The record of a row; for an unread source, a record that leaves everything to the framework."""
    found = [r for r in SOURCES if r.applies_to(row)]
    return found[-1] if found else SourceRecipe(row["source_key"], Figure.DRIVER, "", "", open=UNREAD)
