"""Converts between traced setups and requests of `/estimate`, one function for each direction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.errors import Unanswerable
from calibration.tracing.rows import Case
from calibration.tracing.setups import Setup, Shape, fused_chunks
from calibration.tracing.shapes import shape_of

ACCELERATOR = "nvidia-h100-sxm5-80gb"  # only the memory is read, not whether it fits
QLORA_FRAMEWORK = "axolotl"  # supports sharding
# A loss that only the tracer distinguishes: its shifted copy is freed.
AS_RECIPE = {"shift": "upcast"}
CHECKPOINTING = {"none": "none", "full": "full"}  # all others are variants of selective
LENGTHS = ("max_position_embeddings", "n_positions", "max_seq_len")
OF_MLP = ("gate_proj", "up_proj", "down_proj")
LOSS_CHUNKS = 8  # chunks of a loss that is not fused
PRECISIONS = ("bf16", "fp16", "bf16-true")
NOT_TRACED = ("tensor_parallel", "pipeline_parallel", "context_parallel", "expert_parallel")


def is_expressible(case: Case) -> bool:
    """Whether a request can express a case: not with optimizer offload and a step in backward at once."""
    return not (case.setup.optimizer_offload and case.setup.optimizer_implementation == "in_backward")


def body_of(case: Case) -> dict[str, Any]:
    """Request body of `/estimate` for a case: workload, deployment and complete recipe."""
    s = case.setup
    pure = s.weights == "16bit" and not s.frozen
    deployment = {
        "accelerator": ACCELERATOR,
        "framework": QLORA_FRAMEWORK if s.method == "qlora" else "fsdp",
        "total_accelerators": s.shards,
        "data_parallel": s.shards,
        "tensor_parallel": 1,
        "pipeline_parallel": 1,
        "context_parallel": 1,
        "zero_stage": 3 if s.shards > 1 else 0,
        "micro_batch_sequences": s.batch,
        "activation_checkpointing": CHECKPOINTING.get(s.recomputation, "selective"),
        "flash_attention": s.attention == "flash",
        "optimizer_offload": s.optimizer_offload,
        "activation_offload": s.activation_offload,
        "recipe": recipe_of(s),
    }
    workload: dict[str, Any] = {
        "phase": "fine_tuning",
        "model": {"name": case.model, "huggingface_config": with_max_length(case.model_config, s.sequence)},
        "method": s.method,
        "training_tokens": 1e9,
        "sequence_length": s.sequence,
        "global_batch_sequences": s.batch * s.shards * (2 if s.accumulates else 1),
        "precision": "bf16-true" if pure else "bf16",
        "optimizer": s.optimizer,
        "deadline_days": 1000,
    }
    if s.frozen:
        workload["lora"] = {"rank": s.adapter_rank, "target_modules": targets_of(s)}
    return {"workload": workload, "deployment": deployment}


def targets_of(s: Setup) -> str | list[str]:
    """Target modules of the adapters; experts, whose matrices share one tensor, have none."""
    every = s.adapter_targets == "all-linear" and s.shape.experts
    return non_expert_modules(s.shape) if every else s.adapter_targets


def non_expert_modules(shape: Shape) -> list[str]:
    """Every matrix of a mixture-of-experts model except those of routed experts."""
    queries = ("q_a_proj", "q_b_proj") if shape.q_latent else ("q_proj",)
    keys = ("kv_a_proj_with_mqa", "kv_b_proj") if shape.kv_latent else ("k_proj", "v_proj")
    dense = OF_MLP if shape.dense_layers else ()
    shared = tuple(f"shared_expert.{name}" for name in OF_MLP) if shape.shared_width else ()
    return [*queries, *keys, "o_proj", *dense, *shared]


def with_max_length(config: Mapping[str, Any], sequence: int) -> dict[str, Any]:
    """A configuration that allows sequences of this length; a trace has no length limit."""
    said = [name for name in LENGTHS if name in config]
    return {**config, **{name: max(config[name], sequence) for name in said}}


def recipe_of(s: Setup) -> dict[str, Any]:
    """The recipe of a setup as a deployment states it."""
    recipe: dict[str, Any] = {
        "loss": AS_RECIPE.get(s.loss, s.loss),
        "kernels": s.kernels,
        "weights": s.weights,
        "gradients": s.gradients,
        "recomputation": s.recomputation,
        "optimizer_implementation": s.optimizer_implementation,
        "packing": "packed",
    }
    if s.frozen:
        recipe |= {"adapter_precision": s.adapter_precision, "adapter_dropout": s.adapter_dropout}
    if s.method == "qlora":
        recipe |= {"kbit_widening": s.kbit_widening}
    return recipe


def check_traced(workload: Mapping[str, Any], deployment: Mapping[str, Any]) -> None:
    """Raises Unanswerable, with the field, for workloads and layouts that cannot be traced."""
    if workload["phase"] == "inference":
        raise Unanswerable("Serving cannot be traced. Set phase to training or fine_tuning.", field="phase")
    precision = workload.get("precision", "bf16")
    if precision not in PRECISIONS:
        raise Unanswerable(
            f"Precision {precision} cannot be traced. Accepted: {', '.join(PRECISIONS)}.",
            field="precision",
        )
    split = [name for name in NOT_TRACED if (deployment.get(name) or 1) > 1]
    if split:
        raise Unanswerable(
            f"{split[0]} above 1 is not traced. Use one device, or data parallelism sharded by FSDP.",
            field=split[0],
        )
    if deployment.get("parameter_offload"):
        raise Unanswerable(
            "Parameter offload cannot be traced. Set parameter_offload to false.",
            field="parameter_offload",
        )
    if int(deployment.get("zero_stage") or 0) in (1, 2) and (deployment.get("data_parallel") or 1) > 1:
        raise Unanswerable("ZeRO stages 1 and 2 cannot be traced. Set zero_stage to 0 or 3.", field="zero_stage")


def setup_of(body: Mapping[str, Any], config: Mapping[str, Any]) -> Setup:
    """The setup to trace for a request with a complete deployment, as an answer returns it."""
    workload, deployment = body["workload"], body["deployment"]
    recipe = deployment.get("recipe") or {}
    check_traced(workload, deployment)
    ranks = int(deployment.get("data_parallel") or deployment.get("total_accelerators") or 1)
    sharded = ranks > 1 and int(deployment.get("zero_stage") or 0) == 3
    batch = int(deployment.get("micro_batch_sequences") or 1)
    asked = workload.get("global_batch_sequences") or _global_batch_sequences(workload) or batch * ranks
    lora = workload.get("lora") or {}
    method = workload.get("method", "full" if workload["phase"] == "training" else "lora")
    said = {name: recipe[name] for name in RECIPE_FIELDS if recipe.get(name) is not None}
    if workload.get("precision") == "bf16-true":
        said["weights"] = "16bit"
    shape, sequence = shape_of(config), int(workload["sequence_length"])
    fused, targets = said.get("loss") == "fused", lora.get("target_modules", "all-linear")
    return Setup(
        shape=shape,
        sequence=sequence,
        batch=batch,
        method=method,
        attention="eager" if deployment.get("flash_attention") is False else "flash",
        loss_chunks=fused_chunks(shape, batch * sequence) if fused else LOSS_CHUNKS,
        optimizer=workload.get("optimizer", "adamw"),
        accumulates=asked > batch * ranks,
        activation_offload=bool(deployment.get("activation_offload")),
        optimizer_offload=bool(deployment.get("optimizer_offload")),
        shards=ranks if sharded else 1,
        adapter_rank=int(lora.get("rank", 16)),
        adapter_targets="all-linear" if shape.experts and targets == non_expert_modules(shape) else targets,
        **said,
    )


RECIPE_FIELDS = (
    *("loss", "kernels", "weights", "gradients", "recomputation", "optimizer_implementation"),
    *("adapter_precision", "adapter_dropout", "kbit_widening"),
)


def _global_batch_sequences(workload: Mapping[str, Any]) -> float:
    tokens = workload.get("global_batch_tokens")
    return 0.0 if tokens is None else float(tokens) / float(workload["sequence_length"])
