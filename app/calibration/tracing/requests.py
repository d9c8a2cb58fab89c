"""Between what is traced and what is asked of `/estimate`: one function each way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.calibration.tracing.rows import Case
from app.calibration.tracing.setups import Setup, Shape, fused_chunks
from app.calibration.tracing.shapes import shape_of
from app.errors import Unanswerable

ACCELERATOR = "nvidia-h100-sxm5-80gb"  # memory is judged, not whether it fits
QLORA_FRAMEWORK = "axolotl"  # that shards too
# A loss that the tracer tells apart and a recipe does not: its shifted copy is let go.
AS_RECIPE = {"shift": "upcast"}
CHECKPOINTING = {"none": "none", "full": "full"}  # all others are ways of selective
LENGTHS = ("max_position_embeddings", "n_positions", "max_seq_len")
OF_MLP = ("gate_proj", "up_proj", "down_proj")
LOSS_CHUNKS = 8  # of one that is not fused
PRECISIONS = ("bf16", "fp16", "bf16-true")
NOT_TRACED = ("tensor_parallel", "pipeline_parallel", "context_parallel", "expert_parallel")


def can_be_asked(case: Case) -> bool:
    """Whether a request can say a case: what steps in backward and on the host at once it cannot."""
    return not (case.setup.optimizer_offload and case.setup.optimizer_implementation == "in_backward")


def body_of(case: Case) -> dict[str, Any]:
    """The body of `/estimate` that asks for a case: its workload, its deployment, its recipe in full."""
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
        "model": {"name": case.model, "huggingface_config": as_long(case.config, s.sequence)},
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
    """What adapters stand beside: experts, whose matrices lie in one tensor, have none."""
    every = s.adapter_targets == "all-linear" and s.shape.experts
    return beside_experts(s.shape) if every else s.adapter_targets


def beside_experts(shape: Shape) -> list[str]:
    """Every matrix of a model with experts that is none of theirs."""
    queries = ("q_a_proj", "q_b_proj") if shape.q_latent else ("q_proj",)
    keys = ("kv_a_proj_with_mqa", "kv_b_proj") if shape.kv_latent else ("k_proj", "v_proj")
    dense = OF_MLP if shape.dense_layers else ()
    shared = tuple(f"shared_expert.{name}" for name in OF_MLP) if shape.shared_width else ()
    return [*queries, *keys, "o_proj", *dense, *shared]


def as_long(config: Mapping[str, Any], sequence: int) -> dict[str, Any]:
    """A configuration for sequences of a length; a trace does not mind how long a model can go."""
    said = [name for name in LENGTHS if name in config]
    return {**config, **{name: max(config[name], sequence) for name in said}}


def recipe_of(s: Setup) -> dict[str, Any]:
    """The recipe of a setup, as a deployment says it."""
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
    """Refuse by name what no trace says anything of."""
    if workload["phase"] == "inference":
        raise Unanswerable("Serving is not traced: give a workload of phase training or fine_tuning.", field="phase")
    precision = workload.get("precision", "bf16")
    if precision not in PRECISIONS:
        raise Unanswerable(
            f"Precision {precision} is not traced: {', '.join(PRECISIONS)} are.",
            field="precision",
        )
    split = [name for name in NOT_TRACED if (deployment.get(name) or 1) > 1]
    if split:
        raise Unanswerable(
            f"A layout with {split[0]} above 1 is not traced: data parallelism is, on one device or sharded by FSDP.",
            field=split[0],
        )
    if deployment.get("parameter_offload"):
        raise Unanswerable("Parameters in the host's memory are not traced.", field="parameter_offload")
    if int(deployment.get("zero_stage") or 0) in (1, 2) and (deployment.get("data_parallel") or 1) > 1:
        raise Unanswerable("ZeRO stages 1 and 2 are not traced: 0 and 3 are.", field="zero_stage")


def setup_of(body: Mapping[str, Any], config: Mapping[str, Any]) -> Setup:
    """What to trace of a body whose deployment is complete, as an answer echoes it, on a model of a configuration."""
    workload, deployment = body["workload"], body["deployment"]
    recipe = deployment.get("recipe") or {}
    check_traced(workload, deployment)
    ranks = int(deployment.get("data_parallel") or deployment.get("total_accelerators") or 1)
    sharded = ranks > 1 and int(deployment.get("zero_stage") or 0) == 3
    batch = int(deployment.get("micro_batch_sequences") or 1)
    asked = workload.get("global_batch_sequences") or _sequences(workload) or batch * ranks
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
        adapter_targets="all-linear" if shape.experts and targets == beside_experts(shape) else targets,
        **said,
    )


RECIPE_FIELDS = (
    *("loss", "kernels", "weights", "gradients", "recomputation", "optimizer_implementation"),
    *("adapter_precision", "adapter_dropout", "kbit_widening"),
)


def _sequences(workload: Mapping[str, Any]) -> float:
    tokens = workload.get("global_batch_tokens")
    return 0.0 if tokens is None else float(tokens) / float(workload["sequence_length"])
