"""Files that start a run: PyTorch's, Megatron's and DeepSpeed's own launchers, accelerate, and Slurm around them."""

from __future__ import annotations

import json
import re
from typing import Any

from app.export.handoff.files import JSON, SHELL, YAML, File, Handoff, commented, label, script, yaml_text
from app.export.handoff.option import Group, Option
from app.sizing.hardware import benchmarks
from app.sizing.hardware.benchmarks import Benchmark, Places, filled
from app.sizing.hardware.engines import engine_named
from app.sizing.words import counted

ACCELERATE, DEEPSPEED = "accelerate.yaml", "ds_config.json"
SHARDED = 3  # the ZeRO stage that shards weights too
EVERY_MACHINE = (
    ': "${NODE_RANK:?0 on the first of the machines, then 1, 2, ...}" "${MASTER_ADDR:?address of the first machine}"'
)


def measured_by(option: Option, benchmark: Benchmark) -> bool:
    """Whether a run is measured by this, which starts it as well."""
    return option.groups[0].load == benchmark.load


def based_on(option: Option, framework: str) -> bool:
    """Whether a run's framework is this one or does its work with it, and has no launcher of its own."""
    found = engine_named(option.software)
    return framework in (found.name, found.judged_as) and measured_by(option, benchmarks.TRL)


def places_of(option: Option, *, whole: bool) -> Places:
    """Of the steps that are measured, or of the whole run on its user's own data."""
    places = option.groups[0].places
    return (
        {**places, "mock": None, "mock_words": None, "own_data": "", "steps": places["all_steps"]} if whole else places
    )


def launched(option: Option, command: str, *before: str) -> tuple[File, ...]:
    """The run, and the first steps of it that are measured before the rest is paid for."""
    group = option.groups[0]
    many = (EVERY_MACHINE,) if group.machines > 1 else ()
    about = (
        f"# {group.accelerators} x {group.accelerator} on {counted(group.machines, 'machine')}: started on every one."
    )
    return tuple(
        File(name, SHELL, script(option.header, about, *many, *before, f"exec {broken(filled(command, places))}"))
        for name, places in (
            ("train.sh", places_of(option, whole=True)),
            ("benchmark.sh", places_of(option, whole=False)),
        )
    )


def broken(command: str) -> str:
    """A line for every flag."""
    return re.sub(r" (--[a-z])", r" \\\n  \1", command)


def torchrun(option: Option, _version: str | None, target: str) -> Handoff:
    """torchtitan, which is PyTorch's own sharding started by torchrun."""
    notes = (
        "MODULE and CONFIG name the model's configuration in torchtitan; which activations are computed again is set "
        f"there: {_recomputed(option)}.",
        _data_note(option, "the dataset of that configuration"),
    )
    return Handoff(target, option.rank, launched(option, benchmarks.TORCHTITAN.load), notes)


def megatron(option: Option, _version: str | None, target: str) -> Handoff:
    """Megatron-LM's pretrain_gpt.py."""
    notes = (
        _data_note(option, "$DATA_FLAGS, such as --data-path and --tokenizer-model, by $OPTIMIZER_FLAGS such as --lr"),
    )
    return Handoff(target, option.rank, launched(option, benchmarks.MEGATRON.load), notes)


def deepspeed(option: Option, _version: str | None, target: str) -> Handoff:
    """DeepSpeed's configuration, and its launcher around the user's own script."""
    group = option.groups[0]
    flags = "--deepspeed --deepspeed_config " + DEEPSPEED
    command = f"torchrun {benchmarks.EVERYWHERE} $TRAIN_SCRIPT {flags}"
    needed = ': "${TRAIN_SCRIPT:?the script that trains, which reads DeepSpeed\'s configuration}"'
    config = File(DEEPSPEED, JSON, json.dumps(deepspeed_config(option), indent=2) + "\n")
    notes = (
        f"{group.whole('accumulated')} micro-batches of {group.whole('micro_batch')} on each of "
        f"{data_ranks(option)} ranks are one step of {group.whole('global_batch')} sequences.",
    )
    train = launched(option, command, needed)[0]
    return Handoff(target, option.rank, (config, train), notes)


def data_ranks(option: Option) -> int:
    """Ranks that each have their own part of a batch."""
    return int(option.deployment.get("data_parallel") or 1)


def deepspeed_config(option: Option) -> dict[str, Any]:
    """Its batch is the product of micro-batch, accumulation and ranks, which DeepSpeed checks."""
    d, group = option.deployment, option.groups[0]
    micro, accumulated = group.whole("micro_batch"), group.whole("accumulated")
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


def accelerate(option: Option, _version: str | None, target: str) -> Handoff:
    """accelerate's configuration, and TRL's trainer with it."""
    sharded = option.groups[0].accelerators > 1
    files: tuple[File, ...] = (File(ACCELERATE, YAML, commented(option.header, yaml_text(accelerate_config(option)))),)
    if sharded and based_on(option, "deepspeed"):
        files += (File(DEEPSPEED, JSON, json.dumps(deepspeed_config(option), indent=2) + "\n"),)
    command = benchmarks.TRL.load.replace("{sharding}", ACCELERATE)
    return Handoff(target, option.rank, (*files, *launched(option, command)), (_data_note(option, "$DATASET"),))


def accelerate_config(option: Option) -> dict[str, Any]:
    """What accelerate would ask: how many, how sharded, in which precision."""
    group, d = option.groups[0], option.deployment
    stage = int(d.get("zero_stage") or 0)
    kind = "NO" if group.accelerators == 1 else "MULTI_GPU" if stage == 0 else "FSDP"
    told: dict[str, Any] = {
        "compute_environment": "LOCAL_MACHINE",
        "distributed_type": kind,
        "num_machines": group.machines,
        "num_processes": group.accelerators,
        "machine_rank": 0,
        "main_training_function": "main",
        "mixed_precision": str(group.places.get("precision") or "no"),
    }
    if group.accelerators > 1 and based_on(option, "deepspeed"):
        config = {"deepspeed_config_file": DEEPSPEED, "zero3_init_flag": stage == SHARDED}
        return {**told, "distributed_type": "DEEPSPEED", "deepspeed_config": config}
    if kind != "FSDP":
        return told
    return {
        **told,
        "fsdp_config": {
            "fsdp_version": 2,
            "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
            "fsdp_reshard_after_forward": stage == SHARDED,
            "fsdp_offload_params": bool(d.get("parameter_offload") or d.get("optimizer_offload")),
            "fsdp_activation_checkpointing": d.get("activation_checkpointing") == "full",
            "fsdp_state_dict_type": "SHARDED_STATE_DICT",
        },
    }


def slurm(option: Option, version: str | None, target: str) -> Handoff:
    """A batch job around what starts the framework, or around the command that measures it."""
    group = option.groups[0]
    inner = inner_of(option, version)
    files = [file for file in inner.files if file.name != "train.sh"]
    train = next(file for file in inner.files if file.name == "train.sh")
    return Handoff(target, option.rank, (job(option, group), train, *files), inner.notes)


def job(option: Option, group: Group) -> File:
    """So many machines, a task on each, each with its number and the first one's address."""
    lines = (
        f"#SBATCH --job-name={label(group.model, 'train')}",
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
    text = "#!/usr/bin/env bash\n" + "\n".join((*lines, *(f"# {line}" for line in option.header), *body)) + "\n"
    return File("job.sbatch", SHELL, text)


def inner_of(option: Option, version: str | None) -> Handoff:
    """What a batch job starts: the framework's own way, or its trial with the whole run's steps."""
    if measured_by(option, benchmarks.MEGATRON):
        return megatron(option, version, "megatron")
    if measured_by(option, benchmarks.TORCHTITAN):
        return torchrun(option, version, "torchrun")
    if measured_by(option, benchmarks.TRL):
        return accelerate(option, version, "accelerate")
    group = option.groups[0]
    note = f"What {option.software} is to read beside its flags is named by variables in train.sh."
    return Handoff("slurm", option.rank, launched(option, group.load), (note,))


def _recomputed(option: Option) -> str:
    return str(option.deployment.get("activation_checkpointing") or "none")


def _data_note(option: Option, where: str) -> str:
    steps = option.groups[0].whole("all_steps")
    return f"train.sh takes {steps:,} steps over {where}; benchmark.sh the first few, over made-up or public data."
