"""Builds files that start a training run.

The launchers are those of PyTorch, Megatron-LM, DeepSpeed and accelerate, and Slurm jobs around them.
"""

from __future__ import annotations

import json
import re
from typing import Any

from app.export.handoff.option import (
    JSON,
    SHELL,
    YAML,
    File,
    Handoff,
    Option,
    ReplicaGroup,
    add_header,
    build_script,
    dns_label,
    yaml_text,
)
from app.sizing.hardware.benchmarks import BENCHMARKS, FRAGMENTS, Benchmark, Places, fill_template
from app.sizing.hardware.engines import engine_named
from app.sizing.words import format_count, product_name

ACCELERATE, DEEPSPEED = "accelerate.yaml", "ds_config.json"
SHARDED = 3  # the ZeRO stage that also shards the weights
REQUIRE_RANK = (
    ': "${NODE_RANK:?set it to 0 on the first machine, then 1, 2, ...}" '
    '"${MASTER_ADDR:?set it to the address of the first machine}"'
)


def is_measured_by(option: Option, benchmark: Benchmark) -> bool:
    """Whether the run uses this benchmark, whose command also starts it."""
    return option.groups[0].load == benchmark.load


def is_based_on(option: Option, framework: str) -> bool:
    """Whether the framework of the run is this one or is based on it, and has no launcher of its own."""
    engine = engine_named(option.software)
    return framework in (engine.name, engine.judged_as) and is_measured_by(option, BENCHMARKS["trl"])


def command_places(option: Option, *, whole: bool) -> Places:
    """Values for the start command: for the benchmark steps, or for the whole run on the user's data."""
    places = option.groups[0].places
    return (
        {**places, "mock": None, "mock_words": None, "own_data": "", "steps": places["all_steps"]} if whole else places
    )


def launch_files(option: Option, command: str, *before: str) -> tuple[File, ...]:
    """Script of the whole run, and script of its first steps, to measure before you pay for the rest."""
    group = option.groups[0]
    many = (REQUIRE_RANK,) if group.machines > 1 else ()
    about = (
        f"# Run on every machine: {group.accelerators} x {group.accelerator} on "
        f"{format_count(group.machines, 'machine')}."
    )
    return tuple(
        File(
            name,
            SHELL,
            build_script(
                option.header_lines, about, *many, *before, f"exec {wrap_flags(fill_template(command, places))}"
            ),
        )
        for name, places in (
            ("train.sh", command_places(option, whole=True)),
            ("benchmark.sh", command_places(option, whole=False)),
        )
    )


def wrap_flags(command: str) -> str:
    """Command with one flag per line."""
    return re.sub(r" (--[a-z])", r" \\\n  \1", command)


def torchrun_files(option: Option, _version: str | None, target: str) -> Handoff:
    """TorchTitan, which uses PyTorch's own sharding, started by torchrun."""
    notes = (
        "Set MODULE and CONFIG to the model's configuration in torchtitan. In it, set activation checkpointing to "
        f"{_checkpointing_mode(option)}.",
        _data_note(option, "the dataset of that configuration"),
    )
    return Handoff(target, option.rank, launch_files(option, BENCHMARKS["torchtitan"].load), notes)


def megatron_files(option: Option, _version: str | None, target: str) -> Handoff:
    """Megatron-LM's pretrain_gpt.py."""
    notes = (_data_note(option, "$DATA_FLAGS (--data-path, --tokenizer-model) with $OPTIMIZER_FLAGS (--lr)"),)
    return Handoff(target, option.rank, launch_files(option, BENCHMARKS["megatron"].load), notes)


def deepspeed_files(option: Option, _version: str | None, target: str) -> Handoff:
    """DeepSpeed configuration, and a launcher for the user's training script."""
    group = option.groups[0]
    flags = "--deepspeed --deepspeed_config " + DEEPSPEED
    command = f"torchrun {FRAGMENTS['torchrun_ranks']} $TRAIN_SCRIPT {flags}"
    needed = ': "${TRAIN_SCRIPT:?set it to your training script, which must read the DeepSpeed configuration}"'
    config = File(DEEPSPEED, JSON, json.dumps(deepspeed_config(option), indent=2) + "\n")
    notes = (
        f"One step of {group.int_place('global_batch')} sequences takes {group.int_place('accumulated')} "
        "micro-batches of "
        f"{group.int_place('micro_batch')} on each of {data_ranks(option)} data-parallel ranks.",
    )
    train = launch_files(option, command, needed)[0]
    return Handoff(target, option.rank, (config, train), notes)


def data_ranks(option: Option) -> int:
    """Data-parallel ranks."""
    return int(option.deployment.get("data_parallel") or 1)


def deepspeed_config(option: Option) -> dict[str, Any]:
    """DeepSpeed configuration.

    The batch size is the product of micro-batch, accumulation steps and ranks, which DeepSpeed checks.
    """
    d, group = option.deployment, option.groups[0]
    micro, accumulated = group.int_place("micro_batch"), group.int_place("accumulated")
    cpu = {"device": "cpu", "pin_memory": True}
    precision = group.places.get("precision")
    return {
        "train_micro_batch_size_per_gpu": micro,
        "gradient_accumulation_steps": accumulated,
        "train_batch_size": micro * accumulated * data_ranks(option),
        "zero_optimization": {
            "stage": int(d.get("zero_stage") or 0),
            **({"offload_optimizer": cpu} if d.get("optimizer_offload") else {}),
            **({"offload_param": cpu} if d.get("parameter_offload") else {}),
        },
        **({str(precision): {"enabled": True}} if precision else {}),
        **({"activation_checkpointing": {"cpu_checkpointing": True}} if d.get("activation_offload") else {}),
    }


def accelerate_files(option: Option, _version: str | None, target: str) -> Handoff:
    """accelerate configuration, and TRL's trainer that uses it."""
    sharded = option.groups[0].accelerators > 1
    files: tuple[File, ...] = (
        File(ACCELERATE, YAML, add_header(option.header_lines, yaml_text(accelerate_config(option)))),
    )
    if sharded and is_based_on(option, "deepspeed"):
        files += (File(DEEPSPEED, JSON, json.dumps(deepspeed_config(option), indent=2) + "\n"),)
    command = BENCHMARKS["trl"].load.replace("{sharding}", ACCELERATE)
    return Handoff(target, option.rank, (*files, *launch_files(option, command)), (_data_note(option, "$DATASET"),))


def accelerate_config(option: Option) -> dict[str, Any]:
    """accelerate configuration: number of processes, sharding and precision."""
    group, d = option.groups[0], option.deployment
    stage = int(d.get("zero_stage") or 0)
    kind = "NO" if group.accelerators == 1 else "MULTI_GPU" if stage == 0 else "FSDP"
    settings: dict[str, Any] = {
        "compute_environment": "LOCAL_MACHINE",
        "distributed_type": kind,
        "num_machines": group.machines,
        "num_processes": group.accelerators,
        "machine_rank": 0,
        "main_training_function": "main",
        "mixed_precision": str(group.places.get("precision") or "no"),
    }
    if group.accelerators > 1 and is_based_on(option, "deepspeed"):
        config = {"deepspeed_config_file": DEEPSPEED, "zero3_init_flag": stage == SHARDED}
        return {**settings, "distributed_type": "DEEPSPEED", "deepspeed_config": config}
    if kind != "FSDP":
        return settings
    return {
        **settings,
        "fsdp_config": {
            "fsdp_version": 2,
            "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
            "fsdp_reshard_after_forward": stage == SHARDED,
            "fsdp_offload_params": bool(d.get("parameter_offload") or d.get("optimizer_offload")),
            "fsdp_activation_checkpointing": d.get("activation_checkpointing") == "full",
            "fsdp_state_dict_type": "SHARDED_STATE_DICT",
        },
    }


def slurm_files(option: Option, version: str | None, target: str) -> Handoff:
    """Slurm job that runs the launcher of the framework, or the benchmark command with the steps of the whole run."""
    group = option.groups[0]
    inner = inner_handoff(option, version)
    files = [file for file in inner.files if file.name != "train.sh"]
    train = next(file for file in inner.files if file.name == "train.sh")
    return Handoff(target, option.rank, (slurm_job(option, group), train, *files), inner.notes)


def slurm_job(option: Option, group: ReplicaGroup) -> File:
    """Slurm batch script with one task per machine; each task gets its rank and the address of the first machine."""
    lines = (
        f"#SBATCH --job-name={dns_label(group.model, 'train')}",
        f"#SBATCH --nodes={group.machines}",
        "#SBATCH --ntasks-per-node=1",
        f"#SBATCH --gpus-per-node={group.per_machine}",
        "#SBATCH --exclusive",
    )
    body = (
        "set -euo pipefail",
        'MASTER_ADDR="$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n1)"',
        "export MASTER_ADDR",
        'srun bash -c \'NODE_RANK="$SLURM_NODEID" exec bash "${1:-train.sh}"\' run "${1:-train.sh}"',
    )
    text = "#!/usr/bin/env bash\n" + "\n".join((*lines, *(f"# {line}" for line in option.header_lines), *body)) + "\n"
    return File("job.sbatch", SHELL, text)


def inner_handoff(option: Option, version: str | None) -> Handoff:
    """Files that the Slurm job runs.

    They use the launcher of the framework, or the benchmark command with the steps of the whole run.
    """
    if is_measured_by(option, BENCHMARKS["megatron"]):
        return megatron_files(option, version, "megatron")
    if is_measured_by(option, BENCHMARKS["torchtitan"]):
        return torchrun_files(option, version, "torchrun")
    if is_measured_by(option, BENCHMARKS["trl"]):
        return accelerate_files(option, version, "accelerate")
    group = option.groups[0]
    note = f"Set the variables in train.sh: they name the other inputs of {product_name(option.software)}."
    return Handoff("slurm", option.rank, launch_files(option, group.load), (note,))


def _checkpointing_mode(option: Option) -> str:
    return str(option.deployment.get("activation_checkpointing") or "none")


def _data_note(option: Option, where: str) -> str:
    steps = option.groups[0].int_place("all_steps")
    return f"train.sh runs {steps:,} steps on {where}. benchmark.sh runs the first few on synthetic or public data."
