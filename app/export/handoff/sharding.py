"""Configuration files of accelerate and DeepSpeed: processes, sharding, offload, optimizer, schedule and clipping."""

from __future__ import annotations

from typing import Any

from app.export.handoff.run import SHARDED, TrainingRun, offloads_states, run_places, shards_with_fsdp

ACCELERATE, DEEPSPEED = "accelerate.yaml", "ds_config.json"
# Optimizers that DeepSpeed implements itself; the trainer brings the others.
DEEPSPEED_OPTIMIZERS = {"adamw": "AdamW", "lion": "Lion"}


def deepspeed_config(run: TrainingRun) -> dict[str, Any]:
    """DeepSpeed configuration. The trainer fills "auto": learning rate, decay, steps and warm-up.

    The batch size is the product of micro-batch, accumulation steps and ranks, which DeepSpeed checks.
    """
    d, group, places = run.option.deployment, run.group, run_places(run)
    micro, accumulated, stage = (
        group.int_place("micro_batch"),
        group.int_place("accumulated"),
        int(d.get("zero_stage") or 0),
    )
    cpu = {"device": "cpu", "pin_memory": True}
    name = DEEPSPEED_OPTIMIZERS.get(str(group.places["optimizer_name"]))
    own = {
        "optimizer": {
            "type": name,
            "params": {"lr": "auto", "betas": "auto", "weight_decay": "auto"},
        },
        "scheduler": {
            "type": "WarmupCosineLR",
            "params": {
                "warmup_num_steps": "auto",
                "total_num_steps": "auto",
                "warmup_min_ratio": 0.0,
                "cos_min_ratio": 0.0,
                "warmup_type": "linear",
            },
        },
    }
    return {
        "train_micro_batch_size_per_gpu": micro,
        "gradient_accumulation_steps": accumulated,
        "train_batch_size": run.batch,
        "gradient_clipping": 1.0,
        "zero_optimization": {
            "stage": stage,
            "overlap_comm": True,
            "contiguous_gradients": True,
            **({"offload_optimizer": cpu} if d.get("optimizer_offload") else {}),
            **({"offload_param": cpu} if d.get("parameter_offload") else {}),
            **({"stage3_gather_16bit_weights_on_model_save": True} if stage == SHARDED else {}),
        },
        "bf16": {"enabled": bool(places["in_bf16"])},
        "fp16": {"enabled": bool(places["in_fp16"])},
        **(own if name else {"zero_allow_untested_optimizer": True}),
        **({"activation_checkpointing": {"cpu_checkpointing": True}} if d.get("activation_offload") else {}),
    }


def accelerate_config(run: TrainingRun) -> dict[str, Any]:
    """accelerate configuration: number of processes, sharding and precision."""
    group, d, places = run.group, run.option.deployment, run_places(run)
    stage = int(d.get("zero_stage") or 0)
    settings: dict[str, Any] = {
        "compute_environment": "LOCAL_MACHINE",
        "distributed_type": "NO" if group.accelerators == 1 else "MULTI_GPU",
        "num_machines": group.machines,
        "num_processes": group.accelerators,
        "machine_rank": 0,
        "main_training_function": "main",
        "rdzv_backend": "c10d" if group.machines > 1 else "static",
        "mixed_precision": "bf16" if places["in_bf16"] else "fp16" if places["in_fp16"] else "no",
    }
    if run.uses_deepspeed:
        config: dict[str, Any] = {"deepspeed_config_file": DEEPSPEED, "zero3_init_flag": stage == SHARDED}
        several = {"deepspeed_multinode_launcher": "standard"} if group.machines > 1 else {}
        # DeepSpeed's own file states the precision.
        settings.pop("mixed_precision")
        return {**settings, "distributed_type": "DEEPSPEED", "deepspeed_config": {**config, **several}}
    if not shards_with_fsdp(run):
        return settings
    return {
        **settings,
        "distributed_type": "FSDP",
        "fsdp_config": {
            "fsdp_version": 2,
            "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
            "fsdp_reshard_after_forward": stage == SHARDED,
            "fsdp_offload_params": offloads_states(run),
            "fsdp_activation_checkpointing": run.recomputes == "full",
            "fsdp_cpu_ram_efficient_loading": True,
            "fsdp_state_dict_type": "SHARDED_STATE_DICT",
        },
    }
