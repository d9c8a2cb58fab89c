"""Runs: degrees that come to the accelerators, batches that come to the global batch, and Slurm around them."""

from __future__ import annotations

import json
import math
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from app.export.handoff.option import Handoff, Option
from app.export.handoff.targets import CannotStart, build_handoff
from app.export.handoff.training import data_ranks
from app.sizing.hardware.benchmarks import BENCHMARKS
from tests.export.handoff.stored import TRAINED, trained

MEGATRON = trained("megatron", BENCHMARKS["megatron"], tensor=2, with_tensor="", pipeline=4, contexts=2)
TORCHTITAN = trained("torchtitan", BENCHMARKS["torchtitan"], tensor=2, shards=8)
FSDP = trained("fsdp", BENCHMARKS["trl"])
ZERO = trained("deepspeed", BENCHMARKS["trl"], sharding="zero3")
UNSLOTH = trained("unsloth", BENCHMARKS["unsloth"], machines=None, accelerators=1, adapter="lora", rank=16)
# Of torchtitan/config/configs.py and Megatron-LM's training/arguments.py of August 2026.
TITAN_DEGREES = ("tensor", "pipeline", "context", "data_parallel_shard", "data_parallel_replicate")


def tokens(made: Handoff, name: str = "train.sh") -> list[str]:
    text = next(file.text for file in made.files if file.name == name)
    return shlex.split(text.split("exec ", 1)[1].replace("\\\n", " "))


def said(command: list[str], flag: str) -> int:
    return int(command[command.index(flag) + 1]) if flag in command else 1


def config(made: Handoff, name: str) -> Any:
    return yaml.safe_load(next(file.text for file in made.files if file.name == name))


def processes(command: list[str]) -> int:
    return said(command, "--nproc-per-node") * said(command, "--nnodes")


def test_torchtitan_gets_degrees_whose_product_is_the_accelerators() -> None:
    for option, target in ((TORCHTITAN, "torchrun"), (FSDP, "torchrun")):
        command = tokens(build_handoff(option, target, None))
        degrees = (
            said(command, f"--parallelism.{name}{'' if 'data' in name else '_parallel'}_degree")
            for name in TITAN_DEGREES
        )
        assert math.prod(degrees) == processes(command) == 16


def test_megatron_gets_degrees_that_divide_the_accelerators() -> None:
    made = build_handoff(MEGATRON, "megatron", None)
    command = tokens(made)
    degrees = math.prod(
        said(command, f"--{name}-parallel-size") for name in ("tensor-model", "pipeline-model", "context")
    )
    assert processes(command) == 16
    assert processes(command) % degrees == 0
    assert said(command, "--train-iters") == TRAINED["all_steps"]
    assert "--mock-data" not in command
    assert "--lr" not in command  # no learning rate was computed
    assert {"--log-throughput", "--use-distributed-optimizer", "$DATA_FLAGS"} <= set(command)
    short = tokens(made, "benchmark.sh")
    assert said(short, "--train-iters") == 50
    assert "--mock-data" in short


def test_deepspeed_checks_the_batch_in_its_settings() -> None:
    settings = json.loads(
        next(f.text for f in build_handoff(ZERO, "deepspeed", None).files if f.name == "ds_config.json")
    )
    ranks = 16
    assert settings["train_batch_size"] == 2 * 8 * ranks == TRAINED["global_batch"]
    assert settings["train_batch_size"] == (
        settings["train_micro_batch_size_per_gpu"] * settings["gradient_accumulation_steps"] * ranks
    )
    assert settings["zero_optimization"] == {"stage": 3}
    assert settings["bf16"] == {"enabled": True}


def test_accelerate_gets_the_process_count_and_the_sharding() -> None:
    made = build_handoff(FSDP, "accelerate", None)
    settings = config(made, "accelerate.yaml")
    assert (settings["num_processes"], settings["num_machines"], settings["distributed_type"]) == (16, 2, "FSDP")
    assert settings["fsdp_config"]["fsdp_reshard_after_forward"] is True
    assert settings["fsdp_config"]["fsdp_activation_checkpointing"] is True
    assert "accelerate.yaml" in tokens(made)
    zero = build_handoff(ZERO, "accelerate", None)
    assert config(zero, "accelerate.yaml")["deepspeed_config"]["deepspeed_config_file"] == "ds_config.json"
    assert config(zero, "ds_config.json")["zero_optimization"]["stage"] == 3


@pytest.mark.parametrize("option", [MEGATRON, TORCHTITAN, FSDP, ZERO, UNSLOTH], ids=lambda o: o.software)
def test_slurm_starts_any_of_them_on_all_its_machines(option: Option, tmp_path: Path) -> None:
    made = build_handoff(option, "slurm", None)
    job = next(file.text for file in made.files if file.name == "job.sbatch")
    lines = dict(
        line.removeprefix("#SBATCH --").split("=") for line in job.splitlines() if "#SBATCH" in line and "=" in line
    )
    assert int(lines["nodes"]) * int(lines["gpus-per-node"]) == option.groups[0].accelerators
    assert job.index("#SBATCH") < job.index("set -euo")
    for file in made.files:
        if file.media_type == "application/x-sh":
            path = tmp_path / file.name
            path.write_text(file.text)
            subprocess.run(["bash", "-n", str(path)], check=True)


def test_each_framework_is_started_by_its_own() -> None:
    able = {
        "megatron": (MEGATRON,),
        "torchrun": (TORCHTITAN, FSDP),
        "deepspeed": (ZERO,),
        "accelerate": (FSDP, ZERO),
    }
    for target, options in able.items():
        for option in (MEGATRON, TORCHTITAN, FSDP, ZERO, UNSLOTH):
            if option in options:
                assert build_handoff(option, target, None).files
            else:
                with pytest.raises(CannotStart, match="slurm"):
                    build_handoff(option, target, None)
    with pytest.raises(CannotStart, match="trains with Megatron-LM, which the target vllm cannot start"):
        build_handoff(MEGATRON, "vllm", None)


@pytest.mark.parametrize(
    ("option", "target"),
    [(MEGATRON, "megatron"), (TORCHTITAN, "torchrun"), (FSDP, "accelerate"), (ZERO, "accelerate")],
    ids=lambda o: getattr(o, "software", o),
)
def test_slurm_runs_the_same_script_as_the_launcher_of_the_framework(option: Option, target: str) -> None:
    job, own = build_handoff(option, "slurm", None), build_handoff(option, target, None)
    assert tokens(job) == tokens(own)
    assert {file.name for file in own.files} <= {file.name for file in job.files}


def test_a_framework_without_a_launcher_runs_its_own_command() -> None:
    made = build_handoff(UNSLOTH, "slurm", None)
    assert any("Set the variables in train.sh" in note for note in made.notes)
    assert not any("Set the variables" in note for note in build_handoff(MEGATRON, "slurm", None).notes)


@pytest.mark.parametrize(("deployment", "ranks"), [({"data_parallel": 8}, 8), ({"data_parallel": None}, 1), ({}, 1)])
def test_a_run_without_a_data_parallel_degree_has_one_rank(deployment: dict[str, Any], ranks: int) -> None:
    option: Any = SimpleNamespace(deployment=deployment)
    assert data_ranks(option) == ranks


def test_deepspeed_reads_the_settings_that_come_with_its_script() -> None:
    made = build_handoff(ZERO, "deepspeed", None)
    command = tokens(made)
    assert command[command.index("--deepspeed_config") + 1] in {file.name for file in made.files}
    assert "--deepspeed" in command


@pytest.mark.parametrize("mode", ["full", "selective", "none", None])
def test_settings_say_how_activations_are_kept(mode: str | None) -> None:
    option = replace(TORCHTITAN, deployment={**TORCHTITAN.deployment, "activation_checkpointing": mode})
    notes = " ".join(build_handoff(option, "torchrun", None).notes)
    assert f"{mode or 'none'}." in notes
