"""Files of a hand-off, read by the parsers and configuration classes of their tools."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.export.handoff.option import Option
from app.export.handoff.run import training_run
from app.export.handoff.targets import build_files
from tests.export.handoff.runs import RUNS
from tests.export.handoff.stored import DAY, pooled, served
from tests.export.handoff.test_clouds import AWS
from tests.export.handoff.test_cluster import SPANNING
from tests.export.handoff.test_jobs import MANY, ONE, RENTED

pytestmark = pytest.mark.torch
ONE_MACHINE = (served(), served(offer=AWS), pooled(), served(offer=AWS, day=DAY), ONE, MANY, RENTED)
# Values of the variables that train.sh writes into configurations; all others are texts.
INPUTS = {"$LEARNING_RATE": 1e-5, "$STEPS": 100, "$SAVE_STEPS": 10, "$WARMUP_STEPS": 3, "$SEED": 42}


def read_documents(option: Option, target: str) -> list[dict[str, Any]]:
    return [yaml.safe_load(f.text) for f in build_files(option, target, None).files if f".{target[:3]}" in f.name]


def read_runs(trainer: str) -> list[dict[str, str]]:
    """Files of the runs of a launcher, by name."""
    options = [option for option in RUNS.values() if training_run(option).trainer.name == trainer]
    return [{file.name: file.text for file in build_files(option, "shell", None).files} for option in options]


def command_words(files: dict[str, str]) -> list[str]:
    """Words of the command in train.sh."""
    return shlex.split(files["train.sh"].split("train=(\n", 1)[1].split("\n)\n", 1)[0])


def test_dstack_reads_its_configurations() -> None:
    configurations = pytest.importorskip("dstack._internal.core.models.configurations")
    read = [
        configurations.parse_apply_configuration(document)
        for option in ONE_MACHINE
        for document in read_documents(option, "dstack")
    ]
    assert [each.type for each in read] == ["service"] * 5 + ["task"] * 3


def test_skypilot_reads_its_tasks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    sky = pytest.importorskip("sky")
    inputs = {"DATASET": "org/data", "LEARNING_RATE": "1e-5", "OUTPUT_BUCKET": "s3://bucket"}  # as `--env` gives them
    read = [
        sky.Task.from_yaml_config(document, env_overrides=[*inputs.items()])
        for option in (*ONE_MACHINE, served(offer=AWS, **SPANNING))
        for document in read_documents(option, "skypilot")
    ]
    assert [task.num_nodes for task in read] == [1] * 6 + [2, 2, 2]


@pytest.mark.filterwarnings("ignore:.gradient_checkpointing. is deprecated:FutureWarning")
def test_classes_of_trl_peft_and_accelerate_take_every_setting(tmp_path: Path) -> None:
    trl, peft, transformers = (pytest.importorskip(name) for name in ("trl", "peft", "transformers"))
    accelerate = pytest.importorskip("accelerate.commands.config.config_args")
    parser = pytest.importorskip("accelerate.commands.launch").launch_command_parser()
    for files in read_runs("trl"):
        settings = yaml.safe_load(files["train.yaml"])
        trl.SFTConfig(**settings["arguments"], output_dir=str(tmp_path), use_cpu=True)
        if "lora" in settings:
            peft.LoraConfig(**settings["lora"])
        if "four_bit" in settings["model"]:
            transformers.BitsAndBytesConfig(**settings["model"]["four_bit"])
        (tmp_path / "accelerate.yaml").write_text(files["accelerate.yaml"])
        accelerate.load_config_from_file(str(tmp_path / "accelerate.yaml"))
        program, action, *words = [word.replace("$NODE_RANK", "1") for word in command_words(files)]
        assert (program, action) == ("accelerate", "launch")
        assert parser.parse_args(words).training_script == "train.py"


def test_classes_of_llama_factory_take_every_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISABLE_VERSION_CHECK", "1")  # of the libraries that other tools share with it
    hparams, transformers = pytest.importorskip("llamafactory.hparams.parser"), pytest.importorskip("transformers")
    for files in read_runs("llama-factory"):
        settings = {
            key: INPUTS.get(value, value) if isinstance(value, str) else value
            for key, value in yaml.safe_load(files["llama_factory.yaml"]).items()
            if key != "fsdp"  # needs accelerators
        }
        parser = transformers.HfArgumentParser(hparams._TRAIN_ARGS)
        parser.parse_dict({**settings, "use_cpu": True})


def test_torchrun_reads_every_launch() -> None:
    run = pytest.importorskip("torch.distributed.run")
    launches = [
        command_words(files)
        for trainer in ("lightning", "torchtitan", "megatron", "megatron-bridge", "megatron-bridge-sft")
        for files in read_runs(trainer)
    ]
    for words in launches:
        assert words[0] == "torchrun"
        arguments = run.get_args_parser().parse_args(words[1:])
        assert arguments.max_restarts == 3
        assert arguments.rdzv_backend == ("c10d" if arguments.nnodes != "1:1" else "static")
